r"""Hinge pseudo-likelihood of Li, Zhu & Chen (2014), eq (3): :math:`\exp(-2C \max(0, m - y f))`."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from scipy.special import expit

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.distributions.hinge import HingePseudoLikelihood, NormalisedHinge
from zoo.inference.augmentation import Augmentation
from zoo.inference.compiled import njit
from zoo.inference.draws import inverse_gaussians
from zoo.likelihoods.base import Likelihood, encode_labels, learned_value
from zoo.likelihoods.weighted import observed

__all__ = ["Hinge"]


@njit(cache=True, nogil=True, error_model="numpy")
def _augment(rng, f, y, weight, parameters, w, v):
    # 1 / lambda_n ~ inverse Gaussian(mean 1 / (C |m - y f|), shape 1): li2014 eq (10).
    # Expanding -(C (m - y f) + lambda)^2 / (2 lambda) in f gives the weight and the linear term.
    margin = parameters[1]
    for n in range(len(f)):
        w[n] = 1.0 / (parameters[0] * weight[n] * abs(margin - y[n] * f[n]))
    inverse_gaussians(rng, w, w)
    for n in range(len(f)):
        C = parameters[0] * weight[n]
        v[n] = C * y[n] * (C * margin * w[n] + 1.0)
        w[n] *= C * C


def _hinges(y: np.ndarray, parameters: np.ndarray) -> np.ndarray:
    return np.array([np.full_like(y, parameters[1]), y])


@dataclass(frozen=True, kw_only=True)
class Hinge(Likelihood):
    r"""Labels -1/+1 under the hinge loss.

    Its density is a pseudo-likelihood: it does not sum to one over the labels. Where a proper density is
    needed (simulation, class probability) the normalised form
    :math:`p(y \mid f) = e^{-2C \max(0, m - yf)} / \sum_{y'} e^{-2C \max(0, m - y'f)}` is used.

    Parameters
    ----------
    C : float or None
        Weight of the loss, above 0. None: the model's variable ``C``, under the normalised form, which alone can tell
        one C from another.
    margin : float
        ``m`` (the paper's t or, in its text, the cost of a wrong prediction), above 0.
    """

    labels: ClassVar[bool] = True
    weights: ClassVar[bool] = True
    C: float | None = 1.0
    margin: float = 1.0

    def __post_init__(self) -> None:
        if self.C is not None:
            positive(self.C, "C")
        positive(self.margin, "margin")

    @property
    def parameters(self) -> tuple[str, ...]:
        """``C`` where it is learned."""
        return ("C",) if self.C is None else ()

    @property
    def generative(self) -> bool:
        """Only in its normalised form: over the two labels the pseudo-likelihood sums to a function of f."""
        return self.C is None

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Labels as -1/+1."""
        return encode_labels(data)

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The (pseudo-)likelihood as an observed variable, so that pointwise log densities exist."""
        if self.C is None:
            return observed(NormalisedHinge, y, weight, f=f, C=parameters["C"], margin=self.margin)
        return observed(HingePseudoLikelihood, y, weight, f=f, C=self.C, margin=self.margin)

    def log_density(self, f: np.ndarray, y: np.ndarray, C: Any = None) -> np.ndarray:
        """``-2C max(0, m - y f)``."""
        return np.asarray(-2.0 * learned_value(self.C, C, "C") * np.maximum(0.0, self.margin - y * f))

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Normalised probability of +1."""
        C = parameters.get("C")
        return expit(self.log_density(f, np.ones(()), C) - self.log_density(f, -np.ones(()), C))

    def simulate(self, f: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Labels from the normalised form."""
        return np.where(rng.random(f.shape) < self.probability(f), 1.0, -1.0)

    def augmentation(self) -> Augmentation | None:
        """Inverse-Gaussian weights, li2014 eqs (7) and (10); none for the normalised form."""
        return None if self.C is None else Augmentation(_augment, np.array([self.C, self.margin]), _hinges)
