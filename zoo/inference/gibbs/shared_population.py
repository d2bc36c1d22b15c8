r"""Shared coefficients of a normal population of tasks, whose coefficients are integrated out.

The notation is that of :mod:`zoo.inference.gibbs.shared_coefficients`. With :math:`K_t = X_t' k X_t`,
:math:`B_t = X_t' k S_t`, :math:`F_t = S_t' k S_t`, :math:`r_t = X_t' v`, :math:`g_t = S_t' v`,
:math:`P = C^{-1}` and :math:`M_t = K_t + P`, the log density of task t is

.. math::

    -\tfrac12 w' K_t w + w'(r_t - B_t \beta) - \tfrac12 \beta' F_t \beta + g_t' \beta
    - \tfrac12 (w - \mu)' P (w - \mu) .

With :math:`V_t = [P, -B_t]` and :math:`\theta = (\mu, \beta)`, :math:`w_t` has the precision
:math:`M_t` and the linear term :math:`r_t + V_t \theta`. Integrated out it leaves :math:`\theta` normal with

.. math::

    \Lambda = \mathrm{diag}(K, \tau^{-2} I) + \sum_t \mathrm{diag}(P, F_t) - V_t' M_t^{-1} V_t,
    \qquad h = \sum_t (0, g_t) + V_t' M_t^{-1} r_t .

K is the prior precision of the mean, :math:`\pi P` or one that does not depend on C
(:class:`zoo.inference.gibbs.own_mean.MeanLaw`). A draw of :math:`\theta`, and of every :math:`w_t` right after it, is
one joint draw of :math:`(\mu, \beta, w)` given C, the noise and the auxiliary variables.

Between both, each learned :math:`\tau` moves together with its coefficients, :math:`\tau \to c \tau` and
:math:`\beta_e \to c \beta_e`: given the coefficients a small :math:`\tau` would hardly move. With :math:`\Lambda` and
h without the prior of these coefficients, and o for all other entries of :math:`\theta`, a slice of
:math:`\log c` is taken from

.. math::

    c\, \beta_e' (h_e - \Lambda_{eo} \theta_o) - \tfrac12 c^2 \beta_e' \Lambda_{ee} \beta_e + \log p(c \tau) + \log c .

A slice of :math:`\log \tau` given the coefficients follows: both parametrisations in turn (Yu & Meng 2011).
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.shared_coefficients import draw_normal
from zoo.inference.gibbs.slice_move import slice_move
from zoo.inference.gibbs.triangular import solve_transposed

__all__ = ["draw_with_population"]

# Width of the first interval of the slice for the logarithm of a factor.
_WIDTH = 1.0


@njit(cache=True, nogil=True)
def _log_density_of_factor(u, slope, curvature, now, spread):
    """Of the factor ``exp(u)`` of a scale and its coefficients, with the Jacobian of its logarithm."""
    c = np.exp(u)
    return u + slope * c - 0.5 * curvature * c * c - 0.5 * (c * now / spread) ** 2


@njit(cache=True, nogil=True)
def _move_with_coefficients(rng, precision, total, theta, D, scales):
    """Move each learned scale together with its coefficients; these, in ``theta`` (D + S,), change in place."""
    for e in range(scales.first, len(scales.scale)):
        slope, curvature = 0.0, 0.0
        prior = 1.0 / (scales.scale[e] * scales.scale[e])
        for i in range(len(scales.effect)):
            if scales.effect[i] != e:
                continue
            b, others, own = theta[D + i], 0.0, 0.0
            for j in range(len(theta)):
                if j >= D and scales.effect[j - D] == e:
                    own += precision[D + i, j] * theta[j]
                else:
                    others += precision[D + i, j] * theta[j]
            slope += b * (total[D + i] - others)
            curvature += b * (own - prior * b)
        arguments = (slope, curvature, scales.scale[e], scales.spread[e])
        c = np.exp(slice_move(rng, _log_density_of_factor, arguments, _WIDTH, True))
        scales.scale[e] *= c
        for i in range(len(scales.effect)):
            if scales.effect[i] == e:
                theta[D + i] *= c


@njit(cache=True, nogil=True)
def _solve_lower(L, B):
    """Replace the columns of ``B`` by those of ``L^-1 B``."""
    for i in range(len(L)):
        for j in range(i):
            for k in range(B.shape[1]):
                B[i, k] -= L[i, j] * B[j, k]
        for k in range(B.shape[1]):
            B[i, k] /= L[i, i]


@njit(cache=True, nogil=True)
def draw_with_population(rng, S, linear, sums, W, mu, beta, scales, P, inverse_noise, law, n_tasks):
    """Draw coefficients, their mean and ``beta`` jointly, and move the scales of ``beta`` between.

    ``W``, ``mu``, ``beta`` and ``scales.scale`` change in place. A task adds to the
    precision of the mean and of its active shared features alone.

    Parameters
    ----------
    S, linear : (blocks, D, D, lanes), (blocks, D, lanes)
        ``X'kX`` and ``X'v`` of the tasks, in lanes, without the part of ``beta``.
    sums : ActiveSums
        ``X'kS``, ``S'kS`` and ``S'v`` of the tasks.
    W : (blocks, D, lanes)
    scales : ScalesOfShared
        Prior standard deviations of ``beta``.
    inverse_noise : (blocks, lanes)
        What multiplies all these sums.
    law : MeanLaw
    """
    D, n_shared, lanes = len(mu), len(beta), W.shape[2]
    precision, total = np.zeros((D + n_shared, D + n_shared)), np.zeros(D + n_shared)
    precision[:D, :D] = (law.pi + n_tasks) * P
    for i in range(D):
        precision[i, i] += law.own[i]
    for i in range(n_shared):
        precision[D + i, D + i] = 1.0 / scales.scale[scales.effect[i]] ** 2
    factors, own = np.empty((n_tasks, D, D)), np.empty((n_tasks, D, 1))
    solved = np.empty((D, n_tasks * D + len(sums.feature)))
    for t in range(n_tasks):
        block, lane = t // lanes, t % lanes
        k = inverse_noise[block, lane]
        first, n_active = sums.starts[t], sums.starts[t + 1] - sums.starts[t]
        size = D + n_active
        M, u = factors[t], own[t]
        U = solved[:, t * D + first : t * D + first + size]
        where = np.empty(size, dtype=np.int64)
        for i in range(D):
            where[i] = i
            for j in range(D):
                M[i, j] = k * S[block, i, j, lane] + P[i, j]
                U[i, j] = P[i, j]
            for j in range(n_active):
                U[i, D + j] = -k * sums.cross[first + j, i]
            u[i, 0] = k * linear[block, i, lane]
        for j in range(n_active):
            where[D + j] = D + sums.feature[first + j]
        M[:] = np.linalg.cholesky(M)
        _solve_lower(M, U)
        _solve_lower(M, u)
        for i in range(size):
            for d in range(D):
                total[where[i]] += U[d, i] * u[d, 0]
                for j in range(size):
                    precision[where[i], where[j]] -= U[d, i] * U[d, j]
        for i in range(n_active):
            total[where[D + i]] += k * sums.slope[first + i]
            row = sums.square_starts[t] + i * n_active
            for j in range(n_active):
                precision[where[D + i], where[D + j]] += k * sums.square[row + j]
    theta = draw_normal(rng, precision, total)
    _move_with_coefficients(rng, precision, total, theta, D, scales)
    mu[:] = theta[:D]
    beta[:] = theta[D:]
    for t in range(n_tasks):
        first, n_active = sums.starts[t], sums.starts[t + 1] - sums.starts[t]
        L, w, begin = factors[t], np.empty(D), t * D + first
        for i in range(D):
            w[i] = own[t, i, 0]
            for d in range(D):
                w[i] += solved[i, begin + d] * mu[d]
            for j in range(n_active):
                w[i] += solved[i, begin + D + j] * beta[sums.feature[first + j]]
        for i in range(D):
            w[i] += rng.standard_normal()
        solve_transposed(L, w)
        for i in range(D):
            W[t // lanes, i, t % lanes] = w[i]
