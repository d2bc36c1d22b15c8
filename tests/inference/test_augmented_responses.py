"""Compiled augmentations of likelihoods: what they fill, the parameters that they draw, and both together.

Null of the statistical tests: the draws follow the law that the likelihood says. Averages: abs(z) < 5.5, which one
comparison exceeds with probability 4e-8. Distribution functions: Kolmogorov-Smirnov, p > 1e-7 each, some 60 of them.
Together the false-alarm rate is below 1e-5.
"""

from __future__ import annotations

import math

import mpmath as mp
import numpy as np
import pytest
from numba import njit
from scipy import stats

from zoo.inference.gibbs import augmented_discrete_responses as discrete
from zoo.inference.gibbs import augmented_real_responses as real
from zoo.inference.gibbs.augmented_discrete_responses import (
    LogisticParameters,
    NegativeBinomialLaws,
    NegativeBinomialParameters,
    logistic_draw,
    logistic_log_density,
    negative_binomial_draw,
    negative_binomial_log_density,
    negative_binomial_update,
)
from zoo.inference.gibbs.augmented_real_responses import (
    GaussianLaws,
    GaussianParameters,
    LaplaceLaws,
    LaplaceParameters,
    StudentTLaws,
    StudentTParameters,
    gaussian_draw,
    gaussian_log_density,
    gaussian_update,
    laplace_draw,
    laplace_log_density,
    laplace_update,
    student_t_draw,
    student_t_log_density,
    student_t_update,
)
from zoo.inference.gibbs.parameter_laws import (
    fixed,
    gamma,
    inverse_gamma_of_square,
    log_law,
    log_normal,
    rows_by_group,
)

P = 1e-7
DRAW = {
    "gaussian": gaussian_draw,
    "student_t": student_t_draw,
    "laplace": laplace_draw,
    "logistic": logistic_draw,
    "negative_binomial": negative_binomial_draw,
}
LOG_DENSITY = {
    "gaussian": gaussian_log_density,
    "student_t": student_t_log_density,
    "laplace": laplace_log_density,
    "logistic": logistic_log_density,
    "negative_binomial": negative_binomial_log_density,
}
UPDATE = {
    "gaussian": gaussian_update,
    "student_t": student_t_update,
    "laplace": laplace_update,
    "negative_binomial": negative_binomial_update,
}
PARAMETERS = {
    "gaussian": GaussianParameters,
    "student_t": StudentTParameters,
    "laplace": LaplaceParameters,
    "logistic": LogisticParameters,
    "negative_binomial": NegativeBinomialParameters,
}
LAWS = {
    "gaussian": GaussianLaws,
    "student_t": StudentTLaws,
    "laplace": LaplaceLaws,
    "negative_binomial": NegativeBinomialLaws,
}
SHARED = {
    "gaussian": ([0.7],),
    "student_t": ([0.7], [3.5]),
    "laplace": ([0.7],),
    "logistic": (),
    "negative_binomial": ([1.3],),
}
BY_TASK = {
    "gaussian": ([0.7, 0.2, 2.0],),
    "student_t": ([0.7, 0.2, 2.0], [3.5, 1.2, 250.0]),
    "laplace": ([0.7, 0.2, 2.0],),
    "logistic": (),
    "negative_binomial": ([1.3, 0.4, 320.0],),
}


def parameters(word: str, values):
    return PARAMETERS[word](*(np.array(v, dtype=float) for v in values))


def rows(word: str, n: int, rng: np.random.Generator):
    """Function values, responses, weights and tasks, none in order."""
    f, task, weight = rng.standard_normal(n), rng.integers(0, 3, n), rng.gamma(2.0, 0.6, n)
    if word == "logistic":
        y = np.where(rng.random(n) < 0.4, 1.0, -1.0)
    elif word == "negative_binomial":
        y = rng.poisson(np.exp(f) * rng.gamma(1.3, 1 / 1.3, n)).astype(float)
    else:
        y = f + 0.7 * rng.standard_t(3.5, n)
    return f, y, weight, task


def log_density(word: str, f, y, values):
    """By SciPy, without log y! for counts; ``values`` has one number per row, or one for all."""
    if word == "gaussian":
        return stats.norm.logpdf(y, f, values[0])
    if word == "student_t":
        return stats.t.logpdf(y, values[1], f, values[0])
    if word == "laplace":
        return stats.laplace.logpdf(y, f, values[0])
    if word == "logistic":
        return -np.logaddexp(0.0, -y * f)
    d = values[0]
    return stats.nbinom.logpmf(y, d, d / (d + np.exp(f))) + np.vectorize(math.lgamma)(y + 1.0)


# ---------------------------------------------------------------- densities


@pytest.mark.parametrize("word", DRAW)
@pytest.mark.parametrize("by_task", [False, True])
def test_log_density(word, by_task):
    f, y, weight, task = rows(word, 60, np.random.default_rng(1))
    given = BY_TASK[word] if by_task else SHARED[word]
    values = [np.array(v)[task if by_task else np.zeros_like(task)] for v in given]
    expected = weight * log_density(word, f, y, values)
    for n_groups in (1, 3):
        total = np.full(n_groups, np.nan)
        LOG_DENSITY[word](f, y, weight, task, parameters(word, given), total)
        group = task if n_groups > 1 else np.zeros_like(task)
        assert total == pytest.approx(np.bincount(group, expected, n_groups), rel=1e-11)


@pytest.mark.parametrize("nu", [0.1, 3.0, 99.9, 100.1, 1e4, 1e10])
def test_normaliser_of_t_keeps_its_digits(nu):
    with mp.workdps(50):
        exact = (
            mp.loggamma((mp.mpf(nu) + 1) / 2) - mp.loggamma(mp.mpf(nu) / 2) - mp.log(mp.mpf(nu) * mp.pi) / 2
        )
    assert real._t_normaliser(nu) == pytest.approx(float(exact), rel=1e-13)


@pytest.mark.parametrize("d", [1e-3, 2.0, 99.9, 100.1, 1e4, 1e12])
@pytest.mark.parametrize("y", [0.0, 1.0, 7.0, 5000.0])
def test_rising_factorial_keeps_its_digits(d, y):
    with mp.workdps(50):
        exact = mp.loggamma(mp.mpf(d) + y) - mp.loggamma(mp.mpf(d)) - y * mp.log(mp.mpf(d))
    assert discrete._log_rising(d, y) == pytest.approx(float(exact), rel=1e-10, abs=1e-12 * (1 + y))


def test_laws_are_densities_of_the_logarithm():
    u = np.linspace(-1.0, 1.5, 7)
    x = np.exp(u)
    for law, density in [
        (log_normal(0.3, 0.8), stats.lognorm.logpdf(x, 0.8, scale=math.exp(0.3)) + u),
        (gamma(2.0, 0.1), stats.gamma.logpdf(x, 2.0, scale=10.0) + u),
        # The density of s is that of its square times 2 s.
        (inverse_gamma_of_square(3.0, 1.5), stats.invgamma.logpdf(x**2, 3.0, scale=1.5) + np.log(2 * x) + u),
        (fixed(), np.zeros(7)),
    ]:
        value = np.array([log_law(law, v) for v in u])
        assert np.allclose(value - value[0], density - density[0], atol=1e-12)


def test_rows_by_group():
    task = np.array([2, 0, 2, 3, 0])
    order, starts = rows_by_group(task, 4)
    assert order.tolist() == [1, 4, 0, 2, 3]
    assert starts.tolist() == [0, 2, 2, 4, 5]
    order, starts = rows_by_group(task, 1)
    assert order.tolist() == [0, 1, 2, 3, 4]
    assert starts.tolist() == [0, 5]


# ---------------------------------------------------------------- the auxiliary variables


def filled(word: str, f: float, y: float, h: float, n: int, seed: int = 0):
    """``n`` draws of w and v of one row."""
    w, v = np.empty(n), np.empty(n)
    task = np.zeros(n, dtype=int)
    given = parameters(word, SHARED[word])
    DRAW[word](np.random.default_rng(seed), np.full(n, f), np.full(n, y), np.full(n, h), task, given, w, v)
    return w, v


RESPONSE = {"gaussian": 1.3, "student_t": 1.3, "laplace": 1.3, "logistic": -1.0, "negative_binomial": 3.0}


@pytest.mark.parametrize("word", DRAW)
@pytest.mark.parametrize("h", [0.4, 1.0, 2.0, 2.7])
def test_integral_over_the_auxiliary_variables_is_the_likelihood(word, h):
    # Given f the auxiliary variables have the density exp(-w f^2/2 + v f) times a factor without f over the
    # likelihood at f, whence E exp(-w (g^2 - f^2)/2 + v (g - f)) = likelihood at g over that at f, for any g.
    # Away from y, and from 0 where labels and counts have their centre, the exponent is bounded above.
    y, values = RESPONSE[word], [v[0] for v in SHARED[word]]
    f = 0.4
    for g in (-1.2, -3.0) if word != "negative_binomial" else (1.9, -4.0):
        w, v = filled(word, f, y, h, 200_000)
        ratio = np.exp(-0.5 * w * (g * g - f * f) + v * (g - f))
        expected = math.exp(h * (log_density(word, g, y, values) - log_density(word, f, y, values)))
        error = 5.5 * ratio.std() / math.sqrt(len(ratio)) + 1e-12
        assert abs(ratio.mean() - expected) < error, f"g = {g}"


@pytest.mark.parametrize("word", DRAW)
def test_weight_two_is_a_row_twice(word):
    n, y = 40_000, RESPONSE[word]
    w2, v2 = filled(word, 0.4, y, 2.0, n, seed=1)
    first, second = filled(word, 0.4, y, 1.0, n, seed=2), filled(word, 0.4, y, 1.0, n, seed=3)
    w, v = first[0] + second[0], first[1] + second[1]
    if word == "gaussian":
        assert np.allclose(w2, w)
    else:
        assert stats.ks_2samp(w2, w).pvalue > P
    # The linear term is a function of w: what does not come from w is twice that of a row.
    slope = {
        "gaussian": y,
        "student_t": y,
        "laplace": y,
        "logistic": 0.0,
        "negative_binomial": math.log(1.3),
    }[word]
    assert np.allclose(v2 - slope * w2, (v - slope * w)[0], atol=1e-10)


@pytest.mark.parametrize("word", DRAW)
def test_tasks_use_their_own_parameters(word):
    n = 30_000
    task = np.random.default_rng(0).integers(0, 3, n)
    given = parameters(word, BY_TASK[word])
    w, v = np.empty(n), np.empty(n)
    y = np.full(n, RESPONSE[word])
    DRAW[word](np.random.default_rng(1), np.full(n, 0.4), y, np.ones(n), task, given, w, v)
    for t in range(3):
        own = parameters(word, [[values[t]] for values in BY_TASK[word]])
        one, _ = np.empty(n), np.empty(n)
        DRAW[word](np.random.default_rng(2 + t), np.full(n, 0.4), y, np.ones(n), task, own, one, np.empty(n))
        if word == "gaussian":
            assert np.allclose(w[task == t], one[0])
        else:
            assert stats.ks_2samp(w[task == t], one).pvalue > P


def test_extreme_function_values():
    f = np.array([-1e200, -800.0, 800.0, 1e200])
    weight, task = np.array([1.0, 0.5, 2.5, 1.0]), np.zeros(4, dtype=int)
    for word in ("logistic", "negative_binomial"):
        w, v, total = np.empty(4), np.empty(4), np.empty(1)
        y = np.array([1.0, -1.0, 1.0, 1.0]) if word == "logistic" else np.array([0.0, 3.0, 1.0, 2.0])
        given = parameters(word, SHARED[word])
        DRAW[word](np.random.default_rng(0), f, y, weight, task, given, w, v)
        LOG_DENSITY[word](f, y, weight, task, given, total)
        assert np.all(np.isfinite(w)) and np.all(w >= 0.0) and np.all(np.isfinite(v))
        assert np.isfinite(total[0])


def test_a_response_that_the_function_meets():
    """Its precision has no mean under the Laplace law, and is a finite draw."""
    f = np.full(2000, 0.4)
    w, v = np.empty(2000), np.empty(2000)
    given = parameters("laplace", SHARED["laplace"])
    laplace_draw(np.random.default_rng(0), f, f, np.ones(2000), np.zeros(2000, dtype=int), given, w, v)
    assert np.all(np.isfinite(w)) and np.all(w > 0.0)
    # 1 / w is s^2 times a squared normal variable.
    assert stats.kstest(0.7**-2 / w, stats.chi2(1).cdf).pvalue > P


# ---------------------------------------------------------------- parameters


@njit
def _chain(update, rng, f, y, weight, task, given, laws, steps, n, out):
    """The parameters, as columns, after every ``steps`` updates."""
    for i in range(n):
        for _ in range(steps):
            update(rng, f, y, weight, task, given, laws)
        k = 0
        for values in given:
            for t in range(len(values)):
                out[i, k] = values[t]
                k += 1


def updated(word, data, given, laws, n=4000, steps=8, seed=5):
    f, y, weight, task = data
    out = np.empty((n, sum(len(v) for v in given)))
    _chain(UPDATE[word], np.random.default_rng(seed), f, y, weight, task, given, laws, steps, n, out)
    return out


def assert_follows(draws: np.ndarray, log_u, what: str) -> None:
    """Draws of a parameter against the density of its logarithm, by quadrature."""
    u = np.linspace(-7.0, 9.0, 3001)
    value = np.array([log_u(v) for v in u])
    mass = np.cumsum(np.exp(value - value.max()))
    cdf = (mass - 0.5 * np.exp(value - value.max())) / mass[-1]
    assert cdf[0] < 1e-6 and cdf[-1] > 1 - 1e-6, "the grid is too short"
    assert stats.kstest(np.log(draws), lambda v: np.interp(v, u, cdf)).pvalue > P, what


LAW_OF_SCALE = {
    "inverse gamma": inverse_gamma_of_square(3.0, 1.5),
    "log normal": log_normal(-0.4, 0.5),
    "gamma": gamma(2.0, 3.0),
}


@pytest.mark.parametrize("law", LAW_OF_SCALE.values(), ids=LAW_OF_SCALE.keys())
@pytest.mark.parametrize("word", ["gaussian", "student_t", "laplace"])
@pytest.mark.parametrize("by_task", [False, True], ids=["shared", "by task"])
def test_scale_given_functions(word, law, by_task):
    f, y, weight, task = data = rows(word, 24, np.random.default_rng(3))
    start = (np.full(3 if by_task else 1, 1.0), *([np.array([3.5])] * (word == "student_t")))
    laws = LAWS[word](law, *([fixed()] * (word == "student_t")))
    draws = updated(word, data, PARAMETERS[word](*start), laws)
    for t in range(3 if by_task else 1):
        own = task == t if by_task else task >= 0

        def log_u(u, own=own):
            values = (math.exp(u), 3.5)
            return weight[own] @ log_density(word, f[own], y[own], values) + log_law(law, u)

        assert_follows(draws[:, t], log_u, f"task {t}")
    if word == "student_t":
        assert np.all(draws[:, -1] == 3.5)


@pytest.mark.parametrize("by_task", [False, True], ids=["shared", "by task"])
def test_degrees_given_functions(by_task):
    f, y, weight, task = data = rows("student_t", 40, np.random.default_rng(3))
    scale = np.array([0.7, 0.4, 0.9])  # one per task, also where the degrees are shared
    law = gamma(2.0, 0.1)
    given = StudentTParameters(scale.copy(), np.full(3 if by_task else 1, 5.0))
    draws = updated("student_t", data, given, StudentTLaws(fixed(), law))
    assert np.all(draws[:, :3] == scale)
    for t in range(3 if by_task else 1):
        own = task == t if by_task else task >= 0

        def log_u(u, own=own):
            return weight[own] @ log_density(
                "student_t", f[own], y[own], (scale[task[own]], math.exp(u))
            ) + log_law(law, u)

        assert_follows(draws[:, 3 + t], log_u, f"task {t}")


def test_scale_and_degrees_together():
    f, y, weight, _ = data = rows("student_t", 15, np.random.default_rng(6))
    laws = StudentTLaws(inverse_gamma_of_square(3.0, 1.5), gamma(2.0, 0.1))
    given = StudentTParameters(np.array([1.0]), np.array([5.0]))
    draws = updated("student_t", data, given, laws, steps=40)
    u, k = np.meshgrid(np.linspace(-3.5, 2.5, 300), np.linspace(-6.0, 6.0, 400), indexing="ij")
    value = sum(
        h * log_density("student_t", a, b, (np.exp(u), np.exp(k)))
        for a, b, h in zip(f, y, weight, strict=True)
    ) + np.vectorize(lambda a, b: log_law(laws.noise, a) + log_law(laws.degrees, b))(u, k)
    mass = np.exp(value - value.max())
    for axis, grid in ((0, u[:, 0]), (1, k[0])):
        sums = mass.sum(axis=1 - axis)
        cdf = (np.cumsum(sums) - 0.5 * sums) / sums.sum()
        assert stats.kstest(np.log(draws[:, axis]), lambda v, g=grid, c=cdf: np.interp(v, g, c)).pvalue > P


@pytest.mark.parametrize("law", [gamma(2.0, 0.5), log_normal(0.0, 1.0)], ids=["gamma", "log normal"])
@pytest.mark.parametrize("by_task", [False, True], ids=["shared", "by task"])
def test_dispersion_given_functions(law, by_task):
    f, y, weight, task = data = rows("negative_binomial", 30, np.random.default_rng(4))
    given = NegativeBinomialParameters(np.full(3 if by_task else 1, 1.0))
    draws = updated("negative_binomial", data, given, NegativeBinomialLaws(law))
    for t in range(3 if by_task else 1):
        own = task == t if by_task else task >= 0

        def log_u(u, own=own):
            density = log_density("negative_binomial", f[own], y[own], (math.exp(u),))
            return weight[own] @ density + log_law(law, u)

        assert_follows(draws[:, t], log_u, f"task {t}")


@pytest.mark.parametrize("word", UPDATE)
def test_fixed_parameters_stay_and_draw_nothing(word):
    f, y, weight, task = rows(word, 20, np.random.default_rng(0))
    given = parameters(word, BY_TASK[word])
    rng = np.random.default_rng(1)
    UPDATE[word](rng, f, y, weight, task, given, LAWS[word](*(fixed() for _ in given)))
    assert [v.tolist() for v in given] == [list(v) for v in BY_TASK[word]]
    assert rng.random() == np.random.default_rng(1).random()


def test_a_task_without_rows_draws_from_the_prior():
    law = inverse_gamma_of_square(3.0, 1.5)
    none = np.empty(0), np.empty(0), np.empty(0), np.empty(0, dtype=int)
    for word, laws in (("gaussian", GaussianLaws(law)), ("student_t", StudentTLaws(law, gamma(2.0, 0.1)))):
        given = parameters(word, [[1.0, 1.0]] * len(laws))
        draws = updated(word, none, given, laws)
        assert stats.kstest(draws[:, 1] ** 2, stats.invgamma(3.0, scale=1.5).cdf).pvalue > P


# ---------------------------------------------------------------- both together


@njit
def _sweeps(update, draw, rng, f, Y, task, starts, given, laws, sweeps, out):
    """From the prior, its data, and sweeps; ``f`` (R, n) normal with variance 1 a priori, ``starts`` (R, k)."""
    R, n = Y.shape
    weight, w, v = np.ones(n), np.empty(n), np.empty(n)
    for i in range(R):
        k = 0
        for values in given:
            values[0] = starts[i, k]
            k += 1
        g = f[i].copy()
        for _ in range(sweeps):
            update(rng, g, Y[i], weight, task, given, laws)
            draw(rng, g, Y[i], weight, task, given, w, v)
            for j in range(n):
                g[j] = v[j] / (1.0 + w[j]) + rng.standard_normal() / np.sqrt(1.0 + w[j])
        k = 0
        for values in given:
            out[i, k] = values[0]
            k += 1
        out[i, k] = g[0]
        out[i, k + 1] = g[0] * g[1]


@njit
def _no_update(rng, f, y, weight, task, given, laws):
    pass


@pytest.mark.parametrize("word", DRAW)
def test_prior_draws_keep_their_law(word):
    # Null: after sweeps given data from the likelihood, functions and parameters still follow the prior.
    rng = np.random.default_rng(8)
    R, n = 20_000, 6
    f = rng.standard_normal((R, n))
    scale, degrees, dispersion = (
        np.sqrt(1.5 / rng.gamma(3.0, size=R)),
        rng.gamma(2.0, 10.0, R),
        rng.gamma(2.0, 2.0, R),
    )
    law = inverse_gamma_of_square(3.0, 1.5)
    inverse_gamma = stats.invgamma(3.0, scale=1.5)
    if word == "gaussian":
        Y, starts, laws = f + scale[:, None] * rng.standard_normal((R, n)), [scale], GaussianLaws(law)
        cdfs = [lambda s: inverse_gamma.cdf(s**2)]
    elif word == "student_t":
        Y = f + scale[:, None] * rng.standard_t(degrees[:, None], (R, n))
        starts, laws = [scale, degrees], StudentTLaws(law, gamma(2.0, 0.1))
        cdfs = [lambda s: inverse_gamma.cdf(s**2), stats.gamma(2.0, scale=10.0).cdf]
    elif word == "laplace":
        Y, starts, laws = f + rng.laplace(0.0, scale[:, None], (R, n)), [scale], LaplaceLaws(law)
        cdfs = [lambda s: inverse_gamma.cdf(s**2)]
    elif word == "logistic":
        Y = np.where(rng.random((R, n)) < 1 / (1 + np.exp(-f)), 1.0, -1.0)
        starts, laws, cdfs = [], LogisticParameters(), []
    else:
        Y = rng.poisson(np.exp(f) * rng.gamma(dispersion[:, None], size=(R, n)) / dispersion[:, None])
        Y, starts, laws = Y.astype(float), [dispersion], NegativeBinomialLaws(gamma(2.0, 0.5))
        cdfs = [stats.gamma(2.0, scale=2.0).cdf]
    given = PARAMETERS[word](*(np.ones(1) for _ in starts))
    if word == "logistic":  # Numba has no loop over a tuple of nothing: one number that no one reads
        given, starts, cdfs = GaussianParameters(np.ones(1)), [np.ones(R)], [None]
    columns = np.column_stack(starts)
    out = np.empty((R, len(starts) + 2))
    update = UPDATE.get(word, _no_update)
    _sweeps(update, DRAW[word], rng, f, Y, np.zeros(n, dtype=int), columns, given, laws, 4, out)
    for k, cdf in enumerate([*cdfs, stats.norm.cdf]):
        assert cdf is None or stats.kstest(out[:, k], cdf).pvalue > P, f"column {k}"
    product = out[:, -1]
    assert abs(product.mean()) < 5.5 * product.std() / math.sqrt(R)
