r"""Draws of a normal vector whose precision :math:`Q = J' W J` has a factor that is too full: by conjugate gradients.

Rows with normal noise of their own make a right-hand side whose solution is a draw,

.. math:: Q\, b = J' (u + W^{1/2} z), \quad z \sim N(0, I),

since its covariance is :math:`Q^{-1} J' W J\, Q^{-1} = Q^{-1}` (Papandreou & Yuille 2010, *Gaussian sampling by local
perturbations*). Conjugate gradients, scaled by the diagonal of Q, solve it with products by J alone, to a residual of
1e-12 of the right-hand side. Draws are exact up to that.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import csr_array, diags_array
from scipy.sparse.linalg import LinearOperator, cg

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
        rows = csr_array((data, indices, indptr), shape=(len(w), self.size))
        right = rows.T @ noisy
        if known is not None:
            right += known
        diagonal = np.bincount(indices, np.repeat(w, np.diff(indptr)) * data**2, self.size)
        if not (diagonal > 0.0).all():
            raise np.linalg.LinAlgError(
                "the precision of the block is singular, because one of its variables is in no row with a weight "
                "above 0. Name fewer variables in vars."
            )
        precision = LinearOperator(
            (self.size, self.size), matvec=lambda x: rows.T @ (w * (rows @ x)), dtype=np.float64
        )
        with np.errstate(all="ignore"):  # a singular precision ends in numbers that are not finite
            drawn, unsolved = cg(
                precision, right, rtol=_RESIDUAL, maxiter=_MOST_STEPS, M=diags_array(1.0 / diagonal)
            )
            left = np.linalg.norm(right - precision @ drawn) / np.linalg.norm(right) if unsolved else 0.0
        if unsolved:
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
        rows = csr_array((data, indices, indptr), shape=(len(w), self.size))
        linear = rows.T @ np.where(np.arange(len(w)) >= base_from, u, 0.0)
        return w[base_from:].copy(), linear
