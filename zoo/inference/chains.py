"""Run independent Markov chains: one RNG stream each, in parallel, with progress and a clean interrupt."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from zoo.inference.progress import ChainProgress

__all__ = ["Kernel", "run_chains"]


class Kernel(Protocol):
    """A Markov kernel: what an engine hands to :func:`run_chains`."""

    def initialise(self, rng: np.random.Generator) -> dict[str, Any]:
        """A dispersed starting state."""
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


class _Chain:
    """One chain and what it has drawn so far."""

    def __init__(
        self, kernel: Kernel, number: int, draws: int, tune: int, thin: int, seed: np.random.SeedSequence
    ):
        self.kernel = kernel
        self.number = number
        self.draws = draws
        self.tune = tune
        self.thin = thin
        self.seed = seed
        self.done = 0
        self.posterior: dict[str, np.ndarray] = {}
        self.stats: dict[str, np.ndarray] = {}

    def run(self, report: Callable[[_Chain, int], None] | None, stop: threading.Event | None) -> _Chain:
        rng = np.random.default_rng(self.seed)
        state = self.kernel.initialise(rng)
        for i in range(self.tune + self.draws * self.thin):
            if stop is not None and stop.is_set():
                break
            self.kernel.sweep(rng, state)
            draw, left = divmod(i + 1 - self.tune, self.thin)
            if draw > 0 and left == 0:
                self._store(state, draw - 1)
            if report is not None:
                report(self, i + 1)
        return self

    def _store(self, state: dict[str, Any], draw: int) -> None:
        _store(self.posterior, self.kernel.record(state), draw, self.draws, self.number)
        _store(self.stats, self.kernel.monitor(state), draw, self.draws, self.number)
        self.done = draw + 1


def _store(target: dict[str, np.ndarray], values: dict[str, Any], draw: int, draws: int, chain: int) -> None:
    for name, value in values.items():
        if name not in target:
            target[name] = np.empty((draws, *np.shape(value)))
        if not np.all(np.isfinite(value)):
            raise FloatingPointError(
                f"chain {chain} drew a value of {name} that is not finite, at draw {draw}. "
                "Check the data for extreme scales: data.standardize() helps."
            )
        target[name][draw] = value


def run_chains(
    kernel: Kernel,
    *,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | np.random.SeedSequence | None = None,
    cores: int | None = None,
    thin: int = 1,
    progress: bool = True,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw from the kernel's posterior.

    Chains run in threads (the kernels release the GIL), or wherever a ``joblib.parallel_config`` on the
    context stack sends them. Linear algebra is held to one thread a chain; results depend on ``random_seed``
    alone, not on ``cores`` or the backend. Ctrl-C keeps the draws made so far.

    Parameters
    ----------
    kernel : Kernel
    draws, tune, chains : int
        Kept draws and warm-up sweeps of each chain; number of chains.
    random_seed : int or SeedSequence, optional
        Each chain gets its own child stream.
    cores : int, optional
        Chains at a time; default: as many as there are cores.
    thin : int
        Sweeps from one kept draw to the next.
    progress : bool

    Returns
    -------
    posterior, stats : dict of arrays (chain, draw, ...)
    """
    seed = (
        random_seed
        if isinstance(random_seed, np.random.SeedSequence)
        else np.random.SeedSequence(random_seed)
    )
    if thin < 1:
        raise ValueError(f"thin is {thin!r}. Give a whole number of at least 1.")
    runs = [_Chain(kernel, i, draws, tune, thin, s) for i, s in enumerate(seed.spawn(chains))]
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    shared = bool(getattr(backend, "supports_sharedmem", False))
    stop = threading.Event() if shared else None
    n_jobs = min(cores or joblib.cpu_count(), chains)
    bar = ChainProgress(chains, draws * thin + tune, tune) if progress else None
    report = bar.report if bar is not None and shared else None
    with bar or nullcontext(), threadpool_limits(1):
        try:
            parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
            runs = parallel(joblib.delayed(_Chain.run)(chain, report, stop) for chain in runs)
        except KeyboardInterrupt:
            if stop is None:
                raise
            stop.set()
    return _collect(runs)


def _collect(runs: list[_Chain]) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Stack the chains; after an interrupt, the rectangle of chains x draws that keeps most draws."""
    order = sorted(runs, key=lambda run: -run.done)
    kept = max(range(1, len(order) + 1), key=lambda k: k * order[k - 1].done)
    n_draws = order[kept - 1].done
    if n_draws == 0:
        raise KeyboardInterrupt("interrupted in warm-up, before the first draw")
    chosen = sorted(order[:kept], key=lambda run: run.number)

    def stack(which: str) -> dict[str, np.ndarray]:
        parts = [getattr(run, which) for run in chosen]
        return {name: np.stack([part[name][:n_draws] for part in parts]) for name in parts[0]}

    return stack("posterior"), stack("stats")
