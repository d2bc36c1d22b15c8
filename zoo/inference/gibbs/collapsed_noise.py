r"""The noise that all tasks share, drawn with their coefficients integrated out.

Where tasks have few rows beside their coefficients, functions can pass through all of them. A small noise then keeps
such functions in place, and these keep the noise small, so that steps 1 and 2 of
:mod:`zoo.inference.gibbs.normal_inverse_wishart` cross to a larger noise slowly. The notation is that of that module.

With :math:`X_t = Q_t R_t`, where :math:`R_t` has r rows, at most as many as the task has rows or coefficients, all that
:math:`y_t` says of :math:`w_t` is :math:`q_t = R_t \hat w_t`, which is :math:`R_t w_t` and noise, beside the squared
errors :math:`e_t` around least squares:

.. math::

    q_t \sim N(R_t \mu, K_t + \sigma^2 I), \quad K_t = R_t C R_t', \qquad e_t / \sigma^2 \sim \chi^2_{N_t - r},

.. math::

    \log p(\log \lambda \mid \mu, C, y) = a \log \lambda - b \lambda + \sum_t \Big[ \tfrac{N_t - r}{2} \log \lambda -
    \tfrac{\lambda}{2} e_t - \tfrac12 \log |K_t + I / \lambda| - \tfrac12 (q_t - R_t \mu)' (K_t + I / \lambda)^{-1}
    (q_t - R_t \mu) \Big] + \text{const} \tag{1}

with :math:`\lambda = \sigma^{-2}`. The coefficients are stale after the draw, and step 1 draws them anew at once. The
two steps together draw :math:`(\lambda, w)` from its law given :math:`\mu` and C.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.gibbs.slice_move import slice_move
from zoo.inference.gibbs.triangular import factorise, solve_lower
from zoo.inference.stacks import equal_sizes

__all__ = ["Roots", "collapsed_noise", "laws", "log_noise_density", "roots_of", "rows_are_few"]


class Roots(NamedTuple):
    """The matrices :math:`R_t` below each other (rows, D), and where each begins (T + 1,)."""

    rows: np.ndarray
    start: np.ndarray

    def scaled(self, scales: np.ndarray) -> Roots:
        """The same for features multiplied by ``scales`` (D,)."""
        return self._replace(rows=self.rows * scales)


def rows_are_few(tasks: Tasks) -> bool:
    """Whether tasks have at most three rows for two coefficients, so that the noise mixes slowly given these.

    With a share K of the rows that the coefficients could determine, and these known from the rows alone, one noise
    given them and the next have correlation K, and n sweeps are worth n (1 - K) / (1 + K) draws: a fifth for 2/3.
    """
    sizes, D = tasks.size, tasks.S.shape[1]
    return 3.0 * float(np.minimum(sizes, D).sum()) >= 2.0 * float(sizes.sum())


def roots_of(
    inputs: np.ndarray, row: np.ndarray, task: np.ndarray, n_tasks: int, weight: np.ndarray | None
) -> Roots:
    """The matrices :math:`R_t` of all tasks; arguments as of :func:`~zoo.inference.gibbs.task_sums.task_sums`.

    They are the rows of a task themselves, times the roots of their weights, or a triangle where there are more of
    these than features. It is made of the rows and not of :math:`S_t = R_t' R_t`, in which a feature that is small
    beside others would be lost.
    """
    D, order = inputs.shape[1], np.argsort(task, kind="stable")
    size = np.bincount(task, minlength=n_tasks)
    start = np.concatenate([[0], np.cumsum(np.minimum(size, D))])
    rows = np.empty((start[-1], D))
    for some, place in equal_sizes(np.concatenate([[0], np.cumsum(size)]), D):
        at = order[place]
        X = inputs[row[at]] if weight is None else inputs[row[at]] * np.sqrt(weight[at])[..., None]
        R = X if X.shape[1] <= D else np.linalg.qr(X, mode="r")
        rows[start[some][:, None] + np.arange(R.shape[1])] = R
    return Roots(rows, start)


@njit(cache=True, nogil=True)
def laws(roots, tasks, mu, C):
    r"""Lower triangles of all :math:`K_t` one after the other, and :math:`q_t - R_t \mu`."""
    R, start = roots.rows, roots.start
    D, n_tasks = len(mu), len(tasks.size)
    length = 0
    for t in range(n_tasks):
        length += (start[t + 1] - start[t]) ** 2
    K, apart, RC = np.empty(length), np.zeros(len(R)), R @ C
    at = 0
    for t in range(n_tasks):
        centre = tasks.centre[t // LANES, :, t % LANES]
        for i in range(start[t], start[t + 1]):
            for d in range(D):
                apart[i] += R[i, d] * (centre[d] - mu[d])
            for j in range(start[t], start[t + 1]):
                total = 0.0
                if j <= i:
                    for d in range(D):
                        total += RC[i, d] * R[j, d]
                K[at] = total
                at += 1
    return K, apart


@njit(cache=True, nogil=True)
def log_noise_density(s, inverse_noise, start, tasks, K, apart, space, a, b):
    """Equation (1) at ``inverse_noise * exp(s)``; ``space`` (at least all of K, of ``apart``) is overwritten."""
    value = inverse_noise * np.exp(s)
    density, at = a * s - b * value, 0
    for t in range(len(tasks.size)):
        r = start[t + 1] - start[t]
        A, u = space[0][at : at + r * r], space[1][start[t] : start[t + 1]]
        A[:] = K[at : at + r * r]
        u[:] = apart[start[t] : start[t + 1]]
        at += r * r
        A = A.reshape((r, r))
        for i in range(r):
            A[i, i] += 1.0 / value
        factorise(A)
        solve_lower(A, u)
        density += 0.5 * (tasks.size[t] - r) * s - 0.5 * value * tasks.sse[t]
        for i in range(r):
            density -= np.log(A[i, i]) + 0.5 * u[i] * u[i]
    return density


@njit(cache=True, nogil=True)
def collapsed_noise(rng, roots, tasks, mu, C, inverse_noise, a, b):
    """Fill ``inverse_noise`` (blocks, lanes) with one value."""
    K, apart = laws(roots, tasks, mu, C)
    now, space = inverse_noise[0, 0], (np.empty_like(K), np.empty_like(apart))
    arguments = (now, roots.start, tasks, K, apart, space, a, b)
    width = 8.0 * np.sqrt(2.0 / max(tasks.size.sum(), 1.0))  # eight standard deviations given the functions
    inverse_noise[:] = now * np.exp(slice_move(rng, log_noise_density, arguments, width, True))
