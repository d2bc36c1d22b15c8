"""Kinds of warnings, and where they point.

It imports next to nothing: a filter in pytest's settings reads it before NumPy is loaded.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ConvergenceWarning", "PriorWarning", "collected", "warn_of_convergence", "warn_user"]

# The folder of the package: warnings point at the first line outside of it.
PACKAGE = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep
_collecting: ContextVar[list[str] | None] = ContextVar("collecting", default=None)


class ConvergenceWarning(UserWarning):
    """The draws of a fit do not yet stand for the posterior, or are too few to tell.

    Silence it where few draws are wanted, as in tests:
    ``warnings.filterwarnings("ignore", category=zoo.ConvergenceWarning)``.
    """


class PriorWarning(UserWarning):
    """The prior of a model has bent the answer: another model says what the user means.

    Silence it where the prior is the point, as in the reproduction of a paper:
    ``warnings.filterwarnings("ignore", category=zoo.PriorWarning)``.
    """


def warn_user(message: str, category: type[Warning] = UserWarning) -> None:
    """Warn at the line outside of the package that led here."""
    warnings.warn(message, category, skip_file_prefixes=(PACKAGE,))


def warn_of_convergence(message: str) -> None:
    """Warn at the line outside of the package that called it.

    Inside of :func:`collected`, hand over the message instead.
    """
    found = _collecting.get()
    if found is not None:
        found.append(message)
        return
    warn_user(message, ConvergenceWarning)


@contextmanager
def collected() -> Iterator[list[str]]:
    """Messages of the fits that this thread makes, in place of their warnings."""
    messages: list[str] = []
    token = _collecting.set(messages)
    try:
        yield messages
    finally:
        _collecting.reset(token)
