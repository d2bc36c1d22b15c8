"""What the forms of the functions of varying coefficients share."""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, ClassVar, NamedTuple

import numpy as np
import pytensor
import pytensor.tensor as pt
from pytensor.gradient import grad

from zoo.inference.responses import NormalResponses
from zoo.latent.coordinates import Coordinates
from zoo.likelihoods.derivatives import DifferentiatedResponses
from zoo.likelihoods.gaussian import Gaussian
from zoo.models.varying_coefficient.covariance import VaryingKernel
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.restraint import Restraint
from zoo.models.varying_coefficient.rows import VaryingRows
from zoo.support.quick import QUICK

__all__ = ["ENTRIES", "MANY", "Space", "State", "inputs_of", "responses_of"]

# Entries of a block of a covariance matrix, of which several copies are made.
ENTRIES = 4_000_000
# Weights from which the search for the evidence begins with the lower half of the frequencies.
MANY = 600


class State(NamedTuple):
    """Hyper-parameters in free coordinates, the evidence there, and what the space knows of the functions."""

    z: np.ndarray
    log_evidence: float
    known: Any
    converged: bool


def inputs_of(rows: VaryingRows) -> np.ndarray:
    """The rows as inputs [x, t, task] of the covariance, (N, D + P + 1)."""
    return np.column_stack([rows.inputs, rows.times, rows.task.astype(np.float64)])


def responses_of(
    factory: VaryingDescription, y: np.ndarray, weight: np.ndarray | None
) -> NormalResponses | DifferentiatedResponses:
    """The responses with their density; a subclass of the normal one may have another."""
    likelihood = factory.likelihood
    if type(likelihood) is Gaussian:
        return NormalResponses(y, likelihood.fixed.get("noise"), weight)
    return DifferentiatedResponses(likelihood, y, weight)


class Space:
    """What the spaces share: hyper-parameters and responses."""

    values_name: ClassVar[str]
    short_lengthscales: ClassVar[tuple[float, ...]] = ()
    """Lengthscales, in standard deviations of t, at which the search may start too."""

    several_optima: ClassVar[bool] = False
    """Whether the search starts several times where components may be short or long."""

    dear_far_away: ClassVar[bool] = False
    """Whether the evidence takes long at hyper-parameters that are far from those of its last fresh start."""

    def start_afresh(self) -> None:
        """Drop what serves near the last start alone.

        It is called where a search has chosen its start from several, and before each of them unless
        ``dear_far_away``.
        """

    _last: Any = None  # what was found last, from which the next search for it starts

    def forget(self) -> None:
        """Drop the last mode, from which the search for the next one starts."""
        vars(self).pop("_last", None)

    def __init__(self, factory: VaryingDescription, rows: VaryingRows, y: np.ndarray):
        self.factory, self.rows = factory, rows
        self.kernel = factory.kernel_of(rows)
        self.coordinates = Coordinates(factory.hyperparameters(rows))
        self.y = y - factory.offset(rows)
        self.responses = responses_of(factory, self.y, rows.weight)

    @cached_property
    def _positions(self) -> np.ndarray:
        """Where the likelihood's own parameters stand in z, in the order of the responses."""
        found = [self.coordinates.position(name) for name in self.responses.learned]
        return np.array([i for s in found for i in range(s.start, s.stop)], dtype=np.int64)

    def _pulled(self, slopes: np.ndarray, gradient: np.ndarray) -> np.ndarray:
        gradient[self._positions] += slopes
        return gradient

    def values_at(self, z: np.ndarray) -> dict[str, np.ndarray]:
        """Hyper-parameters by name."""
        return self.coordinates.unpack(z)

    def recorded(self, posterior: Any) -> np.ndarray:
        """Z of the posterior of a fit whose hyper-parameters are one point."""
        names = self.coordinates.hypers
        return self.coordinates.pack({name: posterior[name].to_numpy() for name in names})

    def lost(self, kernel: VaryingKernel, z: np.ndarray, rows: VaryingRows) -> np.ndarray:
        """Variance (n,) that rows outside the range of the data have, and the sines of a kernel have not."""
        result = np.zeros(rows.n_rows)
        values = self.factory.values_of(self.values_at(z), self.rows)
        for part in kernel.parts:
            at = np.flatnonzero(part.beyond(rows.times))
            if len(at):
                tensors = {name: pt.as_tensor(value) for name, value in values.items()}
                result[at] += pytensor.function([], part.lost_variance(tensors, rows, at), mode=QUICK)()
        return result

    def log_variances(self, kernel: VaryingKernel) -> tuple[Any, Any]:
        """Of the weights of a kernel's features: a function of z, and one of z and ``pull`` that gives the slope."""
        z, pull = pt.dvector("z"), pt.dvector("pull")
        logs = kernel.log_variances(self.factory.values_of(self.coordinates.symbolic(z), self.rows))
        slope = grad(pt.sum(pull * logs), z, disconnected_inputs="ignore", return_disconnected="zero")
        return (
            pytensor.function([z], logs, mode=QUICK, on_unused_input="ignore"),
            pytensor.function([z, pull], slope, mode=QUICK, on_unused_input="ignore"),
        )

    def restraint(self) -> Callable[[np.ndarray], tuple[float, np.ndarray]] | None:
        """What keeps the evidence from running away, if that is needed: a log density, with its derivative in z."""
        return Restraint.of(self)

    def evidence(self, z: np.ndarray) -> tuple[float, np.ndarray]:
        """Log evidence and its derivative in z."""
        raise NotImplementedError

    def state(self, z: np.ndarray) -> State:
        """What is known of the functions at z."""
        raise NotImplementedError

    def moments(self, state: State, rows: VaryingRows) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (n,) of f at rows."""
        raise NotImplementedError

    def draws(self, state: State, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws (n, ...) of the variable that holds the functions."""
        raise NotImplementedError
