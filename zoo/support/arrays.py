"""Arrays of float64 from what users hand in: nested lists, masked arrays, nullable columns, objects."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import date, timedelta
from decimal import Decimal
from numbers import Real
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["as_array", "as_floats", "as_name", "column_label"]

_NUMBERS = "biuf"


def as_array(values: Any, argument: str) -> np.ndarray:
    """``values`` as an array, of objects where a masked array hides entries: those are None.

    Raises
    ------
    ValueError
        The entries do not make an array, as lists of several lengths.
    """
    if isinstance(values, np.ma.MaskedArray):
        # np.asarray alone would bring the hidden entries back.
        shown = np.asarray(values)
        if np.ma.is_masked(values):
            shown = shown.astype(object)
            shown[np.ma.getmaskarray(values)] = None
        return shown
    try:
        return np.asarray(values)
    except (TypeError, ValueError):
        raise ValueError(
            f"{argument} cannot be read as an array: its entries differ in length or kind. Give numbers of one shape."
        ) from None


def as_floats(values: np.ndarray | pd.DataFrame, argument: str, names: Sequence[str] | None) -> np.ndarray:
    """A table (n, m) as float64, in C order and not shared; NaN where an entry is missing.

    Text that looks like a number, dates and complex values are refused: NumPy would convert some of them in silence.
    What is too large for float64 becomes infinite.

    Raises
    ------
    ValueError
        Names the first column that holds something else than real numbers.
    """
    with np.errstate(over="ignore"):
        if isinstance(values, pd.DataFrame):
            if all(isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS for dtype in values.dtypes):
                return np.array(values, dtype=np.float64, order="C")
            columns = [_series_as_floats(values.iloc[:, j]) for j in range(values.shape[1])]
        elif values.dtype.kind in _NUMBERS:
            return np.array(values, dtype=np.float64, order="C")
        elif values.dtype.kind == "O":
            columns = [_objects_as_floats(column) for column in values.T]
        else:
            columns = [None]
    for j, column in enumerate(columns):
        if column is None:
            raise ValueError(f"{argument} column {column_label(names, j)} {_how_to_encode(values, j)}")
    return np.column_stack([column for column in columns if column is not None])


def _how_to_encode(values: Any, j: int) -> str:
    """What a column without numbers holds, and what to do."""
    column = values.iloc[:, j] if isinstance(values, pd.DataFrame) else pd.Series(np.asarray(values)[:, j])
    found = next((v for v in column if not pd.isna(v)), None)
    if isinstance(found, date | np.datetime64 | pd.Period):
        return "holds dates. Make numbers of them, for instance days: (date - date.min()) / pandas.Timedelta(days=1)."
    if isinstance(found, str) and pd.to_numeric(column, errors="coerce").notna().all():
        return "holds numbers as text. Make numbers of them: astype(float), or pandas.to_numeric."
    return (
        "holds values that are not numbers. Encode it first, for instance with pandas.get_dummies; "
        "MultiTaskData.from_frame does so with columns of text."
    )


def as_name(value: Any) -> str:
    """The name that a label has as text: the same for one moment, or one duration, of NumPy, pandas and Python.

    ``Series.astype(str)`` would drop the hours where all of them are 0, so that a name would depend on other rows.
    """
    try:
        if isinstance(value, np.datetime64):
            value = pd.Timestamp(value)
        elif isinstance(value, np.timedelta64 | timedelta):
            value = pd.Timedelta(value)
    except ValueError:  # months, or what is out of the range of pandas
        pass
    return str(value)


def column_label(names: Sequence[str] | None, column: int) -> str:
    """A column's name for messages, quoted; its number where it has no name."""
    return repr(names[column]) if names is not None and column < len(names) else str(column)


def _series_as_floats(column: pd.Series) -> np.ndarray | None:
    dtype = column.dtype
    if isinstance(dtype, np.dtype) and dtype.kind in _NUMBERS:
        return column.to_numpy(dtype=np.float64)
    if dtype.kind in _NUMBERS:  # nullable, or sparse
        return column.to_numpy(dtype=np.float64, na_value=np.nan)
    return _objects_as_floats(column.to_numpy(dtype=object)) if dtype.kind == "O" else None


def _objects_as_floats(column: np.ndarray) -> np.ndarray | None:
    """Objects as numbers, or None where one of them is none."""
    result = np.empty(len(column))
    for i, value in enumerate(column):
        if value is None or value is pd.NA:
            result[i] = np.nan
            continue
        if not isinstance(value, Real | Decimal | np.bool_):
            return None
        try:
            result[i] = float(value)
        except OverflowError:
            result[i] = np.inf * (1 if value > 0 else -1)  # type: ignore[operator]
        except ValueError:  # a signalling NaN of decimal
            result[i] = np.nan
    return result
