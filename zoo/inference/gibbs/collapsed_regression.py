r"""The regression of loose coefficients on known ones: its draw, and reflections without it.

Equations (7) and (8) of :mod:`zoo.inference.gibbs.collapsed_population`, in the metric of :math:`\Pi = L
L'`: with :math:`N_t = I - L' M_t^{-1} L`, between 0 and I, :math:`Q = (I \otimes L) J (I \otimes
L')` for

.. math:: J = \Lambda \otimes I + \sum_t x_t x_t' \otimes N_t,
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.loose_space import invert, residuals
from zoo.inference.gibbs.population_steps import LANES

__all__ = ["Reflections", "draw_regression"]

# Cosine between what a reflection turns and what it sees, below which it would turn almost everything.
_LEAST_COSINE = 0.1


class Reflections(NamedTuple):
    """What reflections choose from, made of the data alone: f features that hardly vary within tasks.

    ``axes`` (f, m) a unit of each feature's coefficient, in loose coordinates; ``sights`` (f, m) that coefficient as a
    function of them; ``values`` (T, f) the features' means in the tasks.
    """

    axes: np.ndarray
    sights: np.ndarray
    values: np.ndarray

    def scaled(self, scales: np.ndarray) -> Reflections:
        """The same where coordinates are whitened by ``scales`` (D,), of which the last m are the loose ones."""
        own = scales[len(scales) - self.axes.shape[1] :]
        return self._replace(axes=self.axes / own, sights=self.sights * own)


@njit(cache=True, nogil=True, error_model="numpy")
def _factorise(A):
    """Replace ``A`` by its lower Cholesky factor; whether it has one in float64."""
    try:
        A[:] = np.linalg.cholesky(A)
    except Exception:
        return False
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def _log_evidence(tasks, weight, space, precision, pi, L, J, u):
    """Equation (8); ``space`` holds e at a regression of 0. Fills :math:`L`, the factor of J and :math:`u`.

    The law of the regression has mean :math:`L^{-T} G^{-T} u` with G the factor of J. Minus infinity where a matrix
    is not positive definite in float64.
    """
    m, k = precision.shape[0], space.regressors.shape[1]
    n_blocks = space.residual.shape[0]
    L[:] = precision
    if not _factorise(L):
        return -np.inf
    log_det = 0.0
    for i in range(m):
        log_det += 2.0 * np.log(L[i, i])
    total = 0.5 * (n_blocks * LANES * log_det - invert(tasks, weight, precision, space.inverse))
    X = space.regressors
    rest, gain = np.empty((n_blocks * LANES, m * (m + 1) // 2)), np.zeros((n_blocks * LANES, m))
    half, full, back = np.empty((m, LANES)), np.empty((m, m, LANES)), np.empty((m, LANES))
    for block in range(n_blocks):
        A, e = space.inverse[block], space.residual[block]
        for i in range(m):  # M^-1 L, column by column, and M^-1 e
            for j in range(m):
                for b in range(LANES):
                    full[i, j, b] = 0.0
                for a in range(j, m):
                    for b in range(LANES):
                        full[i, j, b] += A[max(i, a), min(i, a), b] * L[a, j]
            for b in range(LANES):
                half[i, b] = 0.0
            for j in range(m):
                for b in range(LANES):
                    half[i, b] += A[max(i, j), min(i, j), b] * e[j, b]
            for b in range(LANES):
                total += 0.5 * half[i, b] * e[i, b]
        at = 0
        for i in range(m):
            for j in range(i + 1):
                for b in range(LANES):
                    back[0, b] = 1.0 if i == j else 0.0
                for a in range(i, m):
                    for b in range(LANES):
                        back[0, b] -= L[a, i] * full[a, j, b]
                for b in range(LANES):
                    rest[block * LANES + b, at] = back[0, b]
                at += 1
            for a in range(i, m):
                for b in range(LANES):
                    gain[block * LANES + b, i] += L[a, i] * half[a, b]
    products = np.empty((n_blocks * LANES, k * (k + 1) // 2))
    for t in range(n_blocks * LANES):
        at = 0
        for a in range(k):
            for c in range(a + 1):
                products[t, at] = X[t, a] * X[t, c]
                at += 1
    sums = products.T @ rest
    at = 0
    for a in range(k):
        for c in range(a + 1):
            place = 0
            for i in range(m):
                for j in range(i + 1):
                    J[a * m + i, c * m + j] = J[a * m + j, c * m + i] = sums[at, place]
                    place += 1
            at += 1
    for i in range(k * m):
        J[i, i] += pi if i < m else 1.0
    if not _factorise(J):
        return -np.inf
    linear = X.T @ gain
    for i in range(k * m):
        u[i] = linear[i // m, i % m]
        for j in range(i):
            u[i] -= J[i, j] * u[j]
        u[i] /= J[i, i]
        total += 0.5 * u[i] * u[i] - np.log(J[i, i])
    return total


@njit(cache=True, nogil=True, error_model="numpy")
def _pick(rng, reflections, p, q):
    """Draw what a reflection turns, and what sees it; False where the two hardly meet."""
    axes, sights, values = reflections
    f = axes.shape[0]
    i = rng.integers(0, f)
    j = (i + rng.integers(1, f)) % f
    blind, sees = rng.integers(0, values.shape[0]), rng.integers(0, values.shape[0])
    first, second = -values[blind, j], values[blind, i]
    third, fourth = values[sees, i], values[sees, j]
    meet = first * third + second * fourth
    sizes = (first * first + second * second) * (third * third + fourth * fourth)
    if not np.abs(meet) > _LEAST_COSINE * np.sqrt(sizes):
        return False
    for a in range(len(p)):
        p[a] = first * axes[i, a] + second * axes[j, a]
        q[a] = third * sights[i, a] + fourth * sights[j, a]
    meet = p @ q
    if not np.abs(meet) > _LEAST_COSINE * np.sqrt((p @ p) * (q @ q)):
        return False
    q /= meet
    return True


@njit(cache=True, nogil=True, error_model="numpy")
def draw_regression(rng, tasks, weight, space, W, precision, theta, pi, reflections, tries, power, values):
    """Reflections of ``precision``, then the regression: the columns of ``theta`` that ``space`` has regressors for.

    Where scales of features are learned and integrated out, ``power`` is not 0, and ``values`` (D,) holds
    :math:`P_{dd} + h_d` without what the loose coefficients add to P.
    """
    m, k = precision.shape[0], space.regressors.shape[1]
    theta[:, :k] = 0.0
    residuals(tasks, weight, W, theta, space.residual)
    L, J, u = np.empty((m, m)), np.empty((m * k, m * k)), np.empty(m * k)
    value = _log_evidence(tasks, weight, space, precision, pi, L, J, u)
    if reflections.axes.shape[0] > 1:
        law = (power, values)
        value = _reflect(
            rng, tasks, weight, space, precision, theta, pi, reflections, tries, value, L, J, u, *law
        )
    for i in range(m * k):
        u[i] += rng.standard_normal()
    for i in range(m * k - 1, -1, -1):
        u[i] /= J[i, i]
        for j in range(i):
            u[j] -= J[i, j] * u[i]
    for a in range(k):
        for i in range(m - 1, -1, -1):
            theta[i, a] = u[a * m + i]
            for j in range(i + 1, m):
                theta[i, a] -= L[j, i] * theta[j, a]
            theta[i, a] /= L[i, i]


@njit(cache=True, nogil=True, error_model="numpy")
def _log_prior(precision, theta, power, values):
    """What the prior of R adds to (8): of the covariance, and of the columns of the regression that are held."""
    total = 0.0
    m, known = theta.shape[0], theta.shape[1] - 1
    if power == 0.0:
        return -0.5 * (np.trace(precision) + np.sum((precision @ theta) * theta))
    for d in range(known):
        now = values[d]
        for i in range(m):
            for j in range(m):
                now += theta[i, 1 + d] * precision[i, j] * theta[j, 1 + d]
        total += np.log(now)
    for i in range(m):
        total += np.log(values[known + i] + precision[i, i])
    return -0.5 * power * total


@njit(cache=True, nogil=True, error_model="numpy")
def _reflect(
    rng, tasks, weight, space, precision, theta, pi, reflections, tries, value, L, J, u, power, values
):
    """Metropolis steps to ``F R F'``; changes ``precision`` and what belongs to it."""
    m = precision.shape[0]
    p, q = np.empty(m), np.empty(m)
    new_L, new_J, new_u = np.empty_like(L), np.empty_like(J), np.empty_like(u)
    prior = _log_prior(precision, theta, power, values)
    for _ in range(tries):
        if not _pick(rng, reflections, p, q):
            continue
        v = precision @ p
        step = np.outer(q, v)
        new = precision - 2.0 * (step + step.T) + 4.0 * (p @ v) * np.outer(q, q)
        moved = _log_evidence(tasks, weight, space, new, pi, new_L, new_J, new_u)
        changed = _log_prior(new, theta, power, values)
        if rng.standard_exponential() > value + prior - moved - changed:
            precision[:], prior = new, changed
            L[:], J[:], u[:] = new_L, new_J, new_u
            value = moved
    return value
