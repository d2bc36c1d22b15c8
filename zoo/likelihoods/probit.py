"""Bernoulli likelihood with the probit link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import ndtr

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_probit import ProbitParameters, probit_draw, probit_log_density
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.ops.normal_interval import log_normal_cdf

__all__ = ["Probit"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Probit(Likelihood):
    r"""Labels -1/+1 with probability :math:`\Phi(y f)`: the label is the sign of f plus standard normal noise.

    Its tails are lighter than those of :class:`~zoo.Logistic`, so that a label on the wrong side weighs more. Method
    "gibbs" is that of Albert & Chib (1993), and takes no weights of rows.
    """

    word: ClassVar[str] = "probit"
    sticks_at_ends: ClassVar[bool] = True
    augmented: ClassVar[bool] = True
    augmented_weights: ClassVar[bool] = False
    responses: ClassVar[Literal["real", "labels", "counts"]] = "labels"

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        r"""Logarithm of :math:`\Phi(y f)`, with its digits and finite derivatives on both sides."""
        return log_normal_cdf(y * f)

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """Signs of normal variables around f."""
        return pt.switch(pm.Normal.dist(f, 1.0, size=size) > 0.0, 1.0, -1.0)

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """A truncated normal variable per row (Albert & Chib 1993)."""
        return Augmentation(probit_draw, ProbitParameters(), log_density=probit_log_density)

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Probability of +1."""
        return np.asarray(ndtr(f))
