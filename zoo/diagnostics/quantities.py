"""Scalars of which draws are compared when a sampler is verified: entries, log determinants."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import xarray as xr

__all__ = ["scalar_quantities", "varying"]

# Smallest eigenvalue over the largest, below which a log determinant is rounding.
_SINGULAR = 1e-10


def scalar_quantities(
    draws: xr.Dataset, unordered_dims: Iterable[str] = (), most: int = 9
) -> dict[str, np.ndarray]:
    """Scalars of every variable of a posterior, or of draws of the prior.

    Parameters
    ----------
    draws : xarray.Dataset
        Variables with the dim ``draw`` and others.
    unordered_dims : iterable of str
        Dims whose order means nothing. A matrix with such a dim is replaced by its product with its own transpose.
    most : int
        Entries of a variable, evenly spread over it. Of a covariance (dims ``task, task_bis``) those on and below the
        diagonal count; it has its log determinant beside them.

    Returns
    -------
    dict of str to (S,) array
        By name and coordinates, as ``coefficients[x1, task 2]``.
    """
    result: dict[str, np.ndarray] = {}
    for name, variable in draws.data_vars.items():
        array = variable.transpose("draw", ...)
        label = str(name)
        for dim in set(unordered_dims) & set(array.dims):
            label, array = f"{label} {label}'", _gram(array, dim)
        result.update(_entries(label, array, most))
    return result


def _gram(array: xr.DataArray, dim: str) -> xr.DataArray:
    """``Z Z'`` over a dim of a matrix."""
    [other] = [d for d in array.dims if d not in ("draw", dim)]
    values = array.transpose("draw", other, dim).to_numpy().astype(np.float64)
    product = xr.DataArray(values @ np.swapaxes(values, 1, 2), dims=("draw", other, f"{other}_bis"))
    return product if other not in array.coords else product.assign_coords({other: array.coords[other]})


def _entries(label: str, array: xr.DataArray, most: int) -> Iterator[tuple[str, np.ndarray]]:
    values, dims = array.to_numpy(), array.dims[1:]
    places = list(np.ndindex(values.shape[1:]))
    if len(dims) == 2 and dims[1] == f"{dims[0]}_bis":
        places = [place for place in places if place[0] >= place[1]]
        yield f"log|{label}|", _log_determinant(values.astype(np.float64))
    if len(places) > most:
        places = [places[i] for i in np.linspace(0, len(places) - 1, most).round().astype(int)]
    for place in places:
        names = [_name(array, str(dim), i) for dim, i in zip(dims, place, strict=True)]
        yield (f"{label}[{', '.join(names)}]" if names else label), values[(slice(None), *place)]


def _name(array: xr.DataArray, dim: str, i: int) -> str:
    known = dim.removesuffix("_bis")
    return str(array.coords[known].to_numpy()[i]) if known in array.coords else str(i)


def _log_determinant(matrices: np.ndarray) -> np.ndarray:
    """Log determinants (S,); not a number where a matrix is singular up to rounding."""
    eigenvalues = np.linalg.eigvalsh(matrices)
    regular = eigenvalues[:, 0] > _SINGULAR * eigenvalues[:, -1]
    return np.where(regular, np.log(np.where(regular[:, None], eigenvalues, 1.0)).sum(axis=1), np.nan)


def varying(quantities: dict[str, np.ndarray]) -> list[str]:
    """Names of those that are numbers at nearly all draws and not the same at all: a fixed entry has no rank.

    A log determinant counts where at most one matrix in a hundred is singular.
    """
    return [
        name
        for name, values in quantities.items()
        if np.isfinite(values).mean() >= 0.99 and np.ptp(values[np.isfinite(values)]) > 1e-12
    ]
