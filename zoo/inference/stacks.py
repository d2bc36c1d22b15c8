"""Tasks with as many rows as each other, as stacks: what would be a loop over tasks is a few calls."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

__all__ = ["equal_sizes", "smallest_least_squares"]

# Numbers that are gathered at once.
_AT_A_TIME = 4_000_000


def equal_sizes(
    starts: np.ndarray, numbers: int, some: np.ndarray | None = None, at_a_time: int = _AT_A_TIME
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Tasks (t,) of n rows each, and the positions (t, n) of these rows, until all tasks have come.

    Parameters
    ----------
    starts : (T + 1,)
        Where the rows of each task begin, among rows that are sorted by task.
    numbers : int
        How many numbers a row has: it bounds the size of a stack.
    some : (k,), optional
        Which tasks shall come; default: all.
    at_a_time : int
        Numbers in a stack at most, unless one task has more.
    """
    sizes = np.diff(starts)
    chosen = np.arange(len(sizes)) if some is None else some
    for size in np.unique(sizes[chosen]):
        same = chosen[sizes[chosen] == size]
        step = max(1, at_a_time // max(int(size) * numbers, 1))
        for first in range(0, len(same), step):
            part = same[first : first + step]
            yield part, starts[part][:, None] + np.arange(size)


def smallest_least_squares(X: np.ndarray, Y: np.ndarray, zero: Any = 0.0) -> np.ndarray:
    """Least-squares coefficients of smallest norm (t, D, k) of stacks of rows X (t, n, D) and responses Y (t, n, k).

    Singular values below rounding of the largest one of a task count as zero, as in ``numpy.linalg.lstsq``, and those
    below ``zero``, a number or one for each stack (t, 1), as well.
    """
    if not X.shape[1]:
        return np.zeros((len(X), X.shape[2], Y.shape[2]))
    U, s, V = np.linalg.svd(X, full_matrices=False)
    least = np.finfo(np.float64).eps * max(X.shape[1:]) * s.max(axis=1, initial=0.0, keepdims=True)
    least = np.maximum(least, zero)
    inverse = np.where(s > least, 1.0 / np.where(s > least, s, 1.0), 0.0)
    along = inverse[..., None] * (U.transpose(0, 2, 1) @ Y)
    return np.asarray(V.transpose(0, 2, 1) @ along)
