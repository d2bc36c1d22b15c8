r"""Gibbs sampling of a matrix-normal hierarchy whose likelihood is Gaussian given weights.

The engine sees only, for every row n, a weight ``w_n`` and a linear term ``v_n`` with
:math:`\log p(y_n, \text{augmentation} \mid f_n) = -\tfrac12 w_n f_n^2 + v_n f_n + \text{const}` and
:math:`f_n = x_n' h_{t(n)}`. It draws ``H`` (T x D) and the covariances
:math:`R \sim IW(\nu_R, I)` of tasks and :math:`\Omega \sim IW(\nu_\Omega, I)` of features, or keeps given ones.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numba import njit

from zoo.inference.draws import wishart
from zoo.inference.group_moves import feature_moves, kronecker_swap, task_moves

__all__ = ["MatrixNormalKernel"]

Augment = Callable[[np.random.Generator, np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray], None]


@njit(cache=True, nogil=True)
def _sufficient(X, starts, w, v, weighted, S, r):
    """Quadratic terms ``S_t = X_t' W_t X_t`` and linear terms ``r_t = X_t' v_t`` of all tasks."""
    n_tasks = len(starts) - 1
    for n in range(X.shape[0]):
        root = np.sqrt(w[n])
        for d in range(X.shape[1]):
            weighted[n, d] = root * X[n, d]
    for t in range(n_tasks):
        a, b = starts[t], starts[t + 1]
        S[t] = weighted[a:b].T @ weighted[a:b]
        r[t] = X[a:b].T @ v[a:b]


@njit(cache=True, nogil=True)
def _draw_rows(rng, S, r, H, P, O):
    """Each task's coefficients given the others' (li2014 eq 7 and 14, corrected).

    Precision ``S_t + P_tt O`` and linear term ``r_t - O sum_{s != t} P_ts h_s``: the prior's share is the
    (t, t) entry of the inverse of R, and the cross term has no factor 1/2.
    """
    n_tasks, n_features = H.shape
    for t in range(n_tasks):
        others = H.T @ P[t] - P[t, t] * H[t]
        factor = np.linalg.cholesky(S[t] + P[t, t] * O)
        draw = r[t] - O @ others
        for i in range(n_features):  # forward: L^-1 b, then + z
            for j in range(i):
                draw[i] -= factor[i, j] * draw[j]
            draw[i] /= factor[i, i]
        for i in range(n_features):
            draw[i] += rng.standard_normal()
        for i in range(n_features - 1, -1, -1):  # backward: L'^-1
            for j in range(i + 1, n_features):
                draw[i] -= factor[j, i] * draw[j]
            draw[i] /= factor[i, i]
        H[t] = draw


@njit(cache=True, nogil=True)
def _sweep(
    rng, X, starts, w, v, weighted, S, r, H, P, O, f,
    nu_task, nu_feature, learn_task, learn_feature, group_moves,
):  # fmt: skip
    """One scan over coefficients and covariances given the weights; all arrays change in place."""
    n_tasks, n_features = H.shape
    _sufficient(X, starts, w, v, weighted, S, r)
    _draw_rows(rng, S, r, H, P, O)
    if group_moves and learn_task:
        task_moves(rng, weighted, starts, S, r, H, P, nu_task)
    if group_moves and learn_feature:
        feature_moves(rng, S, r, H, O, nu_feature)
    # li2014 eq (8).
    if learn_task:
        P[:] = wishart(rng, nu_task + n_features, np.eye(n_tasks) + H @ O @ H.T)
    if learn_feature:
        O[:] = wishart(rng, nu_feature + n_tasks, np.eye(n_features) + H.T @ P @ H)
    if group_moves and learn_task and learn_feature:
        kronecker_swap(rng, P, O, nu_task, nu_feature)
    for t in range(n_tasks):
        f[starts[t] : starts[t + 1]] = X[starts[t] : starts[t + 1]] @ H[t]


@dataclass(frozen=True, eq=False)
class MatrixNormalKernel:
    """Markov kernel of the hierarchy above, for :func:`zoo.inference.chains.run_chains`.

    Parameters
    ----------
    X, y, task : (N, D), (N,), (N,)
        Rows in any order.
    augment : compiled callable ``(rng, f, y, parameters, w, v)``
        Draws the augmentation given ``f`` and writes the weights and linear terms of every row.
    parameters : (k,) float64
        Handed to ``augment``.
    n_tasks : int
    task_cov, feature_cov : array or None
        Given covariance, or None to learn it under an inverse-Wishart prior with identity scale.
    nu_task, nu_feature : float
        Degrees of freedom of those priors (textbook parametrisation).
    group_moves : bool
        False leaves the conditionals of the paper alone, which converge slowly.
    """

    X: np.ndarray
    y: np.ndarray
    task: np.ndarray
    augment: Augment
    parameters: np.ndarray
    n_tasks: int
    task_cov: np.ndarray | None
    feature_cov: np.ndarray | None
    nu_task: float
    nu_feature: float
    group_moves: bool = True

    def initialise(self, rng: np.random.Generator) -> dict[str, Any]:
        """A dispersed starting state; also the chain's work space."""
        order = np.argsort(self.task, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(self.task, minlength=self.n_tasks))])
        D, T = self.X.shape[1], self.n_tasks
        rotation = self._rotation()
        X = np.ascontiguousarray(self.X[order] @ rotation)
        N = len(X)
        state: dict[str, Any] = {
            "X": X,
            "y": np.ascontiguousarray(self.y[order]),
            "starts": starts,
            "rotation": rotation,
            "H": 0.1 * rng.standard_normal((T, D)),
            "P": np.eye(T) * np.exp(rng.normal()) if self.task_cov is None else np.linalg.inv(self.task_cov),
            "O": np.eye(D) * np.exp(rng.normal())
            if self.feature_cov is None
            else np.linalg.inv(self.feature_cov),
            "w": np.empty(N),
            "v": np.empty(N),
            "weighted": np.empty((N, D)),
            "S": np.empty((T, D, D)),
            "r": np.empty((T, D)),
        }
        state["f"] = np.einsum("nd,nd->n", X, state["H"][self.task[order]])
        return state

    def _rotation(self) -> np.ndarray:
        # An identity-scale inverse-Wishart is invariant under rotation. In the eigenbasis of X'X, directions
        # with little data are coordinate axes, and the scale and shear moves act on them alone.
        if self.feature_cov is not None or not self.group_moves:
            return np.eye(self.X.shape[1])
        return np.linalg.eigh(self.X.T @ self.X)[1]

    def sweep(self, rng: np.random.Generator, state: dict[str, Any]) -> None:
        """Augmentation, coefficients, group moves, covariances."""
        s = state
        self.augment(rng, s["f"], s["y"], self.parameters, s["w"], s["v"])
        _sweep(
            rng, s["X"], s["starts"], s["w"], s["v"], s["weighted"], s["S"], s["r"], s["H"], s["P"], s["O"],
            s["f"], float(self.nu_task), float(self.nu_feature),
            self.task_cov is None, self.feature_cov is None, self.group_moves,
        )  # fmt: skip

    def record(self, state: dict[str, Any]) -> dict[str, np.ndarray]:
        """The draw in the user's coordinates: ``coefficients`` (D, T) and the learned covariances."""
        U = state["rotation"]
        draw = {"coefficients": U @ state["H"].T}
        if self.feature_cov is None:
            draw["feature_cov"] = U @ _inverse(state["O"]) @ U.T
        if self.task_cov is None:
            draw["task_cov"] = _inverse(state["P"])
        return draw

    def monitor(self, state: dict[str, Any]) -> dict[str, float]:
        """Scalars followed while sampling: log determinants and the squared size of ``f``."""
        values = {"mean_squared_f": float(np.mean(state["f"] ** 2))}
        if self.feature_cov is None:
            values["log_det_feature_cov"] = -float(np.linalg.slogdet(state["O"])[1])
        if self.task_cov is None:
            values["log_det_task_cov"] = -float(np.linalg.slogdet(state["P"])[1])
        return values


def _inverse(precision: np.ndarray) -> np.ndarray:
    inverse = np.linalg.inv(precision)
    return (inverse + inverse.T) / 2
