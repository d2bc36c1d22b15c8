"""Run independent Markov chains: one RNG stream each, in parallel, with progress and a clean interrupt."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from contextlib import nullcontext
from typing import Any, NamedTuple

import joblib
import numpy as np
from threadpoolctl import threadpool_limits

from zoo.inference.run.chain_record import ChainRecord, Saved
from zoo.inference.run.checkpoint import Checkpoint
from zoo.inference.run.draw_store import Store, padded
from zoo.inference.run.kernel import Kernel
from zoo.inference.run.progress import ChainProgress

__all__ = ["chain_backend", "largest_rectangle", "run_chains", "seed_sequence"]

_SECONDS_BETWEEN_LOOKS = 0.1


class _Chain:
    """One chain and what it has drawn so far."""

    def __init__(
        self,
        kernel: Kernel,
        number: int,
        plan: _Plan,
        seed: np.random.SeedSequence,
        start: dict[str, np.ndarray] | None,
        stores: tuple[Store, Store] | None,
        record: ChainRecord | None,
    ):
        self.kernel = kernel
        self.number = number
        self.plan = plan
        self.seed = seed
        self.start = start
        self.record = record
        self.done = 0
        self._sweeps = 0
        self.summary: Any = None
        self._position: tuple[np.random.Generator, dict[str, Any]] | None = None
        # In threads a row of what all chains share; in another process a store of its own.
        self.row = 0 if stores is None else number
        self._posterior, self._stats = stores or (Store(1, plan.draws), Store(1, plan.draws))

    @property
    def posterior(self) -> dict[str, np.ndarray]:
        """Posterior draws by name, (draw, ...)."""
        return {name: array[self.row] for name, array in self._posterior.arrays.items()}

    @property
    def stats(self) -> dict[str, np.ndarray]:
        """Sample statistics by name, (draw,)."""
        return {name: array[self.row] for name, array in self._stats.arrays.items()}

    def run(self, report: Callable[[_Chain, int], None] | None, stop: threading.Event | None) -> _Chain:
        """Sample to the end, or until ``stop``; where there is a record, go on from what it holds."""
        if stop is None:
            # Dask puts arrays at addresses of any kind, where NumPy sums in another order. Copies lie as in threads.
            self.kernel, self.start = copy.deepcopy((self.kernel, self.start))
        # In threads the limit holds for all chains already.
        limits = threadpool_limits(1) if stop is None else nullcontext()
        with limits, nullcontext() if self.record is None else self.record.locked():
            return self._run(report, stop)

    def _run(self, report: Callable[[_Chain, int], None] | None, stop: threading.Event | None) -> _Chain:
        plan, record = self.plan, self.record
        total = plan.tune + plan.draws * plan.thin
        saved = self.take_up()
        if report is not None:
            report(self, self._sweeps)
        if self._sweeps == total or (stop is not None and stop.is_set()):
            self.sum_up_saved(saved)
            return self
        rng, state = self._position or self._start(saved)
        if stop is not None:  # in threads, where a chain may be told to go on
            self._position = rng, state
        parent = os.getppid()
        for i in range(self._sweeps, total):
            if stop is not None and stop.is_set():
                break
            self.kernel.sweep(rng, state)
            self._sweeps = i + 1
            draw, left = divmod(i + 1 - plan.tune, plan.thin)
            if draw > 0 and left == 0:
                self._store(state, draw - 1)
            if record is not None and record.due(self.done):
                self._save(record, rng, state, finished=i + 1 == total)
                if stop is None and os.getppid() != parent:
                    raise RuntimeError(f"the process that started chain {self.number} is gone")
            if report is not None:
                report(self, i + 1)
        if record is not None and record.sweeps < self._sweeps:
            self._save(record, rng, state, finished=self._sweeps == total)
        if hasattr(self.kernel, "summary"):
            self.summary = self.kernel.summary(state)
        return self

    def sum_up_saved(self, saved: Saved | None) -> None:
        """Ask the kernel for what it had followed where the chain was saved."""
        if saved is not None and hasattr(self.kernel, "summary"):
            self.summary = self.kernel.summary(self._start(saved)[1])

    def _start(self, saved: Saved | None) -> tuple[np.random.Generator, dict[str, Any]]:
        """Random numbers and state at the start of the chain, or where it was saved."""
        rng = np.random.default_rng(self.seed)
        state = self.kernel.initialise(rng, self.plan.threads)
        if saved is not None:
            assert self.record is not None
            try:
                self.kernel.restore(state, saved.snapshot)
                rng.bit_generator.state = saved.rng
            except (KeyError, TypeError, ValueError, IndexError, OverflowError) as error:
                raise self.record.damaged_snapshot(error) from error
        elif self.start is not None:
            self.kernel.set_values(state, self.start)
        return rng, state

    def go_on(self, draws: int) -> None:
        """Have as many draws be made in all, by the next :meth:`run`."""
        self.plan = self.plan._replace(draws=draws)

    def take_up(self) -> Saved | None:
        """Read what the record holds of this chain: its draws go into the store."""
        saved = None if self.record is None else self.record.load()
        if self.record is None or saved is None:
            return None
        for first, piece in self.record.pieces():
            self._posterior.put_block(piece.get("posterior", {}), self.row, first)
            self._stats.put_block(piece.get("sample_stats", {}), self.row, first)
        self.done, self._sweeps = saved.draws, saved.sweeps
        return saved

    def _save(
        self, record: ChainRecord, rng: np.random.Generator, state: dict[str, Any], finished: bool
    ) -> None:
        groups = {
            "posterior": {name: array[: self.done] for name, array in self.posterior.items()},
            "sample_stats": {name: array[: self.done] for name, array in self.stats.items()},
        }
        snapshot = self.kernel.snapshot(state)
        saved = Saved(self._sweeps, self.done, dict(rng.bit_generator.state), snapshot, None)
        record.save(saved, groups if self.done else {}, finished)

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
    checkpoint: Checkpoint | None = None,
    until: Callable[[dict[str, np.ndarray], int], int | None] | None = None,
    summaries: list[Any] | None = None,
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Draw from the kernel's posterior.

    Chains run in threads (the kernels release the GIL), or wherever a ``joblib.parallel_config`` on the
    context stack sends them. Linear algebra is held to one thread per call; results depend on ``random_seed``
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
    checkpoint : Checkpoint, optional
        Where each chain writes its draws and its state as it goes, and goes on from. When it writes has no influence
        on the draws.
    until : callable, optional
        Called with the posterior and the number of draws per chain when all are made. It returns how many there shall
        be in all, and the chains go on from where they are; or None. The draws are, bit for bit, those of a run of
        that many. Not with a checkpoint, nor where the chains run in other processes.
    summaries : list, optional
        Takes ``kernel.summary(state)`` of the last state of each chain that is kept, where the kernel has this method.

    Returns
    -------
    posterior, stats : dict of arrays (chain, draw, ...)

    Raises
    ------
    OSError
        The checkpoint could not be written to; it holds the chains as far as the message says.
    """
    if thin < 1:
        raise ValueError(f"thin is {thin!r}. Give a whole number of at least 1.")
    if checkpoint is not None and not (hasattr(kernel, "snapshot") and hasattr(kernel, "restore")):
        raise TypeError(
            f"{type(kernel).__name__} has no methods `snapshot` and `restore`, which a checkpoint needs. "
            "Write them, or leave `checkpoint` out."
        )
    seed = seed_sequence(random_seed)
    backend, shared = chain_backend()
    available = cores or joblib.cpu_count()
    n_jobs = min(available, chains)
    plan = _Plan(draws, tune, thin, max(1, available // n_jobs) if threads is None else threads)
    stores = (Store(chains, draws), Store(chains, draws)) if shared else None
    runs = [
        _Chain(
            kernel, i, plan, s, starts[i % len(starts)] if starts else None, stores,
            None if checkpoint is None else checkpoint.chain(i, draws),
        )
        for i, s in enumerate(seed.spawn(chains))
    ]  # fmt: skip
    if until is not None and (stores is None or checkpoint is not None):
        raise ValueError(
            "chains can go on only in the threads of this process and without a checkpoint. Give a number of draws."
        )
    bar = ChainProgress(chains, draws * thin + tune, tune) if progress else None
    with bar or nullcontext(), threadpool_limits(1):
        try:
            if stores is not None:
                _in_rounds(runs, stores, backend.effective_n_jobs(n_jobs), bar, until)
            else:
                parallel = joblib.Parallel(n_jobs=n_jobs, prefer="threads")
                runs = parallel(joblib.delayed(_Chain.run)(chain, None, None) for chain in runs)
        except KeyboardInterrupt:
            if not shared and checkpoint is None:
                raise
            if not shared:
                for chain in runs:  # what the workers have written is all that is left of them
                    chain.sum_up_saved(chain.take_up())
    numbers, n_draws = largest_rectangle([run.done for run in runs])
    if n_draws == 0:
        raise KeyboardInterrupt("interrupted in warm-up, before the first draw")
    if summaries is not None:
        summaries += [runs[i].summary for i in numbers]
    return _collect([runs[i] for i in numbers], n_draws, stores, len(runs))


def chain_backend() -> tuple[Any, bool]:
    """Where chains run that are started now, as joblib has it, and whether these are threads of this process."""
    backend, _ = joblib.parallel.get_active_backend(prefer="threads")
    return backend, bool(getattr(backend, "supports_sharedmem", False))


def seed_sequence(random_seed: Any, entropy: int | None = None) -> np.random.SeedSequence:
    """The seed as NumPy takes it; ``entropy`` stands for a seed that was left out."""
    if isinstance(random_seed, np.random.SeedSequence):
        return random_seed
    return np.random.SeedSequence(entropy if random_seed is None else random_seed)


def _in_rounds(
    runs: list[_Chain],
    stores: tuple[Store, Store],
    n_jobs: int,
    bar: ChainProgress | None,
    until: Callable[[dict[str, np.ndarray], int], int | None] | None,
) -> None:
    """Run all chains, and again for as long as ``until`` asks for more draws."""
    while True:
        _in_threads(runs, n_jobs, None if bar is None else bar.report)
        draws = None if until is None else until(stores[0].arrays, runs[0].done)
        if draws is None:
            return
        for store in stores:
            store.grow(draws)
        for chain in runs:
            chain.go_on(draws)
        if bar is not None:
            bar.extend(draws * runs[0].plan.thin + runs[0].plan.tune)


def _over(jobs: list[Future]) -> bool:
    return all(job.done() for job in jobs) or any(job.done() and job.exception() for job in jobs)


def _in_threads(runs: list[_Chain], n_jobs: int, report: Callable[[_Chain, int], None] | None) -> None:
    """Run all chains; an interrupt, or an error of one, ends the others after the sweep that they are in."""
    stop = threading.Event()
    # Also for one job: an interrupt then comes between two sweeps, and not in the middle of one.
    with ThreadPoolExecutor(n_jobs) as pool:
        jobs = [pool.submit(chain.run, report, stop) for chain in runs]
        try:
            # In small steps: a notebook's interrupt does not wake a waiting thread on every system.
            while not _over(jobs):
                wait(jobs, _SECONDS_BETWEEN_LOOKS, FIRST_EXCEPTION)
        finally:
            stop.set()
    for job in jobs:
        job.result()


def _collect(
    chosen: list[_Chain], n_draws: int, stores: tuple[Store, Store] | None, n_chains: int
) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """The chains that are kept as arrays, of ``n_chains`` in all."""
    if stores is not None and len(chosen) == n_chains:  # no copy: draws of large covariances fill the memory
        return tuple({name: array[:, :n_draws] for name, array in s.arrays.items()} for s in stores)  # type: ignore[return-value]

    def stack(which: str) -> dict[str, np.ndarray]:
        parts = [getattr(run, which) for run in chosen]
        stacked = {}
        for name in parts[0]:
            largest = tuple(max(sizes) for sizes in zip(*(part[name].shape for part in parts), strict=True))
            stacked[name] = np.stack([padded(part[name], largest)[:n_draws] for part in parts])
        return stacked

    return stack("posterior"), stack("stats")


def largest_rectangle(done: list[int]) -> tuple[list[int], int]:
    """Chains to keep, and how many draws of each, so that most draws are kept."""
    order = sorted(range(len(done)), key=lambda i: -done[i])
    kept = max(range(1, len(order) + 1), key=lambda k: k * done[order[k - 1]])
    return sorted(order[:kept]), done[order[kept - 1]]
