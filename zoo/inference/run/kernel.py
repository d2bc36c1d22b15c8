"""What an engine hands to the chains: a Markov kernel, and copies of its state for checkpoints."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np

__all__ = ["Kernel", "copies", "put_back"]


class Kernel(Protocol):
    """A Markov kernel: what an engine hands to :func:`run_chains`."""

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state; ``threads`` may share the work of a transition."""
        ...

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        ...

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One transition that leaves the posterior unchanged; changes ``state`` in place."""
        ...

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The posterior variables of the state."""
        ...

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """A few scalars for the progress bar and ``sample_stats``."""
        ...

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Copies of every number that the next sweep reads and that ``initialise`` does not make of the data alone.

        Checkpoints need it, and nothing else does. Mind the memory layout: it decides how sums are rounded.
        """
        ...

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Put a snapshot into a state that ``initialise`` made: the next sweep is, bit for bit, that of the snapshot.

        A file may hold anything: raises ``ValueError`` or ``KeyError`` where the arrays do not fit.
        """
        ...


def copies(state: dict[str, Any], names: Iterable[str]) -> dict[str, np.ndarray]:
    """Copies of entries of a state, for ``snapshot``."""
    return {name: np.array(state[name], order="C") for name in names}


def put_back(state: dict[str, Any], snapshot: dict[str, np.ndarray], names: Iterable[str]) -> None:
    """Fill arrays of a state from a snapshot, in place, for ``restore``.

    Raises
    ------
    KeyError, ValueError
        An array is missing, or of another shape or type.
    """
    for name in names:
        old, new = state[name], snapshot[name]
        if old.shape != new.shape or old.dtype != new.dtype:
            raise ValueError(f"{name} is {new.dtype} {new.shape}, expected {old.dtype} {old.shape}")
        old[...] = new
