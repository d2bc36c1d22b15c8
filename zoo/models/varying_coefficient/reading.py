r"""Coefficients of a varying-coefficient fit over t or over tasks, on the user's scale.

The function is linear in the features, so the coefficient of feature d at t is the function at the d-th unit vector:
:math:`w_d(t) = f(e_d, t)`. Its law is that of predictions.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.core.fit import Fit
from zoo.core.predictive import normal_summary, predictive_draws
from zoo.data.columns import require_same_rows
from zoo.data.multitask import MultiTaskData
from zoo.models.varying_coefficient.methods import latent_moments
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.support.checks import finite_matrix, one_of, probability
from zoo.support.frames import read_column, read_table, require_one_each
from zoo.support.seeds import generator
from zoo.support.words import counted

__all__ = ["coefficients", "read_places"]

# Posterior draws that summaries over a grid use, where they are not known in closed form.
_MOST_DRAWS = 400


def coefficients(fit: Fit, t: Any, task: Any, ci_prob: float, random_seed: Any) -> xr.Dataset:
    """See :meth:`Fit.coefficients`."""
    factory: Any = fit.factory
    if not factory.is_linear:
        raise ValueError(
            "instance_kernel is not linear, so there are no coefficients. Predict rows with fit.predict(X, t=...)."
        )
    probability(ci_prob, "ci_prob")
    places, tasks = read_places(fit, t, task)
    rows = _unit_rows(fit, places, tasks)
    D, P = rows.n_features, len(tasks)
    tail = (1.0 - ci_prob) / 2.0
    moments = latent_moments(fit, rows)
    offset = factory.offset(rows)
    if moments is not None:
        table = normal_summary(moments[0] - offset, moments[1], ci_prob)
    else:
        f = _draws(fit, rows, random_seed) - offset
        table = {
            "mean": f.mean(axis=0),
            "sd": f.std(axis=0),
            "lower": np.quantile(f, tail, axis=0),
            "upper": np.quantile(f, 1.0 - tail, axis=0),
        }
    scale, shift = _units(fit, rows)
    result = {
        name: (
            ("feature", "place"),
            scale[:, None] * v.reshape(D, P) + (0.0 if name == "sd" else shift[:, None]),
        )
        for name, v in table.items()
    }
    coords: dict[str, Any] = {"feature": list(rows.feature_names), "place": np.arange(P)}
    if places is not None:
        for i, name in enumerate(fit.data.t_names or ()):
            coords[name] = ("place", places[:, i])
    if any(component.on_tasks for component in factory.components):
        coords["task"] = ("place", np.asarray(fit.data.task_names, dtype=object)[tasks])
    return xr.Dataset(result, coords=coords, attrs={"ci_prob": ci_prob})


def read_places(fit: Fit, t: Any, task: Any) -> tuple[np.ndarray | None, np.ndarray]:
    """Places on the user's scale (P, .), or None, and the task of each, as :meth:`Fit.coefficients` was asked."""
    data = fit.data
    over_t = data.t is not None
    read, read_task = read_table(t, "t", data.t_names or (), (task,)), read_column(task, "task")
    require_same_rows(t=read, task=read_task)
    t, task = read.values, read_task.values
    if t is not None and not over_t:
        raise ValueError("t is given, but the data of the fit have none. Give task, or leave both out.")
    if t is None and task is None:
        if data.t is None:
            return None, np.arange(data.n_tasks)
        distinct = np.unique(data.t, axis=0)
        return distinct, _zeros(len(distinct))
    places = None
    if t is not None:
        names = data.t_names or ()
        if isinstance(t, pd.DataFrame):
            t = t.rename(columns=str)
            for name in names:
                one_of(name, list(t.columns), "the columns of t, one of which must be")
            require_one_each(t, names, "t")
            t = t[list(names)]
        raw = np.asarray(t, dtype=np.float64)
        places = finite_matrix(raw.reshape(-1, len(names)) if raw.ndim < 2 else raw, "t", None)
        if places.shape[1] != len(names):
            raise ValueError(
                f"t has {counted(places.shape[1], 'column')}, and the data of the fit {len(names)}: {', '.join(names)}."
            )
    if task is None:
        assert places is not None
        return places, _zeros(len(places))
    wanted = [task] if isinstance(task, str) else list(task)
    for name in wanted:
        one_of(name, data.task_names, "task")
    numbers = np.array([data.task_names.index(name) for name in wanted])
    if places is None:
        if over_t:
            raise ValueError("t is missing: coefficients vary over it. Give the places, one per task.")
        return None, numbers
    if len(numbers) == 1:
        numbers = np.repeat(numbers, len(places))
    if len(numbers) != len(places):
        raise ValueError(
            f"task has {counted(len(numbers), 'entry')}, and t {len(places)} places. Give one per place."
        )
    return places, numbers


def _zeros(n: int) -> np.ndarray:
    return np.zeros(n, dtype=np.int64)


def _unit_rows(fit: Fit, places: np.ndarray | None, tasks: np.ndarray) -> VaryingRows:
    """Rows of unit vectors, features first: (D P) of them, on the model's scale."""
    factory: Any = fit.factory
    some = fit.data.take(np.zeros(len(tasks), dtype=np.int64))
    new = replace(some, task=tasks, t=places, y=np.ones(len(tasks)))
    rows: VaryingRows = factory.design(new, fit.context)
    D, P = rows.n_features, len(tasks)
    return replace(
        rows,
        inputs=np.repeat(np.eye(D), P, axis=0),
        row=np.arange(D * P),
        y=np.ones(D * P),
        task=np.tile(tasks, D),
        t=None if rows.t is None else np.tile(rows.t, (D, 1)),
        weight=None,
    )


def _draws(fit: Fit, rows: MultiTaskData, random_seed: Any) -> np.ndarray:
    """Draws (S, D P) of f, on the model's scale."""
    draws = fit.posterior
    step = max(1, draws.sizes["chain"] * draws.sizes["draw"] // _MOST_DRAWS)
    thinned = {str(name): v.to_numpy()[:, ::step] for name, v in draws.items()}
    return predictive_draws(fit.factory, rows, thinned, generator(random_seed))[0]


def _units(fit: Fit, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
    """Factor and shift (D,) from the model's coefficients to those of the user's features and response."""
    assert rows.scale is not None
    factory: Any = fit.factory
    transform = fit.data.transform
    per_feature = 1.0 / rows.scale.x_scale
    y_scale, y_mean = 1.0, 0.0
    if transform is not None:
        per_feature = per_feature / transform.x_scale
        if factory.likelihood.responses == "real":
            y_scale, y_mean = transform.y_scale, transform.y_mean
    if not factory.has_constant:
        return y_scale * per_feature, np.zeros(len(per_feature))
    scale = y_scale * np.concatenate([[1.0], per_feature])
    shift = np.zeros(len(scale))
    shift[0] = y_mean + y_scale * factory.offset(rows)
    return scale, shift
