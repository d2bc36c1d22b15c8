r"""Levels of further groups that a fit has not seen, drawn from the law of their group.

In ``y ~ x + (1 | task) + (1 | clinic)`` the effects of the clinics are :math:`N(0, s^2)`, and s has a posterior. Of a
clinic without rows the data say nothing else, so in each draw its effect is a draw from that law.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from scipy.sparse import csr_matrix

from zoo.core.hooks import SHARED
from zoo.data.columns import task_column
from zoo.data.formula import FormulaDesign
from zoo.data.further_groups import side_by_side
from zoo.data.multitask import MultiTaskData
from zoo.support.frames import read_table
from zoo.support.seeds import generator

__all__ = ["with_new_levels"]


def with_new_levels(fit: Any, X: Any, random_seed: Any) -> Any:
    """A fit whose draws have the effects of all levels in a table, as :meth:`zoo.Fit.with_new_levels` says.

    Where no level is new it is the fit itself.
    """
    design = fit.data.design
    if design is None or not design.effects:
        raise ValueError(
            "the data have no further groups, whose levels could be new. with_new_levels is for data of a formula with "
            "two groups or more, as in 'y ~ x + (1 | task) + (1 | group)'; new tasks are predicted by new_task=True."
        )
    table = read_table(X, "X", fit.data.feature_names, ()).values
    if not isinstance(table, pd.DataFrame):
        raise TypeError(
            f"X is a {type(X).__name__} without column names. Pass a table with the columns of the groups."
        )
    extended = _with_levels(design, table.rename(columns=str))
    added = {name: effect for name, effect in extended.effects.items() if name not in design.effects}
    if not added:
        return fit
    posterior = fit.posterior
    scale = posterior["effect_scale"].sel(effect=list(added.values()))
    drawn = scale.to_numpy() * generator(random_seed).standard_normal(scale.shape)
    known = posterior[SHARED].transpose("chain", "draw", "shared_feature")
    shared = xr.DataArray(
        np.concatenate([known.to_numpy(), drawn], axis=2),
        dims=known.dims,
        coords={
            "chain": known["chain"],
            "draw": known["draw"],
            "shared_feature": [*known["shared_feature"].to_numpy(), *added],
        },
    )
    idata = fit.idata.copy()
    idata["posterior"] = xr.DataTree(
        posterior.drop_vars([SHARED, "shared_feature"]).assign({SHARED: shared}).assign_attrs(posterior.attrs)
    )
    return replace(fit, data=_with_columns(fit.data, extended, list(added)), idata=idata)


def _with_levels(design: FormulaDesign, table: pd.DataFrame) -> FormulaDesign:
    """The design with all levels of further groups in a table."""
    new = {}
    for group, levels in design.levels.items():
        if group not in table.columns:
            raise ValueError(f"X has no column {group!r}, which the formula {design.formula!r} uses. Add it.")
        known = set(levels)
        found = [level for level in task_column(table[group], "group")[0] if level not in known]
        new[group] = (*design.new_levels.get(group, ()), *found)
    return replace(design, new_levels=new)


def _with_columns(data: MultiTaskData, design: FormulaDesign, names: list[str]) -> MultiTaskData:
    """The data with a feature of zeros for each of these levels, which no row has."""
    shape = data.inputs.shape[0], len(names)
    inputs = side_by_side(data.inputs, csr_matrix(shape) if data.is_sparse else np.zeros(shape))
    n = len(names)
    known: dict[str, Any] = {
        name: replace(
            map_, x_mean=np.append(map_.x_mean, np.zeros(n)), x_scale=np.append(map_.x_scale, np.ones(n))
        )
        for name, map_ in (("transform", data.transform), ("units", data.units))
        if map_ is not None
    }
    return replace(
        data,
        inputs=inputs,
        feature_names=(*data.feature_names, *names),
        shared_names=(*data.shared_names, *names),
        **known,
        design=design,
    )
