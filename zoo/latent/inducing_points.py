"""Where inducing points stand: at the centres of k-means, or at rows drawn at random."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

__all__ = ["choose_inducing"]

_STEPS = 10


def choose_inducing(points: np.ndarray, count: int, placement: str, seed: int) -> np.ndarray:
    """Inducing points among distinct points (n, d); all of them where there are no more than ``count``.

    Parameters
    ----------
    placement : "kmeans" or "random"
        k-means by Lloyd's steps from random rows. Its last column, the number of a task, is that of a row near the
        centre.
    """
    n = len(points)
    if n <= count:
        return points
    rng = np.random.default_rng(seed)
    chosen = points[rng.choice(n, count, replace=False)]
    if placement == "random":
        return chosen
    centres = chosen.copy()
    for _ in range(_STEPS):
        nearest = cKDTree(centres).query(points)[1]
        sizes = np.bincount(nearest, minlength=count)
        sums = np.stack(
            [np.bincount(nearest, weights=column, minlength=count) for column in points.T], axis=1
        )
        kept = sizes > 0
        centres[kept] = sums[kept] / sizes[kept, None]
    # A mean of two rows may be one that has no task: the nearest row's stands in its place.
    centres[:, -1] = points[cKDTree(points).query(centres)[1], -1]
    return np.asarray(centres)
