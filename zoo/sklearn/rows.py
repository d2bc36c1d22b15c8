"""Reads what scikit-learn hands to an estimator: features, tasks, continuous task variables."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, NoReturn

import numpy as np
import pandas as pd
from sklearn.utils.validation import check_array, validate_data

from zoo.data.columns import listed, require_same_rows
from zoo.support.checks import finite_matrix
from zoo.support.frames import Labelled, read_column, read_table
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["AS_ARGUMENT", "Rows", "column_at", "column_of", "read_rows", "task_labels"]


AS_ARGUMENT = "argument"
"""The default of ``task`` of an estimator, whose tasks are then the argument of ``fit``, or nothing."""


class Rows(NamedTuple):
    """Rows of a fit or of a prediction.

    Parameters
    ----------
    features : (n, D) float64 array or scipy.sparse.csr_matrix
    names : list of D str, or None
        Names of the features, where the table had them.
    task : (n,) pandas.Series, or None
        Task labels as the user coded them, where a column or an argument gave them.
    t : (n, P) array, or None
    t_names : list of P str, or None
    """

    features: np.ndarray | csr_matrix
    names: list[str] | None
    task: pd.Series | None
    t: np.ndarray | None
    t_names: list[str] | None


def column_of(estimator: Any) -> Any:
    """The column of X that holds the task: its name or position, or None."""
    return None if isinstance(estimator.task, str) and estimator.task == AS_ARGUMENT else estimator.task


def read_rows(estimator: Any, X: Any, task: Any, reset: bool) -> Rows:
    """Read X with the columns that ``estimator.task`` and ``estimator.t`` name, or the argument ``task``.

    ``reset`` says that this is a fit, which learns the names and the number of the columns; a
    prediction is held against them.

    Raises
    ------
    ValueError
        A column is absent, the task is given twice, or scikit-learn refuses the array.
    """
    places = (
        [] if estimator.t is None else [estimator.t] if _is_key(estimator.t) else listed(estimator.t, "t")
    )
    column = column_of(estimator)
    keys = [*([] if column is None else [column]), *places]
    if task is not None and column is not None:
        raise ValueError(
            f"the task is given twice: by the argument task, and by column {column!r} of X, which the estimator "
            f"was made with. Make the {type(estimator).__name__} without task, or leave the argument out."
        )
    read = _of_table if _has_columns(X) else _of_array
    rows = read(estimator, X, keys, len(places), reset)
    if task is None:
        return rows
    labelled = Labelled(rows.features, getattr(X, "index", None) if isinstance(X, pd.DataFrame) else None)
    return rows._replace(task=task_labels(task, labelled))


def task_labels(task: Any, rows: Labelled) -> pd.Series:
    """The argument ``task``, one label for all rows or one for each, as a column of labels."""
    n_rows = rows.values.shape[0]
    column = read_column(task, "task")
    require_same_rows(X=rows, task=column)
    values = column.values
    if np.ndim(values) == 0:
        values = np.full(n_rows, values)
    if np.shape(values) != (n_rows,):
        raise ValueError(
            f"task has shape {np.shape(values)} and X has {counted(n_rows, 'row')}. Give one task for each row."
        )
    return _finite_labels(pd.Series(values, name="task").reset_index(drop=True))


def column_at(columns: Sequence[Any] | int, key: Any, argument: str) -> int:
    """Position of a column that is given by its name, or by its position.

    ``columns`` holds their names, or is their number where they have none.

    Raises
    ------
    ValueError
        There is no such column; or a name is given, and X has no names.
    """
    named = not isinstance(columns, int)
    size = len(columns) if not isinstance(columns, int) else columns
    if not isinstance(columns, int):
        found = [i for i, name in enumerate(columns) if name == key]
        if len(found) > 1:
            raise ValueError(
                f"X has {len(found)} columns {key!r}, and {argument} needs one. Rename the others."
            )
        if found:
            return found[0]
    if isinstance(key, int | np.integer) and not isinstance(key, bool) and -size <= key < size:
        return int(key) % size
    if named or isinstance(key, int | np.integer):
        shown = (
            f"It has {counted(size, 'column')}"
            if isinstance(columns, int)
            else f"Its columns are {_joined(columns)}"
        )
        raise ValueError(f"X has no column {key!r}, which {argument} names. {shown}.")
    raise ValueError(
        f"{argument} is the name {key!r}, and X has no names of columns. Give X as a table, {argument} as the "
        "position of a column, or, for tasks, the argument task of fit and predict."
    )


def _joined(columns: Sequence[Any]) -> str:
    return ", ".join(map(str, columns))


def _is_key(value: Any) -> bool:
    return isinstance(value, str | int | np.integer)


def _has_columns(X: Any) -> bool:
    return not isinstance(X, np.ndarray | list | tuple) and isinstance(
        read_table(X, "X").values, pd.DataFrame
    )


def _of_table(estimator: Any, X: Any, keys: list[Any], n_places: int, reset: bool) -> Rows:
    table = read_table(X, "X").values
    # As a table of pandas: it depends on the version of scikit-learn which others have names.
    validate_data(estimator, table, reset=reset, skip_check_array=True)
    at = [column_at(list(table.columns), key, _argument(i, keys, n_places)) for i, key in enumerate(keys)]
    rest = [i for i in range(table.shape[1]) if i not in at]
    if not rest:
        _refuse_no_feature(len(at))
    names = [str(table.columns[i]) for i in rest]
    features = table.iloc[:, rest]
    _require_rows(len(features), reset)
    t_at = at[len(at) - n_places :]
    t_names = [str(table.columns[i]) for i in t_at]
    if reset and len(at) > n_places:
        _warn_of_scaled(table.iloc[:, at[0]])
    return Rows(
        features=finite_matrix(features, "X", names),
        names=names,
        task=_finite_labels(table.iloc[:, at[0]].reset_index(drop=True)) if len(at) > n_places else None,
        t=finite_matrix(table.iloc[:, t_at], "t", t_names) if n_places else None,
        t_names=t_names if n_places else None,
    )


def _of_array(estimator: Any, X: Any, keys: list[Any], n_places: int, reset: bool) -> Rows:
    least = 2 if reset else 1
    if not keys:
        X = validate_data(
            estimator, X, reset=reset, accept_sparse="csr", dtype=np.float64, ensure_min_samples=least
        )
        return Rows(X, None, None, None, None)
    # Tasks may be words: only the rest must be numbers.
    X = validate_data(
        estimator, X, reset=reset, dtype=None, ensure_all_finite=False, ensure_min_samples=least
    )
    at = [column_at(X.shape[1], key, _argument(i, keys, n_places)) for i, key in enumerate(keys)]
    t_at = at[len(at) - n_places :]
    if len(set(at)) == X.shape[1]:
        _refuse_no_feature(len(set(at)))
    return Rows(
        features=check_array(np.delete(X, at, axis=1), dtype=np.float64, input_name="X", estimator=estimator),
        names=None,
        task=_finite_labels(pd.Series(X[:, at[0]], name=str(keys[0]))) if len(at) > n_places else None,
        t=check_array(X[:, t_at], dtype=np.float64, input_name="t", estimator=estimator)
        if n_places
        else None,
        t_names=[f"t{i}" for i in range(n_places)] if n_places else None,
    )


def _warn_of_scaled(labels: pd.Series) -> None:
    """Warn of tasks that are numbers with decimals: a step of the pipeline has scaled their column."""
    if labels.dtype.kind != "f":
        return
    values = labels.to_numpy(dtype=np.float64)
    decimals = values[np.isfinite(values) & (values != np.round(values))]
    if len(decimals):
        warn_user(
            f"the tasks in column {labels.name!r} are numbers with decimals, such as {decimals[0]:.6g}, as if they had "
            "been scaled. Leave that column out of such steps, for instance by "
            "make_column_transformer((StandardScaler(), columns), remainder='passthrough')."
        )


def _finite_labels(labels: pd.Series) -> pd.Series:
    """The labels, unless one is missing or infinite."""
    absent = labels.isna().to_numpy()
    if labels.dtype.kind == "f" and not absent.any():
        absent = ~np.isfinite(labels.to_numpy(dtype=np.float64))
    if absent.any():
        row = int(absent.argmax())
        raise ValueError(
            f"task {labels.name!r} is {'inf' if labels.notna()[row] else 'missing (NaN)'} in row {row}. "
            "Drop the row or name its task."
        )
    return labels


def _refuse_no_feature(n_columns: int) -> NoReturn:
    raise ValueError(
        f"X has {n_columns} feature(s), and task and t take all of them. Add at least one feature."
    )


def _argument(i: int, keys: list[Any], n_places: int) -> str:
    return "t" if i >= len(keys) - n_places else "task"


def _require_rows(n_rows: int, reset: bool) -> None:
    if n_rows < (2 if reset else 1):
        raise ValueError(f"X has {n_rows} row(s), and {2 if reset else 1} are needed. Give more rows.")
