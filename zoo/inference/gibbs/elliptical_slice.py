r"""Parts of elliptical slice sampling around a normal law that is near the target, compiled.

Let the target be :math:`N(w; m, A^{-1}) R(w)`. With a threshold :math:`\log R(w) - e`, e exponential, and a draw
:math:`\nu \sim N(0, A^{-1})`, points :math:`m + (w - m) \cos a + \nu \sin a` are tried, from an angle a drawn evenly on
the circle, until :math:`\log R` is above the threshold; each failure shrinks the bracket of angles towards 0 (Murray,
Adams & MacKay 2010; with such a normal law in the place of the prior, Nishihara, Murray & Adams 2014). The target is
kept whatever m and A are, as long as they do not depend on w. Nothing is rejected: where the normal law is far off,
steps become short.
"""

from __future__ import annotations

from zoo.inference.compiled import njit

__all__ = ["CLOSED", "shrunk"]

CLOSED = 1e-12
"""A bracket of angles below this holds no other number than that of where the chain is."""


@njit(cache=True, nogil=True)
def shrunk(rng, angle, low, high):
    """The next angle, and its bracket, after one that was below the threshold."""
    if angle < 0.0:
        low = angle
    else:
        high = angle
    return low + (high - low) * rng.random(), low, high
