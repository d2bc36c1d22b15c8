"""The steps of a sweep over a normal-inverse-Wishart hierarchy, compiled; eight tasks side by side.

:mod:`zoo.inference.gibbs.normal_inverse_wishart` has the model and numbers the steps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.triangular import draw_by_precision

__all__ = [
    "LANES",
    "Space",
    "Tasks",
    "draw_block",
    "draw_coefficients",
    "draw_covariance",
    "draw_noise",
    "draw_population",
    "draw_population_given",
    "draw_translation",
    "factorise",
    "plain_sweep",
    "solve_block",
    "translate",
]

# Tasks whose small matrices are factorised side by side, one in each lane of a vector instruction.
LANES = 8


class Tasks(NamedTuple):
    """What the data say, in blocks of ``LANES`` tasks; tasks without data fill the last block.

    ``S`` (blocks, D, D, lanes) with :math:`S_t`; ``centre`` (blocks, D, lanes) least squares; ``linear`` (blocks, D,
    lanes) :math:`X_t' y_t`; ``sse`` (T,) squared errors at least squares; ``size`` (T,) rows, or their weights.
    """

    S: np.ndarray
    centre: np.ndarray
    linear: np.ndarray
    sse: np.ndarray
    size: np.ndarray


class Space(NamedTuple):
    """Work space of a sweep: a block's factors and vectors, and sums over tasks."""

    factor: np.ndarray  # (D, D, lanes)
    vector: np.ndarray  # (D, lanes)
    matrix: np.ndarray  # (D, D)


@njit(cache=True, nogil=True)
def factorise(A):
    """Lower Cholesky factors of the matrices in the lanes of ``A`` (D, D, lanes), in place; inverse diagonal."""
    for j in range(A.shape[0]):
        for k in range(j):
            for b in range(LANES):
                A[j, j, b] -= A[j, k, b] * A[j, k, b]
        for b in range(LANES):
            A[j, j, b] = 1.0 / np.sqrt(A[j, j, b])
        for i in range(j + 1, A.shape[0]):
            for k in range(j):
                for b in range(LANES):
                    A[i, j, b] -= A[i, k, b] * A[j, k, b]
            for b in range(LANES):
                A[i, j, b] *= A[j, j, b]


@njit(cache=True, nogil=True)
def solve_block(factor, u):
    """Replace ``u`` (D, lanes) by ``factor^-1 u``; ``factor`` as :func:`factorise` leaves it."""
    for i in range(len(u)):
        for k in range(i):
            for b in range(LANES):
                u[i, b] -= factor[i, k, b] * u[k, b]
        for b in range(LANES):
            u[i, b] *= factor[i, i, b]


@njit(cache=True, nogil=True)
def draw_block(rng, A, u, W):
    """Fill ``W`` (D, lanes) with draws of precision ``A`` and linear term ``u``; both are used up."""
    D = A.shape[0]
    factorise(A)
    solve_block(A, u)
    for i in range(D):
        for b in range(LANES):
            u[i, b] += rng.standard_normal()
    for i in range(D - 1, -1, -1):
        for b in range(LANES):
            u[i, b] *= A[i, i, b]
            W[i, b] = u[i, b]
        for k in range(i):
            for b in range(LANES):
                u[k, b] -= A[i, k, b] * u[i, b]


@njit(cache=True, nogil=True)
def draw_coefficients(rng, tasks, space, W, mu, P, inverse_noise):
    """Step 1, for all tasks; ``W`` is (blocks, D, lanes) and ``inverse_noise`` (blocks, lanes)."""
    D = P.shape[0]
    prior = P @ mu
    A, u = space.factor, space.vector
    for block in range(W.shape[0]):
        S, r, scale = tasks.S[block], tasks.linear[block], inverse_noise[block]
        for i in range(D):
            for j in range(i + 1):
                for b in range(LANES):
                    A[i, j, b] = S[i, j, b] * scale[b] + P[i, j]
            for b in range(LANES):
                u[i, b] = r[i, b] * scale[b] + prior[i]
        draw_block(rng, A, u, W[block])


@njit(cache=True, nogil=True)
def draw_noise(rng, tasks, space, W, inverse_noise, a, b, by_task):
    """Step 2: the inverse variances, one per task or the same for all."""
    n_tasks, D = len(tasks.size), W.shape[1]
    apart, total = space.vector, np.empty(LANES)
    shape, rate = a, b
    for block in range(W.shape[0]):
        S, centre, w = tasks.S[block], tasks.centre[block], W[block]
        for i in range(D):
            for k in range(LANES):
                apart[i, k] = w[i, k] - centre[i, k]
        total[:] = 0.0
        for i in range(D):
            for k in range(LANES):
                total[k] += S[i, i, k] * apart[i, k] * apart[i, k]
            for j in range(i):
                for k in range(LANES):
                    total[k] += 2.0 * S[i, j, k] * apart[i, k] * apart[j, k]
        for k in range(LANES):
            t = block * LANES + k
            if t < n_tasks:
                half = 0.5 * (tasks.sse[t] + max(total[k], 0.0))
                if by_task:
                    inverse_noise[block, k] = rng.standard_gamma(a + 0.5 * tasks.size[t]) / (b + half)
                else:
                    shape += 0.5 * tasks.size[t]
                    rate += half
    if not by_task:
        inverse_noise[:] = rng.standard_gamma(shape) / rate


@njit(cache=True, nogil=True)
def translate(rng, tasks, space, W, mu, P, inverse_noise, pi):
    """Step 3: move all coefficients and their mean by the same vector."""
    D = len(mu)
    precision = space.matrix
    linear = np.zeros(D)
    precision[:] = pi * P
    for block in range(W.shape[0]):
        S, r, w, scale = tasks.S[block], tasks.linear[block], W[block], inverse_noise[block]
        for i in range(D):
            residual = 0.0
            for b in range(LANES):
                residual += r[i, b] * scale[b]
            for j in range(D):
                curvature, cross = 0.0, 0.0
                for b in range(LANES):
                    weighted = S[i, j, b] * scale[b]
                    curvature += weighted
                    cross += weighted * w[j, b]
                precision[i, j] += curvature
                residual -= cross
            linear[i] += residual
    draw_translation(rng, precision, linear, mu, P, pi)
    for block in range(W.shape[0]):
        for i in range(D):
            for b in range(LANES):
                W[block, i, b] += linear[i]


@njit(cache=True, nogil=True)
def draw_translation(rng, precision, linear, mu, P, pi):
    r"""Step 3 given its precision, and :math:`\sum_t (X_t' y_t - S_t w_t) / \sigma_t^2` in ``linear``.

    ``mu`` is moved; ``linear`` becomes the vector that moves it, which must move all coefficients.
    """
    linear -= pi * (P @ mu)
    draw_by_precision(rng, np.linalg.cholesky(precision), linear)
    mu += linear


@njit(cache=True, nogil=True)
def draw_population(rng, W, n_tasks, mu, P, C, nu, pi):
    """Step 5; fills ``mu``, ``P`` and ``C``."""
    D = len(mu)
    mean = np.zeros(D)
    rows = np.empty((n_tasks, D))
    for t in range(n_tasks):
        for i in range(D):
            rows[t, i] = W[t // LANES, i, t % LANES]
            mean[i] += rows[t, i]
    mean /= n_tasks
    for t in range(n_tasks):
        rows[t] -= mean
    draw_population_given(rng, mean, rows.T @ rows, n_tasks, mu, P, C, nu, pi)


@njit(cache=True, nogil=True)
def draw_population_given(rng, mean, within, n_tasks, mu, P, C, nu, pi):
    """Step 5 given the mean of all coefficients and their scatter around it; fills ``mu``, ``P``, ``C``."""
    D = len(mu)
    weight = pi * n_tasks / (pi + n_tasks)
    scatter = np.eye(D)
    scatter += within + weight * np.outer(mean, mean)
    M = draw_covariance(rng, scatter, nu + n_tasks, P, C)
    z = np.empty(D)
    for i in range(D):
        z[i] = rng.standard_normal()
    mu[:] = mean * (n_tasks / (pi + n_tasks)) + (M @ z) / np.sqrt(pi + n_tasks)


@njit(cache=True, nogil=True)
def draw_covariance(rng, scatter, degrees, P, C):
    r"""Fill ``C`` with a draw from :math:`IW(degrees, scatter)`, and ``P`` with its inverse; a root of C.

    With :math:`L L'` the scatter and Bartlett's lower triangular A, :math:`P = L^{-T} A A' L^{-1}`, so that
    :math:`M = L A^{-T}`, which is returned, has :math:`M M' = C`.
    """
    D = len(scatter)
    L = np.linalg.cholesky(scatter)
    # Rows of A^-1, by forward substitution in the identity; M' = A^-1 L'.
    inverse, M = np.zeros((D, D)), np.zeros((D, D))
    A = np.zeros(D)
    for i in range(D):
        for j in range(i):
            A[j] = rng.standard_normal()
        diagonal = np.sqrt(2.0 * rng.standard_gamma(0.5 * (degrees - i)))
        inverse[i, i] = 1.0 / diagonal
        for j in range(i):
            total = 0.0
            for k in range(j, i):
                total += A[k] * inverse[k, j]
            inverse[i, j] = -total / diagonal
    M[:] = L @ inverse.T
    C[:] = M @ M.T
    # M^-1 = A' L^-1, and P = M^-T M^-1.
    solved = np.linalg.inv(M)
    P[:] = solved.T @ solved
    return M


@njit(cache=True, nogil=True)
def plain_sweep(rng, tasks, space, W, mu, P, C, inverse_noise, nu, pi, a, b, by_task, n_tasks):
    """Steps 1, 2, 3 and 5."""
    draw_coefficients(rng, tasks, space, W, mu, P, inverse_noise)
    draw_noise(rng, tasks, space, W, inverse_noise, a, b, by_task)
    translate(rng, tasks, space, W, mu, P, inverse_noise, pi)
    draw_population(rng, W, n_tasks, mu, P, C, nu, pi)
