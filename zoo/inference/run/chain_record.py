"""What a checkpoint holds of one chain: draws in Zarr arrays, and a small file that says where the chain stands.

Draws go to disk in blocks, each of whole chunks of the arrays, and a block is written once. The file ``state`` holds
the draws after the last block, the state of the kernel and of its random numbers, and the checksums of the blocks. It
is replaced by a rename. So a process that is killed at any moment leaves the last ``state`` with all that it names, and
perhaps parts of a block that it does not name yet, which the next process writes again.

Nothing read here is executed: numbers and JSON alone are accepted.
"""

from __future__ import annotations

import hashlib
import io
import json
import math
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote

import numpy as np

__all__ = ["ChainRecord", "Saved", "write_atomically"]

Groups = dict[str, dict[str, np.ndarray]]
"""Draws (draw, ...) by group and name."""

_SECONDS_BETWEEN_SAVES = 3.0
# On a slow disk saves are rarer: at most one part in this many of the time is spent on them.
_SHARE_OF_TIME = 50.0
# Of all variables together; what a save writes anew is less than that.
_BLOCK_BYTES = 2**24
_NUMBERS = "biuf"
# A worker whose parent was killed notices it at its next save.
_SECONDS_FOR_AN_ORPHAN = 10.0


class _Block(NamedTuple):
    """Draws ``first`` to ``stop`` of all variables; ``shapes`` is of one draw, by group and name."""

    first: int
    stop: int
    shapes: dict[str, dict[str, list[int]]]
    sha256: str


class Saved(NamedTuple):
    """Where a chain stands.

    Parameters
    ----------
    sweeps, draws : int
        Done, and kept.
    rng : dict
        State of the bit generator.
    snapshot : dict of arrays
        What the kernel's ``snapshot`` gave.
    about : JSON-ready data
        What an engine needs beside, to read the draws.
    """

    sweeps: int
    draws: int
    rng: dict[str, Any]
    snapshot: dict[str, np.ndarray]
    about: Any


class ChainRecord:
    """The files of one chain.

    Parameters
    ----------
    folder : Path
        Of this chain.
    draws : int
        How many there will be.
    run : str
        Checksum of what the run is, so that no files of another run are taken for this one's.

    Attributes
    ----------
    sweeps : int
        How many are on disk.
    """

    def __init__(self, folder: Path, draws: int, run: str):
        self.folder = folder
        self._draws = draws
        self._run = run
        self._rows: int | None = None
        self._blocks: list[_Block] = []
        self._tail: Groups = {}
        self.sweeps = 0
        self._next = time.monotonic() + _SECONDS_BETWEEN_SAVES

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Hold the chain: a worker process may outlive the run that started it."""
        from filelock import FileLock, Timeout

        try:
            self.folder.mkdir(exist_ok=True)
            lock = FileLock(self.folder / "lock").acquire(timeout=_SECONDS_FOR_AN_ORPHAN)
        except Timeout:
            raise RuntimeError(
                f"{str(self.folder)!r} is still written to by a process of an earlier run. "
                "Wait until it has ended, or end it."
            ) from None
        except OSError as error:
            raise self._unwritten(error, "nothing more") from error
        with lock:
            yield

    # ---------------------------------------------------------------- writing

    def due(self, done: int) -> bool:
        """Whether it is time to save, at this number of draws."""
        full = self._rows is not None and done - self._stop >= self._rows
        return full or time.monotonic() >= self._next

    @property
    def _stop(self) -> int:
        """How many draws are in blocks."""
        return self._blocks[-1].stop if self._blocks else 0

    def save(self, saved: Saved, draws: Groups, finished: bool = False) -> None:
        """Write what is not yet on disk of the draws so far, then the state.

        ``finished`` puts all draws into the arrays, where other programs find them.
        """
        start = time.monotonic()
        try:
            if not (self.folder / "zarr.json").exists():
                self._create_group()
            if saved.draws > 0 and self._rows is None:
                self._rows = _rows_in_a_block(draws, self._draws)
            while self._rows and (
                saved.draws - self._stop >= self._rows or (finished and saved.draws > self._stop)
            ):
                self._write_block(draws, self._stop, min(self._stop + self._rows, saved.draws))
            self._tail = _slice(draws, self._stop, saved.draws)
            write_atomically(self.folder / "state", self._pack(saved))
        except OSError as error:
            raise self._unwritten(error, f"the chain up to sweep {self.sweeps}") from error
        self.sweeps = saved.sweeps
        cost = time.monotonic() - start
        self._next = time.monotonic() + max(_SECONDS_BETWEEN_SAVES, _SHARE_OF_TIME * cost)

    def _unwritten(self, error: OSError, held: str) -> OSError:
        return OSError(
            error.errno,
            f"{str(self.folder)!r} cannot be written to ({error.strerror}), so sampling has stopped. It holds {held}. "
            "Make room or allow writing, and make the same call again: it goes on from there",
        )

    def _create_group(self) -> None:
        import zarr

        zarr.create_group(store=str(self.folder), zarr_format=3, overwrite=False)
        _sync(self.folder.parent)

    def _write_block(self, draws: Groups, first: int, stop: int) -> None:
        block = _slice(draws, first, stop)
        for group, arrays in block.items():
            for name, values in arrays.items():
                self._write_array(f"{group}/{quote(name, safe='')}", values, first, stop)
        shapes = {group: {n: list(v.shape[1:]) for n, v in arrays.items()} for group, arrays in block.items()}
        self._blocks.append(_Block(first, stop, shapes, _checksum(block)))

    def _write_array(self, path: str, values: np.ndarray, first: int, stop: int) -> None:
        assert self._rows is not None
        inner = values.shape[1:]
        if first == 0:  # what is there was left by a process that was killed before it could name it
            array = _create_array(self.folder, path, values.dtype, (self._draws, *inner), self._rows)
        else:
            array = _open_array(self.folder, path, "r+")
            wider = tuple(max(n, m) for n, m in zip(array.shape[1:], inner, strict=True))
            if wider != array.shape[1:]:
                array.resize((self._draws, *wider))
        array[(slice(first, stop), *(slice(n) for n in inner))] = values
        _sync_tree(self.folder / path / "c" / str(first // self._rows))
        home = self.folder / path
        for changed in (home / "zarr.json", home / "c", home, home.parent):
            _sync(changed)

    def _pack(self, saved: Saved) -> bytes:
        """The state as bytes: a line with the checksum of what follows, an archive of arrays in NumPy's format."""
        about = {
            "run": self._run,
            "chain": self.folder.name,
            "sweeps": saved.sweeps,
            "draws": saved.draws,
            "rng": saved.rng,
            "about": saved.about,
            "rows": self._rows,
            "blocks": [block._asdict() for block in self._blocks],
        }
        arrays = {f"snapshot/{name}": value for name, value in saved.snapshot.items()}
        for group, values in self._tail.items():
            arrays.update({f"tail/{group}/{name}": value for name, value in values.items()})
        buffer = io.BytesIO()
        text = np.frombuffer(json.dumps(about).encode(), dtype=np.uint8)
        for name, value in arrays.items():
            if value.dtype.kind not in _NUMBERS:
                raise TypeError(f"{name} is an array of {value.dtype}. A checkpoint holds numbers alone.")
        np.savez(buffer, about=text, **arrays)  # type: ignore[arg-type]
        payload = buffer.getvalue()
        return hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload

    # ---------------------------------------------------------------- reading

    def load(self) -> Saved | None:
        """Where the chain stands; None where it has not begun.

        Raises
        ------
        ValueError
            The file is damaged, or of another run.
        """
        path = self.folder / "state"
        if not path.exists():
            return None
        try:
            saved = self._unpack(path.read_bytes())
        except Exception as error:  # zipfile, json and NumPy each raise their own kinds on damaged bytes
            raise self._damaged("state", error) from error
        self.sweeps = saved.sweeps
        return saved

    def _unpack(self, raw: bytes) -> Saved:
        digest, payload = raw[:64], raw[65:]
        if hashlib.sha256(payload).hexdigest().encode() != digest:
            raise ValueError("its checksum is wrong")
        with np.load(io.BytesIO(payload), allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        about = json.loads(arrays.pop("about").tobytes())
        if (about["run"], about["chain"]) != (self._run, self.folder.name):
            raise ValueError("it is of another run or chain")
        self._blocks = [_Block(**block) for block in about["blocks"]]
        self._rows = about["rows"]
        snapshot, self._tail = {}, {}
        for name, array in arrays.items():
            kind, rest = name.split("/", 1)
            if kind == "snapshot":
                snapshot[rest] = array
            else:
                group, variable = rest.split("/", 1)
                self._tail.setdefault(group, {})[variable] = array
        return Saved(about["sweeps"], about["draws"], about["rng"], snapshot, about["about"])

    def pieces(self) -> Iterator[tuple[int, Groups]]:
        """The draws that the state just loaded names: the first of each piece, and the piece.

        Raises
        ------
        ValueError
            An array is missing, damaged, or not the one that was written.
        """
        for block in self._blocks:
            yield block.first, self._read_block(block)
        yield self._stop, self._tail

    def _read_block(self, block: _Block) -> Groups:
        result: Groups = {}
        where = ""
        try:
            for group, shapes in block.shapes.items():
                for name, inner in shapes.items():
                    where = f"{group}/{quote(name, safe='')}"
                    array = _open_array(self.folder, where, "r")
                    rows = slice(block.first, block.stop)
                    values = np.asarray(array[(rows, *(slice(n) for n in inner))])
                    result.setdefault(group, {})[name] = values
            where = "the arrays"
            if _checksum(result) != block.sha256:
                raise ValueError(f"the checksum of draws {block.first} to {block.stop} is wrong")
        except Exception as error:  # Zarr raises many kinds on damaged files
            raise self._damaged(where, error) from error
        return result

    def _damaged(self, which: str, error: Exception) -> ValueError:
        return ValueError(
            f"{which} in {str(self.folder)!r} cannot be read ({type(error).__name__}: {error}). A file is damaged or "
            "missing. Remove this folder, and the same call draws the chain anew; the other chains are kept."
        )

    def damaged_snapshot(self, error: Exception) -> ValueError:
        """The error of a state that the kernel cannot take up."""
        return self._damaged("state", error)


def write_atomically(path: Path, data: bytes) -> None:
    """Replace a file by a rename, its bytes on disk before; a link that stands in the way is not followed."""
    temporary = path.with_name(f".{path.name}.part")
    temporary.unlink(missing_ok=True)  # of a process that was killed
    try:
        with temporary.open("xb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise
    _sync(path.parent)


def _sync(path: Path) -> None:
    if os.name == "nt" or not path.exists():  # Windows syncs no folders; a chunk of zeros alone is no file
        return
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _sync_tree(path: Path) -> None:
    for folder, _, files in os.walk(path):
        for file in files:
            _sync(Path(folder, file))
        _sync(Path(folder))
    _sync(path)


def _rows_in_a_block(draws: Groups, most: int) -> int:
    size = sum(value[0].nbytes for arrays in draws.values() for value in arrays.values())
    return max(1, min(most, _BLOCK_BYTES // max(size, 1)))


def _slice(draws: Groups, first: int, stop: int) -> Groups:
    return {g: {name: value[first:stop] for name, value in arrays.items()} for g, arrays in draws.items()}


def _checksum(block: Groups) -> str:
    total = hashlib.sha256()
    for group in sorted(block):
        for name, value in sorted(block[group].items()):
            total.update(json.dumps([group, name, value.dtype.str, value.shape]).encode())
            total.update(np.ascontiguousarray(value).data)
    return total.hexdigest()


def _create_array(folder: Path, path: str, dtype: np.dtype, shape: tuple[int, ...], rows: int) -> Any:
    import zarr
    from zarr.codecs import Crc32cCodec

    name = path.rsplit("/", 1)[1]
    return zarr.create_array(
        store=str(folder),
        name=path,
        shape=shape,
        dtype=dtype,
        chunks=(rows, *(max(1, n) for n in shape[1:])),
        # Random digits do not compress. The checksum serves other readers.
        compressors=(Crc32cCodec(),),
        filters=(),
        fill_value=0,
        dimension_names=("draw", *(f"{name}_{i}" for i in range(len(shape) - 1))),
        zarr_format=3,
        overwrite=True,
    )


def _open_array(folder: Path, path: str, mode: Any) -> Any:
    """An array that this module could have written: numbers, stored as they are."""
    import zarr
    from zarr.codecs import BytesCodec, Crc32cCodec

    array = zarr.open_array(store=str(folder), path=path, mode=mode, zarr_format=3)
    codecs = getattr(array.metadata, "codecs", ())
    if (
        array.dtype.kind not in _NUMBERS
        or not codecs
        or any(type(c) not in (BytesCodec, Crc32cCodec) for c in codecs)
    ):
        raise ValueError("it holds no plain numbers")
    if math.prod(array.chunks) * array.dtype.itemsize > 2 * _BLOCK_BYTES and array.chunks[0] > 1:
        raise ValueError("its chunks are larger than they were made")
    return array
