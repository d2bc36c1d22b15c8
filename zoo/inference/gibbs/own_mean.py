r"""The mean of a population with a prior of its own, which does not depend on the covariance.

.. math:: w_t = \mu + e_t, \quad e_t \mid C \sim N(0, C), \quad \mu \sim N(0, K^{-1}), \quad
          K = \operatorname{diag}(k_1, \dots, k_D) \tag{1}

In the hierarchy of Yu, Tresp & Schwaighofer (2005) the mean is tied to the covariance, :math:`\mu \mid C \sim N(0, C
/ \pi)`: a mean that is large against the spread of the tasks then makes C large. Under (1), as mixed models have it,
C says how tasks differ and nothing else.

The steps of :mod:`zoo.inference.gibbs.normal_inverse_wishart` change in these places. With :math:`P = C^{-1}`,
:math:`M_t = S_t / \sigma_t^2 + P` and :math:`r_t = X_t' y_t / \sigma_t^2`:

-  **The mean, coefficients integrated out.** Task t adds :math:`-\tfrac12 w' M_t w + w'(r_t + P \mu) - \tfrac12 \mu' P
   \mu` to the log density, so that :math:`\mu` is normal with

   .. math:: \Lambda = K + \sum_t (P - P M_t^{-1} P), \qquad h = P \sum_t M_t^{-1} r_t . \tag{2}

   Where tasks differ so little that P hides what they say, the difference is taken as

   .. math:: P - P M_t^{-1} P = (M_t^{-1} P)' \tfrac{S_t}{\sigma_t^2} (M_t^{-1} P)
             + (M_t^{-1} \tfrac{S_t}{\sigma_t^2})' P\, (M_t^{-1} \tfrac{S_t}{\sigma_t^2}), \tag{3}

   whose terms are both positive. All :math:`w_t` are drawn right after it: together a draw of :math:`(\mu, w)` given
   C and the noise. It takes the place of the translation, step 3.
-  **The covariance**, step 5: :math:`C \sim IW(\nu + T,\ \Psi + \sum_t e_t e_t')`, and nothing of the mean.
-  **All moves of C**, those of scales of features included, act on :math:`e_t` and leave :math:`\mu` where it is. Given
   the mean they are the moves of a hierarchy whose mean is zero, for the responses :math:`y_t - X_t \mu`, of which
   :math:`X_t' y_t - S_t \mu` and least squares less :math:`\mu` are the sums. In the collapsed moves there is then no
   constant c among the regressors, and the law of the regression has one column fewer: T + r in (6) of
   :mod:`zoo.inference.gibbs.collapsed_population` in the place of T + r + 1.

Where features are whitened by scales g, the mean in these coordinates is :math:`\mu / g` and K is multiplied by
:math:`g^2`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import (
    LANES,
    draw_coefficients,
    draw_covariance,
    draw_noise,
    factorise,
    solve_block,
)
from zoo.inference.gibbs.triangular import draw_by_precision
from zoo.inference.gibbs.triangular import factorise as factorise_one

__all__ = ["MeanLaw", "around_mean", "draw_mean", "draw_mean_given", "draw_spread", "sweep_with_own_mean"]

# Share of a pivot below which a precision has no factor in float64.
_ROUNDING = 1e-14
# Share of the first term of (2) that a difference has to leave; below it too few of the digits are its own.
_CANCELLED = 1e-6


class MeanLaw(NamedTuple):
    """The prior of the mean in the sampler's coordinates, normal around 0 with precision ``pi P + diag(own)``.

    Tied to the covariance, ``own`` (D,) is 0; of a mean with a law of its own ``pi`` is 0, and ``own`` is k of (1).
    """

    pi: float
    own: np.ndarray

    @property
    def tied(self) -> bool:
        """Whether it moves with the covariance."""
        return self.pi > 0.0

    def precision(self, P: np.ndarray) -> np.ndarray:
        """The precision (D, D), for that of the coefficients."""
        return self.pi * P + np.diag(self.own)


@njit(cache=True, nogil=True)
def draw_mean(rng, tasks, space, mu, P, own, inverse_noise):
    """Fill ``mu`` with a draw from (2); the coefficients are stale until they are drawn.

    Where (2) has no factor in float64, ``mu`` stays as it is: that depends on C and the noise alone.
    """
    D = len(mu)
    A, x = space.factor, space.vector
    total, pull = np.zeros((D, D)), np.zeros(D)
    for block in range(tasks.S.shape[0]):
        S, r, scale = tasks.S[block], tasks.linear[block], inverse_noise[block]
        for i in range(D):
            for j in range(i + 1):
                for b in range(LANES):
                    A[i, j, b] = S[i, j, b] * scale[b] + P[i, j]
            for b in range(LANES):
                x[i, b] = r[i, b] * scale[b]
        factorise(A)
        solve_block(A, x)
        for j in range(D - 1, -1, -1):  # the inverse of the factor, a column after those behind it
            for i in range(D - 1, j, -1):
                for b in range(LANES):
                    A[i, j, b] *= A[i, i, b]
                for k in range(j + 1, i):
                    for b in range(LANES):
                        A[i, j, b] += A[i, k, b] * A[k, j, b]
                for b in range(LANES):
                    A[i, j, b] *= -A[j, j, b]
        for i in range(D):
            for j in range(i + 1):
                one = 0.0
                for k in range(i, D):
                    for b in range(LANES):
                        one += A[k, i, b] * A[k, j, b]
                total[i, j] += one
            gain = 0.0
            for k in range(i, D):
                for b in range(LANES):
                    gain += A[k, i, b] * x[k, b]
            pull[i] += gain
    for i in range(D):
        for j in range(i):
            total[j, i] = total[i, j]
    # A lane without a task has M = P, and adds nothing: all lanes count.
    lanes = tasks.S.shape[0] * LANES
    precision = lanes * P - P @ total @ P
    for i in range(D):
        if not precision[i, i] > _CANCELLED * lanes * P[i, i]:
            _precision_of_mean(tasks, P, inverse_noise, precision)
            break
    for i in range(D):
        precision[i, i] += own[i]
    linear = P @ pull
    factor = 0.5 * (precision + precision.T)
    if factorise_one(factor) > _ROUNDING:
        draw_by_precision(rng, factor, linear)
        mu[:] = linear


@njit(cache=True, nogil=True)
def _precision_of_mean(tasks, P, inverse_noise, precision):
    """Fill ``precision`` with the sum of (2) in the form that nothing cancels in, (3)."""
    D = len(P)
    A = np.empty((D, D))
    precision[:] = 0.0
    for block in range(tasks.S.shape[0]):
        for b in range(LANES):
            for i in range(D):
                for j in range(i + 1):
                    A[i, j] = A[j, i] = tasks.S[block, i, j, b] * inverse_noise[block, b]
            M = A + P
            own, pooled = np.linalg.solve(M, A), np.linalg.solve(M, P)
            precision += pooled.T @ A @ pooled + own.T @ P @ own


@njit(cache=True, nogil=True)
def around_mean(tasks, mu, centre, linear):
    """Fill ``centre`` and ``linear`` with the sums of what a mean of all coefficients leaves of the responses."""
    for block in range(tasks.S.shape[0]):
        S = tasks.S[block]
        for i in range(len(mu)):
            for b in range(LANES):
                centre[block, i, b] = tasks.centre[block, i, b] - mu[i]
                linear[block, i, b] = tasks.linear[block, i, b]
            for j in range(len(mu)):
                for b in range(LANES):
                    linear[block, i, b] -= S[i, j, b] * mu[j]


@njit(cache=True, nogil=True)
def draw_mean_given(rng, W, n_tasks, mu, P, own):
    """Fill ``mu`` with a draw given the coefficients, of precision :math:`K + T P` and linear term ``P sum_t w_t``."""
    D = len(mu)
    total = np.zeros(D)
    for t in range(n_tasks):
        for i in range(D):
            total[i] += W[t // LANES, i, t % LANES]
    linear = P @ total
    draw_by_precision(rng, np.linalg.cholesky(n_tasks * P + np.diag(own)), linear)
    mu[:] = linear


@njit(cache=True, nogil=True)
def draw_spread(rng, W, n_tasks, mu, P, C, nu):
    """Fill ``P`` and ``C`` with a draw given the coefficients and their mean."""
    D = len(mu)
    scatter = np.eye(D)
    rows = np.empty((n_tasks, D))
    for t in range(n_tasks):
        for i in range(D):
            rows[t, i] = W[t // LANES, i, t % LANES] - mu[i]
    scatter += rows.T @ rows
    draw_covariance(rng, scatter, nu + n_tasks, P, C)


@njit(cache=True, nogil=True)
def sweep_with_own_mean(rng, tasks, space, W, mu, P, C, inverse_noise, nu, own, a, b, by_task, n_tasks):
    """Mean and coefficients jointly, noise, covariance."""
    draw_mean(rng, tasks, space, mu, P, own, inverse_noise)
    draw_coefficients(rng, tasks, space, W, mu, P, inverse_noise)
    draw_noise(rng, tasks, space, W, inverse_noise, a, b, by_task)
    draw_spread(rng, W, n_tasks, mu, P, C, nu)
