r"""Sums of product kernels as arrays, and their compiled covariances and derivatives among a few rows.

.. math:: k((x, t), (x', t')) = \sum_c k_c(t, t')\, k_X(x, x'), \quad k_X(x, x') = \sum_d a_{cd}^2 x_d x_d'

or :math:`a_c^2 k_X(x, x')` with a stationary :math:`k_X`. All parameters are logarithms in one vector, to which the
arrays of :class:`Terms` point, so that several places may hold the same parameter.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["CONSTANT", "KINDS", "LINEAR", "Terms", "Workspace", "covariance", "derivatives", "workspace"]

KINDS = {"matern12": 0, "matern32": 1, "matern52": 2, "squared_exponential": 3}
"""Codes of the stationary correlations."""
CONSTANT = 4
"""Code of a term that does not vary over t."""
LINEAR = -1
"""Code of an instance kernel that is linear in the features."""

# Sums may be reordered by the compiler, always in the same way; infinities and NaN keep their meaning.
_FAST = {"reassoc", "contract", "nsz", "arcp"}
# Added to squared distances in lengthscales, so that their root has a derivative; the exact engine adds the same.
_NEAR = 1e-24


class Terms(NamedTuple):
    """A covariance as arrays; C terms, each over some columns of t and some features.

    Term c has the columns ``column[columns[c]:columns[c + 1]]`` with the lengthscales ``theta[lengthscale[...]]``, and
    the features ``feature[features[c]:features[c + 1]]`` with the amplitudes ``theta[amplitude[...]]``.
    """

    kind: np.ndarray
    """(C,) int: a code of ``KINDS``, or ``CONSTANT``."""
    columns: np.ndarray
    """(C + 1,) int."""
    column: np.ndarray
    lengthscale: np.ndarray
    features: np.ndarray
    """(C + 1,) int."""
    feature: np.ndarray
    amplitude: np.ndarray
    shared: np.ndarray
    """(C,) bool: all features of the term have the same amplitude."""
    instance: int
    """``LINEAR``, or the code of the correlation of the features."""
    instance_lengthscale: np.ndarray
    """(D,) int, or empty where the instance kernel is linear."""
    noise: int
    """Where the logarithm of the noise's standard deviation stands."""


class Workspace(NamedTuple):
    """Room for the pairs of one set of rows, in which functions below leave what the next one needs."""

    K: np.ndarray
    """(L,) covariances of pairs (p, q), q <= p, at ``p (p + 1) / 2 + q``."""
    time: np.ndarray
    """(C, L) correlations over t."""
    time_slope: np.ndarray
    """(C, L) minus twice their derivatives in the squared distance."""
    inner: np.ndarray
    """(L,) correlation of the features, where it is not linear."""
    inner_slope: np.ndarray
    square: np.ndarray
    """(L,) squared distances, and later weights."""
    bits: np.ndarray
    """(L,) int."""
    t: np.ndarray
    """(P, n) columns of the rows."""
    x: np.ndarray
    """(D, n) features of the rows."""
    vectors: np.ndarray
    """(6, n) for what is made of the rows."""
    factor: np.ndarray
    """(L,) Cholesky factor."""


@njit(cache=True, nogil=True)
def workspace(n: int, n_terms: int, n_columns: int, n_features: int) -> Workspace:
    """Room for ``n`` rows."""
    pairs = n * (n + 1) // 2
    return Workspace(
        np.zeros(pairs),
        np.zeros((n_terms, pairs)),
        np.zeros((n_terms, pairs)),
        np.zeros(pairs),
        np.zeros(pairs),
        np.zeros(pairs),
        np.zeros(pairs, dtype=np.int64),
        np.zeros((n_columns, n)),
        np.zeros((n_features, n)),
        np.zeros((6, n)),
        np.zeros(pairs),
    )


# Without "reassoc": the remainder has its last digits from the order of the differences.
@njit(cache=True, nogil=True, fastmath={"contract", "nsz"})
def _exponentials(u: np.ndarray, bits: np.ndarray, start: int, end: int) -> None:
    """Put ``exp(-u)`` in place of u, to the last digit but one.

    The library's exponential takes one number at a time; this one, by a power of two and a Taylor series, is four times
    as fast because the compiler works on several.
    """
    powers = bits.view(np.float64)
    for i in range(start, end):
        x = -min(u[i], 700.0)
        k = np.floor(x * 1.4426950408889634 + 0.5)
        r = (x - k * 6.93147180369123816490e-01) - k * 1.90821492927058770002e-10
        p = 1.0 / 479001600.0
        p = p * r + 1.0 / 39916800.0
        p = p * r + 1.0 / 3628800.0
        p = p * r + 1.0 / 362880.0
        p = p * r + 1.0 / 40320.0
        p = p * r + 1.0 / 5040.0
        p = p * r + 1.0 / 720.0
        p = p * r + 1.0 / 120.0
        p = p * r + 1.0 / 24.0
        p = p * r + 1.0 / 6.0
        p = p * r + 0.5
        p = p * r + 1.0
        u[i] = p * r + 1.0
        bits[i] = (np.int64(k) + 1023) << 52
    for i in range(start, end):
        u[i] *= powers[i]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_squares(
    values: np.ndarray, scale: float, square: np.ndarray, first: int, n: int, overwrite: bool
) -> None:
    """Add squared differences times ``scale**2`` of pairs (p, q) with first <= p < n."""
    for p in range(first, n):
        at, own = p * (p + 1) // 2, values[p]
        if overwrite:
            for q in range(p + 1):
                d = (own - values[q]) * scale
                square[at + q] = d * d
        else:
            for q in range(p + 1):
                d = (own - values[q]) * scale
                square[at + q] += d * d


@njit(cache=True, nogil=True, fastmath=_FAST)
def _correlations(
    kind: int,
    square: np.ndarray,
    value: np.ndarray,
    slope: np.ndarray,
    bits: np.ndarray,
    start: int,
    end: int,
) -> None:
    """Correlations of squared distances, and minus twice their derivatives."""
    if kind == 3:
        for i in range(start, end):
            value[i] = 0.5 * square[i]
        _exponentials(value, bits, start, end)
        for i in range(start, end):
            slope[i] = value[i]
        return
    root = np.sqrt(2.0 * kind + 1.0)
    for i in range(start, end):
        square[i] = root * np.sqrt(square[i] + _NEAR)
        value[i] = square[i]
    _exponentials(value, bits, start, end)
    if kind == 0:
        for i in range(start, end):
            slope[i] = value[i] / square[i]
    elif kind == 1:
        for i in range(start, end):
            slope[i] = 3.0 * value[i]
            value[i] *= 1.0 + square[i]
    else:
        for i in range(start, end):
            u = square[i]
            slope[i] = (5.0 / 3.0) * (1.0 + u) * value[i]
            value[i] *= 1.0 + u + u * u / 3.0


@njit(cache=True, nogil=True, fastmath=_FAST)
def _inner_products(x: np.ndarray, weight: float, value: np.ndarray, first: int, n: int) -> None:
    """Add ``weight`` times the products of a feature to pairs."""
    for p in range(first, n):
        at, own = p * (p + 1) // 2, weight * x[p]
        for q in range(p + 1):
            value[at + q] += own * x[q]


@njit(cache=True, nogil=True, fastmath=_FAST)
def covariance(terms: Terms, theta: np.ndarray, room: Workspace, first: int, n: int) -> None:
    """Fill ``room.K`` for pairs (p, q) of the rows in ``room.t`` and ``room.x`` with first <= p < n and q <= p."""
    start, end = first * (first + 1) // 2, n * (n + 1) // 2
    K, square = room.K, room.square
    for i in range(start, end):
        K[i] = 0.0
    linear = terms.instance == LINEAR
    if not linear:
        for d in range(len(terms.instance_lengthscale)):
            scale = np.exp(-theta[terms.instance_lengthscale[d]])
            _add_squares(room.x[d], scale, square, first, n, d == 0)
        _correlations(terms.instance, square, room.inner, room.inner_slope, room.bits, start, end)
    for c in range(len(terms.kind)):
        if terms.kind[c] != CONSTANT:
            for j in range(terms.columns[c], terms.columns[c + 1]):
                scale = np.exp(-theta[terms.lengthscale[j]])
                _add_squares(room.t[terms.column[j]], scale, square, first, n, j == terms.columns[c])
            _correlations(terms.kind[c], square, room.time[c], room.time_slope[c], room.bits, start, end)
        if linear:
            for i in range(start, end):
                square[i] = 0.0
            for j in range(terms.features[c], terms.features[c + 1]):
                weight = np.exp(2.0 * theta[terms.amplitude[j]])
                _inner_products(room.x[terms.feature[j]], weight, square, first, n)
        else:
            weight = np.exp(2.0 * theta[terms.amplitude[terms.features[c]]])
            for i in range(start, end):
                square[i] = weight * room.inner[i]
        if terms.kind[c] == CONSTANT:
            for i in range(start, end):
                K[i] += square[i]
        else:
            time = room.time[c]
            for i in range(start, end):
                K[i] += time[i] * square[i]


@njit(cache=True, nogil=True, fastmath=_FAST)
def derivatives(
    terms: Terms, theta: np.ndarray, room: Workspace, weight: np.ndarray, n: int, gradient: np.ndarray
) -> None:
    """Add the derivatives of ``sum(weight * K)`` over all pairs of n rows to ``gradient``; not that of the noise.

    ``covariance`` must have been called for the same rows. ``weight`` (L,) of a pair off the diagonal counts once, for
    both its orders.
    """
    end = n * (n + 1) // 2
    # What stands behind the correlation over t in a term, times the weight.
    pull, linear = room.square, terms.instance == LINEAR
    outer = room.K  # no longer needed: becomes what multiplies the correlation of the features
    if not linear:
        for i in range(end):
            outer[i] = 0.0
    for c in range(len(terms.kind)):
        constant, time = terms.kind[c] == CONSTANT, room.time[c]
        first = terms.features[c]
        if linear:
            for i in range(end):
                pull[i] = 0.0
            for j in range(first, terms.features[c + 1]):
                factor = np.exp(2.0 * theta[terms.amplitude[j]])
                _inner_products(room.x[terms.feature[j]], factor, pull, 0, n)
        else:
            factor = np.exp(2.0 * theta[terms.amplitude[first]])
            for i in range(end):
                pull[i] = factor * room.inner[i]
                outer[i] += factor * (1.0 if constant else time[i])
        total = 0.0
        for i in range(end):
            pull[i] *= weight[i]
            total += pull[i] * (1.0 if constant else time[i])
        if terms.shared[c] or not linear:
            gradient[terms.amplitude[first]] += 2.0 * total
        else:
            for j in range(first, terms.features[c + 1]):
                own = _amplitude_slope(room.x[terms.feature[j]], time, weight, constant, n)
                factor = np.exp(2.0 * theta[terms.amplitude[j]])
                gradient[terms.amplitude[j]] += 2.0 * factor * own
        if constant:
            continue
        slope = room.time_slope[c]
        for i in range(end):
            pull[i] *= slope[i]
        for j in range(terms.columns[c], terms.columns[c + 1]):
            scale = np.exp(-theta[terms.lengthscale[j]])
            gradient[terms.lengthscale[j]] += _distance_slope(room.t[terms.column[j]], scale, pull, n)
    if not linear:
        for i in range(end):
            pull[i] = weight[i] * outer[i] * room.inner_slope[i]
        for d in range(len(terms.instance_lengthscale)):
            at = terms.instance_lengthscale[d]
            gradient[at] += _distance_slope(room.x[d], np.exp(-theta[at]), pull, n)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _amplitude_slope(x: np.ndarray, time: np.ndarray, weight: np.ndarray, constant: bool, n: int) -> float:
    total = 0.0
    for p in range(n):
        at, row = p * (p + 1) // 2, 0.0
        if constant:
            for q in range(p + 1):
                row += weight[at + q] * x[q]
        else:
            for q in range(p + 1):
                row += weight[at + q] * time[at + q] * x[q]
        total += x[p] * row
    return total


@njit(cache=True, nogil=True, fastmath=_FAST)
def _distance_slope(values: np.ndarray, scale: float, pull: np.ndarray, n: int) -> float:
    total = 0.0
    for p in range(n):
        at, own, row = p * (p + 1) // 2, values[p], 0.0
        for q in range(p + 1):
            d = (own - values[q]) * scale
            row += pull[at + q] * d * d
        total += row
    return total
