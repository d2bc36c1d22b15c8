"""Conditional laws of one Gaussian process per task with ARD parameters: at new inputs, and with a row left out."""

from __future__ import annotations

import numpy as np

from zoo.inference.ard.correlation import Correlation, Parameters
from zoo.inference.ard.evidence import TaskInputs

__all__ = ["conditional_moments", "leave_one_out"]

# A negative variance below rounding of this size of the prior's is taken for zero.
_ROUNDING = 1e-10


def _covariance(
    kernel: Correlation, X: np.ndarray, Y: np.ndarray, t: int, parameters: Parameters, constant: float
) -> np.ndarray:
    return parameters.amplitude[t] * kernel.matrix(X, Y, parameters.kappa[t]) + constant


def conditional_moments(
    kernel: Correlation,
    inputs: TaskInputs,
    residual: np.ndarray,
    parameters: Parameters,
    constant: float,
    X: np.ndarray,
    task: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and standard deviation (n,) of the functions at rows X (n, D) of tasks (n,), given residuals (N,).

    A task without known rows has its prior.
    """
    means = inputs.means(residual)[0]
    mean, variance = np.zeros(len(X)), np.zeros(len(X))
    for t in np.unique(task):
        new, known = np.flatnonzero(task == t), inputs.rows(t)
        prior = parameters.amplitude[t] * kernel.diagonal(X[new], parameters.kappa[t]) + constant
        variance[new] = prior
        known_X = inputs.X[known]
        if len(known_X):
            A = _covariance(kernel, known_X, known_X, t, parameters, constant)
            A += np.diag(parameters.noise[t] / inputs.counts[known])
            cross = _covariance(kernel, X[new], known_X, t, parameters, constant)
            L = np.linalg.cholesky(A)
            white = np.linalg.solve(L, np.column_stack([cross.T, means[known]]))
            mean[new] = white[:, :-1].T @ white[:, -1]
            variance[new] -= np.sum(white[:, :-1] ** 2, axis=0)
            variance[new] = np.where(variance[new] > _ROUNDING * prior, variance[new], 0.0)
    return mean, np.sqrt(variance)


def leave_one_out(
    kernel: Correlation,
    X: np.ndarray,
    task: np.ndarray,
    residual: np.ndarray,
    parameters: Parameters,
    constant: float,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    r"""Log density (N,) of each row given the others of its task, noise included (Rasmussen & Williams 2006, 5.12).

    A row of weight h counts h times here, and is left out h times: with m and v the mean and variance of f given the
    others,

    .. math::

        \log \int N(y; f, \sigma^2)^h N(f; m, v) df = \log N(y; m, v + \sigma^2 / h)
        - \tfrac{h - 1}{2} \log(2 \pi \sigma^2) - \tfrac12 \log h .
    """
    h = np.ones(len(X)) if weight is None else weight
    result = np.empty(len(X))
    for t in np.unique(task):
        rows = np.flatnonzero(task == t)
        A = _covariance(kernel, X[rows], X[rows], t, parameters, constant)
        inverse = np.linalg.inv(A + np.diag(parameters.noise[t] / h[rows]))
        precision = np.diag(inverse)
        gap = inverse @ residual[rows] / precision
        result[rows] = 0.5 * (np.log(precision / (2.0 * np.pi)) - gap**2 * precision)
        result[rows] -= 0.5 * ((h[rows] - 1.0) * np.log(2.0 * np.pi * parameters.noise[t]) + np.log(h[rows]))
    return result
