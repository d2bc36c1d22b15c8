r"""Coefficients of one task at a time, with the covariance of tasks integrated out.

The hierarchy is that of :mod:`zoo.inference.gibbs.group_moves`: coefficients ``H`` (T x D) and the task
covariance :math:`R \sim IW(\nu, \Psi)`. With R integrated out (see
:mod:`zoo.inference.gibbs.collapsed_covariance`) and :math:`\Phi = \Psi^{-1}`,

.. math:: p(H \mid \Omega) \propto |\Omega + H' \Phi H|^{-(\nu + D)/2} .

Where tasks outnumber features, R knows each task too well: a row of :math:`R^{-1}` is a regression of
one task on more other tasks than it has coefficients, and it fits them. Given R the coefficients of the
task then hardly move. Without R they do. Let :math:`c = \Phi_{tt}` and
:math:`m = -\sum_{s \ne t} \Phi_{ts} h_s / c`. Then

.. math::

    \Omega + H' \Phi H &= K_t + c\, (h_t - m)(h_t - m)' , \qquad A = K_t^{-1} , \\
    p(h_t \mid h_{-t}, \Omega) &\propto \left( 1 + c\, |h_t - m|^2_A \right)^{-(\nu + D)/2} , \quad (R1)

where :math:`K_t` is the left side at :math:`h_t = m`, which does not hang on :math:`h_t`. (R1) is a
multivariate t law, and so a mixture of normal laws over a number :math:`\tau`:

.. math::

    \tau \mid h_t \sim \Gamma\left( \tfrac{\nu + D}{2},\ \text{rate } \tfrac12 (1 + c\, |h_t - m|^2_A) \right),
    \qquad h_t \mid \tau \sim N\left( m, (\tau c A)^{-1} \right) . \quad (R2)

Given the augmentation of the likelihood, with the quadratic term :math:`S_t` and the linear term
:math:`r_t`, the task is drawn with precision :math:`S_t + \tau c A` and linear term
:math:`r_t + \tau c A m`. The inverse of :math:`K = \Omega + H' \Phi H` follows each task by rank one.

The sweep has to draw R given H and :math:`\Omega` before anything looks at R.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["centre_of_task", "draw_tasks", "gram_of_tasks", "leave_out", "put_in"]

# Where a task is so much of K, measured in its smallest direction, too few digits are left of K without it.
_TOO_MUCH = 1e8


@njit(cache=True, nogil=True)
def gram_of_tasks(H, scale_inverse):
    """``H' Phi H``; ``scale_inverse`` is Phi (T, T), or (0, 0) for the identity."""
    if scale_inverse.shape[0] == 0:
        return H.T @ H
    return H.T @ (scale_inverse @ H)


@njit(cache=True, nogil=True)
def centre_of_task(H, scale_inverse, t, m):
    """Fill ``m`` (D,), the centre of task t given the others; return c."""
    if scale_inverse.shape[0] == 0:
        m[:] = 0.0
        return 1.0
    c = scale_inverse[t, t]
    m[:] = H[t] - (H.T @ scale_inverse[t]) / c
    return c


@njit(cache=True, nogil=True)
def leave_out(inverse, omega, H, scale_inverse, t, m, c):
    """A of (R1): the inverse of K without task t, from ``inverse`` (D, D), that of K."""
    apart = H[t] - m
    g = inverse @ apart
    left = 1.0 - c * (apart @ g)
    if left > 1.0 / _TOO_MUCH and c * (apart @ apart) * np.trace(inverse) < _TOO_MUCH:
        return inverse + (c / left) * np.outer(g, g)
    others = H.copy()
    others[t] = m
    return np.ascontiguousarray(np.linalg.inv(omega + gram_of_tasks(others, scale_inverse)))


@njit(cache=True, nogil=True)
def put_in(A, apart, c):
    """The inverse of K with a task at ``apart`` from its centre, from A."""
    g = A @ apart
    return A - (c / (1.0 + c * (apart @ g))) * np.outer(g, g)


@njit(cache=True, nogil=True)
def draw_tasks(rng, S, r, H, O, nu, scale_inverse):
    """Draw the coefficients of every task given the other tasks' and the augmentation; H changes in place.

    Parameters
    ----------
    S, r : (T, D, D), (T, D)
        Quadratic and linear term of each task.
    O : (D, D)
        Inverse of the feature covariance.
    nu : float
        Degrees of freedom of the inverse-Wishart prior of the task covariance.
    scale_inverse : (T, T), or (0, 0) for the identity
        Inverse of its scale matrix.
    """
    n_tasks, n_features = H.shape
    omega = np.linalg.inv(O)
    inverse = np.ascontiguousarray(np.linalg.inv(omega + gram_of_tasks(H, scale_inverse)))
    m = np.empty(n_features)
    for t in range(n_tasks):
        c = centre_of_task(H, scale_inverse, t, m)
        A = leave_out(inverse, omega, H, scale_inverse, t, m, c)
        apart = H[t] - m
        tau = c * rng.gamma(0.5 * (nu + n_features), 2.0 / (1.0 + c * (apart @ (A @ apart))))
        factor = np.linalg.cholesky(S[t] + tau * A)
        draw = r[t] + tau * (A @ m)
        for i in range(n_features):  # forward: L^-1 b, then + z
            for j in range(i):
                draw[i] -= factor[i, j] * draw[j]
            draw[i] /= factor[i, i]
        for i in range(n_features):
            draw[i] += rng.standard_normal()
        for i in range(n_features - 1, -1, -1):  # backward: L'^-1, by rows of L
            draw[i] /= factor[i, i]
            for j in range(i):
                draw[j] -= factor[i, j] * draw[i]
        H[t] = draw
        inverse = put_in(A, draw - m, c)
