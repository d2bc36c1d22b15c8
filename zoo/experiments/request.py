"""What is asked of a reproduction: checked, and put into the settings of the paper."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

from zoo.support.checks import one_of, whole_number

__all__ = ["chosen", "require_known", "require_used"]


def require_known(**asked: tuple[Iterable[Any] | None, Sequence[Any]]) -> None:
    """Raise where something asked for is unknown; each argument is what is asked for, and what there is."""
    for argument, (values, known) in asked.items():
        for value in values or ():
            one_of(value, known, argument)


def require_used(argument: str, value: Any, used: bool, serves: str) -> None:
    """Raise where an argument is given and nothing that was asked for depends on it."""
    if value is not None and not used:
        raise ValueError(
            f"{argument} is {value!r}, and it is of {serves}, which are not asked for. Leave it out."
        )


def chosen(settings: Any, cv: int, sets: Sequence[str] | None = None, **counts: int | None) -> Any:
    """The settings, a dataclass, with the folds, the sets and the counts that were asked for; None leaves them."""
    changed: dict[str, Any] = {"cv": whole_number(cv, "cv", 2)}
    if sets is not None:
        changed["sets"] = tuple(dict.fromkeys(sets))
    for name, count in counts.items():
        if count is not None:
            changed[name] = whole_number(count, name, 1)
    return replace(settings, **changed)
