"""Negative binomial likelihood: counts that vary more than a Poisson law allows."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood, encode_counts
from zoo.likelihoods.weighted import observed

__all__ = ["NegativeBinomial"]


@dataclass(frozen=True, kw_only=True)
class NegativeBinomial(Likelihood):
    r"""Counts with mean :math:`\mu = e^f` and variance :math:`\mu + \mu^2 / d`.

    d is the model's variable ``dispersion``: the smaller, the more the counts vary; as it grows, the law becomes
    Poisson.
    """

    weights: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """The dispersion."""
        return ("dispersion",)

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Counts as they are; raises on anything else, and on counts that were standardized."""
        return encode_counts(data)

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        # PyTensor holds a number such as 50.0 in single precision, which shows in the log-gamma function.
        dispersion = pt.cast(parameters["dispersion"], "float64")
        return observed(pm.NegativeBinomial, y, weight, mu=pt.exp(f), alpha=dispersion)

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``exp(f)``."""
        return np.exp(f)
