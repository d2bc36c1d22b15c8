"""Zero-inflated negative binomial likelihood: counts with more spread, and more zeros, than a Poisson law has."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.zero_inflated import inflated, inflated_information, inflated_random

__all__ = ["ZeroInflatedNegativeBinomial"]


@dataclass(frozen=True, kw_only=True, repr=False)
class ZeroInflatedNegativeBinomial(Likelihood):
    r"""Counts that are 0 with probability :math:`\pi`, and else as those of :class:`~zoo.NegativeBinomial`.

    These have mean :math:`\mu = e^f` and variance :math:`\mu + \mu^2 / d`. The mean of y is :math:`(1 - \pi) \mu`. A
    small dispersion d makes zeros too, so that few data tell the two parameters apart poorly.

    Parameters
    ----------
    dispersion : float, "learned" or Law
        d, above 0.
    extra_zeros : float, "learned" or Law
        :math:`\pi`, between 0 and 1; its prior is a :class:`~zoo.likelihoods.laws.Beta` law.
    """

    word: ClassVar[str] = "zero_inflated_negative_binomial"
    responses: ClassVar[Literal["real", "labels", "counts"]] = "counts"
    parameter_names: ClassVar[tuple[str, ...]] = ("dispersion", "extra_zeros")
    unit_parameters: ClassVar[tuple[str, ...]] = ("extra_zeros",)

    dispersion: float | str | Law = "learned"
    extra_zeros: float | str | Law = "learned"

    def log_density(self, f: Any, y: Any, **parameters: Any) -> Any:
        """Log density of y."""
        # PyTensor holds a number such as 50.0 in single precision, which shows in the log-gamma function.
        d = pt.cast(parameters["dispersion"], "float64")
        excess = pt.softplus(f - pt.log(d))  # the logarithm of 1 + mu / d
        ways = pt.gammaln(y + d) - pt.gammaln(d) - pt.gammaln(y + 1.0)
        count = ways + y * (f - pt.log(d)) - (y + d) * excess
        return inflated(y, -d * excess, count, parameters["extra_zeros"])

    def random(self, f: Any, size: Any, **parameters: Any) -> Any:
        """A draw of y."""
        count = pm.NegativeBinomial.dist(mu=pt.exp(f), alpha=parameters["dispersion"], size=size)
        return inflated_random(count, parameters["extra_zeros"], size)

    def information(self, f: Any, **parameters: Any) -> Any:
        """Expected information: zeros make the log density convex in places."""
        d, extra_zeros = self.values_of(parameters).values()
        d = pt.cast(d, "float64")
        own = d * pt.sigmoid(f - pt.log(d))
        return inflated_information(-d * pt.softplus(f - pt.log(d)), own, extra_zeros)

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """``(1 - extra_zeros) exp(f)``."""
        return np.asarray((1.0 - self.values_of(parameters)["extra_zeros"]) * np.exp(f))
