"""Priors of a likelihood's parameters as numbers for compiled samplers, and rows by group."""

from __future__ import annotations

import math

import numpy as np

from zoo.inference.compiled import njit

__all__ = [
    "at",
    "fixed",
    "gamma",
    "inverse_gamma_of_square",
    "is_inverse_gamma_of_square",
    "is_learned",
    "log_law",
    "log_normal",
    "rows_by_group",
    "sums_by_group",
]

_FIXED, _LOG_NORMAL, _GAMMA, _INVERSE_GAMMA_OF_SQUARE = 0.0, 1.0, 2.0, 3.0


def _numbers(kind: float, first: float, second: float) -> np.ndarray:
    return np.array([kind, first, second], dtype=np.float64)


def fixed() -> np.ndarray:
    """The numbers (3,) of no law: updates leave the parameter as it is."""
    return _numbers(_FIXED, 0.0, 0.0)


def log_normal(mu: float, sigma: float) -> np.ndarray:
    """The numbers (3,) of the law whose logarithm has this mean and standard deviation."""
    return _numbers(_LOG_NORMAL, mu, sigma)


def gamma(shape: float, rate: float) -> np.ndarray:
    """The numbers (3,) of a gamma law with this shape and rate."""
    return _numbers(_GAMMA, shape, rate)


def inverse_gamma_of_square(shape: float, rate: float) -> np.ndarray:
    """The numbers (3,) of the law whose square is inverse gamma with this shape and rate."""
    return _numbers(_INVERSE_GAMMA_OF_SQUARE, shape, rate)


@njit(cache=True, nogil=True)
def is_learned(law):
    """Whether the numbers (3,) are those of a law at all."""
    return law[0] != _FIXED


@njit(cache=True, nogil=True)
def is_inverse_gamma_of_square(law):
    """Whether the numbers (3,) are those of :func:`inverse_gamma_of_square`."""
    return law[0] == _INVERSE_GAMMA_OF_SQUARE


@njit(cache=True, nogil=True)
def log_law(law, u):
    r"""Log density of the logarithm u of a parameter under its law, up to a constant.

    With x = exp(u), whose derivative :math:`dx / du = x` is counted:
    :math:`-(u - \mu)^2 / (2 \sigma^2)`, :math:`a u - b x` and :math:`-2 a u - b / x^2`.

    Parameters
    ----------
    law : (3,)
    u : float
    """
    if law[0] == _LOG_NORMAL:
        z = (u - law[1]) / law[2]
        return -0.5 * z * z
    if law[0] == _GAMMA:
        return law[1] * u - law[2] * math.exp(u)
    if law[0] == _INVERSE_GAMMA_OF_SQUARE:
        return -2.0 * law[1] * u - law[2] * math.exp(-2.0 * u)
    return 0.0


@njit(cache=True, nogil=True)
def at(values, t):
    """The parameter of task ``t``: ``values`` (T,) has one per task, (1,) one for all."""
    return values[t] if len(values) > 1 else values[0]


@njit(cache=True, nogil=True)
def sums_by_group(task, values, n_groups):
    """Sums of ``values`` (N,) over the rows of each task, or over all of them where there is one group."""
    total = np.zeros(n_groups)
    for n in range(len(values)):
        total[task[n] if n_groups > 1 else 0] += values[n]
    return total


@njit(cache=True, nogil=True)
def rows_by_group(task, n_groups):
    """The rows in the order of their groups, (N,), and where each starts in it, (n_groups + 1,).

    Groups are tasks, or there is one group of all rows. Rows need no order, and keep theirs within
    a group.
    """
    starts = np.zeros(n_groups + 1, dtype=np.int64)
    order = np.empty(len(task), dtype=np.int64)
    if n_groups == 1:
        starts[1] = len(task)
        for n in range(len(task)):
            order[n] = n
        return order, starts
    for n in range(len(task)):
        starts[task[n] + 1] += 1
    for g in range(n_groups):
        starts[g + 1] += starts[g]
    place = starts[:-1].copy()
    for n in range(len(task)):
        g = task[n]
        order[place[g]] = n
        place[g] += 1
    return order, starts
