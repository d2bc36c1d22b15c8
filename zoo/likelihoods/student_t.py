"""Student-t likelihood: real responses with outliers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from zoo.data import MultiTaskData
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.weighted import observed

__all__ = ["StudentT"]


@dataclass(frozen=True, kw_only=True)
class StudentT(Likelihood):
    """Real responses, ``y = f + noise * t`` with ``t`` of ``degrees`` degrees of freedom; the model knows both."""

    weights: ClassVar[bool] = True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Scale and degrees of freedom."""
        return ("noise", "degrees")

    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Y as it is."""
        return data.y

    def information(self, f: Any, **parameters: Any) -> Any:
        r"""Expected information :math:`(\nu + 1) / ((\nu + 3) \sigma^2)`: the log density is not concave."""
        degrees = parameters["degrees"]
        return (degrees + 1.0) / ((degrees + 3.0) * parameters["noise"] ** 2)

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(pm.StudentT, y, weight, nu=parameters["degrees"], mu=f, sigma=parameters["noise"])
