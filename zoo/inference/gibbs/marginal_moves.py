r"""Moves of a task's coefficients under the loss itself, without its augmentation.

Given the augmentation, a coefficient that many rows share (the intercept of a rare label, the size of a whole
task) has a much narrower law than without it, and creeps. Along a line the loss itself can be sampled,
at the price of a few passes over the task's rows:

.. math:: \log p(y_n \mid f_n) = -2 c_n \max(0, a_n - b_n f_n).

The moves come between two draws of the augmentation. They leave the posterior of coefficients and covariances
unchanged, and so must not depend on an earlier augmentation, not even through the widths of slices.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.slice_move import slice_move
from zoo.inference.gibbs.task_precision import diagonal

__all__ = ["log_density", "log_likelihood", "marginal_moves"]


@njit(cache=True, nogil=True, fastmath=True)
def log_likelihood(hinges, cost, start, stop, base, step, size):
    """Log likelihood of rows ``start:stop`` at ``f = base + size * step``."""
    total = 0.0
    for n in range(start, stop):
        f = base[n] + size * step[n]
        total += cost[n] * max(0.0, hinges[0, n] - hinges[1, n] * f)
    return -2.0 * total


@njit(cache=True, nogil=True)
def log_density(s, grows, law, hinges, cost, start, stop, base, step):
    """Law of a step ``s`` along a line, or of a log scale ``s``; ``law`` holds the coefficients of its prior part."""
    prior = law[0] * s - 0.5 * law[1] * s * s
    size = s
    if grows:
        size = np.exp(s)
        prior -= 0.5 * law[2] / (size * size) + law[3] / size
    return prior + log_likelihood(hinges, cost, start, stop, base, step, size)


@njit(cache=True, nogil=True)
def marginal_moves(
    rng, hinges, cost, starts, f, offset, along, direction, H, P, O, learn_task, nu, scale
):  # fmt: skip
    r"""Move each task's coefficients along ``direction``, then scale them with the task covariance, in place.

    Line: :math:`h_t \to h_t + s v`, prior part :math:`-s\, v' O (H' P)_{\cdot t} - P_{tt}\, v'Ov\, s^2 / 2`; the
    slice's width is two prior standard deviations.
    Scale: as in :func:`~zoo.inference.gibbs.group_moves.task_moves`, with the loss in place of its augmented form.

    Parameters
    ----------
    hinges : (2, N)
        ``a`` and ``b`` of every row, rows sorted by task.
    cost : (N,)
        ``c``.
    starts : (T + 1,) int
        Task t holds rows ``starts[t]:starts[t + 1]``.
    f, offset : (N,)
        Current function values, offset included, and what of them is no part of ``H``. ``f`` changes with ``H``.
    along, direction : (N,), (D,)
        ``X v`` and ``v``; an empty ``direction`` leaves the lines out.
    """
    n_tasks = len(starts) - 1
    law = np.zeros(4)
    base = np.zeros(len(f))
    if len(direction):
        pull = O @ direction
        curvature = direction @ pull
        for t in range(n_tasks):
            a, b = starts[t], starts[t + 1]
            if P.shape[0] == 0:
                law[0] = -(H[t] @ pull)
            else:
                law[0] = -(P[t] @ (H @ pull))
            law[1] = diagonal(P, t) * curvature
            width = 2.0 / np.sqrt(law[1])
            line = (False, law, hinges, cost, a, b, f, along)
            s = slice_move(rng, log_density, line, width, True)
            H[t] += s * direction
            for n in range(a, b):
                f[n] += s * along[n]
    if learn_task:
        law[0], law[1] = -nu, 0.0
        for n in range(len(f)):
            base[n] = f[n] - offset[n]
        for t in range(n_tasks):
            a, b = starts[t], starts[t + 1]
            law[2], law[3] = P[t, t], 0.0
            if scale.shape[0]:
                law[2] = scale[t, t] * P[t, t]
                law[3] = scale[t] @ P[t] - law[2]
            growth = (True, law, hinges, cost, a, b, offset, base)
            grown = np.exp(slice_move(rng, log_density, growth, 0.5, True))
            H[t] *= grown
            for n in range(a, b):
                f[n] = offset[n] + grown * base[n]
            for s in range(n_tasks):
                P[t, s] /= grown
                P[s, t] /= grown
