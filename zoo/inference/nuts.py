"""NUTS on any PyMC model, through nutpie."""

from __future__ import annotations

import logging
from typing import Any

import numpy as np
import pymc as pm
import xarray as xr

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
) -> tuple[xr.Dataset, xr.Dataset]:
    """Posterior and sample statistics of ``model``, auxiliary variables (leading underscore) left out.

    ``nuts`` holds sampler options such as ``target_accept``. Random numbers are seeded, but compiled gradients
    may differ in the last bit between machines and between a cold and a warm compilation cache.
    """
    return _sample(
        model, draws=draws, tune=tune, chains=chains, cores=cores, random_seed=random_seed, progress=progress,
        nuts=nuts, nuts_sampler="nutpie",
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
) -> tuple[xr.Dataset, xr.Dataset]:
    """As :func:`sample_nuts`, with ``steps`` for the variables that they claim and PyMC's own NUTS for the rest.

    Chains run one after another unless ``cores`` is above 1: then in processes, which are started anew, so
    that a script needs ``if __name__ == "__main__":`` around its code.
    """
    return _sample(
        model, draws=draws, tune=tune, chains=chains, cores=cores or 1, random_seed=random_seed, progress=progress,
        nuts=nuts, nuts_sampler="pymc", step=steps, initvals=initvals,
        mp_ctx="forkserver",  # a fork of a process with threads may hang
    )  # fmt: skip


def _sample(
    model: pm.Model, *, random_seed: Any, progress: bool, nuts: dict[str, Any] | None, **options: Any
) -> tuple[xr.Dataset, xr.Dataset]:
    if isinstance(random_seed, np.random.SeedSequence):
        random_seed = int(random_seed.generate_state(1)[0])
    tree = pm.sample(
        random_seed=random_seed,
        progressbar=progress,
        quiet=not progress,
        compute_convergence_checks=False,
        model=model,
        nuts=nuts or {},
        **options,
    )
    return _reported(tree)


def _reported(tree: xr.DataTree) -> tuple[xr.Dataset, xr.Dataset]:
    """Posterior and statistics of the draws, without what is auxiliary or cannot be written to NetCDF."""
    posterior = tree["posterior"].to_dataset()
    hidden = [name for name in posterior.data_vars if str(name).startswith("_")]
    stats = tree["sample_stats"].to_dataset()
    # Text and per-divergence columns of the sampler cannot be written to NetCDF.
    text = [name for name in stats.data_vars if stats[name].dtype == object]
    divergences = int(stats["diverging"].sum()) if "diverging" in stats else 0
    if divergences:
        logging.getLogger("zoo").warning(
            "%d divergent transitions after warm-up: pass nuts={'target_accept': 0.95}.", divergences
        )
    return posterior.drop_vars(hidden), stats.drop_vars(text)
