"""Warnings of data that are far from the units in which the priors of some models are stated."""

from __future__ import annotations

import numpy as np

from zoo.support.warning_types import warn_user

__all__ = ["warn_of_features", "warn_of_responses"]

# Mean square of responses above which, and standard deviation below which, priors of scale 1 bend the posterior.
_LARGE, _SMALL = 100.0, 0.05
# Ratio of the largest scale of a feature to the smallest above which one penalty for all of them is several ones.
_UNEQUAL = 1000.0


def warn_of_responses(y: np.ndarray) -> None:
    """Warn of responses (N,) that are far from 1, where the priors of a model have no units of the data."""
    if np.mean(y**2) > _LARGE or 0.0 < y.std() < _SMALL:
        warn_user(
            f"y has mean {y.mean():.3g} and standard deviation {y.std():.3g}, and the priors expect values near 1: "
            "they bend the posterior, or the maximum, of such values. Use data.standardize()."
        )


def warn_of_features(inputs: np.ndarray, names: tuple[str, ...]) -> None:
    """Warn of features (n, D) of very different size, where one penalty serves the coefficients of all of them."""
    size = np.sqrt(np.mean(inputs**2, axis=0))
    if len(size) and size.max() > _UNEQUAL * (least := size[size > 0.0].min(initial=np.inf)):
        large, small = names[int(np.argmax(size))], names[int(np.flatnonzero(size == least)[0])]
        warn_user(
            f"feature {large!r} is {size.max() / least:,.0f} times as large as {small!r}, and one penalty holds the "
            "coefficients of both. Use data.standardize()."
        )
