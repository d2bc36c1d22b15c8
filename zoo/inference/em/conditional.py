"""Coefficients given the population that :mod:`zoo.inference.em.algorithm` found: draws, means and covariances."""

from __future__ import annotations

import numpy as np
from scipy.linalg import lapack, solve_triangular

from zoo.inference.em.parts import cholesky_factor, sort_rows

# Coefficients of a task, up to which matrices of many tasks are worked on as one stack, and numbers in such a stack.
_SMALL, _AT_A_TIME = 32, 4_000_000

__all__ = ["conditional_covariances", "conditional_draws", "conditional_means", "conditional_variances"]


def conditional_draws(
    inputs: np.ndarray,
    row: np.ndarray,
    task: np.ndarray,
    y: np.ndarray,
    n_tasks: int,
    mean: np.ndarray,
    cov: np.ndarray,
    noise: np.ndarray | float,
    n_draws: int,
    rng: np.random.Generator,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Draws of the coefficients given the population and the data.

    A task of at least r rows is drawn through the Cholesky factor of its posterior precision; another one by
    Matheron's rule: a draw of coefficients and noise from the prior, moved by what the data differ from it.

    Parameters
    ----------
    inputs : (n, r)
    row, task, y : (N,)
        As in :func:`zoo.inference.em.algorithm.expectation_maximisation`; ``noise`` is one standard
        deviation, or one for each task, and ``weight`` (N,) the weights of the rows.
    mean, cov : (r,), (r, r)

    Returns
    -------
    (n_draws, r, T)
    """
    rows, noises = sort_rows(row, task, y, n_tasks, weight), np.broadcast_to(noise, n_tasks)
    root = cholesky_factor(cov, "cov")
    draws = np.empty((n_draws, len(mean), n_tasks))
    for t in range(n_tasks):
        X, response = rows.scaled(t, inputs)
        s, z = noises[t], rng.standard_normal((n_draws, len(mean)))
        if len(X) >= len(mean):
            A = X @ root / s
            factor = cholesky_factor(np.eye(len(mean)) + A.T @ A, "the posterior precision of a task")
            white = solve_triangular(factor, A.T @ (response - X @ mean) / s, lower=True)
            draws[:, :, t] = (
                mean + solve_triangular(factor, white[:, None] + z.T, lower=True, trans="T").T @ root.T
            )
        else:
            w = mean + z @ root.T
            gap = response - w @ X.T - s * rng.standard_normal((n_draws, len(X)))
            draws[:, :, t] = w + gap @ _gain(X, cov, s)
    return draws


def conditional_covariances(
    inputs: np.ndarray,
    row: np.ndarray,
    task: np.ndarray,
    n_tasks: int,
    cov: np.ndarray,
    noise: np.ndarray | float,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Posterior covariances (T, r, r) of the coefficients given the population, (6)."""
    rows, noises = sort_rows(row, task, np.zeros(len(row)), n_tasks, weight), np.broadcast_to(noise, n_tasks)
    root, r = cholesky_factor(cov, "cov"), len(cov)
    result = np.empty((n_tasks, r, r))
    if r <= _SMALL:
        for some, X, _ in rows.stacks(inputs, _AT_A_TIME):
            A = X @ root / noises[some][:, None, None]
            inverse = np.linalg.inv(np.linalg.cholesky(np.eye(r) + A.transpose(0, 2, 1) @ A))
            half = inverse @ root.T
            result[some] = half.transpose(0, 2, 1) @ half
        return result
    for t in range(n_tasks):
        X, s = rows.scaled(t, inputs)[0], noises[t]
        if len(X) >= r:
            A = X @ root / s
            half = solve_triangular(
                cholesky_factor(np.eye(r) + A.T @ A, "the posterior precision of a task"), root.T, lower=True
            )
            result[t] = half.T @ half
        else:
            result[t] = cov - (X @ cov).T @ _gain(X, cov, s)
            result[t] = (result[t] + result[t].T) / 2.0
    return result


def conditional_means(
    inputs: np.ndarray,
    row: np.ndarray,
    task: np.ndarray,
    y: np.ndarray,
    n_tasks: int,
    mean: np.ndarray,
    cov: np.ndarray,
    noise: np.ndarray | float,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    """Posterior means (r, T) of the coefficients given the population, (5)."""
    rows, noises = sort_rows(row, task, y, n_tasks, weight), np.broadcast_to(noise, n_tasks)
    result = np.empty((len(mean), n_tasks))
    for t in range(n_tasks):
        X, response = rows.scaled(t, inputs)
        result[:, t] = mean + (response - X @ mean) @ _gain(X, cov, noises[t])
    return result


def conditional_variances(
    inputs: np.ndarray,
    row: np.ndarray,
    task: np.ndarray,
    n_tasks: int,
    cov: np.ndarray,
    noise: np.ndarray | float,
    new: np.ndarray,
    new_task: np.ndarray,
    weight: np.ndarray | None = None,
) -> np.ndarray:
    r"""Posterior variances (m,) of the functions at features ``new`` (m, r) of tasks (m,), given the population.

    With L a factor of the covariance and :math:`z = L'x`, :math:`z'(I + A'A)^{-1} z` for :math:`A = X L / \sigma`: by
    r x r matrices, or by those of the task's rows where these are fewer,
    :math:`|z|^2 - |B^{-1} A z|^2` with :math:`B B' = I + A A'`.
    """
    rows, noises = sort_rows(row, task, np.zeros(len(row)), n_tasks, weight), np.broadcast_to(noise, n_tasks)
    root = cholesky_factor(cov, "cov")
    z = new @ root
    result = np.sum(z**2, axis=1)
    for t in np.unique(new_task):
        at = np.flatnonzero(new_task == t)
        A = rows.scaled(t, inputs)[0] @ root / noises[t]
        if not len(A):
            continue
        if len(A) >= len(cov):
            factor = cholesky_factor(np.eye(len(cov)) + A.T @ A, "the posterior precision of a task")
            result[at] = np.sum(solve_triangular(factor, z[at].T, lower=True) ** 2, axis=0)
        else:
            factor = cholesky_factor(np.eye(len(A)) + A @ A.T, "K + sigma^2 I of a task")
            known = np.sum(solve_triangular(factor, A @ z[at].T, lower=True) ** 2, axis=0)
            result[at] = np.maximum(result[at] - known, 0.0)
    return result


def _gain(X: np.ndarray, cov: np.ndarray, noise: float) -> np.ndarray:
    """(X C X' + s^2 I)^-1 X C."""
    cross = X @ cov
    if not len(X):
        return cross
    root = cholesky_factor(cross @ X.T + noise**2 * np.eye(len(X)), "K + sigma^2 I of a task")
    return lapack.dpotrs(root, cross, lower=1)[0]
