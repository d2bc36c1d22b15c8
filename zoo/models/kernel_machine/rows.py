"""Rows of a kernel machine, and its functions at new rows given those at the rows of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.linalg import cho_factor, cho_solve

from zoo.core.drawn import as_arrays
from zoo.core.predictive import at_draws
from zoo.data.multitask import MultiTaskData
from zoo.kernels.basis import distinct_rows
from zoo.kernels.evaluate import fixed_number
from zoo.latent.function_conditional import JITTER, covariance_root

if TYPE_CHECKING:
    from zoo.core.fit import Fit
    from zoo.core.hooks import ModelData

__all__ = ["KernelRows", "conditional_function", "function_moments", "kernel_rows"]

# Distinct new rows up to which their functions are drawn jointly: time grows with their cube.
_JOINT = 500


@dataclass(frozen=True, eq=False)
class KernelRows(MultiTaskData):
    """Rows with their distinct inputs [x, task]; ``known``, for rows to predict: the rows of the fit."""

    known: KernelRows | None = None

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        points, position = distinct_rows(np.column_stack([self.X, self.task.astype(np.float64)]))
        return points, position

    @property
    def points(self) -> np.ndarray:
        """Distinct rows [x, task], (n, D + 1), in the order of their first appearance."""
        return self._distinct[0]

    @property
    def point(self) -> np.ndarray:
        """Which of them each row is, (N,)."""
        return self._distinct[1]


def kernel_rows(data: MultiTaskData, known: MultiTaskData | None) -> KernelRows:
    """The data as :class:`KernelRows`."""
    if isinstance(data, KernelRows) and known is None:
        return data
    own = None if known is None else kernel_rows(known, None)
    return data.seen_as(KernelRows, known=own)


def conditional_function(rows: KernelRows, priors: dict[str, Any]) -> Any:
    r"""Functions at new rows, a draw of each given the function values f at the points of the fit.

    Mean :math:`K_* K^{-1} f` and covariance :math:`K_{**} - K_* K^{-1} K_*'`, jointly for up to 500 distinct rows and
    for each row alone beyond that. Of a kernel of numbers the factors are constants.
    """
    assert rows.known is not None
    joint = len(rows.points) <= _JOINT
    mean, root = _law(rows, priors, joint)
    # No variable of the model: every draw has its own.
    white = pm.Normal.dist(0.0, 1.0, size=len(rows.points))
    # A mode has no spread: the posterior says 0 there.
    scale = priors["amplitude"] * pm.Deterministic("innovation", pt.constant(1.0))
    return (mean + scale * (pt.dot(root, white) if joint else root * white))[rows.point]


def function_moments(fit: Fit, rows: KernelRows) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (S, n) of the same at each row alone, given each draw of a fit; a mode has no spread.

    By the graph of the hooks, so that a covariance function of the user's own counts.
    """

    def law(data: ModelData, priors: dict[str, Any]) -> list[Any]:
        mean, sd = _law(data.source, priors, joint=False)  # type: ignore[arg-type]
        return [mean[rows.point], (priors["amplitude"] * sd)[rows.point]]

    draws = as_arrays(fit.posterior)
    mean, sd = at_draws(fit.factory, rows, draws, law)
    return mean, np.zeros_like(sd) if fit.is_point else sd


def _law(rows: KernelRows, priors: dict[str, Any], joint: bool) -> tuple[Any, Any]:
    """Mean (m,) at the distinct new rows; in units of the amplitude a root of the covariance (m, m), or sd (m,)."""
    kernel, f = priors["kernel"], priors["function_values"]
    assert rows.known is not None
    old, new = pt.constant(rows.known.points), pt.constant(rows.points)
    parts = [kernel(old), kernel(new, old), kernel(new) if joint else kernel(new, diag=True)]
    numbers: list[Any] = [fixed_number(part) for part in parts]
    if all(number is not None for number in numbers):
        weights, spread = _conditional_numbers(numbers[0], numbers[1], numbers[2], joint)
        return pt.dot(pt.constant(weights), f), pt.constant(spread)
    K, cross, own = parts
    L = pt.linalg.cholesky(_regular(K))
    half = pt.linalg.solve_triangular(L, cross.T, lower=True)
    mean = pt.dot(half.T, pt.linalg.solve_triangular(L, f, lower=True))
    if joint:
        return mean, pt.linalg.cholesky(_regular(own - pt.dot(half.T, half), pt.trace(own)))
    return mean, pt.sqrt(pt.maximum(own - pt.sum(half**2, axis=0), 0.0))


def _regular(K: Any, total: Any = None) -> Any:
    """The matrix with a little on its diagonal, in units of its own trace or of ``total``."""
    size = K.shape[0]
    return K + JITTER * (pt.trace(K) if total is None else total) / size * pt.eye(size)


def _conditional_numbers(
    K: np.ndarray, cross: np.ndarray, own: np.ndarray, joint: bool
) -> tuple[np.ndarray, np.ndarray]:
    """Weights of f in the mean, and a root of the covariance (m, m), or standard deviations (m,)."""
    factor = cho_factor(K + JITTER * np.mean(np.diag(K)) * np.eye(len(K)))
    weights = cho_solve(factor, cross.T).T
    if not joint:
        return weights, np.sqrt(np.maximum(own - np.sum(weights * cross, axis=1), 0.0))
    return weights, covariance_root(own - weights @ cross.T)
