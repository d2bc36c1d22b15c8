"""Outputs that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

__all__ = ["require_new", "staged_file", "staged_folder"]


def require_new(
    path: str | os.PathLike[str], overwrite: bool, argument: str = "path", advice: str = "overwrite=True"
) -> None:
    """Raise where a file stands at ``path`` already, unless it may be overwritten."""
    if not overwrite and Path(path).is_file():
        raise FileExistsError(
            f"{argument} {str(path)!r} is a file already, which would be lost. Give another name, or {advice}."
        )


@contextmanager
def staged_file(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its name when the block ends well, and vanishes otherwise.

    Raises at once where ``path`` cannot be written, before any work is done.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder {str(target.parent)!r} does not exist. Make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"path {str(target)!r} is a folder. Give the name of a file.")
    try:
        handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.", suffix=".part")
    except OSError as error:
        raise _unwritable(target.parent, error) from None
    os.close(handle)
    temporary = Path(name)
    try:
        yield temporary
        temporary.chmod(0o644)
        temporary.replace(target)
    finally:
        temporary.unlink(missing_ok=True)


@contextmanager
def staged_folder(path: str | os.PathLike[str]) -> Iterator[Path]:
    """A temporary folder whose files appear in ``path`` when the block ends well, and vanish otherwise.

    A new folder appears whole, by one rename. In a folder that exists, files are replaced one by one.
    """
    target = Path(path).resolve()
    if target.exists() and not target.is_dir():
        raise NotADirectoryError(f"path {str(path)!r} is a file. Give the name of a folder.")
    # Where the folder or its parents are still missing, the nearest one that is there: the same file system.
    home = next(folder for folder in (target, *target.parents) if folder.exists())
    try:
        temporary = Path(tempfile.mkdtemp(dir=home, prefix=f".{target.name}.", suffix=".part"))
    except OSError as error:
        raise _unwritable(home, error) from None
    try:
        yield temporary
        if target.exists():
            for file in sorted(temporary.iterdir()):
                file.replace(target / file.name)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.chmod(0o755)
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _unwritable(folder: Path, error: OSError) -> PermissionError:
    return PermissionError(f"folder {str(folder)!r} cannot be written to ({error.strerror}). Choose another.")
