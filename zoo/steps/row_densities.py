r"""Compiled log densities of rows and their slopes, by the kinds of :mod:`zoo.steps.augmentations`.

They are what is left when the auxiliary variables of a kind are integrated out: functions of the predictor e (n,), up
to constants that may depend on other parameters, but not on e.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

import numpy as np
from scipy.special import log_ndtr

from zoo.inference.compiled import njit

__all__ = ["DENSITIES", "SLOPES"]


@njit(cache=True, nogil=True)
def _known(e, out, precision, linear):
    for n in range(len(e)):
        out[n] = e[n] * (linear[n] - 0.5 * precision[n] * e[n])


@njit(cache=True, nogil=True)
def _known_slope(e, out, precision, linear):
    for n in range(len(e)):
        out[n] = linear[n] - precision[n] * e[n]


def _polya_gamma(e, out, shape, linear):
    """Polson, Scott & Windle (2013), theorem 1: ``exp(linear e) / (2 cosh(e / 2))^shape``.

    NumPy's exponentials of arrays are some four times as fast as compiled ones of single numbers.
    """
    size = np.abs(e)
    np.negative(size, out=out)
    np.exp(out, out=out)
    np.log1p(out, out=out)
    size *= 0.5
    out += size
    out *= shape
    np.multiply(linear, e, out=size)
    np.subtract(size, out, out=out)


def _polya_gamma_slope(e, out, shape, linear):
    np.multiply(e, 0.5, out=out)
    np.tanh(out, out=out)
    out *= shape
    out *= -0.5
    out += linear


@njit(cache=True, nogil=True)
def _student_t(e, out, y, degrees, scale):
    for n in range(len(e)):
        z = (y[n] - e[n]) / scale[n]
        out[n] = -0.5 * (degrees[n] + 1.0) * np.log1p(z * z / degrees[n])


@njit(cache=True, nogil=True)
def _student_t_slope(e, out, y, degrees, scale):
    for n in range(len(e)):
        r = y[n] - e[n]
        out[n] = (degrees[n] + 1.0) * r / (degrees[n] * scale[n] * scale[n] + r * r)


@njit(cache=True, nogil=True)
def _laplace(e, out, y, even, odd):
    for n in range(len(e)):
        r = y[n] - e[n]
        out[n] = -even[n] * abs(r) - odd[n] * r


@njit(cache=True, nogil=True)
def _laplace_slope(e, out, y, even, odd):
    for n in range(len(e)):
        out[n] = even[n] * np.sign(y[n] - e[n]) + odd[n]


@njit(cache=True, nogil=True)
def _hinge(e, out, y, C, margin):
    for n in range(len(e)):
        out[n] = -2.0 * C[n] * max(margin[n] - y[n] * e[n], 0.0)


@njit(cache=True, nogil=True)
def _hinge_slope(e, out, y, C, margin):
    for n in range(len(e)):
        out[n] = 2.0 * C[n] * y[n] if margin[n] > y[n] * e[n] else 0.0


@njit(cache=True, nogil=True)
def _tube(e, out, y, C, epsilon):
    for n in range(len(e)):
        out[n] = -2.0 * C[n] * max(abs(y[n] - e[n]) - epsilon[n], 0.0)


@njit(cache=True, nogil=True)
def _tube_slope(e, out, y, C, epsilon):
    for n in range(len(e)):
        r = y[n] - e[n]
        out[n] = 2.0 * C[n] * np.sign(r) if abs(r) > epsilon[n] else 0.0


def _probit(e, out, sign):
    out[:] = log_ndtr(sign * e)


def _probit_slope(e, out, sign):
    s = sign * e
    out[:] = sign * np.exp(-0.5 * s * s - 0.5 * np.log(2.0 * np.pi) - log_ndtr(s))


DENSITIES: Mapping[str, Callable[..., Any]] = MappingProxyType(
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
"""Log densities by the ``kind`` of a term, each ``(e, out, *parameters)``, which fill ``out``."""

SLOPES: Mapping[str, Callable[..., Any]] = MappingProxyType(
    {
        "known": _known_slope,
        "polya_gamma": _polya_gamma_slope,
        "student_t": _student_t_slope,
        "laplace": _laplace_slope,
        "hinge": _hinge_slope,
        "tube": _tube_slope,
        "probit": _probit_slope,
    }
)
"""Their derivatives in e."""
