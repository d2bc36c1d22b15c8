"""The white variables that make the functions of a varying-coefficient model, seen given normal responses."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.core.hooks import ModelData
from zoo.distributions.conditioned_normal import conditioned_normal
from zoo.likelihoods.gaussian import Gaussian
from zoo.models.varying_coefficient.covariance import VaryingKernel
from zoo.models.varying_coefficient.description import VaryingDescription

__all__ = ["white_values", "white_weights"]

# Weights up to which their precision is factorised in every step: beyond that steps without cost far less.
_MOST_FACTORISED = 300


def white_values(factory: VaryingDescription, data: ModelData, root: Any, noise: Any) -> Any:
    """Variable (point,) whose product with ``root`` (point, point) are the functions at the points."""
    if not _conditions(factory, data, noise):
        return pm.Normal("_values", dims="point")
    rows: Any = data.source
    counts = np.bincount(rows.point, rows.weight).astype(np.float64)
    residual = data.y - factory.offset(rows)
    if rows.weight is not None:
        residual = rows.weight * residual
    sums = pt.inc_subtensor(pt.zeros(len(counts), dtype="float64")[rows.point], residual)
    gram = pt.dot(root.T, pt.constant(counts)[:, None] * root)
    return conditioned_normal("_values", gram, pt.dot(root.T, sums), noise, "point")


def white_weights(
    factory: VaryingDescription, data: ModelData, kernel: VaryingKernel, scales: Any, noise: Any
) -> Any:
    """Variable (basis,) whose product with ``scales`` (basis,) are the weights of the features."""
    if kernel.n_weights > _MOST_FACTORISED or not _conditions(factory, data, noise):
        return pm.Normal("_weights", dims="basis")
    rows: Any = data.source
    features = kernel.features(rows, slice(0, rows.n_rows))
    weighted = features if rows.weight is None else rows.weight[:, None] * features
    gram = scales[:, None] * pt.constant(weighted.T @ features) * scales
    moment = scales * pt.dot(pt.constant(weighted).T, data.y - factory.offset(rows))
    return conditioned_normal("_weights", gram, moment, noise, "basis")


def _conditions(factory: VaryingDescription, data: ModelData, noise: Any) -> bool:
    """Whether these are the rows of the fit, and their responses normal with one noise."""
    fitted = data.source.known is None  # type: ignore[attr-defined]
    return fitted and type(factory.likelihood) is Gaussian and noise is not None and np.ndim(noise) == 0
