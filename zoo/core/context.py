"""The data that rows are seen from: what a factory's hook ``design`` is handed beside the rows."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from zoo.data.multitask import MultiTaskData

__all__ = ["Context"]

T = TypeVar("T")


@dataclass(frozen=True, eq=False)
class Context:
    """What is known where rows are seen that are not those of the fit itself.

    Parameters
    ----------
    train : MultiTaskData
        The data that were fitted: scales, distinct inputs and bases are theirs.
    known : MultiTaskData, optional
        Where the rows are to be predicted: the rows whose responses the predictions may use, those of ``condition``
        included. Left out: the rows have functions of their own, as those of the fit.
    """

    train: MultiTaskData
    known: MultiTaskData | None = None
    _made: dict[str, Any] = field(default_factory=dict, repr=False)

    def once(self, name: str, make: Callable[[], T]) -> T:
        """What ``make`` returns, made at the first call for this name: each prediction of a fit needs it again."""
        if name not in self._made:
            self._made[name] = make()
        found: T = self._made[name]
        return found

    def __reduce__(self) -> Any:  # what was made stays behind: it is made again
        return Context, (self.train, self.known)
