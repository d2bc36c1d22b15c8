"""Varying coefficients with labels: function values by expectation propagation, or by the variational bound."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.latent.label_sites import Sites, expectation_propagation, sites_of, variational_bound
from zoo.latent.latent_gaussian import Evidence
from zoo.models.varying_coefficient.space import State
from zoo.models.varying_coefficient.spaces import FunctionSpace

__all__ = ["SITES", "SiteSpace"]

SITES: dict[str, Callable[..., Evidence]] = {"ep": expectation_propagation, "variational": variational_bound}


class SiteSpace(FunctionSpace):
    """Function values at the rows, each label replaced by a site.

    Parameters
    ----------
    method : {"ep", "variational"}
    factory, rows, y
        As of :class:`~zoo.models.varying_coefficient.space.Space`; the labels are -1/+1.
    """

    def __init__(self, method: str, factory: Any, rows: Any, y: np.ndarray):
        super().__init__(factory, rows, y)
        self._approximate = SITES[method]

    def _found(self, z: np.ndarray) -> tuple[Any, Evidence]:
        K = self._covariance(z)
        start: Sites | None = vars(self).get("_last")
        found = self._approximate(K, self.y, self.rows.weight, start)
        if not found.mode.converged and start is not None:
            found = self._approximate(K, self.y, self.rows.weight)
        return K, found

    def evidence(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Approximate log evidence and its derivative in z."""
        _, found = self._found(z)
        vars(self)["_last"] = sites_of(found.mode)
        return found.value, self._slopes(z, found.slopes)

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        K, found = self._found(z)
        return State(z, found.value, (K, found.mode), found.mode.converged)
