"""Which observations each fold of a cross-validation holds out."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from zoo.data.rows import TaskRows

__all__ = ["deal_rows", "folds_of_inputs", "folds_of_rows", "of_units", "units_by_task"]

# A random deal of inputs to folds can paint itself into a corner where tasks have few inputs each.
_DEALS_OF_INPUTS = 100


def folds_of_rows(data: TaskRows, n: int, rng: np.random.Generator) -> np.ndarray:
    """Fold in which each observation is held out, (N,); -1 for never."""
    fold, dealt = deal_rows(units_by_task(data), data.n_rows, n, rng)
    _require_enough(dealt, n, "rows" if data.choice is None else "choices")
    return of_units(data, fold)


def units_by_task(data: TaskRows) -> list[np.ndarray]:
    """Rows of each task that stand for what is dealt: each row for itself, or the first one of each choice."""
    if data.choice is None:
        return data.rows_by_task()
    first = np.unique(data.choice, return_index=True)[1]
    return [rows[np.isin(rows, first)] for rows in data.rows_by_task()]


def of_units(data: TaskRows, values: np.ndarray) -> np.ndarray:
    """What is said of the first row of each choice (N,), for all rows of it."""
    if data.choice is None:
        return values
    _, first, choice = np.unique(data.choice, return_index=True, return_inverse=True)
    return np.asarray(values[first][choice])


def deal_rows(
    rows_by_task: Iterable[np.ndarray], n_rows: int, n: int, rng: np.random.Generator | np.random.RandomState
) -> tuple[np.ndarray, int]:
    """Fold of each row, (N,), -1 of the only row of a task, which is never held out; and how many rows are."""
    fold = np.full(n_rows, -1)
    dealt = 0
    for rows in rows_by_task:
        if len(rows) > 1:
            # Goes on where the last task stopped: else the first folds would get every task's odd row.
            fold[rng.permutation(rows)] = (dealt + np.arange(len(rows))) % n
            dealt += len(rows)
    return fold, dealt


def folds_of_inputs(data: TaskRows, n: int, rng: np.random.Generator) -> np.ndarray:
    """Fold in which each row of ``inputs`` is held out, (n_inputs,); -1 for never."""
    row, task = np.divmod(np.unique(data.row * data.n_tasks + data.task), data.n_tasks)
    tasks_of = np.split(task, np.searchsorted(row, np.arange(1, data.n_inputs)))
    n_inputs = np.bincount(task, minlength=data.n_tasks)  # of each task
    alone = np.unique(row[n_inputs[task] == 1])
    movable = np.setdiff1d(row, alone)
    _require_enough(len(movable), n, "inputs")
    stuck = np.array([], dtype=np.int64)
    for _ in range(_DEALS_OF_INPUTS):
        fold, stuck = _deal_inputs(data, rng.permutation(movable), alone, tasks_of, n_inputs, n)
        if not len(stuck):
            return fold
    raise ValueError(
        f"task {data.task_names[stuck[0]]!r} has rows on {n_inputs[stuck[0]]} inputs only, and no deal of the "
        f"inputs to n = {n} folds was found that leaves every task a training row. "
        "Give a larger n, or leave the task out with data.select_tasks(...)."
    )


def _deal_inputs(
    data: TaskRows,
    order: np.ndarray,
    alone: np.ndarray,
    tasks_of: list[np.ndarray],
    n_inputs: np.ndarray,
    n: int,
) -> tuple[np.ndarray, np.ndarray]:
    """Each input to the emptiest fold that leaves its tasks a training row; the fold of each input, or stuck tasks.

    ``only[l]`` is the one fold that holds all inputs of task ``l`` dealt so far, -1 before the first, and -2
    once they are in several places, of which the training set of every fold has one.
    """
    fold = np.full(data.n_inputs, -1)
    size = np.zeros(n, dtype=np.int64)
    only = np.full(data.n_tasks, -1)
    left = n_inputs.copy()
    for i in alone:
        only[tasks_of[i]] = -2
        left[tasks_of[i]] -= 1
    for i in order:
        tasks = tasks_of[i]
        left[tasks] -= 1
        last = tasks[(left[tasks] == 0) & (only[tasks] >= 0)]
        cost = size.astype(float)
        cost[only[last]] = np.inf
        chosen = int(cost.argmin())
        if np.isinf(cost[chosen]):
            return fold, last
        fold[i] = chosen
        size[chosen] += 1
        before = only[tasks]
        only[tasks] = np.where((before == -1) | (before == chosen), chosen, -2)
    return fold, np.array([], dtype=np.int64)


def _require_enough(movable: int, n: int, what: str) -> None:
    if movable < n:
        raise ValueError(f"n is {n}, but only {movable} {what} can be held out. Give a smaller n.")
