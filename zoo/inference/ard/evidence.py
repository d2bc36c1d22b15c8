r"""Marginal likelihood of one Gaussian process per task, with its gradient, for all tasks in one compiled call.

Each task has its own ARD parameters (srijith2014 eqs 4 to 6):

.. math::

    y^t \sim N(0, A), \quad A = a_t K(\kappa^t) + m^2 1 1^\top + \sigma_t^2 I, \quad
    K(x, x') = k\Big(\sum_i \kappa_i^t (x_i - x'_i)^2\Big) \text{ or } \sum_i \kappa_i^t x_i x'_i

Rows of a task at the same input count as one: with :math:`c` rows there, mean :math:`\bar y` and squares
:math:`S = \sum (y - \bar y)^2`,

.. math::

    \log N(y; 0, A) = \log N(\bar y; 0, a K + m^2 1 1^\top + \sigma^2 \mathrm{diag}(1/c))
        - \tfrac{N - n}{2} \log(2 \pi \sigma^2) - \tfrac12 \sum \log c - S / (2 \sigma^2)

A row of weight h has the density :math:`N(y; f, \sigma^2)^h`, that of h rows alike: c, N, :math:`\bar y` and S are then
sums by the weights.

One factorisation per task: of A (n x n), or for a linear kernel with fewer features than inputs of the matrix
:math:`M = \sigma^2 I + W^{1/2} Z^\top C Z W^{1/2}` of its features :math:`Z = [X, 1]` and their weights
:math:`W = (a \kappa, m^2)`, for which the Gram matrices are made once.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["KERNELS", "TaskInputs", "evidence", "inverse_factor", "lower_factor"]

KERNELS = {"squared_exponential": 0, "matern52": 1, "matern32": 2, "linear": 3}
"""Codes of the covariance functions that are compiled."""

_LINEAR = 3
_BLOCK = 32
_LOG_2PI = float(np.log(2.0 * np.pi))


class TaskInputs(NamedTuple):
    """Distinct inputs of all tasks, task by task.

    ``X`` (n, D); ``starts`` (T + 1,): task t has the inputs ``starts[t] .. starts[t + 1]``; ``counts`` (n,): rows at
    each, or the sum of their weights; ``slot`` (N,): the input of each row; ``gram`` (T, D + 1, D + 1):
    ``[X, 1]' diag(counts) [X, 1]`` of each task, empty unless the kernel is linear; ``weight`` (N,): of each row.
    """

    X: np.ndarray
    starts: np.ndarray
    counts: np.ndarray
    slot: np.ndarray
    gram: np.ndarray
    weight: np.ndarray

    @classmethod
    def of(
        cls,
        X: np.ndarray,
        task: np.ndarray,
        n_tasks: int,
        linear: bool = False,
        weight: np.ndarray | None = None,
    ) -> TaskInputs:
        """The inputs of rows ``X`` (N, D) of tasks ``task`` (N,), with weights (N,) or none."""
        keyed = np.column_stack([task.astype(np.float64), X + 0.0])
        distinct, slot = np.unique(keyed, axis=0, return_inverse=True)
        slot, h = slot.ravel(), np.ones(len(X)) if weight is None else np.asarray(weight, dtype=np.float64)
        counts = np.bincount(slot, h, minlength=len(distinct))
        inputs = np.ascontiguousarray(distinct[:, 1:])
        starts = np.searchsorted(distinct[:, 0], np.arange(n_tasks + 1))
        D = X.shape[1]
        gram = np.zeros((n_tasks if linear else 0, D + 1, D + 1))
        for t in range(len(gram)):
            rows = slice(starts[t], starts[t + 1])
            Z = np.column_stack([inputs[rows], np.ones(starts[t + 1] - starts[t])])
            gram[t] = (Z.T * counts[rows]) @ Z
        return cls(inputs, starts.astype(np.int64), counts, slot, gram, h)

    @property
    def n_tasks(self) -> int:
        """T."""
        return len(self.starts) - 1

    def rows(self, t: int) -> slice:
        """Where the inputs of task t are."""
        return slice(int(self.starts[t]), int(self.starts[t + 1]))

    def means(self, residual: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Means (n,) of values (N,) at each input; squares within them and weights of each task, (T,)."""
        mean = np.bincount(self.slot, weights=self.weight * residual, minlength=len(self.X)) / self.counts
        task = np.repeat(np.arange(self.n_tasks), np.diff(self.starts))
        squares = np.bincount(
            task[self.slot],
            weights=self.weight * (residual - mean[self.slot]) ** 2,
            minlength=self.n_tasks,
        )
        return mean, squares, np.bincount(task[self.slot], self.weight, minlength=self.n_tasks)


@njit(cache=True, nogil=True, inline="always")
def _correlation(kind: int, square: float) -> tuple[float, float]:
    """Stationary correlation at a squared scaled distance, and its derivative in that square."""
    if kind == 0:
        k = np.exp(-0.5 * square)
        return k, -0.5 * k
    r = np.sqrt(square)
    if kind == 1:
        e = np.exp(-np.sqrt(5.0) * r)
        return (1.0 + np.sqrt(5.0) * r + 5.0 * square / 3.0) * e, -5.0 / 6.0 * (1.0 + np.sqrt(5.0) * r) * e
    e = np.exp(-np.sqrt(3.0) * r)
    return (1.0 + np.sqrt(3.0) * r) * e, -1.5 * e


@njit(cache=True, nogil=True)
def lower_factor(A: np.ndarray) -> bool:
    """Cholesky factor in place (the lower triangle; the upper one is left); False where A is not positive definite.

    By blocks, so that large matrices run in BLAS, and small ones without its calls.
    """
    n = len(A)
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        for j in range(start, end):
            pivot = A[j, j]
            for m in range(start, j):
                pivot -= A[j, m] * A[j, m]
            if not pivot > 0.0:
                return False
            root = np.sqrt(pivot)
            A[j, j] = root
            for i in range(j + 1, end):
                total = A[i, j]
                for m in range(start, j):
                    total -= A[i, m] * A[j, m]
                A[i, j] = total / root
        if end < n:
            inverse = _small_inverse(A[start:end, start:end])
            panel = np.dot(np.ascontiguousarray(A[end:, start:end]), np.ascontiguousarray(inverse.T))
            A[end:, start:end] = panel
            A[end:, end:] -= np.dot(panel, np.ascontiguousarray(panel.T))
    return True


@njit(cache=True, nogil=True)
def _small_inverse(L: np.ndarray) -> np.ndarray:
    n = len(L)
    inverse = np.zeros((n, n))
    for i in range(n):
        root = L[i, i]
        inverse[i, i] = 1.0 / root
        for j in range(i):
            total = 0.0
            for m in range(j, i):
                total += L[i, m] * inverse[m, j]
            inverse[i, j] = -total / root
    return inverse


@njit(cache=True, nogil=True)
def inverse_factor(L: np.ndarray) -> np.ndarray:
    """Inverse of a lower factor, (n, n), block row by block row."""
    n = len(L)
    if n <= 2 * _BLOCK:
        return _small_inverse(L)
    inverse = np.zeros((n, n))
    for start in range(0, n, _BLOCK):
        end = min(start + _BLOCK, n)
        corner = _small_inverse(L[start:end, start:end])
        inverse[start:end, start:end] = corner
        if start > 0:
            left = np.dot(
                np.ascontiguousarray(L[start:end, :start]), np.ascontiguousarray(inverse[:start, :start])
            )
            inverse[start:end, :start] = -np.dot(corner, left)
    return inverse


@njit(cache=True, nogil=True)
def evidence(kind, X, starts, counts, slot, gram, weight, residual, kappa, noise, amplitude, constant):
    r"""Log marginal likelihood of every task and its gradient.

    Parameters
    ----------
    kind : int
        One of :data:`KERNELS`.
    X, starts, counts, slot, gram, weight
        See :class:`TaskInputs`.
    residual : (N,) float64
        Responses less their mean.
    kappa : (T, D) float64
        ARD parameters, 0 or more.
    noise : (T,) float64
        Noise variances.
    amplitude : (T,) float64
        a.
    constant : float
        :math:`m^2`, the prior variance of a constant of each task.

    Returns
    -------
    value (T,), and its derivatives in kappa (T, D), noise (T,), amplitude (T,) and residual (N,). A task whose matrix
    is not positive definite in floating point has value -inf and derivatives 0.
    """
    T, D = kappa.shape
    value, d_kappa = np.zeros(T), np.zeros((T, D))
    d_noise, d_amplitude, d_residual = np.zeros(T), np.zeros(T), np.zeros(len(residual))
    mean, squares, sizes, task = _means(starts, counts, slot, weight, residual)
    pull = np.zeros(len(X))  # derivative in the mean at each input
    for t in range(T):
        low, high = starts[t], starts[t + 1]
        n = high - low
        if n == 0:
            continue
        Xt, ct, yt = X[low:high], counts[low:high], mean[low:high]
        variance, scale = noise[t], amplitude[t]
        if kind == _LINEAR and n > D:
            value[t], d_noise[t] = _weight_space(
                Xt, ct, yt, gram[t], kappa[t], variance, scale, constant, d_kappa[t], pull[low:high]
            )
            for i in range(D):
                d_amplitude[t] += kappa[t, i] * d_kappa[t, i] / scale
        else:
            value[t], d_noise[t], d_amplitude[t] = _function_space(
                kind, Xt, ct, yt, kappa[t], variance, scale, constant, d_kappa[t], pull[low:high]
            )
        if value[t] == -np.inf:
            continue
        left = sizes[t] - n
        value[t] += -0.5 * (sizes[t] * _LOG_2PI + left * np.log(variance) + squares[t] / variance)
        d_noise[t] += 0.5 * (squares[t] / variance - left) / variance
    for row in range(len(residual)):
        u = slot[row]
        d_residual[row] = weight[row] * (pull[u] / counts[u] - (residual[row] - mean[u]) / noise[task[u]])
    return value, d_kappa, d_noise, d_amplitude, d_residual


@njit(cache=True, nogil=True)
def _means(starts, counts, slot, weight, residual):
    """Means at the inputs, squares within and weights of the rows of each task, task of each input."""
    T, n = len(starts) - 1, len(counts)
    mean, squares, sizes, task = np.zeros(n), np.zeros(T), np.zeros(T), np.zeros(n, np.int64)
    for t in range(T):
        for u in range(starts[t], starts[t + 1]):
            task[u] = t
            sizes[t] += counts[u]
    for row in range(len(residual)):
        mean[slot[row]] += weight[row] * residual[row] / counts[slot[row]]
    for row in range(len(residual)):
        u = slot[row]
        squares[task[u]] += weight[row] * (residual[row] - mean[u]) ** 2
    return mean, squares, sizes, task


@njit(cache=True, nogil=True)
def _function_space(kind, X, counts, y, kappa, variance, scale, constant, d_kappa, pull):
    """Value without what all forms share, and derivatives, by the n x n matrix."""
    n, D = X.shape
    A, slope, K = np.empty((n, n)), np.empty((n, n)), np.empty((n, n))
    for j in range(n):
        for m in range(j + 1):
            total = 0.0
            if kind == _LINEAR:
                for i in range(D):
                    total += kappa[i] * X[j, i] * X[m, i]
                K[j, m], slope[j, m] = total, 0.0
            else:
                for i in range(D):
                    gap = X[j, i] - X[m, i]
                    total += kappa[i] * gap * gap
                K[j, m], slope[j, m] = _correlation(kind, total)
            A[j, m] = scale * K[j, m] + constant
        A[j, j] += variance / counts[j]
    if not lower_factor(A):
        return -np.inf, 0.0, 0.0
    half = inverse_factor(A)
    white = np.zeros(n)
    value = 0.0
    for j in range(n):
        for m in range(j + 1):
            white[j] += half[j, m] * y[m]
        value -= 0.5 * white[j] * white[j] + np.log(A[j, j]) + 0.5 * np.log(counts[j])
    alpha = np.zeros(n)
    for j in range(n):
        for m in range(j + 1):
            alpha[m] += half[j, m] * white[j]
    inverse = np.dot(np.ascontiguousarray(half.T), half)
    d_noise = d_scale = 0.0
    for j in range(n):
        pull[j] = -alpha[j]
        for m in range(j + 1):
            weight = 0.5 * (alpha[j] * alpha[m] - inverse[j, m])  # derivative in A[j, m]
            if j == m:
                d_noise += weight / counts[j]
            else:
                weight *= 2.0
            d_scale += weight * K[j, m]
            if kind == _LINEAR:
                for i in range(D):
                    d_kappa[i] += scale * weight * X[j, i] * X[m, i]
            elif j != m:
                weight *= scale * slope[j, m]
                for i in range(D):
                    gap = X[j, i] - X[m, i]
                    d_kappa[i] += weight * gap * gap
    return value, d_noise, d_scale


@njit(cache=True, nogil=True)
def _weight_space(X, counts, y, gram, kappa, variance, scale, constant, d_kappa, pull):
    r"""The same for a linear kernel by its D + 1 features Z, whose rows are scaled by the root of their counts.

    With :math:`U = L^{-1} W^{1/2} S` and :math:`v = L^{-1} W^{1/2} b`: :math:`Z^\top A^{-1} Z = (S - U^\top U) /
    \sigma^2`, :math:`Z^\top A^{-1} y = (b - U^\top v) / \sigma^2`, :math:`\log |A| = (n - D - 1) \log \sigma^2 +
    \log |M|`.
    """
    n, D = X.shape
    p = D + 1
    root = np.empty(p)
    for i in range(D):
        root[i] = np.sqrt(scale * kappa[i])
    root[D] = np.sqrt(constant)
    b, yy = np.zeros(p), 0.0
    for j in range(n):
        weighted = counts[j] * y[j]
        yy += weighted * y[j]
        for i in range(D):
            b[i] += weighted * X[j, i]
        b[D] += weighted
    M = np.empty((p, p))
    for i in range(p):
        for m in range(p):
            M[i, m] = root[i] * gram[i, m] * root[m]
        M[i, i] += variance
    if not lower_factor(M):
        return -np.inf, 0.0
    half = inverse_factor(M)
    for i in range(p):
        for m in range(i + 1):
            half[i, m] *= root[m]
    U, v = np.dot(half, gram), np.dot(half, b)
    g = np.dot(np.ascontiguousarray(half.T), v)  # posterior mean of the weights
    quadratic, value = yy, -0.5 * (n - p) * np.log(variance)
    for i in range(p):
        quadratic -= v[i] * v[i]
        value -= np.log(M[i, i])
    value -= 0.5 * quadratic / variance
    explained, inner = 0.0, 0.0
    for i in range(p):
        square, slope, fitted = 0.0, b[i], 0.0
        for m in range(p):
            square += U[m, i] * U[m, i]
            slope -= U[m, i] * v[m]
            fitted += gram[i, m] * g[m]
        P, q = (gram[i, i] - square) / variance, slope / variance
        explained += root[i] * root[i] * P
        inner += g[i] * (fitted - 2.0 * b[i])
        if i < D:
            d_kappa[i] = 0.5 * scale * (q * q - P)
    squares = (yy + inner) / (variance * variance)  # |A^-1 y|^2
    for j in range(n):
        fitted = g[D]
        for i in range(D):
            fitted += X[j, i] * g[i]
        pull[j] = -counts[j] * (y[j] - fitted) / variance
    return value, 0.5 * (squares - (n - explained) / variance)
