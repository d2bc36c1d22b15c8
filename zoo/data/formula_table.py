"""Columns of the tables that formulas read: as the library formulae takes them, and as a file holds them."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from zoo.data.columns import task_column

__all__ = ["described_levels", "level_codes", "readable", "restored", "storable", "unreadable"]


def readable(table: pd.DataFrame, columns: Sequence[str], whole: Sequence[str] = ()) -> pd.DataFrame:
    """The table with these columns of kinds that formulae knows; none of them has a gap.

    Numbers of pandas' nullable kinds, of Arrow, and objects that are numbers become those of NumPy. Categories lose
    the levels that no row has, except in the columns ``whole``: a level without a row has no coefficient.
    """
    changed: dict[str, Any] = {}
    for name in columns:
        column, kind = table[name], table[name].dtype
        if isinstance(kind, pd.CategoricalDtype):
            if name not in whole:
                changed[name] = column.cat.remove_unused_categories()
        elif isinstance(kind, np.dtype) and kind.kind != "O":
            continue
        elif pd.api.types.is_bool_dtype(column):
            changed[name] = column.astype(bool)
        elif pd.api.types.is_integer_dtype(kind):
            changed[name] = column.astype(np.int64)
        elif pd.api.types.is_float_dtype(kind) or _holds_numbers(column):
            changed[name] = column.astype(np.float64)
    return table.assign(**changed) if changed else table


def _holds_numbers(column: pd.Series) -> bool:
    return column.dtype.kind == "O" and all(isinstance(v, numbers.Real | Decimal) for v in column)


def level_codes(column: pd.Series, levels: Sequence[str]) -> np.ndarray:
    """Positions of a column's entries among levels, -1 of what is none; of numbers, 1.0 is the level 1."""
    own, code = task_column(column, "group")
    found = pd.Index(levels).get_indexer(pd.Index(own))[code]
    if (found < 0).any() and pd.api.types.is_numeric_dtype(column.dtype):
        numbers_of = pd.to_numeric(pd.Series(levels), errors="coerce")
        if numbers_of.is_unique and numbers_of.notna().all():
            found = pd.Index(numbers_of).get_indexer(pd.Index(column.to_numpy(dtype=np.float64)))
    return np.asarray(found)


def unreadable(table: pd.DataFrame, columns: Sequence[str]) -> str:
    """The first of these columns that is neither a number, nor text, nor a category; empty where there is none."""
    for name in columns:
        kind = table[name].dtype
        known = isinstance(kind, pd.CategoricalDtype) or pd.api.types.is_numeric_dtype(kind)
        if not known and not all(isinstance(v, str) for v in table[name]):
            return name
    return ""


def described_levels(table: pd.DataFrame) -> list[dict[str, Any] | None]:
    """The levels of each column that is a category, JSON-ready."""
    kinds = (table[name].dtype for name in table.columns)
    return [
        {"levels": [_level(v) for v in kind.categories], "ordered": bool(kind.ordered)}
        if isinstance(kind, pd.CategoricalDtype)
        else None
        for kind in kinds
    ]


def _level(value: Any) -> Any:
    """A level as JSON holds it, numbers as numbers."""
    value = value.item() if isinstance(value, np.generic) else value
    return value if isinstance(value, bool | int | float | str) else str(value)


def storable(table: pd.DataFrame) -> list[np.ndarray]:
    """Its columns as numbers or text; of a category the text of each row's level."""
    columns = (table[name] for name in table.columns)
    return [
        v.to_numpy()
        if isinstance(v.dtype, np.dtype) and v.dtype.kind in "biuf"
        else v.astype(str).to_numpy().astype(object)
        for v in columns
    ]


def restored(values: np.ndarray, levels: dict[str, Any] | None) -> Any:
    """A column of a file; a category has its levels with the kind that they had."""
    if not levels:
        return values
    categories = list(levels["levels"])
    of_text = {str(level): level for level in categories}
    return pd.Categorical(
        [of_text[str(value)] for value in values], categories=categories, ordered=levels["ordered"]
    )
