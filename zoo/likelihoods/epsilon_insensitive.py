r"""Epsilon-insensitive pseudo-likelihood of Li, Zhu & Chen (2014), section 5."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zoo.checks import not_negative, positive
from zoo.data import MultiTaskData
from zoo.distributions.epsilon_insensitive import (
    EpsilonInsensitivePseudoLikelihood,
    NormalisedEpsilonInsensitive,
    epsilon_insensitive_quantile,
)
from zoo.inference.augmentation import Augmentation
from zoo.inference.compiled import njit
from zoo.inference.draws import inverse_gaussians
from zoo.likelihoods.base import Likelihood, learned_value
from zoo.likelihoods.weighted import observed

__all__ = ["EpsilonInsensitive"]

_log = logging.getLogger("zoo")


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, weight, parameters, w, v):
    # li2014 eq (15): 1 / lambda and 1 / omega are inverse Gaussian with means 1 / (C |y - f -+ epsilon|).
    epsilon = parameters[1]
    for n in range(len(f)):
        C = parameters[0] * weight[n]
        w[n] = 1.0 / (C * abs(y[n] - f[n] - epsilon))
        v[n] = 1.0 / (C * abs(y[n] - f[n] + epsilon))
    inverse_gaussians(rng, w, w)
    inverse_gaussians(rng, v, v)
    for n in range(len(f)):
        square = (parameters[0] * weight[n]) ** 2
        above, below = w[n], v[n]
        w[n] = square * (above + below)
        v[n] = square * ((y[n] - epsilon) * above + (y[n] + epsilon) * below)


@njit(cache=True, nogil=True)
def _log_posterior_of_log_C(s, loss, rows, parameters):
    # Of log C under the normalised density C / (1 + 2 C epsilon) exp(-2 C loss_n), to the power of the weight of each
    # row, and log C ~ N(0, 1): `loss` and `rows` are sums over rows by their weights.
    C = np.exp(s)
    return rows * (s - np.log1p(2.0 * C * parameters[1])) - 2.0 * C * loss - 0.5 * s * s


@njit(cache=True, nogil=True)
def _update_C(rng, f, y, weight, parameters):
    """Slice-sampling update (Neal 2003) of the learned C given f."""
    loss = rows = 0.0
    for n in range(len(f)):
        rows += weight[n]
        loss += weight[n] * max(0.0, abs(y[n] - f[n]) - parameters[1])
    start = np.log(parameters[0])
    width = 2.0 / np.sqrt(rows)
    level = _log_posterior_of_log_C(start, loss, rows, parameters) - rng.standard_exponential()
    left = start - width * rng.random()
    right = left + width
    while _log_posterior_of_log_C(left, loss, rows, parameters) > level:
        left -= width
    while _log_posterior_of_log_C(right, loss, rows, parameters) > level:
        right += width
    while True:
        s = left + (right - left) * rng.random()
        if _log_posterior_of_log_C(s, loss, rows, parameters) > level:
            break
        if s < start:
            left = s
        else:
            right = s
    parameters[0] = np.exp(s)


@dataclass(frozen=True, kw_only=True)
class EpsilonInsensitive(Likelihood):
    r"""Real responses with :math:`\exp(-2C \max(0, |y - f| - \epsilon))`.

    Up to the constant :math:`2\epsilon + 1/C` this is a proper density in y, so simulation and predictive
    intervals follow it: the width of the intervals is set by ``C``.

    Parameters
    ----------
    C : float or None
        Weight of the loss, above 0; per unit of y, so standardize the data. None: the model's variable ``C``, under
        the normalised density.
    epsilon : float
        Half width of the tube without loss, 0 or more.
    """

    weights: ClassVar[bool] = True
    C: float | None = 1.0
    epsilon: float = 0.001

    def __post_init__(self) -> None:
        if self.C is not None:
            positive(self.C, "C")
        not_negative(self.epsilon, "epsilon")

    @property
    def parameters(self) -> tuple[str, ...]:
        """``C`` where it is learned."""
        return ("C",) if self.C is None else ()

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

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The (pseudo-)likelihood as an observed variable, so that pointwise log densities exist."""
        if self.C is None:
            return observed(
                NormalisedEpsilonInsensitive, y, weight, f=f, C=parameters["C"], epsilon=self.epsilon
            )
        return observed(EpsilonInsensitivePseudoLikelihood, y, weight, f=f, C=self.C, epsilon=self.epsilon)

    def log_density(self, f: np.ndarray, y: np.ndarray, C: Any = None) -> np.ndarray:
        """``-2C max(0, |y - f| - epsilon)``, without the constant."""
        return np.asarray(-2.0 * self._C(C) * np.maximum(0.0, np.abs(y - f) - self.epsilon))

    def _C(self, C: Any) -> Any:
        """The given C, or that of the fields."""
        return learned_value(self.C, C, "C")

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Draws of the normalised density."""
        return f + epsilon_insensitive_quantile(
            rng.uniform(-1.0, 1.0, f.shape), self._C(None), self.epsilon, np
        )

    def augmentation(self) -> Augmentation:
        """Two inverse-Gaussian weights a row, li2014 eqs (14) and (15)."""
        C = 1.0 if self.C is None else self.C
        update = _update_C if self.C is None else None
        return Augmentation(_augment, np.array([C, self.epsilon]), update=update)
