"""New rows to predict: features by column name, tasks by name or position."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.data.columns import require_same_rows
from zoo.data.formula import FormulaDesign
from zoo.data.from_formula import require_same_design
from zoo.data.further_groups import beside_levels, dense_columns
from zoo.data.multitask import MultiTaskData, with_ones
from zoo.data.task_labels import task_labels
from zoo.support.checks import finite_inputs, finite_matrix, finite_sparse, is_sparse
from zoo.support.frames import read_column, read_table, require_one_each
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "NEW_TASK",
    "features_by_name",
    "read_rows",
    "require_test_data",
    "with_intercept",
]


def require_test_data(test: Any) -> None:
    """Raise where test rows are no data with responses, such as a table, of which nobody says what is the response."""
    if not isinstance(test, MultiTaskData):
        raise TypeError(
            f"test is a {type(test).__name__}. Give MultiTaskData, made like the training data: "
            "zoo.MultiTaskData.from_frame(...), or data.like(df) where these were made by a formula."
        )


NEW_TASK = "new task"
"""Name of the task of rows that nothing says the task of."""


def read_rows(
    X: Any,
    task: Any,
    t: Any,
    data: MultiTaskData,
    new_task: bool,
    without_t: Callable[[], bool] = lambda: False,
) -> tuple[list[str], np.ndarray | csr_matrix, np.ndarray | None]:
    """Task label of each row, features on the user's scale (a csr_matrix as those of ``data``), and t.

    ``without_t`` says whether t may be left out though ``data`` have it; it is asked only where t is missing.
    """
    if isinstance(X, MultiTaskData):
        if task is not None:
            raise ValueError("task is given twice: X is MultiTaskData and brings its tasks. Leave task out.")
        X = with_intercept(X, data)
        mean = data.learned_mean
        if mean is not None and X.learned_mean is not mean:
            if X.learned_mean is not None:
                raise ValueError(
                    "X has a mean that was learned from other rows. Pass the rows as they were before add_mean."
                )
            require_same_design(X, data)
            if X.is_sparse:
                inputs = _with_mean_beside_levels(X, data)
                X = replace(
                    X, inputs=inputs, feature_names=data.feature_names, transform=None, learned_mean=mean
                )
                mean.warn_of_tasks([X.task_names[code] for code in X.task], data.task_names)
                return read_rows(X, task, t, data, new_task, without_t)
            data = replace(data, design=None)  # the columns of these rows are coded already
            table = pd.DataFrame(X.original_X(), columns=list(X.feature_names))
            of_rows = pd.Series([X.task_names[code] for code in X.task])
            places = None if X.t is None else pd.DataFrame(X.t, columns=list(X.t_names or ()))
            return read_rows(table, of_rows, places if t is None else t, data, new_task, without_t)
        if X.gaps is not None and not data.incomplete:
            raise ValueError(
                "X has gaps, and the data of the fit had none, so that nothing is known of their law. Fill them in."
            )
        if set(X.feature_names) != set(data.feature_names):
            absent = [n for n in data.feature_names if n not in (*X.feature_names, data.intercept)]
            more = [name for name in X.feature_names if name not in data.feature_names]
            what = (
                f"lacks {absent[0]!r}, a feature of the fit"
                if absent
                else f"has {more[0]!r}, which the fit has not"
            )
            raise ValueError(f"X has other features than the fitted data: it {what}. Use the same features.")
        require_same_design(X, data)
        labels = [X.task_names[code] for code in X.task]
        order = [X.feature_names.index(name) for name in data.feature_names]
        features = _as_fitted(X.original_X()[:, order], data)
        if t is None and X.t is not None:
            t = pd.DataFrame(X.t, columns=list(X.t_names or ()))
        return labels, features, _task_variable(t, X.n_rows, data, without_t)
    # The table as it was given: its tasks and its t count where none are given beside it.
    rows_of = {
        "X": read_table(X, "X", data.feature_names, (task, t)),
        "task": read_column(task, "task"),
        "t": read_table(t, "t", data.t_names or (), (X, task)),
    }
    require_same_rows(**rows_of)
    X, task, t = (part.values for part in rows_of.values())
    if X is None and not data.n_features:
        X = _no_features(task, t)
    X = _as_before_mean(X, data)
    if isinstance(X, pd.DataFrame):
        table = X.rename(columns=str)
        columns = set(table.columns)
        X = features_by_name(table, data)
        if t is None and data.t_names is not None and set(data.t_names) <= columns:
            require_one_each(table, data.t_names, "X")
            t = table[list(data.t_names)]
        if data.task_column in columns and not (task is not None and new_task):
            require_one_each(table, [data.task_column], "X")
            if task is None:
                task = table[data.task_column]
            elif np.ndim(task):  # one task for all rows asks what if they were of that one
                _warn_of_other_tasks(table[data.task_column], task, data.task_names)
    names_of = data.feature_names if np.shape(X)[-1:] == (data.n_features,) else None
    only = data.n_features == 1 and data.intercept is not None  # then rows may have no column
    inputs = finite_inputs(
        X, "X", names_of, allow_none=only or not data.n_features, allow_missing=data.incomplete
    )
    if data.intercept is not None and inputs.shape[1] == data.n_features - 1:
        inputs = _with_ones_at(inputs, data.feature_names.index(data.intercept))
    features = _as_fitted(inputs, data)
    n_rows = features.shape[0]
    if features.shape[1] != data.n_features:
        raise ValueError(
            f"X has {counted(features.shape[1], 'column')}, but the fit has {counted(data.n_features, 'feature')}."
        )
    _warn_of_standardized(features, data)
    t_values = _task_variable(t, n_rows, data, without_t)
    if task is None and new_task:
        task = NEW_TASK
    labels = task_labels(task, n_rows, data.task_names)
    if data.learned_mean is not None:
        data.learned_mean.warn_of_tasks(labels, data.task_names)
    return labels, features, t_values


def _warn_of_other_tasks(column: pd.Series, task: Any, task_names: tuple[str, ...]) -> None:
    """Warn where a table names other tasks than the argument, which counts."""
    at, names = np.flatnonzero(column.notna()), task_names
    try:
        given, own = task_labels(task, len(column), names), task_labels(column.iloc[at], len(at), names)
    except (TypeError, ValueError):  # the argument is looked at later, and the column need not name tasks
        return
    for row, name in ((i, n) for i, n in zip(at, own, strict=True) if n != given[i]):
        warn_user(
            f"task is given, and counts, but the column {column.name!r} of X names other tasks: in row {row} "
            f"{name!r} and not {given[row]!r}. Leave task out, or drop the column."
        )
        return


def _no_features(task: Any, t: Any) -> np.ndarray:
    """Inputs (n, 0) of rows that t or the tasks number."""
    if t is None and (task is None or isinstance(task, str)):
        raise ValueError(
            "X is None, so nothing says how many rows there are. Give t or task, one entry per row."
        )
    return np.empty((len(np.atleast_1d(task if t is None else t)), 0))


def features_by_name(X: Any, data: MultiTaskData) -> Any:
    """The columns of a table that are features of the data, in their order; anything without names as it is."""
    table = read_table(X, "X", data.feature_names).values
    table = _as_before_mean(table, data)
    if not isinstance(table, pd.DataFrame):
        return table
    table = table.rename(columns=str)
    levels, of_levels = None, list[str]()
    if isinstance(data.design, FormulaDesign) and data.design.many_levels:
        levels, of_levels = data.design.level_columns(table), list(data.design.effects)
    if data.design is not None:
        made = data.design.features(table)
        table = made.assign(**{name: table[name] for name in table.columns if name not in made.columns})
    if data.learned_mean is not None:
        table = _with_mean(table, data)
    if data.intercept is not None and data.intercept in table.columns:
        table = _without_own_constant(table, data.intercept)
    there = {*table.columns, *of_levels}
    missing = [name for name in data.feature_names if name not in there]
    if missing and missing != [data.intercept]:
        absent = next(name for name in missing if name != data.intercept)
        raise ValueError(f"X has no column {absent!r}, a feature of the fitted data. Add it.")
    if missing:
        table = table.assign(**{missing[0]: 1.0})
    if levels is not None:
        known = set(of_levels)
        dense = [name for name in data.feature_names if name not in known]
        require_one_each(table, dense, "X")
        return beside_levels(table[dense], levels, of_levels, data.feature_names)
    require_one_each(table, data.feature_names, "X")
    return table[list(data.feature_names)]


def _as_before_mean(X: Any, data: MultiTaskData) -> Any:
    """An array with the columns that the data had before ``add_mean``, as a table; anything else as it is."""
    mean = data.learned_mean
    if mean is None or isinstance(X, pd.DataFrame) or np.ndim(X) != 2 or np.shape(X)[1] != len(mean.columns):
        return X
    return pd.DataFrame(np.asarray(X), columns=list(mean.columns))


def _with_mean(table: pd.DataFrame, data: MultiTaskData) -> pd.DataFrame:
    """The table with the column of the learned mean, whatever it has of that name."""
    mean = data.learned_mean
    assert mean is not None
    absent = [name for name in mean.seen if name not in table.columns]
    if absent:
        raise ValueError(
            f"X has no column {absent[0]!r}, of which {mean.described} predicts the mean. Add it."
        )
    require_one_each(table, mean.seen, "X")
    X = finite_matrix(table[list(mean.seen)], "X", mean.seen)
    return table.assign(**{mean.name: mean.values(pd.DataFrame(X, columns=list(mean.seen)))})


def _without_own_constant(table: pd.DataFrame, name: str) -> pd.DataFrame:
    """The table without its column of the name that the package gave its own constant; a warning where it is none."""
    values = table.loc[:, table.columns == name]
    if not (values == 1).all(axis=None):
        warn_user(
            f"X has a column {name!r}, and so is the constant called that add_intercept made of the data: it is 1, and "
            "the column is not read. Rename it to say something else by it."
        )
    return table.loc[:, table.columns != name]


def _with_mean_beside_levels(rows: MultiTaskData, data: MultiTaskData) -> csr_matrix:
    """The features of rows whose levels of further groups are in a sparse matrix, with the learned mean."""
    effects, X = data.effects, rows.original_X()
    levels = [i for i, name in enumerate(rows.feature_names) if name in effects]
    others = [i for i, name in enumerate(rows.feature_names) if name not in effects]
    table = pd.DataFrame(dense_columns(X, others), columns=[rows.feature_names[i] for i in others])
    return beside_levels(
        _with_mean(table, data)[[name for name in data.feature_names if name not in effects]],
        X[:, levels],
        [rows.feature_names[i] for i in levels],
        data.feature_names,
    )


def with_intercept(rows: MultiTaskData, data: MultiTaskData) -> MultiTaskData:
    """Rows with the intercept that ``data`` have, where it is all that they lack; else as they are."""
    name = data.intercept
    if name is None or name in rows.feature_names or {*rows.feature_names, name} != set(data.feature_names):
        return rows
    return rows.add_intercept(name)


def _with_ones_at(inputs: Any, position: int) -> Any:
    """The inputs with one more column, of ones, at this position."""
    order = [*range(position), inputs.shape[1], *range(position, inputs.shape[1])]
    return with_ones(inputs)[:, order]


def _task_variable(
    t: Any, n_rows: int, data: MultiTaskData, without_t: Callable[[], bool]
) -> np.ndarray | None:
    """The continuous task variable of new rows, its columns as those of ``data``; None where these have none."""
    if data.t_names is None:
        if t is not None:
            raise ValueError("t is given, but the fitted data have no continuous task variable. Leave t out.")
        return None
    known = ", ".join(map(repr, data.t_names))
    if t is None:
        if without_t():
            return None
        raise ValueError(
            f"t is missing: the fitted data have a continuous task variable. Give t with the column(s) {known}, "
            "or a DataFrame X that holds them."
        )
    if isinstance(t, pd.DataFrame):
        t = t.rename(columns=str)
        require_one_each(t, data.t_names, "t")
        absent = [name for name in data.t_names if name not in t.columns]
        if not absent:
            t = t[list(data.t_names)]
        # Names that nobody gave ("t0") say nothing about columns: then their order does.
        elif t.shape[1] != len(data.t_names) or not (_made(data.t_names) or _made(tuple(t.columns))):
            raise ValueError(
                f"t has no column {absent[0]!r}; the fitted data have t with the column(s) {known}. Add it."
            )
    elif np.ndim(t) < 2:
        # One number per row, or the one place of a single row.
        t = np.asarray(t).reshape((1, -1) if n_rows == 1 else (-1, 1))
    if np.shape(t) != (n_rows, len(data.t_names)):
        raise ValueError(
            f"t has shape {np.shape(t)}, and {(n_rows, len(data.t_names))} is needed: a row of X each, "
            f"with the column(s) {known}."
        )
    return finite_matrix(t, "t", data.t_names)


def _made(names: tuple[str, ...]) -> bool:
    """Whether the names are those that columns of t without names get."""
    return names == tuple(f"t{i}" for i in range(len(names)))


def _warn_of_standardized(features: Any, data: MultiTaskData) -> None:
    """Warn where rows are the standardized ones of the fit: they would be standardized once more."""
    if data.transform is None or is_sparse(features):
        return
    for row in (features[0], features[-1]):
        if not (data.inputs == row).all(axis=1).any() or np.array_equal(data.transform.apply_x(row), row):
            return
    warn_user(
        "X holds rows as data.standardize() made them, and is read on the scale before that. "
        "Pass the MultiTaskData itself, or data.original_X()."
    )


def _as_fitted(features: np.ndarray | csr_matrix, data: MultiTaskData) -> np.ndarray | csr_matrix:
    """The features as a csr_matrix where the fitted data are sparse; sparse ones are refused where these are dense."""
    if data.is_sparse:
        return features if is_sparse(features) else finite_sparse(features, "X", data.feature_names)
    if is_sparse(features):
        raise ValueError("X is sparse, but the fitted data are dense. Give X.toarray().")
    return features
