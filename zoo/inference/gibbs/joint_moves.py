r"""Moves of the coefficients together with parameters of the likelihood, auxiliary variables integrated out.

Coefficients are drawn given the parameters of the likelihood, and these given the coefficients. Where the rows tie the
two, as cut points of grades are tied to the scale of f, each draw then waits for the other. A likelihood with such
parameters has moves that change f and them at once (:class:`zoo.inference.augmentation.JointMoves`), and here stands
what the prior of the coefficients says of them. The moves come after the parameters are drawn and before the auxiliary
variables are, as those of :mod:`zoo.inference.gibbs.likelihood_moves` do, for the reason given there.

**Scale.** f without its offset grows by :math:`a = e^s`, in the log density of s with its Jacobian:

- Normal-inverse-Wishart, all tasks: :math:`(W, \mu, C) \to (a W, a \mu, a^2 C)`. The prior of W and :math:`\mu` given C
  does not change, and :math:`C \sim IW(\nu, I)`, :math:`P = C^{-1}` leave
  :math:`-\nu D s - \tfrac12 e^{-2s} \operatorname{tr} P`. A mean with a prior of its own, of precision K, adds
  :math:`D s - \tfrac12 e^{2s} \mu' K \mu`.
- The same, one task: :math:`w_t \to a w_t`, which leaves
  :math:`D s + e^s w_t' P \mu - \tfrac12 e^{2s} w_t' P w_t`.
- Matrix normal, all tasks: H grows with the covariance of features, of :math:`\nu` degrees of freedom and an
  identity scale, whose inverse is O: :math:`-\nu D s - \tfrac12 e^{-2s} \operatorname{tr} O`. Where that is given, H
  grows with the covariance of T tasks, of the scale :math:`\Psi`, whose inverse is P:
  :math:`-\nu T s - \tfrac12 e^{-2s} \operatorname{tr} \Psi P`. Where both are given, H grows alone:
  :math:`T D s - \tfrac12 e^{2s} \operatorname{tr} P H O H'`.
- The same, one task: :math:`D s - e^s \sum_{r \ne t} P_{tr} h_r' O h_t - \tfrac12 e^{2s} P_{tt} h_t' O h_t`.

**Shift.** Where some v has :math:`x_n' v = 1` in all rows, as the axis of an intercept has, f grows by s with
:math:`w_t \to w_t + s v`, in all tasks together with :math:`\mu \to \mu + s v`, or in one:

- Normal-inverse-Wishart: :math:`-s\, v' K \mu - \tfrac12 s^2 v' K v` for all tasks, with :math:`K = \pi P` the prior
  precision of the mean, and
  :math:`-s\, v' P (w_t - \mu) - \tfrac12 s^2 v' P v` for one.
- Matrix normal: :math:`-s\, 1' P H O v - \tfrac12 s^2 (1' P 1)(v' O v)` for all tasks, and
  :math:`-s\, (P H O v)_t - \tfrac12 s^2 P_{tt} v' O v` for one.

All tasks move together where they share the parameters, and each task alone where it has parameters of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.inference.augmentation import Augmentation, Parameters
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.task_precision import diagonal, row_times, times, total
from zoo.inference.gibbs.task_rows import Rows

__all__ = ["JointStep"]

# Of a direction along which all rows move alike: how far from 1 a row may be.
_SAME = 1e-8


class JointStep:
    """The moves of one chain.

    Parameters
    ----------
    augmentation : Augmentation
        With ``joint``.
    parameters : named tuple of arrays
        The current parameters of the likelihood, which the moves change in place.
    rows : Rows
        Their offset, which the chain may change, is no part of what grows.
    y, weight : (N,)
    """

    def __init__(
        self,
        augmentation: Augmentation,
        parameters: Parameters,
        rows: Rows,
        y: np.ndarray,
        weight: np.ndarray,
    ):
        assert augmentation.joint is not None
        self._moves, self._laws = augmentation.joint, augmentation.laws
        self._known = (parameters, y, weight)
        self._rows = rows
        self._starts = rows.starts if augmentation.per_task else np.array([0, len(y)])
        self._by_task = bool(augmentation.per_task)
        self._direction = self._first = _constant(rows)

    @classmethod
    def of(
        cls, augmentation: Augmentation, parameters: Parameters, rows: Rows, y: np.ndarray, weight: np.ndarray
    ) -> JointStep | None:
        """The moves, or None where the likelihood has none or its parameters are given."""
        if augmentation.joint is None or augmentation.update is None:
            return None
        return cls(augmentation, parameters, rows, y, weight)

    def rescale(self, scales: np.ndarray) -> None:
        """Follow inputs that are those of the beginning, multiplied by ``scales`` (D,)."""
        if self._first is not None:
            self._direction = self._first / scales

    def population(
        self,
        rng: np.random.Generator,
        W: np.ndarray,
        mu: np.ndarray,
        P: np.ndarray,
        nu: float,
        law: MeanLaw,
        f: np.ndarray,
    ) -> None:
        """Both moves of a normal-inverse-Wishart hierarchy; W (T, D), mu (D,), P (D, D) and f (N,) change in place."""
        (T, D), v = W.shape, self._direction
        if self._by_task:
            one = np.column_stack(
                [np.full(T, D), W @ (P @ mu), -0.5 * np.sum(W @ P * W, axis=1), np.zeros(T)]
            )
            W *= self._scale(rng, f, 0, one)[:, None]
        else:
            own = 0.0 if law.tied else D
            all_tasks = np.array([[own - nu * D, 0.0, -0.5 * (mu @ (law.own * mu)), -0.5 * np.trace(P)]])
            factor = self._scale(rng, f, 0, all_tasks)[0]
            W *= factor
            mu *= factor
            P /= factor * factor
        if v is None:
            return
        pull, square = P @ v, float(v @ P @ v)
        if self._by_task:
            W += np.outer(self._shift(rng, f, 0, (mu - W) @ pull, np.full(T, square)), v)
        else:
            K = law.precision(P)
            shift = self._shift(rng, f, 0, np.array([-(v @ K @ mu)]), np.array([v @ K @ v]))[0]
            W += shift * v
            mu += shift * v

    def matrix_normal(
        self,
        rng: np.random.Generator,
        H: np.ndarray,
        P: np.ndarray,
        O: np.ndarray,
        task: Any,
        feature: Any,
        f: np.ndarray,
    ) -> None:
        """Both moves of a matrix-normal hierarchy; H (T, D), P (T, T), O (D, D) and f (N,) change in place.

        ``task`` and ``feature`` are the :class:`~zoo.inference.gibbs.matrix_normal.CovariancePrior` of each.
        """
        v = self._direction
        if self._by_task:
            for t in range(len(H)):
                self._one_task(rng, H, P, O, t, f)
            return
        T, D = H.shape
        prior = np.zeros((1, 4))
        grows = O if feature.learned else P
        if feature.learned:
            prior[0, [0, 3]] = -feature.nu * D, -0.5 * np.trace(O)
        elif task.learned:
            trace = np.trace(P) if task.scale is None else np.sum(task.scale * P)
            prior[0, [0, 3]] = -task.nu * T, -0.5 * trace
        else:
            prior[0, [0, 2]] = T * D, -0.5 * np.sum(times(P, H) * (H @ O))
        factor = self._scale(rng, f, 0, prior)[0]
        H *= factor
        if feature.learned or task.learned:
            grows /= factor * factor
        if v is not None:
            linear, square = -np.sum(times(P, H) @ (O @ v)), total(P, T).sum() * (v @ O @ v)
            H += self._shift(rng, f, 0, np.array([linear]), np.array([square]))[0] * v

    def _one_task(
        self, rng: np.random.Generator, H: np.ndarray, P: np.ndarray, O: np.ndarray, t: int, f: np.ndarray
    ) -> None:
        """Both moves of task t in the matrix-normal hierarchy."""
        v, pull = self._direction, row_times(P, t, H) @ O
        own = diagonal(P, t) * (H[t] @ O @ H[t])
        prior = np.array([[H.shape[1], own - pull @ H[t], -0.5 * own, 0.0]])
        H[t] *= self._scale(rng, f, t, prior)[0]
        if v is not None:
            linear, square = -(row_times(P, t, H) @ O @ v), diagonal(P, t) * (v @ O @ v)
            H[t] += self._shift(rng, f, t, np.array([linear]), np.array([square]))[0] * v

    def _scale(self, rng: np.random.Generator, f: np.ndarray, first: int, prior: np.ndarray) -> np.ndarray:
        """Factors (G,) of the groups from ``first`` on, with the prior's share (G, 4)."""
        parameters, y, weight = self._known
        factor = np.empty(len(prior))
        starts, offset = self._starts[first : first + len(prior) + 1], self._rows.offset
        self._moves.scale(rng, f, y, weight, starts, first, parameters, self._laws, offset, prior, factor)
        return factor

    def _shift(
        self, rng: np.random.Generator, f: np.ndarray, first: int, linear: np.ndarray, square: np.ndarray
    ) -> np.ndarray:
        """Shifts (G,) of the groups from ``first`` on, under the prior's share ``linear s - square s^2 / 2``."""
        parameters, y, weight = self._known
        shift, prior = np.empty(len(linear)), np.column_stack([linear, -0.5 * square])
        starts = self._starts[first : first + len(shift) + 1]
        self._moves.shift(rng, f, y, weight, starts, first, parameters, self._laws, prior, shift)
        return shift


def _constant(rows: Rows) -> np.ndarray | None:
    """The direction v (D,) with ``x'v = 1`` in all rows, or None where there is none."""
    v, *_ = np.linalg.lstsq(rows.inputs, np.ones(len(rows.inputs)), rcond=None)
    return v if np.allclose(rows.inputs @ v, 1.0, rtol=0.0, atol=_SAME) else None
