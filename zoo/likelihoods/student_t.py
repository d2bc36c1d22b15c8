"""Student-t likelihood: real responses with outliers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_real_responses import (
    StudentTLaws,
    StudentTParameters,
    student_t_draw,
    student_t_log_density,
    student_t_update,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed

__all__ = ["FEWEST_DEGREES", "StudentT"]

FEWEST_DEGREES = 0.04
"""With fewer degrees of freedom draws of y, or their squares, leave float64."""


@dataclass(frozen=True, kw_only=True, repr=False)
class StudentT(Likelihood):
    """Real responses, ``y = f + noise * t`` with ``t`` of ``degrees`` degrees of freedom.

    Parameters
    ----------
    noise, degrees : float, "learned" or Law
        Scale, and degrees of freedom of the law: a number above 0; the model's variable with the
        prior that the factory has for it; or with a prior of your own.
    """

    word: ClassVar[str] = "student_t"
    augmented: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("noise", "degrees")
    in_units_of_y: ClassVar[dict[str, int]] = {"noise": 1}

    noise: float | str | Law = "learned"
    degrees: float | str | Law = "learned"

    def information(self, f: Any, **parameters: Any) -> Any:
        r"""Expected information :math:`(\nu + 1) / ((\nu + 3) \sigma^2)`: the log density is not concave."""
        noise, degrees = self.values_of(parameters).values()
        return (degrees + 1.0) / ((degrees + 3.0) * noise**2)

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        noise, degrees = self.values_of(parameters).values()
        return observed(pm.StudentT, y, weight, nu=degrees, mu=f, sigma=noise)

    def why_infinite(self, **parameters: Any) -> str:
        r"""Degrees of freedom so few that the square of a draw leaves float64 about once in a million times.

        :math:`P(|t| > x)` falls as :math:`x^{-\nu}`, and the largest float is :math:`10^{308}`.
        """
        least = float(np.min(self.values_of(parameters)["degrees"]))
        if least >= FEWEST_DEGREES:
            return ""
        return (
            f"the degrees of freedom of Student's t are as few as {least:.2g}, and draws of y are then beyond all "
            "floats. If they are learned, look at fit.diagnostics() first; a number, likelihood=zoo.StudentT(degrees=4)"
            ", holds them."
        )

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """A gamma variable per row makes it Gaussian; noise and degrees are drawn under the law itself."""
        functions = student_t_draw, student_t_update, student_t_log_density
        return self._augmented(laws, n_tasks, StudentTParameters, StudentTLaws, *functions)
