"""Packages of somebody else, written into a folder on the path as an installer would leave them."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from textwrap import dedent

import pytest


def install(
    monkeypatch: pytest.MonkeyPatch,
    folder: Path,
    package: str,
    code: str,
    *,
    models: Mapping[str, str] | None = None,
    likelihoods: Mapping[str, str] | None = None,
) -> None:
    """One module ``package`` with this code, and its metadata with entry points: name to class."""
    folder.mkdir(exist_ok=True)
    (folder / f"{package}.py").write_text(dedent(code), encoding="utf-8")
    about = folder / f"{package}-0.1.dist-info"
    about.mkdir()
    (about / "METADATA").write_text(
        f"Metadata-Version: 2.1\nName: {package}\nVersion: 0.1\n", encoding="utf-8"
    )
    lines = []
    for group, found in (("zoo.models", models), ("zoo.likelihoods", likelihoods)):
        lines += [f"[{group}]", *(f"{name} = {package}:{cls}" for name, cls in (found or {}).items())]
    (about / "entry_points.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.setitem(sys.modules, package, None)  # so that the teardown removes what is imported meanwhile
    del sys.modules[package]
