"""The steps of a sweep that draw learned scales of features, for kernels of populations.

:mod:`zoo.inference.gibbs.feature_scales` has the model and the two draws.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.inference.gibbs.collapsed_regression import Reflections
from zoo.inference.gibbs.feature_scales import (
    draw_scales,
    interwoven_scales,
    scaled_sums,
    scales_given_whitened,
    whiten,
)
from zoo.inference.gibbs.population_steps import Tasks

__all__ = ["ScaleSteps"]


class ScaleSteps:
    """What :class:`~zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel` does with scales."""

    if TYPE_CHECKING:
        scale_sd: float | None
        mean_sd: float | None
        nu: float
        shared: Any

        @property
        def _unscaled(self) -> tuple[np.ndarray, Reflections | None]: ...
        @property
        def _tasks(self) -> Tasks: ...
        def _follow_shared(self, state: dict[str, Any]) -> None: ...
        def _enter(self, s: dict[str, Any]) -> tuple[Tasks, np.ndarray]: ...
        def _leave(self, s: dict[str, Any]) -> None: ...

    def _follow_scales(self, state: dict[str, Any]) -> None:
        """Make the basis, and what is made of the inputs, again from those of scales of 1: no rounding adds up."""
        half, reflections = self._unscaled
        state["basis"][:] = half * state["scales"]
        if self.mean_sd is not None:
            state["own"][:] = (state["scales"] / self.mean_sd) ** 2
        if reflections is not None:
            state["reflections"] = reflections.scaled(state["scales"])
        self._scale_sums(state)

    def _scale_sums(self, state: dict[str, Any]) -> None:
        """Make the sums over rows again."""
        scaled_sums(self._tasks, state["scales"], state["tasks"])
        if self.shared is not None:
            self._follow_shared(state)

    def _interweave_scales(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """:meth:`_draw_scales` and :meth:`_draw_scales_again` in one call, for sums over rows that fit the state."""
        if self.scale_sd is not None:
            own = self.mean_sd is not None
            now = (s["W"], s["mu"], s["P"], s["C"], s["inverse_noise"], s["scales"])
            seen = s["around"] if own else s["tasks"]
            interwoven_scales(rng, s["tasks"], seen, *now, float(self.scale_sd), float(self.nu), own)
            self._follow_scales(s)

    def _draw_scales(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """Scales of features given coefficients and covariance."""
        if self.scale_sd is not None:
            self._whiten_by(s, draw_scales(rng, s["P"], s["scales"], float(self.scale_sd), float(self.nu)))

    def _whiten_by(self, s: dict[str, Any], factor: np.ndarray) -> None:
        """Coefficients and covariance stay the same, and are whitened by scales ``factor`` (D,) times as large."""
        whiten(s["W"], s["mu"], s["P"], s["C"], factor)
        s["scales"] *= factor
        self._follow_scales(s)

    def _draw_scales_again(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """The same given whitened coefficients, for sums over rows without the part of shared coefficients."""
        if self.scale_sd is not None:
            tasks, _ = self._enter(s)
            now = (tasks, s["W"], s["inverse_noise"], s["scales"])
            factor = scales_given_whitened(rng, *now, float(self.scale_sd))
            s["scales"] *= factor
            if self.mean_sd is not None:
                s["mu"] /= factor  # a mean of its own stays where it is
            self._leave(s)
            self._follow_scales(s)
