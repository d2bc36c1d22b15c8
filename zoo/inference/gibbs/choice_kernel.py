r"""Gibbs sampling of a normal-inverse-Wishart hierarchy of choices between alternatives.

The hierarchy is that of :mod:`zoo.inference.gibbs.normal_inverse_wishart`, and the likelihood the multinomial logit. A
sweep takes these steps:

1. scales of features, where they are learned, given coefficients and covariance;
2. mean, covariance and all coefficients together (:mod:`zoo.inference.gibbs.choice_population`);
3. the coefficients of each task given the population (:mod:`zoo.inference.gibbs.choice_moves`);
4. mean and covariance given the coefficients, by their conjugate law.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zoo.inference.gibbs.choice_likelihood import Choices
from zoo.inference.gibbs.choice_moves import ChoiceMoves, Reference, reference_of
from zoo.inference.gibbs.mean_weight import draw_mean_weight
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.gibbs.own_mean import draw_mean_given, draw_spread
from zoo.inference.gibbs.population_lanes import from_lanes, to_lanes
from zoo.inference.gibbs.population_steps import draw_population

__all__ = ["ChoicePopulationKernel"]


@dataclass(frozen=True, eq=False)
class ChoicePopulationKernel(NormalInverseWishartKernel):
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.run.chains.run_chains`.

    The fields are those of the base class; those of its noise, its group moves and its collapsed moves play no part.

    Parameters
    ----------
    y : (N,)
        +1 in the row of each choice that was chosen, -1 elsewhere.
    choice : (N,) int
        The choice that each row belongs to.
    """

    loose: int | None = 0
    choice: np.ndarray | None = None

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state."""
        state = super().initialise(rng, threads)
        state["inverse_noise"][:] = 1.0
        choices = self._choices
        if self.scale_sd is not None:
            choices = choices._replace(inputs=choices.inputs.copy())
        state["choices"] = ChoiceMoves(choices, self._reference)
        return state

    def look_at_rows(self) -> None:
        """Make what all chains share of the rows, before chains in several threads ask for it at once."""
        super().look_at_rows()
        _ = self._reference

    @cached_property
    def _choices(self) -> Choices:
        """The rows in the sampler's basis, by task and choice."""
        assert self.choice is not None
        order = np.lexsort((self.choice, self.task))
        inputs = (self.inputs @ self._basis[0])[self.row[order]]
        first = np.flatnonzero(np.diff(self.choice[order], prepend=-1))
        starts = np.append(first, len(order))
        size = np.diff(starts)
        # A constant of a choice cancels out; left in, it would take digits.
        means = np.add.reduceat(inputs, starts[:-1]) / size[:, None]
        task = self.task[order][starts[:-1]]
        return Choices(
            inputs=np.ascontiguousarray(inputs - np.repeat(means, size, axis=0)),
            offset=np.zeros(len(order)),
            starts=starts,
            chosen=np.flatnonzero(self.y[order] > 0.0),
            tasks=np.searchsorted(task, np.arange(self.n_tasks + 1)),
            weight=np.ones(len(size)) if self.weight is None else self.weight[order][starts[:-1]],
        )

    @cached_property
    def _reference(self) -> Reference:
        return reference_of(self._choices, 1.0 if self.pi is None else float(self.pi), float(self.nu))

    @property
    def _noise_roots(self) -> None:
        """There is no noise."""
        return None

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        super().set_values(state, {**values, "noise": np.ones(())})
        state["choices"].stale = True

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        super().restore(state, snapshot)
        state["choices"].stale = True

    def _scale_sums(self, state: dict[str, Any]) -> None:
        """Make the rows again, and tell the moves."""
        moves: ChoiceMoves = state["choices"]
        moves.choices.inputs[:] = self._choices.inputs * state["scales"]
        moves.rescale(state["scales"])

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One scan."""
        s, nu, law = state, float(self.nu), self._law_of_mean(state)
        self._draw_scales(rng, s)
        padded = from_lanes(s["W"])  # a copy, with tasks without rows at its end
        s["choices"].population(rng, padded[: self.n_tasks], s["mu"], s["P"], nu, law)
        s["W"][:] = to_lanes(padded)
        if self.mean_sd is not None:
            draw_mean_given(rng, s["W"], self.n_tasks, s["mu"], s["P"], s["own"])
            draw_spread(rng, s["W"], self.n_tasks, s["mu"], s["P"], s["C"], nu)
            return
        draw_population(rng, s["W"], self.n_tasks, s["mu"], s["P"], s["C"], nu, law.pi)
        draw_mean_weight(rng, self.pi, s)

    def record_population(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Population mean (p,) and covariance (p, p): a draw without the coefficients."""
        draw = super().record_population(state)
        draw.pop("noise")
        return draw

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: sizes of the mean and of the covariance, and the log likelihood."""
        values = super().monitor(state)
        values.pop("mean_precision")
        return {**values, "log_likelihood": float(state["choices"].density.sum())}
