"""The seam between a likelihood and a Gibbs engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

__all__ = ["Augmentation"]


class Augmentation(NamedTuple):
    """What makes a likelihood Gaussian in f, as compiled functions.

    Parameters
    ----------
    draw : callable ``(rng, f, y, weight, parameters, w, v)``
        Draws the auxiliary variables given f and writes, for every row, ``w`` and ``v`` with
        ``log p(y, auxiliary | f) = -w f^2 / 2 + v f + const``. ``weight`` (N,) multiplies the log likelihood.
    parameters : (k,) float64
        The first is C, the weight of the loss.
    hinges : callable ``(y, parameters) -> (2, N)``, optional
        ``a`` and ``b`` of ``log p(y | f) = -2 C weight max(0, a - b f)``, for moves without
        augmentation where they pay.
    update : callable ``(rng, f, y, weight, parameters)``, optional
        Draws the parameters that are learned, given f, in place.
    """

    draw: Callable[..., None]
    parameters: np.ndarray
    hinges: Callable[[np.ndarray, np.ndarray], np.ndarray] | None = None
    update: Callable[..., None] | None = None
