r"""Hinge pseudo-likelihood of Li, Zhu & Chen (2014), eq (3): :math:`\exp(-2C \max(0, m - y f))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numba import njit
from scipy.special import expit

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.distributions.hinge import HingePseudoLikelihood
from zoo.inference.draws import inverse_gaussians
from zoo.likelihoods.base import Augmentation, Likelihood, encode_labels

__all__ = ["Hinge"]


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, parameters, w, v):
    # 1 / lambda_n ~ inverse Gaussian(mean 1 / (C |m - y f|), shape 1): li2014 eq (10).
    # Expanding -(C (m - y f) + lambda)^2 / (2 lambda) in f gives the weight and the linear term.
    C, margin = parameters[0], parameters[1]
    for n in range(len(f)):
        w[n] = 1.0 / (C * abs(margin - y[n] * f[n]))
    inverse_gaussians(rng, w, w)
    for n in range(len(f)):
        v[n] = C * y[n] * (C * margin * w[n] + 1.0)
        w[n] *= C * C


@dataclass(frozen=True, kw_only=True)
class Hinge(Likelihood):
    r"""Labels -1/+1 under the hinge loss.

    Its density is a pseudo-likelihood: it does not sum to one over the labels. Where a proper density is
    needed (simulation, class probability) the normalised form
    :math:`p(y \mid f) = e^{-2C \max(0, m - yf)} / \sum_{y'} e^{-2C \max(0, m - y'f)}` is used.

    Parameters
    ----------
    C : float
        Weight of the loss, above 0.
    margin : float
        ``m`` (the paper's t or, in its text, the cost of a wrong prediction), above 0.
    """

    labels: ClassVar[bool] = True
    C: float = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        positive(self.C, "C")
        positive(self.margin, "margin")

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Labels as -1/+1."""
        return encode_labels(data)

    def term(self, f: Any, y: Any, **parameters: Any) -> Any:
        """The pseudo-likelihood as an observed variable, so that pointwise log densities exist."""
        return HingePseudoLikelihood("y", f, self.C, self.margin, observed=y, dims="obs")

    def log_density(self, f: np.ndarray, y: np.ndarray) -> np.ndarray:
        """``-2C max(0, m - y f)``."""
        return -2.0 * self.C * np.maximum(0.0, self.margin - y * f)

    def probability(self, f: np.ndarray) -> np.ndarray:
        """Normalised probability of +1."""
        return expit(self.log_density(f, np.ones(())) - self.log_density(f, -np.ones(())))

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Labels from the normalised form."""
        return np.where(rng.random(f.shape) < self.probability(f), 1.0, -1.0)

    def augmentation(self) -> Augmentation:
        """Inverse-Gaussian weights, li2014 eqs (7) and (10)."""
        return Augmentation(_augment, np.array([self.C, self.margin]))
