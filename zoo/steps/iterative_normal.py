r"""Draws of a normal vector whose precision :math:`Q = J' W J` has a factor that is too full: by conjugate gradients.

Rows with normal noise of their own make a right-hand side whose solution is a draw,

.. math:: Q\, b = J' (u + W^{1/2} z), \quad z \sim N(0, I),

since its covariance is :math:`Q^{-1} J' W J\, Q^{-1} = Q^{-1}` (Papandreou & Yuille 2010, *Gaussian sampling by local
perturbations*). Conjugate gradients, scaled by the diagonal of Q, solve it with products by J alone, to a residual of
1e-12 of the right-hand side. Draws are exact up to that.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["IterativeNormal"]

_RESIDUAL = 1e-12
_MOST_STEPS = 5_000


class IterativeNormal:
    """Draws without a factor; arguments as those of ``zoo.steps.block_normal.DenseNormal``."""

    def __init__(self, size: int):
        self.size = size

    def draw(
        self, rng: np.random.Generator, indptr: np.ndarray, indices: np.ndarray, data: np.ndarray,
        w: np.ndarray, u: np.ndarray, base: tuple[np.ndarray, np.ndarray | None] | None = None, base_from: int = 0,
    ) -> np.ndarray:  # fmt: skip
        """One draw (K,).

        Raises
        ------
        numpy.linalg.LinAlgError
            The residual does not become small enough: Q is singular, or nearly so.
        """
        if base is not None:
            w = np.concatenate([w[:base_from], base[0]])
        if not (w >= 0.0).all():
            raise np.linalg.LinAlgError("Matrix is not positive definite")
        noisy = np.sqrt(w) * rng.standard_normal(len(w))
        known = None if base is None else base[1]
        if known is None:
            noisy += u
        else:
            noisy[:base_from] += u[:base_from]
        right = np.zeros(self.size)
        _add_transposed(indptr, indices, data, noisy, right)
        if known is not None:
            right += known
        drawn = np.zeros(self.size)
        left = _solve(indptr, indices, data, w, right, drawn, _RESIDUAL, _MOST_STEPS)
        if not left <= _RESIDUAL:
            raise np.linalg.LinAlgError(
                f"conjugate gradients left {left:.1e} of the right-hand side after {_MOST_STEPS:,} steps, because the "
                "precision of the block is singular or nearly so. Name fewer variables in vars, or give one of two "
                "columns that determine each other a narrower prior."
            )
        return drawn

    def sums(
        self,
        indptr: np.ndarray,
        indices: np.ndarray,
        data: np.ndarray,
        w: np.ndarray,
        u: np.ndarray,
        base_from: int,
    ) -> tuple[np.ndarray, np.ndarray]:
        """Weights of the rows from ``base_from`` on, and what they add to h, as ``draw`` takes both."""
        linear = np.zeros(self.size)
        _add_transposed(indptr, indices, data, np.where(np.arange(len(w)) >= base_from, u, 0.0), linear)
        return w[base_from:].copy(), linear


@njit(cache=True, nogil=True)
def _add_transposed(indptr, indices, data, u, out):
    """``out += J' u``."""
    for n in range(len(u)):
        for e in range(indptr[n], indptr[n + 1]):
            out[indices[e]] += data[e] * u[n]


@njit(cache=True, nogil=True)
def _solve(indptr, indices, data, w, right, x, residual, most):
    """Solve ``J' W J x = right`` from x = 0; return the norm of the residual as a share of that of ``right``."""
    size, N = len(x), len(w)
    diagonal = np.zeros(size)
    for n in range(N):
        for e in range(indptr[n], indptr[n + 1]):
            diagonal[indices[e]] += w[n] * data[e] ** 2
    r, z, image = right.copy(), right / diagonal, np.empty(size)
    p, along, whole = z.copy(), r @ z, np.sqrt(right @ right)
    left = 1.0 if whole > 0.0 else 0.0
    for _ in range(most):
        if left <= residual:
            break
        image[:] = 0.0
        for n in range(N):
            total = 0.0
            for e in range(indptr[n], indptr[n + 1]):
                total += data[e] * p[indices[e]]
            total *= w[n]
            for e in range(indptr[n], indptr[n + 1]):
                image[indices[e]] += data[e] * total
        step = along / (p @ image)
        x += step * p
        r -= step * image
        left = np.sqrt(r @ r) / whole
        z = r / diagonal
        before, along = along, r @ z
        p = z + (along / before) * p
    return left
