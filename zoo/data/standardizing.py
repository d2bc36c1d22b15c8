r"""The location and scale by which ``MultiTaskData.standardize`` moves features and responses.

A feature :math:`u` becomes :math:`(u - m) / s`. That changes nothing of what a model can say, as long as a level goes
with the slope: :math:`w (u - m) = w u - w m`. Where a formula gives slopes to tasks and no level, as ``(0 + time |
patient)``, the functions of all tasks meet at :math:`u = 0`, and centred features would make them meet at the mean. So
such features are divided by their root mean square, and not centred; and where a formula has no constant at all, so is
all else, the response too.

Default priors are stated in the same units, whether the data were standardized or not: :func:`units_of` says which
location and scale they take of data that were not. There a level counts only where the data have a constant feature.
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
    lacks = isinstance(data.design, FormulaDesign)
    mean, scale, constant = _of_features(data, lacks)
    level = bool(constant.any()) or not lacks
    y_mean, y_scale = 0.0, 1.0
    different = len(np.unique(data.y))
    if (different != 2 and not data.grades) if y is None else y:
        y_mean, y_scale = _of_response(data, level)
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
    plain = Units.of_size(data.n_features)
    done = data.transform
    moved = done is not None and (done.y_mean != 0.0 or done.y_scale != 1.0)
    if (data.is_sparse and not data.effects) or (done is not None and (moved or not real)):
        return plain
    if data.weight is not None and not data.stands_for:  # a row counts so many times in the prior too
        data = replace(data, stands_for=1)
    mean, scale, constant = _of_features(data, True)
    y_mean, y_scale = (0.0, 1.0) if moved or not real else _of_response(data, bool(constant.any()))
    shared = set(data.shared_names)
    still = sorted(np.flatnonzero(constant), key=lambda i: data.feature_names[i] in shared)
    level = (int(still[0]), float(constant[still[0]])) if still else None
    mean, scale = (plain.x_mean, plain.x_scale) if done is not None else (mean, _or(np.abs(constant), scale))
    # A constant response has no spread: its own size is the unit then, if it has one.
    return Units(mean, scale, y_mean, y_scale or abs(y_mean) or 1.0, level)


def _or(values: np.ndarray, others: np.ndarray) -> np.ndarray:
    """Values where they are not 0, and others elsewhere."""
    return np.where(values != 0.0, values, others)


def _of_features(data: TaskRows, may_lack_level: bool) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Location and scale (D,) of the features, and the values of constant ones, 0 of others: a level goes with them.

    ``may_lack_level``: whether features stay where they are unless a constant one takes up their shift; else they are
    centred always.
    """
    effects = data.effects
    at = [i for i, name in enumerate(data.feature_names) if name not in effects]
    mean, scale = np.zeros(data.n_features), np.zeros(data.n_features)
    names = [data.feature_names[i] for i in at]
    columns = dense_columns(data.X, at)
    mean[at], scale[at] = location_and_scale(columns, names, "X", data.incomplete, _weight(data))
    left = scale == 0.0
    still = left & (mean != 0.0)
    constant = np.where(still, mean, 0.0)
    if may_lack_level:
        shared = set(data.shared_names)
        varying = np.array([name not in shared for name in data.feature_names], dtype=bool)
        level = bool(still.any())
        left_in_place = varying & (not still[varying].any()) | (not level)
        scale = np.where(left_in_place & ~left, np.hypot(mean, scale), scale)
        mean = np.where(left_in_place, 0.0, mean)
    return np.where(left, 0.0, mean), np.where(left, 1.0, scale), constant


def _of_response(data: TaskRows, level: bool) -> tuple[float, float]:
    """Location and scale of the response; without a level its root mean square, around 0."""
    mean, scale = (
        float(part[0]) for part in location_and_scale(data.y[:, None], ("y",), "y", weight=_weight(data))
    )
    return (mean, scale) if level or scale == 0.0 else (0.0, float(np.hypot(mean, scale)))


def _weight(data: TaskRows) -> np.ndarray | None:
    """How many rows each one stands for, where the data are a summary."""
    return data.weight if data.stands_for else None
