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

The arguments are those of :mod:`zoo.inference.gibbs.augmented_real_responses`. Rows of a weight other than 1 have no
such variable, for the reason that :mod:`zoo.inference.gibbs.augmented_probit` gives.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.augmented_probit import normal_excess
from zoo.inference.gibbs.normal_interval import excess_within, log_probability_of_interval
from zoo.inference.gibbs.parameter_laws import is_learned, log_law, rows_by_group
from zoo.inference.gibbs.slice_move import slice_move

__all__ = ["OrdinalLaws", "OrdinalParameters", "ordinal_draw", "ordinal_log_density", "ordinal_update"]


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
