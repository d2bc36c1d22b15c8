"""Random variates of the compiled samplers against scipy."""

from __future__ import annotations

import numpy as np
import pytest
from numba import njit
from scipy import stats

from zoo.inference.draws import inverse_gaussian, wishart


@njit
def _many(rng, mean, n):
    return np.array([inverse_gaussian(rng, mean) for _ in range(n)])


@pytest.mark.parametrize("mean", [1e-8, 1e-3, 1.0, 30.0, 1e4, 1e8, 1e12, 1e99, 1e101, np.inf])
def test_inverse_gaussian_law(mean):
    # Null: the exact law; Kolmogorov-Smirnov on 20,000 draws, false alarm 1e-5. 1 / draw avoids the limits of
    # scipy's distribution function far in the tail: at a mean above 1e6 it is chi-square(1) to 1e-6.
    draws = _many(np.random.default_rng(3), mean, 20_000)
    assert np.all(draws > 0)
    if mean > 1e6:
        assert stats.kstest(1 / draws, stats.chi2(1).cdf).pvalue > 1e-5
    else:
        assert stats.kstest(draws, stats.invgauss(mean).cdf).pvalue > 1e-5


def test_wishart_against_scipy():
    # Null: P^-1 is scipy's inverse Wishart. Kolmogorov-Smirnov on log determinant, a diagonal entry and a
    # correlation; 4,000 draws each; false alarm 1e-5 a test.
    rng = np.random.default_rng(4)
    scale = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 1.5]])
    ours = np.linalg.inv(np.array([wishart(rng, 5.5, scale) for _ in range(4000)]))
    theirs = stats.invwishart(5.5, scale).rvs(4000, random_state=rng)
    for statistic in (
        lambda m: np.linalg.slogdet(m)[1],
        lambda m: m[:, 0, 0],
        lambda m: m[:, 0, 1] / np.sqrt(m[:, 0, 0] * m[:, 1, 1]),
    ):
        assert stats.ks_2samp(statistic(ours), statistic(theirs)).pvalue > 1e-5


def test_noncentred_inverse_wishart_against_scipy():
    import pymc as pm

    from zoo.distributions.inverse_wishart import noncentred_inverse_wishart

    with pm.Model(coords={"a": range(3), "b": range(3)}) as model:
        factor = noncentred_inverse_wishart("cov", 4.5, ("a", "b"))
    cov, lower = pm.draw([model["cov"], factor], 3000, random_seed=1)
    assert np.allclose(lower @ np.swapaxes(lower, 1, 2), cov)
    theirs = stats.invwishart(4.5, np.eye(3)).rvs(3000, random_state=np.random.default_rng(2))
    for statistic in (lambda m: np.linalg.slogdet(m)[1], lambda m: m[:, 0, 0], lambda m: m[:, 2, 2]):
        assert stats.ks_2samp(statistic(cov), statistic(theirs)).pvalue > 1e-5
