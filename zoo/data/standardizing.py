r"""The location and scale by which ``MultiTaskData.standardize`` moves features and responses.

A feature :math:`u` becomes :math:`(u - m) / s`. That changes nothing of what a model can say, as long as a level goes
with the slope: :math:`w (u - m) = w u - w m`. Where a formula gives slopes to tasks and no level, as ``(0 + time |
patient)``, the functions of all tasks meet at :math:`u = 0`, and centred features would make them meet at the mean. So
such features are divided by their root mean square, and not centred; and where a formula has no constant at all, so is
all else, the response too.
"""

from __future__ import annotations

import numpy as np

from zoo.data.formula import FormulaDesign
from zoo.data.further_groups import dense_columns
from zoo.data.rows import TaskRows, Transform, location_and_scale

__all__ = ["transform_of"]


def transform_of(data: TaskRows, y: bool | None) -> Transform:
    """The transform of dense features, and of the response where ``y`` says so, or None and it holds real numbers.

    Raises
    ------
    ValueError
        A value is too large to reckon with, or the response is constant.
    """
    effects = data.effects
    at = [i for i, name in enumerate(data.feature_names) if name not in effects]
    mean, scale = np.zeros(data.n_features), np.zeros(data.n_features)
    names = [data.feature_names[i] for i in at]
    weight = data.weight if data.stands_for else None
    mean[at], scale[at] = location_and_scale(dense_columns(data.X, at), names, "X", data.incomplete, weight)
    still, left = (scale == 0.0) & (mean != 0.0), scale == 0.0
    level = True
    if isinstance(data.design, FormulaDesign):
        shared = set(data.shared_names)
        varying = np.array([name not in shared for name in data.feature_names])
        level = bool(still.any())
        left_in_place = varying & (not still[varying].any()) | (not level)
        scale = np.where(left_in_place & ~left, np.hypot(mean, scale), scale)
        mean = np.where(left_in_place, 0.0, mean)
    mean, scale = np.where(left, 0.0, mean), np.where(left, 1.0, scale)
    y_mean, y_scale = 0.0, 1.0
    different = len(np.unique(data.y))
    if (different != 2 and not data.grades) if y is None else y:
        of_y = location_and_scale(data.y[:, None], ("y",), "y", weight=weight)
        y_mean, y_scale = float(of_y[0][0]), float(of_y[1][0])
        if y_scale == 0.0:
            raise ValueError("y is constant. There is nothing to learn: check the response column.")
        if not level:
            y_mean, y_scale = 0.0, float(np.hypot(y_mean, y_scale))
    return Transform(mean, scale, y_mean, y_scale)
