r"""A standard normal variable between two numbers, compiled: the logarithm of its probability, and draws.

The probability of :math:`(a, b)` is :math:`\Phi(b) - \Phi(a)`. Far out both are near 0 or near 1, and an interval may
be narrower than a rounding of either. So an interval on the right is mirrored to the left, where

.. math:: \log(\Phi(b) - \Phi(a)) = \log \Phi(b) + \log(1 - e^{\log \Phi(a) - \log \Phi(b)})

has the digits of :func:`zoo.inference.gibbs.augmented_probit.log_normal_cdf`; and of a narrow one, with the middle m
and the width w, the density is expanded around m:

.. math:: \Phi(b) - \Phi(a) = w \varphi(m) \left( 1 + \tfrac{1}{24} w^2 (m^2 - 1) + O(w^4 m^4) \right).
"""

from __future__ import annotations

import math

from zoo.inference.compiled import njit
from zoo.inference.gibbs.augmented_probit import HALF_LOG_2_PI, log_normal_cdf, normal_excess

__all__ = ["NARROW", "excess_within", "log_probability_of_interval"]

NARROW = 1e-2
"""Width times the distance of the middle from 0 (at least 1) below which an interval is a narrow one."""

# Of an interval around 0: a wider one holds a normal variable more often than a uniform one is kept.
_WIDE = math.sqrt(2.0 * math.pi)


@njit(cache=True, nogil=True)
def log_probability_of_interval(a, b):
    """Logarithm of the probability that a standard normal variable lies between a and b.

    Parameters
    ----------
    a, b : float
        a below b; infinite ones too. Where they are not in this order it is minus infinity.
    """
    if not a < b:
        return -math.inf
    if a + b > 0.0:
        a, b = -b, -a
    if a == -math.inf:
        return log_normal_cdf(b)
    width, middle = b - a, 0.5 * (a + b)
    if width * max(1.0, -middle) < NARROW:
        bend = width * width * (middle * middle - 1.0) / 24.0
        return math.log(width) - 0.5 * middle * middle - HALF_LOG_2_PI + math.log1p(bend)
    upper = log_normal_cdf(b)
    return upper + math.log(-math.expm1(log_normal_cdf(a) - upper))


@njit(cache=True, nogil=True)
def excess_within(rng, a, width):
    r"""A draw of :math:`t - a`, where t is standard normal and between a and a + width; exact for any a.

    Rejection after Robert (1995), Section 2.2. Around 0, normal variables for a wide interval, and else uniform ones
    that are kept with probability :math:`e^{-t^2/2}`. On one side of 0, with a the end that is nearer to it (the other
    side is mirrored): the one-sided law where that falls off within the width, and else uniform ones that are kept with
    probability :math:`e^{(a^2 - t^2)/2}`.

    Parameters
    ----------
    rng : numpy.random.Generator
    a : float
        NaN gives NaN.
    width : float
        Above 0, finite.
    """
    if a + 0.5 * width < 0.0:
        # The side that is nearer to 0 first, for the digits of the distance from it.
        return width - _within(rng, -(a + width), width)
    return _within(rng, a, width)


@njit(cache=True, nogil=True)
def _within(rng, a, width):
    """The same of an interval whose middle is not below 0."""
    if a <= 0.0:
        if width > _WIDE:
            while True:
                t = rng.standard_normal()
                if a < t < a + width:
                    return t - a
        while True:
            e = width * rng.random()
            if 0.5 * (a + e) * (a + e) <= rng.standard_exponential():
                return e
    # The exponent of the density falls by a e + e^2 / 2 at a distance of e from a.
    if not width * (a + 0.5 * width) < 1.5:
        e = normal_excess(rng, a)
        while e > width:
            e = normal_excess(rng, a)
        return e
    while True:
        e = width * rng.random()
        if e * (a + 0.5 * e) <= rng.standard_exponential():
            return e
