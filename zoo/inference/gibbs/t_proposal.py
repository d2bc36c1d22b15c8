"""Proposals of a multivariate t law by the Cholesky factor of its inverse scale matrix, compiled."""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.triangular import normal_step, squared

__all__ = ["DEGREES", "draw_from_t", "log_proposal"]

DEGREES = 8.0


@njit(cache=True, nogil=True)
def draw_from_t(rng, factor):
    """A step from the location of the t law whose scale matrix has this factor of its inverse."""
    step = normal_step(rng, factor)
    return step / np.sqrt(2.0 * rng.standard_gamma(0.5 * DEGREES) / DEGREES)


@njit(cache=True, nogil=True)
def log_proposal(factor, apart):
    """Log density of the t law at ``apart`` from its location."""
    return -0.5 * (DEGREES + len(apart)) * np.log1p(squared(factor, apart) / DEGREES)
