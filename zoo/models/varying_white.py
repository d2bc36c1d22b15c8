"""The white variables that make the functions of a varying-coefficient model, seen given normal responses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.distributions.conditioned_normal import conditioned_normal
from zoo.likelihoods.gaussian import Gaussian
from zoo.model_data import ModelData
from zoo.models.varying_kernel import VaryingKernel

if TYPE_CHECKING:
    from zoo.models.varying_coefficient import VaryingCoefficientGP

__all__ = ["white_values", "white_weights"]

# Weights up to which a factor of their precision costs less than the longer paths of a sampler without it.
_MOST_FACTORISED = 1000


def white_values(factory: VaryingCoefficientGP, data: ModelData, root: Any, noise: Any) -> Any:
    """Variable (point,) whose product with ``root`` (point, point) are the functions at the points."""
    if not _normal(factory):
        return pm.Normal("_values", dims="point")
    rows, centred = _responses(factory, data)
    counts = np.bincount(rows.point).astype(np.float64)
    sums = pt.inc_subtensor(pt.zeros(len(counts))[rows.point], centred)
    gram = pt.dot(root.T, pt.constant(counts)[:, None] * root)
    return conditioned_normal("_values", gram, pt.dot(root.T, sums), noise, "point")


def white_weights(
    factory: VaryingCoefficientGP, data: ModelData, kernel: VaryingKernel, scales: Any, noise: Any
) -> Any:
    """Variable (basis,) whose product with ``scales`` (basis,) are the weights of the features."""
    if not _normal(factory) or kernel.n_weights > _MOST_FACTORISED:
        return pm.Normal("_weights", dims="basis")
    rows, centred = _responses(factory, data)
    features = kernel.features(rows, slice(0, rows.n_rows))
    gram = scales[:, None] * pt.constant(features.T @ features) * scales
    moment = scales * pt.dot(pt.constant(features).T, centred)
    return conditioned_normal("_weights", gram, moment, noise, "basis")


def _normal(factory: VaryingCoefficientGP) -> bool:
    return type(factory.observation) is Gaussian


def _responses(factory: VaryingCoefficientGP, data: ModelData) -> tuple[Any, Any]:
    """Rows of the fit and their responses without the offset: in the model of the fit its data, else numbers."""
    rows: Any = data.source
    y = data.y if rows.known is None else pt.constant(rows.fitted.y)
    return rows.fitted, y - factory.offset(rows)
