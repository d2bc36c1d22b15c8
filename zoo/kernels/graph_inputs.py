"""Graphs of tasks as users hand them in: tables, matrices, names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.support.checks import finite_matrix, names
from zoo.support.frames import as_pandas
from zoo.support.words import counted

if TYPE_CHECKING:
    pass

__all__ = [
    "by_names",
    "checked_adjacency",
    "columns_of_tasks",
    "correlated",
    "is_correlation",
    "named_matrix",
    "names_of_tasks",
]

# Asymmetry, and distance outside [0, 1], that rounding explains.
_ROUNDING = 1e-10


def names_of_tasks(given: Sequence[str] | None, n_tasks: int) -> tuple[str, ...]:
    """The names that were given, one for each task, or "task 0", "task 1", ..."""
    if given and len(given) != n_tasks:
        raise ValueError(
            f"task_names has {counted(len(given), 'name')} for {counted(n_tasks, 'task')}. Give one per task."
        )
    return names(given or None, "task_names", n_tasks, "task ")


def by_names(frame: pd.DataFrame, wanted: Sequence[str] | None) -> tuple[np.ndarray, tuple[str, ...]]:
    """The matrix of a frame with rows and columns in one order, and the names."""
    rows = names([str(name) for name in frame.index], "adjacency.index")
    columns = names([str(name) for name in frame.columns], "adjacency.columns")
    order = names(wanted or rows, "task_names")
    for one, other in ((order, rows), (rows, order), (order, columns), (columns, order)):
        missing = [name for name in one if name not in set(other)]
        if missing:
            raise ValueError(
                f"adjacency: task {missing[0]!r} is not in all of the rows, the columns and task_names. "
                "Give every task one row and one column, by the same name."
            )
    values = finite_matrix(frame, "adjacency", columns)
    at = [rows.index(name) for name in order]
    return values[np.ix_(at, [columns.index(name) for name in order])], order


def named_matrix(adjacency: Any) -> Any:
    """The matrix as a frame of pandas where its rows or columns have names."""
    given = as_pandas(adjacency, "adjacency")
    if not hasattr(given, "dims") or given.ndim != 2:
        return given
    labels = [given.indexes.get(dim) for dim in given.dims]
    if all(index is None for index in labels):
        return given.to_numpy()
    return pd.DataFrame(given.to_numpy(), index=labels[0], columns=labels[1])


def _rows_by_name(frame: pd.DataFrame, wanted: Sequence[str]) -> pd.DataFrame:
    """The rows in the order of ``wanted``, where it holds their names; raises where it moves a name."""
    own, given = [str(name) for name in frame.index], [str(name) for name in wanted]
    if set(own) == set(given) and len(set(own)) == len(own):
        return frame.iloc[[own.index(name) for name in given]]
    moved = [name for i, name in enumerate(given) if name in own and own.index(name) != i]
    if moved:
        raise ValueError(
            f"task_names gives the name {moved[0]!r} to another row than the one that has it in features. "
            "Give the index of features as task_names, in any order, or names that are all new."
        )
    return frame


def checked_adjacency(matrix: np.ndarray, task_names: Sequence[str]) -> np.ndarray:
    """A matrix of weights, symmetric to the last bit."""

    def ends(wrong: np.ndarray) -> tuple[int, int]:
        i, j = np.argwhere(wrong)[0]
        return int(i), int(j)

    if (wrong := np.abs(matrix - matrix.T) > _ROUNDING).any():
        i, j = ends(wrong)
        raise ValueError(
            f"adjacency is not symmetric: {matrix[i, j]:g} from {task_names[i]!r} to {task_names[j]!r}, "
            f"{matrix[j, i]:g} back. Relations go both ways: average the two, or take the larger."
        )
    if (wrong := (matrix < -_ROUNDING) | (matrix > 1.0 + _ROUNDING)).any():
        i, j = ends(wrong)
        raise ValueError(
            f"adjacency is {matrix[i, j]:g} between {task_names[i]!r} and {task_names[j]!r}, outside [0, 1]. "
            "Divide by the largest weight; a negative one says nothing here: set it to 0."
        )
    if (wrong := np.diag(matrix) != 0.0).any():
        i = int(np.flatnonzero(wrong)[0])
        raise ValueError(
            f"adjacency joins {task_names[i]!r} to itself, weight {matrix[i, i]:g}. Set the diagonal to 0."
        )
    return np.clip((matrix + matrix.T) / 2.0, 0.0, 1.0)


def columns_of_tasks(coefficients: Any) -> tuple[Any, list[str] | None]:
    """Values with tasks as columns, and the tasks' names where they have any."""
    coefficients = as_pandas(coefficients, "coefficients")
    if isinstance(coefficients, pd.DataFrame):
        columns = [str(name) for name in coefficients.columns]
        rows = [str(name) for name in coefficients.index]
        return _rows_as_columns(coefficients.to_numpy(), rows, columns), columns
    if not hasattr(coefficients, "dims"):
        return coefficients, None
    if "task" not in coefficients.dims:
        raise ValueError(
            f"coefficients has dims {coefficients.dims}, and no dim 'task'. Rename the dim of the tasks."
        )
    mean = coefficients.mean([dim for dim in ("chain", "draw", "sample") if dim in coefficients.dims])
    rest = [dim for dim in mean.dims if dim != "task"]
    if not rest:
        raise ValueError(
            "coefficients has no dim beside 'task'. Tasks are correlated over a second dim: give the features."
        )
    values = mean.transpose(*rest, "task")
    known = [str(name) for name in mean["task"].to_numpy()] if "task" in mean.coords else None
    table = values.to_numpy().reshape(-1, mean.sizes["task"])
    if rest != ["task_bis"]:
        return table, known
    if known and "task_bis" in mean.coords:
        table = _rows_as_columns(table, [str(name) for name in mean["task_bis"].to_numpy()], known)
    if not is_correlation(table):
        raise ValueError(
            "coefficients has dims 'task' and 'task_bis', and is no correlation matrix: its diagonal is not 1, or it "
            "is not symmetric. Divide a covariance by the standard deviations of its row and column first."
        )
    return table, known


def _rows_as_columns(table: np.ndarray, rows: list[str], columns: list[str]) -> np.ndarray:
    """A matrix whose rows have the names of its columns, with the rows in their order; others as they are."""
    if len(set(rows)) == len(rows) == len(columns) and set(rows) == set(columns):
        return table[[rows.index(name) for name in columns]]
    return table


def is_correlation(table: np.ndarray) -> bool:
    """Whether a table is a correlation matrix."""
    square = table.shape[0] == table.shape[1]
    return (
        square
        and np.allclose(np.diag(table), 1.0, atol=1e-8)
        and np.allclose(table, table.T, atol=1e-8)
        and np.abs(table).max() <= 1.0 + 1e-8
    )


def correlated(table: np.ndarray, task_names: Sequence[str]) -> np.ndarray:
    """Correlations between columns."""
    if len(table) < 2:
        raise ValueError("coefficients has one row. Correlations need two features or more.")
    spread = np.ptp(table, axis=0)
    if (constant := spread <= 1e-12 * np.abs(table).max(axis=0)).any():
        name = task_names[int(np.flatnonzero(constant)[0])]
        raise ValueError(
            f"coefficients of {name!r} are the same for every feature, and correlate with nothing. Leave the task out."
        )
    # Of one task NumPy makes a number.
    return np.atleast_2d(np.corrcoef(table, rowvar=False))
