"""Progress of running chains, with effective sample size and R-hat of the monitored scalars."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

__all__ = ["ChainProgress", "ClimbProgress"]

_SECONDS_BETWEEN_DIAGNOSTICS = 2.0
_SECONDS_BETWEEN_UPDATES = 0.1


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
        return self

    def __exit__(self, *exc: object) -> None:
        self._refresh(health=self._health())
        self._bar.stop()

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
        from arviz_stats.base import array_stats

        runs = list(self._runs.values())
        n_draws = min((run.done for run in runs), default=0)
        if n_draws < 20:
            return ""
        ess, rhat = [], []
        for name in runs[0].stats:
            values = np.stack([run.stats[name][:n_draws] for run in runs])
            if np.ptp(values) == 0.0:
                continue
            ess.append(float(array_stats.ess(values, chain_axis=0, draw_axis=1)))
            if len(runs) > 1:
                rhat.append(float(array_stats.rhat(values, chain_axis=0, draw_axis=1)))
        if not ess:
            return ""
        text = f"ESS {min(ess):.0f}"
        return text + (f", R-hat {max(rhat):.3f}" if rhat else "")


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
