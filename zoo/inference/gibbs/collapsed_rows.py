r"""Coefficients of one task at a time, with the covariance of tasks integrated out.

The hierarchy is that of :mod:`zoo.inference.gibbs.group_moves`: coefficients ``H`` (T x D) and the task
covariance :math:`R \sim IW(\nu, \Psi)`. With R integrated out (see
:mod:`zoo.inference.gibbs.collapsed_covariance`) and :math:`\Phi = \Psi^{-1}`,

.. math:: p(H \mid \Omega) \propto |\Omega + H' \Phi H|^{-(\nu + D)/2} .

Where tasks outnumber features, R nearly determines each task by the others: a row of :math:`R^{-1}` is a
regression of the D coefficients of one task on those of more than D other tasks, and it fits them. So given
R the coefficients of a task hardly move from sweep to sweep. With R integrated out they do.

Let :math:`c = \Phi_{tt}` and :math:`m = -\sum_{s \ne t} \Phi_{ts} h_s / c`. Then

.. math::

    \Omega + H' \Phi H &= K_t + c\, (h_t - m)(h_t - m)' , \qquad A = K_t^{-1} , \\
    p(h_t \mid h_{-t}, \Omega) &\propto \left( 1 + c\, |h_t - m|^2_A \right)^{-(\nu + D)/2} , \quad (R1)

where :math:`K_t` is the left side at :math:`h_t = m`, which does not depend on :math:`h_t`. (R1) is a
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
from zoo.inference.gibbs.triangular import draw_by_precision

__all__ = ["begin", "centre_of_task", "draw_mixture", "draw_tasks", "gram_of_tasks", "leave_out", "put_in"]

# K without a task is a difference of matrices. Where the task is larger than this, in units of the smallest
# direction of K, the difference has lost too many digits, and K is summed anew.
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
def begin(H, O, scale_inverse):
    """The feature covariance Omega, and the inverse of K with all tasks; both (D, D)."""
    omega = np.linalg.inv(O)
    return omega, np.ascontiguousarray(np.linalg.inv(omega + gram_of_tasks(H, scale_inverse)))


@njit(cache=True, nogil=True)
def draw_mixture(rng, A, apart, c, nu):
    """A draw of ``tau c`` of (R2) for a task at ``apart`` from its centre."""
    shape = 0.5 * (nu + len(apart))
    return c * rng.gamma(shape, 2.0 / (1.0 + c * (apart @ (A @ apart))))


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
    omega, inverse = begin(H, O, scale_inverse)
    m = np.empty(H.shape[1])
    for t in range(len(H)):
        c = centre_of_task(H, scale_inverse, t, m)
        A = leave_out(inverse, omega, H, scale_inverse, t, m, c)
        tau = draw_mixture(rng, A, H[t] - m, c, nu)
        factor = np.linalg.cholesky(S[t] + tau * A)
        draw = r[t] + tau * (A @ m)
        draw_by_precision(rng, factor, draw)
        H[t] = draw
        inverse = put_in(A, draw - m, c)
