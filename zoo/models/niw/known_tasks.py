"""Tasks of a fit one by one: their coefficients drawn again from the population."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from zoo.core.context import Context
from zoo.core.hooks import SHARED
from zoo.core.protocols import Fitted
from zoo.data.multitask import MultiTaskData
from zoo.data.within_tasks import by_group
from zoo.inference.gibbs.known_tasks import Draws, coefficient_draws, function_moments
from zoo.inference.gibbs.task_sums import task_sums
from zoo.support.memory import require_memory
from zoo.support.words import counted

__all__ = ["drawn_again", "functions_given_population"]


# Numbers that are worked on at once.
_ENTRIES = 5_000_000


class KnownTasks(NamedTuple):
    """What the rows of some tasks say, and the population that they are of, in whitened features."""

    S: np.ndarray
    linear: np.ndarray
    draws: Draws
    half: np.ndarray


def drawn_again(model: Any, fit: Fitted, names: tuple[str, ...], rng: np.random.Generator) -> xr.Dataset:
    """The posterior of a fit that kept its population, with draws of the coefficients of these tasks."""
    posterior, values = fit.posterior, model.names[0]
    sizes = posterior.sizes["chain"], posterior.sizes["draw"]
    n_draws = sizes[0] * sizes[1]
    require_memory(
        {values: len(names) * posterior.sizes[model.dim]},
        2 * n_draws,
        f"the coefficients of {counted(len(names), 'task', ',')} by {counted(n_draws, 'draw', ',')}",
        "Predict rows of fewer tasks at a time.",
    )
    known = _known_tasks(model, fit, names)
    drawn = known.half @ coefficient_draws(known.S, known.linear, known.draws, rng)
    variable = (("chain", "draw", model.dim, "task"), drawn.reshape(*sizes, *drawn.shape[1:]))
    return posterior.assign({values: variable}).assign_coords(task=list(names))


def functions_given_population(model: Any, fit: Fitted, rows: MultiTaskData) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (S, n) of f at prepared rows, given their tasks' rows and each draw."""
    posterior = fit.posterior
    n_draws = posterior.sizes["chain"] * posterior.sizes["draw"]
    require_memory(
        {"mean": rows.n_rows, "sd": rows.n_rows},
        2 * n_draws,
        f"predictions of {counted(rows.n_rows, 'row', ',')} by {counted(n_draws, 'draw', ',')}",
        "Predict fewer rows at a time.",
    )
    asked, task = np.unique(rows.task, return_inverse=True)
    known = _known_tasks(model, fit, tuple(rows.task_names[t] for t in asked))
    new = model.population(rows).inputs[rows.row]
    mean, variance = function_moments(known.S, known.linear, known.draws, new, task)
    if rows.shared is not None:
        mean += _flat(posterior[SHARED]) @ rows.shared.T
    return mean, np.sqrt(variance)


def _known_tasks(model: Any, fit: Fitted, names: tuple[str, ...]) -> KnownTasks:
    """Sums over the rows of these tasks, and the draws of the population."""
    data, posterior = fit.data, fit.posterior
    some = data if names == data.task_names else data.select_tasks(names)
    rows = model.design(some, Context(fit.population_data))
    population = model.population(rows)
    sums = task_sums(population.inputs, rows.row, rows.y, rows.task, rows.n_tasks, rows.weight)
    linear = sums.linear[None]
    if rows.shared is not None:
        linear = linear - _sums_of_shared(rows, population.inputs[rows.row], _flat(posterior[SHARED]))
    _, mean, cov = model.names
    back = population.back
    draws = Draws.of(
        _flat(posterior[mean]) @ back.T,
        back @ _flat(posterior[cov]) @ back.T,
        _flat(posterior["noise"]),
        len(names),
    )
    return KnownTasks(sums.S, np.ascontiguousarray(linear), draws, population.half)


def _sums_of_shared(rows: MultiTaskData, X: np.ndarray, beta: np.ndarray) -> np.ndarray:
    """What each draw (S, J) of shared coefficients says of the sums of features and responses, (S, T, D)."""
    result = np.empty((len(beta), rows.n_tasks, X.shape[1]))
    weighted = X if rows.weight is None else rows.weight[:, None] * X
    step = max(1, _ENTRIES // max(1, X.size))
    for start in range(0, len(beta), step):
        said = np.asarray(rows.shared @ beta[start : start + step].T)
        sums = by_group(np.add, weighted[:, :, None] * said[:, None, :], rows.task, rows.n_tasks, 0.0)
        result[start : start + step] = sums.transpose(2, 0, 1)
    return result


def _flat(values: xr.DataArray) -> np.ndarray:
    """Draws (chain, draw, ...) as (S, ...)."""
    array = values.to_numpy()
    return array.reshape(-1, *array.shape[2:])
