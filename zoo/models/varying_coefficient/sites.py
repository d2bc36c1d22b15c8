r"""Varying coefficients with labels: function values by expectation propagation, or by the variational bound.

Where a few functions of t separate the labels, or nearly so, the true evidence hardly falls as the amplitudes go to
infinity, and both approximations know that (Laplace's does not). So the search climbs the evidence times
:math:`\exp\{-\tfrac12 \log_+^2(a / 3)\}` for each amplitude a that is learned, and for the scale of the
coefficients that do not vary. It is 1 up to a function whose standard deviation is 3, which takes probabilities from
0.05 to 0.95.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from zoo.latent.expectation_propagation import propagated_evidence
from zoo.latent.latent_gaussian import Evidence
from zoo.latent.logistic_labels import LogisticLabels
from zoo.latent.variational_bound import bounded_evidence
from zoo.models.varying_coefficient.space import State
from zoo.models.varying_coefficient.spaces import FunctionSpace

__all__ = ["SITES", "SiteSpace"]

# The amplitude beyond which the search is held back.
_AMPLITUDE = 3.0
SITES: dict[str, Callable[..., Evidence]] = {"ep": propagated_evidence, "variational": bounded_evidence}


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
        self._labels = LogisticLabels(self.y, rows.weight)

    def restraint(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]]:
        """What holds amplitudes back; see the head of this module."""
        names = {part.name("amplitude") for part in self.kernel.parts} | {"global_scale"}
        names &= set(self.coordinates.hypers)
        at = [self.coordinates.position(name) for name in sorted(names)]

        def restrain(z: np.ndarray) -> tuple[float, np.ndarray]:
            value, slope = 0.0, np.zeros(len(z))
            for where in at:  # logarithms
                beyond = np.maximum(z[where] - np.log(_AMPLITUDE), 0.0)
                value -= 0.5 * float(beyond @ beyond)
                slope[where] -= beyond
            return value, slope

        return restrain

    def _found(self, z: np.ndarray, quiet: bool) -> tuple[Any, Evidence]:
        K = self._covariance(z)
        return K, self._approximate(K, self._labels, self._last, quiet)

    def evidence(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Approximate log evidence and its derivative in z."""
        _, found = self._found(z, quiet=True)
        self._last = found.mode
        return found.value, self._slopes(z, found.slopes)

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        K, found = self._found(z, quiet=False)
        return State(z, found.value, (K, found.mode), found.mode.converged)
