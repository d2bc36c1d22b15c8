r"""Posterior mode and Laplace approximation of functions with a Gaussian prior and any smooth responses.

Newton's method on :math:`\log p(y \mid f) - \tfrac12 \|f\|^2_K`: each step is the Gaussian conditional with the
information :math:`\omega` of the responses and :math:`\nu = \omega f + \nabla \log p(y \mid f)` (Rasmussen & Williams
2006, section 3.4). The information is minus the second derivative, or its expectation where the log density is not
concave; it is never below 0, so that each step climbs if it is short enough. At the mode the normaliser of the
conditional gives the evidence,

.. math:: \log Z_{Laplace} = \log Z(\omega, \nu) + \log p(y \mid f) + \sum_n \omega_n f_n^2 / 2 - \nu_n f_n .

Its derivative in hyper-parameters of K is that of :math:`\log Z(\omega, \nu)`, which the prior gives, and what the
movement of the mode adds, formula (V4) of the page on varying coefficients: :math:`u' \, dK \, a` with
:math:`a = \nabla \log p(y \mid f)`, :math:`u = (I + H K)^{-1} s`, H minus the second derivative, and
:math:`s_n = -\tfrac12 \Sigma_{nn} \, d\omega_n / df_n`. Without information the prior's derivative is
:math:`\tfrac12 \nu' \, dK \, \nu`, so that half the difference of those at :math:`\nu = a + u` and :math:`a - u`
is that term, whatever holds the functions.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from zoo.inference.responses import Density
from zoo.latent.function_prior import FunctionPrior
from zoo.latent.mode_movement import second_derivative, solve_near

__all__ = ["LogisticResponses", "Mode", "evidence", "find_mode"]

_MAX_STEPS = 100


class Mode(NamedTuple):
    """The Gaussian at the mode, its log evidence, and the log joint density ``log p(y | f) - |f|^2 / 2``."""

    conditional: Any
    log_evidence: float
    log_joint: float
    f: np.ndarray
    """Function values at the rows, (N,)."""
    density: Density


class LogisticResponses:
    """Labels -1/+1 with the logistic link: :class:`zoo.inference.responses.Responses` without parameters of their own.

    Parameters
    ----------
    y : (n,) array
        Labels.
    weight : (n,) array, optional
        Weights of the rows, above 0, which multiply their log densities.
    """

    learned: tuple[str, ...] = ()

    def __init__(self, y: np.ndarray, weight: np.ndarray | None = None):
        self.y, self._h = y, np.ones(len(y)) if weight is None else weight

    @property
    def size(self) -> int:
        """Number of rows."""
        return len(self.y)

    @staticmethod
    def parameter_slopes(f: np.ndarray, parameters: np.ndarray) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """There are no parameters."""
        return []

    def density(self, f: np.ndarray, parameters: np.ndarray) -> Density:
        """The density and its derivatives in f."""
        p, h = expit(f), self._h
        information = h * p * (1.0 - p)
        slope = h * ((self.y + 1.0) / 2.0 - p)
        value = float((h * log_expit(self.y * f)).sum())
        return Density(value, slope, information, information * (1.0 - 2.0 * p), information)


def find_mode(
    prior: FunctionPrior, numbers: Any, responses: Any, parameters: np.ndarray, tol: float = 1e-10
) -> Mode:
    """Mode of the functions given responses and the prior's numbers.

    Parameters
    ----------
    prior, numbers
        Functions with a Gaussian prior, and the numbers of their covariance.
    responses : LogisticResponses or DifferentiatedResponses
    parameters : (k,) array
        What the responses have learned, in free coordinates.
    tol : float
        Relative gain to stop at.
    """
    f = np.zeros(len(responses.y))
    left = right = np.zeros(1)
    density = responses.density(f, parameters)
    value = density.value
    for _ in range(_MAX_STEPS):
        omega = density.information
        conditional = prior.condition(numbers, prior.sums(omega, omega * f + density.slope))
        new = prior.mean_functions(conditional)
        new_left, new_right = conditional.natural()
        size, gain = 1.0, -np.inf
        while size > 1e-8:  # the information is at least 0: a smaller step always helps
            # All three are linear in the functions, so they move along together.
            g = f + size * (new - f)
            a, b = left + size * (new_left - left), right + size * (new_right - right)
            tried = responses.density(g, parameters)
            gain = tried.value - 0.5 * float(a @ b) - value
            if gain >= 0.0:
                break
            size /= 2.0
        if not gain >= 0.0:
            break
        f, left, right, value, density = g, a, b, value + gain, tried
        if gain <= tol * (1.0 + abs(value)):
            break
    omega = density.information
    nu = omega * f + density.slope
    conditional = prior.condition(numbers, prior.sums(omega, nu))
    left_out = density.value + float(np.sum(0.5 * omega * f**2 - nu * f))
    return Mode(conditional, conditional.log_evidence + left_out, value, f, density)


def evidence(
    space: Any, z: np.ndarray, responses: Any, parameters: np.ndarray
) -> tuple[float, np.ndarray, list[float]]:
    """Laplace's evidence at hyper-parameters z, and its derivatives in z and in the responses' own parameters.

    ``space`` is a :class:`FunctionPrior` that also gives ``pull(z, conditional)``, the derivative of log Z in z, and
    ``variances(z, conditional)`` (N,), those of f at the rows.
    """
    numbers = space.numbers(z)
    mode = find_mode(space, numbers, responses, parameters)
    density, omega = mode.density, mode.density.information
    nothing, variance = np.zeros(len(omega)), space.variances(z, mode.conditional)

    def of_sums(weights: np.ndarray, linear: np.ndarray) -> Any:
        return space.condition(numbers, space.sums(weights, linear))

    def times_covariance(v: np.ndarray) -> np.ndarray:
        return np.asarray(space.mean_functions(of_sums(nothing, v)))

    def near(c: np.ndarray) -> np.ndarray:  # (I + W K)^-1 c
        return np.asarray(c - omega * space.mean_functions(of_sums(omega, c)))

    gradient = np.asarray(space.pull(z, mode.conditional))
    moved = None
    s = -0.5 * variance * density.information_slope
    if np.any(s):
        second = second_derivative(responses, density, mode.f, parameters)
        u = near(s) if second is None else solve_near(lambda c: c + second * times_covariance(c), near, s)
        up, down = (of_sums(nothing, density.slope + sign * u) for sign in (1.0, -1.0))
        gradient = gradient + 0.5 * (np.asarray(space.pull(z, up)) - np.asarray(space.pull(z, down)))
        moved = times_covariance(u)
    own = []
    for explicit, slope, information in responses.parameter_slopes(mode.f, parameters):
        movement = 0.0 if moved is None else float(moved @ slope)
        own.append(explicit - 0.5 * float(variance @ information) + movement)
    return mode.log_evidence, gradient, own
