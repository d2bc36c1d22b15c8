r"""Gibbs sampling of a matrix-normal hierarchy whose likelihood is Gaussian given weights.

Row n has :math:`f_n = x_n' h_{t(n)} + o_n` with a known offset ``o_n``. For every row the engine sees a weight ``w_n``
and a linear term ``v_n`` with

.. math:: \log p(y_n, \text{augmentation} \mid f_n) = -\tfrac12 w_n f_n^2 + v_n f_n + \text{const}.

Where some features have a coefficient that all tasks share, ``o_n`` holds their part too, which is drawn right after
the auxiliary variables (:mod:`zoo.inference.gibbs.shared_coefficients`).

It draws ``H`` (T x D) and the covariances :math:`R \sim IW(\nu_R, \Psi_R)` of tasks and
:math:`\Omega \sim IW(\nu_\Omega, \Psi_\Omega)` of features, or keeps given ones.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.augmentation import Augmentation, restore_parameters, snapshot_of
from zoo.inference.gibbs.collapsed_rows_loss import collapsed_loss_moves, scale_all_tasks
from zoo.inference.gibbs.joint_moves import JointStep
from zoo.inference.gibbs.likelihood_moves import LikelihoodMoves, moves_pay
from zoo.inference.gibbs.likelihood_populations import task_scales
from zoo.inference.gibbs.marginal_moves import marginal_moves
from zoo.inference.gibbs.matrix_normal_sweep import (
    Work,
    draw_task_precision,
    sums_over_rows,
    sweep_covariances,
)
from zoo.inference.gibbs.shared_coefficients import (
    SharedFeatures,
    draw_with_coefficients,
    draw_without_task_cov,
    regressions_of_shared,
)
from zoo.inference.gibbs.task_precision import NO_MATRIX
from zoo.inference.gibbs.task_rows import Rows, function_values
from zoo.inference.run.kernel import copies, put_back

__all__ = ["CovariancePrior", "MatrixNormalKernel"]

# Multiplications in the sums over rows: of all tasks, where threads pay (some 0.3 ms); of a task, where a call from
# Python pays.
_WORTH_A_THREAD = 5e6


class CovariancePrior(NamedTuple):
    """Inverse-Wishart prior of a covariance, or a given covariance.

    Parameters
    ----------
    nu : float
        Degrees of freedom (textbook parametrisation).
    scale : (n, n) array or None
        Scale matrix; None is the identity.
    given : (n, n) array or None
        The covariance itself, where it is not learned; of tasks (0, 0) for the identity.
    """

    nu: float
    scale: np.ndarray | None = None
    given: np.ndarray | None = None

    @property
    def learned(self) -> bool:
        """Whether the covariance is sampled."""
        return self.given is None


@dataclass(frozen=True, eq=False)
class MatrixNormalKernel:
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.run.chains.run_chains`.

    Parameters
    ----------
    inputs, row : (n, D), (N,)
        Distinct inputs, and which of them each row has.
    y, task : (N,), (N,)
        Rows in any order.
    augmentation : Augmentation
        Its weights and linear terms stand for the likelihood.
    n_tasks : int
    task, feature : CovariancePrior
        Priors of the two covariances, or the covariances.
    weight : (N,), optional
        What multiplies each row's log likelihood.
    offset : (N,), optional
        Known part of f.
    group_moves : bool
        False leaves the conditionals of the paper alone, which converge slowly.
    paper_scaling : bool
        Rescale the sampled covariances as the paper does (section 6.1.1). Then the draws are of no posterior.
    likelihood_moves : bool, optional
        Whether to take the moves of :mod:`zoo.inference.gibbs.likelihood_moves`; by default with group moves where the
        augmentation says that it crawls.
    shared : SharedFeatures, optional
        Features beside ``inputs`` whose coefficient all tasks share. There is no ``offset`` beside them.
    """

    inputs: np.ndarray
    row: np.ndarray
    y: np.ndarray
    task: np.ndarray
    augmentation: Augmentation
    n_tasks: int
    task_prior: CovariancePrior
    feature_prior: CovariancePrior
    weight: np.ndarray | None = None
    offset: np.ndarray | None = None
    group_moves: bool = True
    paper_scaling: bool = False
    likelihood_moves: bool | None = None
    shared: SharedFeatures | None = None

    # ---------------------------------------------------------------- state

    def initialise(self, rng: np.random.Generator, threads: int = 1) -> dict[str, Any]:
        """A dispersed starting state; also the chain's work space.

        ``threads`` share the sums over rows where these are large; the draws do not depend on it.
        """
        order = np.argsort(self.task, kind="stable")
        N, D, T = len(self.y), self.inputs.shape[1], self.n_tasks
        basis = self._basis()
        sizes = np.bincount(self.task, minlength=T)
        rows = Rows.of(self.inputs @ basis, self.row, order, sizes, self.offset)
        parameters = self.augmentation.start()
        y = np.ascontiguousarray(self.y[order])
        threads = threads if N * D * D > _WORTH_A_THREAD else 1
        state: dict[str, Any] = {
            "rows": rows,
            "y": y,
            "task": np.ascontiguousarray(self.task[order]),
            "weight": np.ones(N) if self.weight is None else np.ascontiguousarray(self.weight[order]),
            "parameters": parameters,
            "basis": basis,
            "order": order,
            "work": Work.of(N, T, D, not self._collapses),
            "f": np.empty(N),
            "pool": ThreadPoolExecutor(threads) if threads > 1 else None,
            "parts": [
                (np.empty((np.diff(rows.starts[a : b + 1]).max(), D)), (a, b))
                for a, b in _task_ranges(rows.starts, threads)
            ],
            "hinges": None if self.augmentation.hinges is None else self.augmentation.hinges(y, parameters),
            **self._prior_arrays(),
            **self._line(rows),
        }
        state["H"] = 0.1 * rng.standard_normal((T, D))
        state["P"] = _starting_precision(self.task_prior, T, rng)
        state["O"] = basis.T @ _starting_precision(self.feature_prior, D, rng) @ basis
        if self.shared is not None:
            rows_of_shared = np.ascontiguousarray(self.shared.rows[order])
            state["shared"] = self.shared.start(rng)
            state["shared_rows"] = (rows_of_shared, *regressions_of_shared(rows, rows_of_shared))
            self._follow_shared(state)
        state["joint"] = JointStep.of(self.augmentation, parameters, rows, y, state["weight"])
        state["moves"] = None
        wanted = self.likelihood_moves if self.group_moves else bool(self.likelihood_moves)
        if moves_pay(self.augmentation, wanted, y, state["weight"]):
            state["moves"] = LikelihoodMoves(
                self.augmentation, parameters, rows, y, state["weight"], state["task"]
            )
        function_values(rows, state["H"], 0, T, state["f"])
        return state

    def _basis(self) -> np.ndarray:
        """Columns in which the engine holds the features: ``coefficients = basis @ H.T``."""
        D = self.inputs.shape[1]
        if not self.feature_prior.learned:
            return np.eye(D)
        # Whitened features have an identity scale.
        scale = self.feature_prior.scale
        whiten = np.eye(D) if scale is None else np.linalg.cholesky(scale)
        if not self.group_moves:
            return whiten
        # An identity-scale inverse-Wishart is invariant under rotation. In the eigenbasis of X'X, directions
        # with little data are coordinate axes, and the scale and shear moves act on them alone.
        X = self.inputs @ whiten
        uses = np.bincount(self.row, minlength=len(X)).astype(np.float64)
        return whiten @ np.linalg.eigh(X.T @ (uses[:, None] * X))[1]

    def _prior_arrays(self) -> dict[str, np.ndarray]:
        scale = self.task_prior.scale
        if scale is None or not self.task_prior.learned:
            return {"scale": NO_MATRIX, "scale_chol": NO_MATRIX, "scale_inverse": NO_MATRIX}
        scale = np.ascontiguousarray(scale)
        return {
            "scale": scale,
            "scale_chol": np.linalg.cholesky(scale),
            "scale_inverse": np.ascontiguousarray(np.linalg.inv(scale)),
        }

    def _line(self, rows: Rows) -> dict[str, np.ndarray]:
        """Direction of the mean input, along which a task's rows move alike: an intercept, where there is one."""
        mean = rows.inputs[rows.row].mean(axis=0)
        size = np.linalg.norm(mean)
        typical = np.sqrt(np.mean(rows.inputs**2))
        if not size > 1e-6 * typical:  # standardized without an intercept: there is no such direction
            return {"direction": np.empty(0), "along": np.empty(0)}
        direction = mean / size
        return {"direction": direction, "along": (rows.inputs @ direction)[rows.row]}

    def set_values(self, state: dict[str, Any], values: dict[str, np.ndarray]) -> None:
        """Put coefficients (D, T), and of covariances and parameters those that are learned, into the state.

        With ``covariance_scale`` among them the covariances are those of :meth:`record`, else those of :meth:`raw`.
        """
        basis = state["basis"]
        scale = values.get("covariance_scale", 1.0)
        state["H"][:] = np.linalg.solve(basis, values["coefficients"]).T
        if "task_cov" in values and self.task_prior.learned:
            state["P"][:] = _inverse(values["task_cov"] / scale)
        if "feature_cov" in values and self.feature_prior.learned:
            state["O"][:] = basis.T @ np.linalg.solve(values["feature_cov"] * scale, basis)
        self.augmentation.put(state["parameters"], values)
        if self.shared is not None:
            state["shared"].put(values, self.shared)
            self._follow_shared(state)
        function_values(state["rows"], state["H"], 0, self.n_tasks, state["f"])

    def _follow_shared(self, state: dict[str, Any]) -> None:
        """Bring the offsets of the rows up to date."""
        state["rows"].offset[:] = state["shared_rows"][0] @ state["shared"].beta

    def with_response(self, y: np.ndarray) -> Any:
        """The kernel of the same rows with other coded responses."""
        return replace(self, y=y)

    def snapshot(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """Coefficients, precisions, and the parameters of the likelihood; f follows from these."""
        own = {**copies(state, ("H", "P", "O")), **snapshot_of(state["parameters"])}
        return own if self.shared is None else {**own, **state["shared"].snapshot()}

    def restore(self, state: dict[str, Any], snapshot: dict[str, np.ndarray]) -> None:
        """Go on from a snapshot."""
        put_back(state, snapshot, ("H", "P", "O"))
        restore_parameters(state["parameters"], snapshot)
        if self.shared is not None:
            state["shared"].restore(snapshot)
            self._follow_shared(state)
        function_values(state["rows"], state["H"], 0, self.n_tasks, state["f"])

    # ---------------------------------------------------------------- transition

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Moves without augmentation, augmentation, coefficients, group moves, covariances."""
        self._augment(rng, state)
        self._scan(rng, state)
        if self.paper_scaling:
            for which, prior in (("P", self.task_prior), ("O", self.feature_prior)):
                if prior.learned:
                    state[which][:] = _paper_scaled(state[which])
        function_values(state["rows"], state["H"], 0, self.n_tasks, state["f"])

    def _augment(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """What is drawn given f, and the sums over rows that follow from it."""
        s = state
        rows, work, augmentation, task = s["rows"], s["work"], self.augmentation, self.task_prior
        if augmentation.update is not None:
            augmentation.update(
                rng, s["f"], s["y"], s["weight"], s["task"], s["parameters"], augmentation.laws
            )
        if s["joint"] is not None and self.group_moves:
            s["joint"].matrix_normal(rng, s["H"], s["P"], s["O"], task, self.feature_prior, s["f"])
        if self.group_moves and s["hinges"] is not None:
            self._move_under_the_loss(rng, s)
        if s["moves"] is not None:
            s["moves"].matrix_normal(rng, s["H"], s["P"], s["O"], s["f"])
            if task.learned:
                task_scales(rng, s["moves"], s["H"], s["P"], float(task.nu), s["scale"], s["f"])
        augmentation.draw(rng, s["f"], s["y"], s["weight"], s["task"], s["parameters"], work.w, work.v)
        if self.shared is not None:
            self._draw_shared(rng, s)
        rng.standard_normal(out=work.z)
        spread = map if s["pool"] is None else s["pool"].map
        list(spread(lambda part: sums_over_rows(rows, work, *part), s["parts"]))

    def _move_under_the_loss(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """The moves of single tasks that see no augmentation, under the hinge loss."""
        rows, task, cost = s["rows"], self.task_prior, s["parameters"].C[0] * s["weight"]
        if not self._collapses:
            marginal_moves(
                rng, s["hinges"], cost, rows.starts, s["f"], rows.offset, s["along"],
                s["direction"], s["H"], s["P"], s["O"], task.learned, float(task.nu), s["scale"],
            )  # fmt: skip
            return
        if self.feature_prior.learned:
            nu = float(self.feature_prior.nu)
            scale_all_tasks(rng, s["hinges"], cost, rows, s["f"], s["H"], s["O"], nu)
        line = (s["along"], s["direction"])
        collapsed_loss_moves(
            rng, s["hinges"], cost, rows, s["f"], *line, s["H"], s["O"], float(task.nu), s["scale_inverse"]
        )
        if self.shared is not None:  # whose draw looks at the covariance that was integrated out
            draw_task_precision(rng, s["H"], s["P"], s["O"], float(task.nu), s["scale"])

    @property
    def _collapses(self) -> bool:
        """Whether single tasks move with the covariance of tasks integrated out."""
        many = self.n_tasks >= self.inputs.shape[1]
        return self.group_moves and self.task_prior.learned and many and not self.paper_scaling

    def _draw_shared(self, rng: np.random.Generator, s: dict[str, Any]) -> None:
        """Shared coefficients given the augmentation, and the scale of their prior."""
        assert self.shared is not None
        work, task, shared = s["work"], self.task_prior, s["shared"]
        prior = (s["H"], s["P"], s["O"], shared.beta, shared.sd)
        known = (rng, s["rows"], *s["shared_rows"], work.w, work.v, *prior)
        draw_with_coefficients(*known, not task.learned)
        if task.learned:
            draw_without_task_cov(*known, float(task.nu), s["scale"], s["scale_inverse"])
        shared.draw_scales(rng, self.shared)

    def _scan(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Coefficients and covariances given the augmentation."""
        s, task, feature = state, self.task_prior, self.feature_prior
        sweep_covariances(
            rng, s["work"], s["H"], s["P"], s["O"], float(task.nu), float(feature.nu),
            s["scale"], s["scale_chol"], s["scale_inverse"], task.learned, feature.learned, self.group_moves,
            self._collapses,
        )  # fmt: skip

    # ---------------------------------------------------------------- output

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw in the user's coordinates: ``coefficients`` (D, T) and the learned covariances.

        The data fix only the Kronecker product of the covariances. Where both are learned, ``feature_cov`` has
        trace D, ``task_cov`` the rest, and ``covariance_scale`` is the factor that the priors see.
        """
        draw = self.raw(state)
        if self.feature_prior.learned and self.task_prior.learned:
            scale = np.trace(draw["feature_cov"]) / len(draw["feature_cov"])
            draw["feature_cov"] /= scale
            draw["task_cov"] *= scale
            draw["covariance_scale"] = scale
        return draw

    def raw(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw with the covariances as the priors see them."""
        basis = state["basis"]
        draw = {"coefficients": basis @ state["H"].T}
        if self.feature_prior.learned:
            draw["feature_cov"] = basis @ _inverse(state["O"]) @ basis.T
        if self.task_prior.learned:
            draw["task_cov"] = _inverse(state["P"])
        if self.shared is not None:
            draw |= state["shared"].record(self.shared)
        return {**draw, **self.augmentation.record(state["parameters"])}

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: squared size of ``f``, log determinant of the prior covariance."""
        values = {"mean_squared_f": float(np.mean(state["f"] ** 2))}
        log_det = 0.0
        T, D = state["H"].shape
        if self.feature_prior.learned:
            log_det -= T * float(np.linalg.slogdet(state["O"])[1])
        if self.task_prior.learned:
            log_det -= D * float(np.linalg.slogdet(state["P"])[1])
        if log_det:
            values["log_det_prior_cov"] = log_det
        return values


def _starting_precision(prior: CovariancePrior, size: int, rng: np.random.Generator) -> np.ndarray:
    if prior.given is not None:
        return np.linalg.inv(prior.given) if prior.given.size else NO_MATRIX
    spread = np.exp(rng.normal())
    return spread * (np.eye(size) if prior.scale is None else np.linalg.inv(prior.scale))


def _task_ranges(starts: np.ndarray, parts: int) -> list[tuple[int, int]]:
    """Ranges of tasks with about the same number of rows."""
    cuts = np.searchsorted(starts, np.linspace(0, starts[-1], parts + 1)[1:-1])
    edges = [0, *(int(c) for c in cuts), len(starts) - 1]
    return [(a, b) for a, b in pairwise(edges) if b > a]


def _paper_scaled(precision: np.ndarray) -> np.ndarray:
    """Precision after "divide by a constant and force the diagonal entries to be at least one" (li2014, 6.1.1).

    The constant is not given: the mean of the diagonal here.
    """
    cov = _inverse(precision)
    cov /= np.mean(np.diag(cov))
    np.fill_diagonal(cov, np.maximum(np.diag(cov), 1.0))
    return _inverse(cov)


def _inverse(matrix: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(matrix)
    return (inverse + inverse.T) / 2
