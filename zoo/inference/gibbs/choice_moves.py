r"""Moves of the coefficients of tasks under a multinomial logit likelihood, and where all moves look from.

Each row is an alternative, and each choice c is a set of rows of one task of which one was chosen:

.. math::

    \log p(\text{chosen} \mid f) = f_{n(c)} - \log \sum_{m \in c} e^{f_m}, \quad f_m = o_m + x_m' w_t .

All alternatives share their coefficients, so that no Pólya-Gamma variable makes this Gaussian in w.

**Before anything is drawn**, stochastic EM finds a population near the posterior, and for each task the averages over
its draws of the coefficients, :math:`b_t`, and of minus the Hessian of the log likelihood, :math:`H_t`. The gradient
averages to :math:`g_t = P (b_t - \mu)`, since that of the log posterior averages to zero. (A normal law with such
averages is the best one in the sense of variational approximations, Opper & Archambeau 2009; the mode of a skewed
likelihood lies aside of it.) They stay as they are.

**The coefficients of a task.** The likelihood of a task is near
:math:`\exp(g_t'(w - b_t) - \tfrac12 (w - b_t)' H_t (w - b_t))`. With the prior :math:`N(\mu, P^{-1})` that is a normal
law with the precision and the mean

.. math::

    A = H_t + P, \quad \hat b = A^{-1} (H_t b_t + g_t + P \mu) .

Each sweep takes one step of elliptical slice sampling around it (:mod:`zoo.inference.gibbs.elliptical_slice`) and one
around the prior :math:`N(\mu, P^{-1})` alone. The first one makes draws that hardly depend on each other where the
likelihood is near a normal law. Where a person's answers can be told apart without an error, it is not: there the
second one moves. (Proposals of a t law, taken by the rule of Metropolis and Hastings, got stuck for thousands of
sweeps with such persons of real data.) The normal laws depend on the population and on the data, and not on w.

The population moves with its tasks in :mod:`zoo.inference.gibbs.choice_population`.

Rossi, Allenby & McCulloch (2005), section 5.3, draw the coefficients of a task by a random walk with the increments
:math:`s^2 (H_t + P)^{-1}`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.choice_likelihood import Choices, add_derivatives, log_density
from zoo.inference.gibbs.choice_population import blocks, move_population
from zoo.inference.gibbs.elliptical_slice import CLOSED, shrunk
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.triangular import factorise, normal_step, solve_lower, solve_transposed

__all__ = ["ChoiceMoves", "Reference", "reference_of"]

# Newton's steps to a mode, how far one may move the function value of a row, and which one is the last.
_STEPS, _FAR, _CLOSE = 20, 3.0, 1e-3
# Rounds of stochastic EM, and turns of which each keeps the average; the population only has to be near.
_ROUNDS, _KEPT = 2, 50


class Reference(NamedTuple):
    """What the likelihood of each task is like near its posterior.

    Parameters
    ----------
    point, gradient : (T, D)
        Coefficients, and the gradient of the log likelihood there; averages.
    curvature : (T, D, D)
        Minus the Hessian, on average.
    mean, cov : (D,), (D, D)
        The population.
    """

    point: np.ndarray
    gradient: np.ndarray
    curvature: np.ndarray
    mean: np.ndarray
    cov: np.ndarray


@njit(cache=True, nogil=True)
def _farthest(choices, first, last, step):
    """How far a step moves the function value of any row of these choices."""
    far = 0.0
    for n in range(choices.starts[first], choices.starts[last]):
        moved = 0.0
        for d in range(len(step)):
            moved += choices.inputs[n, d] * step[d]
        far = max(far, abs(moved))
    return far


@njit(cache=True, nogil=True)
def _climb(choices, t, mean, precision, point, factor):
    """Newton's steps of task t towards the mode of its coefficients, in place; ``factor`` is work space."""
    first, last = choices.tasks[t], choices.tasks[t + 1]
    D = len(point)
    step = np.empty(D)
    for _ in range(_STEPS):
        for i in range(D):
            step[i] = 0.0
            for j in range(D):
                step[i] += precision[i, j] * (mean[j] - point[j])
                factor[i, j] = precision[i, j]
        add_derivatives(choices, first, last, point, step, factor, True)
        factorise(factor)
        solve_lower(factor, step)
        solve_transposed(factor, step)
        far = _farthest(choices, first, last, step)
        for d in range(D):
            point[d] += step[d] * min(1.0, _FAR / max(far, 1e-300))
        if far < _CLOSE:
            break


@njit(cache=True, nogil=True)
def _modes(choices, mean, precision, points):
    """Modes of all tasks from ``points`` (T, D) on, in place."""
    factor = np.empty(precision.shape)
    for t in range(len(points)):
        _climb(choices, t, mean, precision, points[t], factor)


@njit(cache=True, nogil=True)
def _derivatives(choices, points, gradient, curvature):
    """Gradient and curvature of the log likelihood of each task."""
    gradient[:] = 0.0
    curvature[:] = 0.0
    D = points.shape[1]
    for t in range(len(points)):
        add_derivatives(
            choices, choices.tasks[t], choices.tasks[t + 1], points[t], gradient[t], curvature[t], True
        )
        for i in range(D):
            for j in range(i):
                curvature[t, j, i] = curvature[t, i, j]


@njit(cache=True, nogil=True)
def _quadratic(reference, t, w):
    """What the reference says of the log likelihood of a task, up to a constant."""
    total = 0.0
    for i in range(len(w)):
        apart = w[i] - reference.point[t, i]
        total += reference.gradient[t, i] * apart
        for j in range(len(w)):
            total -= 0.5 * apart * reference.curvature[t, i, j] * (w[j] - reference.point[t, j])
    return total


@njit(cache=True, nogil=True)
def _move_tasks(rng, choices, reference, mu, P, W, density, informed):
    """One step for the coefficients W (T, D) of each task, in place; ``density`` (T,): their log likelihoods.

    Around the normal law of prior and reference where ``informed``, else around the prior alone.
    """
    D = len(mu)
    factor, mean, there = np.empty((D, D)), np.empty(D), np.empty(D)
    for t in range(len(W)):
        for i in range(D):
            mean[i] = reference.gradient[t, i] if informed else 0.0
            for j in range(D):
                factor[i, j] = P[i, j]
                mean[i] += P[i, j] * mu[j]
                if informed:
                    factor[i, j] += reference.curvature[t, i, j]
                    mean[i] += reference.curvature[t, i, j] * reference.point[t, j]
        factorise(factor)
        solve_lower(factor, mean)
        solve_transposed(factor, mean)
        step = normal_step(rng, factor)
        level = density[t] - rng.standard_exponential()
        if informed:
            level -= _quadratic(reference, t, W[t])
        angle = 2.0 * np.pi * rng.random()
        low, high = angle - 2.0 * np.pi, angle
        while high - low > CLOSED:
            for d in range(D):
                there[d] = mean[d] + (W[t, d] - mean[d]) * np.cos(angle) + step[d] * np.sin(angle)
            then = log_density(choices, choices.tasks[t], choices.tasks[t + 1], there)
            if then - (_quadratic(reference, t, there) if informed else 0.0) > level:
                W[t] = there
                density[t] = then
                break
            angle, low, high = shrunk(rng, angle, low, high)


@njit(cache=True, nogil=True)
def _densities(choices, W, density):
    """Log likelihood of each task."""
    for t in range(len(W)):
        density[t] = log_density(choices, choices.tasks[t], choices.tasks[t + 1], W[t])


class ChoiceMoves:
    """The moves of one chain.

    Parameters
    ----------
    choices : Choices
        Their inputs may be multiplied by new scales; then :meth:`rescale` has to follow.
    reference : Reference
        Of :func:`reference_of` for scales of 1.
    """

    def __init__(self, choices: Choices, reference: Reference):
        self.choices = choices
        self._first = self.reference = reference
        self.density = np.empty(len(choices.tasks) - 1)
        self.stale = True  # whether the densities are those of other coefficients

    def rescale(self, scales: np.ndarray) -> None:
        """Follow inputs that are those of the beginning, multiplied by ``scales`` (D,)."""
        self.stale = True
        point, gradient, curvature, mean, cov = self._first
        both = np.outer(scales, scales)
        self.reference = Reference(
            point / scales, gradient * scales, curvature * both, mean / scales, cov / both
        )

    def population(
        self, rng: np.random.Generator, W: np.ndarray, mu: np.ndarray, P: np.ndarray, nu: float, law: MeanLaw
    ) -> None:
        """All moves; W (T, D), mu (D,) and P (D, D), the inverse of the covariance, in place."""
        if self.stale:
            _densities(self.choices, W, self.density)
            self.stale = False
        start = (self.reference.mean, self.reference.cov)
        for _ in range(blocks(len(mu))):
            move_population(rng, self.choices, *start, W, mu, P, nu, law, self.density)
        for informed in (True, False):
            _move_tasks(rng, self.choices, self.reference, mu, P, W, self.density, informed)


def reference_of(choices: Choices, pi: float, nu: float) -> Reference:
    """A population by stochastic EM (Celeux & Diebolt 1985), and what its turns say of each task on average.

    Plain Laplace's method is no way to it: of tasks with few choices it finds half of the covariance.
    """
    T, D = len(choices.tasks) - 1, choices.inputs.shape[1]
    rng, density = np.random.default_rng(0), np.empty(T)
    # That of the mean of an inverse Wishart law: at its mode, the spread of few tasks would shrink to nothing.
    weight = max(nu + T - D - 1.0, 1.0)
    found = _modes_of(choices)
    gradient, curvature = np.empty((T, D)), np.empty((T, D, D))
    for _ in range(_ROUNDS):
        W, mean, cov = found.point.copy(), found.mean, found.cov
        points, curvatures, means, covs = (np.zeros(part.shape) for part in (W, curvature, mean, cov))
        _densities(choices, W, density)
        for turn in range(2 * _KEPT):
            _move_tasks(rng, choices, found, mean, np.linalg.inv(cov), W, density, turn % 2 == 0)
            mean = W.sum(axis=0) / (T + pi)
            apart = W - mean
            cov = (np.eye(D) + apart.T @ apart + pi * np.outer(mean, mean)) / weight
            if turn >= _KEPT:
                _derivatives(choices, W, gradient, curvature)
                for total, now in ((points, W), (curvatures, curvature), (means, mean), (covs, cov)):
                    total += now / _KEPT
        pull = np.linalg.solve(covs, (points - means).T).T
        found = Reference(points, pull, curvatures, means, covs)
    return found


def _modes_of(choices: Choices) -> Reference:
    """The modes of the tasks under standard normal coefficients, and the likelihood there."""
    T, D = len(choices.tasks) - 1, choices.inputs.shape[1]
    point, gradient, curvature = np.zeros((T, D)), np.empty((T, D)), np.empty((T, D, D))
    mean, cov = np.zeros(D), np.eye(D)
    _modes(choices, mean, cov, point)
    _derivatives(choices, point, gradient, curvature)
    return Reference(point, gradient, curvature, mean, cov)
