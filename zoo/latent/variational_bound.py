r"""The best normal approximation of latent Gaussian functions, by a lower bound on the log evidence.

Of all normal laws :math:`q = N(m, V)` of f (n,) the one that is nearest to the posterior, in the divergence
:math:`KL(q \| p)`, maximises

.. math:: L(m, V) = \sum_n E_q[\log p(y_n|f_n)] - KL(q \| N(0, K)) \le \log p(y).

There :math:`V^{-1} = K^{-1} + \operatorname{diag}(\tau)`, so 2 n numbers say everything (Opper & Archambeau 2009), and
with :math:`m = K a`, v the diagonal of V, and expectations that are made by quadrature,

.. math::

    L = \sum_n E_q[\log p(y_n|f_n)] - \tfrac12 a'm + \tfrac12 \sum_n \tau_n v_n
    - \tfrac12 \log|I + \tau^{1/2} K \tau^{1/2}|,

    a_n = E_q[\partial_f \log p(y_n|f_n)], \qquad \tau_n = -E_q[\partial_f^2 \log p(y_n|f_n)]

at the maximum, where the derivative in K is that of :mod:`zoo.latent.gaussian_sites`.

Why this bound: the other one for logistic labels, of Jaakkola & Jordan (2000), which Polya-Gamma variables give too,
replaces each log density by a parabola below it. So it bounds L from below, for every q, and its maximum is a looser
bound with a worse normal law. What it saves is the quadrature, which costs less here than the Cholesky factor.

How it is climbed: sites move towards the right-hand sides above, all at once. That is the natural gradient of L, in
which the step of the mean is Newton's (Khan & Lin 2017). The natural gradient always points uphill, so a step that is
halved until L grows is safe. L is concave in m and the Cholesky factor of V where the log densities are (Challis &
Barber 2013), so there is one maximum.
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

__all__ = ["bounded_evidence"]

# What rounding may take from the bound, as a share of its terms: at least, and at most, where variances are large.
_ROUNDING = (1e-12, 1e-9)


def bounded_evidence(
    K: Dense, responses: SiteResponses, start: Mode | None = None, quiet: bool = False
) -> Evidence:
    """The largest lower bound on the log evidence by a normal law, its derivative in K, and the law as a mode.

    Arguments and errors are those of :func:`zoo.latent.expectation_propagation.propagated_evidence`; weights of rows
    multiply their log densities.

    Returns
    -------
    Evidence
        Its mode's ``f`` is the mean. ``converged`` is False, and a warning is logged, where the maximum was not found;
        the value is a bound all the same.
    """

    def at(sites: Sites) -> Point:
        law = SiteLaw(K, sites)
        expected = responses.expected(law.mean, law.variance)
        asked = Sites(expected.curvature, expected.slope + expected.curvature * law.mean)
        terms = np.array([
            expected.value.sum(), -0.5 * law.a @ law.mean, 0.5 * sites.precision @ law.variance,
            -0.5 * law.solver.log_det,
        ])  # fmt: skip
        lost = np.finfo(np.float64).eps * np.max(sites.precision * np.diag(K.K))
        rounding = float(np.clip(lost, *_ROUNDING) * np.abs(terms).sum())
        return Point(law, asked, distance(law, expected.slope, asked.precision), float(terms.sum()), rounding)

    point, converged = settle(
        at, starts(K, responses, start), climbs=True, name=None if quiet else "The variational bound"
    )
    return site_evidence(K, point.value, found_mode(point.law, responses, converged))
