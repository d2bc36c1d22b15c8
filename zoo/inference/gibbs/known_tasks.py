r"""Coefficients of some tasks given the population and their own rows: laws and draws, of many draws of the population.

In the hierarchy of :mod:`zoo.inference.gibbs.normal_inverse_wishart` tasks are independent given the population
:math:`\theta = (\mu, C, \sigma^2)`, and each sweep draws

.. math::

    w_t \mid \theta, y_t \sim N(m_t, V_t), \quad V_t = (C^{-1} + S_t / \sigma^2)^{-1}, \quad
    m_t = \mu + V_t (r_t - S_t \mu) / \sigma^2

with :math:`S_t = X_t' X_t` and :math:`r_t = X_t' y_t`. This law does not depend on the coefficients that the chain had.
So where the draws of :math:`\theta` are from its posterior, a draw of :math:`w_t` from this law beside each of them is
one from the joint posterior, whether it is made in the sweep or long after: coefficients of a task need not be kept.

With :math:`C = L L'` and :math:`F F' = I + L' S_t L / \sigma^2` the law is computed without the inverse of C:

.. math:: V_t = L F'^{-1} F^{-1} L', \qquad m_t = \mu + L F'^{-1} u, \qquad u = F^{-1} L' (r_t - S_t \mu) / \sigma^2,

so a draw is :math:`\mu + L F'^{-1} (u + z)` for standard normal z, and :math:`x'w_t` has the variance
:math:`|F^{-1} L'x|^2`. The rows of a task whose functions have an offset, :math:`y - s'\beta` with a coefficient
:math:`\beta` for all tasks, have :math:`r_t = X_t'y_t - X_t's_t \beta`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.triangular import factorise, solve_lower, solve_transposed

__all__ = ["Draws", "coefficient_draws", "function_moments"]


class Draws(NamedTuple):
    """n draws of a population, in the features of the sums.

    ``mean`` (n, D); ``root`` (n, D, D), lower factors of the covariances; ``noise`` (n, K), standard deviations of the
    K tasks.
    """

    mean: np.ndarray
    root: np.ndarray
    noise: np.ndarray

    @classmethod
    def of(cls, mean: np.ndarray, cov: np.ndarray, noise: np.ndarray, n_tasks: int) -> Draws:
        """Of covariances (n, D, D) and noises (n,) or (n, K)."""
        by_task = noise if noise.ndim == 2 else np.broadcast_to(noise[:, None], (len(noise), n_tasks))
        return cls(np.ascontiguousarray(mean), np.linalg.cholesky(cov), by_task)


def coefficient_draws(
    S: np.ndarray, linear: np.ndarray, draws: Draws, rng: np.random.Generator
) -> np.ndarray:
    """A draw of the coefficients (n, D, K) of K tasks beside each draw of the population.

    Parameters
    ----------
    S : (K, D, D)
        Sums of the products of their features.
    linear : (n or 1, K, D)
        Sums of features times responses: one for all draws, or one for each.
    draws : Draws
    rng : numpy.random.Generator
    """
    n, D = draws.mean.shape
    result = rng.standard_normal((n, D, len(S)))
    _draw(S, linear, *draws, result)
    return result


def function_moments(
    S: np.ndarray, linear: np.ndarray, draws: Draws, x: np.ndarray, task: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n, m) of the functions at m rows, given each draw of the population.

    Parameters
    ----------
    S, linear, draws
        As above.
    x, task : (m, D), (m,)
        Features of the rows, and the number of their task among the K.
    """
    order = np.argsort(task, kind="stable")
    starts = np.concatenate([[0], np.cumsum(np.bincount(task, minlength=len(S)))])
    mean, variance = np.empty((2, len(draws.mean), len(x)))
    _moments(S, linear, *draws, np.ascontiguousarray(x), order, starts, mean, variance)
    return mean, variance


@njit(cache=True, nogil=True)
def _law(S, r, mean, L, noise, F, u, half):
    """Fill the lower triangle of ``F`` and the vector ``u`` of one task and draw; ``half`` is work space (D, D)."""
    D = len(mean)
    precision = 1.0 / (noise * noise)
    for i in range(D):  # S L
        for j in range(D):
            total = 0.0
            for k in range(j, D):
                total += S[i, k] * L[k, j]
            half[i, j] = total
    for i in range(D):
        for j in range(i + 1):
            total = 0.0
            for k in range(i, D):
                total += L[k, i] * half[k, j]
            F[i, j] = total * precision
        F[i, i] += 1.0
    factorise(F)
    for i in range(D):
        total = 0.0
        for k in range(i, D):
            gap = r[k]
            for j in range(D):
                gap -= S[k, j] * mean[j]
            total += L[k, i] * gap
        u[i] = total * precision
    solve_lower(F, u)


@njit(cache=True, nogil=True)
def _draw(S, linear, mean, root, noise, result):
    """Turn the standard normal numbers in ``result`` (n, D, K) into draws."""
    D = mean.shape[1]
    F, half, u = np.empty((D, D)), np.empty((D, D)), np.empty(D)
    for s in range(len(mean)):
        r, L = linear[s] if len(linear) > 1 else linear[0], root[s]
        for t in range(len(S)):
            _law(S[t], r[t], mean[s], L, noise[s, t], F, u, half)
            for i in range(D):
                u[i] += result[s, i, t]
            solve_transposed(F, u)
            for i in range(D):
                total = mean[s, i]
                for k in range(i + 1):
                    total += L[i, k] * u[k]
                result[s, i, t] = total


@njit(cache=True, nogil=True)
def _moments(S, linear, mean, root, noise, x, order, starts, out_mean, out_variance):
    D = mean.shape[1]
    F, half, u, v = np.empty((D, D)), np.empty((D, D)), np.empty(D), np.empty(D)
    for s in range(len(mean)):
        r, L = linear[s] if len(linear) > 1 else linear[0], root[s]
        for t in range(len(S)):
            if starts[t] == starts[t + 1]:
                continue
            _law(S[t], r[t], mean[s], L, noise[s, t], F, u, half)
            for place in range(starts[t], starts[t + 1]):
                n = order[place]
                centre, square = 0.0, 0.0
                for i in range(D):
                    centre += x[n, i] * mean[s, i]
                    v[i] = 0.0
                    for k in range(i, D):
                        v[i] += L[k, i] * x[n, k]
                solve_lower(F, v)
                for i in range(D):
                    centre += v[i] * u[i]
                    square += v[i] * v[i]
                out_mean[s, n], out_variance[s, n] = centre, square
