r"""Newton's method for the mode of latent functions, in whatever coordinates they are written.

.. math:: \max_c \; \log p(y|f(c)) - \text{penalty}(c)

with f linear in the coordinates c. The curvature of a step is minus the second derivative of the log density, row by
row, and 0 where that is negative: far out a Student-t density is not concave, and its expected information, which is
the same number for every row, would let f move by :math:`(\nu + 3) \sigma^2 / |y - f|` alone. A step climbs whatever
the curvature, as long as that is not negative, if it is short enough; for a concave density it is Newton's.

Where a factor of that information serves all steps, and one of the curvature takes far longer than a slope,
:func:`approach` comes first: L-BFGS in coordinates in which the expected precision is the identity.
"""

from __future__ import annotations

from typing import NamedTuple, Protocol

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import minimize

from zoo.inference.responses import Density, Responses

__all__ = ["Climb", "Latent", "Sloped", "Step", "approach", "climb"]

_MOST_STEPS, _HALVINGS = 300, 60
# The square of the distance to the mode in posterior standard deviations, over the log density: where to stop, and up
# to where the end of the steps, or rounding that lets no step climb, still counts as the mode.
_TOLERANCE, _NEAR = 1e-18, 1e-10
# The largest slope, in nats per posterior standard deviation, at which L-BFGS stops; and its evaluations and memory.
_FLAT, _MOST_EVALUATIONS, _MEMORY = 1e-7, 500, 30
# The share of its promise that a step must keep, and what rounding may take from the log density.
_KEPT, _ROUNDING = 1e-4, 1e-13


class Step(NamedTuple):
    """A step in the coordinates and in f, and the product of the gradient with it: twice the nats left to climb."""

    coordinates: np.ndarray
    f: np.ndarray
    decrement: float


class Latent(Protocol):
    """Functions in coordinates."""

    def function(self, c: np.ndarray) -> np.ndarray:
        """F (n,) at the rows."""

    def penalty(self, c: np.ndarray, f: np.ndarray) -> float:
        """Minus the log prior density, without constants."""

    def step(self, c: np.ndarray, density: Density, W: np.ndarray) -> Step:
        """Newton's step, with the curvature W (n,) of the rows."""


class Sloped(Latent, Protocol):
    """Functions in coordinates, with the gradient of what is climbed."""

    def gradient(self, c: np.ndarray, density: Density) -> np.ndarray:
        """That of log density less penalty, in the coordinates."""


class Climb(NamedTuple):
    """The mode in coordinates, f (n,) and the density there, and whether it was reached."""

    coordinates: np.ndarray
    f: np.ndarray
    density: Density
    converged: bool


def climb(
    latent: Latent,
    responses: Responses,
    parameters: np.ndarray,
    size: int,
    start: np.ndarray | None = None,
    cheap: int = 0,
    tolerance: float = _TOLERANCE,
) -> Climb:
    """The mode from 0, or from ``start`` where that is better, halving steps that do not climb.

    Parameters
    ----------
    size : int
        Number of coordinates.
    start : array, optional
        Coordinates to start from.
    cheap : int
        The first steps, that many at most, are made with the information in place of the curvature, where it is a
        constant whose factor is made once.
    tolerance : float
        Steps end where the square of the distance to the mode, in posterior standard deviations, is below this share
        of the log density.
    """
    c, f = np.zeros(size), np.zeros(responses.size)
    density = responses.density(f, parameters)
    value = density.value
    if start is not None:
        f_start = latent.function(start)
        there = responses.density(f_start, parameters)
        value_there = there.value - latent.penalty(start, f_start)
        if value_there > value:  # not where counts of exp(f) overflow
            c, f, density, value = start, f_start, there, value_there
    decrement = np.inf
    for taken in range(_MOST_STEPS):
        step = latent.step(c, density, density.information if taken < cheap else density.curvature)
        decrement, length = step.decrement, 1.0
        if decrement <= tolerance * max(1.0, abs(value)):
            break
        for _ in range(_HALVINGS):
            new_c, new_f = c + length * step.coordinates, f + length * step.f
            new = responses.density(new_f, parameters)
            new_value = new.value - latent.penalty(new_c, new_f)
            if new_value - value >= _KEPT * length * decrement - _ROUNDING * abs(value):
                break
            length /= 2.0
        else:
            break
        c, f, density, value = new_c, new_f, new, new_value
    return Climb(c, f, density, decrement <= _NEAR * max(1.0, abs(value)))


def approach(
    latent: Sloped, responses: Responses, parameters: np.ndarray, factor: np.ndarray, start: np.ndarray
) -> np.ndarray:
    """Coordinates near the mode by L-BFGS.

    Parameters
    ----------
    factor : (p, p) array
        Lower Cholesky factor of the precision of the coordinates, with the expected information for curvature.
    start : (p,) array
        Coordinates to start from.
    """

    def descend(z: np.ndarray) -> tuple[float, np.ndarray]:
        c = solve_triangular(factor, z, lower=True, trans=1, check_finite=False)
        f = latent.function(c)
        density = responses.density(f, parameters)
        slope = solve_triangular(factor, latent.gradient(c, density), lower=True, check_finite=False)
        return latent.penalty(c, f) - density.value, -slope

    found = minimize(
        descend,
        factor.T @ start,
        jac=True,
        method="L-BFGS-B",
        options={
            "maxcor": _MEMORY,
            "maxiter": _MOST_EVALUATIONS,
            "maxfun": _MOST_EVALUATIONS,
            "ftol": 0.0,
            "gtol": _FLAT,
        },
    )
    return np.asarray(solve_triangular(factor, found.x, lower=True, trans=1, check_finite=False))
