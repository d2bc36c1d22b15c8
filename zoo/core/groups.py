"""Groups of ArviZ that a fit adds to its DataTree: predictive draws, draws from the prior, log densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import xarray as xr
from pymc.stats import compute_log_prior

from zoo.core.context import Context
from zoo.core.drawn import as_arrays
from zoo.core.keep import require_draws
from zoo.core.protocols import Fitted
from zoo.support.checks import one_of, whole_number
from zoo.support.seeds import generator

__all__ = ["GROUPS", "add_log_likelihood", "extend"]

GROUPS = ("log_likelihood", "log_prior", "posterior_predictive", "prior", "prior_predictive")


def extend(fit: Fitted, groups: tuple[str, ...], draws: int, random_seed: Any) -> xr.DataTree:
    """What :meth:`zoo.Fit.extend` does."""
    for group in groups:
        one_of(group, GROUPS, "groups")
    if not groups:
        raise ValueError(f"groups is empty. Name at least one of {', '.join(GROUPS)}.")
    whole_number(draws, "draws")
    # Seeds of PyMC's functions are numbers.
    seeds = generator(random_seed).integers(2**31, size=2)
    if "log_likelihood" in groups:
        fit.compute_log_likelihood()
    if "log_prior" in groups:
        compute_log_prior(fit.idata, model=fit.model, progressbar=False)
    if "posterior_predictive" in groups:
        model, idata = fit.to_pymc(random_seed=int(seeds[0])) if fit.is_point else (fit.model, fit.idata)
        drawn = pm.sample_posterior_predictive(
            idata, model=model, var_names=["y"], random_seed=int(seeds[0]), progressbar=False
        )
        fit.idata["posterior_predictive"] = drawn["posterior_predictive"].to_dataset()
    wanted = [group for group in ("prior", "prior_predictive") if group in groups]
    if wanted:
        drawn = pm.sample_prior_predictive(
            draws, model=fit.factory.build(fit.data), random_seed=int(seeds[1])
        )
        for group in wanted:
            values = drawn[group].to_dataset()
            fit.idata[group] = values.drop_vars([v for v in values.data_vars if str(v).startswith("_")])
    return fit.idata


def add_log_likelihood(fit: Fitted) -> xr.DataTree:
    """What :meth:`zoo.Fit.compute_log_likelihood` does."""
    require_draws(fit, "the log likelihood of the rows")
    posterior = as_arrays(fit.posterior)
    y = fit.factory.validate(fit.data)
    context = Context(fit.population_data) if fit.conditioned else None
    try:
        values = fit.factory.pointwise_log_likelihood(fit.factory.design(fit.data, context), y, posterior)
    except ValueError as error:
        if fit.conditioned and "'residual'" in str(error):
            raise ValueError(
                f"task {fit.conditioned[0]!r} came by `condition` with inputs that the fit has not, so its rows "
                "have no log likelihood given the posterior. Fit all tasks together."
            ) from None
        raise
    sizes, rows = fit.posterior.sizes, np.arange(fit.data.n_rows)
    if (
        fit.factory.likelihood.of_choices
    ):  # leaving one out is leaving out a choice, and not one of its alternatives
        rows = np.flatnonzero(y > 0.0)
        values = values[:, rows]
    coords = {
        "chain": fit.posterior["chain"],
        "draw": fit.posterior["draw"],
        "obs": rows,
    }
    variable = (("chain", "draw", "obs"), values.reshape(sizes["chain"], sizes["draw"], -1))
    fit.idata["log_likelihood"] = xr.Dataset({"y": variable}, coords=coords)
    return fit.idata
