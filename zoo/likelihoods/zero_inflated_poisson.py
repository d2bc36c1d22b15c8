"""Zero-inflated Poisson likelihood: counts with more zeros than a Poisson law has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.zero_inflated import inflated, inflated_information, inflated_random

__all__ = ["ZeroInflatedPoisson"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ZeroInflatedPoisson(Likelihood):
    r"""Counts that are 0 with probability :math:`\pi`, and else Poisson with mean :math:`\mu = e^f` (Lambert 1992).

    The mean of y is :math:`(1 - \pi) \mu`.

    Parameters
    ----------
    extra_zeros : float, "learned" or Law
        :math:`\pi`, between 0 and 1; its prior is a :class:`~zoo.likelihoods.laws.Beta` law.

    References
    ----------
    Lambert, D. (1992). Zero-inflated Poisson regression, with an application to defects in manufacturing.
    Technometrics 34, 1-14.
    """

    word: ClassVar[str] = "zero_inflated_poisson"
    responses: ClassVar[Literal["real", "labels", "counts"]] = "counts"
    parameter_names: ClassVar[tuple[str, ...]] = ("extra_zeros",)
    unit_parameters: ClassVar[tuple[str, ...]] = ("extra_zeros",)

    extra_zeros: float | str | Law = "learned"

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        """Log density of y."""
        mu = pt.exp(f)
        return inflated(y, -mu, y * f - mu - pt.gammaln(y + 1.0), **parameters)

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """A draw of y."""
        return inflated_random(pm.Poisson.dist(pt.exp(f), size=size), size=size, **parameters)

    def information(self, f: Any, **parameters: Any) -> Any:
        """Expected information: zeros make the log density convex in places."""
        return inflated_information(-pt.exp(f), pt.exp(f), **self.values_of(parameters))

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``(1 - extra_zeros) exp(f)``."""
        return np.asarray((1.0 - self.values_of(parameters)["extra_zeros"]) * np.exp(f))
