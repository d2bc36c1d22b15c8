"""Weights and variances of rows given others: by compiled code where it knows the covariance, else by a graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.gp.neighbour_covariances import joined, of_sets, without_gaps
from zoo.gp.stationary_terms import stationary_terms
from zoo.gp.stationary_weights import stationary_weights
from zoo.ops.neighbour_weights import neighbour_weights

__all__ = ["weights_of", "weights_of_part"]


def weights_of(
    cov_func: Any, table: np.ndarray, sets: np.ndarray, noise: Any, compiled: bool | None = None
) -> tuple[Any, Any]:
    """Weights (N, m) and variances (N,) of rows given their neighbours.

    Parameters
    ----------
    cov_func : pymc.gp.cov.BaseCovariance
    table : (R, D) array
    sets : (N, m + 1) int
        Of each row its neighbours in the table, -1 where there is none, and its own place last.
    noise : (R,) tensor
        Added to the variances of the rows of the table.
    compiled : bool, optional
        By default where compiled code knows the covariance.

    Raises
    ------
    ValueError
        ``compiled`` is True, and the covariance is of another kind.
    """
    known = None if compiled is False else stationary_terms(cov_func)
    if known is not None:
        return stationary_weights(known, table, sets, noise)
    if compiled:
        raise ValueError(
            "compiled is True, but cov_func is not a sum of scalars times Matern12, Matern32, Matern52, Exponential "
            "or ExpQuad kernels. Leave compiled out."
        )
    members = np.maximum(sets, 0)
    K = of_sets(cov_func, table[members]) + noise[members][:, :, None] * np.eye(sets.shape[1])
    return neighbour_weights(without_gaps(K, sets >= 0))


def weights_of_part(
    own_cov: Any,
    total_cov: Any,
    rows: np.ndarray,
    near: np.ndarray,
    noise: Any,
    new: np.ndarray,
    sets: np.ndarray,
    own: Any,
) -> tuple[Any, Any]:
    """The same of new rows of a part of a sum, given responses of the sum and new rows of the part.

    Parameters
    ----------
    own_cov, total_cov : pymc.gp.cov.BaseCovariance
        Of the part, and of the sum.
    rows, new : (R, D) and (N, D) array
        Rows with responses, and new ones.
    near : (N, k) int
        Of each new row the rows with responses that it is given.
    noise : () or (R,) tensor
        Of the responses.
    sets : (N, m + 1) int
        Of each new row those of the new ones that it is given, -1 where there is none, and itself.
    own : () tensor
        Added to the variances of new rows.
    """
    members = np.maximum(sets, 0)
    spread = noise[near][:, :, None] if noise.ndim else noise
    observed = of_sets(total_cov, rows[near]) + spread * np.eye(near.shape[1])
    across = of_sets(own_cov, rows[near], new[members])
    of_new = of_sets(own_cov, new[members]) + own * np.eye(sets.shape[1])
    there = np.hstack([np.ones(near.shape, dtype=bool), sets >= 0])
    return neighbour_weights(without_gaps(joined(observed, across, of_new), there))
