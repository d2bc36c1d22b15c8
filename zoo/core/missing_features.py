r"""Missing features as variables of the model: a normal law of the rows of features, drawn with all else.

.. math:: z_n \sim N(m, L L'), \quad z_{nj} = (x_{nj} - a_j) / b_j

with :math:`a, b` the mean and the standard deviation of the known values of each feature. :math:`m_j \sim N(0, 1)`, and
:math:`L` is an LKJ(2) factor whose rows are multiplied by half-normal(2) standard deviations. Known features say what
:math:`m` and :math:`L` are; a missing one follows from the known features of its row and from the response. The law
knows nothing of tasks, and has one normal law for columns of zeros and ones too: what is drawn there may lie between.
It is right where what is missing depends on what is known alone ("missing at random"; Little & Rubin 2019).

The posterior holds ``missing_features`` (dim gap), ``column_mean`` and ``column_chol`` (dims column, column_bis), on
the scale that the model sees. Of rows to predict, gaps are drawn given the known features of their row.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import ancestors
from pytensor.tensor.linalg import solve_triangular

from zoo.data.multitask import MultiTaskData

__all__ = ["MISSING", "completed", "draws_for", "gap_slices", "require_in_graph"]

MISSING = "missing_features"
"""What the posterior calls them."""
MEAN, CHOL = "column_mean", "column_chol"
_DEVIATION = 2.0


def _columns(data: MultiTaskData) -> tuple[np.ndarray, tuple[str, ...]]:
    """All features (N, k) of prepared rows, those that tasks share last, and their names."""
    if data.shared is None:
        return data.inputs, data.feature_names
    return np.hstack([data.inputs, data.shared]), (*data.feature_names, *data.shared_names)


def _gaps(data: MultiTaskData) -> np.ndarray | None:
    """Where features of prepared rows are missing, (N, k); None where nothing is."""
    if not data.incomplete:
        return None
    mask = np.isnan(_columns(data)[0])
    return mask if mask.any() else None


def completed(data: MultiTaskData, inputs: Any, shared: Any) -> tuple[Any, Any]:
    """The features of prepared rows in a model, gaps filled by its variables; as they are where they are complete.

    Parameters
    ----------
    inputs : (N, D) TensorVariable
    shared : (N, S) TensorVariable or None
        Both with NaN at gaps.
    """
    mask = _gaps(data)
    if mask is None:
        return inputs, shared
    values, names = _columns(data)
    centre, scale = _location(values)
    modelled = np.flatnonzero(mask.any(axis=0) | (scale > 0.0))
    missing = _variable(values[:, modelled], [names[j] for j in modelled], centre[modelled], scale[modelled])
    everything = inputs if shared is None else pt.concatenate([inputs, shared], axis=1)
    filled = everything[np.nonzero(mask)].set(missing)
    D = data.inputs.shape[1]
    return filled[:, :D], None if shared is None else filled[:, D:]


def _location(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of the known values of each column; 0 and 0 where there are none."""
    known = ~np.isnan(values)
    count, filled = np.maximum(known.sum(axis=0), 1), np.where(known, values, 0.0)
    centre = filled.sum(axis=0) / count
    return centre, np.sqrt((np.where(known, values - centre, 0.0) ** 2).sum(axis=0) / count)


def _variable(values: np.ndarray, names: list[str], centre: np.ndarray, scale: np.ndarray) -> Any:
    """The missing entries of (N, k) values in the order of rows, as a variable of the model on the context stack."""
    # Imported where it is used: models are assembled without gaps as a rule.
    from zoo.distributions.lkj import lkj_factor

    model: Any = pm.modelcontext(None)
    scale = np.where(scale > 0.0, scale, 1.0)
    mask = np.isnan(values)
    with_gaps = mask.any(axis=1)
    rows, columns = np.nonzero(mask)
    model.add_coords(
        {
            "column": names,
            "column_bis": names,
            "gap": [f"{names[j]}[{i}]" for i, j in zip(rows, columns, strict=True)],
        }
    )
    mean = pm.Deterministic(MEAN, centre + scale * pm.Normal("_column_mean", dims="column"), dims="column")
    deviation = scale * pm.HalfNormal("_column_deviation", _DEVIATION, dims="column")
    factor = deviation[:, None] * lkj_factor("_column_partial", len(names))
    chol = pm.Deterministic(CHOL, factor, dims=("column", "column_bis"))
    if not with_gaps.all():
        pm.MvNormal("complete_features", mean, chol=chol, observed=values[~with_gaps])
    left = values[with_gaps]
    at = np.nonzero(np.isnan(left))
    known = np.where(np.isnan(left), 0.0, left)

    def logp(value: Any, mean: Any, chol: Any, start: Any) -> Any:
        """Joint density of the rows that have gaps."""
        deviations = pt.constant(known)[at].set(value) - mean
        white = solve_triangular(chol, deviations.T, lower=True)
        constants = len(left) * (pt.log(pt.diag(chol)).sum() + 0.5 * len(names) * np.log(2.0 * np.pi))
        return -0.5 * (white**2).sum() - constants

    def random(mean: Any, chol: Any, start: Any, rng: Any = None, size: Any = None) -> np.ndarray:
        return draw_gaps(mean[None], chol[None], left, rng)[0]

    return pm.CustomDist(
        MISSING,
        mean,
        chol,
        # Where chains start: the mean of the known values. Its length says how many gaps there are.
        centre[columns],
        logp=logp,
        random=random,
        support_point=lambda rv, size, mean, chol, start: start,
        signature="(k),(k,l),(g)->(g)",
        dims="gap",
        class_name="MissingFeatures",
    )


def draw_gaps(mean: np.ndarray, chol: np.ndarray, values: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """Draws of missing features given the known ones of their row.

    Parameters
    ----------
    mean, chol : (S, k), (S, k, k)
        Of the law of a row.
    values : (n, k)
        Rows, NaN where missing.

    Returns
    -------
    (S, G) array
        The missing entries in the order of rows.
    """
    mask = np.isnan(values)
    number = np.full(mask.shape, -1)
    number[mask] = np.arange(mask.sum())
    result = np.empty((len(mean), int(mask.sum())))
    patterns, of_row = np.unique(mask, axis=0, return_inverse=True)
    for p, pattern in enumerate(patterns):
        if not pattern.any():
            continue
        rows = np.flatnonzero(np.ravel(of_row) == p)
        order = np.concatenate([np.flatnonzero(~pattern), np.flatnonzero(pattern)])
        n_known = int((~pattern).sum())
        # With the known features first, the factor of the law is blockwise: x = m + [[A, 0], [B, C]] e.
        root = np.linalg.qr(chol[:, order].swapaxes(1, 2), mode="r").swapaxes(1, 2)
        centre = mean[:, order]
        deviations = values[rows][:, ~pattern].T - centre[:, :n_known, None]
        e = np.linalg.solve(root[:, :n_known, :n_known], deviations)
        own = root[:, n_known:, n_known:] @ rng.standard_normal((len(mean), int(pattern.sum()), len(rows)))
        drawn = centre[:, n_known:, None] + root[:, n_known:, :n_known] @ e + own
        result[:, number[rows][:, pattern]] = drawn.swapaxes(1, 2)
    return result


def draws_for(
    posterior: xr.Dataset, rows: MultiTaskData, same: bool, rng: np.random.Generator
) -> Mapping[str, np.ndarray]:
    """Draws (chain, draw, gap) of the missing features of prepared rows; nothing where they are complete.

    Parameters
    ----------
    same : bool
        Whether these are the rows of the fit, whose gaps the posterior holds.
    """
    mask = _gaps(rows)
    if mask is None:
        return {}
    if same:
        return {MISSING: posterior[MISSING].to_numpy()}
    values, names = _columns(rows)
    known = [str(name) for name in posterior["column"].to_numpy()]
    alien = next((names[j] for j in np.flatnonzero(mask.any(axis=0)) if names[j] not in known), None)
    if alien is not None:
        raise ValueError(
            f"feature {alien!r} of X has gaps, and it did not vary in the data of the fit, so that nothing is known of "
            "its law. Fill it in."
        )
    mean, chol = posterior[MEAN].to_numpy(), posterior[CHOL].to_numpy()
    at = [list(names).index(name) for name in known]
    draws = draw_gaps(mean.reshape(-1, len(at)), chol.reshape(-1, len(at), len(at)), values[:, at], rng)
    # In the order of all columns of the rows, of which the law has some.
    order = np.full(mask.shape, -1)
    chosen = mask[:, at]
    rows_of, columns_of = np.nonzero(chosen)
    order[rows_of, np.asarray(at)[columns_of]] = np.arange(int(chosen.sum()))
    return {MISSING: draws[:, order[mask]].reshape(*mean.shape[:2], -1)}


def gap_slices(rows: MultiTaskData) -> np.ndarray:
    """How many gaps stand before each of the prepared rows, (N + 1,)."""
    mask = _gaps(rows)
    counts = np.zeros(rows.n_rows) if mask is None else mask.sum(axis=1)
    return np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def require_in_graph(model: pm.Model, name: str) -> None:
    """Raise where a model with missing features has made numbers of them before anything is drawn."""
    if MISSING not in model.named_vars:
        return
    others = [v for v in model.free_RVs if v.name != MISSING]
    for variable in ancestors([model["y"], *others]):
        if not isinstance(variable, Constant):
            continue
        value = variable.data
        if isinstance(value, np.ndarray | float) and np.issubdtype(np.asarray(value).dtype, np.floating):
            if np.isnan(value).any():
                raise ValueError(
                    f"features have gaps, and the hooks of {name} compute with numbers of the features "
                    "(data.source) where those are missing. Let them use data.X, data.linear or data.shared, which "
                    "hold the variables of the model, or fill the gaps in."
                )
