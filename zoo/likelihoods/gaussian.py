"""Gaussian likelihood, with one noise for all rows or one a task."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from zoo.checks import positive
from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood, learned_value
from zoo.likelihoods.weighted import observed

__all__ = ["Gaussian"]


@dataclass(frozen=True, kw_only=True)
class Gaussian(Likelihood):
    """Real responses, ``y ~ N(f, noise^2)``.

    Parameters
    ----------
    noise : float or None
        Standard deviation, above 0. None: the model's variable ``noise``.
    """

    weights: ClassVar[bool] = True
    noise: float | None = None

    def __post_init__(self) -> None:
        if self.noise is not None:
            positive(self.noise, "noise")

    @property
    def parameters(self) -> tuple[str, ...]:
        """The standard deviation, where it is the model's."""
        return ("noise",) if self.noise is None else ()

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Y as it is."""
        return data.y

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        noise = learned_value(self.noise, parameters.get("noise"), "noise")
        return observed(pm.Normal, y, weight, mu=f, sigma=noise)

    def normal_sd(self, **parameters: Any) -> np.ndarray | None:
        """The standard deviation."""
        return np.asarray(learned_value(self.noise, parameters.get("noise"), "noise"))
