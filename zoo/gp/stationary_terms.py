"""Covariance functions of PyMC that are sums of scalars times stationary kernels, as the arrays of compiled code."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.latent.vecchia_terms import CONSTANT, KINDS, LINEAR, Terms

__all__ = ["Stationary", "stationary_terms"]

_KERNELS: dict[type, tuple[int, float]] = {
    # The code of the correlation, and what the lengthscale is times that of PyMC.
    pm.gp.cov.Matern12: (KINDS["matern12"], 1.0),
    pm.gp.cov.Exponential: (KINDS["matern12"], 2.0),
    pm.gp.cov.Matern32: (KINDS["matern32"], 1.0),
    pm.gp.cov.Matern52: (KINDS["matern52"], 1.0),
    pm.gp.cov.ExpQuad: (KINDS["squared_exponential"], 1.0),
}


class Stationary(NamedTuple):
    """A covariance as arrays, and its parameters."""

    terms: Terms
    theta: Any
    """(Q,) tensor: the logarithms that ``terms`` points to."""


def stationary_terms(function: Any) -> Stationary | None:
    """The arrays of a covariance function of PyMC, or None where it is of another kind.

    What serves: ``Matern12``, ``Matern32``, ``Matern52``, ``Exponential`` and ``ExpQuad`` over any columns, constants,
    these times scalars, and sums of all this. Subclasses may compute anything, and are of another kind.
    """
    parts = _parts(function)
    if parts is None:
        return None
    theta: list[Any] = []
    kind, columns, column, lengthscale, amplitude = [], [0], [], [], []
    for scale, kernel in parts:
        theta.append(0.5 * pt.log(pt.as_tensor(scale, dtype="float64")))
        amplitude.append(len(theta) - 1)
        if kernel is None:
            kind.append(CONSTANT)
        else:
            code, factor = _KERNELS[type(kernel)]
            kind.append(code)
            logs = pt.log(factor * kernel.ls)
            own = [logs] if kernel.ls.ndim == 0 else [logs[j] for j in range(kernel.n_dims)]
            for j, at in enumerate(kernel.active_dims):
                column.append(int(at))
                lengthscale.append(len(theta) + (j if len(own) > 1 else 0))
            theta += own
        columns.append(len(column))
    C = len(kind)
    terms = Terms(
        kind=np.array(kind, dtype=np.int64),
        columns=np.array(columns, dtype=np.int64),
        column=np.array(column, dtype=np.int64),
        lengthscale=np.array(lengthscale, dtype=np.int64),
        features=np.arange(C + 1),
        feature=np.zeros(C, dtype=np.int64),
        amplitude=np.array(amplitude, dtype=np.int64),
        shared=np.ones(C, dtype=bool),
        instance=LINEAR,
        instance_lengthscale=np.empty(0, dtype=np.int64),
        noise=0,
    )
    return Stationary(terms, pt.stack([pt.cast(v, "float64") for v in theta]))


def _parts(function: Any) -> list[tuple[Any, Any]] | None:
    """Scalars with the kernels that they multiply, or with None for a constant."""
    if type(function) in _KERNELS:
        usual = function.ls.ndim == 0 or (
            function.ls.ndim == 1 and function.ls.type.shape[0] == function.n_dims
        )
        return [(1.0, function)] if usual else None
    if type(function) is pm.gp.cov.Constant or not isinstance(function, pm.gp.cov.BaseCovariance):
        value = pt.as_tensor(function.c if isinstance(function, pm.gp.cov.Constant) else function)
        return [(value, None)] if value.ndim == 0 else None
    if type(function) not in (pm.gp.cov.Add, pm.gp.cov.Prod):
        return None
    factors = [_parts(factor) for factor in function._factor_list]
    if any(factor is None for factor in factors):
        return None
    known = [factor for factor in factors if factor is not None]
    if type(function) is pm.gp.cov.Add:
        return [part for factor in known for part in factor]
    product: list[tuple[Any, Any]] = [(1.0, None)]
    for factor in known:
        if all(kernel is not None for _, kernel in product) and any(
            kernel is not None for _, kernel in factor
        ):
            return None  # a product of two kernels
        product = [(a * b, first or second) for a, first in product for b, second in factor]
    return product
