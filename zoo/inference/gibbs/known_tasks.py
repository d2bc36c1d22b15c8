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

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import NamedTuple

import joblib
import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES, factorise, solve_block

__all__ = ["Draws", "coefficient_draws", "function_moments"]

# Laws of a task given a draw, each of which takes some tenths of a microsecond.
_WORTH_A_THREAD = 100_000


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
    _draw(S, linear, *_Lanes.of(draws), draws.noise, n, _Space.of(D), result)
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
    n, D = draws.mean.shape
    # Draws of a row lie together: rows apart by all rows of a draw would each touch a page of their own.
    mean, variance = np.empty((2, len(x), n))
    lanes, rows = _Lanes.of(draws), (np.ascontiguousarray(x), order, starts)

    def fill(tasks: tuple[int, int]) -> None:
        _moments(S, linear, *lanes, draws.noise, n, _Space.of(D), tasks, *rows, mean, variance)

    n_threads = joblib.cpu_count() if n * len(S) > _WORTH_A_THREAD else 1
    cuts = np.linspace(0, len(S), n_threads + 1).astype(int).tolist()
    with ThreadPoolExecutor(n_threads) as pool:
        list(pool.map(fill, pairwise(cuts)))
    return mean.T, variance.T


class _Lanes(NamedTuple):
    """Draws in blocks of ``LANES``, which are worked on side by side: (blocks, ..., lanes)."""

    mean: np.ndarray
    root: np.ndarray

    @classmethod
    def of(cls, draws: Draws) -> _Lanes:
        """What is behind the last draw is a population without spread."""
        n, D = draws.mean.shape
        blocks = -(-n // LANES)
        mean, root = np.zeros((blocks * LANES, D)), np.zeros((blocks * LANES, D, D))
        mean[:n], root[:n] = draws.mean, draws.root
        return cls(
            np.ascontiguousarray(mean.reshape(blocks, LANES, D).transpose(0, 2, 1)),
            np.ascontiguousarray(root.reshape(blocks, LANES, D, D).transpose(0, 2, 3, 1)),
        )


class _Space(NamedTuple):
    """Work space of a block of draws: the factor F, a matrix (D, D, lanes), vectors (D, lanes) and (lanes,)."""

    F: np.ndarray
    half: np.ndarray
    gap: np.ndarray
    u: np.ndarray
    v: np.ndarray
    precision: np.ndarray

    @classmethod
    def of(cls, D: int) -> _Space:
        """Of D features."""
        F, half = np.zeros((2, D, D, LANES))
        gap, u, v = np.zeros((3, D, LANES))
        return cls(F, half, gap, u, v, np.ones(LANES))


@njit(cache=True, nogil=True)
def _law(S, linear, t, mean, L, noise, first, n, space):
    """Fill F, with the inverse of its diagonal there, and ``u`` of task t for the draws from ``first`` on."""
    D = len(mean)
    F, half, gap, u, precision = space.F, space.half, space.gap, space.u, space.precision
    for b in range(min(LANES, n - first)):
        sd = noise[first + b, t]
        precision[b] = 1.0 / (sd * sd)
    for i in range(D):  # S L
        for j in range(D):
            for b in range(LANES):
                half[i, j, b] = 0.0
            for k in range(j, D):
                for b in range(LANES):
                    half[i, j, b] += S[i, k] * L[k, j, b]
    for i in range(D):
        for j in range(i + 1):
            for b in range(LANES):
                F[i, j, b] = 0.0
            for k in range(i, D):
                for b in range(LANES):
                    F[i, j, b] += L[k, i, b] * half[k, j, b]
            for b in range(LANES):
                F[i, j, b] *= precision[b]
        for b in range(LANES):
            F[i, i, b] += 1.0
    factorise(F)
    for k in range(D):
        if len(linear) > 1:
            for b in range(LANES):
                gap[k, b] = linear[min(first + b, n - 1), t, k]
        else:
            r = linear[0, t, k]
            for b in range(LANES):
                gap[k, b] = r
        for j in range(D):
            for b in range(LANES):
                gap[k, b] -= S[k, j] * mean[j, b]
    for i in range(D):
        for b in range(LANES):
            u[i, b] = 0.0
        for k in range(i, D):
            for b in range(LANES):
                u[i, b] += L[k, i, b] * gap[k, b]
        for b in range(LANES):
            u[i, b] *= precision[b]
    solve_block(F, u)


@njit(cache=True, nogil=True)
def _draw(S, linear, mean, root, noise, n, space, result):
    """Turn the standard normal numbers in ``result`` (n, D, K) into draws."""
    D = mean.shape[1]
    F, u, v = space.F, space.u, space.v
    for block in range(len(mean)):
        first, L = block * LANES, root[block]
        for t in range(len(S)):
            _law(S[t], linear, t, mean[block], L, noise, first, n, space)
            for i in range(D):
                for b in range(min(LANES, n - first)):
                    u[i, b] += result[first + b, i, t]
            for i in range(D - 1, -1, -1):
                for b in range(LANES):
                    u[i, b] *= F[i, i, b]
                for j in range(i):
                    for b in range(LANES):
                        u[j, b] -= F[i, j, b] * u[i, b]
            for i in range(D):
                for b in range(LANES):
                    v[i, b] = mean[block, i, b]
                for k in range(i + 1):
                    for b in range(LANES):
                        v[i, b] += L[i, k, b] * u[k, b]
                for b in range(min(LANES, n - first)):
                    result[first + b, i, t] = v[i, b]


@njit(cache=True, nogil=True)
def _moments(S, linear, mean, root, noise, n, space, tasks, x, order, starts, out_mean, out_variance):
    D = mean.shape[1]
    F, u, v = space.F, space.u, space.v
    centre, square = np.empty(LANES), np.empty(LANES)
    for t in range(*tasks):
        if starts[t] == starts[t + 1]:
            continue
        for block in range(len(mean)):
            first, L = block * LANES, root[block]
            _law(S[t], linear, t, mean[block], L, noise, first, n, space)
            for place in range(starts[t], starts[t + 1]):
                row = order[place]
                for b in range(LANES):
                    centre[b] = square[b] = 0.0
                for i in range(D):
                    for b in range(LANES):
                        centre[b] += x[row, i] * mean[block, i, b]
                        v[i, b] = 0.0
                    for k in range(i, D):
                        for b in range(LANES):
                            v[i, b] += L[k, i, b] * x[row, k]
                solve_block(F, v)
                for i in range(D):
                    for b in range(LANES):
                        centre[b] += v[i, b] * u[i, b]
                        square[b] += v[i, b] * v[i, b]
                for b in range(min(LANES, n - first)):
                    out_mean[row, first + b], out_variance[row, first + b] = centre[b], square[b]
