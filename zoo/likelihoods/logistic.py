"""Bernoulli likelihood with the logistic link."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_discrete_responses import (
    LogisticParameters,
    has_a_rare_label,
    logistic_draw,
    logistic_log_density,
    logistic_slopes,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law

__all__ = ["Logistic", "logistic"]


def logistic(f: np.ndarray) -> np.ndarray:
    """``1 / (1 + exp(-f))``, also where it is next to nothing; :func:`scipy.special.expit` takes twice as long."""
    with np.errstate(over="ignore"):
        result = np.asarray(np.exp(-np.asarray(f, dtype=np.float64)))
    result += 1.0
    return np.reciprocal(result, out=result)


@dataclass(frozen=True, kw_only=True, repr=False)
class Logistic(Likelihood):
    """Labels -1/+1 with probability ``1 / (1 + exp(-y f))``."""

    word: ClassVar[str] = "logistic"
    augmented: ClassVar[bool] = True
    responses: ClassVar[Literal["real", "labels", "counts"]] = "labels"

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        """``-log(1 + exp(-y f))``."""
        return -pt.softplus(-y * f)

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """A draw of y."""
        return pt.switch(pm.Uniform.dist(0.0, 1.0, size=size) < pt.sigmoid(f), 1.0, -1.0)

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
        return logistic(f)
