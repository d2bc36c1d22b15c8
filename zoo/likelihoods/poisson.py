"""Poisson likelihood: counts with the logarithmic link."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.weighted import observed

__all__ = ["Poisson"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Poisson(Likelihood):
    """Counts, ``y ~ Poisson(exp(f))``: mean and variance are ``exp(f)``."""

    word: ClassVar[str] = "poisson"
    responses: ClassVar[Literal["real", "labels", "counts"]] = "counts"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(pm.Poisson, y, weight, mu=pt.exp(f))

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``exp(f)``."""
        return np.exp(f)
