r"""The location and scale by which ``MultiTaskData.standardize`` moves features and responses.

A feature :math:`u` becomes :math:`(u - m) / s`. That changes nothing of what a model can say, as long as a level goes
with the slope: :math:`w (u - m) = w u - w m`. Where a formula gives slopes to tasks and no level, as ``(0 + time |
patient)``, the functions of all tasks meet at :math:`u = 0`, and centred features would make them meet at the mean. So
such features are divided by their root mean square, and not centred; and where a formula has no constant at all, so is
all else, the response too.

Default priors are stated in the same units, whether the data were standardized or not: :func:`units_of` says which
location and scale they take of data that were not. There a level counts only where every task has one, by a constant
feature of its own: else features and response are divided by their root mean squares, and not centred. Weights of rows
count there, since a row of weight 2 is two rows.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zoo.data.formula import FormulaDesign
from zoo.data.further_groups import dense_columns
from zoo.data.rows import TaskRows, Transform, location_and_scale
from zoo.data.units import Units

__all__ = ["transform_of", "units_of"]


def transform_of(data: TaskRows, y: bool | None) -> Transform:
    """The transform of dense features, and of the response where ``y`` says so, or None and it holds real numbers.

    Raises
    ------
    ValueError
        A value is too large to reckon with, or the response is constant.
    """
    mean, scale = _location_and_scale(data, _weight(data))
    still, left, level = (scale == 0.0) & (mean != 0.0), scale == 0.0, True
    if isinstance(data.design, FormulaDesign):
        varying = _varying(data)
        level = bool(still.any())
        left_in_place = varying & (not still[varying].any()) | (not level)
        scale = np.where(left_in_place & ~left, np.hypot(mean, scale), scale)
        mean = np.where(left_in_place, 0.0, mean)
    mean, scale = np.where(left, 0.0, mean), np.where(left, 1.0, scale)
    y_mean, y_scale = 0.0, 1.0
    different = len(np.unique(data.y))
    if (different != 2 and not data.grades) if y is None else y:
        y_mean, y_scale = _of_response(data, level, _weight(data))
        if y_scale == 0.0:
            raise ValueError("y is constant. There is nothing to learn: check the response column.")
    return Transform(mean, scale, y_mean, y_scale)


def units_of(data: TaskRows, real: bool) -> Units:
    """The location and scale in which default priors are stated: 0 and 1 of what was standardized already.

    Parameters
    ----------
    data : TaskRows
        Rows as users hand them in.
    real : bool
        Whether the likelihood is one of real responses, which have a unit; labels, counts and grades have none.
    """
    D, done = data.n_features, data.transform
    moved = done is not None and (done.y_mean != 0.0 or done.y_scale != 1.0)
    if (data.is_sparse and not data.effects) or (done is not None and not real):
        return Units.of_size(D)
    mean, scale, constant, value = _of_features_with_level(data)
    if moved:
        return replace(Units.of_size(D), level=(constant, value) if constant >= 0 else None)
    y_mean, y_scale = (0.0, 1.0) if not real else _of_response(data, constant >= 0, data.weight)
    if done is not None:
        mean, scale = np.zeros(D), np.ones(D)
    elif constant >= 0:
        scale[constant] = abs(value)
    # A constant response has no spread: its own size is the unit then, if it has one.
    y_size = np.array([y_scale or abs(y_mean) or 1.0])
    scale, y_size = _rounded(scale, scale), _rounded(y_size, y_size)
    mean, y_level = _rounded(mean, scale), _rounded(np.array([y_mean]), y_size)
    level = (constant, value) if constant >= 0 else None
    return Units(mean, scale, float(y_level[0]), float(y_size[0]), level)


def _rounded(values: np.ndarray, size: np.ndarray) -> np.ndarray:
    """Values to twelve digits of ``size``, so that units do not depend on the order in which rows are summed."""
    digits = 10.0 ** (11.0 - np.floor(np.log10(size)))
    return np.asarray(np.rint(values * digits) / digits)


def _of_features_with_level(data: TaskRows) -> tuple[np.ndarray, np.ndarray, int, float]:
    """Location and scale (D,) of the features; position and value of the constant one that takes up their shift."""
    mean, scale = _location_and_scale(data, data.weight)
    left = scale == 0.0
    constants = np.flatnonzero(left & (mean != 0.0) & _varying(data))
    constant = int(constants[0]) if len(constants) else -1
    value = float(mean[constant]) if constant >= 0 else 1.0
    scale = np.where(left, 1.0, scale if constant >= 0 else np.hypot(mean, scale))
    return np.where(left | (constant < 0), 0.0, mean), scale, constant, value


def _location_and_scale(data: TaskRows, weight: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (D,) of the features; 0 of levels of further groups, which keep their unit."""
    effects = data.effects
    at = [i for i, name in enumerate(data.feature_names) if name not in effects]
    mean, scale = np.zeros(data.n_features), np.zeros(data.n_features)
    names = [data.feature_names[i] for i in at]
    whole = isinstance(data.X, np.ndarray) and len(at) == data.n_features
    columns = data.X if whole else dense_columns(data.X, at)
    mean[at], scale[at] = location_and_scale(
        columns, names, "X", data.incomplete, None if data.incomplete else weight
    )
    return mean, scale


def _varying(data: TaskRows) -> np.ndarray:
    """Which features (D,) have a coefficient of their own in every task."""
    shared = set(data.shared_names)
    return np.array([name not in shared for name in data.feature_names], dtype=bool)


def _of_response(data: TaskRows, level: bool, weight: np.ndarray | None) -> tuple[float, float]:
    """Location and scale of the response; without a level its root mean square, around 0."""
    mean, scale = (float(part[0]) for part in location_and_scale(data.y[:, None], ("y",), "y", weight=weight))
    return (mean, scale) if level or scale == 0.0 else (0.0, float(np.hypot(mean, scale)))


def _weight(data: TaskRows) -> np.ndarray | None:
    """How many rows each one stands for, where the data are a summary."""
    return data.weight if data.stands_for else None
