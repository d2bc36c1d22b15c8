r"""Compiled augmentation of grades by truncated normal variables (Albert & Chib 1993), cut points learned.

Grade k of K is observed where :math:`z = f + e`, :math:`e \sim N(0, 1)`, lies between the cut points
:math:`c_{k-1}` and :math:`c_k`, with :math:`c_0 = -\infty`, :math:`c_1 = 0` and :math:`c_K = \infty`. Given z the grade
says nothing more of f, and :math:`\log N(z; f, 1)` is :math:`-f^2/2 + z f` and a constant. Given f and the grade, z is
normal around f and kept between the cut points (their Section 4).

The cut points are given by the widths of the grades between the lowest and the highest one,
:math:`c_k = w_2 + \dots + w_k` for k of 2 to K - 1. Given z a cut point lies between the largest z below it and the
smallest above it: its draw hardly moves where rows are many, since the room is of size 1/N while the posterior has
:math:`1/\sqrt N` (Cowles 1996). So the cut points are drawn given f with z integrated out, under

.. math:: p(c \mid f, y) \propto p(w) \prod_n \big( \Phi(c_{y_n} - f_n) - \Phi(c_{y_n - 1} - f_n) \big),

and z right after them, which makes the two one draw given f. Cowles takes a Metropolis step for all cut points
together. Here one cut point after the other takes a slice-sampling step, which has no scale to tune and reads the rows
of its two grades alone. Where :math:`c_k` moves by s, :math:`w_k` grows and :math:`w_{k+1}` shrinks by s; where the
last one does, :math:`w_{K-1}` grows.

Two directions stay slow, since f and the cut points must go along them together: their scale, and where the lowest
grade is rare the distance of f from its cut point at 0. So two moves take f along, also with z integrated out:

.. math::

    (f, w) &\to (e^s f, e^s w), \\
    (f, w_2) &\to (f + s, w_2 + s) .

The second one leaves the probabilities of the grades above 2 as they are. What the prior of f says of s stands in
:mod:`zoo.inference.gibbs.joint_moves`.

The arguments are those of :mod:`zoo.inference.gibbs.augmented_real_responses`. Rows of a weight other than 1 have no
such variable, for the reason that :mod:`zoo.inference.gibbs.augmented_probit` gives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.augmented_probit import HALF_LOG_2_PI, normal_excess
from zoo.inference.gibbs.normal_interval import excess_within, log_probability_of_interval
from zoo.inference.gibbs.parameter_laws import is_learned, log_law, rows_by_group
from zoo.inference.gibbs.slice_move import slice_move

__all__ = [
    "OrdinalLaws",
    "OrdinalParameters",
    "ordinal_draw",
    "ordinal_log_density",
    "ordinal_scale",
    "ordinal_shift",
    "ordinal_slopes",
    "ordinal_update",
    "rows_at_an_end",
]


MOST = 0.5
"""Share of the rows in the lowest or the highest grade above which the moves without z pay."""


class OrdinalParameters(NamedTuple):
    """``widths`` of the grades 2 to K - 1, (K - 2, 1), or (K - 2, T) where every task has its own."""

    widths: np.ndarray


class OrdinalLaws(NamedTuple):
    """Their laws, (K - 2, 3)."""

    widths: np.ndarray


@njit(cache=True, nogil=True)
def _bounds(widths, t, grade):
    """The cut points below and above a grade of 1 to K in task t."""
    column = t if widths.shape[1] > 1 else 0
    lower = -math.inf if grade == 1 else 0.0
    for i in range(grade - 2):
        lower += widths[i, column]
    if grade == 1:
        return lower, 0.0
    return lower, math.inf if grade == len(widths) + 2 else lower + widths[grade - 2, column]


@njit(cache=True, nogil=True)
def ordinal_draw(rng, f, y, weight, task, parameters, w, v):
    """Fill w = 1 and v = z, for grades y of 1 to K and rows of weight 1."""
    for n in range(len(f)):
        lower, upper = _bounds(parameters.widths, task[n], int(y[n]))
        w[n] = 1.0
        if lower == -math.inf:
            v[n] = upper - normal_excess(rng, f[n] - upper)
        elif upper == math.inf:
            v[n] = lower + normal_excess(rng, lower - f[n])
        else:
            v[n] = lower + excess_within(rng, lower - f[n], upper - lower)


@njit(cache=True, nogil=True)
def ordinal_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of :math:`h \log(\Phi(c_y - f) - \Phi(c_{y-1} - f))`."""
    total[:] = 0.0
    for n in range(len(f)):
        lower, upper = _bounds(parameters.widths, task[n], int(y[n]))
        value = log_probability_of_interval(lower - f[n], upper - f[n])
        total[task[n] if len(total) > 1 else 0] += weight[n] * value


@njit(cache=True, nogil=True)
def _density_by_probability(x, log_probability):
    r""":math:`\varphi(x) / p`, and 0 at infinity."""
    return math.exp(-0.5 * x * x - HALF_LOG_2_PI - log_probability) if math.isfinite(x) else 0.0


@njit(cache=True, nogil=True)
def ordinal_slopes(f, y, weight, task, parameters, slope, curvature):
    r"""Fill slope and curvature: h q with :math:`q = (\varphi(a) - \varphi(b)) / p`, and
    :math:`h (q^2 - (a \varphi(a) - b \varphi(b)) / p)`, where p is the probability of :math:`(a, b)`, the cut points
    of the grade less f.
    """
    for n in range(len(f)):
        lower, upper = _bounds(parameters.widths, task[n], int(y[n]))
        a, b = lower - f[n], upper - f[n]
        p = log_probability_of_interval(a, b)
        at_a, at_b = _density_by_probability(a, p), _density_by_probability(b, p)
        q = at_a - at_b
        bend = q * q
        if at_a > 0.0:
            bend -= a * at_a
        if at_b > 0.0:
            bend += b * at_b
        slope[n] = weight[n] * q
        curvature[n] = weight[n] * max(bend, 0.0)


def rows_at_an_end(n_grades: int, y: np.ndarray, weight: np.ndarray) -> bool:
    """Whether the lowest or the highest grade has most of the weight.

    Many tasks then have hardly a row of another grade. Their rows say that f is large and not how large, and given z
    their coefficients hardly move.
    """
    return max(float(weight[y == end].sum()) for end in (1, n_grades)) > MOST * float(weight.sum())


@njit(cache=True, nogil=True)
def _log_density_of_width(width, law):
    """Of the width itself, whose logarithm has the density ``log_law``."""
    u = math.log(width)
    return log_law(law, u) - u


@njit(cache=True, nogil=True)
def _log_density_of_cut(
    shift, start, middle, stop, order, f, weight, below, cut, above, law_below, law_above
):
    """Of the cut point ``cut + shift`` between two others, of which the upper one may be infinite.

    ``order[start:middle]`` are the rows of the grade below it, ``order[middle:stop]`` those of the grade above.
    """
    new = cut + shift
    if not below < new < above:
        return -math.inf
    total = _log_density_of_width(new - below, law_below)
    if above < math.inf:
        total += _log_density_of_width(above - new, law_above)
    for i in range(start, stop):
        n = order[i]
        if i < middle:
            total += weight[n] * log_probability_of_interval(below - f[n], new - f[n])
        else:
            total += weight[n] * log_probability_of_interval(new - f[n], above - f[n])
    return total


@njit(cache=True, nogil=True)
def ordinal_update(rng, f, y, weight, task, parameters, laws):
    """Draw the cut points given f, one after the other, with the truncated normal variables integrated out."""
    widths = parameters.widths
    n_widths, n_groups = widths.shape
    n_grades = n_widths + 2
    if n_widths == 0 or not is_learned(laws.widths[0]):
        return
    code = np.empty(len(y), dtype=np.int64)
    for n in range(len(y)):
        code[n] = (task[n] * n_grades if n_groups > 1 else 0) + int(y[n]) - 1
    order, starts = rows_by_group(code, n_groups * n_grades)
    for g in range(n_groups):
        below = 0.0
        for i in range(n_widths):
            first = g * n_grades + i + 1
            start, middle, stop = starts[first], starts[first + 1], starts[first + 2]
            last = i == n_widths - 1
            cut = below + widths[i, g]
            above = math.inf if last else cut + widths[i + 1, g]
            known = (
                start, middle, stop, order, f, weight, below, cut, above,
                laws.widths[i], laws.widths[i if last else i + 1],
            )  # fmt: skip
            step = 3.0 / math.sqrt(4.0 + stop - start)
            cut += slice_move(rng, _log_density_of_cut, known, step, True)
            widths[i, g] = cut - below
            if not last:
                widths[i + 1, g] = above - cut
            below = cut


@njit(cache=True, nogil=True)
def _log_density_of_scale(s, first, stop, group, y, weight, offset, own, widths, laws, prior):
    """Of the factor ``exp(s)`` of ``own``, which is f without the offset, and of the widths of a group."""
    a = math.exp(s)
    total = prior[0] * s + prior[1] * a + prior[2] * a * a + prior[3] / (a * a)
    for i in range(len(widths)):
        total += log_law(laws.widths[i], math.log(widths[i, group]) + s)
    for n in range(first, stop):
        lower, upper = _bounds(widths, group, int(y[n]))
        f = offset[n] + a * own[n]
        total += weight[n] * log_probability_of_interval(a * lower - f, a * upper - f)
    return total


@njit(cache=True, nogil=True)
def ordinal_scale(rng, f, y, weight, starts, first_group, parameters, laws, offset, prior, factor):
    """Draw factors of f and of the widths of groups of rows, both changed in place.

    Parameters
    ----------
    starts : (G + 1,)
        Where the rows of each group begin.
    first_group : int
        The column of the first one in the widths.
    offset : (N,)
        What of f does not grow.
    prior : (G, 4)
        ``p`` of the prior's share ``p0 s + p1 e^s + p2 e^(2 s) + p3 e^(-2 s)`` of the log density of s.
    factor : (G,)
        Is filled with ``e^s``.
    """
    widths, own = parameters.widths, f - offset
    for g in range(len(factor)):
        start, stop, group = starts[g], starts[g + 1], first_group + g
        known = (start, stop, group, y, weight, offset, own, widths, laws, prior[g])
        factor[g] = math.exp(
            slice_move(rng, _log_density_of_scale, known, 3.0 / math.sqrt(4.0 + stop - start), True)
        )
        widths[:, group] *= factor[g]
        for n in range(start, stop):
            f[n] = offset[n] + factor[g] * own[n]


@njit(cache=True, nogil=True)
def _log_density_of_shift(s, first, stop, y, weight, f, width, law, prior):
    """Of what is added to f and to the width of the second grade."""
    if not width + s > 0.0:
        return -math.inf
    total = prior[0] * s + prior[1] * s * s + _log_density_of_width(width + s, law)
    for n in range(first, stop):
        if y[n] == 1.0:
            total += weight[n] * log_probability_of_interval(-math.inf, -(f[n] + s))
        elif y[n] == 2.0:
            total += weight[n] * log_probability_of_interval(-(f[n] + s), width - f[n])
    return total


@njit(cache=True, nogil=True)
def ordinal_shift(rng, f, y, weight, starts, first_group, parameters, laws, prior, shift):
    """Draw what is added to f and to the width of the second grade, in groups of rows; both change in place.

    The arguments are those of :func:`ordinal_scale`, but for ``prior`` (G, 2), of ``p0 s + p1 s^2``, and
    ``shift`` (G,), which is filled with s.
    """
    widths = parameters.widths
    for g in range(len(shift)):
        start, stop, group = starts[g], starts[g + 1], first_group + g
        few = 0
        for n in range(start, stop):
            few += y[n] <= 2.0
        known = (start, stop, y, weight, f, widths[0, group], laws.widths[0], prior[g])
        s = slice_move(rng, _log_density_of_shift, known, 3.0 / math.sqrt(4.0 + few), True)
        shift[g] = s
        widths[0, group] += s
        for n in range(start, stop):
            f[n] += s
