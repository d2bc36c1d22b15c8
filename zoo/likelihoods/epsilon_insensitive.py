r"""Epsilon-insensitive pseudo-likelihood of Li, Zhu & Chen (2014), section 5."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from numba import njit

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.inference.draws import inverse_gaussian
from zoo.likelihoods.base import Augmentation, Likelihood

__all__ = ["EpsilonInsensitive"]

_log = logging.getLogger("zoo")


@njit(cache=True, nogil=True)
def _precision(rng, slack):
    return inverse_gaussian(rng, 1.0 / slack if slack > 0.0 else np.inf)


@njit(cache=True, nogil=True)
def _augment(rng, f, y, parameters, w, v):
    # li2014 eq (15): 1 / lambda and 1 / omega are inverse Gaussian with means 1 / (C |y - f -+ epsilon|).
    C, epsilon = parameters[0], parameters[1]
    for n in range(len(f)):
        gap = y[n] - f[n]
        above = _precision(rng, C * abs(gap - epsilon))
        below = _precision(rng, C * abs(gap + epsilon))
        w[n] = C * C * (above + below)
        v[n] = C * C * ((y[n] - epsilon) * above + (y[n] + epsilon) * below)


def _logp(y, f, C, epsilon):
    return -2.0 * C * pt.maximum(0.0, pt.abs(y - f) - epsilon)


def _quantile(xp, u, C, epsilon):
    # Inverse of the distribution function of y - f at probability (1 + u) / 2: the density is flat inside the
    # tube, with mass q = 2 epsilon / (2 epsilon + 1 / C), and exponential of rate 2C outside.
    q = 2.0 * epsilon / (2.0 * epsilon + 1.0 / C)
    tail = epsilon - xp.log1p(-xp.maximum(xp.abs(u) - q, 0.0) / (1.0 - q)) / (2.0 * C)
    return xp.sign(u) * xp.where(xp.abs(u) < q, xp.abs(u) * (epsilon + 0.5 / C), tail)


def _random(f, C, epsilon, size):
    return f + _quantile(pt, pm.Uniform.dist(-1.0, 1.0, size=size), C, epsilon)


@dataclass(frozen=True, kw_only=True)
class EpsilonInsensitive(Likelihood):
    r"""Real responses with :math:`\exp(-2C \max(0, |y - f| - \epsilon))`.

    Up to the constant :math:`2\epsilon + 1/C` this is a proper density in y, so simulation and predictive
    intervals follow it: the width of the intervals is set by ``C`` and is not learned.

    Parameters
    ----------
    C : float
        Weight of the loss, above 0; per unit of y, so standardize the data.
    epsilon : float
        Half width of the tube without loss, 0 or more.
    """

    C: float = 1.0
    epsilon: float = 0.001

    def __post_init__(self) -> None:
        positive(self.C, "C")
        if self.epsilon != 0:
            positive(self.epsilon, "epsilon")

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Return y as it is; log a line where its scale makes C mean something else than it seems."""
        spread = float(np.std(data.y))
        if data.transform is None and not 0.2 < spread < 5.0:
            _log.warning(
                "y has standard deviation %.3g, and C and epsilon are in its units: "
                "data.standardize() puts it at 1 (predictions come back on your scale).",
                spread,
            )
        return data.y

    def term(self, f: Any, y: Any, **parameters: Any) -> Any:
        """The pseudo-likelihood as an observed variable, so that pointwise log densities exist."""
        return pm.CustomDist(
            "y", f, self.C, self.epsilon, logp=_logp, dist=_random, observed=y, dims="obs",
            class_name="EpsilonInsensitive",
        )  # fmt: skip

    def log_density(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``-2C max(0, |y - f| - epsilon)``, without the constant."""
        return -2.0 * self.C * np.maximum(0.0, np.abs(y - f) - self.epsilon)

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws of the normalised density."""
        return f + _quantile(np, rng.uniform(-1.0, 1.0, f.shape), self.C, self.epsilon)

    def augmentation(self) -> Augmentation:
        """Two inverse-Gaussian weights a row, li2014 eqs (14) and (15)."""
        return Augmentation(_augment, np.array([self.C, self.epsilon]))
