r"""Evidence of many rows with normal noise under Vecchia's approximation, in its response form, with its gradient.

With the rows in an order, and the rows :math:`c(i)` among the m nearest of those before i,

.. math::

    p(y) \approx \prod_i p(y_i \mid y_{c(i)}), \quad
    y_i \mid y_{c(i)} \sim N(k' A^{-1} y_{c(i)},\; v_i), \quad v_i = k_{ii} + \tau_i - k' A^{-1} k,

where :math:`A = K_{c(i)c(i)} + \operatorname{diag}(\tau)` is the covariance of the conditioning responses, noise
included, and k that of the row with them (Vecchia 1988; Katzfuss & Guinness 2021). With :math:`u = (-A^{-1}k, 1)`,
:math:`\alpha = (A^{-1} y_{c(i)}, 0)` and :math:`e_i = u'y` a change dA of the joint covariance of the row and its
neighbours changes the logarithm of a term by

.. math:: d \log p = g_v\, u' dA\, u + g_\mu\, u' dA\, \alpha, \quad
    g_v = \tfrac12 (e_i^2 / v_i^2 - 1 / v_i), \quad g_\mu = e_i / v_i,

a weight of rank two: one factorisation per row gives all derivatives, at the cost of summing over its pairs once.
"""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np

from zoo.inference.compiled import njit
from zoo.latent.vecchia_terms import Terms, Workspace, covariance, derivatives, workspace

__all__ = [
    "Rows",
    "add_slopes",
    "back_substitute",
    "evidence",
    "factorise",
    "forward_substitute",
    "gather",
    "in_blocks",
    "kriging_weights",
    "require_finite",
    "with_neighbours",
]

# Rows that one call of a compiled function works on: sums are over blocks, in their order, whatever the threads.
_BLOCK = 128
_FAST = {"reassoc", "contract", "nsz", "arcp"}


class Rows:
    """Rows with responses that have mean 0, in the order in which they are conditioned on each other.

    Parameters
    ----------
    terms : Terms
        Their covariance.
    x : (N, D) array
        Features.
    t : (N, P) array
    y : (N,) array
        Responses less their mean.
    weight : (N,) array, optional
        The noise variance of a row is divided by its weight.
    """

    def __init__(
        self, terms: Terms, x: np.ndarray, t: np.ndarray, y: np.ndarray, weight: np.ndarray | None = None
    ):
        self.terms = terms
        self.x, self.t, self.y = (np.ascontiguousarray(v, dtype=np.float64) for v in (x, t, y))
        self.weight = np.ones(len(y)) if weight is None else np.ascontiguousarray(weight, dtype=np.float64)

    def __len__(self) -> int:
        return len(self.y)

    def beyond(self, theta: np.ndarray) -> float:
        """Logarithm of what a law of smaller variance has, and the density to the power of its weight has not."""
        left, log_noise = float(np.sum(self.weight - 1.0)), float(theta[self.terms.noise])
        return left * (log_noise + 0.5 * np.log(2.0 * np.pi)) + 0.5 * float(np.sum(np.log(self.weight)))


def in_blocks(n: int, work: Callable[[int, int], Any], threads: int, size: int = _BLOCK) -> list[Any]:
    """What ``work(start, end)`` gives for the blocks of n rows, in their order.

    The blocks are the same whatever the number of threads, and so are sums over them.
    """
    edges = [(start, min(start + size, n)) for start in range(0, n, size)]
    if threads <= 1 or len(edges) == 1:
        return [work(*edge) for edge in edges]
    # Compiled functions let go of the interpreter's lock.
    with ThreadPoolExecutor(threads) as pool:
        return list(pool.map(lambda edge: work(*edge), edges))


def evidence(
    rows: Rows, theta: np.ndarray, neighbours: np.ndarray, some: np.ndarray | None = None, threads: int = 1
) -> tuple[float, np.ndarray]:
    """Log evidence and its derivatives in ``theta``.

    Parameters
    ----------
    rows : Rows
    theta : (Q,) array
        Logarithms of the parameters, as ``rows.terms`` points to them.
    neighbours : (N, m) int
        Of every row the rows before it that it is conditioned on, -1 behind the last of them.
    some : (n,) int, optional
        The terms of these rows alone, times N / n: for random rows an unbiased estimate of the whole.
    threads : int

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    chosen = np.arange(len(rows)) if some is None else some

    def work(start: int, end: int) -> tuple[float, np.ndarray]:
        gradient = np.zeros(len(theta))
        value = _evidence_of(
            rows.terms, theta, rows.x, rows.t, rows.y, rows.weight, chosen[start:end], neighbours, gradient
        )
        return value, gradient

    parts = in_blocks(len(chosen), work, threads)
    value = require_finite(np.sum([part[0] for part in parts]))
    factor = len(rows) / len(chosen)
    gradient = factor * np.sum([part[1] for part in parts], axis=0)
    gradient[rows.terms.noise] -= float(np.sum(rows.weight - 1.0))
    return factor * value - rows.beyond(theta), gradient


def require_finite(total: Any) -> float:
    """The sum of what compiled functions gave, which is not a number where a covariance was singular."""
    if not np.isfinite(total):
        raise np.linalg.LinAlgError(
            "a covariance matrix of a row and its neighbours is singular to rounding."
        )
    return float(total)


@njit(cache=True, nogil=True)
def gather(points: np.ndarray, index: np.ndarray, n: int, out: np.ndarray, at: int) -> None:
    """Copy rows of ``points`` to columns of ``out``, from column ``at`` on."""
    for j in range(points.shape[1]):
        for p in range(n):
            out[j, at + p] = points[index[p], j]


@njit(cache=True, nogil=True, fastmath=_FAST)
def factorise(K: np.ndarray, L: np.ndarray, first: int, n: int) -> bool:
    """Add rows first .. n - 1 of the Cholesky factor of packed K to L; say whether there are such."""
    for p in range(first, n):
        own = p * (p + 1) // 2
        for q in range(p + 1):
            other, total = q * (q + 1) // 2, K[own + q]
            for k in range(q):
                total -= L[own + k] * L[other + k]
            if q < p:
                L[own + q] = total / L[other + q]
            elif total > 0.0:
                L[own + p] = np.sqrt(total)
            else:
                return False
    return True


@njit(cache=True, nogil=True, fastmath=_FAST)
def with_neighbours(
    terms: Terms,
    theta: np.ndarray,
    noise: float,
    x: np.ndarray,
    t: np.ndarray,
    weight: np.ndarray,
    neighbours: np.ndarray,
    i: int,
    index: np.ndarray,
    room: Workspace,
) -> int:
    """Factorise the covariance, noise included, of the neighbours of row i and of the row itself, which is the last.

    Their numbers stand in ``index``. Returns how many there are, or 0 where the matrix is singular to rounding.
    """
    n = 0
    while n < neighbours.shape[1] and neighbours[i, n] >= 0:
        index[n] = neighbours[i, n]
        n += 1
    index[n] = i
    n += 1
    gather(t, index, n, room.t, 0)
    gather(x, index, n, room.x, 0)
    covariance(terms, theta, room, 0, n)
    for p in range(n):
        room.K[p * (p + 1) // 2 + p] += noise / weight[index[p]]
    return n if factorise(room.K, room.factor, 0, n) else 0


@njit(cache=True, nogil=True, fastmath=_FAST)
def forward_substitute(L: np.ndarray, n: int, v: np.ndarray) -> None:
    """Solve ``L x = v`` in place."""
    for p in range(n):
        own, left = p * (p + 1) // 2, v[p]
        for q in range(p):
            left -= L[own + q] * v[q]
        v[p] = left / L[own + p]


@njit(cache=True, nogil=True, fastmath=_FAST)
def back_substitute(L: np.ndarray, n: int, v: np.ndarray) -> None:
    """Solve ``L' x = v`` in place."""
    for p in range(n - 1, -1, -1):
        own = p * (p + 1) // 2
        v[p] /= L[own + p]
        for q in range(p):
            v[q] -= L[own + q] * v[p]


@njit(cache=True, nogil=True, fastmath=_FAST)
def kriging_weights(L: np.ndarray, n: int, b: np.ndarray) -> None:
    """Put the weights ``A^-1 k`` of the first n - 1 of n rows for the last one into b, given their common factor."""
    m = n - 1
    last = m * (m + 1) // 2
    for p in range(m):
        b[p] = L[last + p]
    back_substitute(L, m, b)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _pair_weights(
    u: np.ndarray,
    alpha: np.ndarray,
    g_variance: float,
    g_mean: float,
    weight: np.ndarray,
    index: np.ndarray,
    n: int,
    pull: np.ndarray,
) -> float:
    """Put derivatives in the covariances of pairs, of rank two, into ``pull``; return that in the noise variance."""
    slope = 0.0
    for p in range(n):
        own = p * (p + 1) // 2
        for q in range(p):
            pull[own + q] = 2.0 * g_variance * u[p] * u[q] + g_mean * (u[p] * alpha[q] + alpha[p] * u[q])
        pull[own + p] = g_variance * u[p] ** 2 + g_mean * u[p] * alpha[p]
        slope += pull[own + p] / weight[index[p]]
    return slope


@njit(cache=True, nogil=True, fastmath=_FAST)
def add_slopes(
    terms: Terms,
    theta: np.ndarray,
    room: Workspace,
    b: np.ndarray,
    half: np.ndarray,
    g_variance: float,
    g_mean: float,
    weight: np.ndarray,
    index: np.ndarray,
    n: int,
    pull: np.ndarray,
    gradient: np.ndarray,
) -> float:
    r"""Add :math:`g_v u' dJ u + g_\mu u' dJ \alpha` of a row and its neighbours, the row last, to ``gradient`` (Q,).

    J is their covariance, whose factor is in ``room``, :math:`u = (-b, 1)`, and :math:`\alpha = (A^{-1} s, 0)`.

    Parameters
    ----------
    terms, theta, room
        As ``covariance`` was called with them for the n rows.
    b : (n,) array
        The weights of the neighbours; overwritten by u.
    half : (n,) array
        The vector s times the inverse of the factor of A; overwritten by alpha.
    g_variance, g_mean : float
        The derivatives g.
    weight : (N,) array
        The noise variance of a row is divided by its weight.
    index : (n,) int
        Numbers of the rows.
    n : int
    pull : (L,) array
        Room; what it gets are the derivatives in the covariances of pairs.
    gradient : (Q,) array

    Returns
    -------
    float
        The derivative in the noise variance, which ``gradient`` does not get.
    """
    m = n - 1
    back_substitute(room.factor, m, half)
    for p in range(m):
        b[p] = -b[p]
    b[m], half[m] = 1.0, 0.0
    slope = _pair_weights(b, half, g_variance, g_mean, weight, index, n, pull)
    derivatives(terms, theta, room, pull, n, gradient)
    return slope


@njit(cache=True, nogil=True, fastmath=_FAST)
def _evidence_of(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    neighbours: np.ndarray,
    gradient: np.ndarray,
) -> float:
    """Sum of the logarithms of some terms, whose derivatives are added to ``gradient``."""
    most = neighbours.shape[1] + 1
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    index, pull = np.zeros(most, dtype=np.int64), np.zeros(most * (most + 1) // 2)
    L, noise, total = room.factor, np.exp(2.0 * theta[terms.noise]), 0.0
    white, half, b = room.vectors[0], room.vectors[1], room.vectors[2]
    for i in rows:
        n = with_neighbours(terms, theta, noise, x, t, weight, neighbours, i, index, room)
        if n == 0:
            return np.nan
        for p in range(n):
            white[p] = y[index[p]]
        forward_substitute(L, n, white)
        m = n - 1
        root = L[m * (m + 1) // 2 + m]
        total += -0.5 * white[m] ** 2 - np.log(root) - 0.5 * np.log(2.0 * np.pi)
        for p in range(m):
            half[p] = white[p]
        kriging_weights(L, n, b)
        g_variance = 0.5 * (white[m] ** 2 - 1.0) / root**2
        g_mean = white[m] / root
        slope = add_slopes(terms, theta, room, b, half, g_variance, g_mean, weight, index, n, pull, gradient)
        gradient[terms.noise] += 2.0 * noise * slope
    return total
