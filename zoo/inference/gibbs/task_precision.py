"""The precision P of tasks (T, T), of which nothing is held, ``NO_MATRIX``, where it is the identity.

So tasks without a covariance cost what they cost one by one, however many there are.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["NO_MATRIX", "diagonal", "row_times", "times", "total"]

NO_MATRIX = np.empty((0, 0))


@njit(cache=True, nogil=True)
def times(P, H):
    """``P H`` for H (T, D)."""
    if P.shape[0] == 0:
        return H.copy()
    return P @ H


@njit(cache=True, nogil=True)
def row_times(P, t, H):
    """Row t of ``P H``, (D,)."""
    if P.shape[0] == 0:
        return H[t].copy()
    return P[t] @ H


@njit(cache=True, nogil=True)
def diagonal(P, t):
    """``P_tt``."""
    if P.shape[0] == 0:
        return 1.0
    return P[t, t]


def total(P: np.ndarray, n_tasks: int) -> np.ndarray:
    """Sum of each row, (T,)."""
    return P.sum(axis=1) if P.size else np.ones(n_tasks)
