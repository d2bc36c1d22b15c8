"""Leave-one-out estimates that cope with rows whose loss is zero at every draw."""

from __future__ import annotations

import warnings
from collections.abc import Hashable
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from scipy.special import logsumexp

from zoo.core.predictive_law import leave_one_out

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["loo"]


def loo(data: Any, var_name: str | None = None, **options: Any) -> Any:
    r"""Pareto-smoothed leave-one-out estimate, as ``arviz.loo``.

    Under a hinge or a tube, a row far on its right side has loss zero at every draw. Its importance weights are all
    equal, so there is no tail to smooth: ``arviz.loo`` raises "All tail values are the same". Here such rows get
    their exact weights, 1/S, and Pareto shape 0; all others are ArviZ's.

    Of a fit whose hyper-parameters are numbers and whose noise is normal (methods "exact") the densities given all
    other rows have a closed form, :func:`zoo.core.predictive_law.leave_one_out`: nothing is smoothed there,
    and the Pareto shapes are 0.

    What the estimate means for a pseudo-likelihood: see :class:`zoo.distributions.HingePseudoLikelihood`.

    Parameters
    ----------
    data : Fit or xarray.DataTree
        A fit (its pointwise log likelihood is computed where it is missing), or a tree with the groups
        ``posterior`` and ``log_likelihood``.
    var_name : str, optional
        Variable of ``log_likelihood``; needed where it holds several.
    **options
        Passed on to ``arviz.loo``, for instance ``pointwise=True``.

    Returns
    -------
    arviz_stats.ELPDData

    Raises
    ------
    ValueError
        Where the tree has no log likelihood, or several and ``var_name`` does not choose; where the fit has no
        draws, or a single one.
    """
    import arviz as az  # here: every fit imports this package, and ArviZ takes seconds

    if getattr(data, "is_point", False):
        raise ValueError(
            f"the fit by method {data.method!r} is an estimate: leave-one-out needs draws. Fit by another method."
        )
    tree = getattr(data, "idata", data)
    if tree is not data:
        data.data.require_single_rows("leave-one-out")
    if tree is not data and var_name in (None, "y") and (known := leave_one_out(data)) is not None:
        return _closed(data, known, options)
    if tree is not data and "log_likelihood" not in tree.children:
        tree = data.compute_log_likelihood()
    values = _log_likelihood(tree, var_name)
    sample = ["chain", "draw"]
    if values.sizes["chain"] * values.sizes["draw"] < 2:
        raise ValueError(
            "data holds a single draw, and leave-one-out weighs draws against each other. Fit with more draws."
        )
    flat = values.stack(row_=[dim for dim in values.dims if dim not in sample], create_index=False)
    varies = (flat.min(sample) < flat.max(sample)).to_numpy()
    if varies.all():
        return az.loo(tree, var_name=values.name, **options)
    weights = xr.full_like(flat, -np.log(flat.sizes["chain"] * flat.sizes["draw"]))
    shape = xr.zeros_like(flat.isel(chain=0, draw=0, drop=True))
    if varies.any():
        part = xr.DataTree.from_dict(
            {
                "posterior": tree["posterior"].to_dataset(),
                "log_likelihood": flat.isel(row_=varies).to_dataset(name=values.name),
            }
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the second call says it again, of all rows
            smoothed = az.loo(part, pointwise=True, reff=options.get("reff"))
        weights[..., varies] = smoothed.log_weights.transpose("chain", "draw", "row_").to_numpy()
        shape[varies] = smoothed.pareto_k.to_numpy()
    return az.loo(
        tree,
        var_name=values.name,
        log_weights=_unstacked(weights, values),
        pareto_k=_unstacked(shape, values),
        **options,
    )


def _closed(fit: Fit, density: np.ndarray, options: dict[str, Any]) -> Any:
    """The estimate from log densities (N,) of each row given the others: all draws have the same."""
    import arviz as az

    tree = fit.idata if "log_likelihood" in fit.idata.children else fit.compute_log_likelihood()
    values = _log_likelihood(tree, "y")
    constant = values.copy(data=np.broadcast_to(density, values.shape).copy())
    part = xr.DataTree.from_dict(
        {"posterior": tree["posterior"].to_dataset(), "log_likelihood": constant.to_dataset(name="y")}
    )
    found = az.loo(
        part,
        var_name="y",
        log_weights=xr.full_like(values, -np.log(values.sizes["chain"] * values.sizes["draw"])),
        pareto_k=xr.zeros_like(values.isel(chain=0, draw=0, drop=True)),
        **options,
    )
    # What az.loo makes of constant draws is no number of parameters: that is the density of all rows less this one.
    flat = values.transpose("chain", "draw", "obs").to_numpy().reshape(-1, len(density))
    found.p = float((logsumexp(flat, axis=0) - np.log(len(flat))).sum() - density.sum())
    return found


def _log_likelihood(tree: xr.DataTree, var_name: str | None) -> xr.DataArray:
    if "log_likelihood" not in tree.children:
        raise ValueError(
            "data has no group log_likelihood. Pass the fit, or call pm.compute_log_likelihood on the tree first."
        )
    group = tree["log_likelihood"].to_dataset()
    names = list(group.data_vars)
    if var_name is None and len(names) == 1:
        return group[names[0]]
    if var_name not in names:
        raise ValueError(f"var_name is {var_name!r}. Choose one of {', '.join(map(repr, names))}.")
    return group[var_name]


def _unstacked(flat: xr.DataArray, like: xr.DataArray) -> xr.DataArray:
    """Array over the stacked rows, with the dims and coords of the original."""
    target = like if "chain" in flat.dims else like.isel(chain=0, draw=0, drop=True)
    order: list[Hashable] = [dim for dim in ("chain", "draw") if dim in target.dims]
    order += [dim for dim in target.dims if dim not in order]
    target = target.transpose(*order)
    return target.copy(data=flat.to_numpy().reshape(target.shape))
