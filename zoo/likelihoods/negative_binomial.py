"""Negative binomial likelihood: counts that vary more than a Poisson law allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_discrete_responses import (
    NegativeBinomialLaws,
    NegativeBinomialParameters,
    negative_binomial_draw,
    negative_binomial_log_density,
    negative_binomial_update,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed

__all__ = ["NegativeBinomial"]


@dataclass(frozen=True, kw_only=True, repr=False)
class NegativeBinomial(Likelihood):
    r"""Counts with mean :math:`\mu = e^f` and variance :math:`\mu + \mu^2 / d`.

    Parameters
    ----------
    dispersion : float, "learned" or Law
        d: the smaller, the more the counts vary; as it grows, the law becomes Poisson.
    """

    word: ClassVar[str] = "negative_binomial"
    augmented: ClassVar[bool] = True
    responses: ClassVar[Literal["real", "labels", "counts"]] = "counts"
    parameter_names: ClassVar[tuple[str, ...]] = ("dispersion",)

    dispersion: float | str | Law = "learned"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        # PyTensor holds a number such as 50.0 in single precision, which shows in the log-gamma function.
        dispersion = pt.cast(self.values_of(parameters)["dispersion"], "float64")
        return observed(pm.NegativeBinomial, y, weight, mu=pt.exp(f), alpha=dispersion)

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """A Polya-Gamma variable per row (Polson, Scott & Windle 2013); the dispersion is drawn under the law."""
        functions = negative_binomial_draw, negative_binomial_update, negative_binomial_log_density
        return self._augmented(laws, n_tasks, NegativeBinomialParameters, NegativeBinomialLaws, *functions)

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``exp(f)``."""
        return np.exp(f)
