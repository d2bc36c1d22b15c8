"""Inputs of task kernels: the features, and the number of the task in the last column.

A wrong task never reaches an index: where the numbers are known they are checked when the graph is made, and where they
are not, or may change, the graph itself checks them when it runs.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Variable
from pytensor.raise_op import CheckAndRaise

from zoo.kernels.evaluate import fixed_number
from zoo.support.checks import is_sparse
from zoo.support.words import counted

__all__ = ["features_and_task"]


def features_and_task(
    X: Any, widths: tuple[int, ...] | None, columns: np.ndarray | None, n_tasks: int, kernel: str
) -> tuple[Any, Any]:
    """Features (n, D), float64, and tasks (n,), int64, of the inputs.

    Parameters
    ----------
    X : array_like, TensorVariable or shared variable
        The inputs (n, columns).
    widths : tuple of int or None
        Numbers of columns that the kernel takes; None: any, two or more.
    columns : (D + 1,) int array, optional
        The columns in use, the task's last. Left out: all.
    n_tasks : int
        T.
    kernel : str
        What an error calls the kernel.
    """
    if is_sparse(X):
        raise ValueError("X is sparse, and task kernels take dense inputs. Give X.toarray().")
    if not isinstance(X, Variable):
        X = np.asarray(X, dtype=np.float64)
    if X.ndim != 2:
        raise ValueError(f"X has {X.ndim} dimension(s). Give one row per input: its features, then its task.")
    number = _known(X)
    X = _checked_width(X, number, widths, kernel)
    X = X if columns is None else X[:, columns]
    task = pt.as_tensor_variable(X[:, -1])
    if number is not None:
        number = number if columns is None else number[:, columns]
        _check(number[:, -1], n_tasks, kernel)
    if isinstance(X, Variable) and fixed_number(X, constant=True) is None:
        task = _checked_when_run(task, n_tasks, kernel)
    return pt.cast(X[:, :-1], "float64"), pt.cast(task, "int64")


def _known(X: Any) -> np.ndarray | None:
    return fixed_number(X) if isinstance(X, Variable) else X


def _checked_width(X: Any, number: np.ndarray | None, widths: tuple[int, ...] | None, kernel: str) -> Any:
    if widths is None:
        return X
    width = X.type.shape[1] if isinstance(X, Variable) else X.shape[1]
    known = number.shape[1] if width is None and number is not None else width
    takes = " or ".join(str(w) for w in widths)
    advice = "Give the features, and the task's number in the last column"
    if known is not None and known not in widths:
        raise ValueError(
            f"X has {counted(known, 'column')}, and the kernel {kernel} takes {takes}. {advice}."
        )
    if width is not None:
        return X
    fits = pt.any(pt.stack([pt.eq(X.shape[1], w) for w in widths]))
    return CheckAndRaise(ValueError, f"X has not the {takes} columns of the kernel {kernel}. {advice}.")(
        X, fits
    )


def _check(task: np.ndarray, n_tasks: int, kernel: str) -> None:
    wrong = np.flatnonzero(~((task == np.round(task)) & (task >= 0) & (task < n_tasks)))
    if len(wrong):
        row = int(wrong[0])
        raise ValueError(
            f"X has task {task[row]:g} in row {row}, and the kernel {kernel} has {counted(n_tasks, 'task')}. "
            f"Give whole numbers 0 .. {n_tasks - 1} in the last column."
        )


def _checked_when_run(task: Any, n_tasks: int, kernel: str) -> Any:
    right = pt.eq(task, pt.round(task)) & pt.ge(task, 0) & pt.lt(task, n_tasks)
    message = (
        f"X has a task that the kernel {kernel} does not have. "
        f"Give whole numbers 0 .. {n_tasks - 1} in the last column."
    )
    return CheckAndRaise(ValueError, message)(task, pt.all(right))
