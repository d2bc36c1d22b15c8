r"""The posterior of linear models in the units of the data that were handed in, before ``data.standardize()``.

With :math:`x_j = (u_j - m_j) / s_j` and :math:`y = (v - a) / b`, a function :math:`f = \sum_j w_j x_j` of standardized
features is, in the units of the response,

.. math:: a + b f = \Big(a - \sum_j w_j \frac{b\, m_j}{s_j}\Big) + \sum_j \frac{b\, w_j}{s_j} u_j .

What stands in the bracket goes to the feature that is constant, where there is one: one of the tasks, or one that they
share where no feature of theirs has been centred.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr

from zoo.core.hooks import SHARED
from zoo.data.further_groups import dense_columns

__all__ = ["InDataUnits"]

# Of y's own units: what the likelihoods of real responses call the size of what f does not explain.
_OF_RESPONSE = ("noise", "effect_scale")


class InDataUnits:
    """What a fit can say in the units of the user."""

    def in_data_units(self) -> xr.Dataset:
        """The coefficients in the units of the data, as they would be of data that were not standardized.

        ``az.summary(fit.in_data_units())`` is the table that other libraries print.

        Returns
        -------
        xarray.Dataset
            Dims ``chain, draw`` and those of the posterior. Of what the posterior holds: ``coefficients``,
            ``population_mean``, ``feature_cov``, ``shared_coefficients``, ``noise``, ``effect_scale``. ``constant``
            stands beside them where no feature is constant: what f is where all features are 0.

        Raises
        ------
        ValueError
            The model is not linear in its features, or its draws of tasks were not kept and it has no population.
        """
        return _in_data_units(self)


def _in_data_units(fit: Any) -> xr.Dataset:
    model, posterior, data = fit.factory, fit.posterior, fit.data
    linear = {name for name in ("coefficients", "population_mean") if name in posterior}
    if not linear or not getattr(type(model).latent, "is_linear", False):
        raise ValueError(
            f"{type(model).__name__} has no coefficients of the features in its posterior that units could be put to. "
            "fit.predict gives predictions in the units of the data."
        )
    names = [str(name) for name in posterior["feature"].to_numpy()]
    slope, centre, level, of_y = _scales(data, names)
    shared_names = [str(n) for n in posterior["shared_feature"].to_numpy()] if SHARED in posterior else []
    shared_slope, shared_centre, _, _ = _scales(data, shared_names)
    feature = {"feature": names}
    result: dict[str, xr.DataArray] = {}
    if SHARED in posterior:
        scaled = posterior[SHARED] * xr.DataArray(shared_slope, dims="shared_feature")
        result[SHARED] = scaled
        moved = (scaled * xr.DataArray(shared_centre, dims="shared_feature")).sum("shared_feature")
    else:
        moved = xr.DataArray(0.0)
    constant = _constant(data, names)
    of_all = _constant(data, shared_names) if constant is None and not np.any(centre) else None
    if of_all is not None:
        at = xr.DataArray([float(n == of_all[0]) for n in shared_names], dims="shared_feature")
        result[SHARED] = (result[SHARED] + at * (level - moved) / of_all[1]).transpose(
            *posterior[SHARED].dims
        )
    for name in sorted(linear):
        scaled = posterior[name] * xr.DataArray(slope, dims="feature", coords=feature)
        bracket = (
            level - (scaled * xr.DataArray(centre, dims="feature", coords=feature)).sum("feature") - moved
        )
        if constant is not None:
            at = xr.DataArray([float(n == constant[0]) for n in names], dims="feature", coords=feature)
            scaled = scaled + at * bracket / constant[1]
        elif of_all is None:
            result["constant" if name == "coefficients" else f"{name}_constant"] = bracket
        result[name] = scaled.transpose(*posterior[name].dims)
    if "feature_cov" in posterior:
        result["feature_cov"] = _covariance(posterior["feature_cov"], slope, centre, names, constant)
    for name in _OF_RESPONSE:
        if name in posterior and (name != "noise" or model.likelihood.responses == "real"):
            result[name] = posterior[name] * of_y
    order = [str(name) for name in posterior.data_vars if name in result]
    return xr.Dataset({name: result[name] for name in [*order, *sorted(set(result) - set(order))]})


def _scales(data: Any, names: list[str]) -> tuple[np.ndarray, np.ndarray, float, float]:
    """``b / s`` and ``m`` of features, ``a`` and ``b``."""
    if data.transform is None:
        return np.ones(len(names)), np.zeros(len(names)), 0.0, 1.0
    position = {name: i for i, name in enumerate(data.feature_names)}
    transform = data.transform.of_features([position[name] for name in names])
    return transform.y_scale / transform.x_scale, transform.x_mean, transform.y_mean, transform.y_scale


def _constant(data: Any, names: list[str]) -> tuple[str, float] | None:
    """The first feature of every task that is the same in all rows, and its value; None where there is none."""
    effects = data.effects
    if data.is_sparse and not effects:
        return None
    for name in (name for name in names if name not in effects):
        column = dense_columns(data.inputs, [data.feature_names.index(name)])[:, 0]
        if column[0] != 0.0 and np.ptp(column) == 0.0:
            return name, float(column[0])
    return None


def _covariance(
    cov: xr.DataArray,
    slope: np.ndarray,
    centre: np.ndarray,
    names: list[str],
    constant: tuple[str, float] | None,
) -> xr.DataArray:
    """``M C M'`` with ``M`` the map of coefficients."""
    change = np.diag(slope)
    if constant is not None:
        change[names.index(constant[0])] -= slope * centre / constant[1]
    dims = [dim for dim in cov.dims if dim not in ("feature", "feature_bis")]
    values = cov.transpose(*dims, "feature", "feature_bis")
    return values.copy(data=change @ values.to_numpy() @ change.T)
