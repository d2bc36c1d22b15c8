"""What columns do within each task, of all tasks at once: no loop over tasks."""

from __future__ import annotations

import numpy as np

__all__ = ["by_group", "range_within_tasks", "variance_within_tasks"]


def by_group(
    reduction: np.ufunc, values: np.ndarray, group: np.ndarray, n_groups: int, empty: float
) -> np.ndarray:
    """``reduction`` over the rows of each group, (n_groups, ...); ``empty`` stands for a group without rows.

    Parameters
    ----------
    reduction : numpy.ufunc
        ``numpy.add``, ``numpy.minimum`` or ``numpy.maximum``.
    values, group : (N, ...), (N,)
        Rows in any order, and the number of the group of each.
    """
    sizes = np.bincount(group, minlength=n_groups)
    filled = np.flatnonzero(sizes)
    result = np.full((n_groups, *values.shape[1:]), empty)
    if len(filled):
        starts = (np.cumsum(sizes) - sizes)[filled]
        result[filled] = reduction.reduceat(values[np.argsort(group, kind="stable")], starts, axis=0)
    return result


def variance_within_tasks(X: np.ndarray, task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Variance (T, D) of each column in the rows of each task; 0 of a task without rows."""
    sizes = np.maximum(np.bincount(task, minlength=n_tasks), 1)
    result = np.empty((n_tasks, X.shape[1]))
    for j, column in enumerate(X.T):  # one by one: the rows may fill much of the memory
        mean = np.bincount(task, column, minlength=n_tasks) / sizes
        result[:, j] = np.bincount(task, (column - mean[task]) ** 2, minlength=n_tasks) / sizes
    return result


def range_within_tasks(X: np.ndarray, task: np.ndarray, n_tasks: int) -> np.ndarray:
    """Largest less smallest value (T, D) of each column in the rows of each task; 0 of a task without rows."""
    return by_group(np.maximum, X, task, n_tasks, 0.0) - by_group(np.minimum, X, task, n_tasks, 0.0)
