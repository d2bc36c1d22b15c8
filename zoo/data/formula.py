"""Formulas of mixed models, ``y ~ age + time + (1 + time | patient)``, as multi-task data.

What stands inside the bar becomes a feature of which every task has its own coefficient; what stands outside alone, a
feature whose coefficient all tasks share. The first group is the task. A further group, ``(1 | clinic)``, becomes one
feature for each of its levels, shared by all tasks, of which the coefficients have a learned spread. The library
``formulae`` reads the formula and codes its terms.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
import pandas as pd

from zoo.data.columns import task_column
from zoo.data.formula_calls import learn, response_of
from zoo.data.formula_checks import (
    INTERCEPT,
    refuse_bars,
    refuse_no_columns,
    refuse_numbers_as_terms,
    terms_of,
    unknown_response,
)
from zoo.data.formula_table import (
    described_levels,
    readable,
    require_same_kind,
    restored,
    storable,
    unreadable,
)
from zoo.data.further_groups import MOST_DENSE, level_columns
from zoo.support.memory import require_memory

__all__ = ["FormulaDesign"]

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


# The data, their copy in a fit, and the columns on their way there take memory.
_FIRST_GROUP = "Take the group with the most levels as the first one: it is the task, and has no columns."


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
            found = _formulae().model_description(self.formula)
        except ImportError:
            raise
        except Exception as error:
            raise ValueError(
                f"formula {self.formula!r} cannot be read: {error}. Write it like "
                "'y ~ age + time + (1 + time | patient)'."
            ) from None
        refuse_numbers_as_terms(self.formula, found)
        return found

    @cached_property
    def groups(self) -> list[str]:
        """The columns behind the bars, in the order of the formula; raises where what is there is no column."""
        groups = list(dict.fromkeys(term.factor.name for term in self.described.group_terms))
        refuse_no_columns(groups)
        return groups

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
        terms = terms_of(self.described)
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
        try:
            made = self._evaluated_once(formula).common
            learn(made.terms.values(), self.table)
            return made
        except (KeyError, AttributeError) as error:
            raise ValueError(
                f"formula {self.formula!r} calls something unknown ({error}). Known are "
                f"{', '.join(_ELEMENTWISE)} and the transformations of formulae (C, scale, center, bs, poly and "
                "others); put anything else into a column of the table."
            ) from None
        except (TypeError, ValueError) as error:
            name = unreadable(self.table, self.variables)
            if not name:
                raise ValueError(f"formula {self.formula!r} cannot be evaluated: {error}.") from error
            raise ValueError(
                f"column {name!r} of the formula {self.formula!r} holds values such as {self.table[name].iloc[0]!r}, "
                "which are neither numbers nor text. Make numbers or categories of them."
            ) from error

    def _evaluated_once(self, formula: str) -> Any:
        """A formula as formulae codes it for the table."""
        environment = _formulae().environment.Environment([_NAMESPACE])
        return _formulae().design_matrices(formula, self.table, na_action="error", env=environment)

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

    @property
    def many_levels(self) -> bool:
        """Whether the columns of the levels are so many that data of the table hold them in a sparse matrix."""
        return len(self.table) * len(self.effects) > MOST_DENSE

    def level_columns(self, table: pd.DataFrame) -> Any:
        """The columns of further groups, in the order of ``effects``, as a csr_matrix; raises on a new level."""
        table = self._complete(table)
        terms = []
        for group, _, part in self._crossed:
            values = np.ones((len(table), 1)) if part is None else _evaluated(self.formula, part, table)
            terms += [(group, value) for value in values.T]
        return level_columns(table, terms, self.levels)

    def _complete(self, table: pd.DataFrame) -> pd.DataFrame:
        """The table with the columns that the formula uses, readable; raises where one is absent or incomplete."""
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
        found = readable(table, self.variables)
        require_same_kind(found, self.table, [name for name in self.variables if name not in self.levels])
        return found

    def features(self, table: pd.DataFrame) -> pd.DataFrame:
        """Columns of the features of these rows, which need have no response; without those of many levels.

        Raises
        ------
        ValueError
            Names the column that is absent or incomplete, or the level that is new.
        """
        table = self._complete(table)
        result: dict[str, np.ndarray] = {}
        for part in self._parts:
            if part is None:
                continue
            values = _evaluated(self.formula, part, table)
            result |= dict(zip(_names_of(part), values.T, strict=True))
        if self.effects and not self.many_levels:
            require_memory({"columns of levels": len(table) * len(self.effects)}, 3, "formula", _FIRST_GROUP)
            result |= dict(zip(self.effects, self.level_columns(table).toarray().T, strict=True))
        return pd.DataFrame(result, index=table.index)

    @cached_property
    def _response(self) -> Any:
        """The term of the response, as it was learned from the table."""
        left = self.response_name
        try:
            term = self._evaluated_once(f"{left} ~ 1").response.term.term
        except (KeyError, AttributeError) as error:
            raise ValueError(unknown_response(left, error)) from None
        learn([term], self.table)
        return term

    def response(self, table: pd.DataFrame) -> Any:
        """The response of the rows of a table, (N,); a column of ordered categories as it is."""
        left = self.response_name
        absent = [name for name in self.response_columns if name not in table.columns]
        if absent:
            raise ValueError(unknown_response(left, KeyError(absent[0])))
        kind = table[left].dtype if left in table.columns else None
        if isinstance(kind, pd.CategoricalDtype) and kind.ordered:
            return table[left].array
        values = response_of(self._response, readable(table, self.response_columns, self.response_columns))
        if values.ndim == 2 and values.shape[1] == 1:
            values = values[:, 0]
        if values.ndim != 1 and re.match(r"(p|prop|proportion)\s*\(", left):
            raise ValueError(
                f"the response {left!r} counts successes among trials. Give each row of them two rows of a label: 1 "
                "with the successes as its weight=, and 0 with the other trials."
            )
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
