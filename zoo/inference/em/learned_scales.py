r"""The penalty of EM whose mean has a prior of its own, and whose covariance has learned scales.

With :math:`\mu \sim N(0, m^2 I)`, :math:`C \mid g \sim IW(\nu, \mathrm{diag}(g^2))` and :math:`g_d \sim N(0, s^2)`
the scales integrate out (Huang & Wand 2013):

.. math:: p(C) \propto |C|^{-(\nu + D + 1) / 2} \prod_d (P_{dd} + s^{-2})^{-(\nu + 1) / 2}, \quad P = C^{-1}.

The estimate is the mode of mean and log C, whose volume is :math:`|C|^{-(D + 1) / 2} dC`. A standard deviation over
tasks, of which p has a finite density at 0, has one in proportion to itself there on that scale: so the mode lies away
from 0, where it would say nothing of C (Chung et al. 2013). EM takes the scales for missing as it does the
coefficients. Given C, :math:`E[g_d^2] = (\nu + 1) / (P_{dd} + s^{-2})`, and the M-steps are

.. math:: (T P + m^{-2} I) \mu = P \sum_t E[w_t], \quad
    C = \frac{\sum_t E[(w_t - \mu)(w_t - \mu)'] + \mathrm{diag} E[g^2]}{T + \nu},

the mean first with the old P, each a maximum given the other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.linalg import blas

from zoo.inference.em.parts import (
    Expectations,
    NoisePenalty,
    Population,
    log_diagonal,
    make_population,
    mirror,
)

__all__ = ["LearnedScales"]


@dataclass(frozen=True)
class LearnedScales:
    """The penalty in coordinates u of the coefficients ``axes`` u, where ``axes`` is orthogonal.

    Parameters
    ----------
    axes : (D, D)
    nu, mean_sd, scale_sd : float
        As above: nu, m, s.
    noise : NoisePenalty
    """

    axes: np.ndarray
    nu: float
    mean_sd: float
    scale_sd: float
    noise: NoisePenalty

    pi = 0.0

    @property
    def tau(self) -> float:
        """Weight of the prior of the covariance, in tasks."""
        return self.nu

    def _own_precision(self, population: Population) -> tuple[np.ndarray, np.ndarray]:
        """P (D, D) in coordinates u, and the diagonal of P of the coefficients with 1 / s^2 added."""
        inverse = np.linalg.inv(population.root)
        return inverse.T @ inverse, np.sum((inverse @ self.axes.T) ** 2, axis=0) + self.scale_sd**-2.0

    def value(self, population: Population) -> float:
        """Log-penalty of mean, covariance and noise."""
        _, own = self._own_precision(population)
        value = -0.5 * float(population.mean @ population.mean) / self.mean_sd**2
        value -= self.nu * log_diagonal(population.root) + 0.5 * (self.nu + 1.0) * float(np.log(own).sum())
        return value + self.noise.value(population.variance)

    def maximise(self, old: Population, expected: Expectations) -> Population:
        """M-steps of mean, covariance and noise."""
        coordinates, cov_sum, squares, counts = expected
        D, T = coordinates.shape
        precision, own = self._own_precision(old)
        mean = np.linalg.solve(
            T * precision + np.eye(D) / self.mean_sd**2, precision @ coordinates.sum(axis=1)
        )
        gaps = coordinates - mean[:, None]
        cov = blas.dsyrk(1.0, gaps.T, trans=1, beta=1.0, c=cov_sum, lower=1, overwrite_c=1)
        mirror(cov)
        cov += (self.axes.T * ((self.nu + 1.0) / own)) @ self.axes
        cov /= T + self.nu
        return make_population(mean, cov, self.noise.step(squares, counts, old.variance))
