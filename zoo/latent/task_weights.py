r"""Gaussian conditionals of linear functions of many tasks that share directions.

.. math::

    f_n = u_{t(n)}' x_n, \quad u_t = R \Big( \sum_k W_{tk} v_k + \sqrt{d_t}\, e_t \Big), \quad v_k, e_t \sim N(0, I_D)

so that the coefficients are N(0, B (x) Q) with :math:`B = \mathrm{diag}(d) + W W'` and :math:`Q = R R'`: the linear
multi-task kernel :math:`B_{lq} x'Qt` (Evgeniou, Micchelli & Pontil 2005, eqs 20 to 27) without an N x N matrix. Rows
enter as :math:`\sum_n -\omega_n f_n^2 / 2 + \nu_n f_n`, what a Gaussian likelihood or an augmentation leaves, through
:math:`S_t = \sum_n \omega_n x_n x_n'` and :math:`b_t = \sum_n \nu_n x_n` alone. In coordinates with R = I, with
:math:`P_t = I + d_t S_t`, :math:`A_t = S_t P_t^{-1}` (the two commute) and :math:`g_t = \sum_k W_{tk} v_k`:

.. math::

    e_t \mid v \sim N(\sqrt{d_t} P_t^{-1} (b_t - S_t g_t), P_t^{-1}), \quad
    v \sim N(M^{-1} h, M^{-1}), \quad
    M = I + \sum_t (w_t w_t') \otimes A_t, \quad h = \sum_t w_t \otimes P_t^{-1} b_t

    2 \log Z = \sum_t (d_t b_t' P_t^{-1} b_t - \log |P_t|) + h' M^{-1} h - \log |M|.

With r columns in W, time is O(N D^2) for the sums and O(T D^3 + T r^2 D^2 + r^3 D^3) for the rest.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from zoo.inference.compiled import njit

__all__ = ["Gradient", "Loadings", "WeightConditional", "WeightSums", "row_values", "weight_sums"]

# Features up to which matrices of their size are factorised by loops.
_SMALL = 24
# Numbers that are worked on at once.
_ENTRIES = 2_000_000


class Loadings(NamedTuple):
    """``B = diag(d) + W W'`` (T,), (T, r) of the tasks and a root R (D, D) of Q; R may be None for the identity."""

    d: np.ndarray
    W: np.ndarray
    R: np.ndarray | None = None


def _blocks(n_tasks: int, numbers: int) -> Iterator[slice]:
    """Tasks some at a time, where each needs so many numbers."""
    step = max(1, _ENTRIES // max(1, numbers))
    return (slice(start, start + step) for start in range(0, n_tasks, step))


class WeightSums(NamedTuple):
    """What the rows of the tasks say: S (T, D, D) and b (T, D)."""

    S: np.ndarray
    b: np.ndarray

    def __add__(self, other: WeightSums) -> WeightSums:  # type: ignore[override]
        return WeightSums(self.S + other.S, self.b + other.b)

    def scaled(self, factor: float) -> WeightSums:
        """Both times a number: rows of equal weight."""
        return WeightSums(factor * self.S, factor * self.b)


@njit(cache=True, nogil=True)
def _sums(inputs, row, task, omega, nu, S, b):
    D = inputs.shape[1]
    for n in range(len(task)):
        x, t = inputs[row[n]], task[n]
        for i in range(D):
            b[t, i] += nu[n] * x[i]
            scaled = omega[n] * x[i]
            if scaled != 0.0:
                for j in range(i + 1):
                    S[t, i, j] += scaled * x[j]
    for t in range(len(S)):
        for i in range(D):
            for j in range(i):
                S[t, j, i] = S[t, i, j]


def weight_sums(
    inputs: np.ndarray, row: np.ndarray, task: np.ndarray, n_tasks: int, omega: np.ndarray, nu: np.ndarray
) -> WeightSums:
    """The sums over rows (N,) whose inputs are ``inputs[row]``, in one pass and without a copy of the inputs."""
    D = inputs.shape[1]
    S, b = np.zeros((n_tasks, D, D)), np.zeros((n_tasks, D))
    _sums(np.ascontiguousarray(inputs), row, task, omega, nu, S, b)
    return WeightSums(S, b)


@njit(cache=True, nogil=True)
def row_values(inputs, row, task, coefficients):
    """``x' w_t`` (N,) of rows whose inputs are ``inputs[row]``, of coefficients (T, D)."""
    result = np.zeros(len(task))
    for n in range(len(task)):
        x, w = inputs[row[n]], coefficients[task[n]]
        for i in range(len(x)):
            result[n] += x[i] * w[i]
    return result


@njit(cache=True, nogil=True)
def _solve(P, both):
    """Half the log determinant of P, positive definite; ``both`` becomes its inverse times itself, P its factor.

    In loops: of small matrices the calls of LAPACK take three times as long.
    """
    D, half_log_det = len(P), 0.0
    for i in range(D):
        for j in range(i):
            total = P[i, j]
            for k in range(j):
                total -= P[i, k] * P[j, k]
            P[i, j] = total / P[j, j]
        total = P[i, i]
        for k in range(i):
            total -= P[i, k] ** 2
        if not total > 0.0:
            raise np.linalg.LinAlgError("Matrix is not positive definite.")
        P[i, i] = np.sqrt(total)
        half_log_det += np.log(P[i, i])
        for k in range(i):
            for c in range(both.shape[1]):
                both[i, c] -= P[i, k] * both[k, c]
        for c in range(both.shape[1]):
            both[i, c] /= P[i, i]
    for i in range(D - 1, -1, -1):
        for k in range(i + 1, D):
            for c in range(both.shape[1]):
                both[i, c] -= P[k, i] * both[k, c]
        for c in range(both.shape[1]):
            both[i, c] /= P[i, i]
    return half_log_det


@njit(cache=True, nogil=True)
def _own_weights(S, b, d, W):
    """Own weights integrated out task by task: P^-1, A, P^-1 b, and M of the shared ones; their parts of log Z."""
    T, D = b.shape
    r = W.shape[1]
    own, A, c = np.empty((T, D, D)), np.empty((T, D, D)), np.empty((T, D))
    M, P, both = np.eye(r * D), np.empty((D, D)), np.empty((D, 2 * D + 1))
    fit, half_log_det = 0.0, 0.0
    for t in range(T):
        # Solved for, and not multiplied by the inverse: with little noise S and b are huge, and their products with an
        # inverse that is right to rounding in its large part only are not.
        for i in range(D):
            for j in range(D):
                P[i, j] = d[t] * S[t, i, j] + (1.0 if i == j else 0.0)
                both[i, j] = S[t, i, j]
                both[i, D + 1 + j] = 1.0 if i == j else 0.0
            both[i, D] = b[t, i]
        if D <= _SMALL:
            half_log_det += _solve(P, both)
        else:
            root = np.linalg.cholesky(P)
            both[:] = np.linalg.solve(P, both)
            for i in range(D):
                half_log_det += np.log(root[i, i])
        for i in range(D):
            c[t, i] = both[i, D]
            fit += 0.5 * d[t] * b[t, i] * c[t, i]
            for j in range(i + 1):
                A[t, i, j] = A[t, j, i] = 0.5 * (both[i, j] + both[j, i])
                own[t, i, j] = own[t, j, i] = 0.5 * (both[i, D + 1 + j] + both[j, D + 1 + i])
        for k in range(r):
            if W[t, k] == 0.0:
                continue
            for l in range(r):
                pair = W[t, k] * W[t, l]
                if pair != 0.0:
                    M[k * D : (k + 1) * D, l * D : (l + 1) * D] += pair * A[t]
    return own, A, c, M, fit, half_log_det


@njit(cache=True, nogil=True)
def _forms(X, task, covariance):
    """``x' C_t x`` of each row."""
    result = np.empty(len(X))
    for n in range(len(X)):
        result[n] = X[n] @ (covariance[task[n]] @ X[n])
    return result


class Gradient(NamedTuple):
    """Derivatives of log Z in d (T,), W (T, r) and R (D, D)."""

    d: np.ndarray
    W: np.ndarray
    R: np.ndarray


@dataclass(frozen=True, eq=False)
class WeightConditional:
    """Law of the coefficients given the rows; make it with :meth:`of`."""

    d: np.ndarray
    W: np.ndarray
    R: np.ndarray
    S: np.ndarray
    b: np.ndarray
    own: np.ndarray
    """``P_t^-1`` (T, D, D)."""
    A: np.ndarray
    c: np.ndarray
    """``P_t^-1 b_t`` (T, D)."""
    factor: np.ndarray
    """Lower Cholesky factor of M, (r D, r D)."""
    shared: np.ndarray
    """Mean of v, (r, D)."""
    log_evidence: float
    half_log_det: float
    """Half the log determinants of P_t and M, which is what the prior's volume costs."""

    @classmethod
    def of(cls, sums: WeightSums, loadings: Loadings) -> WeightConditional:
        """The law of the weights, given sums of rows in the coordinates of the features."""
        d, W = loadings.d, np.ascontiguousarray(loadings.W)
        R = np.eye(sums.b.shape[1]) if loadings.R is None else loadings.R
        S, b = (sums.S, sums.b) if loadings.R is None else (R.T @ sums.S @ R, sums.b @ R)
        own, A, c, M, fit, half_log_det = _own_weights(S, b, d, W)
        h = (W.T @ c).ravel()
        factor = np.linalg.cholesky(M)
        shared = cho_solve((factor, True), h)
        fit += 0.5 * float(h @ shared)
        half_log_det += float(np.log(np.diag(factor)).sum())
        shared = shared.reshape(W.shape[1], -1)
        return cls(d, W, R, S, b, own, A, c, factor, shared, fit - half_log_det, half_log_det)

    # ---------------------------------------------------------------- moments

    @cached_property
    def _residual(self) -> np.ndarray:
        """``b - S u`` at the mean, (T, D), which is the score of the rows."""
        return np.asarray(self.c - np.einsum("tij,tj->ti", self.A, self.W @ self.shared))

    @cached_property
    def _white_mean(self) -> np.ndarray:
        return self.W @ self.shared + self.d[:, None] * self._residual

    @cached_property
    def _shared_cov(self) -> np.ndarray:
        """Covariance of v, (r, r, D, D)."""
        r, D = self.shared.shape
        C = cho_solve((self.factor, True), np.eye(r * D))
        return np.asarray(C.reshape(r, D, r, D).transpose(0, 2, 1, 3))

    @cached_property
    def _common_cov(self) -> np.ndarray:
        """Covariance of the shared part g of each task, (T, D, D)."""
        T, D = self.b.shape
        r = self.W.shape[1]
        result, C = np.empty((T, D * D)), self._shared_cov.reshape(r * r, D * D)
        for at in _blocks(T, r * r):
            W = self.W[at]
            result[at] = (W[:, :, None] * W[:, None, :]).reshape(len(W), r * r) @ C
        return result.reshape(T, D, D)

    @cached_property
    def _white_cov(self) -> np.ndarray:
        """Covariance of each task's weights, (T, D, D)."""
        return np.asarray(self.d[:, None, None] * self.own + self.own @ self._common_cov @ self.own)

    @cached_property
    def _weighed_cov(self) -> np.ndarray:
        """``S Cov(u)`` of each task, (T, D, D), without a product with the large S."""
        return np.asarray(self.d[:, None, None] * self.A + self.A @ self._common_cov @ self.own)

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of the coefficients, (D, T)."""
        return self.R @ self._white_mean.T

    @cached_property
    def covariance(self) -> np.ndarray:
        """Posterior covariance of each task's coefficients, (T, D, D)."""
        return np.asarray(self.R @ self._white_cov @ self.R.T)

    @property
    def deviations(self) -> np.ndarray:
        """Posterior standard deviations of the coefficients, (D, T)."""
        return np.sqrt(np.diagonal(self.covariance, axis1=1, axis2=2).T)

    def dof(self) -> float:
        """Trace of the matrix that maps working responses to fits, ``sum_t tr S_t Cov(u_t)``."""
        return float(np.trace(self._weighed_cov, axis1=1, axis2=2).sum())

    def natural(self) -> tuple[np.ndarray, np.ndarray]:
        """Two vectors that are linear in the mean functions and whose product is their squared norm: v and e, twice."""
        weights = np.append(self.shared, np.sqrt(self.d)[:, None] * self._residual)
        return weights, weights

    def norm(self) -> float:
        """Squared norm ``|v|^2 + |e|^2`` of the mean: what a regulariser J takes there."""
        left, right = self.natural()
        return float(left @ right)

    def select(self, tasks: np.ndarray) -> WeightConditional:
        """The law of the coefficients of these tasks (k,) alone, given all rows; its evidence is still that of all.

        Given v the tasks are independent, so that what all rows say of v is all that tasks say of each other.
        """
        own = {name: getattr(self, name)[tasks] for name in ("d", "W", "S", "b", "own", "A", "c")}
        return replace(self, **own)

    def draw_shared(self, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        """Draws of v, (r, D, size)."""
        r, D = self.shared.shape
        noise = solve_triangular(self.factor, rng.standard_normal((r * D, size)), trans="T", lower=True)
        return np.asarray((self.shared.reshape(-1, 1) + noise).reshape(r, D, size))

    def draw(self, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        """Draws of the coefficients, (size, D, T)."""
        T, D = self.b.shape
        v = self.draw_shared(rng, size)
        result = np.empty((size, D, T))
        # P^-1 = L L' has draws L z; g + sqrt(d) e = P^-1 g + d P^-1 b + sqrt(d) L z. Some tasks at a time: of many the
        # numbers on the way would be as many as the draws.
        for at in _blocks(T, D * size):
            own, d = self.own[at], self.d[at]
            u = own @ np.tensordot(self.W[at], v, axes=1) + (d[:, None] * self.c[at])[:, :, None]
            free = d > 0.0
            white = np.linalg.cholesky(own[free]) @ rng.standard_normal((int(free.sum()), D, size))
            u[free] += np.sqrt(d[free])[:, None, None] * white
            result[:, :, at] = (self.R @ u).transpose(2, 1, 0)
        return result

    def predict(self, X: np.ndarray, task: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the functions at rows (n, D) of these tasks (n,), at the cost of these tasks alone."""
        asked, position = np.unique(task, return_inverse=True)
        some = self.select(asked)
        mean = np.einsum("nd,nd->n", X, some.mean.T[position])
        covariance = np.ascontiguousarray(some.covariance)
        return mean, np.maximum(_forms(np.ascontiguousarray(X), position, covariance), 0.0)

    # ---------------------------------------------------------------- derivatives

    def gradient(self, of_root: bool = True) -> Gradient:
        r"""Derivatives of log Z, by Fisher's identity; ``of_root``: in R too, which must have an inverse then.

        With the score :math:`\rho_t = b_t - S_t E u_t`, C the covariance of v and V_t that of g_t:

        .. math::

            \partial_{W_{tk}} = \rho_t' E v_k - \sum_l W_{tl} \langle A_t, C_{lk} \rangle, \quad
            \partial_{d_t} = \tfrac12 (\rho_t' \rho_t - tr A_t + tr A_t V_t A_t), \quad
            \partial_R = \sum_t R^{-T} (\rho_t E u_t' - S_t Cov u_t) .
        """
        T, D = self.b.shape
        r = self.W.shape[1]
        rho, C = self._residual, self._shared_cov
        by_W = rho @ self.shared.T
        for at in _blocks(T, r * r):
            inner = self.A[at].reshape(-1, D * D) @ C.reshape(r * r, D * D).T
            by_W[at] -= np.einsum("tl,tlk->tk", self.W[at], inner.reshape(-1, r, r))
        V = self._common_cov
        trace = np.trace(self.A, axis1=1, axis2=2)
        by_d = 0.5 * (np.sum(rho**2, axis=1) - trace + np.sum((self.A @ V) * self.A, axis=(1, 2)))
        if not of_root:
            return Gradient(by_d, by_W, np.zeros((D, D)))
        inside = rho.T @ self._white_mean - self._weighed_cov.sum(axis=0)
        return Gradient(by_d, by_W, np.linalg.solve(self.R.T, inside))
