"""How much memory the draws of a fit need, against what there is, said before anything runs; and what work took."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any

import numpy as np

__all__ = [
    "InsufficientMemoryError",
    "available_memory",
    "gigabytes",
    "require_bytes",
    "require_memory",
    "sizes_of_variables",
    "with_peak",
]

# Of the free memory: the rest is for what an engine needs beside the draws.
_SHARE = 0.8
_BYTES = 8
# Where Linux says how many pages a process has mapped.
_MAPPED = Path("/proc/self/statm")
# Where Linux says how much a process has held at most, and where that is set back to what it holds now.
_PEAK, _RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# Bytes by which a peak that was reset may lie above what is held: other threads go on.
_AS_GOOD_AS_RESET = 10_000_000
# The control groups of this process, and where Linux shows groups of the second and of the first kind: of each, what
# its processes may have and what they have.
_GROUPS = Path("/proc/self/cgroup")
_SECOND = Path("/sys/fs/cgroup"), "memory.max", "memory.current"
_FIRST = Path("/sys/fs/cgroup/memory"), "memory.limit_in_bytes", "memory.usage_in_bytes"


class InsufficientMemoryError(MemoryError, ValueError):
    """What was asked for would not fit into memory."""


def available_memory() -> int:
    """Bytes that this process can still have: of the machine, the container that it is in, or its address space."""
    import psutil

    available = int(psutil.virtual_memory().available)
    for limit, usage in _limits():
        try:
            left = int(limit.read_text()) - int(usage.read_text())
        except (OSError, ValueError):  # another system, or no limit ("max")
            continue
        available = min(available, max(left, 0))
    left_to_map = _left_of_address_space()
    return available if left_to_map is None else min(available, left_to_map)


def _limits() -> Iterator[tuple[Path, Path]]:
    """Files with the limit and the use of each control group around this process: of a container, a job, a service."""
    try:
        lines = _GROUPS.read_text().splitlines()
    except OSError:  # another system
        return
    for line in lines:
        _, controllers, inside = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        root, limit, usage = _FIRST if controllers else _SECOND
        group = PurePosixPath(inside)
        for around in (group, *group.parents):
            folder = root / around.relative_to("/")
            yield folder / limit, folder / usage


def _left_of_address_space() -> int | None:
    """Bytes that this process can still map, where its address space is limited (``ulimit -v``)."""
    try:
        import resource
    except ImportError:  # another system
        return None
    limit = resource.getrlimit(resource.RLIMIT_AS)[0]
    if limit == resource.RLIM_INFINITY or not _MAPPED.exists():
        return None
    return max(0, limit - int(_MAPPED.read_text().split()[0]) * resource.getpagesize())


def with_peak[Found](work: Callable[[], Found]) -> tuple[Found, int | None]:
    """What ``work()`` returns, and the bytes that the process held at most meanwhile, beyond those before it.

    None instead of the bytes where the system does not say: it is not Linux, or a sandbox that takes the reset and
    keeps the old peak. What other threads take counts too.
    """
    try:
        _RESET.write_text("5")  # see proc(5)
        before, now = _held("VmHWM"), _held("VmRSS")
    except OSError:
        return work(), None
    found = work()
    return found, max(0, _held("VmHWM") - before) if before - now < _AS_GOOD_AS_RESET else None


def _held(field: str) -> int:
    """Bytes that this process holds (``VmRSS``), or has held at most since the last reset (``VmHWM``)."""
    line = next(line for line in _PEAK.read_text().splitlines() if line.startswith(f"{field}:"))
    return 1024 * int(line.split()[1])


def sizes_of_variables(
    dims: Mapping[str, tuple[str | None, ...]], coords: Mapping[str, Any], alternatives: tuple[str, ...]
) -> dict[str, int]:
    """Numbers that one draw of each reported variable holds.

    Parameters
    ----------
    dims : mapping
        Dims of the variables, by name; auxiliary ones have a leading underscore and are not kept.
    coords : mapping
        Names along the dims.
    alternatives : tuple of str
        Variables of which a posterior has one: only the largest counts.
    """
    lengths = {name: len(values) for name, values in coords.items()}
    sizes = {
        name: int(np.prod([lengths.get(dim, 1) for dim in of if dim is not None], dtype=np.int64))
        for name, of in dims.items()
        if not name.startswith("_")
        and name not in ("y", "y_observed")
        and "obs" not in of
        and "input_row" not in of
    }
    among = {name: sizes.pop(name) for name in alternatives if name in sizes}
    if among:
        largest = max(among, key=lambda name: among[name])
        sizes[largest] = among[largest]
    return sizes


def require_memory(numbers: Mapping[str, int], draws: int, argument: str, advice: str) -> None:
    """Raise where arrays of that many numbers, for that many draws, would not fit.

    Parameters
    ----------
    numbers : mapping
        How many numbers one draw holds, by what they are.
    draws : int
        Draws of all chains together.
    argument : str
        What the message names.
    advice : str
        The sentence that says what to do.

    Raises
    ------
    InsufficientMemoryError
        A ValueError and a MemoryError.
    """
    require_bytes({name: _BYTES * draws * n for name, n in numbers.items()}, argument, advice)


def require_bytes(needed: Mapping[str, int], argument: str, advice: str) -> None:
    """Raise where parts of these sizes would not fit, as :func:`require_memory` does.

    Parameters
    ----------
    needed : mapping
        Bytes, by what they are.
    argument, advice : str
        What the message names, and the sentence that says what to do.

    Raises
    ------
    InsufficientMemoryError
        A ValueError and a MemoryError.
    """
    total, available = sum(needed.values()), available_memory()
    if total <= _SHARE * available:
        return
    largest = max(needed, key=lambda name: needed[name])
    raise InsufficientMemoryError(
        f"{argument} would need {gigabytes(total)} of memory ({gigabytes(needed[largest])} for {largest!r}), and "
        f"{gigabytes(available)} are free. {advice}"
    )


def gigabytes(size: float) -> str:
    """A number of bytes as text."""
    return f"{size / 1e9:.3g} GB" if size > 1e8 else f"{size / 1e6:.3g} MB"
