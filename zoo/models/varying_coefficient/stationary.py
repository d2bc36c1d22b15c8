"""Stationary covariances by their words: values, and spectral densities."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["has_density", "log_density", "squared_distances", "stationary"]

_SMOOTHNESS = {"matern12": 0.5, "matern32": 1.5, "matern52": 2.5}
_TINY = 1e-280
# Added to squared distances in lengthscales, so that their root has a derivative.
_NEAR = 1e-24
# Squares of r below which Matern 3/2 and 5/2 are their Taylor polynomials, right to 1e-15 there.
_TAYLOR = 1e-5


def stationary(word: str, square: Any, products: bool = False) -> Any:
    """The covariance that a word names, of squared distances in lengthscales.

    Written out, and not PyMC's: near places have exact distances, and there is a derivative at distance 0.

    Parameters
    ----------
    products : bool
        Whether distances are made of products of features, so that those of a row to itself are rounding. PyTensor then
        sums apart the parts of the derivative, which are of the size of 1 / r each and cancel at distance 0. So Matern
        3/2 and 5/2 are written there in a form that takes a little longer, in which they do not.
    """
    if word == "squared_exponential":
        return pt.exp(-0.5 * square)
    scaled = 2.0 * _SMOOTHNESS[word] * square
    root = float(np.sqrt(2.0 * _SMOOTHNESS[word])) * pt.sqrt(square + _NEAR)
    if word == "matern12":
        return pt.exp(-root)
    r = pt.sqrt(pt.maximum(scaled, _TAYLOR)) if products else root
    far = (1.0 + r if word == "matern32" else 1.0 + r + pt.square(r) / 3.0) * pt.exp(-r)
    if not products:
        return far
    if word == "matern32":
        near = 1.0 - scaled * (0.5 - root / 3.0 + scaled / 8.0 - scaled * root / 30.0)
    else:
        near = 1.0 - scaled * (1.0 / 6.0 - scaled / 24.0 + scaled * root / 45.0)
    return pt.switch(scaled < _TAYLOR, near, far)


def squared_distances(t: Any, s: Any, columns: list[int], lengthscale: Any) -> Any:
    """In lengthscales, (n, m), column by column: of few columns one pass over the matrix, once compiled."""
    terms = [
        pt.square((t[:, column][:, None] - s[:, column][None, :]) / lengthscale[i])
        for i, column in enumerate(columns)
    ]
    return sum(terms[1:], terms[0])


def has_density(kernel: Any) -> bool:
    """Whether PyMC's spectral density serves: of stationary covariances over all columns, multiples and sums."""
    cov = pm.gp.cov
    factors = getattr(kernel, "_factor_list", None)
    if factors is None:
        known = getattr(type(kernel), "power_spectral_density", cov.Stationary.power_spectral_density)
        own = known is not cov.Stationary.power_spectral_density
        return own and len(kernel.active_dims) == kernel.input_dim
    covariances = [factor for factor in factors if isinstance(factor, cov.BaseCovariance)]
    if isinstance(kernel, cov.Add):  # a number that is added would be a density of its own, that of noise
        right = len(covariances) == len(factors)
    else:
        right = isinstance(kernel, cov.Prod) and len(covariances) == 1
    return right and all(has_density(factor) for factor in covariances)


def log_density(word: str, omega: Any, lengthscale: Any, P: int) -> Any:
    """Logarithm of the spectral density of a unit covariance at frequencies (m, P)."""
    from scipy.special import gammaln

    square = pt.sum(pt.square(omega * lengthscale), axis=1)
    volume = pt.sum(pt.log(lengthscale))
    if word == "squared_exponential":
        return 0.5 * P * np.log(2.0 * np.pi) + volume - 0.5 * square
    nu = _SMOOTHNESS[word]
    constant = P * np.log(2.0) + 0.5 * P * np.log(np.pi) + gammaln(nu + 0.5 * P) - gammaln(nu)
    return float(constant + nu * np.log(2.0 * nu)) + volume - (nu + 0.5 * P) * pt.log(2.0 * nu + square)
