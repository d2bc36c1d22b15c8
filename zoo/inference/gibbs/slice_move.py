"""One slice-sampling update of a number that is now 0 (Neal 2003), of compiled densities and of others."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["MOST_STEPS", "slice_move", "slice_of"]

# Of a slice: no law that float64 can hold is wider in steps, or narrower in halvings.
MOST_STEPS = 2000


# Numba writes it into each function that calls it, with the density that stands there. A function
# that hands a density to a compiled one could not be cached.
@njit(cache=False, nogil=True, inline="always")
def slice_move(rng, density, arguments, width, steps_out):
    """A new value, by shrinkage of an interval around 0.

    Where no point is above the level, because a density of NaN or of many digits compares with
    nothing, it stays at 0.

    Parameters
    ----------
    rng : numpy.random.Generator
    density : compiled function ``(s, *arguments)``
        Log density of the value s, up to a constant; the name of a function in the caller's module.
    arguments : tuple
    width : float
        Of the first interval, which is placed around 0 at random.
    steps_out : bool
        Whether the interval grows, by its width, as long as its ends are above the level.
    """
    level = density(0.0, *arguments) - rng.standard_exponential()
    left = -width * rng.random()
    right = left + width
    if steps_out:
        for _ in range(MOST_STEPS):
            if not density(left, *arguments) > level:
                break
            left -= width
        for _ in range(MOST_STEPS):
            if not density(right, *arguments) > level:
                break
            right += width
    for _ in range(MOST_STEPS):
        s = left + (right - left) * rng.random()
        if density(s, *arguments) > level:
            return s
        if s < 0.0:
            left = s
        else:
            right = s
    return 0.0


def slice_of(rng: np.random.Generator, log_density: Callable[[float], float], width: float) -> float:
    """The same of a log density that is not compiled, with steps out."""
    return float(slice_move.py_func(rng, log_density, (), width, True))
