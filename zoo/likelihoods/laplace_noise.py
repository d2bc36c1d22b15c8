"""Laplace likelihood: real responses whose median is f."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pymc as pm

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_real_responses import (
    LaplaceLaws,
    LaplaceParameters,
    laplace_draw,
    laplace_log_density,
    laplace_update,
)
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.laws import Law
from zoo.likelihoods.weighted import observed

__all__ = ["LaplaceNoise"]


@dataclass(frozen=True, kw_only=True, repr=False)
class LaplaceNoise(Likelihood):
    r"""Real responses with density :math:`e^{-|y - f| / \sigma} / (2 \sigma)`: regression by least absolute deviations.

    Tails are heavier than Gaussian and lighter than those of :class:`~zoo.StudentT`. The density has a corner at f, so
    that Laplace's method, which has nothing but the name in common, is not offered.

    Parameters
    ----------
    noise : float, "learned" or Law
        :math:`\sigma`, the mean of abs(y - f); the standard deviation of y around f is 1.41 times as large.
    """

    word: ClassVar[str] = "laplace_noise"
    smooth: ClassVar[bool] = False
    augmented: ClassVar[bool] = True
    parameter_names: ClassVar[tuple[str, ...]] = ("noise",)
    in_units_of_y: ClassVar[dict[str, int]] = {"noise": 1}

    noise: float | str | Law = "learned"

    def term(self, f: Any, y: Any, weight: Any = None, **parameters: Any) -> Any:
        """The likelihood as an observed variable."""
        return observed(pm.Laplace, y, weight, mu=f, b=self.values_of(parameters)["noise"])

    def augmentation(self, laws: Mapping[str, Law], n_tasks: int) -> Augmentation:
        """An inverse Gaussian variable per row makes it Gaussian; the noise is drawn under the law itself."""
        functions = laplace_draw, laplace_update, laplace_log_density
        return self._augmented(laws, n_tasks, LaplaceParameters, LaplaceLaws, *functions)
