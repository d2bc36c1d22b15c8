r"""Labels of a latent Gaussian function: expectation propagation, and the best normal law by the variational bound.

The function f (n,) at the rows has the prior N(0, K), and the label of row n the density
:math:`p(y_n \mid f_n) = (1 + e^{-y_n f_n})^{-w_n}` with its weight :math:`w_n`. Laplace's approximation
(:mod:`zoo.latent.latent_gaussian`) takes the curvature at the mode; of a skew posterior mode and mean differ, and its
probabilities are too near one half. Both methods here replace each density by a site
:math:`\exp(\nu_n f_n - \tfrac12 \tau_n f_n^2)`, so that the posterior is the normal law q with the precision
:math:`K^{-1} + T`, :math:`T = \mathrm{diag}(\tau)`, and the mean :math:`m = (K^{-1} + T)^{-1} \nu`. With
:math:`R = (T^{-1} + K)^{-1}`, :math:`a = K^{-1} m = \nu - R K \nu`, and variances :math:`v_n` of q, they differ in what
the sites are.

**Expectation propagation** (Minka 2001; Rasmussen & Williams 2006, section 3.6). Without its site the law of
:math:`f_n` is the cavity, with precision :math:`c_n = 1 / v_n - \tau_n` and mean
:math:`\mu_n = (m_n / v_n - \nu_n) / c_n`. The site is such that q has the moments of the cavity times
:math:`p(y_n \mid f_n)`, :math:`\tau_n = 1 / \hat v_n - c_n` and
:math:`\nu_n = \hat m_n / \hat v_n - c_n \mu_n`. With the normalisers :math:`\hat Z_n` of these products the evidence is

.. math::

    \log Z_{EP} = \sum_n \Bigl( \log \hat Z_n + \tfrac12 \log(1 + \tau_n / c_n)
    - \tfrac12 \Bigl[ \frac{(\nu_n + c_n \mu_n)^2}{\tau_n + c_n} - c_n \mu_n^2 \Bigr] \Bigr)
    - \tfrac12 \log|I + T^{1/2} K T^{1/2}| + \tfrac12 \nu' m .

All sites move at once, by a share of the way that shrinks where they do not come nearer.

**The variational bound** (Opper & Archambeau 2009). Of all normal laws q the one that is best in

.. math:: \log p(y) \ge \sum_n E_q \log p(y_n \mid f_n) - KL(q \,\|\, N(0, K))

has such sites, :math:`\tau_n = -E_q \partial^2 \log p(y_n \mid f_n)` and
:math:`\nu_n = E_q \partial \log p(y_n \mid f_n) + \tau_n m_n`. Steps towards these values are natural gradients (Khan &
Lin 2017), and are shortened until the bound climbs. The logistic function is not bounded by a parabola, which would be
looser.

At the fixed point of either the derivative of the evidence, or bound, in K is :math:`\tfrac12 (a a' - R)`, since it is
stationary in the sites (Rasmussen & Williams 2006, eq 5.27).

One-dimensional integrals are by double exponential quadrature (Takahasi & Mori 1974) on pieces that end at 0, where the
density bends, and at the mode: a cavity may be a thousand times as wide as this bend.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from zoo.inference.responses import Density
from zoo.latent.function_mode import LogisticResponses
from zoo.latent.latent_gaussian import Dense, Evidence, Mode, find_mode

__all__ = ["Sites", "expectation_propagation", "sites_of", "tilted_moments", "variational_bound"]

# Nodes of a piece, and standard deviations of the normal law beyond which nothing is left.
_T = np.arange(-32, 33) * 0.1
_FAR = 9.5
_BISECTIONS = 60
# Steps; the change of means (in standard deviations) and of log variances that ends them, and that which still counts
# as an end; the largest share of the way, the least, and the factors after a bad and a good step.
_MOST_STEPS, _TOLERANCE, _NEAR = 300, 1e-8, 1e-5
_SHARE, _LEAST_SHARE, _SLOWER, _FASTER = 0.9, 0.001, 0.6, 1.1


class Sites(NamedTuple):
    """Precisions and linear terms (n,) of the sites."""

    tau: np.ndarray
    nu: np.ndarray


def _pieces(low: np.ndarray, middle: np.ndarray, high: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Nodes and weights (n, nodes) of the intervals from low to high, cut at ``middle`` and at 0."""
    zero = np.clip(0.0, low, high)
    ends = np.stack([low, np.minimum(middle, zero), np.maximum(middle, zero), high])
    inner = 0.5 * np.pi * np.sinh(_T)
    share = expit(2.0 * inner)  # (1 + tanh) / 2
    slope = 0.1 * np.pi * np.cosh(_T) * share * expit(-2.0 * inner)
    lengths = np.diff(ends, axis=0)
    x = ends[:-1, :, None] + lengths[:, :, None] * share
    w = lengths[:, :, None] * slope
    return np.concatenate(list(x), axis=1), np.concatenate(list(w), axis=1)


def _normal_logpdf(x: np.ndarray, mean: np.ndarray, precision: np.ndarray) -> np.ndarray:
    c = precision[:, None]
    return np.asarray(0.5 * np.log(c / (2.0 * np.pi)) - 0.5 * c * (x - mean[:, None]) ** 2)


def tilted_moments(
    y: np.ndarray, weight: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log normaliser, mean and variance (n,) of ``(1 + exp(-y f))^-weight N(f; mean, 1 / precision)``.

    Parameters
    ----------
    y, weight : (n,) arrays
        Labels -1/+1, and weights above 0.
    mean, precision : (n,) arrays
        Of the normal law; the precision above 0.
    """
    # The mode: between the mean, and where the slope of the label, at most its weight, would take it.
    inner, outer = mean.copy(), mean + y * weight / precision
    for _ in range(_BISECTIONS):
        middle = 0.5 * (inner + outer)
        climbs = weight * expit(-y * middle) > y * (middle - mean) * precision
        inner, outer = np.where(climbs, middle, inner), np.where(climbs, outer, middle)
    reach = _FAR / np.sqrt(precision)
    x, w = _pieces(inner - reach, inner, inner + reach)
    logs = weight[:, None] * log_expit(y[:, None] * x) + _normal_logpdf(x, mean, precision)
    top = logs.max(axis=1, keepdims=True)
    density = w * np.exp(logs - top)
    total = density.sum(axis=1)
    density /= total[:, None]
    first = np.einsum("nk,nk->n", density, x)
    second = np.einsum("nk,nk->n", density, (x - first[:, None]) ** 2)
    return np.log(total) + top[:, 0], first, second


class _Approximation:
    """Sites with what follows from them."""

    def __init__(self, K: Dense, sites: Sites):
        self.sites, self.solver = sites, K.with_information(sites.tau)
        self.a = sites.nu - self.solver.R(K.times(sites.nu))
        self.mean, self.variance = K.times(self.a), self.solver.variance()

    def mode(self, value: float, converged: bool) -> Mode:
        """What :func:`zoo.latent.latent_gaussian.find_mode` gives; the mean takes the place of the mode."""
        tau = self.sites.tau
        density = Density(value, self.a, tau, np.zeros(len(tau)), tau)
        return Mode(self.mean, self.a, density, self.solver, converged)


_Update = Callable[[_Approximation], tuple[Sites, float]]


def _start(K: Dense, y: np.ndarray, weight: np.ndarray) -> Sites:
    """The sites of Laplace's approximation, whose search is safe."""
    found = find_mode(K, LogisticResponses(y, weight), np.zeros(0))
    tau = found.density.information
    return Sites(tau, found.density.slope + tau * found.f)


def _follow(K: Dense, update: _Update, sites: Sites, climbs: bool) -> Evidence:
    """Move the sites to the fixed point of ``update``, which gives what they shall be and the evidence.

    With ``climbs`` a step that makes the evidence smaller is shortened, else one after which the moments move faster.
    """
    now = _Approximation(K, sites)
    wanted, value = update(now)
    share, left, converged = _SHARE, np.inf, False
    for _ in range(_MOST_STEPS):
        step = Sites(*(old + share * (new - old) for old, new in zip(now.sites, wanted, strict=True)))
        new = _Approximation(K, step)
        new_wanted, new_value = update(new)
        moved = (
            max(
                float(np.max(np.abs(new.mean - now.mean) / np.sqrt(now.variance))),
                float(np.max(np.abs(np.log(new.variance / now.variance)))),
            )
            / share
        )
        worse = new_value < value - 1e-12 * abs(value) if climbs else moved > left
        if not np.isfinite(new_value) or not np.isfinite(moved) or (worse and moved > _NEAR):
            if share <= _LEAST_SHARE:
                break
            share = max(_SLOWER * share, _LEAST_SHARE)
            if climbs or not np.isfinite(new_value) or not np.isfinite(moved):
                continue
        else:
            share = min(_FASTER * share, _SHARE)
        now, wanted, value, left = new, new_wanted, new_value, moved
        converged = moved <= _NEAR
        if moved <= _TOLERANCE:
            break
    return Evidence(
        value, Dense.slopes(now.mode(value, converged), None), np.zeros(0), now.mode(value, converged)
    )


def _weights(y: np.ndarray, weight: np.ndarray | None) -> np.ndarray:
    return np.ones(len(y)) if weight is None else weight


def expectation_propagation(
    K: Dense, y: np.ndarray, weight: np.ndarray | None = None, start: Sites | None = None
) -> Evidence:
    """Expectation propagation: the approximate log evidence, its slope in K, and the normal law of f.

    Parameters
    ----------
    K : Dense
        Prior covariance (n, n).
    y : (n,) array
        Labels -1/+1.
    weight : (n,) array, optional
        Weights of the rows, above 0.
    start : Sites, optional
        Sites to start from; :func:`sites_of` gives those of a result.

    Returns
    -------
    Evidence
        ``mode.f`` and ``mode.a`` hold the mean and ``K^-1`` times it, ``mode.density.information`` the precisions of
        the sites. ``mode.converged`` says whether the sites stand still.
    """
    h = _weights(y, weight)

    def update(now: _Approximation) -> tuple[Sites, float]:
        tau, nu = now.sites
        c = np.maximum(1.0 / now.variance - tau, 1e-12 / now.variance)
        mu = (now.mean / now.variance - nu) / c
        log_total, mean, variance = tilted_moments(y, h, mu, c)
        own = log_total + 0.5 * np.log1p(tau / c) - 0.5 * ((nu + c * mu) ** 2 / (tau + c) - c * mu**2)
        value = float(own.sum()) - 0.5 * now.solver.log_det + 0.5 * float(nu @ now.mean)
        # The density is log-concave, so that no label makes f less certain.
        return Sites(np.maximum(1.0 / variance - c, 0.0), mean / variance - c * mu), value

    return _follow(K, update, _start(K, y, h) if start is None else start, climbs=False)


def variational_bound(
    K: Dense, y: np.ndarray, weight: np.ndarray | None = None, start: Sites | None = None
) -> Evidence:
    """The normal law with the largest bound of the log evidence; arguments as in :func:`expectation_propagation`."""
    h = _weights(y, weight)

    def update(now: _Approximation) -> tuple[Sites, float]:
        mean, precision = now.mean, 1.0 / now.variance
        reach = _FAR * np.sqrt(now.variance)
        x, w = _pieces(mean - reach, mean, mean + reach)
        w = w * np.exp(_normal_logpdf(x, mean, precision))
        yx = y[:, None] * x
        expected = h * np.einsum("nk,nk->n", w, log_expit(yx))
        slope = h * y * np.einsum("nk,nk->n", w, expit(-yx))
        information = h * np.einsum("nk,nk->n", w, expit(yx) * expit(-yx))
        tau = now.sites.tau
        divergence = 0.5 * (float(now.a @ mean) - float(tau @ now.variance) + now.solver.log_det)
        return Sites(information, slope + information * mean), float(expected.sum()) - divergence

    return _follow(K, update, _start(K, y, h) if start is None else start, climbs=True)


def sites_of(found: Mode) -> Sites:
    """The sites of a result, to start the next one from."""
    tau = found.density.information
    return Sites(tau, found.a + tau * found.f)
