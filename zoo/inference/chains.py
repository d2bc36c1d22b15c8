"""Run independent Markov chains: one RNG stream each, in parallel, with progress and a clean interrupt."""

from __future__ import annotations

import math
import threading
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any, NamedTuple, Protocol

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from zoo.inference.progress import ChainProgress

__all__ = ["Kernel", "run_chains"]


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


class _Store:
    """Arrays (chain, draw, ...) made at the first draw, padded with zeros where a later draw is larger.

    Chains in threads share one store.
    """

    def __init__(self, chains: int, draws: int):
        self._shape = (chains, draws)
        self._lock = threading.Lock()
        self.arrays: dict[str, np.ndarray] = {}

    def __getstate__(self) -> dict[str, Any]:
        return {k: v for k, v in self.__dict__.items() if k != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state, _lock=threading.Lock())

    def put(self, values: dict[str, Any], row: int, draw: int, chain: int) -> None:
        for name, value in values.items():
            new = np.asarray(value)
            # A sum is quicker than a look at each entry, which decides only where the sum overflows too.
            if not math.isfinite(new.sum()) and not np.isfinite(new).all():
                raise FloatingPointError(
                    f"chain {chain} drew a value of {name} that is not finite, at draw {draw}. "
                    "Check the data for extreme scales: data.standardize() helps."
                )
            with self._lock:
                array = self.arrays.get(name)
                if array is None:
                    array = np.zeros((*self._shape, *new.shape), dtype=np.result_type(new, np.int8))
                    self.arrays[name] = array
                if array.shape[2:] == new.shape:
                    array[row, draw] = new
                    continue
                self.arrays[name] = array = _padded(array, (*self._shape, *new.shape))
                place: tuple[Any, ...] = (row, draw, *(slice(n) for n in new.shape))
                array[place] = new


def _padded(array: np.ndarray, shape: tuple[int, ...]) -> np.ndarray:
    """The array with zeros behind its entries, at least of this shape."""
    extra = [(0, max(0, n - m)) for n, m in zip(shape, array.shape, strict=True)]
    return np.pad(array, extra) if any(after for _, after in extra) else array


class _Chain:
    """One chain and what it has drawn so far."""

    def __init__(
        self,
        kernel: Kernel,
        number: int,
        plan: _Plan,
        seed: np.random.SeedSequence,
        start: dict[str, np.ndarray] | None,
        stores: tuple[_Store, _Store] | None,
    ):
        self.kernel = kernel
        self.number = number
        self.plan = plan
        self.seed = seed
        self.start = start
        self.done = 0
        # In threads a row of what all chains share; in another process a store of its own.
        self.row = 0 if stores is None else number
        self._posterior, self._stats = stores or (_Store(1, plan.draws), _Store(1, plan.draws))

    @property
    def posterior(self) -> dict[str, np.ndarray]:
        """Posterior draws by name, (draw, ...)."""
        return {name: array[self.row] for name, array in self._posterior.arrays.items()}

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Sample statistics by name, (draw,)."""
        return {name: array[self.row] for name, array in self._stats.arrays.items()}

    def run(self, report: Callable[[_Chain, int], None] | None, stop: threading.Event | None) -> _Chain:
        rng = np.random.default_rng(self.seed)
        plan = self.plan
        state = self.kernel.initialise(rng, plan.threads)
        if self.start is not None:
            self.kernel.set_values(state, self.start)
        for i in range(plan.tune + plan.draws * plan.thin):
            if stop is not None and stop.is_set():
                break
            self.kernel.sweep(rng, state)
            draw, left = divmod(i + 1 - plan.tune, plan.thin)
            if draw > 0 and left == 0:
                self._store(state, draw - 1)
            if report is not None:
                report(self, i + 1)
        return self

    def _store(self, state: dict[str, Any], draw: int) -> None:
        self._posterior.put(self.kernel.record(state), self.row, draw, self.number)
        self._stats.put(self.kernel.monitor(state), self.row, draw, self.number)
        self.done = draw + 1


class _Plan(NamedTuple):
    draws: int
    tune: int
    thin: int
    threads: int


def run_chains(
    kernel: Kernel,
    *,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | np.random.SeedSequence | None = None,
    cores: int | None = None,
    thin: int = 1,
    threads: int | None = None,
    starts: list[dict[str, np.ndarray]] | None = None,
    progress: bool = True,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw from the kernel's posterior.

    Chains run in threads (the kernels release the GIL), or wherever a ``joblib.parallel_config`` on the
    context stack sends them. Linear algebra is held to one thread a call; results depend on ``random_seed``
    alone, not on ``cores``, ``threads`` or the backend. Ctrl-C keeps the draws made so far.

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
    threads : int, optional
        Threads that share the work of one chain; default: the cores that the chains leave idle.
    starts : list of dict, optional
        Posterior variables to start the chains from, used in turn; default: dispersed.
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
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    shared = bool(getattr(backend, "supports_sharedmem", False))
    stop = threading.Event() if shared else None
    available = cores or joblib.cpu_count()
    n_jobs = min(available, chains)
    plan = _Plan(draws, tune, thin, max(1, available // n_jobs) if threads is None else threads)
    stores = (_Store(chains, draws), _Store(chains, draws)) if shared else None
    runs = [
        _Chain(kernel, i, plan, s, starts[i % len(starts)] if starts else None, stores)
        for i, s in enumerate(seed.spawn(chains))
    ]
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
    return _collect(runs, stores)


def _collect(
    runs: list[_Chain], stores: tuple[_Store, _Store] | None
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """All chains as arrays; after an interrupt, the rectangle of chains x draws that keeps most draws."""
    order = sorted(runs, key=lambda run: -run.done)
    kept = max(range(1, len(order) + 1), key=lambda k: k * order[k - 1].done)
    n_draws = order[kept - 1].done
    if n_draws == 0:
        raise KeyboardInterrupt("interrupted in warm-up, before the first draw")
    chosen = sorted(order[:kept], key=lambda run: run.number)
    if stores is not None and kept == len(runs):  # no copy: draws of large covariances fill the memory
        return tuple({name: array[:, :n_draws] for name, array in s.arrays.items()} for s in stores)  # type: ignore[return-value]

    def stack(which: str) -> dict[str, np.ndarray]:
        parts = [getattr(run, which) for run in chosen]
        stacked = {}
        for name in parts[0]:
            largest = tuple(max(sizes) for sizes in zip(*(part[name].shape for part in parts), strict=True))
            stacked[name] = np.stack([_padded(part[name], largest)[:n_draws] for part in parts])
        return stacked

    return stack("posterior"), stack("stats")
