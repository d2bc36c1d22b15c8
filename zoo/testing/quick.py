"""A mode that compiles nothing, for the small graphs of tests."""

from __future__ import annotations

from pytensor.compile.mode import Mode

__all__ = ["QUICK"]

QUICK = Mode("py", "fast_compile")
