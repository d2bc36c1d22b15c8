"""Choices between alternatives: which rows belong to one choice, and whether data of choices can be fitted.

Of each choice every alternative is a row, and y says which one was chosen. Alternatives of one choice
belong to one task, the person who chose.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd

from zoo.data.rows import TaskRows
from zoo.support.arrays import as_array
from zoo.support.frames import read_table, require_one_each
from zoo.support.words import counted

__all__ = ["choice_codes", "choice_of_rows", "require_choices", "require_no_choices"]


def choice_codes(choice: Any, task: np.ndarray, n_rows: int) -> np.ndarray:
    """The choice of each row, (N,): 0, 1, ... in the order in which they come.

    The same label in two tasks is two choices: labels often count from 1 for each person.

    Parameters
    ----------
    choice : (N,) array_like
        Labels of the choices.
    task : (N,) int
    n_rows : int
    """
    values = choice if isinstance(choice, pd.Series) else as_array(choice, "choice")
    if np.shape(values) != (n_rows,):
        raise ValueError(
            f"choice has shape {np.shape(values)} and X has {counted(n_rows, 'row')}. Give the label of the choice "
            "that each row belongs to."
        )
    absent = np.flatnonzero(pd.isna(values))
    if len(absent):
        raise ValueError(
            f"choice is missing in row {absent[0]}. Drop the row, or say to which choice it belongs."
        )
    labels, _ = pd.factorize(np.asarray(values))
    pairs = labels * (int(task.max(initial=0)) + 1) + task
    return np.asarray(pd.factorize(pairs)[0], dtype=np.int64)


def choice_of_rows(X: Any, task: np.ndarray, data: TaskRows, unnamed: bool = False) -> np.ndarray:
    """The choice of each row to predict (n,), from a table with the column of the data, or from MultiTaskData.

    Parameters
    ----------
    X : table or MultiTaskData
    task : (n,) int
        Task of each row.
    data : MultiTaskData
        Those of the fit.
    unnamed : bool
        Whether nothing says of which tasks the rows are, so that they count as rows of one new task.

    Raises
    ------
    ValueError
        X does not say which rows belong to one choice; or a choice of unnamed rows comes back after others, as
        where several persons answered questions of the same numbers.
    """
    given = getattr(X, "choice", None) if type(X) is type(data) else None
    if given is not None:
        return choice_codes(given, task, len(task))
    column = data.choice_column
    table = read_table(X, "X", data.feature_names).values if type(X) is not type(data) else None
    if column is not None and isinstance(table, pd.DataFrame):
        table = table.rename(columns=str)
        if column in table.columns:
            require_one_each(table, [column], "X")
            codes = choice_codes(table[column], task, len(task))
            if unnamed:
                _require_together(codes, table[column])
            return codes
    where = "MultiTaskData with choice" if column is None else f"a table with the column {column!r}"
    raise ValueError(f"X does not say which rows are alternatives of one choice. Give {where}.")


def _require_together(codes: np.ndarray, labels: pd.Series) -> None:
    """Raise where the rows of a choice do not stand together."""
    starts = np.flatnonzero(np.diff(codes, prepend=-1))
    again = pd.Series(codes[starts]).duplicated()
    if again.any():
        row = int(starts[int(again.argmax())])
        raise ValueError(
            f"choice {labels.iloc[row]!r} comes back in row {row} after others, and nothing says of which task the "
            "rows are: they would be alternatives of one new person. Give the column of tasks with X, or the argument "
            "task; if it is one person, put the rows of each choice together."
        )


def require_no_choices(data: TaskRows, likelihood: str) -> None:
    """Raise where the data say which rows belong together and the likelihood does not look at it."""
    if data.choice is not None:
        raise ValueError(
            f"the data have choices (rows that are alternatives of each other), which {likelihood} does not look at. "
            "Use likelihood=zoo.MultinomialLogit(), or make the data without choice."
        )


def require_choices(data: TaskRows, y: np.ndarray) -> None:
    """Raise where the rows do not form choices, or where a feature says nothing of any choice.

    Parameters
    ----------
    data : MultiTaskData
    y : (N,) array
        +1 where the row was chosen, and -1 elsewhere.
    """
    if data.choice is None:
        raise ValueError(
            "the data do not say which rows are alternatives of one choice. Name the column that numbers the choices: "
            'MultiTaskData.from_frame(..., choice="column"), or from_arrays(..., choice=labels).'
        )
    _, at, codes = np.unique(data.choice, return_index=True, return_inverse=True)
    size, chosen = np.bincount(codes), np.bincount(codes, y > 0.0).astype(int)
    bad = np.flatnonzero((size == 1) | (chosen != 1))
    if len(bad):
        c = bad[np.argmin(at[bad])]
        who = f"the choice of row {at[c]} (task {data.task_names[data.task[at[c]]]!r})"
        if size[c] == 1:
            raise ValueError(f"{who} has one alternative only. Give all alternatives, or leave it out.")
        raise ValueError(
            f"{who} has {counted(size[c], 'alternative')}, of which {chosen[c]} are chosen. Exactly one must be: "
            "y is 1 there and 0 elsewhere."
        )
    if data.weight is not None and np.any(data.weight != data.weight[at][codes]):
        raise ValueError(
            "weight differs between alternatives of one choice. Give all rows of a choice the same one."
        )
    _require_features_that_vary(data, at[codes])


def _require_features_that_vary(data: TaskRows, first: np.ndarray) -> None:
    """Raise where a feature is the same for all alternatives of every choice.

    ``first`` (N,) is, for each row, the first row of the choice that it belongs to.
    """
    X: Any = data.X if data.shared is None else np.column_stack([data.X, data.shared])
    still = np.flatnonzero(~np.any(X != X[first], axis=0))
    if len(still):
        name = (*data.feature_names, *(data.shared_names if data.shared is not None else ()))[still[0]]
        raise ValueError(
            f"feature {name!r} is the same for all alternatives in every choice, so that the likelihood does not "
            "depend on it. Leave it out (an intercept too), or multiply it with a feature of the alternatives."
        )
