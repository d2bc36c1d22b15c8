r"""Tables whose features are made of columns: levels of categories, and what characteristics of tasks change.

A category becomes one column of 0 and 1 for each level but the first, named after it. A characteristic z of tasks, such
as the size of a school, moves the mean of the tasks' coefficients:

.. math:: w_t \sim N(\mu + \Delta' z_t, C), \quad x' w_t = x' \mu + \sum_{kj} \Delta_{kj} z_{tk} x_j + x' v_t

with :math:`v_t \sim N(0, C)` (Rossi, Allenby & McCulloch 2005, section 5.4). So :math:`\Delta` are coefficients, which
all tasks share, of the products :math:`z_k x_j`, and of :math:`z_k` itself where tasks differ in level.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from types import MappingProxyType
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from zoo.data.columns import task_column
from zoo.support.checks import finite_matrix

__all__ = ["CategoryDesign", "is_category", "refuse_numbers_as_text"]

# A column with more levels, or with one for every second row, names things and does not group them.
_MOST_LEVELS = 50
# Numbers as spreadsheets write them, which pandas reads as text: 1,5 and 1.234,5; 1,000 and 1'000; 5 % and 3 EUR.
_WRITTEN = re.compile(
    r"[$€£]?\s*[+-]?(\d+,\d+|\d{1,3}([.,' \u00a0\u202f]\d{3})+([.,]\d+)?|\d+([.,]\d+)?\s*[%$€£]|[$€£]\s*\d+([.,]\d+)?)"
    r"\s*[%$€£]?"
)


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
    of_tasks : tuple of str
        Those of ``names`` that are characteristics of tasks.
    constants : tuple of str
        Those that have one value in all rows, where there are characteristics.
    products_alone : bool
        Whether characteristics come in by their products only, as in choices, where they cancel out alone.
    """

    kind: ClassVar[str] = "table"
    # Tables without a formula have no further groups.
    many_levels: ClassVar[bool] = False
    effects: ClassVar[Mapping[str, str]] = MappingProxyType({})
    new_levels: ClassVar[Mapping[str, tuple[str, ...]]] = MappingProxyType({})

    names: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    response_name: str
    task: str | None = None
    of_tasks: tuple[str, ...] = ()
    constants: tuple[str, ...] = ()
    products_alone: bool = False

    @classmethod
    def of(
        cls,
        df: pd.DataFrame,
        features: Sequence[str],
        y: str,
        task: str | None,
        of_tasks: Sequence[str] = (),
        products_alone: bool = False,
    ) -> CategoryDesign | None:
        """The design of these columns of a table; None where all of them are numbers and none is one of tasks.

        Raises
        ------
        ValueError
            A column holds numbers that are written as text, or has too many levels; or two features would have one
            name; or a characteristic of tasks differs within a task.
        """
        found = {name: df[name] for name in features if is_category(df[name])}
        if not found and not of_tasks:
            return None
        for name in of_tasks:
            _require_one_value(df, name, task)
        levels = {}
        for name, column in found.items():
            known = column[column.notna()]
            if not isinstance(column.dtype, pd.CategoricalDtype):
                refuse_numbers_as_text(str(name), known)
            levels[str(name)] = tuple(task_column(known, "category")[0])
            if len(levels[str(name)]) < 2:
                raise ValueError(
                    f"column {name!r} has no level but {', '.join(levels[str(name)])!r}, and says nothing. Name the "
                    "features without it, features=[...]."
                )
            if len(levels[str(name)]) > min(_MOST_LEVELS, max(2, len(known) // 2)):
                raise ValueError(
                    f"column {name!r} has {len(levels[str(name)])} levels in {len(known)} rows, and each of them would "
                    "be a feature. Name the features without it, features=[...]; or make it the task; or group its "
                    "levels."
                )
        constants = [str(name) for name in features if of_tasks and df[name].nunique(dropna=False) == 1]
        names = tuple(map(str, features))
        design = cls(names, levels, y, task, tuple(map(str, of_tasks)), tuple(constants), products_alone)
        columns = design.feature_names
        twice = next((name for i, name in enumerate(columns) if name in columns[:i]), None)
        if twice is not None:
            raise ValueError(f"two features would have the name {twice!r}. Rename a column or a level.")
        return design

    @property
    def feature_names(self) -> list[str]:
        """Names of the features, such as ``city[Rome]``."""
        left_out = self.of_tasks if self.products_alone else ()
        made = [feature for name in self.names if name not in left_out for feature in self._columns(name)]
        return made + [f"{z}:{x}" for z, x in self._products]

    @property
    def shared_names(self) -> tuple[str, ...]:
        """Characteristics of tasks and their products with the other features, whose coefficients all tasks share."""
        own = [column for name in self.of_tasks if not self.products_alone for column in self._columns(name)]
        return (*own, *(f"{z}:{x}" for z, x in self._products))

    @property
    def _products(self) -> list[tuple[str, str]]:
        """Columns of a characteristic of tasks and of a feature; that of a constant would be the characteristic."""
        left_out = {*self.of_tasks, *self.constants}
        others = [x for name in self.names if name not in left_out for x in self._columns(name)]
        return [(z, x) for name in self.of_tasks for z in self._columns(name) for x in others]

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
        for z, x in self._products:
            made[f"{z}:{x}"] = _number(made[z], z) * _number(made[x], x)
        return pd.DataFrame({name: made[name] for name in self.feature_names}, index=table.index)

    def _coded(self, name: str, column: pd.Series) -> list[np.ndarray]:
        """A column of 0 and 1 for each level but the first."""
        if column.isna().any():
            row = int(np.argmax(column.isna().to_numpy()))
            raise ValueError(f"column {name!r} is missing in row {row}. Drop the row, or fill it in.")
        own, code = task_column(column, "category")
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
            "of_tasks": list(self.of_tasks),
            "constants": list(self.constants),
            "products_alone": self.products_alone,
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
            tuple(map(str, saved.get("of_tasks", ()))),
            tuple(map(str, saved.get("constants", ()))),
            bool(saved.get("products_alone", False)),
        )


def _number(column: Any, name: str) -> np.ndarray:
    """A column as numbers."""
    return finite_matrix(pd.DataFrame({name: column}), "X", [name])[:, 0]


def _require_one_value(df: pd.DataFrame, name: str, task: str | None) -> None:
    """Raise where a characteristic of tasks differs within one, or is the same in all."""
    if task is None:
        raise ValueError(f"task_features names {name!r}, and no task is named. Name the column of the tasks.")
    values = df.groupby(task, observed=True)[name].nunique(dropna=False)
    if (values > 1).any():
        within = values.index[int(np.argmax(values > 1))]
        raise ValueError(
            f"task_features names {name!r}, which differs within the task {within!r}. "
            "Name columns that have one value per task; others are features."
        )
    if df[name].nunique(dropna=False) < 2:
        raise ValueError(f"task_features names {name!r}, which is the same in all tasks, and says nothing.")


def is_category(column: pd.Series) -> bool:
    """Whether a column holds categories, or text."""
    kind = column.dtype
    if isinstance(kind, pd.CategoricalDtype):
        return True
    if pd.api.types.is_numeric_dtype(kind) or pd.api.types.is_bool_dtype(kind):
        return False
    known = column[column.notna()]
    return len(known) > 0 and all(isinstance(value, str) for value in known)


def refuse_numbers_as_text(name: str, known: pd.Series, levels: str = ".astype('category')") -> None:
    """Raise where half of the different values, or more, are numbers: the column was read otherwise than was meant.

    ``levels`` is what makes levels of them, for the message.
    """
    values = pd.Series(known.unique())
    plain = pd.to_numeric(values, errors="coerce").notna()
    written = values.map(lambda text: _WRITTEN.fullmatch(text.strip()) is not None).astype(bool)
    numbers = plain | written
    if not len(values) or 2 * numbers.sum() < len(values):
        return
    said = f"column {name!r} holds numbers that are written as text, such as {values[numbers].iloc[0]!r}"
    other = "" if numbers.all() else f", and beside them {values[~numbers].iloc[0]!r}"
    cure = "pandas.to_numeric(..., errors='coerce')"
    if (written & ~plain).any():
        cure = (
            "pandas.read_csv(..., decimal=',') or thousands=',', or with .str.replace and pandas.to_numeric, whichever "
            "says what the signs mean"
        )
    raise ValueError(f"{said}{other}. Make numbers of them with {cure}, or levels with {levels}.")
