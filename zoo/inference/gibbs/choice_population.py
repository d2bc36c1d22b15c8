r"""A move of the mean and the covariance of a population together with all its tasks, for choices.

Where tasks say little, their coefficients follow the population, which then hardly moves given them. So the
population also moves while :math:`z_t = L^{-1}(w_t - \mu)` stay, with :math:`C = L L'` (an interweaving of the
centred and the non-centred form, Yu & Meng 2011). Then

.. math::

    w_t = \mu + L z_t, \quad z_t \sim N(0, I)

is linear in the vector :math:`\theta` of :math:`\mu` and of the lower triangle of L, and tasks move with it. Its prior
is that of :math:`C \sim IW(\nu, I)` and :math:`\mu \mid C \sim N(0, C / \pi)`, with the Jacobian of :math:`C = L L'`:

.. math::

    \log p(\theta) = -\sum_{i=1}^D (\nu + 1 + i) \log l_{ii} - \tfrac12 \| L^{-1} \|^2
    - \tfrac{\pi}{2} | L^{-1} \mu |^2 .

Of the exponent, :math:`\nu + D + 1` come from the density of C and 1 from that of the mean, and :math:`D - i + 1` go
to the Jacobian. A mean with a law of its own, of precision K, has :math:`-\tfrac12 \mu' K \mu` in the place of the
last term, and takes nothing of the exponent. A normal law near the posterior of :math:`\theta` given z is made by
Newton's method, from the population that :mod:`zoo.inference.gibbs.choice_moves` finds before anything is drawn. So
it depends on z and on the data, and not on :math:`\theta`. One step of elliptical slice sampling
(:mod:`zoo.inference.gibbs.elliptical_slice`) around it then keeps the posterior.

The order of the features means something in L. So each move takes another order, drawn at random, and of many features
only the last rows of L, so that :math:`\theta` has some thirty entries; a sweep then takes up to three moves.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.choice_likelihood import add_derivatives, log_density
from zoo.inference.gibbs.elliptical_slice import CLOSED, shrunk
from zoo.inference.gibbs.triangular import (
    factorise,
    normal_step,
    solve_lower,
    solve_transposed,
    squared,
)

__all__ = ["blocks", "move_population"]

_ENTRIES, _MOST = 30, 3
# Newton's steps at most, the last one, and one after which the curvature is looked at again, in standard deviations.
_STEPS, _CLOSE, _FAR = 6, 1.0, 10.0
# From so many tasks on the curvature takes most of the time; and a step beyond reason, which is not taken.
_MANY, _LOST = 200, 1e6
# Share of a diagonal entry that one of them may take away.
_ROOM = 0.7
# Below it a diagonal entry on the way to the mode is taken for this one.
_LEAST = 0.05


def blocks(n_features: int) -> int:
    """How many of these moves one sweep takes."""
    entries = n_features * (n_features + 3) // 2
    return min(_MOST, -(-entries // _ENTRIES))


@njit(cache=True, nogil=True)
def _log_prior(L, mu, nu, pi, own):
    """Of mean and lower factor; ``pi`` is 0 where the mean has the precisions ``own`` (D,), which are else 0."""
    D, total = len(mu), -0.5 * np.sum(own * mu * mu)
    nu -= pi == 0.0
    for i in range(D):
        if L[i, i] <= 0.0:
            return -np.inf
        total -= (nu + 2.0 + i) * np.log(L[i, i])
    M = np.linalg.inv(L)
    m = M @ mu
    return total - 0.5 * np.sum(M * M) - 0.5 * pi * (m @ m)


@njit(cache=True, nogil=True)
def _prior_gradient(L, mu, nu, pi, own):
    """In L (D, D), of which the lower triangle counts, and in the mean."""
    D = len(mu)
    nu -= pi == 0.0
    safe = L.copy()
    for i in range(D):
        safe[i, i] = max(safe[i, i], _LEAST)
    M = np.linalg.inv(safe)
    m = M @ mu
    of_L = M.T @ M @ M.T + pi * np.outer(M.T @ m, m)
    for i in range(D):
        of_L[i, i] -= (nu + 2.0 + i) / safe[i, i]
    return of_L, -pi * (M.T @ m) - own * mu


@njit(cache=True, nogil=True)
def _prior_curvature(first, L, mu, nu, pi, own, A):
    """The lower triangle of minus the Hessian of the log prior in the entries, without what makes it indefinite."""
    safe = L.copy()
    nu -= pi == 0.0
    for i in range(len(mu)):
        safe[i, i] = max(safe[i, i], _LEAST)
    M = np.linalg.inv(safe)
    rows, columns, m = M.T @ M, M @ M.T, M @ mu
    A[:] = 0.0
    q = 0
    for i in range(first, len(mu)):
        r = 0
        for k in range(first, i + 1):
            for a in range(i + 2):
                for b in range(k + 2):
                    both = (1.0 if a == 0 else -m[a - 1]) * (1.0 if b == 0 else -m[b - 1]) * pi
                    if a > 0 and b > 0:
                        both += columns[a - 1, b - 1]
                    A[q + a, r + b] = rows[i, k] * both
            r += k + 2
        A[q, q] += own[i]
        least = 2.0 * M[i, i] * (columns @ M)[i, i] - (nu + 2.0 + i) / safe[i, i] ** 2
        A[q + 1 + i, q + 1 + i] += max(0.0, least)
        q += i + 2


@njit(cache=True, nogil=True)
def _unpack(theta, first, L, mu):
    """Put the entries of the rows from ``first`` on into L and the mean."""
    q = 0
    for i in range(first, len(mu)):
        mu[i] = theta[q]
        q += 1
        for j in range(i + 1):
            L[i, j] = theta[q]
            q += 1


@njit(cache=True, nogil=True)
def _coefficients(order, L, mu, z, w):
    """Of one task, in the order of the features."""
    for i in range(len(mu)):
        total = mu[i]
        for j in range(i + 1):
            total += L[i, j] * z[j]
        w[order[i]] = total


@njit(cache=True, nogil=True)
def _pack(first, L, mu, theta):
    """The inverse of :func:`_unpack`."""
    q = 0
    for i in range(first, len(mu)):
        theta[q] = mu[i]
        q += 1
        for j in range(i + 1):
            theta[q] = L[i, j]
            q += 1


@njit(cache=True, nogil=True)
def _add_gradient(order, first, slope, z, step):
    """Add what the gradient of one task in its coefficients says of the entries."""
    q = 0
    for i in range(first, len(order)):
        s = slope[order[i]]
        step[q] += s
        for j in range(i + 1):
            step[q + 1 + j] += s * z[j]
        q += i + 2


@njit(cache=True, nogil=True)
def _add_curvature(order, first, H, z, A):
    """Add what minus the Hessian of one task, a lower triangle, says of the entries; to a lower triangle."""
    q = 0
    for i in range(first, len(order)):
        r = 0
        for k in range(first, i + 1):
            h = H[max(order[i], order[k]), min(order[i], order[k])]
            A[q, r] += h
            for m in range(k + 1):
                A[q, r + 1 + m] += h * z[m]
            for j in range(i + 1):
                hz = h * z[j]
                A[q + 1 + j, r] += hz
                for m in range(k + 1):
                    A[q + 1 + j, r + 1 + m] += hz * z[m]
            r += k + 2
        q += i + 2


@njit(cache=True, nogil=True)
def _within(theta, step, first, n_features):
    """The share of a step that leaves diagonal entries above a third of what they are."""
    share, q = 1.0, 0
    for i in range(first, n_features):
        at = q + 1 + i
        if step[at] < -_ROOM * theta[at]:
            share = min(share, _ROOM * max(theta[at], _LEAST) / -step[at])
        q += i + 2
    return share


@njit(cache=True, nogil=True)
def _near(choices, order, Z, first, L, mu, nu, pi, own, theta, A):
    """Newton's steps from ``theta`` towards the mode, in place; ``A``: lower factor of the last curvature."""
    T, D = Z.shape
    w, slope, H = np.empty(D), np.empty(D), np.empty((D, D))
    step = np.empty(len(theta))
    far = np.inf
    for _ in range(_STEPS):
        second = far > _FAR or T < _MANY
        _unpack(theta, first, L, mu)
        if second:
            _prior_curvature(first, L, mu, nu, pi, own, A)
        of_L, of_mu = _prior_gradient(L, mu, nu, pi, own)
        _pack(first, of_L, of_mu, step)
        for t in range(T):
            _coefficients(order, L, mu, Z[t], w)
            slope[:] = 0.0
            H[:] = 0.0
            add_derivatives(choices, choices.tasks[t], choices.tasks[t + 1], w, slope, H, second)
            _add_gradient(order, first, slope, Z[t], step)
            if second:
                _add_curvature(order, first, H, Z[t], A)
        if second:
            factorise(A)
        solve_lower(A, step)
        far = np.max(np.abs(step))  # in standard deviations
        if not far < _LOST:
            break
        solve_transposed(A, step)
        theta += _within(theta, step, first, D) * step
        if far < _CLOSE:
            break


@njit(cache=True, nogil=True)
def move_population(rng, choices, start_mean, start_cov, W, mean, P, nu, law, density):
    """One move; W (T, D), mean (D,), P (D, D) and ``density`` (T,), the log likelihoods, in place.

    ``start_mean`` (D,) and ``start_cov`` (D, D) are the population that Newton's method starts from.
    """
    T, D = W.shape
    order = rng.permutation(D)
    pi, own = law.pi, law.own[order]
    C = np.linalg.inv(P)
    L, mu = np.linalg.cholesky(0.5 * (C + C.T)[order][:, order]), mean[order]
    Z = np.linalg.solve(L, (W[:, order] - mu).T).T.copy()
    first, entries = D - 1, D + 1
    while first > 0 and entries + first + 1 <= _ENTRIES:
        entries += first + 1
        first -= 1
    now, point, A = np.empty(entries), np.empty(entries), np.empty((entries, entries))
    _pack(first, L, mu, now)
    _pack(first, np.linalg.cholesky(start_cov[order][:, order]), start_mean[order], point)
    new_L, new_mu = L.copy(), mu.copy()
    _near(choices, order, Z, first, new_L, new_mu, nu, pi, own, point, A)
    step = normal_step(rng, A)
    apart = now - point
    level = (
        _log_prior(L, mu, nu, pi, own)
        + np.sum(density)
        + 0.5 * squared(A, apart)
        - rng.standard_exponential()
    )
    moved, then = np.empty((T, D)), np.empty(T)
    angle = 2.0 * np.pi * rng.random()
    low, high = angle - 2.0 * np.pi, angle
    while True:
        there = np.cos(angle) * apart + np.sin(angle) * step
        _unpack(point + there, first, new_L, new_mu)
        value = _log_prior(new_L, new_mu, nu, pi, own) + 0.5 * squared(A, there)
        if value > -np.inf:
            for t in range(T):
                _coefficients(order, new_L, new_mu, Z[t], moved[t])
                then[t] = log_density(choices, choices.tasks[t], choices.tasks[t + 1], moved[t])
            value += np.sum(then)
        if value > level or high - low < CLOSED:
            break
        angle, low, high = shrunk(rng, angle, low, high)
    if not value > level:
        return  # rounding has closed the bracket around where it is, or a density is no number
    W[:] = moved
    density[:] = then
    mean[order] = new_mu
    inverse = np.linalg.inv(new_L @ new_L.T)
    for i in range(D):
        for j in range(D):
            P[order[i], order[j]] = 0.5 * (inverse[i, j] + inverse[j, i])
