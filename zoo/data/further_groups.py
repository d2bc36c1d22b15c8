"""Columns of the levels of further groups, dense or in one sparse matrix; each row has one level for each term.

The levels of a clinic are as many columns, with one entry in each row that is not 0. Where they are many the features
of the data are one sparse matrix, in which the other columns are dense.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.data.formula_table import level_codes
from zoo.support.checks import is_sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "MOST_DENSE",
    "beside_levels",
    "changed_columns",
    "dense_columns",
    "level_columns",
    "side_by_side",
]

MOST_DENSE = 5_000_000
"""Rows times columns of levels up to which these are dense."""


def level_columns(
    table: pd.DataFrame, terms: Sequence[tuple[str, np.ndarray]], levels: Mapping[str, Sequence[str]]
) -> csr_matrix:
    """The columns (n, E) of further groups.

    Parameters
    ----------
    table : DataFrame of n rows
    terms : sequence of (group, values)
        In the order of the columns: which column of the table has the levels, and what stands there, (n,).
    levels : mapping of group to its levels
    """
    from scipy.sparse import csr_matrix

    codes: dict[str, np.ndarray] = {}
    columns, start = np.empty((len(table), len(terms)), dtype=np.int64), 0
    for j, (group, _) in enumerate(terms):
        if group not in codes:
            codes[group] = _known_codes(table[group], group, levels[group])
        columns[:, j] = start + codes[group]
        start += len(levels[group])
    values = np.column_stack([values for _, values in terms])
    pointer = len(terms) * np.arange(len(table) + 1)
    return csr_matrix((values.ravel(), columns.ravel(), pointer), shape=(len(table), start))


def _known_codes(column: pd.Series, group: str, levels: Sequence[str]) -> np.ndarray:
    """Which level each row has; raises where one is new."""
    code = level_codes(column, levels)
    if np.any(code < 0):
        row, shown = int(np.argmax(code < 0)), ", ".join([*levels[:5], *["..."][: len(levels) > 5]])
        raise ValueError(
            f"column {group!r} has the level {column.iloc[row]!r} in row {row}, which the fit has not seen. Known are "
            f"{shown}. To predict new levels by the law of their group, use fit.with_new_levels(X)."
        )
    return code


def beside_levels(
    table: pd.DataFrame, levels: csr_matrix, of_levels: Sequence[str], order: Sequence[str]
) -> csr_matrix:
    """Dense columns of a table and those of levels, which are called ``of_levels``, in an order of all names."""
    position = {name: i for i, name in enumerate([*table.columns, *of_levels])}
    columns = side_by_side(table.to_numpy(dtype=np.float64), levels)
    return columns[:, [position[name] for name in order]]


def dense_columns(X: Any, positions: Any) -> np.ndarray:
    """These columns of a dense or sparse matrix, dense."""
    columns = X[:, positions]
    return np.asarray(columns.toarray() if is_sparse(columns) else columns)


def changed_columns(X: csr_matrix, positions: np.ndarray, values: np.ndarray) -> csr_matrix:
    """The matrix with other values (n, k) in these columns."""
    others = np.setdiff1d(np.arange(X.shape[1]), positions)
    back = np.argsort(np.concatenate([others, positions]), kind="stable")
    return side_by_side(X[:, others], values)[:, back]


def side_by_side(*parts: Any) -> Any:
    """Matrices with the same rows as one; a csr_matrix where one of them is sparse."""
    if not any(is_sparse(part) for part in parts):
        return np.column_stack(parts)
    from scipy.sparse import csr_matrix, hstack

    return csr_matrix(hstack(parts, format="csr"))
