"""Gaussian likelihood, with one noise for all rows or one per task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pymc as pm

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_real_responses import (
    GaussianLaws,
    GaussianParameters,
    gaussian_draw,
    gaussian_log_density,
    gaussian_update,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed

__all__ = ["Gaussian"]


@dataclass(frozen=True, kw_only=True, repr=False)
class Gaussian(Likelihood):
    """Real responses, ``y ~ N(f, noise^2)``.

    Parameters
    ----------
    noise : float, "learned" or Law
        Standard deviation: a number above 0; the model's variable ``noise``, with the prior that the
        factory has for it; or with a prior of your own.
    per_task : sequence of str
        ``("noise",)`` for a noise of its own for every task.
    """

    word: ClassVar[str] = "gaussian"
    augmented: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("noise",)
    in_units_of_y: ClassVar[dict[str, int]] = {"noise": 1}

    noise: float | str | Law = "learned"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(pm.Normal, y, weight, mu=f, sigma=self.values_of(parameters)["noise"])

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """The Gaussian itself, whose noise is drawn given f."""
        functions = gaussian_draw, gaussian_update, gaussian_log_density
        return self._augmented(laws, n_tasks, GaussianParameters, GaussianLaws, *functions)

    def normal_sd(self, **parameters: Any) -> np.ndarray | None:
        """The standard deviation."""
        return np.asarray(self.values_of(parameters)["noise"])
