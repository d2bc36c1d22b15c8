"""Bernoulli likelihood with the logistic link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit

from zoo.inference.augmentation import Augmentation
from zoo.inference.augmented_discrete_responses import (
    LogisticParameters,
    has_a_rare_label,
    logistic_draw,
    logistic_log_density,
    logistic_slopes,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed

__all__ = ["Logistic"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Logistic(Likelihood):
    """Labels -1/+1 with probability ``1 / (1 + exp(-y f))``."""

    word: ClassVar[str] = "logistic"
    augmented: ClassVar[bool] = True
    responses: ClassVar[Literal["real", "labels", "counts"]] = "labels"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(_Bernoulli, y, weight, f=f)

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """A Polya-Gamma variable per row (Polson, Scott & Windle 2013)."""
        return Augmentation(
            logistic_draw,
            LogisticParameters(),
            log_density=logistic_log_density,
            slopes=logistic_slopes,
            crawls=has_a_rare_label,
        )

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Probability of +1."""
        return expit(f)


def _logp(y, f):
    return -pt.softplus(-y * f)


def _random(f, size):
    return pt.switch(pm.Uniform.dist(0.0, 1.0, size=size) < pt.sigmoid(f), 1.0, -1.0)


class _Bernoulli:
    """The law of labels, with the two ways in which PyMC makes a variable of it."""

    def __new__(cls, name: str, f: Any, **kwargs: Any) -> Any:
        return pm.CustomDist(name, f, logp=_logp, dist=_random, class_name="Logistic", **kwargs)

    @staticmethod
    def dist(f: Any, **kwargs: Any) -> Any:
        """Unregistered variable."""
        return pm.CustomDist.dist(f, logp=_logp, dist=_random, class_name="Logistic", **kwargs)
