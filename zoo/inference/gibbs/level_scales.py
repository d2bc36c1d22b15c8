r"""Scales of the effects of further groups, drawn with these effects integrated out.

Where a level has few rows its effect is told from the noise by the few levels that have more. Given the effects, of
which there may be very many, their scale :math:`\tau` and the noise :math:`\sigma` would hardly move. A row has one
level of a group at most, so that given all but the effects :math:`\beta_j \sim N(0, \tau^2)` of this group these are
independent, and easily integrated out. With :math:`A_j = \sum_n h_n s_{nj}^2` and :math:`b_j = \sum_n h_n s_{nj} r_n`
over the rows of level j, where :math:`h_n` are weights and :math:`r_n` is what all else leaves of the response,
:math:`k = \sigma^{-2}`, :math:`H = \sum_n h_n` and :math:`R = \sum_n h_n r_n^2`,

.. math::

    \log p(\tau, \sigma \mid \ldots) = \log p(\tau) + \log p(\sigma) - \tfrac12 H \log \sigma^2 - \tfrac12 k R
    + \tfrac12 \sum_j \Bigl( \frac{\tau^2 k^2 b_j^2}{1 + \tau^2 k A_j} - \log(1 + \tau^2 k A_j) \Bigr) .

One slice is taken of :math:`\log \tau`. Where levels have few rows, the sum of both variances is known far better than
either. So with one noise for all rows slices are also taken of :math:`\log(\tau^2 + \sigma^2)` and of the log odds of
:math:`\tau^2` in the sum, in which the density is that of :math:`(\log \tau^2, \log \sigma^2)`. Where the noise is
drawn otherwise, it stands in the weights, k = 1. The effects are drawn right after it: this is one block of Gibbs
sampling.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.population_steps import LANES
from zoo.inference.gibbs.slice_move import slice_move

__all__ = ["Levels", "draw_level_scale", "log_density_of_scales"]

# Width of the first interval of each slice, and the logarithms beyond which squares leave float64.
_WIDTH, _FARTHEST = 1.0, 150.0


class Levels(NamedTuple):
    """Sums of the rows of each level of a group, (J,) each, and of all rows."""

    A: np.ndarray
    b: np.ndarray
    size: float
    squares: float


@njit(cache=True, nogil=True)
def _sums_of_levels(rows, side, w, v, W, beta, effect, e, inverse_noise, A, b):
    """Fill A and b of all shared features, those that are no levels of ``e`` with 0; give H and R, with k = 1 in all.

    ``inverse_noise`` (blocks, lanes) multiplies the weights.
    """
    A[:] = 0.0
    b[:] = 0.0
    size, squares, D = 0.0, 0.0, W.shape[1]
    inputs, row, feature, value = rows.inputs, rows.row, side.feature, side.value
    for t in range(len(rows.starts) - 1):
        place, lane = t // LANES, t % LANES
        k = inverse_noise[place, lane]
        for n in range(rows.starts[t], rows.starts[t + 1]):
            i, f, at, s = row[n], 0.0, -1, 0.0
            for d in range(D):
                f += inputs[i, d] * W[place, d, lane]
            for j in range(feature.shape[1]):
                if effect[feature[n, j]] == e and value[n, j] != 0.0:
                    at, s = feature[n, j], value[n, j]
                else:
                    f += value[n, j] * beta[feature[n, j]]
            h = k * w[n]
            left = k * v[n] - h * f
            size += h
            squares += left * left / h
            if at >= 0:
                A[at] += h * s * s
                b[at] += s * left
    return size, squares


@njit(cache=True, nogil=True)
def log_density_of_scales(log_tau, log_noise, levels, spread, shape, rate):
    """Of the logarithms of both scales, up to a constant; ``spread`` is that of the half-normal law of the first.

    The law of the noise is inverse-gamma for its square, with this shape and rate; a shape of 0 leaves the noise at 1.
    """
    if abs(log_tau) > _FARTHEST or abs(log_noise) > _FARTHEST:
        return -np.inf
    tau, k = math.exp(log_tau), math.exp(-2.0 * log_noise)
    square = tau * tau
    total = log_tau - 0.5 * (tau / spread) ** 2
    if shape > 0.0:
        total -= (2.0 * shape + levels.size) * log_noise + k * (rate + 0.5 * levels.squares)
    for j in range(len(levels.A)):
        inner = square * k * levels.A[j]
        total += 0.5 * square * (k * levels.b[j]) ** 2 / (1.0 + inner) - 0.5 * math.log1p(inner)
    return total


@njit(cache=True, nogil=True)
def _at_total(step, log_tau, log_noise, levels, spread, shape, rate):
    """Along the logarithm of the sum of both variances."""
    return log_density_of_scales(log_tau + step, log_noise + step, levels, spread, shape, rate)


@njit(cache=True, nogil=True)
def _shared_out(step, log_tau, log_noise):
    """Logarithms of both scales where the log odds of the first variance in the sum are larger by ``step``."""
    odds = 2.0 * (log_tau - log_noise)
    total = 2.0 * log_noise + np.logaddexp(0.0, odds)
    return 0.5 * (total - np.logaddexp(0.0, -odds - step)), 0.5 * (total - np.logaddexp(0.0, odds + step))


@njit(cache=True, nogil=True)
def _at_odds(step, log_tau, log_noise, levels, spread, shape, rate):
    """Along the log odds of the first variance in the sum."""
    tau, noise = _shared_out(step, log_tau, log_noise)
    return log_density_of_scales(tau, noise, levels, spread, shape, rate)


@njit(cache=True, nogil=True)
def _at_scale(step, log_tau, log_noise, levels, spread, shape, rate):
    """Along the logarithm of the first scale, the noise held where it is."""
    return log_density_of_scales(log_tau + step, log_noise, levels, spread, shape, rate)


@njit(cache=True, nogil=True)
def draw_level_scale(rng, rows, side, w, v, W, beta, effect, e, scale, spread, inverse_noise, shape, rate):
    """Draw the scale of effect ``e``, its effects, and the noise of all rows where ``shape`` is above 0.

    ``beta``, ``scale`` and ``inverse_noise`` change in place. Arguments as in
    :func:`zoo.inference.gibbs.many_shared.draw_by_steps`; ``effect`` (S,) says which effect each feature has.
    """
    A, b, one = np.empty_like(beta), np.empty_like(beta), np.ones_like(inverse_noise)
    known = one if shape > 0.0 else inverse_noise
    size, squares = _sums_of_levels(rows, side, w, v, W, beta, effect, e, known, A, b)
    mine = np.flatnonzero(effect == e)
    levels = Levels(A[mine], b[mine], size, squares)
    log_tau, log_noise, k = math.log(scale[e]), 0.0, 1.0
    if shape > 0.0:
        k = inverse_noise[0, 0]
        log_noise = -0.5 * math.log(k)
    rest = (levels, spread, shape, rate)
    log_tau += slice_move(rng, _at_scale, (log_tau, log_noise, *rest), _WIDTH, True)
    if shape > 0.0:
        step = slice_move(rng, _at_odds, (log_tau, log_noise, *rest), _WIDTH, True)
        log_tau, log_noise = _shared_out(step, log_tau, log_noise)
        step = slice_move(rng, _at_total, (log_tau, log_noise, *rest), _WIDTH, True)
        log_tau += step
        k = math.exp(-2.0 * (log_noise + step))
        inverse_noise[:] = k
    scale[e] = math.exp(log_tau)
    for j in range(len(mine)):
        # The effect in units of its scale, which may be next to nothing.
        precision = 1.0 + scale[e] * scale[e] * k * levels.A[j]
        unit = scale[e] * k * levels.b[j] / precision + rng.standard_normal() / math.sqrt(precision)
        beta[mine[j]] = scale[e] * unit
