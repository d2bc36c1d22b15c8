"""Names of the tasks of new rows, from what an argument or a column of a table holds."""

from __future__ import annotations

import re
from numbers import Integral
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.arrays import as_name
from zoo.support.words import counted

__all__ = ["column_labels", "task_labels"]

_NUMBER = re.compile(r"(?:task )?(-?\d+)(?:\.0)?")


def task_labels(task: Any, n_rows: int, known: tuple[str, ...]) -> list[str]:
    """Names of the tasks that an argument means: positions, names, or a column of a table."""
    if task is None:
        if len(known) > 1:
            raise ValueError(f"task is missing. Name the task of each row, for instance task={known[0]!r}.")
        return [known[0]] * n_rows
    values = np.asarray(task)
    if values.ndim == 0:
        values = np.repeat(values[None], n_rows)
    if values.shape != (n_rows,):
        raise ValueError(
            f"task has shape {values.shape} and X has {counted(n_rows, 'row')}. Give one task per row."
        )
    absent = np.flatnonzero(pd.isna(values))
    if len(absent):
        raise ValueError(f"task is missing in row {absent[0]}. Drop the row or name its task.")
    if isinstance(task, pd.Series | pd.Index):  # a column of a table holds labels, never positions
        return column_labels(values, known)
    values = _whole(values, known)
    if values.dtype.kind not in "iu":
        return [as_name(v) for v in values]
    numbers = _numbers_in(known)
    if numbers is not None and numbers != list(range(len(known))):
        # The labels that the tasks came with and their positions differ: never guess.
        raise ValueError(
            "task holds whole numbers, and the task names are numbers too, so names and positions could be "
            "confused. Pass names as strings, a pandas Series of labels, or the MultiTaskData itself as X."
        )
    bad = (values < 0) | (values >= len(known))
    if bad.any():
        raise ValueError(
            f"task {int(values[bad][0])} is not among the {counted(len(known), 'task')} of the data "
            f"(0 .. {len(known) - 1}). "
            "Check it, or pass new_task=True with a name."
        )
    return [known[int(v)] for v in values]


def column_labels(values: np.ndarray, known: tuple[str, ...]) -> list[str]:
    """Names of the tasks that a column of a table holds; whole numbers are those in the known names, 1.0 is 1."""
    labels = _whole(np.asarray(values), known)
    # A duration of NumPy is an Integral, and no number.
    whole = [isinstance(v, Integral) and not isinstance(v, bool | np.bool_ | np.timedelta64) for v in labels]
    by_number = _names_by_number(known) if any(whole) else {}
    return [
        _name_of(int(v), known, by_number) if is_whole else as_name(v)
        for v, is_whole in zip(labels, whole, strict=True)
    ]


def _names_by_number(known: tuple[str, ...]) -> dict[int, list[str]]:
    found: dict[int, list[str]] = {}
    for number, name in zip(_numbers_in(known) or [], known, strict=False):
        found.setdefault(number, []).append(name)
    return found


def _name_of(number: int, known: tuple[str, ...], by_number: dict[int, list[str]]) -> str:
    """The task that a whole number in a column means: the one whose name it is, or the only one made of it."""
    names = by_number.get(number, [])
    exact = str(number)
    if exact in names or not names:
        return exact
    if len(names) > 1:
        raise ValueError(
            f"task {number} could be {' or '.join(map(repr, names))}. Give the names of the tasks as text."
        )
    return names[0]


def _whole(values: np.ndarray, known: tuple[str, ...]) -> np.ndarray:
    """Labels with 1.0 as 1, which pandas makes of whole numbers where a merge finds gaps; 1.0 where that is a name."""
    if values.dtype.kind == "f":
        whole = np.isfinite(values) & (values == np.round(values)) & (np.abs(values) < 2.0**53)
        return (
            values.astype(np.int64) if whole.all() and not {str(v) for v in values} <= set(known) else values
        )
    if values.dtype.kind != "O":
        return values
    result, names = values.copy(), frozenset(known) if any(isinstance(v, float) for v in values) else known
    for row, value in enumerate(values):
        if isinstance(value, float) and value.is_integer() and str(value) not in names:
            result[row] = int(value)
    return result


def _numbers_in(known: tuple[str, ...]) -> list[int] | None:
    """The whole numbers that the task names are ("7") or were made from ("task 7"); None if they are words."""
    numbers = []
    for name in known:
        found = _NUMBER.fullmatch(name)
        if found is None:
            return None
        numbers.append(int(found[1]))
    return numbers
