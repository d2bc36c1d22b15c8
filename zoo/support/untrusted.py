"""Refuses HDF5 files that were damaged, reach outside of themselves, run in circles, or claim more than they hold."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import h5py

__all__ = ["require_plain_file", "require_seal", "seal"]

_MAGIC = b"zoo-seal"
_LENGTH = len(_MAGIC) + 16

# Groups of a fit lie one below the root; a few more are left to what users add.
_DEEPEST = 8
_MOST_OBJECTS = 10_000
# No filter of HDF5 packs tighter; a fit is written without any.
_TIGHTEST = 1100
_SPARE = 2**20


def seal(path: Path) -> None:
    """Append a digest of all bytes, behind the end of the file that HDF5 knows: programs that write there remove it."""
    digest = _digest_of_bytes(path, path.stat().st_size)
    with path.open("ab") as file:
        file.write(_MAGIC + digest)


def require_seal(path: Path) -> None:
    """Raise where a sealed file has changed; a file without a seal passes.

    A library that reads a file of which bytes are damaged may hang, so that this comes before all else.
    """
    size = path.stat().st_size - _LENGTH
    if size < 0:
        return
    with path.open("rb") as file:
        file.seek(size)
        end = file.read()
    if end.startswith(_MAGIC) and end[len(_MAGIC) :] != _digest_of_bytes(path, size):
        raise ValueError("its bytes are not those that were written")


def _digest_of_bytes(path: Path, size: int) -> bytes:
    whole = hashlib.blake2b(digest_size=16)
    with path.open("rb") as file:
        while size > 0:
            block = file.read(min(size, 2**20))
            if not block:
                break
            whole.update(block)
            size -= len(block)
    return whole.digest()


def require_plain_file(path: Path) -> None:
    """Raise unless all that an HDF5 file shows lies inside it.

    A dataset may take its bytes from any file of the machine, a group may contain itself, and a dataset without any
    stored chunk may declare a shape that fills all memory. None of these is in a file of ``fit.save``.

    Raises
    ------
    ValueError
        Names the object of the file.
    OSError, RuntimeError, KeyError
        What h5py raises on a damaged file.
    """
    most = _TIGHTEST * path.stat().st_size + _SPARE
    with h5py.File(path, "r") as file:
        declared = _declared_bytes(file)
    if declared > most:
        raise ValueError(
            f"it declares {declared:.3g} bytes of numbers, more than a file of its size can hold"
        )


def _declared_bytes(file: Any) -> float:
    """Bytes of all datasets by their shapes; raises where an object is none of a plain file."""
    total, seen = 0.0, 0
    waiting = [(file, "", 0)]
    while waiting:
        group, where, depth = waiting.pop()
        seen += len(group)
        if depth > _DEEPEST or seen > _MOST_OBJECTS:
            raise ValueError(f"its group {where[:40]!r} lies too deep, or there are too many")
        for name in group:
            here = f"{where}/{name}"
            if not isinstance(group.get(name, getlink=True), h5py.HardLink):
                raise ValueError(f"{here!r} is a link to another place")
            item = group[name]
            if isinstance(item, h5py.Group):
                waiting.append((item, here, depth + 1))
            elif isinstance(item, h5py.Dataset):
                if item.external or item.is_virtual:
                    raise ValueError(f"{here!r} takes its numbers from another file")
                total += float(item.size or 0) * item.dtype.itemsize
    return total
