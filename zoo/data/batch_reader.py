"""Takes up tables one by one as rows of the same data, and makes a summary of them."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd

from zoo.data.columns import as_table, listed, require_one_column, weights
from zoo.data.summary import TaskSummary
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["Reader", "with_summary"]


class Reader:
    """The arguments of :meth:`zoo.MultiTaskData.from_batches`, and what the batches have said so far.

    Raises
    ------
    ValueError
        The arguments do not go together.
    """

    def __init__(
        self,
        cls: type[Any],
        y: str | None,
        task: str | None,
        features: Sequence[str] | None,
        weight: str | None,
        like: Any,
        missing: str,
    ):
        if like is None and (y is None or task is None):
            raise ValueError(
                f"{'y' if y is None else 'task'} is not given. Name the columns y and task, or give `like`."
            )
        if like is not None:
            _require_pattern(like, (y, task, features), weight)
        if isinstance(features, str):
            raise ValueError(f"features is the string {features!r}. Give a list of columns, [{features!r}].")
        self._cls, self._y, self._weight = cls, y, weight
        self.task: Any = task if like is None else like.task_column
        self._features = None if features is None else listed(features, "features")
        self._like, self._drops = like, missing == "drop"
        self._columns: set[str] | None = None
        self._code: dict[str, int] = {}
        self._kind: str | None = None
        self._first: Any = None
        self._summary: TaskSummary | None = None
        self._dropped = 0

    def take_up(self, batch: Any) -> None:
        """Take up the rows of one batch."""
        table = as_table(batch)
        if not isinstance(table, pd.DataFrame):
            raise TypeError(f"it is a {type(batch).__name__} and no table.")
        if not len(table):
            return
        table = self._complete(table.reset_index(drop=True))
        if not len(table):
            return
        part = self._like_the_pattern(table) if self._like is not None else self._of_numbers(table)
        self._require_same_kind(table[self.task])
        if self._first is None:
            self._first = part.take([0])
            self._summary = TaskSummary(part.n_features + 1)
        assert self._summary is not None
        code = np.array([self._code.setdefault(name, len(self._code)) for name in part.task_names])
        self._summary.add(np.column_stack([part.X, part.y]), code[part.task], part.weight)

    def _used(self, table: pd.DataFrame) -> list[Any]:
        """The columns of a batch that count."""
        own = [] if self._weight is None else [self._weight]
        if self._like is not None:
            design = self._like.design
            return [*design.variables, *design.response_columns, self.task, *own]
        assert self._y is not None
        own = [self._y, self.task, *own]
        if self._columns is None:
            self._columns = set(map(str, table.columns))
            if self._features is None:
                self._features = [column for column in table.columns if column not in own]
        elif unknown := sorted(set(map(str, table.columns)) - self._columns):
            raise ValueError(f"it has the column {unknown[0]!r}, which the first batch has not.")
        return [*own, *(self._features or ())]

    def _complete(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows without a gap in a column that counts; raises on a gap unless such rows are to be dropped."""
        used = list(dict.fromkeys(self._used(table)))
        for column in used:
            require_one_column(table, column)
        gaps = table[used].isna()
        bad = gaps.any(axis=1).to_numpy()
        if not bad.any():
            return table
        row = int(np.argmax(bad))
        if not self._drops:
            column = used[int(np.argmax(gaps.to_numpy()[row]))]
            raise ValueError(
                f"column {column!r} is missing in row {row}, and {counted(int(bad.sum()), 'row')} of {len(table):,} "
                "have a gap. Fill them in, or leave these rows out with missing='drop'."
            )
        self._dropped += int(bad.sum())
        kept = table[~bad].reset_index(drop=True)
        tasks = kept[self.task]
        # pandas makes whole numbers with a gap among them numbers with a point.
        if gaps[self.task].any() and pd.api.types.is_float_dtype(tasks.dtype) and np.all(tasks % 1 == 0):
            kept = kept.assign(**{str(self.task): tasks.astype(np.int64)})
        return kept

    def _like_the_pattern(self, table: pd.DataFrame) -> Any:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            part = self._like.like(table)
        if self._like.intercept is not None:
            part = part.add_intercept(self._like.intercept)
        if part.is_sparse or part.t is not None or part.choice is not None:
            raise ValueError("like has a t, choices or sparse features, which no summary of rows holds.")
        if self._weight is None:
            return part
        return replace(part, weight=weights(table[self._weight], part.n_rows))

    def _of_numbers(self, table: pd.DataFrame) -> Any:
        part = self._cls.from_frame(table, self._y, self.task, self._features, weight=self._weight)
        if part.design is not None:
            column = next(iter(part.design.levels))
            raise ValueError(
                f"column {column!r} holds categories, whose levels no single batch knows. Give `like`, made by "
                "MultiTaskData.from_frame or from_formula of rows that have all levels."
            )
        if part.grades:
            raise ValueError(
                f"y column {self._y!r} holds ordered categories, for which no summary exists. Give numbers."
            )
        return part

    def _require_same_kind(self, column: pd.Series) -> None:
        """Raise where tasks are whole numbers in one batch and something else in another: 1 would not be 1.0."""
        types = pd.api.types
        whole, real = types.is_integer_dtype(column.dtype), types.is_float_dtype(column.dtype)
        kind = "whole numbers" if whole else "numbers with a point" if real else "labels"
        if self._kind is not None and kind != self._kind:
            raise ValueError(
                f"task column {column.name!r} holds {kind} ({column.dtype}), and the first batch has {self._kind} "
                "there. Give tasks the same type in all batches."
            )
        self._kind = kind

    def data(self) -> Any:
        """The summary of all batches, tasks in the order of their names."""
        if self._first is None or self._summary is None:
            raise ValueError(
                "batches hold no row without a gap." if self._dropped else "batches hold no rows."
            )
        if self._dropped:
            warn_user(f"{counted(self._dropped, 'row')} with a missing value left out.")
        values, task, weight = self._summary.rows()
        stands_for, self._summary = self._summary.n_rows, None  # of many tasks it holds as much as their rows
        names = list(self._code)
        order = _order(names, self._kind == "numbers with a point")
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        task = rank[task]
        if np.any(np.diff(task) < 0):
            rows = np.argsort(task, kind="stable")
            values, task, weight = values[rows], task[rows], weight[rows]
        known = replace(self._first, task_names=tuple(names[i] for i in order))
        return with_summary(known, values, task, weight, stands_for)


def with_summary(data: Any, values: np.ndarray, task: np.ndarray, weight: np.ndarray, stands_for: int) -> Any:
    """The data with these rows, features and then y, in the place of theirs.

    Raises
    ------
    ValueError
        Squares of a column were beyond all floats.
    """
    bad = np.flatnonzero(~np.isfinite(values).all(axis=0))
    if len(bad):
        name = (*data.feature_names, "y")[bad[0]]
        raise ValueError(
            f"column {name!r} has values so large that squares of them are beyond all floats. Give it in other units."
        )
    return replace(
        data,
        inputs=np.ascontiguousarray(values[:, :-1]),
        row=np.arange(len(values)),
        y=values[:, -1].copy(),
        task=task,
        weight=weight,
        stands_for=stands_for,
    )


def _require_pattern(like: Any, columns: tuple[Any, ...], weight: str | None) -> None:
    """Raise where batches cannot be coded like these data."""
    if any(column is not None for column in columns):
        raise ValueError("like says which columns are y, task and features. Leave these out.")
    if like.design is None:
        raise ValueError(
            "like was made neither by from_formula nor of categories. Leave it out, and name y, task and features."
        )
    if like.transform is not None or like.learned_mean is not None:
        what = "standardized" if like.transform is not None else "data with a learned mean"
        raise ValueError(
            f"like is {what}, and batches come as they are. Give the data as they were before, and call "
            "standardize on what comes out."
        )
    if like.weight is not None and weight is None:
        raise ValueError("like has weights, and weight is not given. Name their column, weight='...'.")


def _order(names: list[str], numbers: bool) -> np.ndarray:
    """Positions of task names in order: numbers by their size, also where they came as text."""
    if numbers:
        return np.argsort(np.array(names, dtype=np.str_).astype(np.float64), kind="stable")
    try:
        whole = [int(name) for name in names]
    except ValueError:
        whole = []
    if [str(number) for number in whole] == names:
        return np.array(sorted(range(len(names)), key=whole.__getitem__), dtype=np.int64)
    return np.argsort(np.array(names, dtype=np.str_), kind="stable")
