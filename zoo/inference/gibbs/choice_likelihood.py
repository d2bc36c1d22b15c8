r"""Choices between alternatives as compiled samplers see them: log density of coefficients and its derivatives.

The likelihood is that of :class:`zoo.MultinomialLogit`. With the probabilities :math:`p_m` of the alternatives of a
choice c and :math:`\bar x_c = \sum_{m \in c} p_m x_m` the gradient is :math:`\sum_c (x_{n(c)} - \bar x_c)`, and minus
the Hessian is :math:`\sum_c \sum_{m \in c} p_m (x_m - \bar x_c)(x_m - \bar x_c)'`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["Choices", "add_derivatives", "log_density"]


class Choices(NamedTuple):
    """Rows sorted by task, and within it by choice, for compiled functions.

    Parameters
    ----------
    inputs : (N, D)
        Less their mean within each choice, which changes nothing but keeps digits.
    offset : (N,)
        What is added to ``x'w``.
    starts : (C + 1,)
        Where the rows of each choice begin.
    chosen : (C,)
        The row that was chosen.
    tasks : (T + 1,)
        Where the choices of each task begin.
    weight : (C,)
        How many times a choice counts.
    """

    inputs: np.ndarray
    offset: np.ndarray
    starts: np.ndarray
    chosen: np.ndarray
    tasks: np.ndarray
    weight: np.ndarray


@njit(cache=True, nogil=True)
def _largest(choices, first, last):
    """Alternatives of the largest of these choices."""
    size = 0
    for c in range(first, last):
        size = max(size, choices.starts[c + 1] - choices.starts[c])
    return size


@njit(cache=True, nogil=True)
def log_density(choices, first, last, w):
    """Of the choices ``first`` to ``last``, whose coefficients are ``w`` (D,)."""
    total, D = 0.0, len(w)
    f = np.empty(_largest(choices, first, last))
    for c in range(first, last):
        a, b = choices.starts[c], choices.starts[c + 1]
        own = 0.0
        top = -np.inf
        for n in range(a, b):
            value = choices.offset[n]
            x = choices.inputs[n]
            for d in range(D):
                value += x[d] * w[d]
            f[n - a] = value
            top = max(top, value)
            if n == choices.chosen[c]:
                own = value
        spread = 0.0
        for k in range(b - a):
            spread += np.exp(f[k] - top)
        total += choices.weight[c] * (own - top - np.log(spread))
    return total


@njit(cache=True, nogil=True)
def add_derivatives(choices, first, last, w, gradient, curvature, second):
    """Add the gradient (D,) of these choices and, where ``second``, the lower triangle of minus the Hessian (D, D)."""
    D = len(w)
    centre, apart = np.empty(D), np.empty(D)
    p = np.empty(_largest(choices, first, last))
    for c in range(first, last):
        a, b = choices.starts[c], choices.starts[c + 1]
        weight = choices.weight[c]
        top = -np.inf
        for n in range(a, b):
            value = choices.offset[n]
            for d in range(D):
                value += choices.inputs[n, d] * w[d]
            p[n - a] = value
            top = max(top, value)
        spread = 0.0
        for k in range(b - a):
            p[k] = np.exp(p[k] - top)
            spread += p[k]
        centre[:] = 0.0
        for k in range(b - a):
            p[k] /= spread
            for d in range(D):
                centre[d] += p[k] * choices.inputs[a + k, d]
        for d in range(D):
            gradient[d] += weight * (choices.inputs[choices.chosen[c], d] - centre[d])
        if not second:
            continue
        for k in range(b - a):
            for d in range(D):
                apart[d] = choices.inputs[a + k, d] - centre[d]
            for i in range(D):
                part = weight * p[k] * apart[i]
                for j in range(i + 1):
                    curvature[i, j] += part * apart[j]
