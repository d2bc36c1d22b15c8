"""Laws of f or y at new rows: for every row a normal law beside each posterior draw, made and used block by block.

Rows times draws are many numbers: 100,000 rows by 4,000 draws fill 3 GB. So laws are made of some rows at a time, as
many as the caches of the processor hold, and what is wanted of them (a mean, an interval, a probability) is computed
before the next ones. Blocks do not depend on how many threads share them, so that results do not either.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from threading import Lock
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy.special import logsumexp
from threadpoolctl import threadpool_limits

from zoo.inference.mixtures import summarise_mixtures

__all__ = ["Block", "NormalMixture", "Responses", "RowLaws"]

# Numbers of a block, and of all blocks where a second thread is worth its start.
_NUMBERS, _MANY = 1 << 17, 1 << 21


class Block(NamedTuple):
    """Some rows, by position (b,), with the means (b, S) and standard deviations (b, S) or (1, S) of their laws."""

    rows: np.ndarray
    mean: np.ndarray
    sd: np.ndarray


class RowLaws(ABC):
    """S normal laws at each of n rows; a standard deviation of 0 is a point."""

    n_rows: int
    n_draws: int
    threads: bool = True
    """Whether blocks may be made and used in several threads."""

    @abstractmethod
    def blocks(self) -> Iterator[Callable[[], Block]]:
        """What makes the blocks, one after the other; every row is in one of them."""

    @property
    def rows_at_once(self) -> int:
        """How many rows a block holds."""
        return max(1, _NUMBERS // max(1, self.n_draws))

    def reduce(self, what: Callable[[Block], np.ndarray], threads: bool = True) -> np.ndarray:
        """The numbers (n, ...) that ``what`` makes of each block, (b, ...); the block is its own to write on."""
        makers, lock = self.blocks(), Lock()
        found: list[tuple[np.ndarray, np.ndarray]] = []

        def run() -> None:
            # Threads begin with settings of their own. Squares beyond all floats are looked at by the caller.
            with np.errstate(over="ignore", under="ignore", invalid="ignore"):
                while True:
                    with lock:
                        make = next(makers, None)
                    if make is None:
                        return
                    block = make()
                    found.append((block.rows, what(block)))

        several = threads and self.threads and self.n_rows * self.n_draws >= _MANY
        n_threads = joblib.cpu_count() if several else 1
        if n_threads == 1:
            run()
        else:
            with threadpool_limits(1, user_api="blas"), ThreadPoolExecutor(n_threads) as pool:
                for done in [pool.submit(run) for _ in range(n_threads)]:
                    done.result()
        if not found:
            return np.empty((0, 0))
        result = np.empty((self.n_rows, *found[0][1].shape[1:]))
        for rows, values in found:
            result[rows] = values
        return result

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation of the mixtures, (n,) each."""
        found = self.reduce(lambda block: summarise_mixtures(block.mean, block.sd, np.empty(0)))
        return found[:, 0], found[:, 1]

    def quantile(self, probability: float) -> np.ndarray:
        """The value below which this probability lies, (n,)."""
        levels = np.array([probability])
        return self.reduce(lambda block: summarise_mixtures(block.mean, block.sd, levels))[:, 2]

    def summary(self, ci_prob: float) -> dict[str, np.ndarray]:
        """``mean``, ``sd`` and the central interval's ``lower`` and ``upper``, (n,) each."""
        return self.summary_with(ci_prob)[0]

    def summary_with(
        self, ci_prob: float, also: Callable[[Block], np.ndarray] | None = None, threads: bool = True
    ) -> tuple[dict[str, np.ndarray], np.ndarray]:
        """The same, and what ``also`` makes of the blocks, (b,) each, while they are at hand."""
        tail = (1.0 - ci_prob) / 2.0
        levels = np.array([tail, 1.0 - tail])

        def columns(block: Block) -> np.ndarray:
            found = summarise_mixtures(block.mean, block.sd, levels)
            return found if also is None else np.column_stack([found, also(block)])

        found = self.reduce(columns, threads).reshape(self.n_rows, -1)
        names = ("mean", "sd", "lower", "upper")
        return {name: found[:, i].copy() for i, name in enumerate(names)}, found[:, len(names) :]

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density of the mixtures at one value for each row, (n,)."""

        def density(block: Block) -> np.ndarray:
            z = (y[block.rows, None] - block.mean) / block.sd
            parts = -0.5 * z**2 - np.log(block.sd) - 0.5 * np.log(2.0 * np.pi)
            return np.asarray(logsumexp(parts, axis=1) - np.log(parts.shape[1]))

        return self.reduce(density)


@dataclass(frozen=True, eq=False)
class NormalMixture(RowLaws):
    """Laws that are there already.

    Parameters
    ----------
    mean, sd : (S, n) array
        A standard deviation of 0 is a point.
    """

    mean: np.ndarray
    sd: np.ndarray

    @property
    def n_draws(self) -> int:  # type: ignore[override]
        """S."""
        return len(self.mean)

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many rows."""
        return self.mean.shape[1]

    def blocks(self) -> Iterator[Callable[[], Block]]:
        """Copies, in which the draws of a row lie together."""
        for start in range(0, self.n_rows, self.rows_at_once):
            yield partial(self._block, np.arange(start, min(start + self.rows_at_once, self.n_rows)))

    def _block(self, rows: np.ndarray) -> Block:
        part = slice(rows[0], rows[-1] + 1)
        return Block(
            rows, np.array(self.mean[:, part].T, order="C"), np.ascontiguousarray(self.sd[:, part].T)
        )


@dataclass(frozen=True, eq=False)
class Responses(RowLaws):
    """Laws of y with normal noise around f, on the scale of the data that were handed in.

    Parameters
    ----------
    law : RowLaws
        Of f.
    noise : (S or 1, T or 1) array
        Standard deviation of y around f, of each task or of all.
    task : (n,) array
        Task of each row.
    transform : object, optional
        That of ``standardize``.
    """

    law: RowLaws
    noise: np.ndarray
    task: np.ndarray
    transform: Any = None

    @property
    def n_draws(self) -> int:  # type: ignore[override]
        """S."""
        return self.law.n_draws

    @property
    def n_rows(self) -> int:  # type: ignore[override]
        """How many rows."""
        return self.law.n_rows

    @property
    def threads(self) -> bool:  # type: ignore[override]
        """Where those of f may."""
        return self.law.threads

    def blocks(self) -> Iterator[Callable[[], Block]]:
        """Those of f, with the noise in them."""
        scale = 1.0 if self.transform is None else self.transform.y_scale
        for make in self.law.blocks():
            yield partial(self._noisy, make, scale)

    def _noisy(self, make: Callable[[], Block], scale: float) -> Block:
        rows, mean, sd = make()
        task = self.task[rows] if self.noise.shape[1] > 1 else np.zeros(1, dtype=int)
        if np.all(task == task[0]):
            task = task[:1]
        sd = scale * np.sqrt(sd**2 + self.noise[:, task].T ** 2)
        if sd.shape[1] != mean.shape[1]:
            sd = np.ascontiguousarray(np.broadcast_to(sd, (len(sd), mean.shape[1])))
        return Block(rows, mean if self.transform is None else self.transform.restore_y(mean), sd)
