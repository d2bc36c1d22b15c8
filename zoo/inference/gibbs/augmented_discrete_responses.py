r"""Compiled augmentations of labels and counts, by Pólya-Gamma variables.

Both are instances of eq (2) of Polson, Scott & Windle (2013): :math:`(e^\psi)^a / (1 + e^\psi)^b`
is a mixture over :math:`\omega \sim PG(b, 0)` of :math:`\exp(\kappa \psi - \omega \psi^2 / 2)` with
:math:`\kappa = a - b/2`, under which :math:`\omega` given f is :math:`PG(b, \psi)`. A row of weight
h > 0, which counts like h rows, has h times both powers.

The arguments are those of :mod:`zoo.inference.gibbs.augmented_real_responses`, and so is the order of the
steps: ``update``, which integrates the auxiliary variables out, comes right before ``draw``.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.parameter_laws import at, is_learned, log_law, rows_by_group
from zoo.inference.gibbs.polya_gamma import polya_gamma
from zoo.inference.gibbs.slice_move import slice_move

__all__ = [
    "RARE",
    "LogisticParameters",
    "NegativeBinomialLaws",
    "NegativeBinomialParameters",
    "has_a_rare_label",
    "logistic_draw",
    "logistic_log_density",
    "logistic_slopes",
    "negative_binomial_draw",
    "negative_binomial_log_density",
    "negative_binomial_update",
]

# Share of a label below which moves under the likelihood pay.
RARE = 0.1


class LogisticParameters(NamedTuple):
    """No parameters."""


class NegativeBinomialParameters(NamedTuple):
    """``dispersion`` d, (1,) or (T,): the mean is m = exp(f), the variance m + m^2 / d."""

    dispersion: np.ndarray


class NegativeBinomialLaws(NamedTuple):
    """Its law, (3,)."""

    dispersion: np.ndarray


@njit(cache=True, nogil=True)
def _softplus(x):
    return max(x, 0.0) + math.log1p(math.exp(-abs(x)))


@njit(cache=True, nogil=True)
def logistic_draw(rng, f, y, weight, task, parameters, w, v):
    r"""Fill :math:`w \sim PG(h, f)` and :math:`v = h y / 2`, for labels y of -1 and +1.

    The density :math:`(1 + e^{-y f})^{-h}` is :math:`(e^{f})^{a} / (1 + e^f)^h`, where a is h for
    y = 1 and 0 for y = -1, so that :math:`\kappa = h y / 2`.
    """
    for n in range(len(f)):
        w[n] = polya_gamma(rng, weight[n], f[n])
        v[n] = 0.5 * weight[n] * y[n]


@njit(cache=True, nogil=True)
def logistic_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of :math:`-h \log(1 + e^{-y f})`."""
    total[:] = 0.0
    for n in range(len(f)):
        total[task[n] if len(total) > 1 else 0] -= weight[n] * _softplus(-y[n] * f[n])


@njit(cache=True, nogil=True)
def logistic_slopes(f, y, weight, task, parameters, slope, curvature):
    r"""Fill :math:`h y\, q` and :math:`h q (1 - q)`, where q is the probability of the other label."""
    for n in range(len(f)):
        e = math.exp(-abs(f[n]))
        less, more = e / (1.0 + e), 1.0 / (1.0 + e)
        slope[n] = weight[n] * y[n] * (less if y[n] * f[n] > 0.0 else more)
        curvature[n] = weight[n] * less * more


def has_a_rare_label(y: np.ndarray, weight: np.ndarray) -> bool:
    """Whether the weights of one label are below a tenth of all."""
    share = float(weight[y > 0].sum() / weight.sum())
    return min(share, 1.0 - share) < RARE


@njit(cache=True, nogil=True)
def negative_binomial_draw(rng, f, y, weight, task, parameters, w, v):
    r"""Fill :math:`w \sim PG(h (y + d), \psi)` and :math:`v = h (y - d) / 2 + w \log d`.

    With :math:`\psi = f - \log d` the density is a factor without f times
    :math:`(e^\psi)^{hy} / (1 + e^\psi)^{h (y + d)}`, so that :math:`\kappa = h (y - d) / 2`, and
    :math:`\kappa \psi - w \psi^2 / 2` is :math:`-w f^2 / 2 + (\kappa + w \log d) f` and a constant.
    """
    for n in range(len(f)):
        d = at(parameters.dispersion, task[n])
        log_d = math.log(d)
        w[n] = polya_gamma(rng, weight[n] * (y[n] + d), f[n] - log_d)
        v[n] = 0.5 * weight[n] * (y[n] - d) + w[n] * log_d


@njit(cache=True, nogil=True)
def _log_rising(d, y):
    r"""Log of :math:`\Gamma(d + y) / (\Gamma(d) d^y)`; by Stirling's series for large d.

    There the logarithms of the two gamma functions would leave few digits of their difference,
    while the first term that is left out, 1 / (1260 d^5), is below 1e-13.
    """
    if y == 0.0:
        return 0.0
    if d < 100.0:
        return math.lgamma(d + y) - math.lgamma(d) - y * math.log(d)
    a, b = 1.0 / (d + y), 1.0 / d
    series = a * (1.0 - a * a / 30.0) - b * (1.0 - b * b / 30.0)
    return (d + y - 0.5) * math.log1p(y / d) - y + series / 12.0


@njit(cache=True, nogil=True)
def _log_negative_binomial(f, y, d, log_d):
    """Log density without ``-log y!``."""
    return _log_rising(d, y) + y * f - (y + d) * _softplus(f - log_d)


@njit(cache=True, nogil=True)
def negative_binomial_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of h times the log density, without the factor :math:`1 / y!`."""
    total[:] = 0.0
    for n in range(len(f)):
        d = at(parameters.dispersion, task[n])
        total[task[n] if len(total) > 1 else 0] += weight[n] * _log_negative_binomial(
            f[n], y[n], d, math.log(d)
        )


@njit(cache=True, nogil=True)
def _log_density_of_dispersion(shift, order, start, stop, f, y, weight, u, law):
    """Of the logarithm ``u + shift`` of the dispersion."""
    log_d = u + shift
    d = math.exp(log_d)
    total = log_law(law, log_d)
    for i in range(start, stop):
        n = order[i]
        total += weight[n] * _log_negative_binomial(f[n], y[n], d, log_d)
    return total


@njit(cache=True, nogil=True)
def negative_binomial_update(rng, f, y, weight, task, parameters, laws):
    """Draw dispersions given f, under the negative binomial law itself.

    Each gets one slice-sampling step in its logarithm.
    """
    if not is_learned(laws.dispersion):
        return
    dispersion = parameters.dispersion
    order, starts = rows_by_group(task, len(dispersion))
    for g in range(len(dispersion)):
        u = math.log(dispersion[g])
        known = (order, starts[g], starts[g + 1], f, y, weight, u, laws.dispersion)
        dispersion[g] = math.exp(u + slice_move(rng, _log_density_of_dispersion, known, 0.5, True))
