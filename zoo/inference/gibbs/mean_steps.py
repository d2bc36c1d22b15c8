"""The mean of a population in the steps of a sweep: tied to the covariance or not, and in units of the data.

:mod:`zoo.inference.gibbs.own_mean` has the law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.inference.gibbs.own_mean import MeanLaw, around_mean
from zoo.inference.gibbs.population_steps import Tasks
from zoo.inference.gibbs.shared_coefficients import SharedFeatures

__all__ = ["MeanSteps"]


class MeanSteps:
    """Steps that ask for the mean, of :mod:`zoo.inference.gibbs.normal_inverse_wishart`."""

    if TYPE_CHECKING:
        inputs: np.ndarray
        row: np.ndarray
        half: np.ndarray | None
        shared: SharedFeatures | None
        mean_sd: float | None
        offset: np.ndarray | None

    @property
    def _level(self) -> np.ndarray:
        """How much of the responses (N,) is the part of ``offset``."""
        assert self.offset is not None
        back = np.eye(self.inputs.shape[1]) if self.half is None else np.linalg.pinv(self.half)
        return (self.inputs @ (back @ self.offset))[self.row]

    def _moved(self, values: dict[str, np.ndarray]) -> np.ndarray:
        """The vector (p,) that is added to coefficients and mean in what a draw reports."""
        p = self.inputs.shape[1] if self.half is None else len(self.half)
        moved = np.zeros(p) if self.offset is None else np.array(self.offset)
        if self.shared is not None and self.shared.moved is not None:
            moved -= self.shared.moved @ values["shared_coefficients"]
        return moved

    def _law_of_mean(self, s: dict[str, Any]) -> MeanLaw:
        """The prior of the mean, at the current scales and weight."""
        return MeanLaw(float(s["pi"]), s["own"])

    def _enter(self, s: dict[str, Any]) -> tuple[Tasks, np.ndarray]:
        """The sums and the mean that moves of the covariance see; around a mean of its own the coefficients, too."""
        if self.mean_sd is None:
            return s["tasks"], s["mu"]
        s["W"] -= s["mu"][:, None]
        return self._around(s), np.zeros_like(s["mu"])

    def _around(self, s: dict[str, Any]) -> Tasks:
        """The sums of what a mean of its own leaves of the responses."""
        seen: Tasks = s["around"]
        around_mean(s["tasks"], s["mu"], seen.centre, seen.linear)
        return seen

    def _leave(self, s: dict[str, Any]) -> None:
        """Put a mean of its own back to the coefficients."""
        if self.mean_sd is not None:
            s["W"] += s["mu"][:, None]

    @property
    def _reports_moved(self) -> bool:
        return self.offset is not None or (self.shared is not None and self.shared.moved is not None)
