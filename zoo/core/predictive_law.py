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

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logsumexp, ndtr, ndtri

from zoo.core.breakdown import require_finite
from zoo.core.drawn import as_arrays, draws_of
from zoo.core.protocols import Fitted
from zoo.core.responses import (
    class_probability,
    drawn_at_moments,
    drawn_responses,
    likelihood_overridden,
    mean_response,
    most_probable,
    parameters_by_row,
    user_labels,
)
from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood

__all__ = [
    "NormalMixture",
    "expectation",
    "function_law",
    "has_normal_noise",
    "leave_one_out",
    "parameters_beside",
    "response_law",
    "summaries",
]

# Numbers that are worked on at once.
_BLOCK = 2_000_000
# Quadrature over normal laws: the largest step, in standard deviations and in units of f, and where it ends.
_STEP, _REACH = 0.25, 7.0
_MOST_NODES = 2001
# Quantiles: steps by Newton's rule, and then by halving.
_NEWTON, _HALVINGS = 12, 60
# A step of Newton's rule this small, in units of the smallest standard deviation, leaves the square of it.
_CLOSE = 1e-5
# Share of a row's noise variance that the row's own response must leave: below it the difference is rounding.
_LEAST_LEFT = 1e-6


@dataclass(frozen=True, eq=False)
class NormalMixture:
    """Mixtures with equal weights of S normal laws, one mixture for each of n rows.

    Parameters
    ----------
    mean, sd : (S, n) array
        A standard deviation of 0 is a point.
    """

    mean: np.ndarray
    sd: np.ndarray

    def moments(self) -> tuple[np.ndarray, np.ndarray]:
        """Mean and standard deviation, (n,) each."""
        return self.mean.mean(axis=0), np.sqrt(self.mean.var(axis=0) + np.mean(self.sd**2, axis=0))

    def log_density(self, y: np.ndarray) -> np.ndarray:
        """Log density at one value for each row, (n,)."""
        z = (y - self.mean) / self.sd
        parts = -0.5 * z**2 - np.log(self.sd) - 0.5 * np.log(2.0 * np.pi)
        return np.asarray(logsumexp(parts, axis=0) - np.log(len(parts)))

    def quantile(self, probability: float) -> np.ndarray:
        """The value below which this probability lies, (n,)."""
        if len(self.mean) == 1:
            return np.asarray(self.mean[0] + ndtri(probability) * self.sd[0])
        result = np.empty(self.mean.shape[1])
        step = max(1, _BLOCK // len(self.mean))
        for start in range(0, len(result), step):
            block = slice(start, start + step)
            result[block] = _quantile(self.mean[:, block], self.sd[:, block], probability)
        return result

    def summary(self, ci_prob: float) -> dict[str, np.ndarray]:
        """``mean``, ``sd`` and the central interval's ``lower`` and ``upper``, (n,) each."""
        mean, sd = self.moments()
        tail = (1.0 - ci_prob) / 2.0
        return {
            "mean": mean,
            "sd": sd,
            "lower": self.quantile(tail),
            "upper": self.quantile(1.0 - tail),
        }

    def restored(self, transform: Any) -> NormalMixture:
        """The same on the scale before ``standardize``."""
        if transform is None:
            return self
        return NormalMixture(transform.restore_y(self.mean), self.sd * transform.y_scale)


def _quantile(mean: np.ndarray, sd: np.ndarray, probability: float) -> np.ndarray:
    """Roots of the distribution functions: Newton's steps inside a bracket, which also halve it where they fail."""
    if not sd.any():
        return np.asarray(np.quantile(mean, probability, axis=0))
    # Between the extremes of the parts' own quantiles lies that of the mixture.
    own = mean + ndtri(probability) * sd
    low, high = own.min(axis=0), own.max(axis=0)
    scale = np.maximum(sd, np.finfo(float).tiny)
    x = np.clip(
        mean.mean(axis=0) + ndtri(probability) * np.sqrt(mean.var(axis=0) + np.mean(sd**2, axis=0)), low, high
    )
    close, left = _CLOSE * np.minimum(sd.min(axis=0), high - low), np.arange(len(x))
    for i in range(_NEWTON + _HALVINGS):
        at = x[left]
        with np.errstate(over="ignore", under="ignore", divide="ignore", invalid="ignore"):
            z = (at - mean[:, left]) / scale[:, left]
            gap = ndtr(z).mean(axis=0) - probability
            density = np.mean(np.exp(-0.5 * z**2) / scale[:, left], axis=0) / np.sqrt(2.0 * np.pi)
            newton = at - gap / density
        low[left], high[left] = np.where(gap < 0.0, at, low[left]), np.where(gap < 0.0, high[left], at)
        near = np.abs(newton - at) <= close[left]
        inside = (newton > low[left]) & (newton < high[left]) & (i < _NEWTON)
        moved = np.where(inside, newton, 0.5 * (low[left] + high[left]))
        x[left] = np.where(gap == 0.0, at, np.where(near, newton, moved))
        left = left[~near & (x[left] != at)]
        if not len(left):
            break
    return np.asarray(x)


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


def function_law(fit: Fitted, rows: MultiTaskData, rng: np.random.Generator) -> NormalMixture | None:
    """The law of f at prepared rows of known tasks, given each posterior draw; None where the factory does not say it.

    It is what the original hooks imply: of a subclass that overrides one of them, draws by its own graph count.
    """
    factory = fit.factory
    kind = type(factory)
    owner = next(cls for cls in kind.__mro__ if "conditional_moments" in vars(cls))
    for hook in (*factory.hooks, "predictive_posterior"):
        if inspect.getattr_static(kind, hook, None) is not inspect.getattr_static(owner, hook, None):
            return None
    found = factory.conditional_moments(fit, rows, rng)
    if found is None:
        return None
    mean, sd = (np.asarray(part, dtype=np.float64) for part in found)
    return NormalMixture(mean, np.broadcast_to(sd, mean.shape))


def has_normal_noise(fit: Fitted) -> bool:
    """Whether y is normal around f by the factory's likelihood, and no hook says otherwise."""
    kind = type(fit.factory.likelihood)
    # A subclass with a density of its own need not be normal because what it inherits is.
    own = kind.normal_sd is not Likelihood.normal_sd and issubclass(
        _owner(kind, "normal_sd"), _owner(kind, "term")
    )
    return own and not likelihood_overridden(fit)


def _noise(fit: Fitted, rows: MultiTaskData, posterior: Mapping[str, np.ndarray]) -> np.ndarray:
    """Standard deviation of y around f on the model's scale, (S or 1, n or 1)."""
    parameters = parameters_by_row(fit, rows, posterior, _size(posterior))
    return np.atleast_2d(np.asarray(fit.factory.likelihood.normal_sd(**parameters), dtype=np.float64))


def _owner(kind: type, name: str) -> type:
    return next(cls for cls in kind.__mro__ if name in vars(cls))


def response_law(
    fit: Fitted,
    rows: MultiTaskData,
    posterior: Mapping[str, np.ndarray],
    rng: np.random.Generator,
    new_task: bool = False,
) -> NormalMixture | None:
    """The law of y at prepared rows on the user's scale, where it is normal given f; else None.

    ``posterior`` holds the draws that predictions are made of, for where f has no law in closed form.
    """
    if not has_normal_noise(fit):
        return None
    law = None if new_task else function_law(fit, rows, rng)
    if law is None:
        f = drawn_responses(fit, rows, posterior, rng, restore=False)[0]
        law = NormalMixture(f, np.zeros_like(f))
        noise = _noise(fit, rows, posterior)
    else:
        noise = _noise(fit, rows, as_arrays(draws_of(fit, rows.task_names)))
    if len(law.mean) == 1:
        noise = noise[:1]
    sd = np.broadcast_to(np.sqrt(law.sd**2 + noise**2), law.mean.shape)
    return NormalMixture(law.mean, sd).restored(fit.data.transform)


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
    rows = fit.factory.prepare(fit.data, fit.population_data, fit.data)
    law = function_law(fit, rows, np.random.default_rng(0))
    if law is None or len(law.mean) > 1:
        return None
    y = fit.factory.validate_quietly(fit.data)
    variance = np.broadcast_to(_noise(fit, rows, as_arrays(draws_of(fit, rows.task_names)))[0] ** 2, y.shape)
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


def parameters_beside(fit: Fitted, rows: MultiTaskData, law: NormalMixture) -> dict[str, np.ndarray]:
    """Parameters of the likelihood beside each part of a law of f: of one part, those of the first draw."""
    own = as_arrays(draws_of(fit, rows.task_names))
    parameters = parameters_by_row(fit, rows, own, _size(own))
    return {name: v[:1] for name, v in parameters.items()} if len(law.mean) == 1 else parameters


def _size(posterior: Mapping[str, np.ndarray]) -> int:
    return int(np.prod(next(iter(posterior.values())).shape[:2]))


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
    law = None if new_task or likelihood.of_choices else function_law(fit, rows, rng)
    if law is None:
        f, y = drawn_responses(fit, rows, posterior, rng)
        result = NormalMixture(f, np.zeros_like(f)).summary(ci_prob)
        result["probability"] = class_probability(fit, rows, posterior, f, y).mean(axis=0)
    else:
        result = law.summary(ci_prob)
        parameters = parameters_beside(fit, rows, law)
        result["probability"] = expectation(
            lambda f: likelihood.probability(f, **parameters), law.mean, law.sd
        ).mean(axis=0)
    chosen = most_probable(rows, result["probability"]) if likelihood.of_choices else result["mean"]
    result["label"] = user_labels(fit, chosen)
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
    if law is None or len(law.mean) > 1:
        f, y = drawn_responses(fit, rows, posterior, rng)
        mean = mean_response(fit, rows, posterior, f, y)
    else:
        f, y = drawn_at_moments(fit, (law.mean[0], law.sd[0]), posterior, rng)
        mean = _mean_at(fit, rows, law)
    require_finite({"y": y})
    tail = (1.0 - ci_prob) / 2.0
    # Squares beyond all floats make an infinite sd, which the caller refuses.
    with np.errstate(over="ignore"):
        sd = y.std(axis=0)
    return {
        "mean": mean,
        "sd": sd,
        "lower": np.quantile(y, tail, axis=0),
        "upper": np.quantile(y, 1.0 - tail, axis=0),
    }


def _mean_at(fit: Fitted, rows: MultiTaskData, law: NormalMixture) -> np.ndarray:
    """Mean of y where f has one normal law at each row."""
    likelihood, transform = fit.factory.likelihood, fit.data.transform
    if type(likelihood).mean is Likelihood.mean:
        mean = law.mean[0]
    else:
        parameters = parameters_beside(fit, rows, law)
        mean = expectation(lambda f: likelihood.mean(f, **parameters), law.mean, law.sd)[0]
    return mean if transform is None else np.asarray(transform.restore_y(mean))
