"""Gaussian likelihood, with one noise for all rows or one a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.weighted import observed

__all__ = ["Gaussian"]


@dataclass(frozen=True, kw_only=True)
class Gaussian(Likelihood):
    """Real responses, ``y ~ N(f, noise^2)`` with the model's variable ``noise`` (a standard deviation)."""

    weights: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """The standard deviation."""
        return ("noise",)

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Y as it is."""
        return data.y

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(pm.Normal, y, weight, mu=f, sigma=parameters["noise"])
