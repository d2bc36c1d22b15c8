"""Rows of a kernel machine, and its functions at new rows given those at the rows of the fit."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.linalg import cho_factor, cho_solve

from zoo.data import MultiTaskData
from zoo.kernels.basis import distinct_rows
from zoo.kernels.evaluate import fixed_number

__all__ = ["KernelRows", "conditional_function", "kernel_rows"]

# Of the mean variance, on the diagonal of the covariance at the rows of the fit.
_JITTER = 1e-10


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
    return KernelRows(
        inputs=data.inputs,
        row=data.row,
        y=data.y,
        task=data.task,
        task_names=data.task_names,
        feature_names=data.feature_names,
        t=data.t,
        transform=data.transform,
        weight=data.weight,
        known=None if known is None else kernel_rows(known, None),
    )


def conditional_function(rows: KernelRows, priors: dict[str, Any]) -> Any:
    r"""Functions at new rows, a draw of each given the function values f at the points of the fit.

    :math:`K_* K^{-1} f + z \sqrt{k_{**} - K_* K^{-1} K_*'}` with one standard normal z a draw: right for each row, not
    for several jointly. Of a kernel of numbers the factors are constants.
    """
    kernel, amplitude, f = priors["kernel"], priors["amplitude"], priors["function_values"]
    assert rows.known is not None
    old, new = pt.constant(rows.known.points), pt.constant(rows.points)
    K, cross, diagonal = kernel(old), kernel(new, old), kernel(new, diag=True)
    numbers = [fixed_number(part) for part in (K, cross, diagonal)]
    if all(number is not None for number in numbers):
        weights, sd = _conditional_numbers(*numbers)  # type: ignore[arg-type]
        mean, sd = pt.dot(pt.constant(weights), f), pt.constant(sd)
    else:
        size = len(rows.known.points)
        L = pt.linalg.cholesky(K + _JITTER * pt.trace(K) / size * pt.eye(size))
        half = pt.linalg.solve_triangular(L, cross.T, lower=True)
        mean = pt.dot(half.T, pt.linalg.solve_triangular(L, f, lower=True))
        sd = pt.sqrt(pt.maximum(diagonal - pt.sum(half**2, axis=0), 0.0))
    innovation = pm.Normal("innovation")
    return (mean + amplitude * sd * innovation)[rows.point]


def _conditional_numbers(
    K: np.ndarray, cross: np.ndarray, diagonal: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    factor = cho_factor(K + _JITTER * np.mean(np.diag(K)) * np.eye(len(K)))
    weights = cho_solve(factor, cross.T).T
    return weights, np.sqrt(np.maximum(diagonal - np.sum(weights * cross, axis=1), 0.0))
