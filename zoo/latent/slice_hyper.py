"""Gibbs sampler of functions with a Gaussian prior and a likelihood with an augmentation.

One sweep draws the likelihood's own parameters given f, then the auxiliary variables given f, then the hyper-parameters
given these with the functions integrated out (slice sampling, Neal 2003, one coordinate at a time), then the functions
given both. The first two steps are one joint draw of parameters and auxiliary variables, the last two one of
hyper-parameters and functions, so the chain leaves the posterior unchanged. Without an augmentation the noise is
Gaussian and its scale one of the hyper-parameters.

The auxiliary variables hold the scale of f where it is. So a sweep begins with a move of the amplitude a that takes
f = a g along, under the loss itself: given g its density is the prior of log a times p(y | a g). Where f is a sum of
functions with an amplitude each, all of them move by one factor.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.slice_move import MOST_STEPS
from zoo.inference.run.kernel import copies, put_back
from zoo.latent.function_prior import FunctionPrior

__all__ = ["KernelGibbs", "slice_step"]

_MAX_STEPS = 50


@dataclass(frozen=True, eq=False)
class KernelGibbs:
    """A Markov kernel for :func:`zoo.inference.run.chains.run_chains`.

    Parameters
    ----------
    prior : FunctionPrior
    start : (k,) array
        Hyper-parameters in free coordinates.
    y : (N,) array
        Coded responses.
    weight : (N,) array
        Weights of the rows in the likelihood.
    task : (N,) array
        Task of each row.
    augmentation : Augmentation or None
        None: Gaussian noise.
    amplitude : (k,) array, optional
        The direction along which f grows, by e for a step of length one: it is 1 at the logarithms of amplitudes and 0
        elsewhere. None where an amplitude is no coordinate.
    ridges : (m, k) array, optional
        Directions that are moved along beside the coordinates.
    own : dict of str to int
        Where the logarithms of the augmentation's learned parameters stand among the coordinates.
    """

    prior: FunctionPrior
    start: np.ndarray
    y: np.ndarray
    weight: np.ndarray
    task: np.ndarray
    augmentation: Augmentation | None
    amplitude: np.ndarray | None = None
    ridges: np.ndarray | None = None
    own: dict[str, int] = field(default_factory=dict)

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """Hyper-parameters scattered about their start, functions drawn from their prior."""
        z = self.start + 0.5 * rng.standard_normal(len(self.start))
        nothing = np.zeros(len(self.y))
        values = self._draw(
            self.prior.condition(self.prior.numbers(z), self.prior.sums(nothing, nothing)), rng
        )
        parameters = None if self.augmentation is None else self.augmentation.start()
        return {"z": z, "values": values, "parameters": parameters, "log_evidence": 0.0}

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        state["z"], state["values"] = self.prior.located(values)

    def with_response(self, y: np.ndarray) -> KernelGibbs:
        """The kernel of the same rows with other coded responses."""
        prior = self.prior.with_response(y)
        return replace(self, y=prior.y, prior=prior)

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Hyper-parameters and functions."""
        return copies(state, ("z", "values"))

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        put_back(state, snapshot, ("z", "values"))

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Amplitude with the functions; auxiliary variables; hyper-parameters; functions."""
        if self.augmentation is not None:
            for name, i in self.own.items():
                self.augmentation.values(state["parameters"], name)[0] = np.exp(state["z"][i])
            if self.amplitude is not None:
                self._move_amplitude(rng, state)
        condition, evidence = self._likelihood(rng, state)

        def log_density(z: np.ndarray) -> float:
            try:
                return float(evidence(condition(z), z) + self.prior.log_prior(z))
            except np.linalg.LinAlgError:  # so far out that rounding wins
                return -np.inf

        z = state["z"]
        if len(z):
            value = log_density(z)
            for direction in self._directions():
                z, value = slice_step(rng, log_density, z, direction, value)
        final = condition(z)
        state.update(z=z, values=self._draw(final, rng), log_evidence=evidence(final, z))

    def _draw(self, conditional: Any, rng: np.random.Generator) -> np.ndarray:
        """A draw of the functions, in the memory layout in which a snapshot comes back: sums round by it."""
        return np.ascontiguousarray(self.prior.draw(conditional, rng))

    def _directions(self) -> np.ndarray:
        axes = np.delete(np.eye(len(self.start)), list(self.own.values()), axis=0)
        return axes if self.ridges is None else np.vstack([axes, self.ridges])

    def _move_amplitude(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Slice sampling of log a given f / a, under the likelihood itself."""
        assert self.amplitude is not None
        z, i = state["z"], int(np.argmax(self.amplitude))
        f = self.prior.functions(state["values"])

        def log_density(moved: np.ndarray) -> float:
            rows = self._log_likelihood(np.exp(moved[i] - z[i]) * f, state["parameters"])
            return float(rows + self.prior.log_prior(moved))

        moved, _ = slice_step(rng, log_density, z, self.amplitude, log_density(z))
        state.update(z=moved, values=np.exp(moved[i] - z[i]) * state["values"])

    def _log_likelihood(self, f: np.ndarray, parameters: Any) -> float:
        """Of all rows at f, up to a constant."""
        assert self.augmentation is not None and self.augmentation.log_density is not None
        total = np.empty(1)
        self.augmentation.log_density(f, self.y, self.weight, self.task, parameters, total)
        return float(total[0])

    def _likelihood(
        self, rng: np.random.Generator, state: dict[str, Any]
    ) -> tuple[Callable[[np.ndarray], Any], Callable[[Any, np.ndarray], float]]:
        """The law of the functions at z given the rows, and its log evidence."""
        prior = self.prior
        if self.augmentation is None:
            return (
                lambda z: prior.gaussian(prior.numbers(z), prior.noise_variance(z)),
                lambda law, z: prior.log_marginal(law, prior.noise_variance(z)),
            )
        omega, nu = np.empty(len(self.y)), np.empty(len(self.y))
        f = prior.functions(state["values"])
        if self.augmentation.update is not None:
            self.augmentation.update(
                rng, f, self.y, self.weight, self.task, state["parameters"], self.augmentation.laws
            )
            for name, i in self.own.items():
                state["z"][i] = np.log(self.augmentation.values(state["parameters"], name)[0])
        self.augmentation.draw(rng, f, self.y, self.weight, self.task, state["parameters"], omega, nu)
        sums = prior.sums(omega, nu)
        return lambda z: prior.condition(prior.numbers(z), sums), lambda law, z: float(law.log_evidence)

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The posterior variables of the state."""
        return self.prior.record(state["z"], state["values"])

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Size of the functions, and the evidence where the noise is Gaussian."""
        f = self.prior.functions(state["values"])
        result = {"function_norm": float(np.sqrt(np.mean(f**2)))}
        return result if self.augmentation is not None else {**result, "log_evidence": state["log_evidence"]}


def slice_step(
    rng: np.random.Generator,
    log_density: Callable[[np.ndarray], float],
    x: np.ndarray,
    direction: np.ndarray,
    value: float,
    width: float = 1.0,
) -> tuple[np.ndarray, float]:
    """One slice-sampling update along a direction, stepping out and shrinking; returns x and its log density.

    It stays where a density of NaN, or of too many digits, leaves no point above the level.
    """
    level = value - rng.standard_exponential()
    left = -width * rng.random()
    right = left + width
    steps = int(rng.integers(_MAX_STEPS))
    for _ in range(steps):
        if log_density(x + left * direction) <= level:
            break
        left -= width
    for _ in range(_MAX_STEPS - 1 - steps):
        if log_density(x + right * direction) <= level:
            break
        right += width
    for _ in range(MOST_STEPS):
        to = left + (right - left) * rng.random()
        proposed = x + to * direction
        density = log_density(proposed)
        if density > level:
            return proposed, density
        if to < 0.0:
            left = to
        else:
            right = to
    return x, value
