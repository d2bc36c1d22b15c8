r"""Compiled augmentation of probit labels by truncated normal variables (Albert & Chib 1993).

The label is the sign of :math:`z = f + e` with :math:`e \sim N(0, 1)`. Given z the label says nothing more of f, and
:math:`\log N(z; f, 1)` is :math:`-f^2/2 + z f` and a constant. Given f and the label y, z is normal around f and kept
on the side of y (their Section 3.1).

A row of weight h has the density :math:`\Phi(y f)^h`. It is h rows where h is a whole number, of which each has a z of
its own; for other h there is no such variable. So weights other than 1 are refused by name before a sampler is made
(``Likelihood.augmented_weights``).

The arguments are those of :mod:`zoo.inference.gibbs.augmented_real_responses`.
"""

from __future__ import annotations

import math
from typing import NamedTuple

from zoo.inference.compiled import njit

__all__ = ["ProbitParameters", "log_normal_cdf", "normal_excess", "probit_draw", "probit_log_density"]

HALF_LOG_2_PI = 0.5 * math.log(2.0 * math.pi)
"""Minus the log density of a standard normal variable at 0."""

# Below it the terms of the series that are left out are less than a rounding.
_FAR = -20.0


class ProbitParameters(NamedTuple):
    """No parameters."""


@njit(cache=True, nogil=True)
def log_normal_cdf(x):
    r"""Logarithm of the standard normal distribution function, with all digits on both sides.

    Far below zero :math:`\Phi(x) = \frac{\varphi(x)}{-x} (1 - x^{-2} + 3 x^{-4} - 15 x^{-6} + \dots)`, of which eight
    terms are taken below x = -20.
    """
    if x > 0.0:
        return math.log1p(-0.5 * math.erfc(math.sqrt(0.5) * x))
    if x > _FAR:
        return math.log(0.5 * math.erfc(-math.sqrt(0.5) * x))
    q = 1.0 / (x * x)
    series = 1.0
    for k in range(8, 0, -1):
        series = 1.0 - (2 * k - 1) * q * series
    return -0.5 * x * x - HALF_LOG_2_PI - math.log(-x) + math.log(series)


@njit(cache=True, nogil=True)
def normal_excess(rng, a):
    r"""A draw of :math:`t - a`, where t is standard normal and above a; exact for any a.

    For a of 0 or less, normal variables until one is above a: two at most on average. Above, Robert's (1995)
    rejection from an exponential law of rate :math:`\lambda = (a + \sqrt{a^2 + 4}) / 2`, accepted with probability
    :math:`e^{-(t - \lambda)^2 / 2}`: three of four at a = 0, and nearly all in the tail. Since
    :math:`\lambda - a = 1 / \lambda`, the exponent is :math:`(E - 1) / \lambda` of the exponential variable E itself,
    so that the excess, of size 1/a, keeps its digits where it would vanish beside a.

    Parameters
    ----------
    rng : numpy.random.Generator
    a : float
        NaN gives NaN.
    """
    if not a > 0.0:
        t = rng.standard_normal()
        while t < a:
            t = rng.standard_normal()
        return t - a
    rate = 0.5 * (a + math.hypot(a, 2.0))
    while True:
        e = rng.standard_exponential()
        gap = (e - 1.0) / rate
        if 0.5 * gap * gap <= rng.standard_exponential():
            return e / rate


@njit(cache=True, nogil=True)
def probit_draw(rng, f, y, weight, task, parameters, w, v):
    """Fill w = 1 and v = z, for labels y of -1 and +1 and rows of weight 1.

    With ``z = f + y t`` the label asks for t above ``a = -y f``, and then z is y times the excess of t over a.
    """
    for n in range(len(f)):
        w[n] = 1.0
        v[n] = y[n] * normal_excess(rng, -y[n] * f[n])


@njit(cache=True, nogil=True)
def probit_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of :math:`h \log \Phi(y f)`."""
    total[:] = 0.0
    for n in range(len(f)):
        total[task[n] if len(total) > 1 else 0] += weight[n] * log_normal_cdf(y[n] * f[n])
