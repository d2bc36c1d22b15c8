"""Progress of running chains, with effective sample size and R-hat of what converges worst.

The bar follows the scalars that the kernel monitors, and the entries of the posterior that were
worst at the last look over many of them. The first look is at a hundred draws, the next ones when
there are twice as many.
"""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from zoo.inference.compiled import before_compiling
from zoo.inference.run.mixing import mixing

__all__ = ["ChainProgress", "ClimbProgress"]

_SECONDS_BETWEEN_DIAGNOSTICS = 2.0
_SECONDS_BETWEEN_UPDATES = 0.1
_LEAST_DRAWS = 20
_DRAWS_AT_THE_FIRST_LOOK = 100
# Entries of all variables together, and how many of the worst are followed by R-hat, and by ESS.
_MOST_LOOKED_AT = 2_000
_WATCHED = 5
_SHARE_FOR_LOOKING = 0.01
_SECONDS_A_NUMBER = 2e-7


class ChainProgress:
    """A rich progress bar over all chains; a context manager.

    Parameters
    ----------
    chains, sweeps, tune : int
        Number of chains, sweeps of each in all, and how many of them are warm-up.
    """

    def __init__(self, chains: int, sweeps: int, tune: int):
        self._tune = tune
        self._done = [0] * chains
        self._runs: dict[int, Any] = {}
        self._lock = threading.Lock()
        self._next_update = self._next_diagnostics = 0.0
        self._watched: dict[str, np.ndarray] = {}
        self._next_look, self._seconds_of_a_look = _DRAWS_AT_THE_FIRST_LOOK, 0.0
        self._start = time.monotonic()
        self._shown = ""
        self._bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("sweeps"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[health]}"),
        )
        self._task = self._bar.add_task("warm-up ", total=chains * sweeps, health="")

    def __enter__(self) -> ChainProgress:
        self._bar.start()
        self._compiling = before_compiling(lambda: self._bar.update(self._task, description="compiling"))
        self._compiling.__enter__()
        return self

    def __exit__(self, *exc: object) -> None:
        self._compiling.__exit__(None, None, None)
        self._refresh(health=self._health())
        self._bar.stop()

    def extend(self, sweeps: int) -> None:
        """Have each chain make as many sweeps in all."""
        self._bar.update(self._task, total=len(self._done) * sweeps)

    def report(self, run: Any, sweeps: int) -> None:
        """Called by a chain after each sweep, from its own thread."""
        self._done[run.number] = sweeps
        self._runs[run.number] = run
        now = time.monotonic()
        if now < self._next_update:
            return
        with self._lock:
            if now < self._next_update:
                return
            self._next_update = now + _SECONDS_BETWEEN_UPDATES
            health = None
            if now > self._next_diagnostics:
                health = self._health()
                self._next_diagnostics = time.monotonic() + _SECONDS_BETWEEN_DIAGNOSTICS
            self._refresh(health)

    def _refresh(self, health: str | None) -> None:
        self._shown = health if health is not None else self._shown
        phase = "sampling" if min(self._done) > self._tune else "warm-up "
        self._bar.update(self._task, completed=sum(self._done), description=phase, health=self._shown)

    def _health(self) -> str:
        runs = list(self._runs.values())
        n_draws = min((run.done for run in runs), default=0)
        if n_draws < _LEAST_DRAWS:
            return ""
        followed = [np.stack([run.stats[name][:n_draws] for run in runs])[None] for name in runs[0].stats]
        self._look(runs, n_draws)
        for name, places in self._watched.items():
            parts = [_entries(run.posterior[name], n_draws, places) for run in runs]
            followed.append(np.stack(parts, axis=1))
        values = np.concatenate(followed).astype(np.float64)
        found = mixing(values[values.min(axis=(1, 2)) < values.max(axis=(1, 2))])
        ess = np.fmin(found.ess_bulk, found.ess_tail)
        if not np.isfinite(ess).any():
            return ""
        text = f"ESS {np.nanmin(ess):.0f}"
        return text + (f", R-hat {np.nanmax(found.r_hat):.3f}" if np.isfinite(found.r_hat).any() else "")

    def _look(self, runs: list[Any], n_draws: int) -> None:
        """Choose what is followed beside the scalars.

        Only where a look takes a hundredth of the time so far at most.
        """
        start = time.monotonic()
        unordered = getattr(runs[0].kernel, "unordered", ())
        posteriors = [{k: v for k, v in run.posterior.items() if k not in unordered} for run in runs]
        n_entries = min(_MOST_LOOKED_AT, sum(array[0].size for array in posteriors[0].values()))
        seconds = max(self._seconds_of_a_look, _SECONDS_A_NUMBER * n_entries * len(runs) * n_draws)
        if n_draws < self._next_look or seconds > _SHARE_FOR_LOOKING * (start - self._start):
            return
        self._watched = _worst_entries(posteriors, n_draws)
        self._next_look = 2 * n_draws
        self._seconds_of_a_look = 2.0 * (time.monotonic() - start)


def _entries(array: np.ndarray, n_draws: int, places: np.ndarray) -> np.ndarray:
    """Draws of some entries of a chain's (draw, ...) array, (entry, draw)."""
    return array[:n_draws].reshape(n_draws, -1)[:, places].T.astype(np.float64)


def _worst_entries(posteriors: list[dict[str, np.ndarray]], n_draws: int) -> dict[str, np.ndarray]:
    """Places of the entries that are worst by R-hat, and by ESS, among some of each variable."""
    sizes = {name: int(np.prod(array.shape[1:])) for name, array in posteriors[0].items()}
    total = sum(sizes.values())
    found: list[tuple[str, int, float, float]] = []
    for name, size in sizes.items():
        n_looked = min(size, max(1, _MOST_LOOKED_AT * size // total))
        places = np.unique(np.linspace(0, size - 1, n_looked).round().astype(np.int64))
        values = np.stack([_entries(posterior[name], n_draws, places) for posterior in posteriors], axis=1)
        varies = values.min(axis=(1, 2)) < values.max(axis=(1, 2))
        r_hat, bulk, tail = mixing(values[varies])
        ess = np.fmin(bulk, tail)
        found += [(name, int(p), r, e) for p, r, e in zip(places[varies], r_hat, ess, strict=True)]
    by_r_hat = sorted(found, key=lambda entry: -np.nan_to_num(entry[2], posinf=np.inf))[:_WATCHED]
    by_ess = sorted(found, key=lambda entry: entry[3])[:_WATCHED]
    watched: dict[str, set[int]] = {}
    for name, place, _, _ in (*by_r_hat, *by_ess):
        watched.setdefault(name, set()).add(place)
    return {name: np.array(sorted(places)) for name, places in watched.items()}


class ClimbProgress:
    """A rich line that follows an objective; a context manager whose ``report`` is called with each value."""

    def __init__(
        self, total: int, shown: bool = True, label: str = "EM", objective: str = "penalised log-likelihood"
    ):
        self._bar = Progress(
            TextColumn(label),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn(f"iterations, {objective} {{task.fields[value]}}"),
            disable=not shown,
        )
        self._task = self._bar.add_task("", total=total, value="")

    def __enter__(self) -> ClimbProgress:
        self._bar.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self._bar.stop()

    def report(self, iteration: int, value: float) -> None:
        """The objective after this many evaluations."""
        self._bar.update(self._task, completed=iteration, value=f"{value:.4f}")
