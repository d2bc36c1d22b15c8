r"""Gibbs sweeps over the binary matrix of the Indian buffet process, given matrix-normal coefficients.

Coefficients :math:`\eta` (D x T) have the prior :math:`MN(0, Q, R)` with :math:`Q = I + Z Z'`, which is
:math:`\eta = Z V + \text{noise}` with :math:`V \sim MN(0, I, R)` integrated out (li2014 section 4.1). Whitened by
:math:`F F' = R^{-1}`, they are :math:`W = \eta F`, and R is gone: :math:`W = Z V F + N(0, 1)` noise, with
:math:`V F` standard normal a priori.

Let :math:`w_d` be row d of W and :math:`z_d` row d of Z. Given the other rows,
:math:`V F \sim MN(E, M, I)` with :math:`M = (I + Z_{-d}' Z_{-d})^{-1}` and :math:`E = M Z_{-d}' W_{-d}`, so that

.. math:: w_d \mid W_{-d}, Z \sim N(E' z_d,\; (1 + q) I_T), \quad q = z_d' M z_d.

Since :math:`p(W \mid Z) = p(W_{-d} \mid Z_{-d})\, p(w_d \mid W_{-d}, Z)` and the first factor is free of
:math:`z_d`, this density is the likelihood of row d. With :math:`s = 1 + q` and :math:`r = w_d - E' z_d` it is
:math:`s^{-T/2} e^{-r'r / 2s}` up to a constant. Flipping bit k, :math:`z_d \to z_d \pm e_k`, turns s into
:math:`s \pm 2 (M z_d)_k + M_{kk}` and r into :math:`r \mp E_k`: O(T) a bit, and O(K + T) for one that flips. A column
that row d alone holds has :math:`M_{kk} = 1`, :math:`M_{jk} = 0` and :math:`E_k = 0`: it adds 1 to s and leaves r.

Leaving row d out and putting it back are updates of rank one. With :math:`u = (I + Z'Z)^{-1} z_d`,
:math:`h = z_d' u` and M, E of all rows,

.. math::

    M_{-d} = M + u u' / (1 - h), \quad E_{-d} = E + u (z_d' E - w_d') / (1 - h),

and with :math:`v = M_{-d} z_d` the way back is :math:`M = M_{-d} - v v' / s`, :math:`E = E_{-d} + v r' / s`. So a
sweep takes :math:`O(D K^2 + D K T)` operations. M and E are computed afresh at its start.

Two traps of the process without truncation, each of which shifts the posterior by several per cent of a probability:

- The bits of a row must be drawn given the number of columns that it holds alone, see :func:`buffet_sweep`.
- The law is one of matrices up to the order of columns. In eq (12) the columns may stand in any order which, where the
  other rows of two columns are alike, tells nothing of row d. An order that stems from the chain's past does: new
  columns stand last. So every row visits the columns in a random order.
"""

from __future__ import annotations

import math

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["buffet_sweep", "draw_alpha", "finite_buffet_sweep"]

# Log of what may be left out of a sum: below the rounding of a double.
_NEGLIGIBLE = -39.0
# New columns of a row: of more the prior has less than 1e-1000, even with alpha = 20 D.
_MOST_NEW = 1000


@njit(cache=True, nogil=True)
def buffet_sweep(rng, W, Z, alpha):
    r"""One scan of Z under the Indian buffet process, without truncation (li2014 eqs 12 and 13).

    For every row: the bits of columns that other rows hold, by eq (12) with prior odds
    :math:`m_{-d,k} : D - m_{-d,k}`; then the number of columns that it holds alone, by eq (13). **Corrected:** the
    paper removes the row's own columns before eq (12). The bits would then be drawn given that there are none, and
    the posterior would not be kept. Here their number stays in the likelihood of the bits, and is drawn anew after.

    Parameters
    ----------
    rng : numpy.random.Generator
    W : (D, T) float64
        Whitened coefficients.
    Z : (D, K) int8
        Without zero columns; K may be 0. Not changed.
    alpha : float
        Mass of the process.

    Returns
    -------
    (D, K_new) int8
        Without zero columns, C-contiguous. The order of the columns means nothing.
    """
    D, T = W.shape
    Z = Z.copy()
    M, E = _moments(W, Z)
    others = _column_sums(Z)
    for d in range(D):
        _leave_out(M, E, Z[d], W[d])
        for k in range(Z.shape[1]):
            others[k] -= Z[d, k]
        columns = np.flatnonzero(others)
        n_own = Z.shape[1] - len(columns)
        if n_own > 0:
            Z, M, E, others = _select(Z, M, E, others, columns)
        v, r, s = _row_state(M, E, Z[d], W[d])
        s = _draw_bits(rng, M, E, Z[d], v, r, s + n_own, others, D - others) - n_own
        n_new = _draw_new(rng, s, _squared(r), T, alpha / D)
        _put_back(M, E, v, r, s + n_new)
        for k in range(Z.shape[1]):
            others[k] += Z[d, k]
        if n_new > 0:
            Z, M, E, others = _append(Z, M, E, others, d, n_new, v, r, s + n_new)
    return Z


@njit(cache=True, nogil=True)
def finite_buffet_sweep(rng, W, Z, alpha):
    r"""One scan of Z under the finite approximation with K columns, in place.

    The prior is that of :class:`zoo.distributions.indian_buffet.IndianBuffet`: Bernoulli entries whose weights
    :math:`\mathrm{Beta}(a, 1)`, :math:`a = \alpha / K`, are integrated out, so a bit has the prior odds
    :math:`m_{-d,k} + a : D - m_{-d,k}`.

    Parameters
    ----------
    rng : numpy.random.Generator
    W : (D, T) float64
        Whitened coefficients.
    Z : (D, K) array of integers 0 and 1
        K of 1 or more; changed in place.
    alpha : float
    """
    D, K = Z.shape
    M, E = _moments(W, Z)
    others = _column_sums(Z)
    for d in range(D):
        _leave_out(M, E, Z[d], W[d])
        for k in range(K):
            others[k] -= Z[d, k]
        v, r, s = _row_state(M, E, Z[d], W[d])
        s = _draw_bits(rng, M, E, Z[d], v, r, s, others + alpha / K, D - others)
        _put_back(M, E, v, r, s)
        for k in range(K):
            others[k] += Z[d, k]


@njit(cache=True, nogil=True)
def draw_alpha(rng, n_columns, D, shape, rate):
    r"""Mass of the process given its number of columns, under a gamma prior.

    The probability of Z has alpha in :math:`\alpha^{K_+} e^{-\alpha H_D}` alone, with
    :math:`H_D = \sum_{d=1}^{D} 1/d`: so :math:`\mathrm{Gamma}(\text{shape} + K_+, \text{rate} + H_D)`.

    Parameters
    ----------
    rng : numpy.random.Generator
    n_columns, D : int
        Columns with a one, and rows.
    shape, rate : float
        Of the prior.

    Returns
    -------
    float
    """
    harmonic = 0.0
    for d in range(D):
        harmonic += 1.0 / (d + 1)
    return rng.gamma(shape + n_columns, 1.0 / (rate + harmonic))


# -------------------------------------------------------------------- likelihood of a row


@njit(cache=True, nogil=True)
def _moments(W, Z):
    """``M = (I + Z'Z)^-1`` and ``E = M Z'W`` of all rows."""
    K = Z.shape[1]
    if K == 0:
        return np.empty((0, 0)), np.empty((0, W.shape[1]))
    X = Z.astype(np.float64)
    M = np.linalg.inv(np.eye(K) + X.T @ X)
    return M, M @ (X.T @ W)


@njit(cache=True, nogil=True)
def _leave_out(M, E, z, w):
    """Take row ``z`` of Z and ``w`` of W out of M and E, in place."""
    u = np.zeros(len(z))
    gap = -w
    for k in range(len(z)):
        if z[k] != 0:
            u += M[k]
            gap += E[k]
    left = 1.0
    for k in range(len(z)):
        left -= z[k] * u[k]
    _rank_one(M, E, u, gap, 1.0 / left)


@njit(cache=True, nogil=True)
def _put_back(M, E, v, r, s):
    """Put the row with this state into M and E, in place."""
    _rank_one(M, E, v, -r, -1.0 / s)


@njit(cache=True, nogil=True)
def _rank_one(M, E, v, gap, factor):
    for k in range(len(v)):
        c = factor * v[k]
        if c != 0.0:
            for j in range(len(v)):
                M[k, j] += c * v[j]
            for t in range(len(gap)):
                E[k, t] += c * gap[t]


@njit(cache=True, nogil=True)
def _row_state(M, E, z, w):
    """``v = M z``, ``r = w - E'z`` and ``s = 1 + z'M z`` of a row that M and E do not hold."""
    v = np.zeros(len(z))
    r = w.copy()
    for k in range(len(z)):
        if z[k] != 0:
            v += M[k]
            r -= E[k]
    s = 1.0
    for k in range(len(z)):
        s += z[k] * v[k]
    return v, r, s


@njit(cache=True, nogil=True)
def _flipped(M, E, z, v, r, s, k):
    """``s`` and ``r'r`` were bit k flipped."""
    sign = 1.0 - 2.0 * z[k]
    squared = 0.0
    for t in range(len(r)):
        rest = r[t] - sign * E[k, t]
        squared += rest * rest
    return s + sign * 2.0 * v[k] + M[k, k], squared


@njit(cache=True, nogil=True)
def _log_density(s, squared, T):
    return -0.5 * T * math.log(s) - 0.5 * squared / s


@njit(cache=True, nogil=True)
def _squared(r):
    total = 0.0
    for t in range(len(r)):
        total += r[t] * r[t]
    return total


# -------------------------------------------------------------------- draws


@njit(cache=True, nogil=True)
def _draw_bits(rng, M, E, z, v, r, s, ones, zeros):
    """Draw each bit of ``z`` given the others, with prior odds ``ones : zeros``; changes ``z``, ``v`` and ``r``.

    In a random order: see the top of this module.
    """
    T = len(r)
    squared = _squared(r)
    for k in rng.permutation(len(z)):
        sign = 1.0 - 2.0 * z[k]
        other_s, other_squared = _flipped(M, E, z, v, r, s, k)
        log_odds = (
            sign * math.log(ones[k] / zeros[k])
            + _log_density(other_s, other_squared, T)
            - _log_density(s, squared, T)
        )
        if rng.random() * (1.0 + math.exp(min(-log_odds, 700.0))) < 1.0:
            z[k] = 1 - z[k]
            s, squared = other_s, other_squared
            for j in range(len(v)):
                v[j] += sign * M[k, j]
            for t in range(T):
                r[t] -= sign * E[k, t]
    return s


@njit(cache=True, nogil=True)
def _draw_new(rng, s, squared, T, rate):
    r"""Number of columns that a row holds alone (li2014 eq 13).

    Weights :math:`\mathrm{Poisson}(k; \text{rate})\, (s + k)^{-T/2} e^{-r'r / 2(s + k)}`. The ratio of a weight to
    the one before is at most :math:`\text{rate}\, e^{r'r / 2(s + k)(s + k + 1)} / (k + 1)`, which falls with k: once
    it is below 1/2, the rest of the sum is smaller than a geometric series. The sum ends after ``_MOST_NEW`` columns,
    which only a start far from the posterior asks for.
    """
    log_weight = _log_density(s, squared, T)
    log_total = log_weight
    log_rate = math.log(rate)
    drawn = k = 0
    while k < _MOST_NEW:
        log_ratio = log_rate - math.log(k + 1.0) + 0.5 * squared / ((s + k) * (s + k + 1.0))
        if log_ratio < -math.log(2.0) and log_weight + log_ratio + math.log(2.0) < log_total + _NEGLIGIBLE:
            return drawn
        k += 1
        log_prior = k * log_rate - math.lgamma(k + 1.0)
        log_weight = log_prior + _log_density(s + k, squared, T)
        log_total = max(log_total, log_weight) + math.log1p(math.exp(-abs(log_total - log_weight)))
        # The last k to replace those before it, each with its share of the total so far, is a draw.
        if rng.random() < math.exp(log_weight - log_total):
            drawn = k
    return drawn


# -------------------------------------------------------------------- columns


@njit(cache=True, nogil=True)
def _column_sums(Z):
    sums = np.zeros(Z.shape[1])
    for d in range(Z.shape[0]):
        for k in range(Z.shape[1]):
            sums[k] += Z[d, k]
    return sums


@njit(cache=True, nogil=True)
def _select(Z, M, E, sums, columns):
    """Keep these columns."""
    D, n = Z.shape[0], len(columns)
    new_Z, new_M, new_E = np.empty((D, n), Z.dtype), np.empty((n, n)), np.empty((n, E.shape[1]))
    for i in range(n):
        new_Z[:, i] = Z[:, columns[i]]
        new_E[i] = E[columns[i]]
        for j in range(n):
            new_M[i, j] = M[columns[i], columns[j]]
    return new_Z, new_M, new_E, sums[columns]


@njit(cache=True, nogil=True)
def _append(Z, M, E, sums, d, n, v, r, s):
    """Add n columns that row d alone holds; M and E hold the row already, with ``s`` of all its columns."""
    D, K = Z.shape
    new_Z, new_M, new_E = np.zeros((D, K + n), Z.dtype), np.eye(K + n), np.empty((K + n, E.shape[1]))
    new_Z[:, :K], new_M[:K, :K], new_E[:K] = Z, M, E
    new_sums = np.ones(K + n)
    new_sums[:K] = sums
    new_Z[d, K:] = 1
    for i in range(K, K + n):
        new_E[i] = r / s
        for j in range(K):
            new_M[i, j] = new_M[j, i] = -v[j] / s
        for j in range(K, K + n):
            new_M[i, j] -= 1.0 / s
    return new_Z, new_M, new_E, new_sums
