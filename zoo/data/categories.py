"""Columns of categories as features: one column of 0 and 1 for each level but the first, named after it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from zoo.data.columns import task_column

__all__ = ["CategoryDesign"]

# A column with more levels, or with one for every second row, names things and does not group them.
_MOST_LEVELS = 50


@dataclass(frozen=True, eq=False)
class CategoryDesign:
    """How the features of :meth:`zoo.MultiTaskData.from_frame` were made of columns of which some are categories.

    It has what a :class:`zoo.data.formula.FormulaDesign` has, so that rows to predict, files and the command line
    treat both alike.

    Parameters
    ----------
    names : tuple of str
        The columns, in the order of the features.
    levels : mapping of str to tuple of str
        Of each column that is a category its levels, as text; the first one is that which the others are compared
        with, and has no column.
    response_name : str
        The column of the response.
    task : str or None
        That of the tasks.
    """

    kind: ClassVar[str] = "table"

    names: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    response_name: str
    task: str | None = None
    shared_names: tuple[str, ...] = ()
    effects: Mapping[str, str] = field(default_factory=dict)
    new_levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @classmethod
    def of(cls, df: pd.DataFrame, features: Sequence[str], y: str, task: str | None) -> CategoryDesign | None:
        """The design of these columns of a table; None where all of them are numbers.

        Raises
        ------
        ValueError
            A column holds numbers that are written as text, or has too many levels; or two features would have one
            name.
        """
        found = {name: df[name] for name in features if _is_category(df[name])}
        if not found:
            return None
        levels = {}
        for name, column in found.items():
            known = column[column.notna()]
            if not isinstance(column.dtype, pd.CategoricalDtype):
                _refuse_numbers_as_text(str(name), known)
            levels[str(name)] = tuple(task_column(known)[0])
            if len(levels[str(name)]) < 2:
                raise ValueError(
                    f"column {name!r} has no level but {', '.join(levels[str(name)])!r}, and says nothing. Name the "
                    "features without it, features=[...]."
                )
            if len(levels[str(name)]) > min(_MOST_LEVELS, max(2, len(known) // 2)):
                raise ValueError(
                    f"column {name!r} has {len(levels[str(name)])} levels in {len(known)} rows, and each of them would "
                    f"be a feature. Name the features without it, features=[...]; or make it the task; or group its "
                    "levels."
                )
        design = cls(tuple(map(str, features)), levels, y, task)
        columns = design.feature_names
        twice = next((name for i, name in enumerate(columns) if name in columns[:i]), None)
        if twice is not None:
            raise ValueError(f"two features would have the name {twice!r}. Rename a column or a level.")
        return design

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, such as ``city[Rome]``."""
        return [feature for name in self.names for feature in self._columns(name)]

    def _columns(self, name: str) -> list[str]:
        if name not in self.levels:
            return [name]
        return [f"{name}[{level}]" for level in self.levels[name][1:]]

    @property
    def variables(self) -> list[str]:
        """Columns that its features use."""
        return list(self.names)

    @property
    def response_columns(self) -> list[str]:
        """Columns that the response uses."""
        return [self.response_name]

    @cached_property
    def table(self) -> pd.DataFrame:
        """A row with the first level of each category, and zeros."""
        return pd.DataFrame({n: [self.levels[n][0] if n in self.levels else 0.0] for n in self.names})

    def features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Columns of the features of these rows; those that are coded already stay as they are.

        Raises
        ------
        ValueError
            Names the column that is absent, or the level that is new.
        """
        made: dict[str, Any] = {}
        for name in self.names:
            columns = self._columns(name)
            if name in self.levels and name not in table.columns and set(columns) <= set(table.columns):
                made |= {column: table[column] for column in columns}
            elif name not in table.columns:
                raise ValueError(f"X has no column {name!r}, a feature of the fitted data. Add it.")
            elif name in self.levels:
                made |= dict(zip(columns, self._coded(name, table[name]), strict=True))
            else:
                made[name] = table[name]
        return pd.DataFrame(made, index=table.index)

    def _coded(self, name: str, column: pd.Series) -> list[np.ndarray]:
        """A column of 0 and 1 for each level but the first."""
        if column.isna().any():
            row = int(np.argmax(column.isna().to_numpy()))
            raise ValueError(f"column {name!r} is missing in row {row}. Drop the row, or fill it in.")
        own, code = task_column(column)
        levels = self.levels[name]
        at = pd.Index(levels).get_indexer(pd.Index(own))[code]
        if np.any(at < 0):
            row = int(np.argmax(at < 0))
            raise ValueError(
                f"column {name!r} has the level {column.iloc[row]!r} in row {row}, which the data have not. Known are "
                f"{', '.join(levels)}."
            )
        return [np.where(at == i, 1.0, 0.0) for i in range(1, len(levels))]

    def response(self, table: pd.DataFrame) -> Any:
        """The response of the rows of a table."""
        return table[self.response_name].array

    def description(self) -> dict[str, Any]:
        """What a file says of it, JSON-ready."""
        return {
            "names": list(self.names),
            "levels": {name: list(levels) for name, levels in self.levels.items()},
            "response": self.response_name,
            "task": self.task,
            "columns": [],
        }

    def columns(self) -> list[np.ndarray]:
        """Columns that a file would hold beside the description: none."""
        return []

    @classmethod
    def of_description(cls, saved: Mapping[str, Any]) -> CategoryDesign:
        """The design that a file holds; raises ValueError, TypeError or KeyError where it is damaged."""
        levels = {str(name): tuple(map(str, found)) for name, found in saved["levels"].items()}
        if not all(levels.values()) or not set(levels) <= set(saved["names"]):
            raise ValueError("the levels of categories are not those of features")
        task = saved["task"]
        return cls(
            tuple(map(str, saved["names"])),
            levels,
            str(saved["response"]),
            None if task is None else str(task),
        )


def _is_category(column: pd.Series) -> bool:
    """Whether a column holds categories, or text."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return True
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind):
        return False
    known = column[column.notna()]
    return len(known) > 0 and all(isinstance(value, str) for value in known)


def _refuse_numbers_as_text(name: str, known: pd.Series) -> None:
    """Raise where half of the different values, or more, are numbers: the column was read otherwise than was meant."""
    values = pd.Series(known.unique())
    numbers = pd.to_numeric(values, errors="coerce").notna()
    if 2 * numbers.sum() < len(values):
        return
    said = f"column {name!r} holds numbers that are written as text, such as {values[numbers].iloc[0]!r}"
    other = "" if numbers.all() else f", and beside them {values[~numbers].iloc[0]!r}"
    raise ValueError(
        f"{said}{other}. Make numbers of them with pandas.to_numeric(..., errors='coerce'), or levels with "
        ".astype('category')."
    )
