r"""Simultaneous bands of the empirical distribution of ranks, and exact p values (Sailynoja et al. 2022).

Of n independent ranks, uniform on 0 .. m - 1, the number :math:`N_i` below i is binomial with probability
:math:`z_i = i / m`, for each i by itself. The statistic is the smallest of the two-sided tail probabilities of
:math:`N_1, \dots, N_{m-1}`. Its law follows from that of the path: given :math:`N_i`, the step to :math:`N_j` is
binomial with :math:`n - N_i` trials and probability :math:`(z_j - z_i) / (1 - z_i)`, so the probability that the path
stays where all tails exceed a level is a product of matrices. Nothing is simulated, and small p values are right.

Sailynoja, T., Burkner, P.-C. and Vehtari, A. (2022). Graphical test for discrete uniformity and its applications in
goodness-of-fit evaluation and multiple sample comparison. Statistics and Computing 32:32.
"""

from __future__ import annotations

import numpy as np
from scipy.special import gammaln
from scipy.stats import binom

__all__ = ["band_p_values", "rank_band"]

# Points at which the distribution is looked at: more cost time and hardly change the test.
_MOST_POINTS = 100
_ROUNDING = 1e-9


def _points(values: int) -> np.ndarray:
    """Ranks i at which the share below i is looked at."""
    return np.unique(np.linspace(1, values - 1, min(values - 1, _MOST_POINTS)).round().astype(int))


def _tails(n: int, share: float) -> np.ndarray:
    """Two-sided tail probability (n + 1,) of each count."""
    counts = np.arange(n + 1)
    return np.minimum(1.0, 2.0 * np.minimum(binom.cdf(counts, n, share), binom.sf(counts - 1, n, share)))


def _step(n: int, probability: float, log_factorial: np.ndarray) -> np.ndarray:
    """Probabilities (n + 1, n + 1) of counts at the next point given those at this one."""
    now, then = np.arange(n + 1)[:, None], np.arange(n + 1)[None]
    gain, left = np.maximum(then - now, 0), np.maximum(n - then, 0)
    log_p = log_factorial[n - now] - log_factorial[gain] - log_factorial[left]
    log_p = log_p + gain * np.log(probability) + left * np.log1p(-probability)
    return np.where(then >= now, np.exp(log_p), 0.0)


def _outside(n: int, values: int, levels: np.ndarray) -> np.ndarray:
    """Probability that some tail is at most the level, for each level (k,)."""
    log_factorial = gammaln(np.arange(n + 1) + 1.0)
    state = np.zeros((len(levels), n + 1))
    state[:, 0] = 1.0
    before = 0.0
    for point in _points(values):
        share = point / values
        state = state @ _step(n, (share - before) / (1.0 - before), log_factorial)
        state *= _tails(n, share)[None] > levels[:, None] * (1.0 + _ROUNDING)
        before = share
    return np.clip(1.0 - state.sum(axis=1), 0.0, 1.0)


def band_p_values(ranks: np.ndarray, values: int) -> np.ndarray:
    """P value of each column of ranks.

    Parameters
    ----------
    ranks : (n, k) array of int
        Ranks of k quantities in n replications, 0 .. ``values`` - 1.
    values : int
        m, how many ranks there are: one more than draws.

    Returns
    -------
    (k,) array
        Small where the ranks are not uniform: the probability, for one quantity, to be as far outside.
    """
    n = len(ranks)
    smallest = np.ones(ranks.shape[1])
    for point in _points(values):
        counts = np.sum(ranks < point, axis=0)
        smallest = np.minimum(smallest, _tails(n, point / values)[counts])
    return _outside(n, values, smallest)


def rank_band(n: int, values: int, prob: float) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Shares i / m, and the smallest and largest share of n ranks below i that the band holds.

    Parameters
    ----------
    n, values : int
        Replications, and how many ranks there are.
    prob : float
        Probability that uniform ranks stay inside at all points, at least.

    Returns
    -------
    shares, lower, upper : (k,) arrays
    """
    levels = np.geomspace(1e-9, 1.0, 200)
    level = levels[_outside(n, values, levels) <= 1.0 - prob].max(initial=0.0)
    points = _points(values)
    inside = [np.flatnonzero(_tails(n, point / values) > level * (1.0 + _ROUNDING)) for point in points]
    return points / values, np.array([c[0] for c in inside]) / n, np.array([c[-1] for c in inside]) / n
