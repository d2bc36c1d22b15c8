"""Outputs that appear whole or not at all: written under a temporary name, then renamed."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["require_new", "staged_file", "staged_folder"]

# Parts that no process has written to for so long were left by one that was killed.
_SECONDS_OF_A_DEAD_PART = 3600.0


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

    The file has the mode of that which it replaces, and else what the umask leaves. Parts that killed processes left
    of the same name are removed. Raises at once where ``path`` cannot be written, before any work is done.
    """
    target = Path(path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"folder {str(target.parent)!r} does not exist. Make it first.")
    if target.is_dir():
        raise IsADirectoryError(f"path {str(target)!r} is a folder. Give the name of a file.")
    temporary = target.with_name(_part_of(target))
    try:
        temporary.open("xb").close()  # made here and now, by no link, with the mode that the umask leaves
    except OSError as error:
        raise _unwritable(target.parent, error) from None
    _remove_dead_parts(target.parent, target)
    try:
        yield temporary
        if target.exists():
            temporary.chmod(stat.S_IMODE(target.stat().st_mode))
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
        temporary = home / _part_of(target)
        temporary.mkdir()
    except OSError as error:
        raise _unwritable(home, error) from None
    _remove_dead_parts(home, target)
    try:
        yield temporary
        if target.exists():
            for file in sorted(temporary.iterdir()):
                file.replace(target / file.name)
        else:
            target.parent.mkdir(parents=True, exist_ok=True)
            temporary.rename(target)
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _part_of(target: Path) -> str:
    """A name that no other process takes."""
    return f".{target.name}.{secrets.token_hex(8)}.part"


def _remove_dead_parts(folder: Path, target: Path) -> None:
    """Remove what killed processes left of writing ``target``."""
    before = time.time() - _SECONDS_OF_A_DEAD_PART
    for part in folder.iterdir():
        if re.fullmatch(rf"\.{re.escape(target.name)}\.[0-9a-f]{{16}}\.part", part.name) is None:
            continue
        with suppress(OSError):  # another process was faster
            if part.lstat().st_mtime < before:
                if part.is_dir() and not part.is_symlink():
                    shutil.rmtree(part)
                else:
                    part.unlink()


def _unwritable(folder: Path, error: OSError) -> PermissionError:
    return PermissionError(f"folder {str(folder)!r} cannot be written to ({error.strerror}). Choose another.")
