"""Numbers with their nouns, in the singular and in the plural, and lists of names."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

__all__ = ["counted", "first_names"]

_IRREGULAR = {"leaf": "leaves", "entry": "entries"}


def counted(n: Any, noun: str, spec: str = "") -> str:
    """Return ``"1 row"``, ``"2 rows"``: the number, formatted by ``spec``, and the noun that fits it."""
    return f"{n:{spec}} {noun if n == 1 else _IRREGULAR.get(noun, f'{noun}s')}"


def first_names(names: Sequence[str], most: int = 5) -> str:
    """Return ``"'a', 'b'"``; of more than ``most`` names the first ones, and how many there are."""
    shown = ", ".join(map(repr, names[:most]))
    return shown if len(names) <= most else f"{shown} and {len(names) - most} more"
