"""Coefficients of max-margin models in the units of default priors, and in those of the data.

The engines see features and responses in the units of :mod:`zoo.data.units`, and posteriors hold what coefficients and
covariances are for the features of the data. Where both are the same, nothing is changed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from zoo.core.hooks import SHARED
from zoo.data.multitask import MultiTaskData
from zoo.data.units import Units

__all__ = ["KernelInUnits", "UnitsOfTasks", "units_of_new"]


@dataclass(frozen=True, eq=False)
class UnitsOfTasks:
    """The units of the coefficients of a fit.

    Parameters
    ----------
    own : Units
        Of the features of which every task has a coefficient, and of the response.
    shared : Units, optional
        Of those whose coefficient all tasks share; they are scaled and not centred.
    powers : dict
        Of parameters of the likelihood: the power of the unit of the response that is theirs.
    """

    own: Units
    shared: Units | None
    powers: dict[str, int]

    @property
    def plain(self) -> bool:
        """Whether these are the units of the data themselves."""
        return self.own.plain and (self.shared is None or self.shared.plain)

    def outwards(self, values: dict[str, Any]) -> dict[str, Any]:
        """Variables of a draw in the units of the data; others stay as they are."""
        return self._moved(values, True)

    def inwards(self, values: dict[str, Any]) -> dict[str, Any]:
        """The inverse: variables as the engine has them."""
        return self._moved(values, False)

    def _moved(self, values: dict[str, Any], out: bool) -> dict[str, Any]:
        own, shared, moved = self.own, self.shared, dict(values)
        if "coefficients" in moved:
            moved["coefficients"] = (own.coefficients if out else own.white)(moved["coefficients"])
        if "feature_cov" in moved:
            moved["feature_cov"] = (own.covariance if out else own.white_covariance)(moved["feature_cov"])
        if SHARED in moved and shared is not None:
            moved[SHARED] = (shared.coefficients if out else shared.white)(moved[SHARED])
        for name, power in self.powers.items():
            if name in moved:
                moved[name] = moved[name] * own.y_scale ** (power if out else -power)
        if "effect_scale" in moved and shared is not None:
            moved["effect_scale"] = moved["effect_scale"] * shared.y_scale ** (1 if out else -1)
        return moved

    def rows(self, data: MultiTaskData) -> MultiTaskData:
        """Prepared rows with features and responses in these units."""
        shared: dict[str, Any] = {}
        if self.shared is not None:
            columns: Any = data.shared
            shared["shared"] = columns * (self.shared.slope / self.own.y_scale)
            shared["shared_units"] = Units.of_size(len(self.shared.slope))
        return replace(
            data,
            inputs=self.own.apply_x(data.inputs),
            y=self.own.apply_y(data.y),
            units=Units.of_size(data.n_features),
            **shared,
        )


@dataclass(frozen=True, eq=False)
class KernelInUnits:
    """A Markov kernel of rows in the units of default priors, whose draws are in those of the data.

    Parameters
    ----------
    kernel : Kernel
        Of rows and responses in these units.
    units : UnitsOfTasks
    """

    kernel: Any
    units: UnitsOfTasks

    @property
    def unordered(self) -> tuple[str, ...]:
        """Variables whose columns change places."""
        return tuple(getattr(self.kernel, "unordered", ()))

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state."""
        state: dict[str, Any] = self.kernel.initialise(rng, threads)
        return state

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put variables in the units of the data into the state."""
        self.kernel.set_values(state, self.units.inwards(values))

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One transition."""
        self.kernel.sweep(rng, state)

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw in the units of the data."""
        return self.units.outwards(self.kernel.record(state))

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling, as the engine has them."""
        values: dict[str, float] = self.kernel.monitor(state)
        return values

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Copies of what the next sweep reads."""
        copies: dict[str, np.ndarray] = self.kernel.snapshot(state)
        return copies

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        self.kernel.restore(state, snapshot)

    def with_response(self, y: np.ndarray) -> KernelInUnits:
        """The kernel of the same rows with other coded responses."""
        return replace(self, kernel=self.kernel.with_response(self.units.own.apply_y(y)))


def units_of_new(posterior: Any, n_features: int) -> Units:
    """The units of the coefficients of new tasks, which stand with the draws; without them, those of the data."""
    known: UnitsOfTasks | None = posterior.attrs.get("units")
    return Units.of_size(n_features) if known is None else known.own
