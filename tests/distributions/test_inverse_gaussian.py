"""Inverse Gaussian and generalised inverse Gaussian laws against scipy, in compiled mode."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numba import njit
from pymc.logprob.utils import ParameterValueError
from scipy import integrate, special, stats

from zoo.distributions import GeneralisedInverseGaussian, InverseGaussian
from zoo.inference.gibbs.draws import inverse_gaussians

ALARM = 1e-5
MEANS = [1e-8, 1e-3, 1.0, 30.0, 1e4, 1e8, 1e12, 1e99, 1e101, 1e300, np.inf]


def exact_cdf(x, mean):
    """Distribution function for shape 1, by the reflection formula with the product of its second term in logs."""
    x = np.asarray(x)
    first = special.ndtr(np.sqrt(1 / x) * (x / mean - 1))
    return first + np.exp(2 / mean + special.log_ndtr(-np.sqrt(1 / x) * (x / mean + 1)))


@njit
def _compiled(rng, mean, n):
    draws = np.full(n, mean)
    inverse_gaussians(rng, draws, draws)
    return draws


@pytest.fixture(scope="module")
def graph():
    """The distribution's own draws, compiled once; each call goes on with the generator."""
    mean, shape = pt.dscalar("mean"), pt.dscalar("shape")
    rng = pytensor.shared(np.random.default_rng(3))
    draws = InverseGaussian.dist(mean, shape, size=20_000, rng=rng)
    return pytensor.function([mean, shape], draws, updates={rng: draws.owner.outputs[0]})


@pytest.mark.compiled
@pytest.mark.parametrize("mean", MEANS)
@pytest.mark.parametrize("engine", ["distribution", "sampler"])
def test_draws_have_the_exact_law(engine, mean, graph):
    # Null: the exact law; Kolmogorov-Smirnov on 20,000 draws; false alarm 1e-5 a test. 1 / draw is chi-square(1) in the
    # limit, which a mean of 1e8 meets to 1e-8.
    draws = (
        graph(mean, 1.0) if engine == "distribution" else _compiled(np.random.default_rng(4), mean, 20_000)
    )
    assert np.all(draws > 0) and np.all(np.isfinite(draws))
    if mean >= 1e8:
        assert stats.kstest(1 / draws, stats.chi2(1).cdf).pvalue > ALARM
    else:
        assert stats.kstest(draws, lambda x: exact_cdf(x, mean)).pvalue > ALARM


def test_block_ends_are_drawn():
    # 512 draws make a block: lengths around it, each row with its own mean. Null: u = F(draw) is uniform.
    rng = np.random.default_rng(5)
    for n in (1, 511, 512, 513, 1100):
        mean = rng.gamma(1.0, size=n) + 0.1
        out = np.full(n, np.nan)
        inverse_gaussians(rng, mean, out)
        assert np.all(out > 0)
    assert stats.kstest(exact_cdf(out, mean), "uniform").pvalue > ALARM


@pytest.mark.compiled
def test_shape_scales_the_law(graph):
    # x / lam has mean mu / lam and shape 1. Null: that law; false alarm 1e-5.
    draws = graph(3.0, 7.0)
    assert stats.kstest(draws / 7.0, lambda x: exact_cdf(x, 3 / 7)).pvalue > ALARM


def test_draws_of_a_batch():
    draws = pm.draw(InverseGaussian.dist(np.array([1e-3, np.inf], dtype="float32"), [[1.0], [2.0]]), 50)
    assert draws.shape == (50, 2, 2) and draws.dtype == np.float64 and np.all(draws > 0)


def test_logp_against_scipy():
    x = np.array([1e-6, 0.3, 1.7, 40.0])
    ours = pm.logp(InverseGaussian.dist(2.0, 3.0), x).eval()
    np.testing.assert_allclose(ours, stats.invgauss.logpdf(x, 2 / 3, scale=3), rtol=1e-12)
    limit = pm.logp(InverseGaussian.dist(np.inf, 3.0), x).eval()
    np.testing.assert_allclose(limit[1:], stats.levy.logpdf(x[1:], scale=3), rtol=1e-12)
    assert np.all(pm.logp(InverseGaussian.dist(2.0, 3.0), [-1.0, 0.0, np.inf]).eval() == -np.inf)


def test_mode_is_the_initial_value():
    with pm.Model() as model:
        InverseGaussian("x", 2.0, 3.0)
        InverseGaussian("levy", np.inf, 3.0)
    values = model.initial_point()
    grid = np.linspace(0.2, 3, 20_001)
    mode = grid[np.argmax(stats.invgauss.logpdf(grid, 2 / 3, scale=3))]
    assert np.exp(values["x_log__"]) == pytest.approx(mode, abs=2e-4)
    assert np.exp(values["levy_log__"]) == pytest.approx(1.0)


# ---------------------------------------------------------------- order 1/2


@pytest.mark.parametrize(("a", "b"), [(1.0, 4.0), (2.5, 1e-6), (1.0, 1e4)])
def test_generalised_logp_and_moments(a, b):
    x = np.array([0.01, 0.8, 3.0, 150.0])
    ours = pm.logp(GeneralisedInverseGaussian.dist(a, b), x).eval()
    np.testing.assert_allclose(
        ours, stats.geninvgauss.logpdf(x, 0.5, np.sqrt(a * b), scale=np.sqrt(b / a)), rtol=1e-8
    )
    # The docstring's mean and variance, by quadrature of the law of sqrt(x), which has no pole.
    moments = [
        integrate.quad(
            lambda r, k=k: 2 * r ** (2 * k) * np.sqrt(a / (2 * np.pi)) * np.exp(
                -0.5 * (np.sqrt(a) * r - np.sqrt(b) / r) ** 2
            ),
            0, np.inf, epsabs=0, epsrel=1e-10, limit=500,
        )[0]
        for k in range(3)
    ]  # fmt: skip
    assert moments[0] == pytest.approx(1.0, rel=1e-8)
    mean = np.sqrt(b / a) + 1 / a
    assert moments[1] == pytest.approx(mean, rel=1e-8)
    assert moments[2] - mean**2 == pytest.approx(np.sqrt(b) / a**1.5 + 2 / a**2, rel=1e-5)


@pytest.mark.compiled
@pytest.mark.parametrize("b", [0.0, 1e-24, 1e-3, 1.0, 1e6])
def test_generalised_draws(b):
    # Null: 1 / x is inverse Gaussian with mean sqrt(a/b); b = 0 is Gamma(1/2, a/2). False alarm 1e-5.
    a = 2.0
    draws = pm.draw(GeneralisedInverseGaussian.dist(a, b, size=20_000), random_seed=6)
    assert np.all(draws > 0)
    if b < 1e-20:
        assert stats.kstest(draws * a, stats.chi2(1).cdf).pvalue > ALARM
    else:
        assert stats.kstest(1 / (draws * a), lambda x: exact_cdf(x, 1 / np.sqrt(a * b))).pvalue > ALARM


@pytest.mark.parametrize(
    "variable",
    [
        InverseGaussian.dist(-1.0, 1.0),
        InverseGaussian.dist(1.0, 0.0),
        GeneralisedInverseGaussian.dist(0.0, 1.0),
        GeneralisedInverseGaussian.dist(1.0, -1.0),
    ],
)
def test_bad_parameters(variable):
    with pytest.raises(ParameterValueError, match="> 0"):
        pm.draw(variable)
    with pytest.raises(ParameterValueError, match="> 0"):
        pm.logp(variable, 1.0).eval()


def test_text_is_refused():
    with pytest.raises(TypeError, match="mu is 'fast'"):
        InverseGaussian.dist("fast")
