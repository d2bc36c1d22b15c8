"""Rows of a linear map that is known as a function only: which entries it has, and their values by
few calls.

Columns that share no row are structurally independent and come from one call (Curtis, Powell & Reid
1974, *IMA Journal of Applied Mathematics* 13).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import sparse

__all__ = ["Rows", "colour_columns", "find_rows", "refresh_rows"]


class Rows(NamedTuple):
    """A sparse matrix (N, K) in rows, and how its values are read off calls.

    Parameters
    ----------
    indptr, indices : (N + 1,), (E,) int64
        Columns of the entries of each row, ascending.
    data : (E,) float64
    row_of_entry : (E,) int64
    colour_of_entry : (E,) int64
        Columns of one colour share no row.
    directions : (C, K) float64
        For each colour, 1 for its columns and 0 elsewhere.
    """

    indptr: np.ndarray
    indices: np.ndarray
    data: np.ndarray
    row_of_entry: np.ndarray
    colour_of_entry: np.ndarray
    directions: np.ndarray


def find_rows(apply: Callable[[np.ndarray], np.ndarray], size: int, fixed: bool) -> Rows:
    """The rows of a linear map, one call for each column.

    Parameters
    ----------
    apply : callable (K,) -> (N,)
        The map.
    size : int
        K.
    fixed : bool
        Whether its entries are the same for ever: then those that are 0 are left out. Else an entry
        counts where NaN comes through, whatever its value now.
    """
    places, values = [], []
    direction = np.zeros(size)
    n_rows = len(apply(direction))
    for k in range(size):
        direction[k] = 1.0 if fixed else np.nan
        column = apply(direction)
        direction[k] = 0.0
        found = np.flatnonzero(column if fixed else np.isnan(column))
        places.append(found)
        values.append(column[found] if fixed else np.zeros(len(found)))
    indptr = np.concatenate([[0], np.cumsum([len(p) for p in places])])
    joined = (
        np.concatenate(values or [np.empty(0)]),
        np.concatenate(places or [np.empty(0, dtype=np.int64)]),
        indptr,
    )
    # Entries that are 0 now may not be dropped: the conversion keeps them.
    matrix = sparse.csc_array(joined, shape=(n_rows, size)).tocsr()
    matrix.sort_indices()
    indptr, indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
    colour = colour_columns(indptr, indices, size)
    row_of_entry = np.repeat(np.arange(n_rows), np.diff(indptr))
    directions = (np.arange(colour.max(initial=0) + 1)[:, None] == colour).astype(np.float64)
    return Rows(indptr, indices, matrix.data.astype(np.float64), row_of_entry, colour[indices], directions)


def colour_columns(indptr: np.ndarray, indices: np.ndarray, size: int) -> np.ndarray:
    """A colour (K,) for each column, so that no row has two columns of one colour; greedy."""
    n_rows = len(indptr) - 1
    most = int(np.diff(indptr).max()) if n_rows and len(indices) else 1
    columns = sparse.csr_array((np.ones(len(indices)), indices, indptr), shape=(n_rows, size)).tocsc()
    taken = np.zeros((n_rows, most), dtype=bool)
    colour = np.zeros(size, dtype=np.int64)
    for k in range(size):
        rows = columns.indices[columns.indptr[k] : columns.indptr[k + 1]]
        if not len(rows):
            continue
        free = np.flatnonzero(~taken[rows].any(axis=0))
        if not len(free):
            taken = np.concatenate([taken, np.zeros((n_rows, 1), dtype=bool)], axis=1)
            free = np.array([taken.shape[1] - 1])
        colour[k] = free[0]
        taken[rows, free[0]] = True
    return colour


def refresh_rows(rows: Rows, apply: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """The values (E,) of the entries now, by one call for all directions, (C, K) to (C, N)."""
    found: np.ndarray = apply(rows.directions)[rows.colour_of_entry, rows.row_of_entry]
    return found
