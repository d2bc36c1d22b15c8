"""How much each feature matters: a table of norms of ARD parameters over tasks."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from zoo.core.fit import Fit
from zoo.models.multi_laplace.ard_gp import GPRows
from zoo.models.multi_laplace.description import MultiLaplaceDescription
from zoo.support.checks import probability

__all__ = ["relevance_table"]


def relevance_table(
    factory: MultiLaplaceDescription, rows: GPRows, fit: Fit, threshold: float, ci_prob: float
) -> xr.Dataset:
    """See :meth:`zoo.Fit.relevance`."""
    probability(threshold, "threshold")
    probability(ci_prob, "ci_prob")
    transform = fit.data.transform
    kept = [fit.data.feature_names.index(name) for name in rows.feature_names]
    scale = rows.scale * (1.0 if transform is None else transform.x_scale[kept])
    # Takes kappa to the user's scale.
    factor = (1.0 if transform is None or factory.kernel != "linear" else transform.y_scale**2) / scale**2
    kappa = fit.posterior["kappa"]
    norm = kappa
    if "task" in kappa.dims:
        norm = xr.apply_ufunc(np.linalg.norm, kappa, input_core_dims=[["task"]], kwargs={"axis": -1})
    total = norm.sum("feature")
    share = norm / total.where(total > 0, 1.0)
    draws = ("chain", "draw")
    tail = (1.0 - ci_prob) / 2.0
    included = norm > 0 if fit.is_point else share > threshold
    inclusion = included.mean(draws)
    mean = kappa.mean(draws)
    table: dict[str, Any] = {
        "relevance": norm.mean(draws),
        "lower": norm.quantile(tail, draws).drop_vars("quantile"),
        "upper": norm.quantile(1.0 - tail, draws).drop_vars("quantile"),
        "share": share.mean(draws),
        "inclusion": inclusion,
        "included": inclusion > 0.5,
        "kappa": mean * xr.DataArray(factor, dims="feature"),
        "kappa_standardized": mean,
    }
    return xr.Dataset(table, attrs={"threshold": threshold, "ci_prob": ci_prob, "method": fit.method})
