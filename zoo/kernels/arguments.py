"""Parameters of task kernels: numbers are checked and made float64, random variables and tensors kept as they are."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytensor.tensor as pt
from pytensor.graph.basic import Variable

from zoo.kernels.evaluate import fixed_number
from zoo.support.checks import names, whole_number
from zoo.support.frames import as_pandas
from zoo.support.words import counted

__all__ = [
    "by_task",
    "number_of_tasks",
    "parameter",
    "psd_matrix",
    "required",
    "symmetric",
    "tensor",
    "unnamed",
]


def required(value: Any, argument: str) -> Any:
    """The value; raise where it was left out."""
    if value is None:
        raise TypeError(f"{argument} is missing. Give it by its name, {argument}=...")
    return value


def tensor(value: Any) -> Any:
    """A parameter as a float64 tensor; PyTensor itself would make single precision of a float like 0.5."""
    if isinstance(value, Variable):
        return value if value.type.dtype == "float64" else pt.cast(value, "float64")
    return pt.as_tensor_variable(np.asarray(value, dtype=np.float64))


def parameter(
    value: Any, argument: str, ndim: tuple[int, ...] = (0,), least: float = -np.inf, above: bool = False
) -> Any:
    """A parameter as a float, a float64 array or, where it is one, a PyTensor variable.

    Its numbers, where it has some, are finite and ``least`` or more; with ``above``, more than ``least``.
    """
    if not isinstance(value, Variable):
        value = _numbers(value, argument)
    if value.ndim not in ndim:
        allowed = " or ".join(str(n) for n in ndim)
        raise ValueError(f"{argument} has {value.ndim} dimension(s). Give it {allowed}.")
    number = fixed_number(value)
    if number is not None:
        _in_range(number, argument, least, above)
    return value if isinstance(value, Variable) or value.ndim else float(value)


def _labels(value: Any) -> list[list[str] | None]:
    """Names along each dim of a table of pandas or a DataArray; None where there are none, or mere numbers in order."""
    if isinstance(value, pd.DataFrame | pd.Series):
        indexes = [value.index, *([value.columns] if value.ndim == 2 else [])]
    elif hasattr(value, "dims") and hasattr(value, "indexes"):
        indexes = [value.indexes.get(dim) for dim in value.dims]
    else:
        return []
    counted = [index is None or list(index) == list(range(len(index))) for index in indexes]
    return [None if c else [str(name) for name in index] for c, index in zip(counted, indexes, strict=True)]


def unnamed(value: Any, argument: str, order: str = "the order that the documentation says") -> Any:
    """The value; raise where its entries have names, for they would be taken by position all the same."""
    found = next((labels for labels in _labels(as_pandas(value, argument)) if labels), None)
    if found is not None:
        raise ValueError(
            f"{argument} has names, {found[0]!r} say, and is read by position. Put it into {order}, and give "
            f"{argument}.to_numpy()."
        )
    return value


def by_task(value: Any, argument: str, task_names: Any, square: bool = False) -> tuple[Any, Any]:
    """A parameter with one entry per task, by the tasks' names where it has them; and the names of the tasks.

    Parameters
    ----------
    value : array_like, tensor, table, or dict by task
        Its rows are the tasks; with ``square``, not of a dict, its columns too.
    argument : str
    task_names : sequence of str, optional
        The order wanted. Left out: that of the rows.
    square : bool

    Raises
    ------
    ValueError
        The names are not those of the tasks.
    """
    if isinstance(value, Variable):
        return value, task_names
    value = (
        pd.Series(dict(value)) if isinstance(value, Mapping) and not square else as_pandas(value, argument)
    )
    found = _labels(value)
    sides = found[: 1 + square]
    known = next((labels for labels in sides if labels), None)
    if known is None:
        return value, task_names
    order = names(known if task_names is None else task_names, "task_names")
    array = np.asarray(value)
    for axis, labels in enumerate(sides):
        given = names(labels or known, argument)
        odd = sorted(set(given) ^ set(order))
        if odd:
            raise ValueError(
                f"{argument} has the names {', '.join(given[:3])}, ..., and {odd[0]!r} is not both there and among "
                f"the tasks. Give the same names, or {argument}.to_numpy() in the order of the tasks."
            )
        array = np.take(array, [given.index(name) for name in order], axis=axis)
    return array, order


def _numbers(value: Any, argument: str) -> np.ndarray:
    array = np.asarray(unnamed(value, argument))
    if array.dtype.kind not in "biuf":
        raise TypeError(f"{argument} is {value!r}. Give numbers, a random variable or a tensor.")
    return array.astype(np.float64)


def _in_range(number: np.ndarray, argument: str, least: float, above: bool) -> None:
    wrong = ~np.isfinite(number) | ((number <= least) if above else (number < least))
    if not wrong.any():
        return
    where = tuple(int(i) for i in np.argwhere(wrong)[0])
    entry = f"{argument}{list(where) if where else ''}"
    bound = "" if least == -np.inf else f" above {least:g}" if above else f" of {least:g} or above"
    raise ValueError(f"{entry} is {number[where]}. Give a finite number{bound}.")


def symmetric(value: Any, argument: str, names: Any = None) -> None:
    """Raise unless the numbers of a matrix, where it has some, are square and symmetric; name the entry."""
    matrix = fixed_number(value)
    if matrix is None:
        return
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{argument} has shape {matrix.shape}. Give a square matrix.")
    wrong = np.abs(matrix - matrix.T) > 1e-10 * np.abs(matrix).max(initial=0.0)
    if wrong.any():
        i, j = (int(k) for k in np.argwhere(wrong)[0])
        pair = f"{i} and {j}" if names is None else f"{names[i]!r} and {names[j]!r}"
        raise ValueError(
            f"{argument} is not symmetric: {matrix[i, j]:g} and {matrix[j, i]:g} between {pair}. "
            "Make the two equal."
        )


def psd_matrix(value: Any, argument: str, definite: bool = False) -> Any:
    """A symmetric matrix whose numbers, where it has some, are positive semi-definite, or definite."""
    value = parameter(value, argument, ndim=(2,))
    symmetric(value, argument)
    matrix = fixed_number(value)
    if matrix is not None:
        eigenvalues = np.linalg.eigvalsh((matrix + matrix.T) / 2)
        size = np.abs(eigenvalues).max()
        if eigenvalues[0] <= 1e-14 * size if definite else eigenvalues[0] < -1e-10 * size:
            kind = "definite" if definite else "semi-definite"
            raise ValueError(
                f"{argument} is not positive {kind}: its smallest eigenvalue is {eigenvalues[0]:.3g}. "
                "Add a multiple of the identity."
            )
    return value


def number_of_tasks(value: Any, n_tasks: int | None, argument: str, task_names: Any = None) -> int:
    """T, the length of a parameter with one entry per task; of a tensor that hides its length, ``n_tasks``."""
    length = value.type.shape[0] if isinstance(value, Variable) else len(value)
    if n_tasks is None and length is None and task_names is not None:
        n_tasks = len(task_names)
    if n_tasks is None:
        if length is None:
            raise ValueError(f"{argument} is a tensor of unknown length. Say n_tasks.")
        return int(length)
    n_tasks = whole_number(n_tasks, "n_tasks")
    if length not in (None, n_tasks):
        raise ValueError(
            f"{argument} is of {counted(length, 'task')} and n_tasks is {n_tasks}. Make them equal."
        )
    return n_tasks
