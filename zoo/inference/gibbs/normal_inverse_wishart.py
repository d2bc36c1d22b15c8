r"""Gibbs sampling of a normal-inverse-Wishart hierarchy of linear regressions (yu2005, model 1).

.. math::

    y_n = x_n' w_{t(n)} + N(0, \sigma_t^2), \quad w_t \sim N(\mu, C), \quad \mu \mid C \sim N(0, C / \pi), \quad
    C \sim IW(\nu, \Psi), \quad \sigma_t^2 \sim IG(a, b)

With :math:`S_t = X_t' X_t` and :math:`P = C^{-1}` a sweep draws

-  where the scales of features are learned, these, given the coefficients and given what is whitened
   (:mod:`zoo.inference.gibbs.feature_scales`); all else sees inputs that are multiplied by them;
-  where some features have a coefficient that all tasks share, :math:`(\mu, \beta, w)` jointly
   (:mod:`zoo.inference.gibbs.shared_coefficients`); all else sees :math:`y_t - S_t \beta` in the place of
   :math:`y_t`;

0. in some of the sweeps, where tasks hardly know some of their coefficients, :math:`(\mu, C)` with these integrated out
   (:mod:`zoo.inference.gibbs.collapsed_population`); then, where tasks have few rows, one :math:`\sigma^2` of all with
   w integrated out (:mod:`zoo.inference.gibbs.collapsed_noise`). Step 1 draws anew what they leave stale;
1. :math:`w_t` with precision :math:`S_t / \sigma_t^2 + P` and linear term :math:`X_t' y_t / \sigma_t^2 + P \mu` (eqs
   5, 6);
2. :math:`\sigma_t^2 \sim IG(a + N_t / 2,\; b + \tfrac12 |y_t - X_t w_t|^2)`, with
   :math:`|y_t - X_t w|^2 = e_t + (w - \hat w_t)' S_t (w - \hat w_t)` around least squares, which does not cancel; one
   variance for all tasks sums both over tasks;
3. the translation :math:`(w_t + d, \mu + d)`, which leaves :math:`w_t \mid \mu` alone: ``d`` is Gaussian with precision
   :math:`\sum_t S_t / \sigma_t^2 + \pi P` and linear term
   :math:`\sum_t (X_t' y_t - S_t w_t) / \sigma_t^2 - \pi P \mu`;
4. in some of the sweeps, the shears and scales of :mod:`zoo.inference.gibbs.group_moves` on :math:`(w_t, \mu, C)`,
   along the features or in any other orthonormal basis of whitened ones:
   the law of :math:`(w_t, \mu)` given C is invariant under :math:`(F w_t, F \mu, F C F')`, so :math:`\mu` is one more
   row that has no data;
5. :math:`C \sim IW(\nu + T, \Psi + \sum_t (w_t - \bar w)(w_t - \bar w)' + \tfrac{\pi T}{\pi + T} \bar w \bar w')` and
   :math:`\mu \sim N(\tfrac{T}{\pi + T} \bar w, C / (\pi + T))`;
6. :math:`\pi`, where it is learned, by (3) of :mod:`zoo.inference.gibbs.mean_weight`. All other steps are given it.

The mean may have a prior of its own in place of :math:`N(0, C / \pi)`: :mod:`zoo.inference.gibbs.own_mean` says what
becomes of the steps then.

The features that the engine sees are whitened, so that :math:`\Psi = I`: with :math:`\Psi = G G'` the caller gives
:math:`X G` and ``half`` G, and gets coefficients, mean and covariance multiplied by G. A singular :math:`\Psi`, as of a
Gaussian process on a finite set of inputs, has a G with fewer columns than rows. The engine turns the features into
the eigenbasis of :math:`X'X`, or of its parts where step 0 sets some of them apart; the prior does not change. Where
scales are learned, the features keep their axes, and step 0 sets some of these apart.

**How often.** Each sweep takes step 4 with one probability and step 0 with another one, whatever the state is: a
mixture of kernels that leave the posterior unchanged leaves it unchanged. By default, where some coefficients are
loose, each sweep takes step 0, and of up to 16 features step 4 as well. Of more features, whose steps take longer, step
4 is left out, unless tasks know little of their other coefficients: where more than 60 % of the information about C is
missing with these (the mean share of :mod:`zoo.inference.gibbs.loose_directions`), nearly every direction is slow, and
step 4 moves all of them for less time. It is then taken in one sweep of three, and step 0 in one of twenty. Where
scales are learned both are taken in every sweep; but step 4 is taken in one sweep of four where no coefficient is
loose and less than 30 % of the information about C is missing: a sweep then takes two thirds of the time, and its
draws are worth nearly as much.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from zoo.inference.gibbs.collapsed_noise import Roots, collapsed_noise, roots_of, rows_are_few
from zoo.inference.gibbs.collapsed_population import (
    collapsed_moves,
    moves_without_scales,
    regression_given_scales,
)
from zoo.inference.gibbs.loose_directions import FEW_FEATURES
from zoo.inference.gibbs.loose_space import loose_space
from zoo.inference.gibbs.mean_steps import MeanSteps
from zoo.inference.gibbs.mean_weight import draw_mean_weight, start_mean_weight
from zoo.inference.gibbs.own_mean import sweep_with_own_mean
from zoo.inference.gibbs.population_coordinates import PopulationCoordinates
from zoo.inference.gibbs.population_lanes import (
    copy_sums,
    leave,
    to_lanes,
    whole_space,
)
from zoo.inference.gibbs.population_steps import LANES, Space, Tasks, plain_sweep
from zoo.inference.gibbs.scale_steps import ScaleSteps
from zoo.inference.gibbs.shared_coefficients import SharedFeatures
from zoo.inference.gibbs.shared_steps import SharedSteps
from zoo.inference.gibbs.task_sums import task_sums
from zoo.inference.run.kernel import copies, put_back
from zoo.inference.weighted_moments import weighted_sd

__all__ = ["NormalInverseWishartKernel"]

# Reflections tried in a sweep: two features and two tasks are picked at random, and most picks change next to nothing.
_REFLECTIONS = 6
# Mean share of missing information above which tasks know little of their other coefficients too, and the shares of
# sweeps that then take steps 4 and 0.
_LITTLE_KNOWN = 0.6
_SHARES = (1 / 3, 1 / 20)
# The same share below which they know them well, and the share of sweeps with step 4 where scales are learned then.
_WELL_KNOWN, _SHARE_WELL_KNOWN = 0.3, 1 / 4


@dataclass(frozen=True, eq=False)
class NormalInverseWishartKernel(PopulationCoordinates, MeanSteps, ScaleSteps, SharedSteps):
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.run.chains.run_chains`.

    Parameters
    ----------
    inputs, row : (n, D), (N,)
        Distinct inputs, whitened, and which of them each row has.
    y, task : (N,), (N,)
        Rows in any order.
    n_tasks : int
    pi, nu : float
        Weight of the prior of the mean, None: learned; degrees of freedom (textbook) of the covariance.
    mean_sd : float, optional
        Standard deviation, in whitened features of scales 1, of a prior of the mean that does not depend on the
        covariance; ``pi`` is then 0.
    half : (p, D), optional
        ``G`` with ``G G'`` the scale matrix; default the identity.
    names : (str, str, str)
        What the draws of coefficients, mean and covariance are called.
    noise_shape, noise_rate : float
        Of the inverse-gamma prior of the noise variance.
    noise_by_task : bool
        One noise variance per task, or one for all.
    group_moves : bool, optional
        Whether each sweep takes steps 4, and 0 where coefficients are loose; None: the rule above. Without them the
        noise is always drawn given the coefficients.
    loose : int, optional
        Coefficients that step 0 integrates out; default: those that :mod:`zoo.inference.gibbs.loose_directions` finds.
    sweep_shares : (float, float), optional
        Of the sweeps that take steps 4 and 0; default: as ``group_moves`` says.
    weight : (N,), optional
        Weights of the rows, above 0: the log density of a row counts so many times. Sums over rows are then weighted,
        and :math:`N_t` is the sum of the weights.
    shared : SharedFeatures, optional
        Features beside ``inputs`` whose coefficient all tasks share.
    scale_sd : float, optional
        ``s`` of :mod:`zoo.inference.gibbs.feature_scales`, above 0; default: scales of 1, which are given.
    offset : (p,), optional
        Added to coefficients and mean in what a draw reports: ``y`` is then what it leaves of the responses.
    """

    inputs: np.ndarray
    row: np.ndarray
    y: np.ndarray
    task: np.ndarray
    n_tasks: int
    pi: float | None
    nu: float
    half: np.ndarray | None = None
    names: tuple[str, str, str] = ("coefficients", "population_mean", "feature_cov")
    noise_shape: float = 1.0
    noise_rate: float = 0.1
    noise_by_task: bool = False
    group_moves: bool | None = False
    weight: np.ndarray | None = None
    loose: int | None = None
    sweep_shares: tuple[float, float] | None = None
    shared: SharedFeatures | None = None
    scale_sd: float | None = None
    mean_sd: float | None = None
    offset: np.ndarray | None = None

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state, with the sums over rows that never change."""
        D, T = self.inputs.shape[1], self.n_tasks
        blocks = -(-T // LANES)
        rotation, m, _ = self._basis
        half, reflections = self._unscaled
        tasks = Tasks(*(part.copy() for part in self._tasks)) if self._sums_change else self._tasks
        spread = np.exp(rng.normal())
        state = {
            "tasks": tasks,
            "basis": half.copy(),
            "shares": self._shares,
            "whole": whole_space(T, D) if self._shares[0] > 0.0 else None,
            "loose": loose_space(blocks, m, D) if m else None,
            "reflections": reflections,
            "space": Space(np.zeros((D, D, LANES)), np.zeros((D, LANES)), np.zeros((D, D))),
            "W": 0.1 * rng.standard_normal((blocks, D, LANES)),
            "mu": 0.1 * rng.standard_normal(D),
            "P": np.eye(D) / spread,
            "C": np.eye(D) * spread,
            "inverse_noise": np.full(
                (blocks, LANES),
                np.exp(rng.normal()) / max(float(weighted_sd(self.y, self.weight)) ** 2, 1e-300),
            ),
        }
        state["pi"] = start_mean_weight(rng, self.pi)
        state["own"] = np.full(D, 0.0 if self.mean_sd is None else self.mean_sd**-2.0)
        if self.mean_sd is not None:
            state["around"] = tasks._replace(
                centre=np.zeros_like(tasks.centre), linear=np.zeros_like(tasks.linear)
            )
        if self.scale_sd is not None:
            state["scales"] = np.ones(D)
            state["constant"] = (np.arange(blocks * LANES) < T).astype(np.float64)[:, None]
        if state["whole"] is not None and not self._sums_change and self.mean_sd is None:
            copy_sums(tasks, state["whole"])
        if self.shared is not None:
            state["shared"] = self.shared.start(rng)
            self._begin_shared(state, self.inputs @ rotation)
        return state

    @property
    def _sums_change(self) -> bool:
        """Whether the sums differ from state to state, so that each needs its own."""
        return self.shared is not None or self.scale_sd is not None

    def look_at_rows(self) -> None:
        """Make what all chains share of the rows, before chains in several threads ask for it at once."""
        _ = self._tasks, self._noise_roots, self._principal_axes

    @property
    def sums(self) -> Tasks:
        """What the rows say, in the sampler's coordinates."""
        return self._tasks

    @property
    def basis(self) -> np.ndarray:
        """From the sampler's coordinates to the coefficients (p, D); scales of 1."""
        return self._unscaled[0]

    @property
    def _noise_of_all(self) -> tuple[float, float]:
        """Shape and rate of the law of one noise of all rows; 0 where each task has its own."""
        return (0.0, 0.0) if self.noise_by_task else (float(self.noise_shape), float(self.noise_rate))

    @cached_property
    def _shares(self) -> tuple[float, float]:
        """Of the sweeps that take steps 4 and 0."""
        if self.sweep_shares is not None:
            return self.sweep_shares
        if self.group_moves is not None:
            return float(self.group_moves), 1.0
        if self.scale_sd is not None:
            known = not self._basis[1] and 0.0 < self._basis[2] <= _WELL_KNOWN
            return (_SHARE_WELL_KNOWN if known else 1.0), 1.0
        if self._basis[1] and self.inputs.shape[1] <= FEW_FEATURES:
            return 1.0, 1.0
        return _SHARES if self._basis[2] > _LITTLE_KNOWN else (0.0, 1.0)

    @cached_property
    def _noise_roots(self) -> Roots | None:
        """What draws a noise of all tasks with the coefficients integrated out, where rows are few."""
        if self.group_moves is False or self.noise_by_task or not rows_are_few(self._tasks):
            return None
        return roots_of(self.inputs @ self._basis[0], self.row, self.task, self.n_tasks, self.weight)

    @cached_property
    def _tasks(self) -> Tasks:
        """The sums over rows in the sampler's basis, in lanes."""
        blocks = -(-self.n_tasks // LANES)
        rows = (self.inputs @ self._basis[0], self.row, self.y, self.task, self.n_tasks, self.weight)
        sums = task_sums(*rows, padded=blocks * LANES)
        return Tasks(to_lanes(sums.S), to_lanes(sums.centre), to_lanes(sums.linear), sums.sse, sums.size)

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put posterior variables into the state."""
        back, T = np.linalg.pinv(state["basis"]), self.n_tasks
        coefficients, mean, cov = (values[name] for name in self.names)
        moved = self._moved(values)
        coefficients, mean = coefficients - moved[:, None], mean - moved
        W = np.zeros((state["inverse_noise"].size, len(back)))
        W[:T] = (back @ coefficients).T
        state["W"][:] = to_lanes(W)
        state["mu"][:] = back @ mean
        state["C"][:] = back @ cov @ back.T
        state["P"][:] = np.linalg.inv(state["C"])
        inverse = np.zeros(state["inverse_noise"].size)
        inverse[:T] = np.broadcast_to(values["noise"], T) ** -2.0
        state["inverse_noise"][:] = inverse.reshape(state["inverse_noise"].shape)
        if self.pi is None:
            state["pi"][...] = values["pi"]
        if self.shared is not None:
            state["shared"].put(values, self.shared)
            self._follow_shared(state)

    def with_response(self, y: np.ndarray) -> NormalInverseWishartKernel:
        """The kernel of the same rows with other responses."""
        return replace(self, y=y if self.offset is None else y - self._level)

    @property
    def _changing(self) -> tuple[str, ...]:
        """Names of the arrays that a snapshot of the state needs; the others are made from these and the data."""
        learned = {"scales": self.scale_sd is not None, "pi": self.pi is None}
        return ("W", "mu", "P", "C", "inverse_noise", *(name for name, kept in learned.items() if kept))

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients, population and noise; the rest follows from the data."""
        own = copies(state, self._changing)
        return own if self.shared is None else {**own, **state["shared"].snapshot()}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        put_back(state, snapshot, self._changing)
        if self.scale_sd is not None:
            self._follow_scales(state)
        if self.shared is not None:
            state["shared"].restore(snapshot)
            self._follow_shared(state)

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """One scan."""
        s, (group, loose) = state, state["shares"]
        self._interweave_scales(rng, s)
        if self.shared is not None:
            sums = s["shared_sums"] if self.scale_sd is None else s["shared_sums"].scaled(s["scales"])
            self._draw_shared(rng, s, *sums.known)
        moved = _takes(rng, group)
        collapsed = s["loose"] is not None and _takes(rng, loose)
        if moved or collapsed:
            tasks, mu = self._enter(s)
            if moved:
                if self._sums_change or self.mean_sd is not None:
                    copy_sums(tasks, s["whole"])
                self._group_moves(rng, s, mu)
            if collapsed:
                if moved:
                    s["C"][:] = np.linalg.inv(s["P"])  # step 0 reads it
                self._collapsed_moves(rng, s, tasks, mu)
                moved = True
            self._leave(s)
        if self._noise_roots is not None:
            if moved:
                s["C"][:] = np.linalg.inv(s["P"])  # the noise reads it
            roots = self._noise_roots if self.scale_sd is None else self._noise_roots.scaled(s["scales"])
            prior = float(self.noise_shape), float(self.noise_rate)
            collapsed_noise(rng, roots, s["tasks"], s["mu"], s["C"], s["inverse_noise"], *prior)
        noise = (float(self.noise_shape), float(self.noise_rate), self.noise_by_task, self.n_tasks)
        now = (s["tasks"], s["space"], s["W"], s["mu"], s["P"], s["C"], s["inverse_noise"], float(self.nu))
        if self.mean_sd is None:
            plain_sweep(rng, *now, float(s["pi"]), *noise)
            draw_mean_weight(rng, self.pi, s)
        else:
            sweep_with_own_mean(rng, *now, s["own"], *noise)

    def _collapsed_moves(
        self, rng: np.random.Generator, s: dict[str, Any], tasks: Tasks, mu: np.ndarray
    ) -> None:
        """Step 0; where scales of features are learned they are stale in between, and drawn again at once."""
        now = (s["W"], mu, s["P"], s["C"], s["inverse_noise"])
        tied = float(self.mean_sd is None)
        nu, T, loose = float(self.nu), self.n_tasks, s["loose"]
        pi = float(s["pi"]) if tied else 1.0  # of a constant that is not there
        tries = (s["reflections"], _REFLECTIONS)
        if self.scale_sd is None:
            collapsed_moves(rng, tasks, loose, *now, nu, pi, tied, T, *tries)
            return
        self._whiten_by(s, 1.0 / s["scales"])
        if self.mean_sd is not None:
            self._around(s)
        tries = (s["reflections"], _REFLECTIONS)
        ridge, constant = (s["scales"] / self.scale_sd) ** 2, loose._replace(regressors=tied * s["constant"])
        moves_without_scales(rng, tasks, loose, constant, *now, nu, pi, tied, T, *tries, ridge)
        self._draw_scales(rng, s)
        if self.mean_sd is not None:
            self._around(s)
        regression_given_scales(rng, tasks, loose, *now, pi, tied, T, s["reflections"])

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients (p, T), and the population."""
        population = self.record_population(state)
        coefficients = leave(state["W"], state["basis"], self.n_tasks)
        if self._reports_moved:
            coefficients += self._moved(population)[:, None]
        return {self.names[0]: coefficients, **population}

    def record_population(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Population mean (p,), covariance (p, p), and ``noise`` () or (T,): a draw without the coefficients."""
        basis, (_, mean, cov) = state["basis"], self.names
        if self.noise_by_task:
            noise = state["inverse_noise"].ravel()[: self.n_tasks] ** -0.5
        else:
            noise = state["inverse_noise"][0, 0] ** -0.5
        draw = {
            mean: basis @ state["mu"],
            cov: basis @ state["C"] @ basis.T,
            "noise": noise,
            **({"pi": state["pi"].copy()} if self.pi is None else {}),
            **({} if self.shared is None else state["shared"].record(self.shared)),
        }
        if self._reports_moved:
            draw[mean] += self._moved(draw)
        return draw

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: sizes of the mean, of the covariance and of the inverse noise."""
        return {
            "squared_mean": float(state["mu"] @ state["mu"]),
            "trace_feature_cov": float(state["C"].trace()),
            "mean_precision": float(state["inverse_noise"].ravel()[: self.n_tasks].mean()),
            **({"log_pi": float(np.log(state["pi"]))} if self.pi is None else {}),
        }


def _takes(rng: np.random.Generator, share: float) -> bool:
    """Whether a sweep is one of this share of all; a sure thing takes no random number."""
    return share >= 1.0 or (share > 0.0 and rng.random() < share)
