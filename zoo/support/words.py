"""Numbers with their nouns, in the singular and in the plural."""

from __future__ import annotations

from typing import Any

__all__ = ["counted"]

_IRREGULAR = {"leaf": "leaves", "entry": "entries"}


def counted(n: Any, noun: str, spec: str = "") -> str:
    """Return ``"1 row"``, ``"2 rows"``: the number, formatted by ``spec``, and the noun that fits it."""
    return f"{n:{spec}} {noun if n == 1 else _IRREGULAR.get(noun, f'{noun}s')}"
