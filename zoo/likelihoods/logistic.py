"""Bernoulli likelihood with the logistic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from scipy.special import expit

from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood, encode_labels

__all__ = ["Logistic"]


@dataclass(frozen=True, kw_only=True)
class Logistic(Likelihood):
    """Labels -1/+1 with probability ``1 / (1 + exp(-y f))``."""

    labels: ClassVar[bool] = True

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Labels as -1/+1."""
        return encode_labels(data)

    def term(self, f: Any, y: Any, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return pm.CustomDist("y", f, logp=_logp, dist=_random, observed=y, dims="obs", class_name="Logistic")

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Probability of +1."""
        return expit(f)


def _logp(y, f):
    return -pt.softplus(-y * f)


def _random(f, size):
    return pt.switch(pm.Uniform.dist(0.0, 1.0, size=size) < pt.sigmoid(f), 1.0, -1.0)
