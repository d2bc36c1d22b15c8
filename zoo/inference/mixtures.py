r"""Mean, standard deviation and quantiles of mixtures of very many normal laws, or points, one mixture a row.

A row has S laws :math:`N(m_s, v_s)` with equal weights, and the distribution function

.. math:: F(x) = \frac1S \sum_s \Phi(z_s), \quad z_s = (x - m_s) / \sqrt{v_s}.

**Its derivatives** come from the same pass over the laws, with :math:`i_s = v_s^{-1/2}` and the normal density
:math:`\varphi`:

.. math::

    F' = \frac1S \sum_s \varphi(z_s) i_s, \quad F'' = -\frac1S \sum_s \varphi(z_s) z_s i_s^2, \quad
    F''' = \frac1S \sum_s \varphi(z_s) (z_s^2 - 1) i_s^3 .

**The step to the root.** With :math:`y = (F - p) / F'`, :math:`a = F'' / (2 F')` and :math:`b = F''' / (6 F')` the root
is at :math:`x - w` where :math:`y = w - a w^2 + b w^3 + O(w^4)`, and this series turned about is

.. math:: w = y + a y^2 + (2 a^2 - b) y^3 + O(y^4).

The error of a step is of fourth order: the next term is :math:`(5 a^3 - 5 a b + c) y^4` with the fourth derivative of F
over :math:`24 F'` for c.

**Where it starts.** At the quantile of every k-th law of the row, some 250 of them, moved and stretched so that their
mean and standard deviation are those of all. This is a guess and no more: the steps that follow take all laws, until
what is left is below 1e-9 of the row's standard deviation. One such step is the rule, two the exception. Where the
steps do not get there, as in a valley between laws that are far apart, bisection with Newton's rule inside the bracket
does.

:math:`\Phi(-a) = \varphi(a) R(a)` for :math:`a \geq 0`, where :math:`R(a) (a + c)` with c = 4.4 is a polynomial of
degree 12 in :math:`(a - c) / (a + c)`, to 3e-10 of itself; :math:`e^{-q} = (e^{-q / 64})^{64}`, the inner one by a
polynomial of degree 9. Without branches and tables the compiler works on eight laws at once. Together they give
:math:`\Phi` to 2e-11.

**Points** are laws of variance 0. Their quantiles interpolate order statistics, as :func:`numpy.quantile` does: counts
of the points below trial values (a pass that takes next to nothing) close in on those that are needed, and the few
points that are left between are sorted.
"""

from __future__ import annotations

import numpy as np
from numpy.polynomial import Polynomial, chebyshev
from scipy.special import erfcx, ndtri

from zoo.inference.compiled import njit

__all__ = ["summarise_mixtures"]

# A sum may be taken in any order, and several at once; numbers that are not finite stay what they are.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
# Beyond so many standard deviations a tail is nothing.
_REACH = 9.0
_SHIFT = 4.4
# Laws of a row that the first guess looks at, and how many times as many there have to be for it.
_GUESS, _MANY = 250, 4
# What may be left of a step, in standard deviations of the row.
_LEFT = 1e-9
_NEXT = 0.5
# A step of Newton's rule this small, in units of the smallest standard deviation, leaves the square of it.
_CLOSE = 1e-5
_STEPS, _NEWTON, _HALVINGS = 6, 12, 60
# So few points are sorted.
_FEW = 64
# Points that are looked at together.
_LANES = 32


def _tail_coefficients() -> tuple[float, ...]:
    """Of ``R(a) (a + c)`` by powers of ``(a - c) / (a + c)``."""
    u = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    a = _SHIFT * (1.0 + u) / (1.0 - u)
    values = np.sqrt(np.pi / 2.0) * erfcx(a / np.sqrt(2.0)) * (a + _SHIFT)
    return tuple(chebyshev.cheb2poly(chebyshev.chebfit(u, values, 12)).tolist())


def _exponential_coefficients() -> tuple[float, ...]:
    """Of ``exp(-q)`` by powers of q, for q up to a 64th of what the reach needs."""
    half = _REACH**2 / 256.0
    u = np.cos(np.pi * (np.arange(400) + 0.5) / 400)
    fitted = chebyshev.cheb2poly(chebyshev.chebfit(u, np.exp(-half * (1.0 + u)), 9))
    return tuple(Polynomial(fitted)(Polynomial([-1.0, 1.0 / half])).coef.tolist())


_R0, _R1, _R2, _R3, _R4, _R5, _R6, _R7, _R8, _R9, _R10, _R11, _R12 = _tail_coefficients()
_E0, _E1, _E2, _E3, _E4, _E5, _E6, _E7, _E8, _E9 = _exponential_coefficients()
_ROOT = float(1.0 / np.sqrt(2.0 * np.pi))


def summarise_mixtures(mean: np.ndarray, sd: np.ndarray, levels: np.ndarray) -> np.ndarray:
    """Mean, standard deviation and the quantiles at L levels of b mixtures of S laws, (b, 2 + L).

    Parameters
    ----------
    mean : (b, S) array
        Contiguous in S.
    sd : (b, S) or (1, S) array
        Standard deviations: 0 is a point. One row stands for all.
    levels : (L,) array
        Probabilities between 0 and 1.
    """
    out = np.empty((len(mean), 2 + len(levels)))
    _summarise(np.ascontiguousarray(mean), np.ascontiguousarray(sd), levels, ndtri(levels), out)
    return out


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _density_and_tail(z):
    """Density at z, and the probability below it."""
    a = min(abs(z), _REACH)
    q = a * a * (0.5 / 64.0)
    p = _E4 + q * (_E5 + q * (_E6 + q * (_E7 + q * (_E8 + q * _E9))))
    p = _E0 + q * (_E1 + q * (_E2 + q * (_E3 + q * p)))
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    p *= p
    density = _ROOT * p
    t = 1.0 / (a + _SHIFT)
    u = (a - _SHIFT) * t
    r = _R6 + u * (_R7 + u * (_R8 + u * (_R9 + u * (_R10 + u * (_R11 + u * _R12)))))
    r = _R0 + u * (_R1 + u * (_R2 + u * (_R3 + u * (_R4 + u * (_R5 + u * r)))))
    tail = density * r * t
    return density, (tail if z < 0.0 else 1.0 - tail)


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _distribution(x, mean, inverse):
    """The distribution function of a row at x and three derivatives."""
    f0, f1, f2, f3 = 0.0, 0.0, 0.0, 0.0
    for s in range(len(mean)):
        i = inverse[s]
        z = (x - mean[s]) * i
        density, below = _density_and_tail(z)
        f0 += below
        w = density * i
        f1 += w
        w *= i
        f2 -= w * z
        f3 += w * (z * z - 1.0) * i
    S = len(mean)
    return f0 / S, f1 / S, f2 / S, f3 / S


@njit(cache=True, nogil=True, error_model="numpy", fastmath=_FAST)
def _moments(mean, sd):
    """Mean and variance of a row."""
    S = len(mean)
    centre, variance = 0.0, 0.0
    for s in range(S):
        centre += mean[s]
    centre /= S
    for s in range(S):
        gap = mean[s] - centre
        variance += gap * gap + sd[s] * sd[s]
    return centre, variance / S


@njit(cache=True, nogil=True, fastmath={*_FAST, "nnan"})
def _extremes(sd):
    """The smallest and the largest number: where one is no number, the moments have said it."""
    least = most = sd[0]
    for s in range(len(sd)):
        least, most = min(least, sd[s]), max(most, sd[s])
    return least, most


@njit(cache=True, nogil=True, error_model="numpy")
def _by_steps(x, mean, inverse, p, scale, least):
    """The quantile by steps of fourth order from x; NaN where they do not get there."""
    for _ in range(_STEPS):
        f0, f1, f2, f3 = _distribution(x, mean, inverse)
        y = (f0 - p) / f1
        a, b = 0.5 * f2 / f1, f3 / (6.0 * f1)
        second, third = a * y * y, (2.0 * a * a - b) * y * y * y
        if not (
            abs(y) < scale and abs(second) < 0.5 * abs(y) + 1e-300 and abs(third) < 0.5 * abs(y) + 1e-300
        ):
            # Too far for the series, or f1 is nothing: Newton's step alone, and none that is longer than the row.
            x -= min(max(y, -0.5 * scale), 0.5 * scale)
            continue
        x -= y + second + third
        # The next term is (5 a (a^2 - b) + c) y^4. No law is narrower than the least, so that c is less than this.
        if (abs(5.0 * a * (a * a - b)) + _NEXT / least**3) * y**4 <= _LEFT * scale:
            return x
    return np.nan


@njit(cache=True, nogil=True, error_model="numpy")
def _in_bracket(mean, sd, inverse, p, z, least):
    """The same by Newton's rule inside a bracket, which also halves it where that fails."""
    # Between the extremes of the laws' own quantiles lies that of the mixture.
    low = high = mean[0] + z * sd[0]
    for s in range(len(mean)):
        own = mean[s] + z * sd[s]
        low, high = min(low, own), max(high, own)
    close = _CLOSE * min(least, high - low)
    x = 0.5 * (low + high)
    for i in range(_NEWTON + _HALVINGS):
        f0, f1, _, _ = _distribution(x, mean, inverse)
        if f0 == p:
            return x
        if f0 < p:
            low = x
        else:
            high = x
        newton = x - (f0 - p) / f1
        inside = i < _NEWTON and low < newton < high
        step = newton if inside else 0.5 * (low + high)
        if inside and abs(newton - x) <= close:
            return newton
        if step == x:
            return x
        x = step
    return x


@njit(cache=True, nogil=True, fastmath=_FAST)
def _count_below(points, x):
    count = 0
    for s in range(len(points)):
        count += points[s] < x
    return count


@njit(cache=True, nogil=True, fastmath=_FAST)
def _keep_between(points, low, high, kept):
    """Put the points from ``low`` to below ``high`` into ``kept``; how many there are."""
    n = 0
    for start in range(0, len(points), _LANES):
        some = points[start : start + _LANES]
        # Few groups have one: only these are looked at point by point.
        count = 0
        for s in range(len(some)):
            count += (low <= some[s]) & (some[s] < high)
        if count:
            for s in range(len(some)):
                if low <= some[s] < high:
                    kept[n] = some[s]
                    n += 1
    return n


@njit(cache=True, nogil=True, fastmath={*_FAST, "nnan"})
def _neighbours(points, x):
    """The largest point below x, and the smallest one from there on."""
    below, upwards = -np.inf, np.inf
    for s in range(len(points)):
        below = max(below, points[s] if points[s] < x else -np.inf)
        upwards = min(upwards, np.inf if points[s] < x else points[s])
    return below, upwards


@njit(cache=True, nogil=True)
def _between(a, b, share):
    """What lies between two numbers, rounded as NumPy does it."""
    return a + share * (b - a) if share < 0.5 else b - (1.0 - share) * (b - a)


@njit(cache=True, nogil=True, error_model="numpy")
def _of_points(points, p, guess, sd, kept):
    """Quantile of points, as ``numpy.quantile`` interpolates them; ``kept`` (S,) is work space."""
    S = len(points)
    place = p * (S - 1)
    first = int(np.floor(place))
    share = place - first
    # All points below `low` are too small, those from `high` on too large; `below` and `upto` are their numbers.
    low, high, below, upto = -np.inf, np.inf, 0, S
    x, width = guess, 0.05 * sd
    for trial in range(200):
        if upto - below <= _FEW:
            break
        count = _count_below(points, x)
        if count <= first:
            low, below = x, count
        elif count >= min(first + 2, S):
            high, upto = x, count
        else:  # it lies between the two that are wanted
            return _between(*_neighbours(points, x), share)
        if low == -np.inf:
            x, width = high - width, 2.0 * width
        elif high == np.inf:
            x, width = low + width, 2.0 * width
        else:
            # A little below or above what is wanted, on the side where more is left, as if the density were flat.
            left, right = first - below, upto - first
            aim = left - _FEW // 4 if left > right else left + 2 + _FEW // 4
            part = min(max(aim / (upto - below), 0.02), 0.98)
            x = low + (part if trial % 4 < 3 else 0.5) * (high - low)
            if not low < x < high:
                break
    n = _keep_between(points, low, high, kept)
    few = np.sort(kept[:n])
    a = few[first - below]
    if first + 1 >= S:
        return a
    return _between(a, few[first + 1 - below] if first + 1 < upto else _neighbours(points, high)[1], share)


@njit(cache=True, nogil=True, error_model="numpy")
def _summarise(mean, sd, levels, normal, out):
    S = mean.shape[1]
    stride = max(1, S // _GUESS) if S >= _GUESS * _MANY else 1
    some = (S + stride - 1) // stride
    inverse, work = np.empty(S), np.empty(S)
    some_mean, some_sd, some_inverse = np.empty(some), np.empty(some), np.empty(some)
    least, most = 0.0, 0.0
    for n in range(len(mean)):
        m, d = mean[n], sd[n if len(sd) > 1 else 0]
        centre, variance = _moments(m, d)
        if n == 0 or len(sd) > 1:
            least, most = _extremes(d)
        scale = np.sqrt(variance)
        out[n, 0], out[n, 1] = centre, scale
        if not np.isfinite(scale):
            out[n, 2:] = np.nan
            continue
        if S == 1 or scale == 0.0:
            for i in range(len(levels)):
                out[n, 2 + i] = m[0] + normal[i] * d[0]
            continue
        if most == 0.0:
            for i in range(len(levels)):
                out[n, 2 + i] = _of_points(m, levels[i], centre + normal[i] * scale, scale, work)
            continue
        if n == 0 or len(sd) > 1:
            for s in range(S):
                inverse[s] = 1.0 / max(d[s], 2.3e-308)
        ratio, some_centre = 1.0, centre
        if stride > 1:
            for s in range(some):
                some_mean[s], some_sd[s], some_inverse[s] = m[s * stride], d[s * stride], inverse[s * stride]
            some_centre, some_variance = _moments(some_mean, some_sd)
            ratio = scale / np.sqrt(some_variance)
        for i in range(len(levels)):
            x = centre + normal[i] * scale
            if least > 0.0:
                if stride > 1:
                    guess = some_centre + (x - centre) / ratio
                    guess = _by_steps(guess, some_mean, some_inverse, levels[i], scale, least)
                    x = centre + (guess - some_centre) * ratio if np.isfinite(guess) else x
                x = _by_steps(x, m, inverse, levels[i], scale, least)
            else:
                x = np.nan
            out[n, 2 + i] = x if np.isfinite(x) else _in_bracket(m, d, inverse, levels[i], normal[i], least)
