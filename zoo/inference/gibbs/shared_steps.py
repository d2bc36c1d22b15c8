"""The step of a sweep that draws shared coefficients, for kernels of populations.

:mod:`zoo.inference.gibbs.shared_coefficients` has the model. Where the shared features come as a sparse matrix, a row
has a few of very many, and :mod:`zoo.inference.gibbs.many_shared` takes the joint draw.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from scipy.sparse import issparse

from zoo.inference.gibbs.level_scales import draw_level_scale
from zoo.inference.gibbs.many_shared import ManySums
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.shared_coefficients import SharedFeatures
from zoo.inference.gibbs.shared_sums import SharedSums

__all__ = ["SharedSteps"]


class SharedSteps:
    """What :class:`~zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel` does with them."""

    if TYPE_CHECKING:
        shared: SharedFeatures | None
        scale_sd: float | None
        row: np.ndarray
        y: np.ndarray
        task: np.ndarray
        weight: np.ndarray | None
        n_tasks: int

        def _law_of_mean(self, s: dict[str, Any]) -> MeanLaw: ...

    @property
    def _many(self) -> bool:
        """Whether the shared features are many, of which a row has a few."""
        return self.shared is not None and issparse(self.shared.rows)

    def _begin_shared(self, state: dict[str, Any], inputs: np.ndarray) -> None:
        """Put what shared coefficients need into the state, with the inputs in the sampler's basis."""
        assert self.shared is not None
        kind: Any = ManySums if self._many else SharedSums
        rows = (inputs[self.row], self.shared.rows, self.y, self.task, self.weight)
        state["shared_sums"] = kind.of(state["tasks"], *rows)
        self._follow_shared(state)

    def _follow_shared(self, state: dict[str, Any]) -> None:
        """Bring what depends on the shared coefficients up to date."""
        tasks = state["tasks"]
        state["shared_sums"].put(tasks, state["shared"].beta)
        if self.scale_sd is not None:
            tasks.linear[:] *= state["scales"][:, None]
            tasks.centre[:] /= state["scales"][:, None]

    def _draw_shared(
        self, rng: np.random.Generator, s: dict[str, Any], draw: Callable[..., Any], *known: Any
    ) -> None:
        """Shared coefficients with coefficients and mean, and the scale of their prior.

        ``known`` is what ``draw`` takes of the responses, without the part of the shared coefficients.
        """
        assert self.shared is not None
        shared = s["shared"]
        prior = shared.sd if self._many else shared.scales(self.shared)
        draw(
            rng, s["tasks"].S, *known, s["W"], s["mu"], shared.beta, prior, s["P"], s["inverse_noise"],
            self._law_of_mean(s), self.n_tasks,
        )  # fmt: skip
        if self._many:
            self._draw_scales_of_levels(rng, s, *known)
        else:
            shared.draw_scales(rng, self.shared)
        self._follow_shared(s)

    def _draw_scales_of_levels(
        self, rng: np.random.Generator, s: dict[str, Any], rows: Any, side: Any, w: np.ndarray, v: np.ndarray
    ) -> None:
        """The scale of the prior where it is learned, and those of further groups without their effects."""
        assert self.shared is not None
        shared = s["shared"]
        shared.draw_scales(rng, self.shared, len(shared.scale) - self.shared.n_effects)
        for e in range(1, len(shared.scale)):
            draw_level_scale(
                rng, rows, side, w, v, s["W"], shared.beta, shared.effect, e, shared.scale,
                float(self.shared.effect_spread), s["inverse_noise"], *self._noise_of_all,
            )  # fmt: skip

    @property
    def _noise_of_all(self) -> tuple[float, float]:
        """Shape and rate of the law of one noise of all rows; 0 where there is none."""
        return 0.0, 0.0
