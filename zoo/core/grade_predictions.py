r"""Predictions of grades: the probability of each, and what follows from these.

Where f is normal given a posterior draw, :math:`f \sim N(m, s^2)`, so is :math:`z = f + e`, and with the cut points
:math:`c_k` of the draw

.. math:: P(y \le k) = \Phi\left( \frac{c_k - m}{\sqrt{1 + s^2}} \right).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from zoo.core.function_law import function_law, given_draws
from zoo.core.predictive import draws_by_block
from zoo.core.predictive_law import expectation, parameters_beside
from zoo.core.protocols import Fitted
from zoo.core.responses import likelihood_overridden, of_rows, parameters_by_row, parameters_by_task
from zoo.core.row_laws import Block
from zoo.data.multitask import MultiTaskData

__all__ = ["grade_summaries"]


def grade_summaries(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool,
    ci_prob: float,
) -> dict[str, np.ndarray]:
    """What :meth:`zoo.Fit.predict` returns of prepared rows whose response is a grade, by name.

    ``probability`` is (n, K), all else (n,). Mean, standard deviation and interval are those of the predictive law of
    y, of the numbers that stand for the grades; ``label`` is the most probable one of these.
    """
    likelihood = fit.factory.likelihood
    probability = _probabilities(fit, rows, posterior, rng, new_task)
    values = likelihood.grade_values
    mean = probability @ values
    cumulative = np.cumsum(probability, axis=1)
    tail = (1.0 - ci_prob) / 2.0
    return {
        "mean": mean,
        "sd": np.sqrt(np.sum(probability * (values - mean[:, None]) ** 2, axis=1)),
        "lower": values[_first_at_least(cumulative, tail)],
        "upper": values[_first_at_least(cumulative, 1.0 - tail)],
        "probability": probability,
        "label": values[np.argmax(probability, axis=1)],
    }


def _first_at_least(cumulative: np.ndarray, level: float) -> np.ndarray:
    """Position (n,) of the first grade at which the cumulative probability (n, K) reaches a level."""
    # Rounding may leave the last one below 1.
    reached = cumulative >= level * cumulative[:, -1:]
    return np.argmax(reached, axis=1)


def _probabilities(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool,
) -> np.ndarray:
    """Probability of each grade at each row, (n, K), averaged over the draws."""
    likelihood = fit.factory.likelihood
    if likelihood_overridden(fit):
        return _of_draws(fit, rows, posterior, rng)
    law = None if new_task else function_law(fit, rows, rng)
    if law is not None:
        parameters = parameters_beside(fit, rows, law)
    elif likelihood.normal_noise:
        law, parameters = given_draws(fit, rows, posterior, rng), parameters_by_task(fit, posterior)
    else:
        return _of_draws(fit, rows, posterior, rng)

    def probabilities(block: Block) -> np.ndarray:
        known = of_rows(parameters, rows.task[block.rows])
        return np.asarray(_given_normal(likelihood, block.mean.T, block.sd.T, known).mean(axis=1).T)

    # A density that is a graph is compiled for each block, which threads must not do at once.
    return law.reduce(probabilities, threads=likelihood.normal_noise)


def _of_draws(
    fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray], rng: np.random.Generator
) -> np.ndarray:
    """The same by draws of the model's graph: of y where a hook says what it is, else of f."""
    likelihood = fit.factory.likelihood
    result = np.empty((rows.n_rows, likelihood.n_grades))
    for block, f, y in draws_by_block(fit.factory, rows, posterior, rng):
        if likelihood_overridden(fit):
            grades = range(1, likelihood.n_grades + 1)
            result[block] = np.stack([(y == k).mean(axis=0) for k in grades], axis=1)
        else:
            parameters = parameters_by_row(fit, rows.take(block), posterior)
            result[block] = likelihood.grade_probabilities(f, **parameters).mean(axis=1).T
    return result


def _given_normal(
    likelihood: Any, mean: np.ndarray, sd: np.ndarray, parameters: Mapping[str, np.ndarray]
) -> np.ndarray:
    """Probabilities (K, S, n) where f is normal with these moments (S, n)."""
    # A subclass with another noise has no closed form.
    if not likelihood.normal_noise:
        return np.stack(
            [
                expectation(lambda f, k=k: likelihood.grade_probabilities(f, **parameters)[k], mean, sd)  # type: ignore[misc]
                for k in range(likelihood.n_grades)
            ]
        )
    return np.asarray(likelihood.grade_probabilities(mean, sd, **parameters))
