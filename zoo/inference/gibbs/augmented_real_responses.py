r"""Compiled augmentations of real responses: Gaussian, Student-t and Laplace, scale mixtures of normal laws.

``draw`` fills a weight w and a linear term v of every row, so that given the auxiliary variables
the row adds :math:`-w f^2/2 + v f` to the log density of f. ``update`` draws the parameters under
the likelihood itself, that is with the auxiliary variables integrated out. It therefore has to come
right before ``draw``, which draws these anew given the new parameters: the two together are one
exact draw of parameters and auxiliary variables given f (van Dyk & Park 2008). Any step between
that reads the older w and v would change the law.

A row of weight h > 0 has the density :math:`p(y \mid f)^h`, normaliser included, as if it stood
there h times.

All functions share their first arguments:

- ``rng``: a numpy.random.Generator;
- ``f``, ``y``, ``weight``: function values, responses and weights of the rows, (N,) float64;
- ``task``: (N,) integers, in any order;
- ``parameters``: a named tuple of arrays, each (1,), one value for all rows, or (T,), one per task;
  ``update`` changes them in place;
- ``laws``: a named tuple of (3,) arrays, their priors as numbers of
  :mod:`zoo.inference.gibbs.parameter_laws`; a parameter whose law is ``fixed()`` keeps its value;
- ``w``, ``v``: written, (N,) float64;
- ``total``: written, sums over the rows of each task (T,), or of all (1,).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.draws import inverse_gaussians
from zoo.inference.gibbs.parameter_laws import (
    at,
    is_inverse_gamma_of_square,
    is_learned,
    log_law,
    rows_by_group,
    sums_by_group,
)
from zoo.inference.gibbs.slice_move import slice_move

__all__ = [
    "GaussianLaws",
    "GaussianParameters",
    "LaplaceLaws",
    "LaplaceParameters",
    "StudentTLaws",
    "StudentTParameters",
    "gaussian_draw",
    "gaussian_log_density",
    "gaussian_update",
    "laplace_draw",
    "laplace_log_density",
    "laplace_update",
    "student_t_draw",
    "student_t_log_density",
    "student_t_update",
]

_LOG_2_PI = math.log(2.0 * math.pi)
_TINY = np.finfo(np.float64).tiny


class GaussianParameters(NamedTuple):
    """Standard deviation ``noise``, (1,) or (T,)."""

    noise: np.ndarray


class GaussianLaws(NamedTuple):
    """Its law, (3,)."""

    noise: np.ndarray


class StudentTParameters(NamedTuple):
    """Scale ``noise`` and ``degrees`` of freedom, each (1,) or (T,)."""

    noise: np.ndarray
    degrees: np.ndarray


class StudentTLaws(NamedTuple):
    """Their laws, (3,) each."""

    noise: np.ndarray
    degrees: np.ndarray


class LaplaceParameters(NamedTuple):
    """Scale ``noise``, (1,) or (T,): the mean of abs(y - f)."""

    noise: np.ndarray


class LaplaceLaws(NamedTuple):
    """Its law, (3,)."""

    noise: np.ndarray


@njit(cache=True, nogil=True)
def gaussian_draw(rng, f, y, weight, task, parameters, w, v):
    r"""Fill :math:`w = h / \sigma^2` and :math:`v = w y`; nothing is random."""
    for n in range(len(f)):
        s = at(parameters.noise, task[n])
        w[n] = weight[n] / (s * s)
        v[n] = w[n] * y[n]


@njit(cache=True, nogil=True)
def gaussian_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of :math:`h \log N(y; f, \sigma^2)`."""
    total[:] = 0.0
    for n in range(len(f)):
        s = at(parameters.noise, task[n])
        r = (y[n] - f[n]) / s
        total[task[n] if len(total) > 1 else 0] -= weight[n] * (0.5 * r * r + math.log(s) + 0.5 * _LOG_2_PI)


@njit(cache=True, nogil=True)
def _log_density_of_scale(shift, size, squares, u, law):
    """Of the logarithm ``u + shift`` of a Gaussian scale, given the sums of weights and squares."""
    new = u + shift
    return -size * new - 0.5 * squares * math.exp(-2.0 * new) + log_law(law, new)


@njit(cache=True, nogil=True)
def gaussian_update(rng, f, y, weight, task, parameters, laws):
    r"""Draw the noise given f.

    With :math:`\sigma^2 \sim IG(a, b)` its conditional law is
    :math:`IG(a + \frac12 \sum h_n, \; b + \frac12 \sum h_n (y_n - f_n)^2)`; with another law of
    :math:`\sigma` one slice-sampling step in its logarithm leaves the conditional law unchanged.
    """
    if not is_learned(laws.noise):
        return
    noise = parameters.noise
    r = y - f
    size, squares = sums_by_group(task, weight, len(noise)), sums_by_group(task, weight * r * r, len(noise))
    for g in range(len(noise)):
        if is_inverse_gamma_of_square(laws.noise):
            rate = laws.noise[2] + 0.5 * squares[g]
            # A gamma variable of small shape may be 0 in float64.
            drawn = max(rng.standard_gamma(laws.noise[1] + 0.5 * size[g]), _TINY)
            noise[g] = math.sqrt(rate / drawn)
        else:
            u = math.log(noise[g])
            known = (size[g], squares[g], u, laws.noise)
            noise[g] = math.exp(u + slice_move(rng, _log_density_of_scale, known, _width(size[g]), True))


@njit(cache=True, nogil=True)
def _width(size):
    """Width of the first interval for the logarithm of a scale; wide enough for bad starts."""
    return max(0.1, 2.0 / math.sqrt(1.0 + size))


@njit(cache=True, nogil=True)
def student_t_draw(rng, f, y, weight, task, parameters, w, v):
    r"""Fill :math:`w = \lambda / \sigma^2` and :math:`v = w y` with a gamma variable per row.

    Up to factors without f the density of a row is, with r = y - f,

    .. math::

        \left( 1 + \frac{r^2}{\nu \sigma^2} \right)^{-h (\nu + 1) / 2}
        \propto \int_0^\infty \lambda^{h (\nu + 1)/2 - 1} e^{-\lambda \nu / 2} \;
        e^{-\lambda r^2 / (2 \sigma^2)} \, d\lambda,

    so that given f :math:`\lambda` is gamma with shape :math:`h (\nu + 1) / 2` and rate
    :math:`\nu / 2 + r^2 / (2 \sigma^2)`, for any h above 0. For h = 2 this is the law of the sum of
    two draws with h = 1, as it must be.
    """
    for n in range(len(f)):
        s, nu = at(parameters.noise, task[n]), at(parameters.degrees, task[n])
        r = (y[n] - f[n]) / s
        w[n] = rng.standard_gamma(0.5 * weight[n] * (nu + 1.0)) / (0.5 * (nu + r * r)) / (s * s)
        v[n] = w[n] * y[n]


@njit(cache=True, nogil=True)
def _t_normaliser(nu):
    r"""Log of :math:`\Gamma((\nu + 1)/2) / (\Gamma(\nu/2) \sqrt{\nu \pi})`.

    For large nu it comes from its asymptotic series: the logarithms of two large gamma functions
    would leave no digits of their difference.
    """
    if nu < 100.0:
        return math.lgamma(0.5 * (nu + 1.0)) - math.lgamma(0.5 * nu) - 0.5 * math.log(nu * math.pi)
    x = 2.0 / nu
    return -0.5 * _LOG_2_PI - x * (1.0 / 8.0 - x * x * (1.0 / 192.0 - x * x / 640.0))


@njit(cache=True, nogil=True)
def student_t_log_density(f, y, weight, task, parameters, total):
    """Fill the sums of h times the log density of Student's t, normalisers included."""
    total[:] = 0.0
    last, constant = -1.0, 0.0
    for n in range(len(f)):
        s, nu = at(parameters.noise, task[n]), at(parameters.degrees, task[n])
        if nu != last:
            last, constant = nu, _t_normaliser(nu)
        r = (y[n] - f[n]) / s
        value = constant - math.log(s) - 0.5 * (nu + 1.0) * math.log1p(r * r / nu)
        total[task[n] if len(total) > 1 else 0] += weight[n] * value


@njit(cache=True, nogil=True)
def _log_density_of_noise(shift, start, stop, squares, powers, size, u, law):
    """Of the logarithm ``u + shift`` of the scale.

    ``squares``: r^2 / (nu s^2) at a shift of 0; ``powers``: h (nu + 1) / 2.
    """
    shrink = math.exp(-2.0 * shift)
    total = log_law(law, u + shift) - size * shift
    for i in range(start, stop):
        total -= powers[i] * math.log1p(squares[i] * shrink)
    return total


@njit(cache=True, nogil=True)
def _log_density_of_degrees(shift, start, stop, squares, weights, size, u, law):
    """Of the logarithm ``u + shift`` of the degrees of freedom; ``squares``: r^2 / s^2."""
    nu = math.exp(u + shift)
    logs = 0.0
    for i in range(start, stop):
        logs += weights[i] * math.log1p(squares[i] / nu)
    return log_law(law, u + shift) + size * _t_normaliser(nu) - 0.5 * (nu + 1.0) * logs


@njit(cache=True, nogil=True)
def student_t_update(rng, f, y, weight, task, parameters, laws):
    """Draw scales, then degrees of freedom, given f, under the density of Student's t itself.

    Each gets one slice-sampling step in its logarithm. A step of one task's parameter reads the
    rows of that task alone.
    """
    squares, factors = np.empty(len(f)), np.empty(len(f))
    if is_learned(laws.noise):
        noise = parameters.noise
        order, starts = rows_by_group(task, len(noise))
        for g in range(len(noise)):
            size = 0.0
            for i in range(starts[g], starts[g + 1]):
                n = order[i]
                nu = at(parameters.degrees, task[n])
                r = (y[n] - f[n]) / noise[g]
                squares[i] = r * r / nu
                factors[i] = 0.5 * weight[n] * (nu + 1.0)
                size += weight[n]
            u = math.log(noise[g])
            known = (starts[g], starts[g + 1], squares, factors, size, u, laws.noise)
            noise[g] = math.exp(u + slice_move(rng, _log_density_of_noise, known, _width(size), True))
    if is_learned(laws.degrees):
        degrees = parameters.degrees
        order, starts = rows_by_group(task, len(degrees))
        for g in range(len(degrees)):
            size = 0.0
            for i in range(starts[g], starts[g + 1]):
                n = order[i]
                r = (y[n] - f[n]) / at(parameters.noise, task[n])
                squares[i] = r * r
                factors[i] = weight[n]
                size += weight[n]
            u = math.log(degrees[g])
            known = (starts[g], starts[g + 1], squares, factors, size, u, laws.degrees)
            degrees[g] = math.exp(u + slice_move(rng, _log_density_of_degrees, known, 1.0, True))


@njit(cache=True, nogil=True)
def laplace_draw(rng, f, y, weight, task, parameters, w, v):
    r"""Fill w with an inverse Gaussian variable per row, and v = w y (Park & Casella 2008, Section 2).

    With r = y - f and c = h / s the density of a row is, up to a factor without f,

    .. math::

        e^{-c |r|} = \int_0^\infty e^{-\omega r^2 / 2} p(\omega) \, d\omega,

    and given f :math:`\omega` is inverse Gaussian with mean :math:`c / |r|` and shape :math:`c^2`. That is
    :math:`c^2` times one of mean :math:`1 / (c |r|)` and shape 1, which is what is drawn.
    """
    for n in range(len(f)):
        # A row that the function meets exactly has an infinite mean, for which the draw has its limit.
        distance = weight[n] * abs(y[n] - f[n]) / at(parameters.noise, task[n])
        w[n] = 1.0 / distance if distance > 0.0 else np.inf
    inverse_gaussians(rng, w, w)
    for n in range(len(f)):
        c = weight[n] / at(parameters.noise, task[n])
        w[n] *= c * c
        v[n] = w[n] * y[n]


@njit(cache=True, nogil=True)
def laplace_log_density(f, y, weight, task, parameters, total):
    r"""Fill the sums of :math:`-h (|y - f| / s + \log 2 s)`."""
    total[:] = 0.0
    for n in range(len(f)):
        s = at(parameters.noise, task[n])
        value = abs(y[n] - f[n]) / s + math.log(2.0 * s)
        total[task[n] if len(total) > 1 else 0] -= weight[n] * value


@njit(cache=True, nogil=True)
def _log_density_of_spread(shift, size, distance, u, law):
    """Of the logarithm ``u + shift`` of a Laplace scale, given the sums of weights and of distances."""
    new = u + shift
    return -size * new - distance * math.exp(-new) + log_law(law, new)


@njit(cache=True, nogil=True)
def laplace_update(rng, f, y, weight, task, parameters, laws):
    """Draw the noise given f, under the Laplace law itself: one slice-sampling step in its logarithm."""
    if not is_learned(laws.noise):
        return
    noise = parameters.noise
    size = sums_by_group(task, weight, len(noise))
    distance = sums_by_group(task, weight * np.abs(y - f), len(noise))
    for g in range(len(noise)):
        u = math.log(noise[g])
        known = (size[g], distance[g], u, laws.noise)
        noise[g] = math.exp(u + slice_move(rng, _log_density_of_spread, known, _width(size[g]), True))
