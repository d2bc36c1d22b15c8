"""Draws of a fit as arrays, of all its tasks or of some."""

from __future__ import annotations

import numpy as np
import xarray as xr

from zoo.core.protocols import Fitted

__all__ = ["as_arrays", "draws_of"]


def as_arrays(draws: xr.Dataset) -> dict[str, np.ndarray]:
    """The variables of a dataset by name."""
    return {str(name): values.to_numpy() for name, values in draws.items()}


def draws_of(fit: Fitted, names: tuple[str, ...]) -> xr.Dataset:
    """The posterior of a fit with these of its tasks alone, in this order."""
    posterior = fit.posterior
    if "task" not in posterior.dims or names == fit.data.task_names:
        return posterior
    position = {name: i for i, name in enumerate(fit.data.task_names)}
    return posterior.isel(task=[position[name] for name in names])
