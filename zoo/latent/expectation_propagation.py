r"""Expectation propagation for latent Gaussian functions with log-concave responses (Minka 2001).

Each row has a site (:mod:`zoo.latent.gaussian_sites`). The law without it, the cavity, is normal with variance
:math:`s^2 = v / (1 - \tau v)` and mean :math:`\mu = m - s^2 a`. The site is chosen so that cavity times site has the
mean and the variance of cavity times response (Rasmussen & Williams 2006, section 3.6). With :math:`\alpha` and
:math:`-\beta` the first and second derivative in :math:`\mu` of :math:`\log Z_n = \log \int N(f; \mu, s^2) p(y_n|f)
df`, that site is

.. math:: \tau = \frac{\beta}{1 - \beta s^2}, \qquad \nu = \frac{\alpha + \beta \mu}{1 - \beta s^2},

and all of them are right where :math:`a = \alpha` and :math:`R_{nn} = \beta`. The log evidence is

.. math::

    \log Z = \sum_n \Big\{ \log Z_n + \tfrac12 \log(1 + \tau_n s_n^2)
    - \frac{2 \nu_n \mu_n + \nu_n^2 s_n^2 - \tau_n \mu_n^2}{2 (1 + \tau_n s_n^2)} \Big\}
    + \tfrac12 \nu' m - \tfrac12 \log|I + \tau^{1/2} K \tau^{1/2}|,

which is their eq 3.65 with the sums put together so that a site of no precision divides by nothing. All sites change
in one step, with one factorisation, and not one after the other as in their algorithm 3.5; the fixed points are the
same.

A row of weight :math:`w > 1` is as many rows alike, of which each has the same site by symmetry: the cavity leaves
one of them out, :math:`s^2 = v / (1 - \tau v / w)` and :math:`\mu = m - s^2 a / w`, the site is w times that of one,
and its term counts w times. A weight below 1 is a power of the density.

The log evidence at the fixed point is stationary in the sites, but no bound, and nothing guarantees that a fixed
point is found. For log-concave responses every law on the way is proper, and failure is reported.
"""

from __future__ import annotations

import numpy as np

from zoo.latent.gaussian_sites import (
    Point,
    SiteLaw,
    SiteResponses,
    Sites,
    distance,
    found_mode,
    settle,
    site_evidence,
    starts,
)
from zoo.latent.latent_gaussian import Dense, Evidence, Mode
from zoo.latent.logistic_labels import Tilted

__all__ = ["propagated_evidence"]


def propagated_evidence(
    K: Dense, responses: SiteResponses, start: Mode | None = None, quiet: bool = False
) -> Evidence:
    """The log evidence by expectation propagation, its derivative in K, and the normal law as a mode.

    Parameters
    ----------
    K : Dense
        Prior covariance (n, n) of the functions; it may be singular.
    responses : SiteResponses
        Log-concave, such as :class:`zoo.latent.logistic_labels.LogisticLabels`. A row of weight 2 is two rows.
    start : Mode, optional
        What was found at another covariance of the same rows.
    quiet : bool
        Whether a search looks at ``converged`` itself, so that nothing is logged.

    Returns
    -------
    Evidence
        Its mode's ``f`` is the mean. ``converged`` is False, and a warning is logged, where no fixed point was found.

    Raises
    ------
    numpy.linalg.LinAlgError
        K with the sites has no Cholesky factor.
    """
    copies, one = responses.copies()

    def at(sites: Sites) -> Point:
        law = SiteLaw(K, sites)
        mean, variance = _cavity(law, copies)
        tilted = one.tilted(mean, variance)
        shift = (tilted.slope + tilted.curvature * mean) / tilted.share
        asked = Sites(copies * tilted.curvature / tilted.share, copies * shift)
        return Point(law, asked, distance(law, copies * tilted.slope, asked.precision))

    point, converged = settle(
        at, starts(K, responses, start), climbs=False, name=None if quiet else "Expectation propagation"
    )
    law = point.law
    mean, variance = _cavity(law, copies)
    value = _log_evidence(law, copies, mean, variance, one.tilted(mean, variance))
    return site_evidence(K, value, found_mode(law, responses, converged))


def _cavity(law: SiteLaw, copies: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (n,) of every row without its own site, or without that of one of its copies."""
    variance = copies * law.variance / np.maximum(copies - 1.0 + law.kept, np.finfo(np.float64).tiny)
    return law.mean - variance * law.a / copies, variance


def _log_evidence(
    law: SiteLaw, copies: np.ndarray, mean: np.ndarray, variance: np.ndarray, tilted: Tilted
) -> float:
    tau, nu = (part / copies for part in law.sites)
    grown = 1.0 + tau * variance
    own = 0.5 * np.log(grown) - 0.5 * (2.0 * nu * mean + nu**2 * variance - tau * mean**2) / grown
    return float(copies @ (tilted.log_z + own) + 0.5 * law.sites.shift @ law.mean - 0.5 * law.solver.log_det)
