r"""Learned scales of features: an inverse-Wishart prior whose scale matrix is diagonal and unknown.

.. math::

    C \mid g \sim IW(\nu, \operatorname{diag}(g_1^2, \dots, g_D^2)), \quad g_d \sim N(0, s^2), \quad
    \nu = \delta + D - 1 \tag{1}

The standard deviation of feature d over tasks, :math:`C_{dd}^{1/2}`, is then half-t with :math:`\delta` degrees of
freedom and scale :math:`s / \sqrt\delta`, whatever D is (Huang & Wand 2013, Bayesian Analysis 8:439, whose
:math:`1 / a_d` is :math:`g_d^2 / (2 \delta)`). A single inverse-Wishart law ties all variances to one size; here a
feature whose coefficient is the same in all tasks may have a small one beside others that are large.

The sampler of :mod:`zoo.inference.gibbs.normal_inverse_wishart` holds :math:`v_t = w_t / g` with :math:`v_t \sim
N(m, \hat C)` and :math:`\hat C \sim IW(\nu, I)`: given g everything there is as without scales, for inputs :math:`g
\circ x_n`. Two draws of g are interwoven (Yu & Meng 2011, JCGS 20:531), and each keeps the posterior.

**Given the coefficients** w, their mean and C. From (1) and the inverse-Wishart density, :math:`|\Psi|^{\nu / 2}
\exp(-\tfrac12 \operatorname{tr} \Psi C^{-1})`,

.. math::

    g_d^2 \mid C \sim \operatorname{Gamma}\!\left(\tfrac12 (\nu + 1),\ \text{rate } \tfrac12 ((C^{-1})_{dd} + s^{-2})
    \right) . \tag{2}

**Given what is whitened**, v, m and :math:`\hat C`. Only the likelihood and the prior of g hold it, and :math:`f_n =
\sum_d g_d\, x_{nd} v_{t(n) d}` is linear in it. With :math:`S_t = X_t' X_t / \sigma_t^2` and :math:`r_t = X_t' y_t /
\sigma_t^2`, g is normal, of precision and linear term

.. math:: s^{-2} I + \sum_t S_t \circ v_t v_t', \qquad \sum_t r_t \circ v_t . \tag{3}

Where tasks tell little of a variance, (2) creeps, and (3) does not; where they tell much it is the other way round. In
(2) the sign of g stays; (3) may change it. The functions here write the new scales as multiples of those that the
sums over rows are made with.

**What integrates g out must not see it.** Step 0 of the sampler moves C with g integrated out, and g is drawn by (2)
right after it. The old g must not decide anything there, not even the width of a slice. So all is whitened by scales of
1 before it.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.own_mean import around_mean
from zoo.inference.gibbs.population_steps import LANES
from zoo.inference.gibbs.triangular import draw_by_precision, factorise

__all__ = ["draw_scales", "interwoven_scales", "scaled_sums", "scales_given_whitened", "whiten"]

# What is left of a diagonal entry when only rounding errors are.
_ROUNDING = 1e-14


@njit(cache=True, nogil=True)
def draw_scales(rng, P, scales, sd, nu):
    """Equation (2): the factors (D,) of the scales; nothing changes here."""
    D = len(scales)
    factor = np.empty(D)
    for d in range(D):
        rate = 0.5 * (P[d, d] + (scales[d] / sd) ** 2)
        factor[d] = np.sqrt(rng.standard_gamma(0.5 * (nu + 1.0)) / rate)
    return factor


@njit(cache=True, nogil=True)
def whiten(W, mu, P, C, factor):
    """Whiten coefficients and covariance, which stay the same, by scales that are ``factor`` (D,) times as large."""
    D = len(mu)
    for d in range(D):
        mu[d] /= factor[d]
        for e in range(D):
            P[d, e] *= factor[d] * factor[e]
            C[d, e] /= factor[d] * factor[e]
    for block in range(W.shape[0]):
        for d in range(D):
            for b in range(LANES):
                W[block, d, b] /= factor[d]


@njit(cache=True, nogil=True)
def scales_given_whitened(rng, tasks, W, inverse_noise, scales, sd):
    """Equation (3): the factors (D,) of the scales with which ``tasks`` is made; nothing changes here."""
    D = len(scales)
    precision, linear = np.zeros((D, D)), np.zeros(D)
    for block in range(W.shape[0]):
        S, r, v, weight = tasks.S[block], tasks.linear[block], W[block], inverse_noise[block]
        for i in range(D):
            for b in range(LANES):
                linear[i] += weight[b] * r[i, b] * v[i, b]
            for j in range(i + 1):
                total = 0.0
                for b in range(LANES):
                    total += weight[b] * S[i, j, b] * v[i, b] * v[j, b]
                precision[i, j] += total
    for i in range(D):
        precision[i, i] += (scales[i] / sd) ** 2
        for j in range(i):
            precision[j, i] = precision[i, j]
    factor = precision.copy()
    if factorise(factor) > _ROUNDING:
        draw_by_precision(rng, factor, linear)
        return linear
    # Not positive definite in float64, as with copies of a feature and next to no noise: one scale after the other.
    now = np.ones(D)
    for i in range(D):
        rest = linear[i]
        for j in range(D):
            if j != i:
                rest -= precision[i, j] * now[j]
        now[i] = rest / precision[i, i] + rng.standard_normal() / np.sqrt(precision[i, i])
    return now


@njit(cache=True, nogil=True)
def interwoven_scales(rng, tasks, seen, W, mu, P, C, inverse_noise, scales, sd, nu, own):
    """Equations (2) and (3), one after the other; ``tasks`` stays with the sums of the scales before.

    A mean of its own (``own``) stays where it is in (3), and ``seen``, with room for the sums around it, takes the
    place of ``tasks`` there; otherwise ``seen`` is ``tasks``.
    """
    factor = draw_scales(rng, P, scales, sd, nu)
    if own:
        around_mean(tasks, mu, seen.centre, seen.linear)
        _add_to_all(W, mu, -1.0)
    whiten(W, mu, P, C, factor)
    again = scales_given_whitened(rng, seen, W, inverse_noise, scales, sd)
    if own:
        mu *= factor / again
        _add_to_all(W, mu, 1.0)
    scales *= again


@njit(cache=True, nogil=True)
def _add_to_all(W, mu, times):
    """Add a multiple of the mean to the coefficients of all tasks."""
    for block in range(W.shape[0]):
        for d in range(len(mu)):
            for b in range(LANES):
                W[block, d, b] += times * mu[d]


@njit(cache=True, nogil=True)
def scaled_sums(known, scales, tasks):
    """Fill S, and what is linear in y, of ``tasks`` with those of ``known``, for features multiplied by ``scales``."""
    for block in range(tasks.S.shape[0]):
        S, of = tasks.S[block], known.S[block]
        for i in range(len(scales)):
            for b in range(LANES):
                tasks.linear[block, i, b] = known.linear[block, i, b] * scales[i]
                tasks.centre[block, i, b] = known.centre[block, i, b] / scales[i]
            for j in range(len(scales)):
                both = scales[i] * scales[j]
                for b in range(LANES):
                    S[i, j, b] = of[i, j, b] * both
