"""Nearest rows for Vecchia's approximation: of every row among those before it, and of any place among all."""

from __future__ import annotations

import numpy as np
from scipy.spatial import cKDTree

__all__ = ["nearest_before", "nearest_rows", "spread_ties"]

# Places are moved by this share of their spread in a direction of its own: trees need places that differ. The spread is
# that of the middle four fifths, so that one place far out does not count.
_APART = 1e-9


def spread_ties(places: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """The places with a column more, (N, P + 1): small random numbers, which part the equal ones.

    A tree of many equal places is one leaf, and a search in it looks at all of them. Among equal places the nearest are
    then random ones.
    """
    size = 1.0
    if places.size:
        low, high = np.quantile(places, [0.1, 0.9], axis=0)
        spread = float(np.max(high - low)) or float(np.max(np.ptp(places, axis=0)))
        size = _APART * spread if spread > 0.0 else 1.0
    return np.column_stack([places, size * rng.random(len(places))])


def nearest_before(
    places: np.ndarray, m: int, threads: int = 1, some: np.ndarray | None = None
) -> np.ndarray:
    """Of row i, the ``min(i, m)`` nearest among the rows before it, nearest first: (N, m) int, -1 where there is none.

    With ``some``, increasing numbers of rows, only these are searched for, and the others have -1 throughout.

    The rows of a block between two powers of two are searched among all rows up to the end of their block: at least
    half of those are before it, so that a search for a few more than twice as many mostly finds enough. The search is
    repeated with twice as many for those rows where it does not.
    """
    n = len(places)
    m = min(m, max(n - 1, 0))
    found = np.full((n, m), -1, dtype=np.int64)
    if m == 0:
        return found
    few = min(n, 2 * m + 2)
    asked = np.arange(n) if some is None else np.asarray(some)
    for i in asked[(asked > 0) & (asked < few)]:
        distance = np.sum((places[:i] - places[i]) ** 2, axis=1)
        nearest = np.argsort(distance, kind="stable")[:m]
        found[i, : len(nearest)] = nearest
    start = few
    while start < n:
        end = min(2 * start, n)
        rows, k = asked[(asked >= start) & (asked < end)], min(2 * m + 10, end)
        tree = cKDTree(places[: end if len(rows) else 0])
        while len(rows):
            near = np.asarray(tree.query(places[rows], k=k, workers=threads)[1]).reshape(len(rows), k)
            before = near < rows[:, None]
            enough = before.sum(axis=1) >= m
            # A stable sort of "is before" keeps the nearest first.
            first = np.argsort(~before[enough], axis=1, kind="stable")[:, :m]
            found[rows[enough]] = np.take_along_axis(near[enough], first, axis=1)
            rows, k = rows[~enough], min(2 * k, end)
        start = end
    return found


def nearest_rows(tree: cKDTree, places: np.ndarray, m: int, threads: int = 1) -> np.ndarray:
    """The m nearest rows of the tree to each place, nearest first: (n, m) int."""
    m = min(m, tree.n)
    return np.asarray(tree.query(places, k=m, workers=threads)[1], dtype=np.int64).reshape(len(places), m)
