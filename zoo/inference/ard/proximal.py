r"""Sparse minima of functions of many blocks that only a group norm couples: proximal Newton steps, partitioned.

With one row of theta (B, p) per block (a task), and its first columns :math:`\kappa \ge 0`, the minimum of

.. math:: F(\theta) = \sum_b g_b(\theta_b) + C \sum_i \lVert \kappa_{\cdot i} \rVert_2

(srijith2014 eq (11)), or with :math:`\sum_{bi} \kappa_{bi}` for the norms, subject to lower bounds. Each iteration
replaces :math:`g_b` by the model

.. math::

    q_b(d) = g_b + \nabla g_b' d + \tfrac12 d' H_b d, \quad H_b = A_b + \text{damping}_b I_b + \text{ridge},

with :math:`I_b` the Fisher information and :math:`A_b` the Hessian if it will do, else :math:`I_b`, and minimises
:math:`\sum_b q_b + C \cdot \text{penalty}` by block coordinate descent over columns, which is their algorithm 1 on a
model, with Newton directions between the sweeps. Each column is set to its exact minimum, hence the exact zeros. Where
no :math:`g_b` exceeds its :math:`q_b`, F has not risen; the blocks that do exceed theirs are damped, and the model is
solved again. So no step is ever cut short, which would fill the zeros.

Without a Hessian, what the Fisher information lacks of it is learned from the gradients, as in the structured
quasi-Newton method of Dennis, Gay and Welsch (1981), by symmetric rank-one updates of each block.

For the ARD parameters of a Gaussian process the Fisher information lies far below the Hessian as soon as C is large.
The average information :math:`y'A^{-1} V_i A^{-1} V_j A^{-1} y / 2` is cheaper, and takes fewer iterations.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from zoo.inference.ard.proximal_columns import positive_definite, sweeps
from zoo.inference.ard.proximal_conditions import Constraints, Minimum, Objective, check_start

__all__ = ["minimise"]

_ROUNDING = 1e-12  # of a value, at most: rises below it are let pass where the residual falls
_RIDGE = 1e-12  # of the largest curvature of the column over blocks
_OWN_RIDGE = 1e-7  # of the entry's own: columns that are collinear in a block give singular matrices
_PIVOT = 1e-8  # smallest pivot of a matrix called positive definite, over its diagonal entry
_FRACTION = 0.25  # of the predicted fall that is enough
_RAISE, _LOWER, _SMALLEST, _LARGEST = 4.0, 0.25, 0.05, 1e10  # damping
_ACCURACY = 1e-2  # of the model's minimum: its residual, over that of F
_ROUNDS = 50  # of sweeps and a Newton direction of the model
_LENGTHS = (1.0, 0.5, 0.25, 0.1, 0.01)
_RUNAWAY = 1e10  # residual over its aim in a model without a minimum
_EPS = np.finfo(np.float64).eps


class _Matrices(NamedTuple):
    """Second orders to try, (B, p, p): ``safe`` is positive definite, ``bold`` may be so only with the penalty."""

    bold: np.ndarray
    safe: np.ndarray
    curvature: np.ndarray


def minimise(
    objective: Objective,
    start: Any,
    *,
    C: float,
    penalised: int,
    grouped: bool,
    lower: Any = 0.0,
    tol: float = 1e-7,
    max_iter: int = 500,
    progress: Callable[[int, float], None] | None = None,
) -> Minimum:
    """Descend to a local minimum; Ctrl-C keeps what was reached.

    Parameters
    ----------
    objective : Objective
    start : (B, p) array_like of float
    C : float
        Weight of the penalty, 0 or more.
    penalised : int
        Number of columns, from the first, that bear the penalty.
    grouped : bool
        Whether the penalty is the sum of the norms of these columns; otherwise of their entries.
    lower : array_like of float
        Bounds; broadcasts to (B, p). Zero in the penalised columns.
    tol : float
        Stop where :func:`kkt_residual` is no larger.
    max_iter : int
        Largest number of steps.
    progress : callable, optional
        Called with the number of steps and F, at the start and after each step.

    Returns
    -------
    Minimum
        Not converged if it was interrupted, took all steps, or if no step lowers F by more than rounding error or,
        within that, the residual.

    Raises
    ------
    ValueError
        For an argument that is out of range or does not fit the others, and a start below the bounds or where the
        objective is not finite.
    FloatingPointError
        A gradient or curvature is not finite.
    """
    theta, bounds = check_start(start, C, penalised, grouped, lower)
    objective.refresh(theta)
    values, gradient = objective.gradient(theta)
    if values.shape != theta.shape[:1] or gradient.shape != theta.shape:
        raise ValueError(
            f"the objective gives shapes {values.shape} and {gradient.shape} at a start of {theta.shape}."
        )
    if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
        blocks = np.flatnonzero(~(np.isfinite(values) & np.isfinite(gradient).all(axis=1)))
        raise ValueError(
            f"the objective is not finite at the start, in blocks {blocks[:10]}. Start elsewhere."
        )
    trace: list[float] = []
    residuals: list[float] = []
    descent, secant, interrupted = _Descent(objective, bounds, len(theta)), _Secant(), False
    try:
        while True:
            trace.append(float(values.sum()) + bounds.penalty(theta))
            residuals.append(bounds.residual(theta, gradient))
            if progress is not None:
                progress(len(trace) - 1, trace[-1])
            if residuals[-1] <= tol or len(trace) > max_iter:
                break
            matrices = _second_order(objective, secant, theta, gradient, bounds)
            following = descent.step(theta, values, gradient, matrices, residuals[-1])
            if following is None:
                break
            theta = following
            objective.refresh(theta)
            values, gradient = objective.gradient(theta)
            if not (np.isfinite(values).all() and np.isfinite(gradient).all()):
                raise FloatingPointError("the gradient is not finite in float64: scale the data.")
    except KeyboardInterrupt:  # what was reached stays
        interrupted = True
    converged = not interrupted and residuals[-1] <= tol
    return Minimum(theta, np.array(trace), np.array(residuals), converged, descent.evaluations, interrupted)


class _Descent:
    """Steps that do not raise F, with a damping of each block that lasts."""

    def __init__(self, objective: Objective, bounds: Constraints, n_blocks: int):
        self.objective, self.bounds = objective, bounds
        self.damping = np.zeros(n_blocks)
        self.evaluations = 1

    def step(
        self, theta: np.ndarray, values: np.ndarray, gradient: np.ndarray, second: _Matrices, residual: float
    ) -> np.ndarray | None:
        """The next point, or None where there is none better."""
        slack = _ROUNDING * (np.abs(values) + np.abs(values).mean())
        matrices = second.bold.copy()
        while (self.damping < _LARGEST).all():
            damped = matrices + self.damping[:, None, None] * second.curvature
            new, model = self._solve(theta, gradient, damped, _ACCURACY * residual)
            values_new = self.objective.value(new)
            values_new = np.where(np.isnan(values_new), np.inf, values_new)
            self.evaluations += 1
            exceed = values_new > values + model + slack
            charge = self.bounds.penalty(theta) - self.bounds.penalty(new)
            fall, predicted = float((values - values_new).sum()) + charge, charge - float(model.sum())
            below = not exceed.any() or fall >= _FRACTION * predicted
            better = below and fall > 4.0 * _EPS * np.abs(values).sum()
            if not better and abs(fall) <= slack.sum():
                better = self.bounds.residual(new, self.objective.gradient(new)[1]) < residual
            if better:
                self.damping[~exceed] *= _LOWER
                self.damping[self.damping < _SMALLEST] = 0.0
                return new
            if not exceed.any():
                exceed[:] = True
            matrices[exceed] = second.safe[exceed]
            self.damping[exceed] = np.maximum(_RAISE * self.damping[exceed], _SMALLEST * _RAISE)
        return None

    def _solve(
        self, theta: np.ndarray, gradient: np.ndarray, matrices: np.ndarray, tol: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The minimum of the model, and how it changes each block's."""
        new, slope = theta.copy(), gradient.copy()
        for _ in range(_ROUNDS):
            residual = sweeps(new, slope, matrices, *self.bounds, tol)
            if not tol < residual < _RUNAWAY * tol:
                break
            # Where columns are nearly collinear in a block, sweeps alone would take thousands.
            direction = _newton(new, slope, matrices, self.bounds)
            before = 0.5 * np.vdot(new - theta, gradient + slope) + self.bounds.penalty(new)
            for length in _LENGTHS:
                trial = np.maximum(new + length * direction, self.bounds.lower)
                slope_trial = gradient + np.einsum("bij,bj->bi", matrices, trial - theta)
                after = 0.5 * np.vdot(trial - theta, gradient + slope_trial) + self.bounds.penalty(trial)
                if after < before:
                    new, slope = trial, slope_trial
                    break
        return new, 0.5 * np.einsum("bi,bi->b", new - theta, gradient + slope)


def _newton(theta: np.ndarray, slope: np.ndarray, matrices: np.ndarray, bounds: Constraints) -> np.ndarray:
    """Newton direction of model and penalty for the coordinates above their bounds, all blocks together.

    The Hessian of the norms is diagonal but for one outer product per column: Woodbury's identity.
    """
    free = theta > bounds.lower
    kappa, C = theta[:, : bounds.penalised], bounds.C
    norm = np.linalg.norm(kappa, axis=0) if bounds.grouped and C > 0.0 else np.zeros(0)
    used = np.flatnonzero(norm)
    norm, unit = norm[used], kappa[:, used] / norm[used]
    pull, diagonal = slope.copy(), np.zeros_like(theta)
    pull[:, used] += C * unit
    diagonal[:, used] = C / norm
    if not bounds.grouped:
        pull[:, : bounds.penalised] += C
    pull[~free] = 0.0
    system = np.where(free[:, :, None] & free[:, None, :], matrices, 0.0)
    np.einsum("bii->bi", system)[:] += np.where(free, diagonal, 1.0)
    try:
        inverse = np.linalg.inv(system)
        plain = np.einsum("bij,bj->bi", inverse, pull)
        outer = np.einsum("bi,bij,bj->ij", unit, inverse[:, used][:, :, used], unit)
        weight = np.linalg.solve(np.diag(norm) / (C or 1.0) - outer, (unit * plain[:, used]).sum(axis=0))
    except np.linalg.LinAlgError:
        return np.zeros_like(theta)
    return -(plain + np.einsum("bij,bj->bi", inverse[:, :, used], unit * weight))


class _Secant:
    """What the curvature lacks of the Hessian, by symmetric rank-one updates."""

    def __init__(self) -> None:
        self.last: tuple[np.ndarray, np.ndarray] | None = None
        self.lack = np.zeros(())

    def hessian(self, theta: np.ndarray, gradient: np.ndarray, curvature: np.ndarray) -> np.ndarray:
        """Curvature with the correction by which it maps the last step to the change of the gradient."""
        if self.last is None:
            self.lack = np.zeros_like(curvature)
        else:
            step, change = theta - self.last[0], gradient - self.last[1]
            error = change - np.einsum("bij,bj->bi", curvature + self.lack, step)
            weight = np.einsum("bi,bi->b", error, step)
            sound = np.abs(weight) > _PIVOT * np.linalg.norm(error, axis=1) * np.linalg.norm(step, axis=1)
            weight = np.divide(1.0, weight, out=np.zeros_like(weight), where=sound)
            self.lack += np.einsum("b,bi,bj->bij", weight, error, error)
        self.last = theta, gradient
        return curvature + self.lack


def _second_order(
    objective: Objective, secant: _Secant, theta: np.ndarray, gradient: np.ndarray, bounds: Constraints
) -> _Matrices:
    curvature = np.array(objective.curvature(theta), dtype=np.float64, order="C")
    exact = getattr(objective, "hessian", None)
    hessian = (
        secant.hessian(theta, gradient, curvature)
        if exact is None
        else np.array(exact(theta), dtype=np.float64)
    )
    if not (np.isfinite(curvature).all() and np.isfinite(hessian).all()):
        raise FloatingPointError("the curvature is not finite in float64: scale the data.")
    own = np.einsum("bii->bi", curvature).copy()
    largest = own.max(axis=0)
    ridge = _OWN_RIDGE * own + _RIDGE * np.where(largest > 0.0, largest, 1.0)
    for matrices in (curvature, hessian):
        np.einsum("bii->bi", matrices)[:] += ridge
    free = theta > bounds.lower
    both, neither = free[:, :, None] & free[:, None, :], ~free[:, :, None] & ~free[:, None, :]
    mixed = np.where(both, hessian, np.where(neither, curvature, 0.0))
    half = np.where(both, 0.5 * (hessian + curvature), np.where(neither, curvature, 0.0))
    safe = curvature.copy()
    for matrices in (half, mixed):
        sound = positive_definite(matrices, np.zeros_like(theta))
        safe[sound] = matrices[sound]
    sound = positive_definite(mixed, bounds.penalty_curvature(theta))
    return _Matrices(np.where(sound[:, None, None], mixed, safe), safe, curvature)
