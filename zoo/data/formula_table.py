"""Columns of the tables that formulas read: as the library formulae takes them, and as a file holds them."""

from __future__ import annotations

import numbers
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd

from zoo.data.columns import task_column

__all__ = [
    "described_levels",
    "level_codes",
    "readable",
    "require_same_kind",
    "restored",
    "storable",
    "unreadable",
]


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
        elif pd.api.types.is_bool_dtype(column) or _holds_only(column, bool | np.bool_):
            changed[name] = column.astype(bool)
        elif pd.api.types.is_integer_dtype(kind):
            changed[name] = column.astype(np.int64)
        elif pd.api.types.is_float_dtype(kind) or _holds_numbers(column):
            changed[name] = column.astype(np.float64)
    return table.assign(**changed) if changed else table


def _holds_numbers(column: pd.Series) -> bool:
    return _holds_only(column, numbers.Real | Decimal)


def _holds_only(column: pd.Series, kind: Any) -> bool:
    """Whether a column of objects has no others than those of a kind."""
    return column.dtype.kind == "O" and len(column) > 0 and all(isinstance(v, kind) for v in column)


def require_same_kind(table: pd.DataFrame, known: pd.DataFrame, columns: Sequence[str]) -> None:
    """Raise where one of these columns holds numbers here and text there, or truth values and numbers.

    For Python True is 1 and 1.0, so that levels of one kind would be taken for those of another.
    """
    for name in columns:
        here, there = _kind(table[name]), _kind(known[name])
        if here != there:
            raise ValueError(
                f"column {name!r} holds {here}, such as {table[name].iloc[0]!r}, and that of the fit holds "
                f"{there}, such as {known[name].iloc[0]!r}. Make them of one kind."
            )


def _kind(column: pd.Series) -> str:
    """What a column holds, in words: the levels of a category count, not that it is one."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        column = pd.Series(kind.categories)
        kind = column.dtype
    if pd.api.types.is_bool_dtype(kind):
        return "truth values"
    if pd.api.types.is_numeric_dtype(kind):
        return "numbers"
    if pd.api.types.is_string_dtype(kind) and all(isinstance(v, str) for v in column):
        return "text"
    return f"values of type {type(column.iloc[0]).__name__}" if len(column) else "nothing"


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
