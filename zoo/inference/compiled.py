"""Compiled functions that are cached on disk, wherever there is a place for a cache."""

from __future__ import annotations

import logging
import os
import stat
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numba
from numba.core import config, event

__all__ = ["before_compiling", "ensure_compile_folder", "njit"]

_log = logging.getLogger("zoo")
_said: list[str] = []


def njit(*, cache: bool = True, **options: Any) -> Callable[[Callable[..., Any]], Any]:
    """``numba.njit`` with a cache, also where neither the package's folder nor the home of the user can be written to.

    Containers and clusters are like that, and Numba refuses to compile there: "no locator available". The cache then is
    in a folder of the user's own below that of temporary files, or there is none; one line of the log says which.
    Where the environment names a folder (``NUMBA_CACHE_DIR``), Numba takes that.
    """

    def decorate(function: Callable[..., Any]) -> Any:
        try:
            return numba.njit(cache=cache, **options)(function)
        except RuntimeError as error:
            if "no locator" not in str(error):
                raise
        folder = _own_temporary_folder()
        before = config.CACHE_DIR
        try:
            config.CACHE_DIR = folder
            compiled = numba.njit(cache=True, **options)(function) if folder else None
        except (RuntimeError, OSError):
            compiled = None
        finally:
            config.CACHE_DIR = before
        if compiled is None:
            _say(
                "Compiled functions are not cached: no folder can be written to. Name one by NUMBA_CACHE_DIR."
            )
            return numba.njit(**options)(function)
        _say(f"Compiled functions are cached in {folder}: the folder of the package cannot be written to.")
        return compiled

    return decorate


class _First(event.Listener):
    """Calls a function at the first of some events."""

    def __init__(self, say: Callable[[], None]):
        self._say: list[Callable[[], None]] = [say]

    def on_start(self, event: Any) -> None:
        if self._say:
            self._say.pop()()

    def on_end(self, event: Any) -> None:
        pass


@contextmanager
def before_compiling(say: Callable[[], None]) -> Iterator[None]:
    """Call ``say`` before the first function is compiled that no cache on disk has, in any thread."""
    with event.install_listener("numba:compile", _First(say)):
        yield


def ensure_compile_folder() -> None:
    """Give PyTensor a folder below that of temporary files where it cannot make its own in the home of the user.

    To be called before PyTensor compiles for the first time: then it looks for its folder, and raises.
    """
    import pytensor

    parameter = pytensor.config
    try:
        wanted = Path(str(parameter.fetch_val_for_key("base_compiledir"))).expanduser()
    except KeyError:  # nobody has named one
        wanted = Path.home() / ".pytensor"
    try:
        wanted.mkdir(parents=True, exist_ok=True)
        if os.access(wanted, os.W_OK):
            return
    except OSError:
        pass
    folder = _own_temporary_folder()
    # PyTensor reads the name of the folder when it is imported, and uses it when it compiles: only here is it changed.
    held = getattr(parameter, "_config_var_dict", {}).get("base_compiledir")
    if not folder or held is None:
        raise OSError(
            f"PyTensor cannot write to {wanted}, and needs a folder to compile. Name one in the environment: "
            "PYTENSOR_FLAGS=base_compiledir=/a/folder."
        )
    held.val = Path(folder) / "pytensor"
    _say(f"PyTensor compiles in {folder}: {wanted} cannot be written to.")


def _own_temporary_folder() -> str:
    """A folder that no other user can have filled, since what a cache holds is run; empty where there is none."""
    owner = os.getuid() if hasattr(os, "getuid") else 0
    try:
        folder = Path(tempfile.gettempdir()) / f"zoo-compiled-{owner}"
        folder.mkdir(mode=0o700, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return ""
    private = not stat.S_IMODE(about.st_mode) & 0o077 and about.st_uid == owner
    if os.name == "posix" and not (stat.S_ISDIR(about.st_mode) and private):
        return ""
    return str(folder)


def _say(line: str) -> None:
    """Log a line once in a process, not for each function."""
    if line not in _said:
        _said.append(line)
        _log.warning(line)
