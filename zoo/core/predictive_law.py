r"""Laws of predictions in closed form: a normal law for each posterior draw, and their mixture over the draws.

Given a draw :math:`\theta_s` of what the posterior holds, the function of a new row is often normal,
:math:`f \mid \theta_s \sim N(m_s, v_s)`. Then with normal noise

.. math::

    p(y) = \frac{1}{S} \sum_s N(y; m_s, v_s + \sigma_s^2)

(Rao-Blackwell: the draws of f and of the noise are integrated out), where an average over draws of f,
:math:`\frac1S \sum_s N(y; f_s, \sigma_s^2)`, says the same only in the limit: in a tail, or where the noise is much
smaller than the spread of f, no draw comes near y. Where f follows from the draw, :math:`v_s = 0`. An estimate, or
draws that share their hyper-parameters, have S = 1.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from zoo.core.breakdown import require_finite
from zoo.core.drawn import as_arrays, draws_of
from zoo.core.function_law import function_law, given_draws, new_task_law
from zoo.core.linear_laws import linear_laws
from zoo.core.predictive import draws_by_block
from zoo.core.protocols import Fitted
from zoo.core.responses import (
    class_probability,
    drawn_at_moments,
    likelihood_overridden,
    mean_response,
    most_probable,
    of_rows,
    parameters_by_task,
    restored,
    user_labels,
)
from zoo.core.row_laws import Block, NormalMixture, Responses, RowLaws
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood

__all__ = [
    "expectation",
    "has_normal_noise",
    "leave_one_out",
    "parameters_beside",
    "response_law",
    "summaries",
]

# Quadrature over normal laws: the largest step, in standard deviations and in units of f, and where it ends.
_STEP, _REACH = 0.25, 7.0
_MOST_NODES = 2001
# Share of a row's noise variance that the row's own response must leave: below it the difference is rounding.
_LEAST_LEFT = 1e-6
_COLUMNS = ("mean", "sd", "lower", "upper")


def expectation(function: Callable[[np.ndarray], np.ndarray], mean: np.ndarray, sd: np.ndarray) -> np.ndarray:
    r"""Expectation of ``function(f)`` where f is normal, elementwise; arrays (S, n).

    By the trapezoidal rule over :math:`f = m + s z` in steps of at most a quarter, of z and of f: for the logistic
    function, whose poles are :math:`\pi` away from the real line, its error is below rounding.
    """
    largest = float(sd.max(initial=0.0))
    if largest == 0.0:
        return np.asarray(function(mean))
    step = min(_STEP, _STEP / largest)
    size = min(2 * int(np.ceil(_REACH / step)) + 1, _MOST_NODES)
    nodes = np.linspace(-_REACH, _REACH, size)
    weights = np.exp(-0.5 * nodes**2)
    weights /= weights.sum()
    total = np.zeros(np.broadcast_shapes(mean.shape, sd.shape))
    for node, weight in zip(nodes, weights, strict=True):
        total += weight * function(mean + node * sd)
    return total


# ---------------------------------------------------------------- of a fit


def has_normal_noise(fit: Fitted) -> bool:
    """Whether y is normal around f by the factory's likelihood, and no hook says otherwise."""
    kind = type(fit.factory.likelihood)
    # A subclass with a density of its own need not be normal because what it inherits is.
    own = kind.normal_sd is not Likelihood.normal_sd and issubclass(
        _owner(kind, "normal_sd"), _owner(kind, "term")
    )
    return own and not likelihood_overridden(fit)


def _noise(fit: Fitted, posterior: Mapping[str, np.ndarray]) -> np.ndarray:
    """Standard deviation of y around f on the model's scale, (S or 1, T or 1)."""
    return _noise_of(fit, parameters_by_task(fit, posterior))


def _noise_of(fit: Fitted, parameters: Mapping[str, np.ndarray]) -> np.ndarray:
    """The same of parameters (S, T or 1)."""
    return np.atleast_2d(np.asarray(fit.factory.likelihood.normal_sd(**parameters), dtype=np.float64))


def _owner(kind: type, name: str) -> type:
    return next(cls for cls in kind.__mro__ if name in vars(cls))


def response_law(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool = False,
) -> RowLaws | None:
    """The law of y at prepared rows on the user's scale, where it is normal given f; else None.

    ``posterior`` holds the draws that predictions are made of, for where f has no law in closed form.
    """
    if not has_normal_noise(fit):
        return None
    law = None if new_task else function_law(fit, rows, rng)
    if new_task and (found := new_task_law(fit, rows)) is not None:
        law, parameters = found
        noise = _noise_of(fit, parameters)
    elif law is None:
        law, noise = given_draws(fit, rows, posterior, rng), _noise(fit, posterior)
    else:
        noise = _noise(fit, as_arrays(draws_of(fit, rows.task_names)))
    if law.n_draws == 1:
        noise = noise[:1]
    return Responses(law, noise, rows.task, fit.data.transform)


def leave_one_out(fit: Fitted) -> np.ndarray | None:
    r"""Log density (N,) of each response of the fit given all others, in closed form; None where there is none.

    Where hyper-parameters are numbers and noise is normal, f at a row has one normal law :math:`N(m, v)` given all
    responses. Taking away the factor :math:`N(y; f, \sigma^2)` of the row leaves :math:`N(m_-, v_-)` with
    :math:`1/v_- = 1/v - 1/\sigma^2` and :math:`m_- / v_- = m/v - y/\sigma^2`, so that

    .. math::

        y - m_- = \frac{y - m}{1 - v/\sigma^2}, \quad v_- + \sigma^2 = \frac{\sigma^2}{1 - v/\sigma^2},

    which is the precision of y given the others, as in Rasmussen & Williams (2006), eq (5.12).

    On the scale of the model, as ``fit.compute_log_likelihood``.

    Raises
    ------
    ValueError
        Where :math:`1 - v / \sigma^2` is lost to rounding. Importance sampling would be far off there.
    """
    if fit.method not in fit.factory.closed_leave_one_out or not has_normal_noise(fit):
        return None
    if fit.conditioned or fit.data.weight is not None:
        return None
    rows = fit.factory.design(fit.data, fit.context)
    law = function_law(fit, rows, np.random.default_rng(0))
    if not isinstance(law, NormalMixture) or law.n_draws > 1:
        return None
    y = fit.factory.validate_quietly(fit.data)
    noise = _noise(fit, as_arrays(draws_of(fit, rows.task_names)))[0]
    variance = np.broadcast_to(noise[rows.task] if len(noise) > 1 else noise, y.shape) ** 2
    left = 1.0 - law.sd[0] ** 2 / variance
    if np.any(left < _LEAST_LEFT):
        row = int(np.argmin(left))
        raise ValueError(
            f"leave-one-out has no digits in row {row}: the noise of the fit ({np.sqrt(variance[row]):.3g}) is so "
            "small that the response of a row alone says what its function is. Give a larger noise, or hold "
            "rows out with data.folds."
        )
    return np.asarray(
        0.5 * (np.log(left / (2.0 * np.pi * variance)) - (y - law.mean[0]) ** 2 / (variance * left))
    )


def parameters_beside(fit: Fitted, rows: MultiTaskData, law: RowLaws) -> dict[str, np.ndarray]:
    """Parameters of the likelihood beside the draws of a law of f at rows of known tasks, (S, T) or (S, 1).

    Of one law for all draws, those of the first draw.
    """
    parameters = parameters_by_task(fit, as_arrays(draws_of(fit, rows.task_names)))
    return {name: v[:1] for name, v in parameters.items()} if law.n_draws == 1 else parameters


def summaries(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool,
    ci_prob: float,
) -> dict[str, np.ndarray]:
    """What :meth:`zoo.Fit.predict` returns of prepared rows, by name: in closed form where there is one."""
    likelihood = fit.factory.likelihood
    if not likelihood.labels:
        law = response_law(fit, rows, posterior, rng, new_task)
        return _real(fit, rows, posterior, rng, new_task, ci_prob) if law is None else law.summary(ci_prob)
    result = _of_labels(fit, rows, posterior, rng, new_task, ci_prob)
    chosen = most_probable(rows, result["probability"]) if likelihood.of_choices else result["mean"]
    result["label"] = user_labels(fit, chosen)
    return result


def _of_labels(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool,
    ci_prob: float,
) -> dict[str, np.ndarray]:
    """Summaries of f, and the probability of the positive class."""
    likelihood = fit.factory.likelihood
    law = None if new_task or likelihood.of_choices else function_law(fit, rows, rng)
    if law is not None:
        parameters = parameters_beside(fit, rows, law)
    elif not (likelihood.of_choices or likelihood_overridden(fit)):
        law = linear_laws(fit.factory, rows, posterior)
        parameters = parameters_by_task(fit, posterior)
    if law is None:
        return _of_drawn_labels(fit, rows, posterior, rng, ci_prob)

    def positive(block: Block) -> np.ndarray:
        known = of_rows(parameters, rows.task[block.rows])
        by_draw = expectation(lambda f: likelihood.probability(f, **known), block.mean.T, block.sd.T)
        return np.asarray(by_draw.mean(axis=0))

    # A density that is a graph is compiled for each block, which threads must not do at once.
    result, found = law.summary_with(
        ci_prob, positive, type(likelihood).probability is not Likelihood.probability
    )
    result["probability"] = found[:, 0]
    return result


def _of_drawn_labels(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    ci_prob: float,
) -> dict[str, np.ndarray]:
    """The same by draws of the model's graph."""

    def labelled(some: MultiTaskData, f: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        found = NormalMixture(f, np.broadcast_to(0.0, f.shape)).summary(ci_prob)
        return {**found, "probability": class_probability(fit, some, posterior, f, y).mean(axis=0)}

    return _by_block(fit, rows, posterior, rng, (*_COLUMNS, "probability"), labelled)


def _by_block(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    columns: tuple[str, ...],
    summary: Callable[[MultiTaskData, np.ndarray, np.ndarray], dict[str, np.ndarray]],
) -> dict[str, np.ndarray]:
    """Columns (n,) that ``summary`` makes of some rows and their draws of f and y, for all rows."""
    result = {name: np.empty(rows.n_rows) for name in columns}
    for block, f, y in draws_by_block(fit.factory, rows, posterior, rng):
        for name, values in summary(rows.take(block), f, y).items():
            result[name][block] = values
    return result


def _real(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool,
    ci_prob: float,
) -> dict[str, np.ndarray]:
    """Of real responses with another noise than a normal one: by draws of y, around the law of f where it is one."""
    law = None if new_task else function_law(fit, rows, rng)
    if isinstance(law, NormalMixture) and law.n_draws == 1:
        _, y = drawn_at_moments(fit, (law.mean[0], law.sd[0]), posterior, rng)
        return {**_of_drawn(y, ci_prob), "mean": _mean_at(fit, rows, law)}

    def real(some: MultiTaskData, f: np.ndarray, y: np.ndarray) -> dict[str, np.ndarray]:
        f, y = restored(fit, f, y)
        return {**_of_drawn(y, ci_prob), "mean": mean_response(fit, some, posterior, f, y)}

    return _by_block(fit, rows, posterior, rng, _COLUMNS, real)


def _of_drawn(y: np.ndarray, ci_prob: float) -> dict[str, np.ndarray]:
    """Summaries of draws (S, n)."""
    require_finite({"y": y})
    # Squares beyond all floats make an infinite sd, which the caller refuses.
    return NormalMixture(y, np.broadcast_to(0.0, y.shape)).summary(ci_prob)


def _mean_at(fit: Fitted, rows: MultiTaskData, law: NormalMixture) -> np.ndarray:
    """Mean of y where f has one normal law at each row."""
    likelihood, transform = fit.factory.likelihood, fit.data.transform
    if type(likelihood).mean is Likelihood.mean:
        mean = law.mean[0]
    else:
        parameters = of_rows(parameters_beside(fit, rows, law), rows.task)
        mean = expectation(lambda f: likelihood.mean(f, **parameters), law.mean, law.sd)[0]
    return mean if transform is None else np.asarray(transform.restore_y(mean))
