"""What of a formula is refused or warned of, because other libraries read it in another way.

``design`` is a :class:`zoo.data.formula.FormulaDesign` throughout.
"""

from __future__ import annotations

import re
from typing import Any

import pandas as pd

from zoo.data.categories import is_category, refuse_numbers_as_text
from zoo.support.warning_types import warn_user

__all__ = [
    "INTERCEPT",
    "refuse_bars",
    "refuse_no_columns",
    "refuse_numbers_as_levels",
    "refuse_numbers_as_terms",
    "refuse_offsets",
    "refuse_own_scale",
    "refuse_response_beside",
    "refuse_single_levels",
    "terms_of",
    "unknown_response",
    "warn_of_crossed",
    "warn_of_means",
    "warn_of_two_bars",
]

# Transformations of formulae that look at all rows.
_OF_ITS_ROWS = re.compile(r"\b(scale|center|standardize|bs|cr|cc|tp|poly)\s*\(")

INTERCEPT = "Intercept"
"""What the library formulae calls the constant."""


def terms_of(described: Any) -> list[Any]:
    """The terms outside the bars of a parsed formula, and those inside."""
    return [*described.common_terms, *(term.expr for term in described.group_terms)]


def refuse_bars(formula: str) -> None:
    """Raise where a bar is written as in lme4 and means nothing here, ``(1 + x || g)`` and ``(1 | g/h)``."""
    plain = re.sub(r"`[^`]*`", "x", formula)  # names in backticks may hold anything
    if "||" in plain:
        raise ValueError(
            f"formula {formula!r} holds '||'. Here the effects of the first group are always correlated, and those of "
            "further groups never. Write one bar, as in (1 + x | g)."
        )
    nested = re.search(r"\(([^()|]*)\|\s*(\w+(?:\s*/\s*\w+)+)\s*\)", plain)
    if nested is not None:
        effects, groups = nested[1].strip(), re.split(r"\s*/\s*", nested[2])
        columns = ["_".join(groups[: i + 1]) for i in range(len(groups))]
        made = f"Make {'a column of both' if len(groups) == 2 else 'columns of them'}, {' and '.join(columns[1:])}"
        raise ValueError(
            f"formula {formula!r} nests {' / '.join(groups)}. {made}, and "
            f"write {' + '.join(f'({effects} | {column})' for column in columns)}."
        )


def refuse_no_columns(groups: list[str]) -> None:
    """Raise where what is behind a bar is no column."""
    for group in groups:
        if not re.fullmatch(r"\w+", group):
            column = re.sub(r"\W+", "_", group)
            advice = "Put it into a column of the table"
            if ":" in group:
                advice = f"Make a column of both, and write (1 | {column})"
            raise ValueError(f"the group {group!r} is no column. {advice}.")


def refuse_numbers_as_levels(design: Any) -> None:
    """Raise if a column holds numbers that are written as text, as it would become a category."""
    terms = [*design.described.common_terms, *(term.expr for term in design.described.group_terms)]
    names = {
        part.name for term in terms for part in getattr(term, "components", ()) if not hasattr(part, "call")
    }
    for name in sorted(names & set(design.table.columns)):
        column = design.table[name]
        if is_category(column) and not isinstance(column.dtype, pd.CategoricalDtype):
            refuse_numbers_as_text(name, column, f"C({name})")


def refuse_response_beside(design: Any, weight: str | None, t: Any) -> None:
    """Raise if a column of the response is also a predictor, a group, the weight or t."""
    # Of counts p(k, n) the trials n may say something; k may not.
    own = design.response_columns
    trials = re.fullmatch(r"\s*(?:p|prop|proportion)\s*\(.*,\s*`?(\w+)`?\s*\)\s*", design.response_name)
    own = [name for name in own if trials is None or name != trials[1]]
    places = [t] if isinstance(t, str) else list(t or ())
    for name in own:
        inside = name in design.variables or name == design.task
        where = "a predictor or a group of the formula" if inside else "weight" if name == weight else "t"
        if inside or name == weight or name in places:
            raise ValueError(
                f"column {name!r} is the response of the formula {design.formula!r}, and {where} too, which would "
                "predict it by itself. Take it out there."
            )


def refuse_numbers_as_terms(formula: str, described: Any) -> None:
    """Raise where a number stands among the terms of a formula, as in ``2*x``."""
    terms = terms_of(described)
    number = next((name for term in terms for name in term.var_names if not isinstance(name, str)), None)
    if number is not None:
        raise ValueError(
            f"formula {formula!r} holds the number {number} as a term. Arithmetic stands inside I(), as in I(2 * x). "
            "Of numbers, 1 is the constant, and 0 leaves it out."
        )


def refuse_offsets(design: Any) -> None:
    """Raise where a term has the coefficient 1, which nothing here would hold it at."""
    for term in terms_of(design.described):
        if "offset(" in term.name:
            raise ValueError(
                f"formula {design.formula!r} holds {term.name}, a term with the coefficient 1, which models here have "
                "not. Write its column alone, and its coefficient is learned; of a real response, subtract it before."
            )


def warn_of_two_bars(design: Any) -> None:
    """Warn where effects of the task stand in several bars, which other libraries take as uncorrelated."""
    bars = re.findall(r"\|\s*`?" + re.escape(design.task) + r"`?\s*\)", design.formula)
    if len(bars) > 1:
        warn_user(
            f"the effects of {design.task!r} stand in {len(bars)} bars, and are correlated here as if they stood in "
            "one. Other libraries hold the correlation of effects in different bars at 0."
        )


def warn_of_crossed(design: Any) -> None:
    """Warn where a further group has several terms, whose effects other libraries would correlate."""
    for group in design.levels:
        terms = ["1" if name == INTERCEPT else name for of, name in design.crossed_terms if of == group]
        if len(terms) > 1:
            warn_user(
                f"the effects of {group!r} in {' and '.join(map(repr, terms))} are independent of each other here: "
                f"({' + '.join(terms)} || {group}) in lme4. Only the first group, {design.task!r}, has a covariance. "
                "Write the group whose effects go together first."
            )


def warn_of_means(design: Any) -> None:
    """Warn of terms inside the bar that do not stand outside: some readers hold their mean at 0."""
    outside = {term.name for term in design.described.common_terms}
    alone = [name for name in design.varying_terms if name not in outside]
    if alone:
        warn_user(
            f"{', '.join(map(repr, alone))} differs between tasks and does not stand outside the bar. Models that "
            "learn a mean of the coefficients (NIWLinear) learn one here too, where a mixed model would hold it at 0."
        )


def refuse_single_levels(design: Any) -> None:
    """Raise where a category, or a further group, has one level in the rows: its column would be the constant."""
    used = {name for term in terms_of(design.described) for name in term.var_names}
    used |= {group for group, _ in design.crossed_terms}
    for name in sorted(used - {""}):
        column = design.table[name]
        if not len(column) or isinstance(column.iloc[0], list | dict | set):
            continue  # which the design refuses in words
        numbers = pd.api.types.is_numeric_dtype(column.dtype) and name not in design.levels
        if not numbers and column.nunique() == 1:
            raise ValueError(
                f"column {name!r} has no level but {str(column.iloc[0])!r}, and says nothing. Leave it out of the "
                f"formula {design.formula!r}."
            )


def unknown_response(left: str, error: Exception) -> str:
    """What to say of a response that cannot be evaluated."""
    if left.isidentifier():
        return f"df has no column {left!r}, the response of the formula. Add it; rows to predict go to fit.predict."
    return (
        f"the response {left!r} calls something unknown ({error}). Compute it as a column of the table, and write "
        "the name of that column before '~'."
    )


def refuse_own_scale(response: str) -> None:
    """Raise where a response takes numbers from its own rows, so that those of other rows would be on another scale."""
    found = _OF_ITS_ROWS.search(response)
    if found:
        raise ValueError(
            f"the response {response!r} takes its {found.group(1)} from the rows that it is made of, and other rows "
            "would be on another scale. Write the column itself before '~', and call data.standardize()."
        )
