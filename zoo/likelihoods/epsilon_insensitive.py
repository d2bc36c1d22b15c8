r"""Epsilon-insensitive pseudo-likelihood of Li, Zhu & Chen (2014), section 5."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.distributions.epsilon_insensitive import (
    EpsilonInsensitivePseudoLikelihood,
    epsilon_insensitive_quantile,
)
from zoo.inference.draws import inverse_gaussians
from zoo.likelihoods.base import Augmentation, Likelihood

__all__ = ["EpsilonInsensitive"]

_log = logging.getLogger("zoo")


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, parameters, w, v):
    # li2014 eq (15): 1 / lambda and 1 / omega are inverse Gaussian with means 1 / (C |y - f -+ epsilon|).
    C, epsilon = parameters[0], parameters[1]
    for n in range(len(f)):
        w[n] = 1.0 / (C * abs(y[n] - f[n] - epsilon))
        v[n] = 1.0 / (C * abs(y[n] - f[n] + epsilon))
    inverse_gaussians(rng, w, w)
    inverse_gaussians(rng, v, v)
    for n in range(len(f)):
        above, below = w[n], v[n]
        w[n] = C * C * (above + below)
        v[n] = C * C * ((y[n] - epsilon) * above + (y[n] + epsilon) * below)


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
        return EpsilonInsensitivePseudoLikelihood("y", f, self.C, self.epsilon, observed=y, dims="obs")

    def log_density(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``-2C max(0, |y - f| - epsilon)``, without the constant."""
        return -2.0 * self.C * np.maximum(0.0, np.abs(y - f) - self.epsilon)

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws of the normalised density."""
        return f + epsilon_insensitive_quantile(rng.uniform(-1.0, 1.0, f.shape), self.C, self.epsilon, np)

    def augmentation(self) -> Augmentation:
        """Two inverse-Gaussian weights a row, li2014 eqs (14) and (15)."""
        return Augmentation(_augment, np.array([self.C, self.epsilon]))
