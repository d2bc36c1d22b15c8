"""Data that are a summary: a few weighted rows in the place of many, made at once or batch by batch."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
import pandas as pd

from zoo.data.batches import batches_of
from zoo.data.columns import as_table, listed, weights
from zoo.data.constructors import Constructed
from zoo.data.gaps import MISSING
from zoo.data.summary import TaskSummary
from zoo.support.checks import one_of
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["Summarised"]


@dataclass(frozen=True, eq=False, repr=False)
class Summarised(Constructed):
    """How :class:`zoo.MultiTaskData` makes summaries of rows."""

    def summarise(self) -> Self:
        """Data with at most D + 2 weighted rows per task, which say the same to a linear model with Gaussian noise.

        The posterior of such a model is the same, up to rounding, whatever the method: the rows of each task have the
        same sum of weights, means, variances and covariances of features and response (Wong et al. 2021; see
        :mod:`zoo.data.summary`). Fits take the time and the memory of so few rows. The rows are no observations: what
        looks at single rows, such as :meth:`split` or leave-one-out, refuses them, and so do other models and
        likelihoods. Predictions are made for rows that are handed to ``fit.predict``.

        Raises
        ------
        ValueError
            The data have a task variable ``t``, choices, missing or sparse features, which no such summary holds.
        """
        self._refuse_sparse("a summary of it")
        for there, what in (
            (self.t is not None, "a task variable t"),
            (self.choice is not None, "choices"),
            (self.gaps is not None, "missing values"),
        ):
            if there:
                raise ValueError(f"the data have {what}, and a summary of rows holds none. Use the rows.")
        summary = TaskSummary(self.n_features + 1)
        present, code = np.unique(self.task, return_inverse=True)
        summary.add(np.column_stack([self.X, self.y]), code, self.weight)
        values, task, weight = summary.rows()
        return replace(
            self,
            inputs=np.ascontiguousarray(values[:, :-1]),
            row=np.arange(len(values)),
            y=values[:, -1].copy(),
            task=present[task],
            weight=weight,
            grades=(),
            stands_for=self.stands_for or self.n_rows,
        )

    @classmethod
    def from_batches(
        cls,
        batches: Any,
        y: str | None = None,
        task: str | None = None,
        features: Sequence[str] | None = None,
        weight: str | None = None,
        like: Any = None,
        missing: str = "refuse",
    ) -> Self:
        """A summary of rows that come batch by batch, so that they need not fit into memory.

        What comes out is what :meth:`summarise` makes of all rows together: weighted rows, at most D + 2 per task, for
        linear models with Gaussian noise. Rows of a task may stand in any batch, in any order. ``standardize`` gives
        the result the means and standard deviations of all rows (where rows have weights, the weighted ones).

        Parameters
        ----------
        batches : path, dataset or iterable of tables
            A Parquet or CSV file, a folder or a pattern of such (pyarrow reads them); a dataset, reader or table of
            Arrow; a LazyFrame of polars; a DataFrame of dask; a relation of DuckDB; or an iterable of tables, such as
            ``pandas.read_csv(..., chunksize=100_000)`` or a generator that changes tables as they come.
        y, task : str
            Columns with the response and the task.
        features : sequence of str, optional
            Columns to use as features, numbers; default: all others of the first batch.
        weight : str, optional
            Column with the weight of each observation.
        like : MultiTaskData, optional
            In the place of ``y``, ``task`` and ``features``: data that :meth:`from_formula`, or :meth:`from_frame` with
            categories, made of a part of the rows. Every batch is coded as they were, so their levels must be all that
            there are.
        missing : {"refuse", "drop"}
            What becomes of rows with a gap in a column that is used: an error names the first one of a batch, or they
            are left out, and a warning counts them.

        Raises
        ------
        ValueError
            Names the batch, counted from 0, and what is wrong with it: a column that it lacks or has beside those of
            the first, a row, a level that ``like`` does not know.
        """
        one_of(missing, [word for word in MISSING if word != "model"], "missing")
        reader = _Reader(cls, y, task, features, weight, like, missing)
        for number, batch in enumerate(batches_of(batches)):
            try:
                reader.take_up(batch)
            except (TypeError, ValueError, KeyError) as error:
                raise type(error)(f"batch {number}: {error}") from error
        return reader.data()


class _Reader:
    """The arguments of :meth:`Summarised.from_batches`, and what the batches have said so far."""

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
        if like is not None and not (y is None and task is None and features is None):
            raise ValueError("like says which columns are y, task and features. Leave these out.")
        if like is not None and (like.transform is not None or like.learned_mean is not None):
            what = "standardized" if like.transform is not None else "data with a learned mean"
            raise ValueError(
                f"like is {what}, and batches come as they are. Give the data as they were before, and call "
                "standardize on what comes out."
            )
        if isinstance(features, str):
            raise ValueError(f"features is the string {features!r}. Give a list of columns, [{features!r}].")
        self._cls, self._y, self._task, self._weight = cls, y, task, weight
        self._features = None if features is None else listed(features, "features")
        self._like, self._missing = like, missing
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
        part = self._read(table.reset_index(drop=True))
        self._dropped += len(table) - part.n_rows
        if not part.n_rows:
            return
        if self._first is None:
            self._first = part.take([0])
            self._summary = TaskSummary(part.n_features + 1)
        assert self._summary is not None
        names = part.task_names
        code = np.array([self._code.setdefault(name, len(self._code)) for name in names])
        self._summary.add(np.column_stack([part.X, part.y]), code[part.task], part.weight)

    def _read(self, table: pd.DataFrame) -> Any:
        if self._like is not None:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                table = self._complete(table)
                part = self._like.like(table)
            if self._like.intercept is not None:
                part = part.add_intercept(self._like.intercept)
            if part.is_sparse or part.t is not None or part.choice is not None:
                raise ValueError("like has a t, choices or sparse features, which no summary of rows holds.")
            self._require_same_kind(table[part.task_column])
            return part if self._weight is None else self._weighted(part, table)
        assert self._y is not None and self._task is not None
        used = [self._y, self._task, *([] if self._weight is None else [self._weight])]
        if self._columns is None:
            self._columns = set(map(str, table.columns))
            if self._features is None:
                self._features = [column for column in table.columns if column not in used]
        elif unknown := sorted(set(map(str, table.columns)) - self._columns):
            raise ValueError(f"it has the column {unknown[0]!r}, which the first batch has not.")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # rows that are left out are counted in the end
            part = self._cls.from_frame(
                table, self._y, self._task, self._features, weight=self._weight, missing=self._missing
            )
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
        self._require_same_kind(table[self._task])
        return part

    def _complete(self, table: pd.DataFrame) -> pd.DataFrame:
        """The rows without a gap in a column that ``like`` uses, where gaps are to be dropped."""
        if self._missing == "refuse":
            return table
        design = self._like.design
        used = [*design.variables, *design.response_columns, self._like.task_column]
        known = [column for column in dict.fromkeys(used) if column in table.columns]
        return table.dropna(subset=known).reset_index(drop=True)

    def _weighted(self, part: Any, table: pd.DataFrame) -> Any:
        if self._weight not in table.columns:
            raise ValueError(f"it has no column {self._weight!r}, which weight names.")
        return replace(part, weight=weights(table[self._weight], part.n_rows))

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
        order = np.argsort(_sortable(names, self._kind != "labels"), kind="stable")
        rank = np.empty(len(names), dtype=np.int64)
        rank[order] = np.arange(len(names))
        task = rank[task]
        if np.any(np.diff(task) < 0):
            rows = np.argsort(task, kind="stable")
            values, task, weight = values[rows], task[rows], weight[rows]
        return replace(
            self._first,
            inputs=np.ascontiguousarray(values[:, :-1]),
            row=np.arange(len(values)),
            y=values[:, -1].copy(),
            task=task,
            task_names=tuple(names[i] for i in order),
            weight=weight,
            stands_for=stands_for,
        )


def _sortable(names: Iterable[str], numbers: bool) -> np.ndarray:
    """What task names are sorted by: numbers by their size."""
    return np.array(list(names), dtype=np.str_).astype(np.float64 if numbers else np.str_)
