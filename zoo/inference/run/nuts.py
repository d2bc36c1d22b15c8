"""NUTS on any PyMC model, through nutpie."""

from __future__ import annotations

import time
import warnings
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

from zoo.inference.run.chain_record import Saved
from zoo.inference.run.chains import largest_rectangle, seed_sequence
from zoo.inference.run.checkpoint import Checkpoint

__all__ = ["sample_nuts", "sample_with_steps"]


def sample_nuts(
    model: pm.Model,
    *,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | np.random.SeedSequence | None,
    cores: int | None,
    progress: bool,
    nuts: dict[str, Any] | None,
    checkpoint: Checkpoint | None = None,
    until: None = None,
) -> tuple[xr.Dataset, xr.Dataset]:
    """Posterior and sample statistics of ``model``, auxiliary variables (leading underscore) left out.

    Its chains cannot go on after their last draw: ``until`` is there for the sake of a common call.

    ``nuts`` holds sampler options such as ``target_accept``; also ``nuts_sampler``, another sampler that ``pm.sample``
    knows by name, and ``compile_kwargs`` for it (both are PyMC's own words). Random numbers are seeded, but compiled
    gradients may differ in the last bit between machines and between a cold and a warm compilation cache.

    The state of a chain of nutpie cannot be saved. So with a ``checkpoint`` every chain is a run of its own, with a
    seed of its own, and is stored when it is finished. A later call takes finished chains bit for bit from the
    checkpoint, and draws the others anew: by the same seeds, hence the same draws up to those last bits, whatever
    ``cores``. They are not the draws that the same ``random_seed`` gives without a checkpoint.
    """
    if checkpoint is not None:
        for option in ("nuts_sampler", "compile_kwargs"):
            if option in (nuts or {}):
                raise ValueError(
                    f"nuts holds {option!r}, but only nutpie as it is writes checkpoints. "
                    "Leave it, or `checkpoint`, out."
                )
        return _sample_chainwise(
            model, checkpoint, draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed,
            progress=progress, nuts=nuts or {},
        )  # fmt: skip
    return _sample(
        model, draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed, progress=progress,
        nuts=nuts or {}, nuts_sampler="nutpie",
    )  # fmt: skip


def sample_with_steps(
    model: pm.Model,
    steps: list[Any],
    *,
    draws: int,
    tune: int,
    chains: int,
    random_seed: int | np.random.SeedSequence | None,
    cores: int | None,
    progress: bool,
    nuts: dict[str, Any] | None,
    initvals: dict[Any, Any] | None = None,
    checkpoint: Checkpoint | None = None,
    until: None = None,
) -> tuple[xr.Dataset, xr.Dataset]:
    """As :func:`sample_nuts`, with ``steps`` for the variables that they claim and PyMC's own NUTS for the rest.

    Chains run one after another unless ``cores`` is above 1: then in processes, which are started anew, so
    that a script needs ``if __name__ == "__main__":`` around its code. A checkpoint is refused: these steps carry what
    they have adapted from one chain to the next, so a chain cannot be drawn again alone.
    """
    if checkpoint is not None:
        raise ValueError(
            "steps beside NUTS cannot write a checkpoint. Leave `checkpoint` out, or take a method that can."
        )
    settings: dict[str, Any] | None = nuts or {}
    claimed = {variable for step in steps for variable in step.vars}
    if claimed >= set(model.value_vars):  # PyMC refuses settings of a sampler that has no variable
        if nuts:
            raise ValueError("nuts is given, and the steps claim all variables. Leave it out.")
        settings = None
    return _sample(
        model, draws=draws, tune=tune, chains=chains, cores=cores or 1, random_seed=random_seed, progress=progress,
        nuts=settings, nuts_sampler="pymc", step=steps, initvals=initvals,
        mp_ctx="forkserver",  # a fork of a process with threads may hang
    )  # fmt: skip


def _sample(
    model: pm.Model, *, random_seed: Any, progress: bool, nuts: dict[str, Any] | None, **options: Any
) -> tuple[xr.Dataset, xr.Dataset]:
    """``nuts``: settings of NUTS; None where no variable is left to it."""
    if isinstance(random_seed, np.random.SeedSequence):
        random_seed = int(random_seed.generate_state(1)[0])
    settings = dict(nuts or {})
    for name in ("nuts_sampler", "compile_kwargs"):
        if name in settings:
            options[name] = settings.pop(name)
    if options["nuts_sampler"] == "pymc":
        # Its chains would run in processes otherwise, which take longer to start.
        options["cores"] = options["cores"] or 1
    # A trajectory that diverges overflows in PyMC's sampler; the statistics count it.
    with np.errstate(over="ignore", invalid="ignore"):
        tree = pm.sample(
            random_seed=random_seed,
            progressbar=progress,
            quiet=not progress,
            compute_convergence_checks=False,
            model=model,
            **({} if nuts is None else {"nuts": settings}),
            **options,
        )
    return _kept(tree)


def _kept(tree: xr.DataTree) -> tuple[xr.Dataset, xr.Dataset]:
    """Posterior and statistics of the draws, without what is auxiliary or cannot be written to NetCDF."""
    posterior = tree["posterior"].to_dataset()
    hidden = [name for name in posterior.data_vars if str(name).startswith("_")]
    stats = tree["sample_stats"].to_dataset()
    # Text and per-divergence columns of the sampler cannot be written to NetCDF.
    text = [name for name in stats.data_vars if stats[name].dtype == object]
    return posterior.drop_vars(hidden), stats.drop_vars(text)


# -------------------------------------------------------------------- with a checkpoint

_Draws = tuple[xr.Dataset, xr.Dataset]
_SECONDS_BETWEEN_LOOKS = 0.05


def _sample_chainwise(
    model: pm.Model,
    checkpoint: Checkpoint,
    *,
    draws: int,
    tune: int,
    chains: int,
    cores: int | None,
    random_seed: int | np.random.SeedSequence | None,
    progress: bool,
    nuts: dict[str, Any],
) -> _Draws:
    """Chains of one compiled model, each stored when it is finished."""
    import joblib

    seeds = [int(child.generate_state(1)[0]) for child in seed_sequence(random_seed).spawn(chains)]
    results: dict[int, _Draws] = {}
    for i in range(chains):
        found = _stored(checkpoint, i, draws)
        if found is not None:
            results[i] = found
    missing = [i for i in range(chains) if i not in results]
    if missing:
        options = {"draws": draws, "tune": max(tune, 1), **_in_nutpies_words(nuts)}
        queue = _Queue(model, options, seeds, progress)
        try:
            for i, tree in queue.run(missing, cores or joblib.cpu_count()):
                results[i] = _store(checkpoint, i, draws, _kept(tree))
        except KeyboardInterrupt:
            results.update({i: _kept(tree) for i, tree in queue.abort()})
        finally:
            queue.abort()
    return _joined(results)


def _in_nutpies_words(nuts: dict[str, Any]) -> dict[str, Any]:
    """Options as ``pm.sample`` takes them, by the names of nutpie."""
    return {("maxdepth" if name == "max_treedepth" else name): value for name, value in nuts.items()}


class _Queue:
    """Runs chains of nutpie in its background threads, some at a time."""

    def __init__(self, model: pm.Model, options: dict[str, Any], seeds: list[int], progress: bool):
        self._model, self._options, self._seeds, self._progress = model, options, seeds, progress
        self._running: dict[int, Any] = {}

    def run(self, numbers: list[int], at_a_time: int) -> Any:
        """Yield number and result of each chain, as they finish."""
        import nutpie

        compiled = nutpie.compile_pymc_model(self._model)
        waiting = list(numbers)
        while waiting or self._running:
            while waiting and len(self._running) < at_a_time:
                number = waiting.pop(0)
                self._running[number] = nutpie.sample(
                    compiled, chains=1, cores=1, seed=self._seeds[number], save_warmup=False, progress_bar=False,
                    blocking=False, **self._options,
                )  # fmt: skip
            time.sleep(_SECONDS_BETWEEN_LOOKS)
            for number in [n for n, sampler in self._running.items() if _is_finished(sampler)]:
                tree = self._running.pop(number).wait()
                if self._progress:
                    print(f"chain {number} is finished, {len(waiting) + len(self._running)} to go")
                yield number, tree

    def abort(self) -> list[tuple[int, xr.DataTree]]:
        """Stop the running chains; number and draws so far of each."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "Found chain dimension to be longer", UserWarning)  # in warm-up
            stopped = [(number, sampler.abort()) for number, sampler in self._running.items()]
        self._running = {}
        return [(number, tree) for number, tree in stopped if "posterior" in tree.children]


def _is_finished(sampler: Any) -> bool:
    try:
        return bool(sampler.is_finished)
    except TimeoutError:  # how nutpie 0.16 says no
        return False


def _joined(results: dict[int, _Draws]) -> _Draws:
    """All chains; after an interrupt, the rectangle of chains and draws that keeps most draws."""
    numbers = sorted(results)
    sizes = [results[i][0].sizes.get("draw", 0) for i in numbers]
    kept, n_draws = largest_rectangle(sizes) if numbers else ([], 0)
    if n_draws == 0:
        raise KeyboardInterrupt("interrupted in warm-up, before the first draw")
    parts = [[part.isel(draw=slice(n_draws)) for part in results[numbers[k]]] for k in kept]
    posterior, stats = (
        xr.concat([part.assign_coords(chain=[k]) for k, part in enumerate(column)], dim="chain")
        for column in zip(*parts, strict=True)
    )
    return posterior, stats


def _store(checkpoint: Checkpoint, number: int, draws: int, result: _Draws) -> _Draws:
    """Write a finished chain, arrays, and their dims and coords as JSON; return what a later call will read."""
    groups, about = {}, {}
    for group, dataset in zip(("posterior", "sample_stats"), result, strict=True):
        one = dataset.isel(chain=0, drop=True)
        arrays = {str(name): one[name] for name in one.data_vars}
        groups[group] = {name: array.to_numpy() for name, array in arrays.items()}
        about[group] = {
            "dims": {name: [str(d) for d in array.dims] for name, array in arrays.items()},
            "coords": {str(name): one[name].to_numpy().tolist() for name in one.coords},
        }
    record = checkpoint.chain(number, draws)
    with record.locked():
        record.save(Saved(draws, draws, {}, {}, about), groups, finished=True)
    parts = (_dataset({name: [a] for name, a in groups[group].items()}, about[group]) for group in groups)
    posterior, stats = parts
    return posterior, stats


def _stored(checkpoint: Checkpoint, number: int, draws: int) -> _Draws | None:
    """A finished chain, or None."""
    record = checkpoint.chain(number, draws)
    saved = record.load()
    if saved is None:
        return None
    groups: dict[str, dict[str, list[np.ndarray]]] = {"posterior": {}, "sample_stats": {}}
    for _, piece in record.pieces():
        for group, arrays in piece.items():
            for name, array in arrays.items():
                groups[group].setdefault(name, []).append(array)
    try:
        posterior, stats = (_dataset(groups[group], saved.about[group]) for group in groups)
    except (KeyError, TypeError, ValueError) as error:
        raise record.damaged_snapshot(error) from error
    return posterior, stats


def _dataset(parts: dict[str, list[np.ndarray]], about: dict[str, Any]) -> xr.Dataset:
    arrays = {name: (about["dims"][name], np.concatenate(pieces)) for name, pieces in parts.items()}
    return xr.Dataset(arrays, coords=about["coords"]).expand_dims(chain=[0])
