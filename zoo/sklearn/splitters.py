"""Splitters of scikit-learn that hold out rows inside tasks, or whole tasks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import BaseCrossValidator
from sklearn.utils import check_random_state

from zoo.data.folds import deal_rows
from zoo.sklearn.rows import column_at
from zoo.support.checks import whole_number
from zoo.support.frames import read_column, read_table
from zoo.support.words import counted

__all__ = ["RowsWithinTasks", "WholeTasks"]


class _TaskSplitter(BaseCrossValidator):
    """Folds that look at the task of each row; :class:`RowsWithinTasks` has the parameters."""

    # Where metadata are routed, a splitter by tasks asks for groups, as GroupKFold does.
    __metadata_request__split = {"groups": True}

    def __init__(self, n_splits: int = 5, *, task: Any = None, random_state: Any = None):
        self.n_splits = n_splits
        self.task = task
        self.random_state = random_state

    def __repr__(self) -> str:
        return (
            f"{type(self).__name__}(n_splits={self.n_splits}, task={self.task!r}, "
            f"random_state={self.random_state!r})"
        )

    def get_n_splits(self, X: Any = None, y: Any = None, groups: Any = None) -> int:
        """Number of folds."""
        return whole_number(self.n_splits, "n_splits", 2)

    def split(self, X: Any, y: Any = None, groups: Any = None) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        """Positions of the training rows and of the held-out rows, fold by fold.

        Parameters
        ----------
        X : (n, D) array_like or table
        y : ignored
        groups : (n,) array_like, optional
            Task of each row, where ``task`` names no column of X.

        Raises
        ------
        ValueError
            There is no task, it is given twice, or there is too little to deal to ``n_splits``
            folds.
        """
        n = self.get_n_splits()
        fold = self._deal(self._codes(X, groups), n, check_random_state(self.random_state))
        for k in range(n):
            yield np.flatnonzero(fold != k), np.flatnonzero(fold == k)

    def _deal(self, codes: np.ndarray, n: int, random: np.random.RandomState) -> np.ndarray:
        """Fold in which each row is held out, (N,); -1 for never."""
        raise NotImplementedError

    def _codes(self, X: Any, groups: Any) -> np.ndarray:
        if (self.task is None) == (groups is None):
            raise ValueError(
                f"{type(self).__name__} needs the task of each row "
                f"{'once, and has it twice' if groups is not None else 'and has none'}: make it with task=, a column "
                "of X, or pass groups=."
            )
        if groups is None:
            table = read_table(X, "X").values
            if isinstance(table, pd.DataFrame):
                groups = table.iloc[:, column_at(list(table.columns), self.task, "task")]
            else:
                array = np.asarray(table)
                groups = array[:, column_at(array.shape[1], self.task, "task")]
        labels = pd.Series(read_column(groups, "groups").values).reset_index(drop=True)
        if labels.isna().any():
            raise ValueError(
                f"the task is missing in row {int(labels.isna().argmax())}. Drop the row or name its task."
            )
        return pd.factorize(labels)[0]


class RowsWithinTasks(_TaskSplitter):
    """Folds that hold out rows inside tasks: how well is a known task predicted?

    The rows of each task are dealt to the folds at random, as :meth:`zoo.MultiTaskData.folds` deals
    them. Every task keeps training rows in every fold: the only row of a task is never held out,
    all other rows are so once. The sizes of the folds differ by at most one.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    task : str or int, optional
        Column of X that holds the task: its name, or its position. Left out: the argument
        ``groups`` of ``split`` holds the task of each row.
    random_state : int or numpy.random.RandomState, optional
        Seed of the deal. With None every call of ``split`` deals anew.
    """

    def _deal(self, codes: np.ndarray, n: int, random: np.random.RandomState) -> np.ndarray:
        rows_by_task = [np.flatnonzero(codes == task) for task in range(codes.max(initial=-1) + 1)]
        fold, dealt = deal_rows(rows_by_task, len(codes), n, random)
        if dealt < n:
            raise ValueError(
                f"n_splits is {n}, but only {counted(dealt, 'row')} can be held out: the only row of a task cannot. "
                "Give fewer splits."
            )
        return fold


class WholeTasks(_TaskSplitter):
    """Folds that hold out whole tasks: how well is a new task predicted from the population?

    The tasks are dealt by their number of rows, the largest first and equal ones in random order,
    each to the fold that has the fewest rows so far. Unlike ``GroupKFold`` of scikit-learn it can
    read the task from a column of X.

    Parameters
    ----------
    n_splits : int
        Number of folds.
    task : str or int, optional
        Column of X that holds the task: its name, or its position. Left out: the argument
        ``groups`` of ``split`` holds the task of each row.
    random_state : int or numpy.random.RandomState, optional
        Seed of the deal. With None every call of ``split`` deals anew.
    """

    def _deal(self, codes: np.ndarray, n: int, random: np.random.RandomState) -> np.ndarray:
        n_rows = np.bincount(codes)
        if len(n_rows) < n:
            raise ValueError(
                f"n_splits is {n}, but there are only {counted(len(n_rows), 'task')} to hold out. Give fewer splits."
            )
        # The large ones first, so that folds come out even; ties in random order.
        shuffled = random.permutation(len(n_rows))
        order = shuffled[np.argsort(-n_rows[shuffled], kind="stable")]
        size, fold = np.zeros(n, dtype=np.int64), np.empty(len(n_rows), dtype=np.int64)
        for task in order:
            fold[task] = size.argmin()
            size[fold[task]] += n_rows[task]
        return fold[codes]
