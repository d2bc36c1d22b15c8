"""Means and standard deviations of rows that have weights."""

from __future__ import annotations

import numpy as np

__all__ = ["weighted_mean", "weighted_sd"]


def weighted_mean(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Mean over the rows (axis 0), each counted by its weight; without weights that of numpy."""
    return np.asarray(
        np.mean(values, axis=0) if weight is None else np.average(values, axis=0, weights=weight)
    )


def weighted_sd(values: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    """Standard deviation over the rows (axis 0), with the sum of the weights as the number of rows."""
    if weight is None:
        return np.asarray(np.std(values, axis=0))
    centred = values - weighted_mean(values, weight)
    return np.sqrt(weighted_mean(centred**2, weight))
