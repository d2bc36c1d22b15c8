"""Lower triangular matrices of the size of a task: factors, solves, and normal draws by them, compiled."""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["draw_by_precision", "factorise", "normal_step", "solve_lower", "solve_transposed", "squared"]


@njit(cache=True, nogil=True)
def factorise(A):
    """The lower Cholesky factor of a small matrix, of which the lower triangle is read, in place.

    Returned is the smallest share of a diagonal entry that the entries before it leave, from 0 to 1. It is the size of
    a rounding error, or -1, where the matrix is not positive definite in float64; the factor is then worthless.
    """
    least = 1.0
    for j in range(len(A)):
        whole = A[j, j]
        for i in range(j, len(A)):
            for k in range(j):
                A[i, j] -= A[i, k] * A[j, k]
            if i == j:
                share = A[j, j] / whole
                least = min(least, share if whole > 0.0 and share > 0.0 else -1.0)
                A[j, j] = np.sqrt(A[j, j])
            else:
                A[i, j] /= A[j, j]
    return least


@njit(cache=True, nogil=True)
def solve_lower(factor, b):
    """Replace b by ``factor^-1 b``."""
    for i in range(len(b)):
        for j in range(i):
            b[i] -= factor[i, j] * b[j]
        b[i] /= factor[i, i]


@njit(cache=True, nogil=True)
def solve_transposed(factor, b):
    """Replace b by ``factor'^-1 b``."""
    for i in range(len(b) - 1, -1, -1):
        b[i] /= factor[i, i]
        for j in range(i):
            b[j] -= factor[i, j] * b[i]


@njit(cache=True, nogil=True)
def draw_by_precision(rng, factor, linear):
    """Replace ``linear`` by a draw from the normal law with this linear term, whose precision has this factor.

    Its mean is ``A^-1 linear`` and its covariance ``A^-1``, with A the factor times its transpose.
    """
    solve_lower(factor, linear)
    for d in range(len(linear)):
        linear[d] += rng.standard_normal()
    solve_transposed(factor, linear)


@njit(cache=True, nogil=True)
def normal_step(rng, factor):
    """A draw of the normal law with mean 0 whose precision has this lower factor."""
    step = np.empty(len(factor))
    for d in range(len(step)):
        step[d] = rng.standard_normal()
    solve_transposed(factor, step)
    return step


@njit(cache=True, nogil=True)
def squared(factor, apart):
    """The quadratic form of the precision with this lower factor."""
    total = 0.0
    for j in range(len(apart)):
        part = 0.0
        for i in range(j, len(apart)):
            part += factor[i, j] * apart[i]
        total += part * part
    return total
