"""Compiled parts of the proximal minimiser: columns set to their minimum, the conditions of a minimum."""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["group_prox", "positive_definite", "residual_of", "sweeps"]

_PIVOT = 1e-8  # smallest pivot of a matrix called positive definite, over its diagonal entry
_EPS = np.finfo(np.float64).eps
_SWEEPS = 10  # between Newton directions of the model


@njit(cache=True, nogil=True)
def positive_definite(matrices, extra):
    """Whether each has a positive diagonal and, plus ``extra`` there, a Cholesky factor with pivots above rounding."""
    B, p = matrices.shape[:2]
    answer, factor = np.ones(B, np.bool_), np.empty((p, p))
    for b in range(B):
        for i in range(p):
            for j in range(i + 1):
                entry = matrices[b, i, j] + (extra[b, i] if i == j else 0.0)
                for k in range(j):
                    entry -= factor[i, k] * factor[j, k]
                if j < i:
                    factor[i, j] = entry / factor[j, j]
                elif matrices[b, i, i] > 0.0 and entry > _PIVOT * (matrices[b, i, i] + extra[b, i]):
                    factor[i, i] = np.sqrt(entry)
                else:
                    answer[b] = False
            if not answer[b]:
                break
    return answer


@njit(cache=True, nogil=True)
def column_residual(x, gradient, lower, C, group):
    norm, pull = np.sqrt(np.sum(x * x)) if group else 0.0, 0.0
    if group and norm == 0.0:
        for g in gradient:
            pull += min(g, 0.0) ** 2
        return max(np.sqrt(pull) - C, 0.0)
    largest = 0.0
    for t in range(len(x)):
        pull = gradient[t] + (C * x[t] / norm if group else C)
        largest = max(largest, abs(pull) if x[t] > lower[t] else -pull)
    return largest


@njit(cache=True, nogil=True)
def residual_of(theta, gradient, lower, C, penalised, grouped):
    """Largest violation of the conditions over columns; see ``kkt_residual``."""
    largest = 0.0
    for i in range(theta.shape[1]):
        weight = C if i < penalised else 0.0
        group = grouped and weight > 0.0
        column = column_residual(theta[:, i], gradient[:, i], lower[:, i], weight, group)
        largest = max(largest, column)
    return largest


@njit(cache=True, nogil=True)
def group_prox(a, h, C, x):
    r"""Minimise :math:`\sum_t h_t x_t^2 / 2 - a_t x_t + C \lVert x \rVert` over x >= 0, in place; x is a guess.

    Zero if :math:`\lVert a_+ \rVert \le C`; else :math:`x_t = a_t^+ / (h_t + C / \rho)`, and :math:`\rho`, its norm,
    solves :math:`s(\rho) = \lVert a_+ / (h \rho + C) \rVert = 1`. As 1/s is concave, Newton steps on it are safe.
    """
    square, smallest, largest, guess = 0.0, np.inf, 0.0, 0.0
    for t in range(len(a)):
        guess += x[t] * x[t]
        if a[t] > 0.0:
            square += a[t] * a[t]
            smallest, largest = min(smallest, h[t]), max(largest, h[t])
    excess = np.sqrt(square) - C
    if excess <= 0.0:
        x[:] = 0.0
        return
    low, high = excess / largest, excess / smallest
    rho = min(max(np.sqrt(guess), low), high)
    for _ in range(100):
        square, slope = 0.0, 0.0
        for t in range(len(a)):
            if a[t] > 0.0:
                scale = 1.0 / (h[t] * rho + C)
                share = (a[t] * scale) ** 2
                square += share
                slope += share * h[t] * scale
        if square > 1.0:
            low = rho
        else:
            high = rho
        old, rho = rho, rho + (np.sqrt(square) - 1.0) * square / slope
        if not low <= rho <= high:
            rho = 0.5 * (low + high)
        if abs(rho - old) <= 2.0 * _EPS * rho:
            break
    for t in range(len(a)):
        x[t] = a[t] / (h[t] + C / rho) if a[t] > 0.0 else 0.0
        if x[t] < _EPS * rho:  # where a block has no curvature, only the ridge keeps it from zero
            x[t] = 0.0


@njit(cache=True, nogil=True)
def sweeps(theta, slope, matrices, C, penalised, grouped, lower, tol):
    """Minimise the model by columns; ``slope``, its gradient, is kept up to date. Returns the last sweep's residual."""
    B, p = theta.shape
    a, h, x = np.empty(B), np.empty(B), np.empty(B)
    residual = 0.0
    for _ in range(_SWEEPS):
        residual = 0.0
        for i in range(p):
            weight = C if i < penalised else 0.0
            group = grouped and weight > 0.0
            column = column_residual(theta[:, i], slope[:, i], lower[:, i], weight, group)
            residual = max(residual, column)
            for t in range(B):
                x[t], h[t] = theta[t, i], matrices[t, i, i]
                a[t] = h[t] * x[t] - slope[t, i]
            if group:
                group_prox(a, h, C, x)
            else:
                for t in range(B):
                    x[t] = max(x[t] - (slope[t, i] + weight) / h[t], lower[t, i])
            for t in range(B):
                change = x[t] - theta[t, i]
                if change != 0.0:
                    theta[t, i] = x[t]
                    for j in range(p):
                        slope[t, j] += change * matrices[t, i, j]
        if residual <= tol:
            break
    return residual
