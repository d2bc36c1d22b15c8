"""The prior of Yu, Tresp & Schwaighofer (2005) of the mean of a population, which is tied to the covariance."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.core.shared import LEARNED
from zoo.inference.gibbs.mean_weight import RATE, SHAPE
from zoo.models.niw.base import NIWBase
from zoo.support.checks import positive

__all__ = ["TiedMean"]


@dataclass(frozen=True, kw_only=True)
class TiedMean(NIWBase):
    r"""The fields of :math:`\mu \mid C \sim N(0, C / \pi)`, and of EM under it; see :class:`zoo.NIWLinear`."""

    pi: float | str = 1.0
    tau: float | str = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.pi, str):
            if self.pi != LEARNED:
                raise ValueError(f"pi is {self.pi!r}. Give a number above 0, or {LEARNED!r}.")
            if self.names[1] in dict(self.own_priors):
                raise ValueError(
                    f"pi is {LEARNED!r}, and own_priors has a prior of {self.names[1]!r}, which does not read pi. "
                    "Leave one of the two out."
                )
        else:
            positive(self.pi, "pi")
        if not isinstance(self.tau, str) or self.tau != "prior":
            if isinstance(self.tau, str):
                raise ValueError(f'tau is {self.tau!r}. Give a number above 0, or "prior".')
            positive(self.tau, "tau")

    @property
    def learns_pi(self) -> bool:
        """Whether the weight of the prior of the mean is a variable of the posterior."""
        return isinstance(self.pi, str)

    def pi_of(self, values: Mapping[Any, Any]) -> Any:
        """The weight of the prior of the mean: that of ``values``, as of a posterior, where it is learned."""
        return values["pi"] if self.learns_pi else self.pi

    def _centre(self, chol: Any, white: Any) -> Any:
        """The mean in whitened features, made of standard normals; ``chol`` is a root of the covariance."""
        root = pt.sqrt(pm.Gamma("pi", alpha=SHAPE, beta=RATE)) if self.learns_pi else np.sqrt(self.pi)
        return chol @ white / root

    em_estimate: ClassVar[str] = (
        "the paper's penalised maximum likelihood, and the coefficients' posterior given it"
    )

    def em_penalty(self, rank: int) -> dict[str, Any]:
        """The penalty of the paper's M-step."""
        tau, weight = self.em_prior(rank)
        return {"pi": float(self.pi_of({})), "tau": tau, "scale": weight * np.eye(rank)}

    def em_prior(self, rank: int) -> tuple[float, float]:
        r"""EM's tau and the multiple of the identity that is its scale, for ``rank`` whitened features.

        The M-step (8) is the mode under the textbook :math:`\nu = \tau - r - 2` and scale :math:`\tau C_0`. With
        :math:`\nu = \delta + r - 1`, the prior of full Bayes is :math:`\tau = \delta + 2 r + 1` and scale :math:`C_0`.
        """
        if self.tau == "prior":
            return self.delta + 2.0 * rank + 1.0, 1.0
        return float(self.tau), float(self.tau)
