r"""Compiled draws of augmentation variables, for rows that have parameters of their own.

Every function fills ``w`` and ``v`` (n,) with :math:`\log p(y, \text{auxiliary} \mid e) = -w e^2/2
+ v e` up to a constant, given the predictor ``e`` (n,) and parameters (n,), each contiguous
float64. Where a sampler of the factories takes parameters by task, each row is handed to it as a task
of its own. The derivations stand beside these samplers,
:mod:`zoo.inference.gibbs.augmented_real_responses`,
:mod:`zoo.inference.gibbs.augmented_discrete_responses` and :mod:`zoo.inference.gibbs.augmented_probit`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.augmented_probit import ProbitParameters, probit_draw
from zoo.inference.gibbs.augmented_real_responses import StudentTParameters, student_t_draw
from zoo.inference.gibbs.draws import inverse_gaussians
from zoo.inference.gibbs.polya_gamma import polya_gamma

__all__ = ["DRAWS"]


@njit(cache=True, nogil=True)
def _known(rng, e, w, v, precision, linear):
    """Normal rows: nothing is random."""
    for n in range(len(e)):
        w[n] = precision[n]
        v[n] = linear[n]


@njit(cache=True, nogil=True)
def _polya_gamma(rng, e, w, v, shape, linear):
    """Polson, Scott & Windle (2013), eq (2): ``w ~ PG(shape, e)``. No trials say nothing."""
    for n in range(len(e)):
        w[n] = polya_gamma(rng, shape[n], e[n]) if shape[n] != 0.0 else 0.0
        v[n] = linear[n]


def _student_t(rng, e, w, v, y, degrees, scale):
    student_t_draw(rng, e, y, np.ones(len(e)), np.arange(len(e)), StudentTParameters(scale, degrees), w, v)


@njit(cache=True, nogil=True)
def _laplace(rng, e, w, v, y, even, odd):
    """Density ``exp(-even |y - e| - odd (y - e))``: the second term is linear in e (Kozumi &
    Kobayashi 2011).
    """
    for n in range(len(e)):
        distance = even[n] * abs(y[n] - e[n])
        w[n] = 1.0 / distance if distance > 0.0 else np.inf
    inverse_gaussians(rng, w, w)
    for n in range(len(e)):
        w[n] *= even[n] * even[n]
        v[n] = w[n] * y[n] + odd[n]


@njit(cache=True, nogil=True)
def _hinge(rng, e, w, v, y, C, margin):
    """Equations (7) and (10) of li2014: ``1 / lambda`` is inverse Gaussian."""
    for n in range(len(e)):
        slack = C[n] * abs(margin[n] - y[n] * e[n])
        w[n] = 1.0 / slack if slack > 0.0 else np.inf
    inverse_gaussians(rng, w, w)
    for n in range(len(e)):
        v[n] = C[n] * y[n] * (C[n] * margin[n] * w[n] + 1.0)
        w[n] *= C[n] * C[n]


@njit(cache=True, nogil=True)
def _tube(rng, e, w, v, y, C, epsilon):
    """Equations (14) and (15) of li2014: one variable above the tube, one below."""
    above, below = np.empty(len(e)), np.empty(len(e))
    for n in range(len(e)):
        up, down = C[n] * abs(y[n] - e[n] - epsilon[n]), C[n] * abs(y[n] - e[n] + epsilon[n])
        above[n] = 1.0 / up if up > 0.0 else np.inf
        below[n] = 1.0 / down if down > 0.0 else np.inf
    inverse_gaussians(rng, above, above)
    inverse_gaussians(rng, below, below)
    for n in range(len(e)):
        square = C[n] * C[n]
        w[n] = square * (above[n] + below[n])
        v[n] = square * ((y[n] - epsilon[n]) * above[n] + (y[n] + epsilon[n]) * below[n])


def _probit(rng, e, w, v, y):
    probit_draw(rng, e, y, np.ones(len(e)), np.arange(len(e)), ProbitParameters(), w, v)


DRAWS: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "known": _known,
        "polya_gamma": _polya_gamma,
        "student_t": _student_t,
        "laplace": _laplace,
        "hinge": _hinge,
        "tube": _tube,
        "probit": _probit,
    }
)
"""Draws by the ``kind`` of a term, each ``(rng, e, w, v, *parameters)``."""
