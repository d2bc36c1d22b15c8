"""Groups of ArviZ that a fit adds to its DataTree: predictive draws, draws from the prior, log densities."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pymc as pm
import xarray as xr
from pymc.stats import compute_log_prior

from zoo.checks import one_of, whole_number
from zoo.seeds import generator

if TYPE_CHECKING:
    from zoo.fit import Fit

__all__ = ["GROUPS", "extend"]

GROUPS = ("log_likelihood", "log_prior", "posterior_predictive", "prior", "prior_predictive")


def extend(fit: Fit, groups: tuple[str, ...], draws: int, random_seed: Any) -> xr.DataTree:
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
