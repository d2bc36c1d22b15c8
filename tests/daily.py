"""Which cases of a long list run with every change, and which with ``-m scheduled``."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any

import pytest

__all__ = ["daily"]


def daily(cases: Iterable[Any], kept: Collection[Any]) -> list[Any]:
    """The cases as parameters of a test, those that are not kept with the mark ``scheduled``."""
    return [
        case
        if case in kept
        else pytest.param(*(case if isinstance(case, tuple) else (case,)), marks=pytest.mark.scheduled)
        for case in cases
    ]
