"""Orders of rows for Vecchia's approximation: random, or each row far from all before it (max-min)."""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["MOST_MAXMIN", "ORDERS", "order_rows"]

ORDERS = ("random", "maxmin")
MOST_MAXMIN = 100_000
"""Rows up to which the max-min order takes seconds; its cost is their square."""


def order_rows(places: np.ndarray, word: str, rng: np.random.Generator) -> np.ndarray:
    """The rows in the order in which they are conditioned on each other, (N,) int.

    Parameters
    ----------
    places : (N, P) array
        Where the rows are, in units in which distances compare.
    word : str
        "random"; or "maxmin", in which every row has the largest distance to the rows before it (Guinness 2018), at
        a cost of N^2. Equal places come last there, in random order.
    rng : numpy.random.Generator

    Raises
    ------
    ValueError
        There are too many rows for "maxmin".
    """
    shuffled = rng.permutation(len(places))
    if word == "random" or len(places) < 3:
        return shuffled
    if len(places) > MOST_MAXMIN:
        raise ValueError(
            f'ordering is "maxmin", whose cost is the square of the {len(places):,} rows. Use ordering="random".'
        )
    return shuffled[_maxmin(np.ascontiguousarray(places[shuffled]))]


@njit(cache=True, nogil=True)
def _maxmin(places: np.ndarray) -> np.ndarray:
    n, P = places.shape
    centre = np.zeros(P)
    for i in range(n):
        centre += places[i] / n
    order, nearest = np.empty(n, dtype=np.int64), np.full(n, np.inf)
    chosen, best = 0, np.inf
    for i in range(n):
        d = np.sum((places[i] - centre) ** 2)
        if d < best:
            chosen, best = i, d
    for k in range(n):
        order[k] = chosen
        nearest[chosen] = -1.0
        following, furthest = -1, -1.0
        for i in range(n):
            if nearest[i] < 0.0:
                continue
            d = 0.0
            for j in range(P):
                d += (places[i, j] - places[chosen, j]) ** 2
            if d < nearest[i]:
                nearest[i] = d
            if nearest[i] > furthest:
                following, furthest = i, nearest[i]
        chosen = following
    return order
