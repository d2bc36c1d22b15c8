"""Functions that a formula calls: each learns its numbers from the table of the data, and keeps them for later rows.

The library ``formulae`` remembers what ``scale``, ``center`` and the splines have learned. ``B(x)`` and ``binary(x)``
are coded anew by the rows at hand: the first of the levels that it sees there counts as 1.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["learn", "response_of"]

_INDICATORS = ("B", "binary")


class _Indicator:
    """Codes a column as 1 where it equals ``success``, by default its first level in the data, and as 0 elsewhere."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.levels: list[Any] | None = None

    def __call__(self, x: Any, success: Any = None) -> np.ndarray:
        values = list(pd.Series(x))
        if self.levels is None:
            self.levels = sorted(set(values))
        if success is None:
            success = self.levels[0]
            new = next((value for value in values if value not in self.levels), None)
            if new is not None:
                raise ValueError(
                    f"{self.name} has the level {new!r}, which the data of the fit have not. Known are "
                    f"{', '.join(map(repr, self.levels))}."
                )
        return np.array([value == success for value in values], dtype=np.float64)


def learn(terms: Any, table: pd.DataFrame) -> None:
    """Let terms that formulae has evaluated for ``table`` keep what they have learned there."""
    for component in _calls_of(terms):
        own = [call for call in _nested(component.call) if call.callee in _INDICATORS]
        for call in own:
            call.stateful_transform = _Indicator(str(call))
        if own:
            component.call.eval(table, component.env)


def response_of(term: Any, table: pd.DataFrame) -> np.ndarray:
    """The response of the rows of a table, (N,), by its term, which :func:`learn` has seen.

    Of a category without a level that counts as 1 it has one column per level, and of proportions two.
    """
    component = term.components[0]
    if len(term.components) == 1 and term.kind == "numeric":
        calls = hasattr(component, "call")
        values = component.call.eval(table, component.env) if calls else table[component.name]
        return np.asarray(values, dtype=np.float64)
    if len(term.components) == 1 and getattr(component, "reference", None) is not None:
        return np.asarray(table[component.name].to_numpy() == component.reference, dtype=np.float64)
    return np.asarray(term.data, dtype=np.float64)


def _calls_of(terms: Any) -> Iterator[Any]:
    for term in terms:
        for component in getattr(term, "components", ()):
            if hasattr(component, "call"):
                yield component


def _nested(lazy: Any) -> Iterator[Any]:
    """A call, and those among its arguments."""
    if hasattr(lazy, "callee"):
        yield lazy
    for argument in (*getattr(lazy, "args", ()), *getattr(lazy, "kwargs", {}).values()):
        yield from _nested(argument)
