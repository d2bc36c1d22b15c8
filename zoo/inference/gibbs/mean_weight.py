r"""The weight of the prior of the mean of a population, learned.

With whitened coefficients of rank r the prior of the mean is :math:`\mu \mid C, \pi \sim N(0, C / \pi)`. Its weight
has the law

.. math:: \pi \sim \mathrm{Gamma}(\tfrac12, \tfrac12), \tag{1}

with the second number a rate, which is chi-squared with one degree of freedom. Integrating :math:`\pi` out leaves, with
:math:`q = \mu' C^{-1} \mu`,

.. math::

    p(\mu \mid C) \propto |C|^{-1/2} \int_0^\infty \pi^{(r + 1)/2 - 1} e^{-\pi (1 + q) / 2} \, d\pi
    \propto |C|^{-1/2} (1 + q)^{-(r + 1)/2}, \tag{2}

the multivariate Cauchy law with scale matrix C. A mean far from zero against the spread of the tasks is not ruled out
by the tails of this law, and a mean near zero is still expected more than others. By the integrand of (2) the full
conditional is

.. math:: \pi \mid \mu, C \sim \mathrm{Gamma}\left(\tfrac{1 + r}{2}, \tfrac{1 + q}{2}\right). \tag{3}

It reads neither the responses nor the coefficients of tasks, so that any likelihood may follow. :math:`q` is the same
in every basis of the coefficients, and whatever scales the features are whitened by.
"""

from __future__ import annotations

from typing import Any

import numpy as np

__all__ = ["RATE", "SHAPE", "draw_mean_weight", "mean_weight_given", "start_mean_weight"]

SHAPE, RATE = 0.5, 0.5
"""Of the gamma law (1)."""


def mean_weight_given(rng: np.random.Generator, mu: np.ndarray, P: np.ndarray) -> float:
    """A draw from equation (3), for the mean (r,) and the precision (r, r) of the population."""
    return float(rng.standard_gamma(SHAPE + 0.5 * len(mu)) / (RATE + 0.5 * max(float(mu @ P @ mu), 0.0)))


def start_mean_weight(rng: np.random.Generator, given: float | None) -> np.ndarray:
    """The weight () of the first state of a chain: the one that is given, or, where it is learned, a dispersed one."""
    return np.array(np.exp(rng.normal()) if given is None else float(given))


def draw_mean_weight(rng: np.random.Generator, given: float | None, state: dict[str, Any]) -> None:
    """Fill ``pi`` of the state of a sampler, whose ``mu`` and ``P`` are of one draw, unless the weight is given."""
    if given is None:
        state["pi"][...] = mean_weight_given(rng, state["mu"], state["P"])
