r"""Compiled Pólya-Gamma draws: exact ones of PG(1, z), and of PG(h, z) for any h above 0.

The law is that of eq (1) of Polson, Scott & Windle (2013, *Journal of the American Statistical
Association* 108),

.. math::

    \omega = \sum_{k=0}^\infty a_k g_k, \qquad
    a_k = \frac{1}{2 \pi^2 \left((k + \frac12)^2 + c^2\right)}, \quad c = \frac{z}{2 \pi}, \quad
    g_k \sim \mathrm{Gamma}(h, 1),

with the Laplace transform :math:`\cosh^h(z/2) / \cosh^h \sqrt{z^2/4 + t/2}` (their eq (3) for z =
0, tilted as in their Section 2.2). It makes a logistic likelihood Gaussian in f: their eq (2) is

.. math::

    \frac{e^{a f}}{(1 + e^f)^h}
    = 2^{-h} e^{(a - h/2) f} \int_0^\infty e^{-\omega f^2/2} p(\omega \mid h, 0) \, d\omega,

under which :math:`\omega` given f is PG(h, f). What follows is derived in the docstring of each
function.
"""

from __future__ import annotations

import math

from zoo.inference.compiled import njit

__all__ = ["polya_gamma", "polya_gamma_one"]

# Where the two series of the density of PG(1, 0) change places (Devroye 2009).
_SPLIT = 0.64
_ROOT = math.sqrt(_SPLIT)
_SQUARE = math.pi**2
# The second term of either series is less than this share of the first:
# 3 exp(-4 / 0.64) or 3 exp(-0.64 pi^2).
_SHARE = 0.0058
# From here on exp(-z) is less than half the spacing of float64 at 1: the law is inverse Gaussian.
_FAR = 38.0
# What the inverse Gaussian law may miss in total variation where h is not 1.
_MISSED = 1e-8
# Terms of the gamma series: the fewest, the least sum of their shapes, the most.
_FEWEST, _SHAPES, _MOST = 10, 5.0, 1000


@njit(cache=True, nogil=True, error_model="numpy")
def _inverse_gaussian(rng, mean, shape):
    """A draw by the roots of Michael, Schucany & Haas (1976), in a form that cancels nothing."""
    normal = rng.standard_normal()
    a = mean / shape * normal * normal
    root = 1.0 + 0.5 * (a + math.sqrt(a * (a + 4.0)))
    return mean / root if rng.random() * (1.0 + root) <= root else mean * root


@njit(cache=True, nogil=True)
def _normal_cdf(x):
    return 0.5 * math.erfc(-math.sqrt(0.5) * x)


@njit(cache=True, nogil=True, error_model="numpy")
def polya_gamma_one(rng, z):
    r"""An exact draw of PG(1, z), by the alternating series of Devroye.

    The draw is x / 4, where x has the density :math:`\cosh(s) e^{-s^2 x/2} \sum_n (-1)^n a_n(x)`
    with s = abs(z) / 2. For any x two series hold (Polson, Scott & Windle 2013, Section 4):

    .. math::

        a_n(x) = (2n + 1) \sqrt{\tfrac{2}{\pi x^3}} \; e^{-(2n+1)^2/(2x)}
        \quad\text{or}\quad a_n(x) = (2n + 1) \tfrac{\pi}{2} \; e^{-(2n+1)^2 \pi^2 x/8} .

    The first is taken below x = 0.64 and the second above, where its terms fall. With
    :math:`r = e^{-4/x}` or :math:`r = e^{-\pi^2 x}` both have
    :math:`a_n / a_0 = (2n+1) r^{n(n+1)/2}`, since :math:`(2n+1)^2 - 1 = 4n(n+1)`. Partial sums lie
    above and below the limit by turns, so that a draw u of the uniform law is accepted or refused
    after finitely many terms of :math:`1 - 3r + 5r^3 - \dots`; after the first, 99.4 % of the
    draws.

    The first term is what is proposed. Below the split, :math:`\cosh(s) a_0 e^{-s^2 x/2}` is
    :math:`1 + e^{-2s}` times the density of the inverse Gaussian law with mean 1/s and shape 1;
    above, it is :math:`\cosh(s) \frac{\pi}{2} e^{-K x}` with :math:`K = \pi^2/8 + s^2/2`. Their
    masses, over cosh(s), are

    .. math::

        2 e^{-s} \left( \Phi\!\left(\tfrac{0.64 s - 1}{0.8}\right)
        + e^{2s} \Phi\!\left(-\tfrac{0.64 s + 1}{0.8}\right) \right)
        \quad\text{and}\quad \frac{\pi}{2K} e^{-0.64 K} .

    The inverse Gaussian law, kept below the split, comes by rejection: from itself where its mean
    is below the split; else from the law of s = 0, whose :math:`1/\sqrt{x}` is a normal variable
    above 1.25 and comes from two exponential ones (Devroye 1986, p. 381), accepted with probability
    :math:`e^{-s^2 x/2}`.

    For abs(z) above 38 the law is inverse Gaussian to all digits (:func:`polya_gamma`).

    Parameters
    ----------
    rng : numpy.random.Generator
    z : float
        Any sign; NaN gives NaN.
    """
    s = 0.5 * abs(z)
    if not s <= 0.5 * _FAR:
        return _inverse_gaussian(rng, 0.25 / s, 0.25)
    rate = 0.125 * _SQUARE + 0.5 * s * s
    above = 0.5 * math.pi / rate * math.exp(-_SPLIT * rate)
    low, high = (_SPLIT * s - 1.0) / _ROOT, (_SPLIT * s + 1.0) / _ROOT
    below = _normal_cdf(low) + math.exp(2.0 * s) * _normal_cdf(-high)
    share_above = above / (above + 2.0 * math.exp(-s) * below)
    while True:
        if rng.random() < share_above:
            x = _SPLIT + rng.standard_exponential() / rate
        elif s * _SPLIT > 1.0:
            x = _inverse_gaussian(rng, 1.0 / s, 1.0)
            while x > _SPLIT:
                x = _inverse_gaussian(rng, 1.0 / s, 1.0)
        else:
            while True:
                step = rng.standard_exponential()
                if _SPLIT * step * step > 2.0 * rng.standard_exponential():
                    continue
                x = _SPLIT / ((1.0 + _SPLIT * step) * (1.0 + _SPLIT * step))
                if rng.random() <= math.exp(-0.5 * s * s * x):
                    break
        u = rng.random()
        if u <= 1.0 - _SHARE or _below_series(
            u, math.exp(-_SQUARE * x) if x > _SPLIT else math.exp(-4.0 / x)
        ):
            return 0.25 * x


@njit(cache=True, nogil=True)
def _below_series(u, r):
    """Whether ``u`` is below 1 - 3 r + 5 r^3 - 7 r^6 + ..., as far as it takes to know."""
    total, power, n = 1.0, 1.0, 0
    while True:
        n += 1
        power *= r**n
        term = (2 * n + 1) * power
        if n % 2 == 1:
            total -= term
            if u <= total:
                return True
        else:
            total += term
            if u > total:
                return False


@njit(cache=True, nogil=True)
def rest_sums(c, K):
    r"""The sums of :math:`1 / ((k + \frac12)^2 + c^2)` and of its square over k from K on.

    They have 6 digits for K = 10 and more for larger K.

    By Euler and Maclaurin's formula of the midpoint rule, with :math:`g(x) = 1 / (x^2 + c^2)` or
    its square,

    .. math::

        \sum_{k \ge K} g(k + \tfrac12)
        = \int_K^\infty g + \tfrac{1}{24} g'(K) - \tfrac{7}{5760} g'''(K) + \dots,

    whose next term is below :math:`10^{-6}` of the sum. The integrals are :math:`\arctan(u) / c`
    and :math:`\frac{1}{2c^2} \left( \frac{\arctan u}{c} - \frac{K}{K^2 + c^2} \right)` with u = c /
    K. Where u is small these cancel, and their series take the places:
    :math:`\frac1K \sum_j (-1)^j \frac{u^{2j}}{2j + 1}` and
    :math:`\frac{1}{K^3} \sum_j (-1)^j \frac{j + 1}{2j + 3} u^{2j}`.
    """
    u = c / K
    if u < 0.1:
        # Terms to u^12, by Horner's rule.
        q = -u * u
        first, second = 1.0 / 13.0, 7.0 / 15.0
        for j in range(5, -1, -1):
            first = first * q + 1.0 / (2 * j + 1)
            second = second * q + (j + 1.0) / (2 * j + 3)
        first, second = first / K, second / (K * K * K)
    else:
        first = math.atan(u) / c
        second = 0.5 * (first - K / (K * K + c * c)) / (c * c)
    # Derivatives of 1 / (x^2 + c^2) and of its square at x = K.
    g = 1.0 / (K * K + c * c)
    x2 = K * K * g
    slope = -2.0 * K * g * g
    third = 24.0 * K * g**3 * (1.0 - 2.0 * x2)
    slope2 = 2.0 * g * slope
    third2 = 24.0 * K * g**4 * (3.0 - 8.0 * x2)
    first += slope / 24.0 - third * 7.0 / 5760.0
    second += slope2 / 24.0 - third2 * 7.0 / 5760.0
    return first, second


@njit(cache=True, nogil=True, error_model="numpy")
def polya_gamma(rng, h, z):
    r"""A draw of PG(h, z): exact for h = 1, 2, 3, else by ten terms of the gamma series or more.

    PG(2, z) and PG(3, z) are sums of draws of PG(1, z), which takes less time than the series.

    For other h the first K terms of eq (1) are drawn as they are. The rest gets a gamma variable
    with its mean :math:`h m` and variance :math:`h v`, where m and v are the sums of :math:`a_k`
    and :math:`a_k^2` from K on (:func:`rest_sums`): shape :math:`h m^2/v`, scale :math:`v / m`.
    Nothing is the difference of near numbers, for any h and z. K is 10, but 5 / h where h is below
    0.5, and 1000 at most: a gamma variable is a poor stand-in for a rest of small shape. The
    distribution function then misses the true one by less than 2e-5 for z up to 5 and 2e-4 for any
    z, where h is 0.005 or more (by inversion of the Laplace transforms); with ten terms it would
    miss it by 0.18 for h = 0.01. The time of a draw grows like 1 / h.

    For large z the law becomes inverse Gaussian. With :math:`q = \sqrt{z^2/4 + t/2}` the Laplace
    transform is

    .. math:: e^{h (z/2 - q)} \left( \frac{1 + e^{-z}}{1 + e^{-2q}} \right)^h,

    whose first factor belongs to the inverse Gaussian law with mean :math:`h / (2z)` and shape
    :math:`h^2/4`. The second, expanded in :math:`e^{-2q}`, mixes such laws with weights that differ
    from (1, 0, 0, ...) by :math:`h e^{-z}` each way: so much is its distance in total variation, to
    first order. It is taken where this is below :math:`10^{-8}`.

    Parameters
    ----------
    rng : numpy.random.Generator
    h : float
        Above 0; else, and where it is NaN or infinite, the result is NaN.
    z : float
        Any sign; NaN gives NaN.
    """
    if h == 1.0:
        return polya_gamma_one(rng, z)
    if not 0.0 < h < math.inf:
        return math.nan
    z = abs(z)
    if h == 2.0 or h == 3.0:
        total = polya_gamma_one(rng, z) + polya_gamma_one(rng, z)
        return total if h == 2.0 else total + polya_gamma_one(rng, z)
    if not h * math.exp(-z) >= _MISSED:
        return _inverse_gaussian(rng, 0.5 * h / z, 0.25 * h * h)
    K = _FEWEST if h * _FEWEST >= _SHAPES else min(math.ceil(_SHAPES / h), _MOST)
    c = 0.5 * z / math.pi
    total = 0.0
    for k in range(K):
        total += rng.standard_gamma(h) / ((k + 0.5) * (k + 0.5) + c * c)
    m, v = rest_sums(c, K)
    total += v / m * rng.standard_gamma(h * m * m / v)
    return 0.5 * total / _SQUARE
