"""Poisson likelihood: counts with the logarithmic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood, encode_counts

__all__ = ["Poisson"]


@dataclass(frozen=True, kw_only=True)
class Poisson(Likelihood):
    """Counts, ``y ~ Poisson(exp(f))``: mean and variance are ``exp(f)``."""

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Counts as they are; raises on anything else, and on counts that were standardized."""
        return encode_counts(data)

    def term(self, f: Any, y: Any, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return pm.Poisson("y", pt.exp(f), observed=y, dims="obs")

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``exp(f)``."""
        return np.exp(f)
