"""What moves of the population need of each task once its loose coefficients are integrated out.

The notation is that of :mod:`zoo.inference.gibbs.collapsed_population`: the last m of D coefficients are
loose.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES, factorise

__all__ = ["LooseSpace", "invert", "loose_space", "residuals", "times"]

# Numbers in the regression of loose coefficients that are drawn together, and columns of it; the draw takes a third of
# the cube of the first.
_MOST_UNKNOWNS = 120
_MOST_REGRESSORS = 30


class LooseSpace(NamedTuple):
    """Work space: of each task :math:`M^{-1}`, e, :math:`M^{-1} U`, and H, h in five numbers; regressors (T, k)."""

    inverse: np.ndarray  # (blocks, m, m, lanes), lower triangles
    residual: np.ndarray  # (blocks, m, lanes)
    solved: np.ndarray  # (blocks, 2, m, lanes)
    small: np.ndarray  # (blocks, 5, lanes)
    regressors: np.ndarray  # (blocks * lanes, k)


def loose_space(blocks: int, m: int, D: int) -> LooseSpace:
    """Work space for m loose coefficients of D."""
    k = min(1 + D - m, _MOST_REGRESSORS, max(1, _MOST_UNKNOWNS // max(m, 1)))
    return LooseSpace(
        np.zeros((blocks, m, m, LANES)),
        np.zeros((blocks, m, LANES)),
        np.zeros((blocks, 2, m, LANES)),
        np.zeros((blocks, 5, LANES)),
        np.zeros((blocks * LANES, k)),
    )


@njit(cache=True, nogil=True, error_model="numpy")
def invert(tasks, weight, precision, inverse):
    """Fill ``inverse`` with the lower triangles of :math:`M_t^{-1}`; return the sum of :math:`log|M_t|`."""
    m = precision.shape[0]
    known = tasks.S.shape[1] - m
    total = 0.0
    for block in range(inverse.shape[0]):
        A, S, scale = inverse[block], tasks.S[block], weight[block]
        for i in range(m):
            for j in range(i + 1):
                for b in range(LANES):
                    A[i, j, b] = S[known + i, known + j, b] * scale[b] + precision[i, j]
        factorise(A)
        for j in range(m):
            for b in range(LANES):
                total -= 2.0 * np.log(A[j, j, b])
        for j in range(m - 1, -1, -1):  # its inverse K, a column after those behind it
            for i in range(m - 1, j, -1):
                for b in range(LANES):
                    A[i, j, b] *= A[i, i, b]
                for k in range(j + 1, i):
                    for b in range(LANES):
                        A[i, j, b] += A[i, k, b] * A[k, j, b]
                for b in range(LANES):
                    A[i, j, b] *= -A[j, j, b]
        for i in range(m):  # K'K
            for j in range(i + 1):
                for b in range(LANES):
                    A[i, j, b] *= A[i, i, b]
                for k in range(i + 1, m):
                    for b in range(LANES):
                        A[i, j, b] += A[k, i, b] * A[k, j, b]
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def residuals(tasks, weight, W, theta, residual):
    """Fill ``residual`` with :math:`e_t` at this regression: through least squares, which does not cancel."""
    m, known = theta.shape[0], theta.shape[1] - 1
    apart = np.empty((known + m, LANES))
    for block in range(residual.shape[0]):
        out, S, w, scale = residual[block], tasks.S[block], W[block], weight[block]
        for i in range(known):
            for b in range(LANES):
                apart[i, b] = tasks.centre[block, i, b] - w[i, b]
        for i in range(m):
            for b in range(LANES):
                apart[known + i, b] = tasks.centre[block, known + i, b] - theta[i, 0]
            for j in range(known):
                for b in range(LANES):
                    apart[known + i, b] -= theta[i, 1 + j] * w[j, b]
        for i in range(m):
            for b in range(LANES):
                out[i, b] = 0.0
            for j in range(known + m):
                for b in range(LANES):
                    out[i, b] += S[known + i, j, b] * apart[j, b]
            for b in range(LANES):
                out[i, b] *= scale[b]


@njit(cache=True, nogil=True, error_model="numpy")
def times(A, u, out):
    """Symmetric matrices in lanes, of which ``A`` has the lower triangles, times one vector."""
    for i in range(len(u)):
        for b in range(LANES):
            out[i, b] = A[i, i, b] * u[i]
        for j in range(i):
            for b in range(LANES):
                out[i, b] += A[i, j, b] * u[j]
                out[j, b] += A[i, j, b] * u[i]
