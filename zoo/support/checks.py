"""Checks of what users hand in: each error names the argument and the row, task or column."""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from zoo.support.arrays import as_array, as_floats, as_name, column_label
from zoo.support.frames import read_table
from zoo.support.other_words import also_called
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "covariance",
    "finite_inputs",
    "finite_matrix",
    "finite_sparse",
    "finite_vector",
    "flag",
    "is_sparse",
    "names",
    "one_of",
    "positive",
    "probability",
    "task_codes",
    "text_labels",
    "whole_number",
]


def one_of(
    value: Any, allowed: Iterable[Any], argument: str, elsewhere: Mapping[str, str] = MappingProxyType({})
) -> None:
    """Raise unless ``value`` is among ``allowed``; the message has the name of a word from ``elsewhere``."""
    options = list(allowed)
    # An array compares with each word entry by entry.
    if np.ndim(value) > 0 or value not in options:
        shown = ", ".join(repr(o) for o in options[:12]) + (", ..." if len(options) > 12 else "")
        advice = f"Choose from {shown}." if options else "There are none: leave it out."
        raise ValueError(f"{argument}: {value!r} is unknown.{also_called(value, elsewhere)} {advice}")


def flag(value: Any, argument: str) -> None:
    """Raise unless ``value`` is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ValueError(f"{argument} is {value!r}. Give True or False.")


def positive(value: Any, argument: str) -> None:
    """Raise unless ``value`` is a finite number above zero."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value > 0):
        raise ValueError(f"{argument} is {value!r}. Give a finite number above 0.")


def not_negative(value: Any, argument: str) -> None:
    """Raise unless ``value`` is a finite number of 0 or more."""
    number = isinstance(value, int | float | np.integer | np.floating) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value >= 0):
        raise ValueError(f"{argument} is {value!r}. Give a finite number, 0 or more.")


def whole_number(value: Any, argument: str, least: int = 1) -> int:
    """``value`` as an int of ``least`` or more; a bool is none."""
    try:
        number = None if isinstance(value, bool | np.bool_) else operator.index(value)
    except TypeError:
        number = None
    if number is None or number < least:
        raise ValueError(f"{argument} is {value!r}. Give a whole number of {least} or more.")
    return number


def probability(value: Any, argument: str) -> None:
    """Raise unless ``value`` is strictly between 0 and 1."""
    number = isinstance(value, int | float | np.integer | np.floating)
    if not (number and 0.0 < value < 1.0):
        raise ValueError(f"{argument} is {value!r}. Give a probability between 0 and 1.")


def finite_matrix(
    values: Any, argument: str, column_names: Sequence[str] | None, allow_missing: bool = False
) -> np.ndarray:
    """``values`` as an (n, m) float64 array, finite; with ``allow_missing`` NaN may stand in it."""
    if hasattr(values, "toarray"):
        values = values.toarray()
    raw = values if isinstance(values, pd.DataFrame) else as_array(values, argument)
    if raw.ndim != 2:
        raise ValueError(f"{argument} has {raw.ndim} dimension(s), shape {raw.shape}. Give a 2-D array.")
    if 0 in raw.shape:
        raise ValueError(f"{argument} is empty, shape {raw.shape}. Give at least one row and one column.")
    matrix = as_floats(raw, argument, column_names)
    bad = np.isinf(matrix) if allow_missing else ~np.isfinite(matrix)
    if bad.any():
        row, column = (int(i) for i in np.argwhere(bad)[0])
        label = column_label(column_names, column)
        place = f"row {row}" if label == repr(argument) else f"row {row}, column {label}"
        raise ValueError(
            f"{argument} is {matrix[row, column]} in {place}. Drop the row or fill the value in."
        )
    return matrix


def is_sparse(values: Any) -> bool:
    """Whether ``values`` is a sparse matrix or array of SciPy."""
    # What scipy.sparse.issparse answers, without importing it for everyone.
    return hasattr(values, "tocsr")


def finite_sparse(values: Any, argument: str, column_names: Sequence[str] | None) -> csr_matrix:
    """``values`` as an (n, m) float64 csr_matrix of its own, finite, in canonical form and without stored zeros."""
    from scipy.sparse import csr_matrix

    if values.ndim != 2:
        raise ValueError(
            f"{argument} has {values.ndim} dimension(s), shape {values.shape}. Give a 2-D matrix."
        )
    if 0 in values.shape:
        raise ValueError(f"{argument} is empty, shape {values.shape}. Give at least one row and one column.")
    if values.dtype.kind not in "biuf":
        raise ValueError(
            f"{argument} holds values of type {values.dtype}. Give a sparse matrix of real numbers."
        )
    with np.errstate(over="ignore"):
        matrix = csr_matrix(values, dtype=np.float64, copy=True)
    try:
        # A wrong index would be read outside of the memory of the matrix.
        matrix.check_format(full_check=True)
    except ValueError as error:
        raise ValueError(f"{argument} is a damaged sparse matrix ({error}). Make it anew.") from None
    with np.errstate(over="ignore"):
        matrix.sum_duplicates()
    matrix.eliminate_zeros()
    bad = np.flatnonzero(~np.isfinite(matrix.data))
    if len(bad):
        row = int(np.searchsorted(matrix.indptr, bad[0], side="right")) - 1
        column = int(matrix.indices[bad[0]])
        raise ValueError(
            f"{argument} is {matrix.data[bad[0]]} in row {row}, column {column_label(column_names, column)}. "
            "Drop the row or impute the value."
        )
    return matrix


def finite_inputs(
    values: Any,
    argument: str,
    column_names: Sequence[str] | None,
    allow_none: bool = False,
    allow_missing: bool = False,
) -> Any:
    """Inputs as a finite float64 array, or as a csr_matrix where they are sparse.

    With ``allow_none`` there may be no column, of rows that are there; with ``allow_missing`` NaN may stand in an
    array.
    """
    shape: tuple[int, ...] = getattr(values, "shape", ()) if allow_none and not is_sparse(values) else ()
    if len(shape) == 2 and shape[0] > 0 and shape[1] == 0:
        return np.empty(shape)
    if is_sparse(values):
        return finite_sparse(values, argument, column_names)
    return finite_matrix(values, argument, column_names, allow_missing)


def finite_vector(values: Any, argument: str, n_rows: int) -> np.ndarray:
    """``values`` as an (n_rows,) float64 array, finite; an error calls a column by its name."""
    name = getattr(values, "name", None)
    raw = as_array(values, argument)
    if raw.ndim == 2 and raw.shape[1] == 1:
        raw = raw[:, 0]
    if raw.ndim != 1:
        raise ValueError(f"{argument} has shape {raw.shape}. Give a 1-D array, one value per row of X.")
    if len(raw) != n_rows:
        raise ValueError(
            f"{argument} has {counted(len(raw), 'row')} and X has {n_rows}. Give both the same rows."
        )
    return finite_matrix(raw[:, None], argument, [argument if name is None else str(name)])[:, 0]


def names(
    values: Sequence[str] | None, argument: str, length: int | None = None, prefix: str = ""
) -> tuple[str, ...]:
    """Distinct, non-empty names that a file can hold; made from ``prefix`` and a number where none are given."""
    if values is None:
        assert length is not None
        return tuple(f"{prefix}{i}" for i in range(length))
    if isinstance(values, str | bytes) or not isinstance(values, Iterable):
        raise ValueError(f"{argument} is {values!r}. Give a list of names.")
    given = list(values)
    if length is not None and len(given) != length:
        raise ValueError(
            f"{argument} has {counted(len(given), 'name')} for {counted(length, 'column')}. Give one per column."
        )
    result = tuple("" if _is_missing(value) else as_name(value) for value in given)
    # A look at all of them together, which millions of names can bear; only where it finds a fault, one by one.
    text = "".join(result)
    if len(set(result)) == len(result) and "" not in result and "\0" not in text and _is_unicode(text):
        return result
    seen: set[str] = set()
    for name in result:
        if not name:
            raise ValueError(f"{argument} holds an empty name. Give every entry a name.")
        if name in seen:
            raise ValueError(f"{argument} holds {name!r} twice. Names must be distinct.")
        if "\0" in name or any("\ud800" <= letter <= "\udfff" for letter in name):
            raise ValueError(
                f"{argument} holds {name!a}, of which a character cannot be saved. Remove NUL and lone surrogates."
            )
        seen.add(name)
    return result


def _is_unicode(text: str) -> bool:
    """Whether the text has no lone surrogate, so that a file can hold it."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _is_missing(value: Any) -> bool:
    return value is None or value is pd.NA or value is pd.NaT or (isinstance(value, float) and value != value)


def task_codes(task: Any, n_rows: int, task_names: Sequence[str] | None) -> tuple[np.ndarray, Sequence[str]]:
    """Integer codes 0 .. T-1 of each row's task, and the T names."""
    if task_names is not None:
        task_names = names(task_names, "task_names")
    if task is None:
        if task_names is not None and len(task_names) != 1:
            raise ValueError(
                f"task is missing but task_names holds {counted(len(task_names), 'name')}. Give the task of each row."
            )
        return np.zeros(n_rows, dtype=np.int64), task_names or ["all"]
    raw = as_array(task, "task")
    if raw.dtype.kind == "U" and isinstance(task, list | tuple):
        raw = np.array(task, dtype=object)  # NumPy has made text of numbers and NaN among them
    if raw.ndim != 1 or len(raw) != n_rows:
        raise ValueError(
            f"task has shape {raw.shape} and X has {counted(n_rows, 'row')}. Give one task per row."
        )
    if pd.isna(raw).any():
        row = int(np.flatnonzero(pd.isna(raw))[0])
        raise ValueError(f"task is missing in row {row}. Drop the row or name its task.")
    if raw.dtype.kind in "iuf":
        return _numeric_codes(_whole_numbers(raw), task_names)
    labels = text_labels(raw, "task")
    number, distinct = pd.factorize(labels)
    order = list(task_names) if task_names is not None else sorted(distinct)
    codes = pd.Index(order, dtype=object).get_indexer(pd.Index(distinct, dtype=object))[number]
    if (codes < 0).any():
        row = int(np.flatnonzero(codes < 0)[0])
        raise ValueError(f"task is {labels[row]!r} in row {row}, which task_names does not hold. Add it.")
    _no_empty_task(codes, order)
    return codes.astype(np.int64), order


def text_labels(values: np.ndarray, argument: str) -> np.ndarray:
    """Task values as an array of text; raises where that joins values that differ, or parts values that are equal."""
    if values.dtype.kind == "U" or pd.api.types.infer_dtype(values, skipna=False) == "string":
        return values.astype(object)  # text already: nothing is joined or parted
    labels = [as_name(v) for v in values]
    try:
        distinct = len(set(values.tolist()))
    except TypeError:
        distinct = -1  # lists and the like, which have no hash
    if distinct != len(set(labels)) or values.dtype.kind == "c":
        raise ValueError(
            f"{argument} holds values of several kinds, or that are no names, such as {values[0]!r}. "
            "Give text, or whole numbers."
        )
    return np.array(labels, dtype=object)


def _whole_numbers(raw: np.ndarray) -> np.ndarray:
    # Above 2^53 floats are no longer all whole numbers, above 2^63 integers would change their sign.
    bad = raw > np.iinfo(np.int64).max if raw.dtype.kind == "u" else np.zeros(len(raw), dtype=bool)
    if raw.dtype.kind == "f":
        bad = ~((np.abs(raw) < 2.0**53) & (raw == np.round(raw)))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(f"task is {raw[row]} in row {row}. Tasks are names or whole numbers.")
    return raw.astype(np.int64)


def _numeric_codes(raw: np.ndarray, task_names: Sequence[str] | None) -> tuple[np.ndarray, Sequence[str]]:
    if task_names is None:
        labels, codes = np.unique(raw, return_inverse=True)
        return codes.astype(np.int64), [f"task {v}" for v in labels]
    bad = (raw < 0) | (raw >= len(task_names))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"task is {raw[row]} in row {row}, outside 0 .. {len(task_names) - 1}. "
            "With task_names, numbers are positions in it."
        )
    _no_empty_task(raw, task_names)
    return raw, task_names


def _no_empty_task(codes: np.ndarray, task_names: Sequence[str]) -> None:
    missing = np.setdiff1d(np.arange(len(task_names)), codes)
    if len(missing):
        raise ValueError(
            f"task {task_names[int(missing[0])]!r} has no rows. Leave it out of task_names, "
            "and predict it as a new task."
        )


def _is_counted(labels: pd.Index) -> bool:
    """Whether rows or columns are merely numbered."""
    return list(labels) == list(range(len(labels)))


def covariance(value: Any, argument: str, size: int | None = None) -> np.ndarray:
    """``value`` as a symmetric positive definite float64 matrix; names of rows are refused: nobody would read them."""
    _, rows = read = read_table(value, argument)
    if (rows is not None and not _is_counted(rows)) or (
        isinstance(read.values, pd.DataFrame) and not _is_counted(read.values.columns)
    ):
        raise ValueError(
            f"{argument} has names of rows or columns, which a description does not keep. Put it into the order of the "
            f"data's features or tasks, and pass {argument}.to_numpy()."
        )
    value = read.values
    matrix = finite_matrix(value, argument, None)
    if matrix.shape[0] != matrix.shape[1]:
        raise ValueError(f"{argument} has shape {matrix.shape}. Give a square matrix.")
    if size is not None and len(matrix) != size:
        raise ValueError(f"{argument} has shape {matrix.shape}, but the data need ({size}, {size}).")
    if not np.allclose(matrix, matrix.T, rtol=1e-10, atol=1e-12 * np.abs(matrix).max()):
        raise ValueError(f"{argument} is not symmetric. Give a covariance matrix.")
    smallest = float(np.linalg.eigvalsh(matrix)[0])
    if smallest <= 1e-14 * np.abs(matrix).max():
        raise ValueError(
            f"{argument} is not positive definite (smallest eigenvalue {smallest:.3g}). "
            "Add a small multiple of the identity."
        )
    return (matrix + matrix.T) / 2
