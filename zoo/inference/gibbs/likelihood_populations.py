r"""Moves of coefficients and their population together under the likelihood itself, for rare labels.

:mod:`zoo.inference.gibbs.likelihood_moves` says why auxiliary variables are integrated out, and where the
moves stand. Rows that say little of a task let its coefficients follow the population, which then hardly
moves given them. The moves here take both along (an interweaving with the draw of the population given the
coefficients, Yu & Meng 2011).

**Regression on the other features, normal-inverse-Wishart.** Let :math:`g_t` be a 1 and the coefficients of task t but
that of feature d, and P the inverse of the population's covariance, with the prior :math:`W(\nu, I)`. Then

.. math::

    w_{td} = \theta' g_t + e_t, \quad e_t \sim N(0, 1 / P_{dd}), \quad P_{dd} \sim \chi^2_\nu, \quad
    \theta \sim N(0, (P_{dd} \Lambda)^{-1}), \quad \Lambda = \mathrm{diag}(\pi, 1, \dots, 1) .

Without the constant :math:`\theta_0 = \mu_d - \bar\theta' \mu_{-d}` it is
:math:`\bar\theta = - P_{-d,d} / P_{dd}`. The prior of the other features' mean and covariance, whose inverse
is :math:`P_{-d,-d} - P_{dd} \bar\theta \bar\theta'`, does not depend on :math:`\theta`, :math:`P_{dd}` and e. Given
these, e and :math:`P_{dd}`, all that :math:`\theta` changes is
:math:`f_n = o_n + x_{nd} (e_t + \theta' g_t)`. It is drawn, one feature after the other, by the step
of :mod:`zoo.inference.gibbs.likelihood_moves`, from a start at 0, or for the constant at the mode where tasks
are alike. What the rows of a task say are two sums.

Where the mean has a prior of its own (:mod:`zoo.inference.gibbs.own_mean`), :math:`g_t` holds the other coefficients
less their means, the constant is :math:`\mu_d`, and its prior precision is :math:`k_d`; :math:`\theta` changes no
other mean.

**Scale of a task, matrix normal.** With :math:`h_t \to a h_t`, and row and column t of the precision P of tasks
divided by a, the prior of H given P does not change. As in :func:`zoo.inference.gibbs.group_moves.task_moves`,
:math:`u = \log a` has the log density
:math:`-\nu u - \tfrac12 \Psi_{tt} P_{tt} e^{-2u} - \sum_{s \ne t} \Psi_{ts} P_{ts} e^{-u} + \log p(y \mid f(u))`:
one slice-sampling step.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.likelihood_moves import CLOSE, FAR, STEPS, Likelihood, LikelihoodMoves
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.slice_move import slice_of
from zoo.inference.gibbs.t_proposal import draw_from_t, log_proposal
from zoo.inference.gibbs.triangular import factorise, solve_lower, solve_transposed

__all__ = ["population_moves", "task_scales"]

_WIDTH = 0.5
# Features that a sweep regresses at most, which are chosen at random: each takes O(N + T D^2).
_FEATURES = 10


@njit(cache=True, nogil=True)
def _begin(block, d, W, f, x, base, reach):
    """Inputs of the feature, function values without it, and its largest input in each task."""
    for t in range(len(W)):
        reach[t] = 0.0
        for n in range(block.starts[t], block.starts[t + 1]):
            x[n] = block.inputs[block.row[n], d]
            base[n] = f[n] - x[n] * W[t, d]
            reach[t] = max(reach[t], abs(x[n]))


@njit(cache=True, nogil=True)
def _values(starts, x, base, column, f):
    """Function values where the feature has these coefficients, (T,)."""
    for t in range(len(column)):
        for n in range(starts[t], starts[t + 1]):
            f[n] = base[n] + x[n] * column[t]


@njit(cache=True, nogil=True)
def _regression(W, P, mu, d, tied, design, theta):
    """Fill ``design`` (T, D) with g and ``theta`` (D,); the errors (T,)."""
    design[:, 0] = 1.0
    theta[0] = mu[d]
    k = 1
    for j in range(len(mu)):
        if j != d:
            theta[k] = -P[j, d] / P[d, d]
            if tied:
                design[:, k] = W[:, j]
                theta[0] -= theta[k] * mu[j]
            else:
                design[:, k] = W[:, j] - mu[j]
            k += 1
    return W[:, d] - design @ theta


@njit(cache=True, nogil=True)
def _newton(starts, x, reach, slope, curvature, design, prior, point, factor):
    """A step of Newton's method; how far it moves a function value at most."""
    D = len(point)
    step = -prior * point
    factor[:] = np.diag(prior)
    for t in range(len(design)):
        first, second = 0.0, 0.0
        for n in range(starts[t], starts[t + 1]):
            first += slope[n] * x[n]
            second += curvature[n] * x[n] * x[n]
        for i in range(D):
            step[i] += first * design[t, i]
            part = second * design[t, i]
            for j in range(i + 1):
                factor[i, j] += part * design[t, j]
    factorise(factor)
    solve_lower(factor, step)
    solve_transposed(factor, step)
    moved = design @ step
    far = 0.0
    for t in range(len(design)):
        far = max(far, abs(moved[t]) * reach[t])
    point += step * min(1.0, FAR / max(far, 1e-300))
    return far


@njit(cache=True, nogil=True)
def _propose(rng, prior, theta, point, factor):
    """Replace ``point`` by the proposal; the log ratio without the likelihood."""
    step = draw_from_t(rng, factor)
    ratio = log_proposal(factor, theta - point) - log_proposal(factor, step)
    point += step
    for k in range(len(theta)):
        ratio -= 0.5 * prior[k] * (point[k] * point[k] - theta[k] * theta[k])
    return ratio


@njit(cache=True, nogil=True)
def _put_regression(P, mu, d, tied, theta, old):
    """The precision and the mean with the regression ``theta`` in place of ``old``."""
    D = len(P)
    new, before = np.zeros(D), np.zeros(D)
    k = 1
    for j in range(D):
        if j != d:
            new[j], before[j] = theta[k], old[k]
            k += 1
    for i in range(D):
        if i != d:
            for j in range(D):
                if j != d:
                    P[i, j] += P[d, d] * (new[i] * new[j] - before[i] * before[j])
            P[i, d] = P[d, i] = -P[d, d] * new[i]
    mu[d] = theta[0] + new @ mu if tied else theta[0]


def population_moves(
    rng: np.random.Generator,
    moves: LikelihoodMoves,
    W: np.ndarray,
    mu: np.ndarray,
    P: np.ndarray,
    law: MeanLaw,
    f: np.ndarray,
) -> None:
    """The regressions of features; W (T, D), mu (D,), P (D, D) and f (N,) change in place.

    P is changed by differences, so it has to be drawn anew before rounding adds up.
    """
    likelihood, block = moves.likelihood, moves.tasks
    (T, D), starts = W.shape, block.starts
    x, base, there = np.empty(len(f)), np.empty(len(f)), np.empty(len(f))
    reach, design, theta, factor = np.empty(T), np.empty((T, D)), np.empty(D), np.empty((D, D))
    now = likelihood.log_density(f, 1)[0]
    for d in rng.permutation(D)[:_FEATURES]:
        _begin(block, d, W, f, x, base, reach)
        errors = _regression(W, P, mu, d, law.tied, design, theta)
        prior, point = np.full(D, P[d, d]), np.zeros(D)
        prior[0] = law.pi * P[d, d] + law.own[d]
        point[0] = moves.start[0, d]
        for _ in range(STEPS):
            _values(starts, x, base, errors + design @ point, there)
            likelihood.slopes(there, block.slope, block.curvature)
            if _newton(starts, x, reach, block.slope, block.curvature, design, prior, point, factor) < CLOSE:
                break
        ratio = _propose(rng, prior, theta, point, factor)
        column = errors + design @ point
        _values(starts, x, base, column, there)
        then = likelihood.log_density(there, 1)[0]
        if ratio + then - now > -rng.standard_exponential():
            now = then
            W[:, d] = column
            f[:] = there
            _put_regression(P, mu, d, law.tied, point, theta)


def task_scales(
    rng: np.random.Generator,
    moves: LikelihoodMoves,
    H: np.ndarray,
    P: np.ndarray,
    nu: float,
    scale: np.ndarray,
    f: np.ndarray,
) -> None:
    """The scale of each task; H (T, D), P (T, T) and f (N,) change in place.

    ``nu`` and ``scale`` (T, T), or (0, 0) for the identity, are those of the inverse-Wishart prior.
    """
    block = moves.tasks
    for t, likelihood in enumerate(moves.by_task):
        part = slice(block.starts[t], block.starts[t + 1])
        offset = block.offset[part]
        second = P[t, t] * (scale[t, t] if scale.size else 1.0)
        first = float(scale[t] @ P[t] - second) if scale.size else 0.0
        grown = _log_density_of_scale(likelihood, offset, f[part] - offset, nu, first, second)
        a = np.exp(slice_of(rng, grown, _WIDTH))
        H[t] *= a
        f[part] = offset + a * (f[part] - offset)
        P[t] /= a
        P[:, t] /= a


def _log_density_of_scale(
    likelihood: Likelihood, offset: np.ndarray, own: np.ndarray, nu: float, first: float, second: float
) -> Callable[[float], float]:
    """Of its logarithm u."""

    def log_density(u: float) -> float:
        a = np.exp(u)
        value = likelihood.log_density(offset + a * own, 1)[0]
        return float(value - nu * u - 0.5 * second / (a * a) - first / a)

    return log_density
