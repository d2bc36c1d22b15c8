"""A few scalars that stand for a posterior: what to look at first when judging the chains."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import xarray as xr

from zoo.support.checks import one_of

__all__ = ["scalar_summaries"]

_FIRST = 4
_AT_MOST = 12


def scalar_summaries(posterior: xr.Dataset, var_names: Sequence[str] | None = None) -> xr.Dataset:
    """Scalars of a posterior, each with dims (chain, draw).

    A covariance matrix (dims ``feature, feature_bis`` and the like) becomes its log determinant.

    Parameters
    ----------
    posterior : xarray.Dataset
        For instance ``fit.posterior``.
    var_names : sequence of str, optional
        Variables to show, entry by entry (covariances by log determinant), at most 12 scalars in all. Default:
        the log determinants and the variables that are scalars already; without a covariance, the first
        coefficients as well.

    Returns
    -------
    xarray.Dataset
    """
    if var_names is not None:
        return _chosen(posterior, [var_names] if isinstance(var_names, str) else var_names)
    result: dict[str, xr.DataArray] = {}
    for name, values in posterior.items():
        if _is_covariance(values) or values.ndim == 2:
            result.update(_entries(str(name), values))
    if not any(_is_covariance(values) for values in posterior.values()):
        source = "coefficients" if "coefficients" in posterior else str(next(iter(posterior)))
        for _, (label, values) in zip(range(_FIRST), _entries(source, posterior[source]), strict=False):
            result[label] = values
    return xr.Dataset(result)


def _chosen(posterior: xr.Dataset, var_names: Sequence[str]) -> xr.Dataset:
    result: dict[str, xr.DataArray] = {}
    if not len(var_names):
        raise ValueError("var_names is empty. Name at least one variable of the posterior.")
    for name in var_names:
        one_of(name, list(posterior.data_vars), "var_names")
        for label, values in _entries(name, posterior[name]):
            result[label] = values
            if len(result) > _AT_MOST:
                raise ValueError(
                    f"var_names asks for more than {_AT_MOST} scalars ({name!r} has shape "
                    f"{posterior[name].shape[2:]}). Name fewer, or select a part of the posterior first."
                )
    return xr.Dataset(result)


def _is_covariance(values: xr.DataArray) -> bool:
    return values.ndim == 4 and values.dims[3] == f"{values.dims[2]}_bis"


def _entries(name: str, values: xr.DataArray) -> Iterator[tuple[str, xr.DataArray]]:
    """Label and (chain, draw) values of each entry; of a covariance, its log determinant alone."""
    if _is_covariance(values):
        log_det = np.linalg.slogdet(values.to_numpy())[1]
        yield f"log|{name}|", xr.DataArray(log_det, dims=("chain", "draw"))
        return
    for index in np.ndindex(values.shape[2:]):
        places = zip(values.dims[2:], index, strict=True)
        labels = [str(values[dim].to_numpy()[i]) for dim, i in places]
        entry = values.to_numpy()[(..., *index)]
        yield (
            (f"{name}[{', '.join(labels)}]" if labels else name),
            xr.DataArray(entry, dims=("chain", "draw")),
        )
