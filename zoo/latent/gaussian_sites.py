r"""Normal laws of latent functions that a site per row makes of the prior, and the steps that change the sites.

Expectation propagation and the variational bound both approximate the posterior of f (n,) by

.. math:: q(f) \propto N(f; 0, K) \prod_n \exp(\nu_n f_n - \tfrac12 \tau_n f_n^2), \qquad \tau_n \ge 0,

which has the form of Laplace's approximation: precision :math:`K^{-1} + \operatorname{diag}(\tau)` and mean
:math:`m = K a` with :math:`a = \nu - \tau m`. What they differ in is the sites that they ask for, given q. So
:class:`SiteLaw` is what both know of q, and :func:`found_mode` hands it over as the ``Mode`` that
:mod:`zoo.latent.latent_gaussian` has for Laplace's law. Predictions, draws and coefficients are made of that by the
same code. At the end of either the derivative of the log evidence in K is

.. math:: S = \tfrac12 a a' - \tfrac12 R, \qquad R = (K + \operatorname{diag}(\tau)^{-1})^{-1},

since the sites are stationary there (Rasmussen & Williams 2006, eq 5.27, for expectation propagation).
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular

from zoo.inference.acceleration import Memory
from zoo.inference.responses import Responses
from zoo.latent.latent_gaussian import Dense, Evidence, Mode, find_mode
from zoo.latent.logistic_labels import Expected, Tilted

__all__ = [
    "Point",
    "SiteLaw",
    "SiteResponses",
    "Sites",
    "distance",
    "found_mode",
    "settle",
    "site_evidence",
    "starts",
]

# Share of a prior variance that the data must take before its two formulas are equally good.
_WEAK = 1e-4
# Steps at most; the distance from rest at which they end, and up to which their end still counts as rest; how many may
# bring no point nearer there, where rounding is what is left.
_MOST_STEPS, _TOLERANCE, _NEAR, _PATIENCE = 500, 1e-10, 1e-5, 25
# The shortest step that is taken without looking, how often one is halved that is looked at, and the least share of a
# precision that an extrapolation leaves.
_SHORTEST, _HALVINGS, _LEAST = 0.02, 30, 0.1
_NO_PARAMETERS = np.zeros(0)


class SiteResponses(Responses, Protocol):
    """Responses without parameters whose log density is concave in f, and whose means under normal laws are known."""

    def tilted(self, mean: np.ndarray, variance: np.ndarray) -> Tilted:
        """Moments of normal laws (n,) times the densities."""

    def expected(self, mean: np.ndarray, variance: np.ndarray) -> Expected:
        """Means of the log densities and their derivatives under normal laws (n,)."""

    def copies(self) -> tuple[np.ndarray, SiteResponses]:
        """How many rows alike each row stands for (n,), 1 or above, and the responses of one of them."""


class Sites(NamedTuple):
    r"""Precisions :math:`\tau` and shifts :math:`\nu`, each (n,)."""

    precision: np.ndarray
    shift: np.ndarray

    def towards(self, other: Sites, share: float) -> Sites:
        """Sites on the line to others; every law on the way is proper, since precisions stay 0 or above."""
        return Sites(*(own + share * (there - own) for own, there in zip(self, other, strict=True)))


class SiteLaw:
    """The normal law of f that sites make of the prior: mean, ``a = K^-1 mean``, variances (n,), and the solver.

    ``kept`` (n,) is the share by which a row's own site leaves the variance: of a cavity (Rasmussen & Williams 2006, eq
    3.56) the variance is ``variance / kept``.

    Parameters
    ----------
    K : Dense
        Prior covariance (n, n).
    sites : Sites
        One per row.
    """

    def __init__(self, K: Dense, sites: Sites):
        self.K, self.sites = K, sites
        tau, nu = sites
        self.solver = K.with_information(tau)
        self.a = nu - self.solver.R(K.times(nu))
        self.mean = K.times(self.a)
        # That is a difference of large numbers where K is; what it leaves is solved for again.
        left = nu - tau * self.mean - self.a
        self.a = self.a + left - self.solver.R(K.times(left))
        self.mean = K.times(self.a)
        self.kept = np.ones(len(tau))
        here = tau > 0.0
        self.kept[here] = np.clip(self.solver.R_diagonal()[here] / tau[here], 0.0, 1.0)
        self.variance = np.empty(len(tau))
        strong = self.kept < 1.0 - _WEAK
        self.variance[strong] = (1.0 - self.kept[strong]) / tau[strong]
        weak = np.flatnonzero(~strong)
        half = solve_triangular(
            self.solver.factor, self.solver.root[:, None] * K.K[:, weak], lower=True, check_finite=False
        )
        self.variance[weak] = np.diag(K.K)[weak] - np.einsum("ij,ij->j", half, half)
        self.variance = np.maximum(self.variance, 0.0)


def starts(K: Dense, responses: Responses, found: Mode | None) -> Iterator[Sites]:
    """Where to start: at the sites of a law found at another K, then at those of Laplace's law, then at none."""
    if found is not None:
        yield _sites_of(found.solver.root**2, found)
    mode = find_mode(K, responses, _NO_PARAMETERS)
    yield _sites_of(mode.density.information, mode)
    yield Sites(np.zeros(responses.size), np.zeros(responses.size))


def _sites_of(tau: np.ndarray, mode: Mode) -> Sites:
    return Sites(tau, mode.a + tau * mode.f)


class Point(NamedTuple):
    """A law with what a method makes of it: the sites it asks for, how far it is from them, and the value there.

    ``value`` grows in every step of a method that climbs, but for ``rounding``; it is 0 where there is none.
    """

    law: SiteLaw
    asked: Sites
    left: float
    value: float = 0.0
    rounding: float = 0.0


def distance(law: SiteLaw, slope: np.ndarray, precision: np.ndarray) -> float:
    """How far a law is from rest: the largest change, over rows, of a mean in sds or of a variance as a share of it.

    At rest the law has ``a = slope`` (n,), and sites with the precisions (n,).
    """
    moved = np.abs(slope - law.a) * np.sqrt(law.variance)
    bent = np.abs(precision - law.sites.precision) * law.variance
    return float(np.max(np.maximum(moved, bent)))


def settle(
    at: Callable[[Sites], Point], begin: Iterator[Sites], climbs: bool, name: str | None
) -> tuple[Point, bool]:
    """Change the sites until they are those that the method asks for; say so in the log where they never are.

    A step is Anderson's extrapolation (:mod:`zoo.inference.acceleration`) from the last ones where that is better, or
    else goes towards the sites that are asked for. A point is better if its value is larger, or else, if their
    difference is within rounding, where it is nearer to rest.

    Parameters
    ----------
    at : callable
        The point of sites.
    begin : iterator of Sites
        Where to start; the next one is taken where the steps from the last came to no rest.
    climbs : bool
        Whether a step that is short enough makes the value larger: then steps are halved until they do. Else they are
        taken, and become shorter where points get no nearer to rest.
    name : str, optional
        Of the method, for the warning. Without it the caller looks at ``converged``, and nothing is logged.

    Returns
    -------
    point, converged
    """
    best, taken = None, 0
    for sites in begin:
        found, steps = _settled(at, sites, climbs)
        taken += steps
        if best is None or found.left < best.left:
            best = found
        if best.left <= _NEAR:
            return best, True
    assert best is not None
    if name is not None:
        logging.getLogger("zoo").warning(
            "%s did not converge: after %d steps the function at one row still moved by %.1e posterior standard "
            "deviations, so that the posterior and its evidence are wrong. "
            'Fit with method "laplace" or "nuts".',
            name,
            taken,
            best.left,
        )
    return best, False


def _settled(at: Callable[[Sites], Point], start: Sites, climbs: bool) -> tuple[Point, int]:
    """The point nearest to rest that steps from a start come to, and their number."""
    point = best = at(start)
    memory, share, idle = Memory(), 1.0, 0
    for taken in range(_MOST_STEPS):
        if best.left <= _TOLERANCE or (best.left <= _NEAR and idle >= _PATIENCE):
            return best, taken
        new = _extrapolated(at, point, memory)
        if new is None and climbs:
            new, share = _halved(at, point, min(1.0, 2.0 * share))
            if new is None:
                return best, taken
        elif new is None:
            new = at(point.law.sites.towards(point.asked, share))
            share = max(_SHORTEST, 0.5 * share) if new.left > point.left else min(1.0, 1.2 * share)
        point = new
        idle = 0 if point.left < best.left else idle + 1
        if climbs or idle == 0:
            best = point
    return best, _MOST_STEPS


def _better(new: Point, old: Point) -> bool:
    gain, rounding = new.value - old.value, max(new.rounding, old.rounding)
    return gain > rounding or (gain >= -rounding and new.left < old.left)


def _extrapolated(at: Callable[[Sites], Point], point: Point, memory: Memory) -> Point | None:
    """The point of Anderson's extrapolation, or None where it is not better."""
    law = point.law
    here, image = np.concatenate(law.sites), np.concatenate(point.asked)
    memory.add(image - here, image)
    proposal = memory.propose(np.concatenate([law.variance, np.sqrt(law.variance)]))
    if proposal is None:
        return None
    tau, nu = np.split(proposal, 2)
    lowest = _LEAST * np.minimum(law.sites.precision, point.asked.precision)
    tried = at(Sites(np.maximum(tau, lowest), nu))
    if _better(tried, point):
        return tried
    memory.forget()
    return None


def _halved(at: Callable[[Sites], Point], point: Point, share: float) -> tuple[Point | None, float]:
    """A better point on the way to the sites that are asked for, and its share of it; None if rounding hides it."""
    for _ in range(_HALVINGS):
        new = at(point.law.sites.towards(point.asked, share))
        if _better(new, point):
            return new, share
        share /= 2.0
    return None, share


def found_mode(law: SiteLaw, responses: Responses, converged: bool) -> Mode:
    """The law as the ``Mode`` of the functions, whose f is the mean here, and whose density is the one there."""
    density = responses.density(law.mean, _NO_PARAMETERS)
    return Mode(law.mean, law.a, density, law.solver, converged)


def site_evidence(K: Dense, value: float, mode: Mode) -> Evidence:
    """The evidence with its derivative in K, at stationary sites."""
    return Evidence(value, K.slopes(mode, None), _NO_PARAMETERS, mode)
