"""What the tests of distributions share: derivatives by differences, and moments with stated alarms."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pymc as pm
from scipy import stats


def log_jacobian(function: Callable[[np.ndarray], np.ndarray], at: np.ndarray) -> float:
    """Log absolute determinant of the derivative of a function R^n -> R^n, by central differences."""
    steps = 1e-5 * np.maximum(1.0, np.abs(at))
    columns = [
        (function(at + step * e) - function(at - step * e)) / (2 * step)
        for step, e in zip(steps, np.eye(len(at)), strict=True)
    ]
    return float(np.linalg.slogdet(np.array(columns).T)[1])


def unconstrained(model: pm.Model, name: str) -> tuple[Callable, Callable, Callable]:
    """Functions of the unconstrained vector of a variable: its value, log density with and without Jacobian."""
    rv = model[name]
    value = model.rvs_to_values[rv]
    back = model.rvs_to_transforms[rv].backward(value, *rv.owner.inputs)
    outputs = [
        back,
        model.logp(vars=[rv], sum=False)[0],
        model.logp(vars=[rv], sum=False, jacobian=False)[0],
    ]
    compiled = pm.compile([value], outputs, on_unused_input="ignore")
    return tuple(lambda u, i=i: compiled(u)[i] for i in range(3))  # type: ignore[return-value]


def assert_moments(draws: np.ndarray, mean: np.ndarray, variance: np.ndarray, alarm: float = 1e-5) -> None:
    """Means of independent draws (axis 0) against exact means and variances.

    Null: the moments are right. Two-sided normal tests of the means, Bonferroni over entries, so that the whole
    comparison raises a false alarm at the stated rate.
    """
    z = (draws.mean(axis=0) - mean) / np.sqrt(np.maximum(variance, 1e-300) / len(draws))
    limit = stats.norm.isf(alarm / 2 / z.size)
    assert np.max(np.abs(z)) < limit, f"largest z {np.max(np.abs(z)):.1f} above {limit:.1f}"
