"""Random variates of the compiled samplers against scipy."""

from __future__ import annotations

import numpy as np
from scipy import stats

from zoo.inference.gibbs.draws import wishart


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
