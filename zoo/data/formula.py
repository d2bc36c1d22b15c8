"""Formulas of mixed models, ``y ~ age + time + (1 + time | patient)``, as multi-task data.

What stands inside the bar becomes a feature of which every task has its own coefficient; what stands outside alone, a
feature whose coefficient all tasks share. The first group is the task. A further group, ``(1 | clinic)``, becomes one
feature for each of its levels, shared by all tasks, of which the coefficients have a learned spread. The library
``formulae`` reads the formula and codes its terms.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from zoo.data.columns import require_one_column, task_column
from zoo.data.formula_checks import (
    INTERCEPT,
    refuse_bars,
    refuse_no_columns,
    refuse_offsets,
    refuse_single_levels,
    unknown_response,
    warn_of_crossed,
    warn_of_means,
    warn_of_two_bars,
)
from zoo.data.formula_table import described_levels, level_codes, readable, restored, storable, unreadable
from zoo.data.gaps import without_gaps
from zoo.support.checks import one_of
from zoo.support.frames import as_pandas
from zoo.support.memory import require_memory

__all__ = ["FormulaDesign", "data_from_formula"]

# What a formula may call beside the transformations of formulae: so a file can be read without running anything else.
_ELEMENTWISE = (
    "abs",
    "cos",
    "exp",
    "expm1",
    "log",
    "log10",
    "log1p",
    "log2",
    "sign",
    "sin",
    "sqrt",
    "square",
    "tanh",
)
_NAMESPACE = {name: getattr(np, name) for name in _ELEMENTWISE}
_NAMESPACE["np"] = SimpleNamespace(**_NAMESPACE)


def _formulae() -> Any:
    try:
        import formulae
    except ImportError as error:
        raise ImportError(
            "formulas need the package formulae: pip install 'multitask-zoo[formula]', or make the data with "
            "MultiTaskData.from_frame."
        ) from error
    return formulae


@dataclass(frozen=True, eq=False)
class FormulaDesign:
    """How the features of data were made of the columns of a table, so that rows to predict are made alike.

    Parameters
    ----------
    formula : str
    table : pandas.DataFrame
        The columns that it uses, as they were handed in: they say the levels of categories, and the numbers of
        transformations such as ``scale``.
    task : str
        The column behind the first bar.
    new_levels : levels of further groups that the table has not, by group
    """

    formula: str
    table: pd.DataFrame
    task: str
    new_levels: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    @cached_property
    def described(self) -> Any:
        """The parsed formula."""
        if "__" in self.formula:  # no way into Python's objects, from a file least of all
            raise ValueError(f"formula {self.formula!r} holds '__'. Rename that column.")
        refuse_bars(self.formula)
        try:
            return _formulae().model_description(self.formula)
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(
                f"formula {self.formula!r} cannot be read: {error}. Write it like "
                "'y ~ age + time + (1 + time | patient)'."
            ) from None

    @property
    def varying_terms(self) -> list[str]:
        """Names of the terms before the bar of the task."""
        return [term.expr.name for term in self.described.group_terms if term.factor.name == self.task]

    @property
    def crossed_terms(self) -> list[tuple[str, str]]:
        """Further groups and a term before their bar, one pair for each term."""
        terms = [(term.factor.name, term.expr.name) for term in self.described.group_terms]
        return [pair for pair in terms if pair[0] != self.task]

    @cached_property
    def levels(self) -> dict[str, list[str]]:
        """Levels of each further group, as text, in the order that tasks would have."""
        groups = [group for group, _ in self.crossed_terms]
        return {g: [*task_column(self.table[g], "group")[0], *self.new_levels.get(g, ())] for g in groups}

    kind: ClassVar[str] = "formula"

    @property
    def response_name(self) -> str:
        """What stands before '~'."""
        return self.formula.split("~", 1)[0].strip()

    @property
    def response_columns(self) -> list[str]:
        """Columns that the response uses."""
        return sorted(set(self.described.response.term.var_names) - {""})

    @property
    def variables(self) -> list[str]:
        """Columns that its features use."""
        terms = [*self.described.common_terms, *(term.expr for term in self.described.group_terms)]
        crossed = {group for group, _ in self.crossed_terms}
        return sorted({name for term in terms for name in term.var_names} - {""} | crossed)

    @cached_property
    def _parts(self) -> tuple[Any, Any]:
        """Designs of the terms outside the bar and of those inside, of which one may be None."""
        inside = [term.expr for term in self.described.group_terms if term.factor.name == self.task]
        return self._design(self.described.common_terms), self._design(inside)

    def _design(self, terms: Sequence[Any]) -> Any:
        if not terms:
            return None
        constant = "1" if any(term.name == INTERCEPT for term in terms) else "0"
        formula = " + ".join([constant, *(_written(term) for term in terms if term.name != INTERCEPT)])
        environment = _formulae().environment.Environment([_NAMESPACE])
        try:
            return _formulae().design_matrices(formula, self.table, na_action="error", env=environment).common
        except (KeyError, AttributeError) as error:
            raise ValueError(
                f"formula {self.formula!r} calls something unknown ({error}). Known are "
                f"{', '.join(_ELEMENTWISE)} and the transformations of formulae (C, scale, center, bs, poly and "
                "others); put anything else into a column of the table."
            ) from None
        except ValueError as error:
            name = unreadable(self.table, self.variables)
            if not name:
                raise
            raise ValueError(
                f"column {name!r} of the formula {self.formula!r} holds values such as {self.table[name].iloc[0]!r}, "
                "which are neither numbers nor text. Make numbers or categories of them."
            ) from error

    def description(self) -> dict[str, Any]:
        """What a file says beside :meth:`columns`, JSON-ready."""
        return {
            "formula": self.formula,
            "task": self.task,
            "columns": list(self.table.columns),
            "levels": described_levels(self.table),
        }

    def columns(self) -> list[np.ndarray]:
        """The columns of the table as numbers or text."""
        return storable(self.table)

    @classmethod
    def of_description(cls, saved: Any, columns: Sequence[np.ndarray]) -> FormulaDesign:
        """The design that a file holds; raises ValueError or KeyError where it is damaged."""
        columns_of = zip(saved["columns"], columns, saved["levels"], strict=True)
        table = {str(name): restored(values, levels) for name, values, levels in columns_of}
        return cls(str(saved["formula"]), pd.DataFrame(table), str(saved["task"]))

    @cached_property
    def shared_names(self) -> tuple[str, ...]:
        """Columns of the terms outside the bar alone, and of the levels of further groups."""
        outside, inside = (_names_of(part) for part in self._parts)
        return (*(name for name in outside if name not in inside), *self.effects)

    @cached_property
    def effects(self) -> dict[str, str]:
        """Columns of further groups, each with the effect that it belongs to, ``1|clinic[a]`` to ``1|clinic``."""
        return {
            f"{name}|{group}[{level}]": f"{name}|{group}"
            for group, names, _ in self._crossed
            for name in names
            for level in self.levels[group]
        }

    @cached_property
    def _crossed(self) -> list[tuple[str, list[str], Any]]:
        """Of each crossed term its group, the names of its columns, and their design, None for ones."""
        found: list[tuple[str, list[str], Any]] = []
        for term in (term for term in self.described.group_terms if term.factor.name != self.task):
            part = None if term.expr.name == INTERCEPT else self._design([term.expr])
            found.append((term.factor.name, ["1"] if part is None else _names_of(part), part))
        return found

    def _crossed_features(self, table: pd.DataFrame) -> dict[str, np.ndarray]:
        """Columns of further groups; raises on a level that is new."""
        result: dict[str, np.ndarray] = {}
        numbers = {"columns of levels": len(table) * len(self.effects)}
        advice = "Take the group with the most levels as the first one: it is the task, and has no columns."
        # The data, their copy in a fit, and the columns on their way there.
        require_memory(numbers, 3, "formula", advice)
        for group, names, part in self._crossed:
            levels = self.levels[group]
            code = level_codes(table[group], levels)
            if np.any(code < 0):
                row, shown = int(np.argmax(code < 0)), ", ".join([*levels[:5], *["..."][: len(levels) > 5]])
                level = table[group].iloc[row]
                raise ValueError(
                    f"column {group!r} has the level {level!r} in row {row}, which the fit has not seen. Known are "
                    f"{shown}. To predict new levels by the law of their group, use fit.with_new_levels(X)."
                )
            values = np.ones((len(table), 1)) if part is None else _evaluated(self.formula, part, table)
            for name, value in zip(names, values.T, strict=True):
                result |= {
                    f"{name}|{group}[{level}]": np.where(code == i, value, 0.0)
                    for i, level in enumerate(levels)
                }
        return result

    def features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Columns of the features of these rows, which need have no response.

        Raises
        ------
        ValueError
            Names the column that is absent or incomplete, or the level that is new.
        """
        for name in self.variables:
            if name not in table.columns:
                raise ValueError(
                    f"X has no column {name!r}, which the formula {self.formula!r} uses. Add it."
                )
            absent = np.flatnonzero(table[name].isna())
            if len(absent):
                raise ValueError(
                    f"column {name!r} is missing in row {absent[0]}. Drop the row, or fill it in."
                )
        table = readable(table, self.variables)
        result: dict[str, np.ndarray] = {}
        for part in self._parts:
            if part is None:
                continue
            values = _evaluated(self.formula, part, table)
            result |= dict(zip(_names_of(part), values.T, strict=True))
        return pd.DataFrame(result | self._crossed_features(table), index=table.index)

    def response(self, table: pd.DataFrame) -> Any:
        """The response of the rows of a table, (N,); a column of ordered categories as it is."""
        left = self.response_name
        kind = table[left].dtype if left in table.columns else None
        if isinstance(kind, pd.CategoricalDtype) and kind.ordered:
            return table[left].array
        environment = _formulae().environment.Environment([_NAMESPACE])
        try:
            found = (
                _formulae().design_matrices(f"{left} ~ 1", table, na_action="error", env=environment).response
            )
        except (KeyError, AttributeError) as error:
            raise ValueError(unknown_response(left, error)) from None
        values = np.asarray(found.design_matrix, dtype=np.float64)
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1 and left not in table.columns:
            raise ValueError(
                f"the response {left!r} makes {values.shape[1]} columns. Write one column of the table before '~'."
            )
        if values.ndim != 1:
            raise ValueError(
                f"the response {left!r} is a category of {values.shape[1]} levels. Say which one counts as 1, for "
                f"instance \"{left}['{sorted(set(map(str, table[left])))[0]}'] ~ ...\", or code it as numbers."
            )
        return values


def _written(term: Any) -> str:
    """A term as a formula has it: names of columns that are no identifiers stand in backticks."""
    parts = getattr(term, "components", [])
    names = [
        part.name if hasattr(part, "call") or part.name.isidentifier() else f"`{part.name}`" for part in parts
    ]
    return ":".join(names) if names else str(term.name)


def _names_of(part: Any) -> list[str]:
    return [] if part is None else [str(name) for name in part.as_dataframe().columns]


def _evaluated(formula: str, part: Any, table: pd.DataFrame) -> np.ndarray:
    """The columns (n, k) of a part of the design, of other rows."""
    try:
        return np.asarray(part.evaluate_new_data(table).design_matrix)
    except ValueError as error:
        raise ValueError(f"X does not fit the formula {formula!r}: {error}") from None


def _grouping(design: FormulaDesign) -> str:
    """The column behind the first bar; raises where what is behind a bar is no column."""
    groups = list(dict.fromkeys(term.factor.name for term in design.described.group_terms))
    if not groups:
        raise ValueError(
            f"formula {design.formula!r} has no group. Say what differs between which tasks, for instance "
            "'(1 + time | patient)'."
        )
    refuse_no_columns(groups)
    return groups[0]


def data_from_formula(
    cls: Any,
    formula: str,
    df: Any,
    t: str | Sequence[str] | None,
    weight: str | None,
    missing: str,
) -> tuple[Any, FormulaDesign]:
    """See :meth:`zoo.MultiTaskData.from_formula`; the data, and the design that they are to remember."""
    if not isinstance(formula, str):
        raise TypeError(f"formula is a {type(formula).__name__}. Give a string, 'y ~ age + (1 | patient)'.")
    if missing == "model":
        raise ValueError(
            "missing='model' is for the features of from_frame and from_arrays: a formula makes its columns of the "
            "values themselves. Fill the gaps in, or leave these rows out with missing='drop'."
        )
    one_of(missing, ("refuse", "drop"), "missing")
    df = as_pandas(df, "df")
    if not isinstance(df, pd.DataFrame):
        raise TypeError(f"df is a {type(df).__name__}. Give a DataFrame of pandas, polars or Arrow.")
    named = FormulaDesign(formula, df, "")
    if named.described.response is None:
        raise ValueError(f"formula {formula!r} has no response. Write it before '~'.")
    task = _grouping(named)
    of_response = named.response_columns
    beside = [*([] if weight is None else [weight]), *([t] if isinstance(t, str) else t or ())]
    used = list(dict.fromkeys([*of_response, *named.variables, task]))
    for column in [*used, *beside]:
        require_one_column(df, column)
    df = readable(without_gaps(df, [*used, *beside], missing), [*named.variables, *of_response], of_response)
    design = FormulaDesign(formula, df[used].reset_index(drop=True), task)
    refuse_offsets(design)
    refuse_single_levels(design)
    warn_of_means(design)
    warn_of_crossed(design)
    warn_of_two_bars(design)
    return data_of_design(cls, design, df, t, weight), design


def data_of_design(cls: Any, design: Any, df: pd.DataFrame, t: Any, weight: str | None) -> Any:
    """Data from the rows of a table without gaps, coded by a design."""
    beside = [*([] if weight is None else [weight]), *([t] if isinstance(t, str) else t or ())]
    features = design.features(df)
    y = "".join(map(str, features.columns)) + "y"  # a name that no feature has
    made = {y: design.response(df)} | (
        {} if design.task is None else {design.task: df[design.task].to_numpy()}
    )
    frame = features.assign(**made, **{column: df[column].to_numpy() for column in beside})
    return cls.from_frame(frame, y=y, task=design.task, features=list(features.columns), t=t, weight=weight)


def require_same_design(rows: Any, data: Any) -> None:
    """Raise where the features of rows were made of their table otherwise than those of ``data``.

    Categories and transformations such as ``scale`` depend on the table that they were made of.
    """
    own, known = rows.design, data.design
    if own is None or known is None or own is known:
        return
    if own.kind != known.kind:
        raise ValueError(
            "X and the fit were made otherwise, one by a formula. Make these rows with data.like(df)."
        )
    first, second = own.features(own.table), known.features(own.table)
    for name in second.columns:
        if name not in first.columns or not np.allclose(first[name], second[name], rtol=1e-9, atol=0.0):
            raise ValueError(
                f"the feature {name!r} was made of another table than that of the fit, and means something else "
                "there. Make these rows with data.like(df), where data are those of the fit, or pass the table."
            )
