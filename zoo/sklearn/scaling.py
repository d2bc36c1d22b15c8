"""Data as an estimator hands them to its factory: standardized, with a constant if need be."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from zoo.core.factory import ModelFactory
from zoo.core.shared import SharedCoefficients
from zoo.data.multitask import MultiTaskData
from zoo.data.rows import Transform
from zoo.inference.weighted_moments import weighted_mean, weighted_sd

__all__ = ["needs_constant", "standardized"]

# Of its mean: a standard deviation below it is rounding, of a constant column.
_ROUNDING = 1e-12


def standardized(data: MultiTaskData, responses: str) -> MultiTaskData:
    """Data with features, and real responses, at mean 0 and standard deviation 1.

    Weights count here, unlike in :meth:`zoo.MultiTaskData.standardize`: to scikit-learn a row of
    weight 2 is the row twice.
    """
    scale_y = responses == "real" and bool(np.ptp(data.y) > 0.0)
    plain = data.standardize(y=scale_y)
    if data.weight is None:
        return plain
    x_mean, x_scale = _moments(data.X, data.weight)
    y_mean, y_scale = (part[0] for part in _moments(data.y[:, None], data.weight)) if scale_y else (0.0, 1.0)
    transform = Transform(x_mean, x_scale, float(y_mean), float(y_scale))
    return replace(
        data, inputs=transform.apply_x(data.inputs), y=transform.apply_y(data.y), transform=transform
    )


def needs_constant(factory: ModelFactory, data: MultiTaskData, name: str) -> bool:
    """Whether the model has a coefficient for each feature, and no constant of its own.

    Models of functions, and those that add a constant themselves, need none. ``name`` is that of the constant.
    """
    if isinstance(factory, SharedCoefficients) and not set(data.feature_names) - set(
        factory.shared_features(data)
    ):
        # Tasks have nothing of their own yet, which the model refuses: their levels are looked at with the constant.
        data = data.add_intercept(name)
    y = factory.validate_quietly(data)
    prepared = factory.design(data)
    dims: dict[str, Any] = factory.variable_dims(prepared, y)
    if "feature" not in dims.get("coefficients", ()):
        return False
    # Features whose coefficient all tasks share are set apart, and are no constant.
    shared = () if prepared.shared is None else prepared.shared_names
    own = tuple(name for name in data.feature_names if name not in shared)
    return tuple(factory.coords(prepared)["feature"]) == own


def _moments(values: np.ndarray, weight: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation of each column; 0 and 1 of one that is constant."""
    mean, scale = weighted_mean(values, weight), weighted_sd(values, weight)
    constant = scale <= _ROUNDING * np.abs(mean)
    return np.where(constant, 0.0, mean), np.where(constant, 1.0, scale)
