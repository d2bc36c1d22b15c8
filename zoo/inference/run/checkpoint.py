"""A checkpoint: a Zarr folder that holds what a run is and how far each of its chains has come."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from zoo.inference.run.chain_record import ChainRecord, write_atomically

__all__ = ["Checkpoint", "open_checkpoint"]

SCHEMA_VERSION = 1
_MANIFEST = "manifest.json"
_MOST_SHOWN = 3


class Checkpoint:
    """The folder of one run, open and locked.

    Parameters
    ----------
    folder : Path
    manifest : dict
        What the run is: what the caller described and, from the first call, what it drew.
    """

    def __init__(self, folder: Path, manifest: dict[str, Any]):
        self.folder = folder
        self.manifest = manifest

    def chain(self, number: int, draws: int) -> ChainRecord:
        """The record of one chain."""
        return ChainRecord(self.folder / f"chain-{number}", draws, _checksum(self.manifest))


@contextmanager
def open_checkpoint(
    path: Any, description: Mapping[str, Any], drawn: Mapping[str, Any] | None = None
) -> Iterator[Checkpoint]:
    """Start a checkpoint, or take up one of the same run.

    Parameters
    ----------
    path : path
        A folder: new, empty, or a checkpoint. Anything else is left alone.
    description : mapping
        JSON-ready, with names as keys: what makes the run this run.
    drawn : mapping, optional
        Kept from the first call and not compared, as random numbers that it drew.

    Raises
    ------
    ValueError
        The folder holds something else, or a checkpoint of another run, or one that is damaged.
    RuntimeError
        Another process has it open.
    OSError
        It cannot be made, or not be written to.
    """
    from filelock import FileLock, Timeout

    if not isinstance(path, str | os.PathLike):
        raise ValueError(f"checkpoint is {path!r}. Give the path of a folder.")
    folder = Path(path).absolute()  # workers may stand elsewhere
    _require_ours(folder)
    try:
        folder.mkdir(exist_ok=True)
        lock = FileLock(folder / "lock").acquire(timeout=0)
    except Timeout:
        raise RuntimeError(
            f"checkpoint {str(folder)!r} is in use by another process. Wait until it has ended, or give another path."
        ) from None
    except OSError as error:
        raise _unwritable(folder, error) from error
    with lock:
        # Through JSON once, so that what is compared is what a file would give back.
        wanted = json.loads(json.dumps({"schema": SCHEMA_VERSION, **description}))
        manifest = _read(folder)
        if manifest is None:
            manifest = {"described": wanted, "drawn": dict(drawn or {})}
            _create(folder, manifest)
        else:
            _require_same(folder, manifest["described"], wanted)
        yield Checkpoint(folder, manifest)


def _require_ours(folder: Path) -> None:
    """Raise where a path is taken by something that is no checkpoint."""
    if folder.exists() and not folder.is_dir():
        raise NotADirectoryError(f"checkpoint {str(folder)!r} is a file. Give the name of a folder.")
    if not folder.exists():
        if not folder.parent.is_dir():
            raise FileNotFoundError(f"folder {str(folder.parent)!r} does not exist. Make it first.")
        return
    for inside, folders, files in os.walk(folder):
        link = next(
            (Path(inside, name) for name in (*folders, *files) if Path(inside, name).is_symlink()), None
        )
        if link is not None:
            raise ValueError(
                f"checkpoint {str(folder)!r} holds the link {str(link.relative_to(folder))!r}, and what it points to "
                "would be written to. Remove it, or give another path."
            )
    # A process that was killed at its first step leaves no more than these.
    others = [f.name for f in folder.iterdir() if f.name not in ("lock", f".{_MANIFEST}.part")]
    if others and not (folder / _MANIFEST).exists():
        raise ValueError(
            f"checkpoint {str(folder)!r} is a folder that holds {sorted(others)[0]!r} and no {_MANIFEST}. It is no "
            "checkpoint, or a damaged one, and is left as it is. Give another path."
        )


def _create(folder: Path, manifest: dict[str, Any]) -> None:
    import zarr

    try:
        text = json.dumps({"sha256": _checksum(manifest), **manifest}, indent=1)
        write_atomically(folder / _MANIFEST, text.encode())
        zarr.create_group(store=str(folder), zarr_format=3, overwrite=False)
    except OSError as error:
        raise _unwritable(folder, error) from error


def _read(folder: Path) -> dict[str, Any] | None:
    path = folder / _MANIFEST
    if not path.exists():
        return None
    try:
        content = json.loads(path.read_bytes())
        manifest = {"described": content["described"], "drawn": content["drawn"]}
        if content["sha256"] != _checksum(manifest) or not isinstance(manifest["described"], dict):
            raise ValueError("its checksum is wrong")
    except (ValueError, KeyError, TypeError, OSError) as error:
        raise ValueError(
            f"{str(path)!r} is damaged ({type(error).__name__}: {error}). "
            "Remove the folder and fit again, or give another path."
        ) from error
    return manifest


def _require_same(folder: Path, stored: dict[str, Any], wanted: dict[str, Any]) -> None:
    old, new = _flat(stored), _flat(wanted)
    different = [key for key in {**old, **new} if old.get(key) != new.get(key)]
    if not different:
        return
    shown = "; ".join(_difference(key, old.get(key), new.get(key)) for key in different[:_MOST_SHOWN])
    more = f"; and {len(different) - _MOST_SHOWN} more" if len(different) > _MOST_SHOWN else ""
    raise ValueError(
        f"checkpoint {str(folder)!r} is of another run: {shown}{more}. "
        "Make the call that it was started by, or give another path."
    )


def _flat(value: Any, key: str = "") -> dict[str, str]:
    """Entries of nested dicts by dotted name, each as JSON."""
    if isinstance(value, dict) and value:
        parts = (_flat(v, f"{key}.{k}" if key else str(k)) for k, v in value.items())
        return {k: v for part in parts for k, v in part.items()}
    return {key: json.dumps(value)}


def _difference(key: str, old: str | None, new: str | None) -> str:
    if key.endswith("sha256"):
        return f"{key.rpartition('.')[0]} differs"
    return f"{key} was {_short(old)}, is {_short(new)}"


def _short(text: str | None) -> str:
    if text is None:
        return "absent"
    return text if len(text) <= 60 else f"{text[:57]}..."


def _checksum(manifest: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _unwritable(folder: Path, error: OSError) -> OSError:
    return OSError(
        error.errno,
        f"checkpoint {str(folder)!r} cannot be written to ({error.strerror}). Give a path where writing is allowed",
    )
