"""Numbers with their nouns."""

from __future__ import annotations

from zoo.support.words import counted


def test_counted():
    assert [counted(n, "row") for n in (0, 1, 2)] == ["0 rows", "1 row", "2 rows"]
    assert counted(1, "entry") == "1 entry" and counted(12345, "entry", ",") == "12,345 entries"
