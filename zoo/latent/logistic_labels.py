r"""Labels with the logistic link under a normal law of their function: tilted moments, and means under that law.

Let the f of a row be normal with mean :math:`\mu` and variance :math:`s^2`, and its log density :math:`\ell(f) = -h
\log(1 + e^{-yf})` with the weight h. This module computes the two sets of numbers that approximate posteriors are made
of: the moments of :math:`N(f; \mu, s^2) e^{\ell(f)}` for expectation propagation, and the means of :math:`\ell` and of
its derivatives under :math:`N(\mu, s^2)` for the variational bound.

A Gauss-Hermite rule fails where the standard deviation s is much larger than 1, since the link is a step there. The
integrals are made by Gauss-Legendre rules on panels instead. The panels cover all of a density that is log-concave to
within e^-45 of its peak. Their ends are at the edges of the step, which no panel may straddle: the link has poles at
:math:`f = \pm i \pi`, and a rule converges fast on panels that are short against their distance to the poles.

The variable of integration is :math:`z = (f - \mu) / s`, which keeps its digits for any s, 0 included. The derivatives
of :math:`\log Z` in :math:`\mu` are means of derivatives of :math:`\ell` (by parts), and not differences of moments
over :math:`s^2`, which have no digits for small s.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from zoo.latent.function_mode import LogisticResponses

__all__ = ["Expected", "LogisticLabels", "Tilted"]

# Nats below the peak at which a density is cut off, and standard deviations at which a normal one is there.
_DEPTH = 45.0
_REACH = float(np.sqrt(2.0 * _DEPTH))
# Ends of panels about the step of the link, nodes of a panel, and equal parts of the whole range.
_EDGES = np.array([-40.0, -12.0, -3.0, 3.0, 12.0, 40.0])
_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(20)
_PARTS = 4
# Halvings of the ranges of the peak, and of the ends of the density, which need not be exact.
_PEAK_HALVINGS, _END_HALVINGS = 60, 25
_TINY = 1e-150


class Tilted(NamedTuple):
    r"""Of the density :math:`N(f; \mu, s^2) e^{\ell(f)} / Z`, each (n,).

    ``log_z`` is :math:`\log Z`, ``slope`` its derivative in :math:`\mu`, ``curvature`` minus its second derivative, and
    ``share`` the variance of the density over :math:`s^2`, which is 1 less the curvature times :math:`s^2`.
    """

    log_z: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray
    share: np.ndarray


class Expected(NamedTuple):
    r"""Means under :math:`N(\mu, s^2)` of :math:`\ell`, of its derivative, and of minus its second one, each (n,)."""

    value: np.ndarray
    slope: np.ndarray
    curvature: np.ndarray


class LogisticLabels(LogisticResponses):
    """The same as :class:`~zoo.latent.function_mode.LogisticResponses`, with what sites ask of labels."""

    def copies(self) -> tuple[np.ndarray, LogisticLabels]:
        """How many rows alike each row stands for (n,), and one of these; a weight below 1 stays a power."""
        return np.maximum(self._h, 1.0), type(self)(self.y, np.minimum(self._h, 1.0))

    def tilted(self, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """Moments of the normal laws (n,) times the densities of the labels.

        Parameters
        ----------
        mean, variance : (n,) arrays
            Variances are 0 or above.
        """
        mu, s, h = self.y * mean, np.maximum(np.sqrt(variance), _TINY), self._h
        low, high, peak = _support(mu, s, h)
        edges = (_EDGES + np.log(np.maximum(h, 1.0))[:, None] - mu[:, None]) / s[:, None]
        z, weight = _panels(low, high, edges)
        f = mu[:, None] + s[:, None] * z
        log_density = h[:, None] * log_expit(f) - 0.5 * z**2
        mass = weight * np.exp(log_density - peak[:, None])
        total = mass.sum(axis=1)
        mass /= total[:, None]
        missed = expit(-f)
        slopes = h[:, None] * missed
        slope = np.einsum("nq,nq->n", mass, slopes)
        bend = np.einsum("nq,nq,nq->n", mass, slopes, 1.0 - missed)
        spread = np.einsum("nq,nq->n", mass, (slopes - slope[:, None]) ** 2)
        centre = np.einsum("nq,nq->n", mass, z)
        share = np.einsum("nq,nq->n", mass, (z - centre[:, None]) ** 2)
        log_z = peak + np.log(total) - 0.5 * np.log(2.0 * np.pi)
        return Tilted(log_z, self.y * slope, np.maximum(bend - spread, 0.0), np.minimum(share, 1.0))

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> Expected:
        """Means of the log density and its derivatives under normal laws (n,).

        Parameters
        ----------
        mean, variance : (n,) arrays
            Variances are 0 or above.
        """
        mu, s, h = self.y * mean, np.maximum(np.sqrt(variance), _TINY), self._h
        reach = np.full(len(mu), _REACH)
        z, weight = _panels(-reach, reach, (_EDGES - mu[:, None]) / s[:, None])
        f = mu[:, None] + s[:, None] * z
        mass = weight * np.exp(-0.5 * z**2) / np.sqrt(2.0 * np.pi)
        missed = expit(-f)
        value = h * np.einsum("nq,nq->n", mass, log_expit(f))
        slope = self.y * h * np.einsum("nq,nq->n", mass, missed)
        return Expected(value, slope, h * np.einsum("nq,nq,nq->n", mass, missed, 1.0 - missed))


def _panels(low: np.ndarray, high: np.ndarray, edges: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (n, q) of the ranges from low to high (n,), with the edges (n, k) among the ends of panels."""
    parts = low[:, None] + (high - low)[:, None] * np.linspace(0.0, 1.0, _PARTS + 1)
    ends = np.sort(np.column_stack([parts, np.clip(edges, low[:, None], high[:, None])]), axis=1)
    half = 0.5 * np.diff(ends, axis=1)[:, :, None]
    centre = 0.5 * (ends[:, 1:] + ends[:, :-1])[:, :, None]
    nodes, weights = centre + half * _NODES, half * _WEIGHTS
    return nodes.reshape(len(low), -1), weights.reshape(len(low), -1)


def _support(mu: np.ndarray, s: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Where ``h log_expit(mu + s z) - z^2 / 2`` is within 45 of its peak, from low to high (n,), and the peak.

    The second derivative is below -1, so the peak is between 0 and h s, and the ends are within ``sqrt(90)`` of it.
    """

    def log_density(z: np.ndarray) -> np.ndarray:
        return np.asarray(h * log_expit(mu + s * z) - 0.5 * z**2)

    left, right = np.zeros(len(mu)), h * s
    for _ in range(_PEAK_HALVINGS):
        middle = 0.5 * (left + right)
        rises = h * s * expit(-(mu + s * middle)) > middle
        left, right = np.where(rises, middle, left), np.where(rises, right, middle)
    top = 0.5 * (left + right)
    peak = log_density(top)
    ends = []
    for side in (-1.0, 1.0):
        inner, outer = top, top + side * _REACH
        for _ in range(_END_HALVINGS):
            middle = 0.5 * (inner + outer)
            deep = log_density(middle) < peak - _DEPTH
            inner, outer = np.where(deep, inner, middle), np.where(deep, middle, outer)
        ends.append(outer)
    return ends[0], ends[1], peak
