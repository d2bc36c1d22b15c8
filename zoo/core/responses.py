"""Draws, means and parameters of responses at prepared rows, on the scale of the user's data."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.core.observed import unit_of_y
from zoo.core.predictive import predictive_draws, responses_given
from zoo.core.protocols import Fitted
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.coding import label_values

__all__ = [
    "as_in_the_data",
    "class_probability",
    "drawn_at_moments",
    "drawn_responses",
    "grades_of",
    "likelihood_overridden",
    "mean_response",
    "most_probable",
    "of_rows",
    "parameters_by_row",
    "parameters_by_task",
    "restored",
    "user_labels",
]


def drawn_responses(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    restore: bool = True,
) -> tuple[np.ndarray, np.ndarray]:
    """Draws (S, n) of f and y on the user's scale (labels stay -1/+1), or on the model's."""
    f, y = predictive_draws(fit.factory, rows, posterior, rng)
    return restored(fit, f, y) if restore else (f, y)


def drawn_at_moments(
    fit: Fitted,
    moments: tuple[np.ndarray, np.ndarray],
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> tuple[np.ndarray, np.ndarray]:
    """The same where f is normal with these moments at each row, and the likelihood's parameters are one point."""
    chains, draws = next(iter(posterior.values())).shape[:2]
    f = moments[0] + moments[1] * rng.standard_normal((chains * draws, len(moments[0])))
    unit = unit_of_y(fit.factory.with_units(fit.data, fit.context))
    likelihood = fit.factory.likelihood.of_unit(unit)
    y = responses_given(likelihood, f, {name: posterior[name][0, 0] for name in likelihood.learned}, rng)
    return restored(fit, f, y)


def restored(fit: Fitted, f: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Draws of f and y on the user's scale; labels stay -1/+1."""
    if fit.data.transform is None or fit.factory.likelihood.labels:
        return f, y
    return fit.data.transform.restore_y(f), fit.data.transform.restore_y(y)


def class_probability(
    fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], f: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Probability of the positive class at each draw and row, (S, n)."""
    if likelihood_overridden(fit):
        return y == 1.0
    parameters: dict[str, Any] = parameters_by_row(fit, rows, posterior)
    if fit.factory.likelihood.of_choices:
        parameters["choice"] = rows.choice
    return np.asarray(fit.factory.likelihood.probability(f, **parameters))


def mean_response(
    fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], f: np.ndarray, y: np.ndarray
) -> np.ndarray:
    """Mean of a real response at each row, (n,), from draws (S, n) on the user's scale."""
    if likelihood_overridden(fit):
        return np.asarray(y.mean(axis=0))
    likelihood = fit.factory.likelihood
    # Where y has mean f, nothing else is looked at. Otherwise y is on its own scale, as counts are.
    if type(likelihood).mean is Likelihood.mean:
        return np.asarray(f.mean(axis=0))
    means = likelihood.mean(f, **parameters_by_row(fit, rows, posterior))
    return np.asarray(means.mean(axis=0))


def parameters_by_row(
    fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Draws of the likelihood's parameters, (S, n), or (S, 1) where all rows have the same."""
    return of_rows(parameters_by_task(fit, posterior), rows.task)


def of_rows(parameters: Mapping[str, np.ndarray], task: np.ndarray) -> dict[str, np.ndarray]:
    """Parameters of tasks, (S, T) or (S, 1), at rows of these tasks: (S, n) or (S, 1)."""
    return {name: v if v.shape[1] == 1 else v[:, task] for name, v in parameters.items()}


def parameters_by_task(fit: Fitted, posterior: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Draws of the likelihood's parameters, (S, T), or (S, 1) where all tasks have the same."""
    # A field of the model that is a number does not stand in the posterior.
    found = {name: posterior[name] for name in fit.factory.likelihood.learned if name in posterior}
    return {name: v.reshape(v.shape[0] * v.shape[1], -1) for name, v in found.items()}


def likelihood_overridden(fit: Fitted) -> bool:
    """Whether a user's own ``observe`` need not have mean f, or the class probability of the likelihood."""
    return not getattr(type(fit.factory).observe, "matches_likelihood", False)


def as_in_the_data(fit: Fitted, y: np.ndarray) -> np.ndarray:
    """Draws of y as the data have them: labels and grades are coded otherwise in the model."""
    likelihood = fit.factory.likelihood
    return user_labels(fit, y) if likelihood.labels else np.asarray(likelihood.decode(y))


def grades_of(fit: Fitted) -> tuple[Any, ...]:
    """The grades: their names in the data, or else the numbers that stand for them. Empty where y is no grade."""
    likelihood = fit.factory.likelihood
    if likelihood.responses != "grades":
        return ()
    return fit.data.grades or tuple(likelihood.grade_values.tolist())


def most_probable(rows: MultiTaskData, probability: np.ndarray) -> np.ndarray:
    """+1 in the row of each choice that is most probable, the first one of these, and -1 elsewhere; (n,)."""
    choice = np.asarray(rows.choice)
    order = np.lexsort((-probability, choice))
    first = np.unique(choice[order], return_index=True)[1]
    sign = np.full(len(probability), -1.0)
    sign[order[first]] = 1.0
    return sign


def user_labels(fit: Fitted, sign: np.ndarray) -> np.ndarray:
    """Labels as the data have them, by the sign of f."""
    negative, positive = label_values(fit.data.y)
    return np.where(sign > 0.0, positive, negative)
