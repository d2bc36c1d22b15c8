"""The probit likelihood: digits in both tails, exact truncated normal draws, and its augmentation.

Null of the statistical tests: the draws follow the law that the likelihood says. Distribution functions:
Kolmogorov-Smirnov, p > 1e-7 each, 12 of them. Averages: abs(z) < 5.5, 4e-8 each, 4 of them. Together the false-alarm
rate is below 2e-6.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.special import log_ndtr, ndtr

import zoo
from zoo.inference.gibbs.augmented_probit import (
    ProbitParameters,
    log_normal_cdf,
    normal_excess,
    probit_draw,
    probit_log_density,
)
from zoo.likelihoods.derivatives import DifferentiatedResponses

P = 1e-7
Z = np.array([-1e6, -1e3, -50.0, -20.001, -19.999, -5.0, -1.0, -0.3, 0.0, 0.7, 3.0, 8.0, 37.0, 40.0, 1e6])


def exact(z: float) -> tuple[float, float, float]:
    """Logarithm of the normal distribution function and its first two derivatives, to 60 digits."""
    with mp.workdps(60):
        x = mp.mpf(z)
        cdf = mp.erfc(-x / mp.sqrt(2)) / 2
        slope = mp.npdf(x) / cdf
        log = mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(cdf)
        return float(log), float(slope), float(-slope * (slope + x))


def test_density_and_derivatives_have_digits_in_both_tails():
    likelihood = zoo.Probit()
    expected = np.array([exact(z) for z in Z]).T
    for y in (1.0, -1.0):
        f = y * Z
        symbol = pt.dvector()
        value = likelihood.log_density(symbol, np.full(len(Z), y))
        slope = pytensor.grad(value.sum(), symbol)
        second = pytensor.grad(slope.sum(), symbol)
        found = pytensor.function([symbol], [value, slope, second], mode="FAST_COMPILE")(f)
        near = np.abs(Z) < 1e5
        np.testing.assert_allclose(found[0], expected[0], rtol=1e-13, atol=1e-300)
        np.testing.assert_allclose(found[1], y * expected[1], rtol=1e-12, atol=1e-300)
        np.testing.assert_allclose(found[2][near], expected[2][near], rtol=1e-9, atol=1e-300)
        assert np.all(found[2] <= 0.0)
    np.testing.assert_allclose(likelihood.probability(Z), ndtr(Z))


def test_compiled_log_density():
    found = np.array([log_normal_cdf(z) for z in Z])
    np.testing.assert_allclose(found, [exact(z)[0] for z in Z], rtol=1e-13, atol=1e-300)
    rng = np.random.default_rng(0)
    f, y = 3.0 * rng.standard_normal(40), np.where(rng.random(40) < 0.5, 1.0, -1.0)
    weight, task = rng.gamma(2.0, size=40), rng.integers(0, 3, 40)
    for n_groups in (1, 3):
        total = np.full(n_groups, np.nan)
        probit_log_density(f, y, weight, task, ProbitParameters(), total)
        group = task if n_groups > 1 else np.zeros_like(task)
        np.testing.assert_allclose(total, np.bincount(group, weight * log_ndtr(y * f), n_groups), rtol=1e-12)


# ---------------------------------------------------------------- truncated normal variables


@pytest.mark.parametrize("a", [-40.0, -3.0, -0.4, 0.0, 1e-9, 0.3, 1.0, 4.0, 30.0, 1e4, 1e9])
def test_the_excess_is_that_of_a_normal_variable(a):
    rng = np.random.default_rng(1)
    x = np.array([normal_excess(rng, a) for _ in range(20_000)])
    assert np.all(x >= 0.0)
    # P(t - a > x | t > a) by logarithms; a + x is x / a away from a where a is large.
    if a < 1e3:
        survival = np.exp(log_ndtr(-(a + x)) - log_ndtr(-a))
    else:
        survival = np.exp(-a * x - 0.5 * x**2)
    assert stats.kstest(survival, "uniform").pvalue > P


def test_extreme_bounds():
    rng = np.random.default_rng(0)
    assert math.isnan(normal_excess(rng, math.nan))
    assert normal_excess(rng, math.inf) == 0.0
    assert normal_excess(rng, 1e200) < 1e-198
    assert normal_excess(rng, -1e200) == 1e200


# ---------------------------------------------------------------- the augmentation


def draws(f: float, y: float, n: int):
    w, v = np.empty(n), np.empty(n)
    nothing = np.zeros(n, dtype=int)
    rng = np.random.default_rng(2)
    probit_draw(rng, np.full(n, f), np.full(n, y), np.ones(n), nothing, ProbitParameters(), w, v)
    return w, v


@pytest.mark.parametrize(("f", "y"), [(0.4, 1.0), (0.4, -1.0), (-9.0, 1.0), (50.0, -1.0)])
def test_the_latent_variable_lies_on_the_side_of_the_label(f, y):
    w, v = draws(f, y, 5_000)
    assert np.all(w == 1.0) and np.all(y * v >= 0.0) and np.all(np.isfinite(v))


@pytest.mark.parametrize("y", [1.0, -1.0])
@pytest.mark.parametrize("g", [-1.2, 0.9])
def test_integral_over_the_latent_variable_is_the_likelihood(y, g):
    """E exp(-(g^2 - f^2)/2 + z (g - f)) over z given f is the likelihood at g over that at f."""
    f = 0.4
    w, v = draws(f, y, 200_000)
    ratio = np.exp(-0.5 * w * (g * g - f * f) + v * (g - f))
    expected = math.exp(log_ndtr(y * g) - log_ndtr(y * f))
    assert abs(ratio.mean() - expected) < 5.5 * ratio.std() / math.sqrt(len(ratio))


# ---------------------------------------------------------------- Laplace's method


def test_responses_for_laplace_are_concave():
    y = np.array([1.0, -1.0, 1.0, 1.0])
    responses = DifferentiatedResponses(zoo.Probit(), y)
    found = responses.density(np.array([-30.0, 0.2, 3.0, 40.0]), np.zeros(0))
    expected = [exact(z) for z in (-30.0, -0.2, 3.0, 40.0)]
    assert found[0] == pytest.approx(sum(e[0] for e in expected), rel=1e-12)
    np.testing.assert_allclose(found[1], y * [e[1] for e in expected], rtol=1e-10, atol=1e-300)
    np.testing.assert_allclose(found[2], [-e[2] for e in expected], rtol=1e-9, atol=1e-300)


def test_probit_and_logistic_say_much_the_same():
    """Functions on the scale of the logistic law are some 1.7 times as large; classes and probabilities agree."""
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((160, 2)), np.arange(160) % 4
    y = np.where(X @ [1.5, -1.0] + rng.standard_normal(160) > 0.0, 1.0, 0.0)
    data = zoo.MultiTaskData.from_arrays(X, y, task, t=rng.uniform(size=160))
    found = []
    for word in ("probit", "logistic"):
        factory = zoo.VaryingCoefficientGP(likelihood=word)
        fit = factory.fit(data, "laplace", draws=50, chains=2, random_seed=1, progress=False)
        t = data.t[:60]
        found.append(fit.predict(data.X[:60], task[:60], t, random_seed=1)["probability"].to_numpy())
    assert np.max(np.abs(found[0] - found[1])) < 0.08
    assert np.mean((found[0] > 0.5) == (y[:60] > 0.5)) > 0.7
