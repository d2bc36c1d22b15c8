r"""Gibbs sampling of a normal-inverse-Wishart hierarchy whose likelihood is Gaussian given weights.

The hierarchy is that of :mod:`zoo.inference.gibbs.normal_inverse_wishart`. The likelihood is any one with
an augmentation (:mod:`zoo.inference.augmentation`): given auxiliary variables row n adds
:math:`-\tfrac12 w_n f_n^2 + v_n f_n` to the log density, as a Gaussian response :math:`v_n / w_n`
with variance :math:`1 / w_n` would. A sweep therefore takes three steps:

1. the parameters of the likelihood given f, auxiliary variables integrated out; where the rows tie
   them to the coefficients, both by :mod:`zoo.inference.gibbs.joint_moves`; where a label is rare,
   coefficients and mean by :mod:`zoo.inference.gibbs.likelihood_moves`, auxiliary variables
   integrated out as well; and right after it the auxiliary variables given f and parameters;
2. the sums :math:`S_t = \sum_n w_n x_n x_n'` and :math:`r_t = \sum_n v_n x_n` of every task, and
   where some features have a coefficient that all tasks share, this one with coefficients and mean
   (:mod:`zoo.inference.gibbs.shared_coefficients`), whose part is then taken from :math:`r_t`;
3. the steps of the hierarchy given these sums, with unit noise: scales of features where they are learned, group
   moves, coefficients, translation, covariance and mean.

Scales of features that are learned are also drawn before step 1, given coefficients and covariance.

Step 3 conditions on (w, v) alone, and not on y or on the parameters. The collapsed moves of loose
coefficients are left out: which ones are loose would change with w in every sweep.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from zoo.inference.augmentation import Augmentation, restore_parameters, snapshot_of
from zoo.inference.compiled import njit
from zoo.inference.gibbs.feature_scales import scaled_sums
from zoo.inference.gibbs.joint_moves import JointStep
from zoo.inference.gibbs.likelihood_moves import LikelihoodMoves, moves_pay
from zoo.inference.gibbs.likelihood_populations import population_moves
from zoo.inference.gibbs.many_shared import SharedRows, draw_by_steps, shared_values
from zoo.inference.gibbs.mean_weight import draw_mean_weight
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.gibbs.own_mean import draw_mean, draw_spread
from zoo.inference.gibbs.population_lanes import (
    copy_sums,
    from_lanes,
    to_lanes,
)
from zoo.inference.gibbs.population_steps import (
    LANES,
    draw_coefficients,
    draw_population,
    translate,
)
from zoo.inference.gibbs.shared_population import draw_with_population
from zoo.inference.gibbs.shared_sums import ActiveSums, subtract_shared
from zoo.inference.gibbs.task_rows import Rows, function_values

__all__ = ["AugmentedPopulationKernel"]


@njit(cache=True, nogil=True)
def _sums_over_rows(rows, task, w, v, S, linear):
    """Step 2, in the lanes of the tasks; the upper triangle of each S is its lower one."""
    S[:] = 0.0
    linear[:] = 0.0
    D = rows.inputs.shape[1]
    for n in range(len(w)):
        block, lane = task[n] // LANES, task[n] % LANES
        x = rows.inputs[rows.row[n]]
        for i in range(D):
            linear[block, i, lane] += v[n] * x[i]
            weighted = w[n] * x[i]
            for j in range(i + 1):
                S[block, i, j, lane] += weighted * x[j]
    for block in range(S.shape[0]):
        for i in range(D):
            for j in range(i):
                for lane in range(LANES):
                    S[block, j, i, lane] = S[block, i, j, lane]


@njit(cache=True, nogil=True)
def _shared_sums_over_rows(rows, shared, task, w, v, sums):
    """Sums of the active shared features of every task with its features, with each other, and with v."""
    sums.cross[:] = 0.0
    sums.square[:] = 0.0
    sums.slope[:] = 0.0
    for n in range(len(w)):
        t, x = task[n], rows.inputs[rows.row[n]]
        first, k = sums.starts[t], sums.starts[t + 1] - sums.starts[t]
        for i in range(k):
            s = shared[n, sums.feature[first + i]]
            if s != 0.0:
                weighted = w[n] * s
                sums.slope[first + i] += v[n] * s
                for d in range(len(x)):
                    sums.cross[first + i, d] += weighted * x[d]
                for j in range(k):
                    at = sums.square_starts[t] + i * k + j
                    sums.square[at] += weighted * shared[n, sums.feature[first + j]]


@njit(cache=True, nogil=True)
def _subtract_offset(rows, task, w, linear):
    """Take what the offsets of the rows say from the sums, in the lanes of the tasks."""
    for n in range(len(w)):
        x, part = rows.inputs[rows.row[n]], w[n] * rows.offset[n]
        for i in range(len(x)):
            linear[task[n] // LANES, i, task[n] % LANES] -= part * x[i]


@dataclass(frozen=True, eq=False)
class AugmentedPopulationKernel(NormalInverseWishartKernel):
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.run.chains.run_chains`.

    The fields are those of the base class; those of its noise play no part.

    Parameters
    ----------
    augmentation : Augmentation
        Its weights and linear terms stand for the likelihood.
    likelihood_moves : bool, optional
        Whether to take the moves of :mod:`zoo.inference.gibbs.likelihood_moves`; by default where the
        augmentation says that it crawls.
    """

    loose: int | None = 0
    augmentation: Augmentation | None = None
    likelihood_moves: bool | None = None

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state."""
        assert self.augmentation is not None
        state = super().initialise(rng, threads)
        order, N = np.argsort(self.task, kind="stable"), len(self.y)
        sizes = np.bincount(self.task, minlength=self.n_tasks)
        state["inverse_noise"][:] = 1.0
        state |= {
            "rows": Rows.of(self._turned.copy(), self.row, order, sizes, None),
            "task": np.ascontiguousarray(self.task[order]),
            "y": np.ascontiguousarray(self.y[order]),
            "weight": np.ones(N) if self.weight is None else np.ascontiguousarray(self.weight[order]),
            "parameters": self.augmentation.start(),
            "f": np.empty(N),
            "w": np.empty(N),
            "v": np.empty(N),
            "moves": None,
        }
        state["joint"] = JointStep.of(
            self.augmentation, state["parameters"], state["rows"], state["y"], state["weight"]
        )
        if moves_pay(self.augmentation, self.likelihood_moves, state["y"], state["weight"]):
            seen = (state[name] for name in ("parameters", "rows", "y", "weight", "task"))
            state["moves"] = LikelihoodMoves(self.augmentation, *seen)
        if self.shared is not None:
            self._follow_shared(state)
        return state

    @property
    def _noise_of_all(self) -> tuple[float, float]:
        """What there is of noise stands in the weights of the auxiliary variables."""
        return 0.0, 0.0

    @property
    def _sums_change(self) -> bool:
        """They are those of the auxiliary variables."""
        return True

    def _begin_shared(self, state: dict[str, Any], inputs: np.ndarray) -> None:
        """Put the rows into the state, and work space for sums that change with the auxiliary variables."""
        assert self.shared is not None
        order = np.argsort(self.task, kind="stable")
        if self._many:
            state["shared_rows"] = SharedRows.of(self.shared.rows, order)
            return
        state["shared_rows"] = np.ascontiguousarray(self.shared.rows[order])
        state["shared_sums"] = ActiveSums.empty(self.shared.rows, self.task, self.n_tasks, inputs.shape[1])

    def _follow_shared(self, state: dict[str, Any]) -> None:
        """Bring the offsets of the rows up to date."""
        offset, beta = state["rows"].offset, state["shared"].beta
        if self._many:
            shared_values(state["shared_rows"], beta, offset)
        else:
            offset[:] = state["shared_rows"] @ beta

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        assert self.augmentation is not None
        super().set_values(state, {**values, "noise": np.ones(())})
        state["inverse_noise"][:] = 1.0
        self.augmentation.put(state["parameters"], values)

    def _scale_sums(self, state: dict[str, Any]) -> None:
        """Make the rows again, and tell the moves; the sums of the auxiliary variables follow in the sweep."""
        state["rows"].inputs[:] = self._turned * state["scales"]
        for moves in (state["joint"], state["moves"]):
            if moves is not None:
                moves.rescale(state["scales"])

    def _draw_scales_again(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """Given whitened coefficients; the sums, which are of the current auxiliary variables, follow at once."""
        before = s["scales"].copy() if self.scale_sd is not None else None
        super()._draw_scales_again(rng, s)
        if before is not None:
            scaled_sums(s["tasks"], s["scales"] / before, s["tasks"])

    @cached_property
    def _turned(self) -> np.ndarray:
        """The inputs in the sampler's basis, for scales of 1."""
        return self.inputs @ self._basis[0]

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients, population, and the parameters of the likelihood."""
        return {**super().snapshot(state), **snapshot_of(state["parameters"])}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        super().restore(state, snapshot)
        restore_parameters(state["parameters"], snapshot)

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One scan."""
        assert self.augmentation is not None
        s, tasks, augmentation = state, state["tasks"], self.augmentation
        self._draw_scales(rng, s)
        padded = from_lanes(s["W"])  # a copy, with tasks without rows at its end
        by_task = padded[: self.n_tasks]
        function_values(s["rows"], by_task, 0, self.n_tasks, s["f"])
        seen = (s["f"], s["y"], s["weight"], s["task"], s["parameters"])
        if augmentation.update is not None:
            augmentation.update(rng, *seen, augmentation.laws)
        if s["joint"] is not None:
            law = self._law_of_mean(s)
            s["joint"].population(rng, by_task, s["mu"], s["P"], float(self.nu), law, s["f"])
            s["W"][:] = to_lanes(padded)
        if s["moves"] is not None:
            population = (by_task, s["mu"], s["P"], self._law_of_mean(s), s["f"])
            s["moves"].population(rng, *population)
            population_moves(rng, s["moves"], *population)
            s["W"][:] = to_lanes(padded)
        augmentation.draw(rng, *seen, s["w"], s["v"])
        _sums_over_rows(s["rows"], s["task"], s["w"], s["v"], tasks.S, tasks.linear)
        if self.shared is not None:
            self._draw_shared_given(rng, s)
        self._draw_scales_again(rng, s)
        nu, T, now = float(self.nu), self.n_tasks, (s["W"], s["mu"], s["P"], s["inverse_noise"])
        if s["whole"] is not None:
            around, mu = self._enter(s)
            copy_sums(around, s["whole"])
            self._group_moves(rng, s, mu)
            self._leave(s)
        if self.mean_sd is not None:
            draw_mean(rng, tasks, s["space"], s["mu"], s["P"], s["own"], s["inverse_noise"])
            draw_coefficients(rng, tasks, s["space"], *now)
            draw_spread(rng, s["W"], T, s["mu"], s["P"], s["C"], nu)
            return
        draw_coefficients(rng, tasks, s["space"], *now)
        translate(rng, tasks, s["space"], *now, float(s["pi"]))
        draw_population(rng, s["W"], T, s["mu"], s["P"], s["C"], nu, float(s["pi"]))
        draw_mean_weight(rng, self.pi, s)

    def _draw_shared_given(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """Shared coefficients given the auxiliary variables, whose sums are then those without their part."""
        rows, shared, linear = s["rows"], s["shared_rows"], s["tasks"].linear
        if self._many:
            self._draw_shared(rng, s, draw_by_steps, rows, shared, s["w"], s["v"])
            _subtract_offset(rows, s["task"], s["w"], linear)
            return
        sums = s["shared_sums"]
        _shared_sums_over_rows(rows, shared, s["task"], s["w"], s["v"], sums)
        self._draw_shared(rng, s, draw_with_population, linear, sums)
        subtract_shared(sums.starts, sums.feature, sums.cross, s["shared"].beta, linear)

    def record_population(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Population mean (p,), covariance (p, p), and the learned parameters: a draw without the coefficients."""
        assert self.augmentation is not None
        draw = super().record_population(state)
        draw.pop("noise")
        return {**draw, **self.augmentation.record(state["parameters"])}

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: sizes of the mean and of the covariance, and the parameters."""
        assert self.augmentation is not None
        values = super().monitor(state)
        values.pop("mean_precision")
        found = self.augmentation.record(state["parameters"])
        return {**values, **{f"log_{name}": float(np.mean(np.log(v))) for name, v in found.items()}}
