"""Rows of a varying-coefficient model: standardized features with the constant one before them, and standardized t."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.inference.weighted_moments import weighted_mean, weighted_sd
from zoo.kernels.basis import distinct_rows
from zoo.models.kernel_machine.rows import KernelRows

__all__ = ["INTERCEPT", "Scale", "VaryingRows", "constant_name", "varying_rows"]

INTERCEPT = "intercept"


def constant_name(feature_names: tuple[str, ...]) -> str:
    """Name of the constant feature among others: in brackets where the data have one called "intercept"."""
    return f"({INTERCEPT})" if INTERCEPT in feature_names and feature_names[0] != INTERCEPT else INTERCEPT


class Scale(NamedTuple):
    """Location and scale of the features (D,), of t (P,), and of real responses, all of the fitted rows."""

    x_mean: np.ndarray
    x_scale: np.ndarray
    t_mean: np.ndarray
    t_scale: np.ndarray
    y_mean: float
    y_scale: float


@dataclass(frozen=True, eq=False)
class VaryingRows(KernelRows):
    """Rows as the model sees them; ``known``, for rows to predict: those of the fit."""

    scale: Scale | None = None

    @cached_property
    def _distinct(self) -> tuple[np.ndarray, np.ndarray]:
        columns = [self.X, self.times, self.task[:, None].astype(np.float64)]
        points, position = distinct_rows(np.column_stack(columns))
        return points, position

    @property
    def total_weight(self) -> float:
        """Sum of the weights of the rows; their number where they have none."""
        return float(self.n_rows if self.weight is None else self.weight.sum())

    @property
    def times(self) -> np.ndarray:
        """Standardized t, (N, P); without columns where the data have none."""
        return np.empty((self.n_rows, 0)) if self.t is None else self.t

    @property
    def fitted(self) -> VaryingRows:
        """The rows of the fit, which are these or those that they are predicted from."""
        known: Any = self.known
        return self if known is None else known


def scale_of(data: MultiTaskData, standardize: bool, intercept: bool, real: bool) -> Scale:
    """Locations and scales of the rows of a fit, by their weights.

    A constant feature becomes 0 where the model has an intercept, and stays as it is where it has none.
    """
    X, h = np.asarray(data.X), data.weight
    t = np.empty((data.n_rows, 0)) if data.t is None else data.t
    x_mean, x_scale = np.zeros(X.shape[1]), np.ones(X.shape[1])
    t_mean, t_scale = np.zeros(t.shape[1]), np.ones(t.shape[1])
    constant = np.ptp(X, axis=0) == 0.0
    if standardize:
        moves = ~constant if not intercept else np.ones(len(constant), dtype=bool)
        x_mean = np.where(moves, weighted_mean(X, h), 0.0)
        x_mean[constant & moves] = X[0, constant & moves]
        x_scale = np.where(constant, 1.0, weighted_sd(X, h))
        t_mean, t_scale = weighted_mean(t, h), np.where(np.ptp(t, axis=0) == 0.0, 1.0, weighted_sd(t, h))
    if not intercept and standardize:
        x_mean = np.zeros(X.shape[1])  # without a constant, moving the features would change the model
    y_mean = float(weighted_mean(data.y, h)) if real else 0.0
    spread = float(weighted_sd(data.y, h)) if real else 1.0
    return Scale(x_mean, x_scale, t_mean, t_scale, y_mean, spread if spread > 0.0 else 1.0)


def _with_constant(names: tuple[str, ...]) -> tuple[str, ...]:
    return (f"({INTERCEPT})" if INTERCEPT in names else INTERCEPT, *names)


def varying_rows(
    data: MultiTaskData, known: MultiTaskData | None, standardize: bool, intercept: bool, real: bool
) -> VaryingRows:
    """The data as :class:`VaryingRows`, on the scale of ``known``, or else their own."""
    if isinstance(data, VaryingRows):
        return data
    fitted = None if known is None else varying_rows(known, None, standardize, intercept, real)
    scale = scale_of(data, standardize, intercept, real) if fitted is None else fitted.scale
    assert scale is not None
    X = (np.asarray(data.X) - scale.x_mean) / scale.x_scale
    if intercept:
        X = np.column_stack([np.ones(len(X)), X])
    return data.seen_as(
        VaryingRows,
        inputs=X,
        row=np.arange(data.n_rows),
        feature_names=_with_constant(data.feature_names) if intercept else data.feature_names,
        t=None if data.t is None else (data.t - scale.t_mean) / scale.t_scale,
        known=fitted,
        scale=scale,
    )
