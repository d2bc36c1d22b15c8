"""The span of the rows of a matrix, for engines with fewer inputs than features."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

__all__ = ["Span", "row_span"]


class Span(NamedTuple):
    """Inputs (m, r) in the span of their rows, and its orthonormal basis V (D, r): ``X R = inputs @ V.T``."""

    inputs: np.ndarray
    V: np.ndarray

    def lifted(self, inside: np.ndarray, prior: np.ndarray) -> np.ndarray:
        """``V h + (I - V V') a``, (..., D, T), of h (..., r, T) inside of the span and prior draws a (..., D, T)."""
        return np.asarray(prior + self.V @ (inside - self.V.T @ prior))


def row_span(X: np.ndarray, R: np.ndarray | None = None) -> Span:
    """The span of the rows of X R, by its singular value decomposition."""
    U, s, Vt = np.linalg.svd(X if R is None else X @ R, full_matrices=False)
    kept = s > np.finfo(np.float64).eps * max(X.shape) * max(s[0], 0.0)
    kept[0] = True  # inputs that are all zero have a span too, of one direction that the rows do not see
    return Span(np.ascontiguousarray(U[:, kept] * s[kept]), np.ascontiguousarray(Vt[kept].T))
