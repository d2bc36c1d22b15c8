r"""Posterior mode and Laplace approximation of functions with a Gaussian prior and logistic labels.

Newton's method on :math:`\sum_n \log \sigma(y_n f_n) - \tfrac12 \|f\|^2_K`: each step is the Gaussian conditional with
:math:`\omega = \pi (1 - \pi)` and :math:`\nu = \omega f + (y + 1) / 2 - \pi` (Rasmussen & Williams 2006, section 3.4).
At the mode its normaliser gives the evidence,

.. math:: \log Z_{Laplace} = \log Z(\omega, \nu) + \sum_n \log \sigma(y_n f_n) + \omega_n f_n^2 / 2 - \nu_n f_n .
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, log_expit

from zoo.latent.slice_hyper import FunctionPrior

__all__ = ["Mode", "logistic_mode"]

_MAX_STEPS = 100


class Mode(NamedTuple):
    """The Gaussian at the mode, its log evidence, and the log joint density ``log p(y | f) - |f|^2 / 2``."""

    conditional: Any
    log_evidence: float
    log_joint: float


def logistic_mode(
    prior: FunctionPrior, numbers: Any, y: np.ndarray, weight: np.ndarray | None = None, tol: float = 1e-10
) -> Mode:
    """Mode of the functions given labels ``y`` -1/+1 and the prior's numbers. ``tol``: relative gain to stop at.

    ``weight`` (N,) multiplies the log likelihood of each row, and so the omega and nu of the steps.
    """
    h = np.ones(len(y)) if weight is None else weight
    f = np.zeros(len(y))
    left = right = np.zeros(1)
    value = float((h * log_expit(y * f)).sum())
    for _ in range(_MAX_STEPS):
        omega, nu = _working(f, y, h)
        conditional = prior.condition(numbers, prior.sums(omega, nu))
        new = prior.mean_functions(conditional)
        new_left, new_right = conditional.natural()
        size, gain = 1.0, -np.inf
        while size > 1e-8:  # log-concave: a smaller step always helps
            # All three are linear in the functions, so they move along together.
            g = f + size * (new - f)
            a, b = left + size * (new_left - left), right + size * (new_right - right)
            gain = float((h * log_expit(y * g)).sum() - 0.5 * a @ b) - value
            if gain >= 0.0:
                break
            size /= 2.0
        if gain < 0.0:
            break
        f, left, right, value = g, a, b, value + gain
        if gain <= tol * (1.0 + abs(value)):
            break
    omega, nu = _working(f, y, h)
    conditional = prior.condition(numbers, prior.sums(omega, nu))
    left_out = float(np.sum(h * log_expit(y * f) + 0.5 * omega * f**2 - nu * f))
    return Mode(conditional, conditional.log_evidence + left_out, value)


def _working(f: np.ndarray, y: np.ndarray, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    p = expit(f)
    omega = h * p * (1.0 - p)
    return omega, omega * f + h * ((y + 1.0) / 2.0 - p)
