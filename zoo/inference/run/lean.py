r"""Chains that keep less than all of their draws: without variables of the tasks, or with their running moments alone.

The draws of a population do not grow with the number of tasks, and those of the tasks' coefficients do. A
:class:`LeanKernel` makes the same transitions as the kernel that it is made of, from the same random numbers, and
leaves these variables out of each draw. With ``moments`` it follows their mean and sum of squares (Welford 1962, in
the order of the draws):

.. math:: m_n = m_{n-1} + \frac{x_n - m_{n-1}}{n}, \qquad q_n = q_{n-1} + (x_n - m_{n-1})(x_n - m_n),

so that :math:`q_n / n` is the variance of n draws without the cancellation of a difference of squares. Chains are put
together by their sizes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["LeanKernel", "Moments", "pooled_moments"]

_PREFIX = "moments/"


class Moments(NamedTuple):
    """Running moments of one variable in one chain: ``size`` () draws, ``mean`` and ``squares`` (...)."""

    size: np.ndarray
    mean: np.ndarray
    squares: np.ndarray

    def add(self, value: np.ndarray) -> None:
        """Take up one more draw."""
        self.size[...] += 1
        new = np.ascontiguousarray(value, dtype=np.float64)
        _add(new.ravel(), float(self.size), self.mean.reshape(-1), self.squares.reshape(-1))


@njit(cache=True, nogil=True)
def _add(value, count, mean, squares):
    for i in range(len(value)):
        apart = value[i] - mean[i]
        mean[i] += apart / count
        squares[i] += apart * (value[i] - mean[i])


def pooled_moments(parts: list[dict[str, Moments]]) -> dict[str, tuple[np.ndarray, np.ndarray]]:
    """Mean and standard deviation of all draws of several chains, by variable."""
    result = {}
    for name in parts[0]:
        counts = np.array([float(part[name].size) for part in parts])
        share = counts / counts.sum()
        mean = sum(s * part[name].mean for s, part in zip(share, parts, strict=True))
        between = sum(s * (part[name].mean - mean) ** 2 for s, part in zip(share, parts, strict=True))
        within = sum(part[name].squares for part in parts) / counts.sum()
        result[name] = (np.asarray(mean), np.sqrt(within + between))
    return result


@dataclass(frozen=True, eq=False)
class LeanKernel:
    """A kernel of :mod:`zoo.inference.run.chains` with less in its draws.

    Parameters
    ----------
    kernel : Kernel
        With a method ``record_population(state)``: its draw without the variables of the tasks.
    moments : bool
        Whether to follow the moments of what is left out.
    """

    kernel: Any
    moments: bool

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """The kernel's starting state, and no moments yet."""
        inner = self.kernel.initialise(rng, threads)
        kept: dict[str, Moments] = {}
        if self.moments:
            every, population = self.kernel.record(inner), self.kernel.record_population(inner)
            for name in every.keys() - population.keys():
                shape = np.shape(every[name])
                kept[name] = Moments(np.zeros((), dtype=np.int64), np.zeros(shape), np.zeros(shape))
        return {"inner": inner, "moments": dict(sorted(kept.items()))}

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        self.kernel.set_values(state["inner"], values)

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """The kernel's transition."""
        self.kernel.sweep(rng, state["inner"])

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw without the variables of the tasks, whose moments take it up."""
        if not self.moments:
            return dict(self.kernel.record_population(state["inner"]))
        draw = self.kernel.record(state["inner"])
        for name, moments in state["moments"].items():
            moments.add(draw.pop(name))
        return dict(draw)

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """The kernel's scalars."""
        return dict(self.kernel.monitor(state["inner"]))

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The kernel's snapshot, and the moments."""
        own = {
            f"{_PREFIX}{name}/{field}": np.array(value)
            for name, moments in state["moments"].items()
            for field, value in moments._asdict().items()
        }
        return {**self.kernel.snapshot(state["inner"]), **own}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        self.kernel.restore(
            state["inner"], {name: v for name, v in snapshot.items() if not name.startswith(_PREFIX)}
        )
        for name, moments in state["moments"].items():
            for field, value in moments._asdict().items():
                new = snapshot[f"{_PREFIX}{name}/{field}"]
                if new.shape != value.shape or new.dtype != value.dtype:
                    raise ValueError(f"the {field} of {name} is {new.dtype} {new.shape}")
                value[...] = new

    def summary(self, state: dict[str, Any]) -> dict[str, Moments]:
        """The moments of a chain, when it has ended."""
        return dict(state["moments"])
