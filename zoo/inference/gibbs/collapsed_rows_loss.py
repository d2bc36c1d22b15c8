r"""Moves of single tasks under the hinge loss itself, with augmentation and task covariance integrated out.

Two things hold the coefficients of a task with rare labels where they are: the augmentation, given which
the intercept has a far narrower law than without it, and the task covariance, which fits the size of
every task (see :mod:`zoo.inference.gibbs.collapsed_rows`, whose symbols and equations are used here). These
moves see neither: the law of the coefficients is (R1) times the loss,

.. math:: \log p(y_n \mid f_n) = -2 c_n \max(0, a_n - b_n f_n) .

Each task has three moves:

- **Line**: :math:`h_t \to h_t + s v` with v the mean input of all rows, so an intercept where there is
  one. By (R1) the log density of s is :math:`-\tfrac{\nu + D}{2} \log(1 + c\,|h_t + s v - m|^2_A)` plus the
  loss, drawn by slice sampling. The first interval is two standard deviations of the prior along the line
  wide. These are the same wherever on the line the task is now.
- **Scale**: :math:`h_t \to e^s h_t`. The density is (R1) at the new place, the loss, and the Jacobian
  :math:`e^{s D}`.
- **Ellipse**: given :math:`\tau` by (R2) the prior is normal, and an elliptical slice (Murray, Adams &
  MacKay 2010) moves all coefficients at once. With the identity as the scale matrix of the prior,
  a draw with the covariance :math:`K_t = \Omega + \sum_{s \ne t} h_s h_s'` takes one normal number for each
  task and feature; else it comes from the factor of A.

Beside them all tasks are scaled together with the feature covariance,
:math:`(H, \Omega) \to (e^s H, e^{2s} \Omega)`. The law of H given :math:`\Omega` does not change, with or without
R, and the inverse-Wishart density of :math:`\Omega` with the Jacobian of the move leaves
:math:`-\nu_\Omega D s - \tfrac12 e^{-2s} \operatorname{tr} \Omega^{-1}`. Where the labels of most tasks are separated,
the loss is near zero for all large s, and a task that moves alone cannot leave the size of the others.

The moves come between two draws of the augmentation. They leave the law of coefficients and feature
covariance unchanged, with the augmentation and the task covariance integrated out, and so nothing may
look at either until it is drawn anew.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.collapsed_rows import begin, centre_of_task, draw_mixture, leave_out, put_in
from zoo.inference.gibbs.marginal_moves import log_density, log_likelihood
from zoo.inference.gibbs.slice_move import MOST_STEPS, slice_move

__all__ = ["collapsed_loss_moves", "scale_all_tasks"]


@njit(cache=True, nogil=True)
def _collapsed_density(s, grows, law, hinges, cost, start, stop, base, step):
    """Of a step ``s`` along a line, or of a log scale; ``law`` holds ``1 + c |.|^2`` as a quadratic, and exponents."""
    size = np.exp(s) if grows else s
    prior = law[4] * s - law[3] * np.log(law[0] + law[1] * size + law[2] * size * size)
    return prior + log_likelihood(hinges, cost, start, stop, base, step, size)


@njit(cache=True, nogil=True)
def scale_all_tasks(rng, hinges, cost, rows, f, H, O, nu_feature):
    r"""Scale all coefficients and the feature covariance; all change in place.

    ``nu_feature`` are the degrees of freedom of its inverse-Wishart prior, whose scale is the identity.
    """
    law = np.zeros(4)
    law[0] = -nu_feature * H.shape[1]
    law[2] = np.trace(O)
    base = f - rows.offset
    growth = (True, law, hinges, cost, 0, len(f), rows.offset, base)
    grown = np.exp(slice_move(rng, log_density, growth, 0.5, True))
    H *= grown
    O /= grown * grown
    for n in range(len(f)):
        f[n] = rows.offset[n] + grown * base[n]


@njit(cache=True, nogil=True)
def _width(law):
    """Two prior standard deviations of the t law along a line, which is the same from each of its points."""
    least = max(law[0] - 0.25 * law[1] * law[1] / law[2], 1e-300)
    return 2.0 * np.sqrt(least / (law[2] * (2.0 * law[3] - 1.0)))


@njit(cache=True, nogil=True)
def _prior_draw(rng, H, A, factor_O, t, identity):
    """A draw from ``N(0, K_t)``."""
    n_tasks, n_features = H.shape
    white = np.empty(n_features)
    for i in range(n_features):
        white[i] = rng.standard_normal()
    if not identity:
        return np.linalg.solve(np.linalg.cholesky(A).T, white)
    draw = np.linalg.solve(factor_O.T, white)
    for s in range(n_tasks):
        if s != t:
            draw += rng.standard_normal() * H[s]
    return draw


@njit(cache=True, nogil=True)
def _log_likelihood_on_ellipse(hinges, cost, start, stop, rest, now, other, cosine, sine):
    total = 0.0
    for n in range(start, stop):
        f = rest[n] + cosine * now[n] + sine * other[n]
        total -= 2.0 * cost[n] * max(0.0, hinges[0, n] - hinges[1, n] * f)
    return total


@njit(cache=True, nogil=True)
def _ellipse(rng, hinges, cost, start, stop, rest, now, other):
    """An elliptical slice from ``rest + now``: cosine and sine of the angle that is taken."""
    known = (hinges, cost, start, stop, rest, now, other)
    level = _log_likelihood_on_ellipse(*known, 1.0, 0.0) - rng.standard_exponential()
    angle = 2.0 * np.pi * rng.random()
    low, high = angle - 2.0 * np.pi, angle
    for _ in range(MOST_STEPS):
        cosine, sine = np.cos(angle), np.sin(angle)
        if _log_likelihood_on_ellipse(*known, cosine, sine) > level:
            return cosine, sine
        if angle < 0.0:
            low = angle
        else:
            high = angle
        angle = low + (high - low) * rng.random()
    return 1.0, 0.0


@njit(cache=True, nogil=True)
def collapsed_loss_moves(rng, hinges, cost, rows, f, along, direction, H, O, nu, scale_inverse):
    """Take the three moves of each task; ``H`` and ``f`` change in place.

    Parameters
    ----------
    hinges : (2, N)
        ``a`` and ``b`` of every row, rows sorted by task.
    cost : (N,)
        ``c``.
    rows : Rows
        Its ``offset`` is what of f is no part of ``H``.
    f : (N,)
        Current function values, offset included.
    along, direction : (N,), (D,)
        ``X v`` and ``v``; an empty ``direction`` leaves the lines out.
    O : (D, D)
        Inverse of the feature covariance.
    nu, scale_inverse : float, (T, T) or (0, 0)
        As for :func:`~zoo.inference.gibbs.collapsed_rows.draw_tasks`.
    """
    n_tasks, n_features = H.shape
    identity = scale_inverse.shape[0] == 0
    omega, inverse = begin(H, O, scale_inverse)
    factor_O = np.linalg.cholesky(O)
    m = np.empty(n_features)
    law = np.empty(5)
    law[3] = 0.5 * (nu + n_features)
    base, now, other = np.empty(len(f)), np.empty(len(f)), np.empty(len(f))
    for t in range(n_tasks):
        a, b = rows.starts[t], rows.starts[t + 1]
        c = centre_of_task(H, scale_inverse, t, m)
        A = leave_out(inverse, omega, H, scale_inverse, t, m, c)
        if len(direction):
            apart = H[t] - m
            pull = A @ direction
            law[0] = 1.0 + c * (apart @ (A @ apart))
            law[1] = 2.0 * c * (apart @ pull)
            law[2] = c * (direction @ pull)
            law[4] = 0.0
            line = (False, law, hinges, cost, a, b, f, along)
            s = slice_move(rng, _collapsed_density, line, _width(law), True)
            H[t] += s * direction
            for n in range(a, b):
                f[n] += s * along[n]
        pull = A @ H[t]
        law[0] = 1.0 + c * (m @ (A @ m))
        law[1] = -2.0 * c * (m @ pull)
        law[2] = c * (H[t] @ pull)
        law[4] = n_features
        for n in range(a, b):
            base[n] = f[n] - rows.offset[n]
        growth = (True, law, hinges, cost, a, b, rows.offset, base)
        grown = np.exp(slice_move(rng, _collapsed_density, growth, 0.5, True))
        H[t] *= grown
        apart = H[t] - m
        tau = draw_mixture(rng, A, apart, c, nu)
        step = _prior_draw(rng, H, A, factor_O, t, identity) / np.sqrt(tau)
        for n in range(a, b):
            x = rows.inputs[rows.row[n]]
            now[n] = 0.0
            other[n] = 0.0
            for d in range(n_features):
                now[n] += x[d] * apart[d]
                other[n] += x[d] * step[d]
            base[n] = rows.offset[n] + grown * base[n] - now[n]
        cosine, sine = _ellipse(rng, hinges, cost, a, b, base, now, other)
        apart = cosine * apart + sine * step
        H[t] = m + apart
        for n in range(a, b):
            f[n] = base[n] + cosine * now[n] + sine * other[n]
        inverse = put_in(A, apart, c)
