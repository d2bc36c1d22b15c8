r"""The same with a part that all rows share: fixed features with normal weights, whose residual has neighbours.

.. math:: y = \Phi w + r, \quad w_j \sim N(0, s_j)

with r of Vecchia's approximation. Neighbours say little of coefficients that vary slowly, or not at all: thousands of
rows do, so these are weights, which are integrated out exactly (a full-scale approximation, Sang & Huang 2012). With
the whitened row :math:`\tilde\phi_i = u_i'\Phi / \sqrt{v_i}`, and :math:`\tilde y_i` likewise, it is a regression:

.. math:: \log p(y) = -\tfrac12 \sum_i \log v_i + \log N(\tilde y;\, 0,\, I + \tilde\Phi S \tilde\Phi').

With :math:`P = S^{-1} + \tilde\Phi'\tilde\Phi`, :math:`\hat w` the mean of the weights, and A the covariance of a row's
neighbours, the terms of its derivative are again of rank two:

.. math::

    d \log p_i = \frac{\tilde e_i^2 + \tilde\phi_i' P^{-1} \tilde\phi_i - 1}{2 v_i}\, u' dA\, u
        + \frac{1}{\sqrt{v_i}} u' dA\, A^{-1} \big(\tilde e_i (y - \Phi\hat w) + \Phi P^{-1} \tilde\phi_i\big)_{c(i)},
    \quad \tilde e_i = \tilde y_i - \tilde\phi_i'\hat w.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular

from zoo.inference.compiled import njit
from zoo.latent.basis_regression import BasisMode, Gram, gaussian_evidence
from zoo.latent.vecchia import (
    Rows,
    add_slopes,
    forward_substitute,
    in_blocks,
    kriging_weights,
    require_finite,
    with_neighbours,
)
from zoo.latent.vecchia_terms import Terms, workspace

__all__ = ["SharedEvidence", "evidence_with_features"]

_FAST = {"reassoc", "contract", "nsz", "arcp"}
# Numbers of a block of whitened features.
_NUMBERS = 4_000_000


class SharedEvidence(NamedTuple):
    """Log evidence; its derivatives in theta (Q,) and in the logarithms of the variances (p,); the law of the weights.

    ``slopes`` and ``variance_slopes`` are empty where they were not asked for.
    """

    value: float
    slopes: np.ndarray
    variance_slopes: np.ndarray
    mode: BasisMode


def evidence_with_features(
    rows: Rows,
    theta: np.ndarray,
    neighbours: np.ndarray,
    features: np.ndarray,
    log_variances: np.ndarray,
    some: np.ndarray | None = None,
    threads: int = 1,
    gradient: bool = True,
) -> SharedEvidence:
    """Log evidence with fixed features, and its derivatives.

    Parameters
    ----------
    rows, theta, neighbours, some, threads
        As for :func:`zoo.latent.vecchia.evidence`.
    features : (N, p) array
        Fixed features of the rows.
    log_variances : (p,) array
        Logarithms of the prior variances of their weights.
    gradient : bool
        Whether to compute derivatives, which takes a second pass.

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    terms = rows.terms
    chosen = np.arange(len(rows)) if some is None else some
    factor = len(rows) / len(chosen)
    both = np.column_stack([rows.y, features])
    white = np.empty((len(chosen), both.shape[1]))

    def whiten(start: int, end: int) -> float:
        return float(
            _whiten(
                terms,
                theta,
                rows.x,
                rows.t,
                both,
                rows.weight,
                chosen[start:end],
                neighbours,
                white[start:end],
            )
        )

    logs = require_finite(np.sum(in_blocks(len(chosen), whiten, threads)))
    own, shared = white[:, 0], white[:, 1:]
    gram = Gram(
        np.asfortranarray(factor * (shared.T @ shared)), factor * (shared.T @ own), factor * float(own @ own),
        float(len(rows)),
    )  # fmt: skip
    found = gaussian_evidence(gram, log_variances, 0.0, lambda w: np.sqrt(factor) * (own - shared @ w))
    value = found.value - factor * logs - rows.beyond(theta)
    if not gradient:
        return SharedEvidence(value, np.zeros(0), np.zeros(0), found.mode)
    error = own - shared @ found.mode.w
    solved, leverage = np.empty_like(shared), np.empty(len(chosen))
    step = max(1, _NUMBERS // max(1, shared.shape[1]))
    for start in range(0, len(chosen), step):
        part = slice(start, start + step)
        half = found.mode.half(shared[part].T)
        leverage[part] = np.sum(half**2, axis=0)
        back = solve_triangular(
            found.mode.factor, half, lower=True, trans=1, check_finite=False, overwrite_b=True
        )
        solved[part] = (found.mode.root[:, None] * back).T
    residual = rows.y - features @ found.mode.w

    def climb(start: int, end: int) -> np.ndarray:
        slopes, part = np.zeros(len(theta)), slice(start, end)
        _slopes(
            terms, theta, rows.x, rows.t, rows.weight, chosen[part], neighbours, residual, features,
            error[part], leverage[part], solved[part], slopes,
        )  # fmt: skip
        return slopes

    slopes = factor * np.sum(in_blocks(len(chosen), climb, threads), axis=0)
    slopes[terms.noise] -= float(np.sum(rows.weight - 1.0))
    return SharedEvidence(value, slopes, found.variance_slopes, found.mode)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _whiten(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    both: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    neighbours: np.ndarray,
    white: np.ndarray,
) -> float:
    """Whitened rows of ``both`` (N, 1 + p); returns the sum of the logarithms of their standard deviations."""
    most, p = neighbours.shape[1] + 1, both.shape[1]
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    index = np.zeros(most, dtype=np.int64)
    L, noise, total, b = room.factor, np.exp(2.0 * theta[terms.noise]), 0.0, room.vectors[0]
    for a in range(len(rows)):
        n = with_neighbours(terms, theta, noise, x, t, weight, neighbours, rows[a], index, room)
        if n == 0:
            return np.nan
        m = n - 1
        root = L[m * (m + 1) // 2 + m]
        total += np.log(root)
        kriging_weights(L, n, b)
        for k in range(p):
            white[a, k] = both[rows[a], k] / root
        for q in range(m):
            scale, near = -b[q] / root, index[q]
            for k in range(p):
                white[a, k] += scale * both[near, k]
    return total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _slopes(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    weight: np.ndarray,
    rows: np.ndarray,
    neighbours: np.ndarray,
    residual: np.ndarray,
    features: np.ndarray,
    error: np.ndarray,
    leverage: np.ndarray,
    solved: np.ndarray,
    gradient: np.ndarray,
) -> None:
    """Add the derivatives of some rows to ``gradient``."""
    most = neighbours.shape[1] + 1
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    index, pull = np.zeros(most, dtype=np.int64), np.zeros(most * (most + 1) // 2)
    L, noise = room.factor, np.exp(2.0 * theta[terms.noise])
    half, b = room.vectors[1], room.vectors[2]
    for a in range(len(rows)):
        n = with_neighbours(terms, theta, noise, x, t, weight, neighbours, rows[a], index, room)
        m = n - 1
        root = L[m * (m + 1) // 2 + m]
        for q in range(m):
            near, total = index[q], 0.0
            for k in range(features.shape[1]):
                total += features[near, k] * solved[a, k]
            half[q] = error[a] * residual[near] + total
        forward_substitute(L, m, half)
        kriging_weights(L, n, b)
        g_variance = 0.5 * (error[a] ** 2 + leverage[a] - 1.0) / root**2
        slope = add_slopes(
            terms, theta, room, b, half, g_variance, 1.0 / root, weight, index, n, pull, gradient
        )
        gradient[terms.noise] += 2.0 * noise * slope
