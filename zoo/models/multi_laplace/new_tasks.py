"""New tasks of the multi-Laplace model: their ARD parameters and noise given their rows, and where they have none."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.context import Context
from zoo.core.fit import Fit
from zoo.core.joining import joined, new_rows
from zoo.core.storage import to_datatree
from zoo.data.multitask import MultiTaskData
from zoo.models.multi_laplace import mode as mode
from zoo.models.multi_laplace.ard_gp import (
    GPRows,
)
from zoo.support.seeds import generator

__all__ = ["condition", "mixture_over_tasks", "of_some_task"]

# Draws from the prior of a new task's ARD parameters, weighted by its rows, for each draw of the population.
_CANDIDATES = 64
# Range of the variances of noise that are proposed for a new task, in units of their prior's mean.
_PROPOSED = (1e-6, 40.0)


def condition(model: Any, fit: Fit, task_data: MultiTaskData, random_seed: Any) -> Fit:
    """See :meth:`Fit.condition`: ARD parameters and noise of a new task given its rows and the other tasks."""
    if model.ard == "pooled":
        raise ValueError(
            'ard is "pooled": the model knows no tasks. Predict the new task by the name of any.'
        )
    rng = generator(random_seed)
    new = new_rows(fit, task_data)
    prepared = model.design(new, Context(fit.population_data))
    posterior = fit.posterior
    if fit.is_point:
        added = mode.ModeProblem.of(model, prepared, new.y, fit).posterior_of_new_tasks()
    else:
        added = _weighted_draws(model, fit, prepared, rng)
    grown = {
        str(name): np.concatenate([v.to_numpy(), added[str(name)]], axis=v.dims.index("task"))
        if "task" in v.dims
        else v.to_numpy()
        for name, v in posterior.items()
    }
    together = joined(fit.data, new)
    result = replace(fit, data=together, conditioned=(*fit.conditioned, *new.task_names))
    rows = model.design(together, Context(result.population_data))
    stats = fit.idata["sample_stats"].to_dataset()
    idata = to_datatree(model, together, rows, rows.y, grown, stats, fit.method, random_seed)
    return replace(result, idata=idata)


def _weighted_draws(model: Any, fit: Fit, new: GPRows, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """For each draw, one of some draws from the new tasks' prior, chosen by the likelihood of their rows.

    Noises are proposed over all sizes, and weighed by their prior: those of old tasks may be far from the new.
    """
    draws = model.predictive_posterior(fit, rng)
    names = [str(name) for name, v in fit.posterior.items() if "task" in v.dims]
    problem = mode.ModeProblem.of(model, new, new.y)
    best: Any = np.full((draws.sizes["chain"], draws.sizes["draw"], new.n_tasks), -np.inf)
    chosen: dict[str, np.ndarray] = {}
    for i in range(_CANDIDATES):
        candidate = model.new_task(draws, list(new.task_names), rng)
        score = rng.gumbel(size=best.shape)  # the largest sum with a log weight is a draw by weight
        noise, weight = _proposed_noise(model, draws, best.shape, i, rng)
        candidate["noise"] = noise
        score += weight
        for at in np.ndindex(best.shape[:2]):
            score[at] += problem.evidence({name: v[at] for name, v in candidate.items()})
        better = score > best
        best = np.where(better, score, best)
        for name in names:
            taken = better if candidate[name].ndim == 3 else better[:, :, None]
            chosen[name] = np.where(taken, candidate[name], chosen.get(name, candidate[name]))
    return chosen


def _proposed_noise(
    model: Any, draws: xr.Dataset, shape: tuple[int, ...], number: int, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray]:
    r"""Noise standard deviations of candidates, and the log of their prior over what they are proposed with.

    What the variance exceeds the floor by, v, has the prior :math:`B e^{-B v}`. It is proposed with the density
    :math:`\propto 1 / v` over a range that holds all of the prior's mass; candidate ``number`` of all has a
    stratum of its own. So the log weight is :math:`\log v - B v` and a constant.
    """
    B = (
        draws["noise_rate"].to_numpy()[..., None]
        if "noise_rate" in draws
        else np.asarray(float(model.noise_rate))
    )
    place = (number + rng.random(shape)) / _CANDIDATES
    v = _PROPOSED[0] * (_PROPOSED[1] / _PROPOSED[0]) ** place / B
    return np.sqrt(model.noise_floor**2 + v), np.log(v) - B * v + np.log(B)


def of_some_task(posterior: xr.Dataset, size: int, rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draws of the variables of unseen tasks: in each, those of some task of the data."""
    by_task = [str(name) for name, v in posterior.items() if "task" in v.dims]
    result = {str(name): v.to_numpy() for name, v in posterior.items() if str(name) not in by_task}
    if not by_task:
        return result
    chains, draws = posterior.sizes["chain"], posterior.sizes["draw"]
    chosen = rng.integers(posterior.sizes["task"], size=(chains, draws, size))
    for name in by_task:
        values = posterior[name].transpose("chain", "draw", ..., "task").to_numpy()
        index = chosen if values.ndim == 3 else chosen[:, :, None]
        result[name] = np.take_along_axis(values, index, axis=-1)
    if "kappa_scale" in result and not posterior.attrs.get("point"):
        scale = result["kappa_scale"][..., None]
        result["kappa"] = scale * np.abs(rng.standard_normal((*scale.shape[:3], size)))
    return result


def mixture_over_tasks(
    factory: Any, fit: Fit, rows: MultiTaskData
) -> tuple[np.ndarray, np.ndarray, dict[str, np.ndarray]]:
    """Mean and standard deviation (T, n) of the functions of unseen tasks, and the noise (T, 1), given a mode.

    Given the task whose parameters it shares, the function of a task without rows has the prior of that one. Where all
    tasks are one process, its rows tell of further tasks too.
    """
    if factory.ard == "pooled":
        mean, sd = mode.function_moments(factory, fit, rows)
        return mean[:1], sd[:1], {"noise": fit.posterior["noise"].to_numpy().reshape(-1, 1)[:1]}
    point = {str(name): v.to_numpy()[0, 0] for name, v in fit.posterior.items()}
    numbers = mode.of_tasks(point, fit.posterior.sizes["task"], False)
    kernel, X = factory.correlation(rows.n_features), rows.X
    variance = np.stack(
        [
            amplitude * kernel.diagonal(X, kappa) + factory.constant_variance
            for kappa, amplitude in zip(numbers.kappa, numbers.amplitude, strict=True)
        ]
    )
    mean = X @ point["mean_coefficients"] if factory.mean == "linear" else np.zeros(len(X))
    return (
        np.broadcast_to(mean, variance.shape),
        np.sqrt(variance),
        {"noise": np.sqrt(numbers.noise)[:, None]},
    )
