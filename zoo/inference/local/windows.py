"""Windows of kernel-local smoothing: the rows near a place, with their weights."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.spatial import cKDTree

__all__ = ["CUT", "KERNELS", "Window", "kernel_weight", "widths", "windows"]

KERNELS = ("epanechnikov", "gaussian")
"""Kernels k with k(0) = 1, ``max(0, 1 - u^2)`` and ``exp(-u^2 / 2)`` at the distance u, in bandwidths."""

CUT = {"epanechnikov": 1.0, "gaussian": 8.6}
"""Rows further off than this, in bandwidths, have no weight (a Gaussian's is below 1e-16)."""

# Distances in bandwidths: without a row nearer than this a window is empty; at the other one the weight is one half.
_EMPTY = {"epanechnikov": 1.0, "gaussian": 3.0}
_HALF = {"epanechnikov": 0.5**0.5, "gaussian": (2.0 * np.log(2.0)) ** 0.5}
# Places whose rows are looked up together, and the share of all rows above which a window takes every row: both bound
# the memory of the lists of neighbours.
_BLOCK, _MANY = 64, 0.25


class Window(NamedTuple):
    """Rows near a place.

    ``rows`` are their positions, or the slice of all; ``weight`` (n,) is the kernel's; ``offset`` (n, P) is the row's
    place less the window's, in bandwidths.
    """

    rows: np.ndarray | slice
    weight: np.ndarray
    offset: np.ndarray


def kernel_weight(kernel: str, square: np.ndarray) -> np.ndarray:
    """The kernel at squared distances in bandwidths."""
    return np.maximum(0.0, 1.0 - square) if kernel == "epanechnikov" else np.exp(-0.5 * square)


def windows(
    tree: cKDTree, centres: np.ndarray, bandwidth: float, kernel: str, least: int
) -> Iterator[Window]:
    """The window at each centre, in turn.

    Parameters
    ----------
    tree : cKDTree
        Of the places of the N rows, (N, P).
    centres : (m, P) array
    bandwidth : float
        In the units of the places.
    kernel : {"epanechnikov", "gaussian"}
    least : int
        Where no row lies within a bandwidth (Gaussian kernel: three), the bandwidth becomes that at which this many
        rows have half the weight of the centre or more.
    """
    z = np.asarray(tree.data)
    width = widths(tree, centres, bandwidth, kernel, least)
    radius = width * CUT[kernel]
    for start in range(0, len(centres), _BLOCK):
        block = slice(start, start + _BLOCK)
        sizes = tree.query_ball_point(centres[block], radius[block], return_length=True)
        few = sizes <= _MANY * len(z)
        found = iter(tree.query_ball_point(centres[block][few], radius[block][few], return_sorted=True))
        for centre, h, listed in zip(centres[block], width[block], few, strict=True):
            rows = np.array(next(found), dtype=np.int64) if listed else slice(None)
            offset = (z[rows] - centre) / h
            yield Window(rows, kernel_weight(kernel, np.einsum("np,np->n", offset, offset)), offset)


def widths(tree: cKDTree, centres: np.ndarray, bandwidth: float, kernel: str, least: int) -> np.ndarray:
    """The bandwidth at each centre, wider where the window would be empty."""
    width = np.full(len(centres), bandwidth)
    nearest, _ = tree.query(centres)
    empty = nearest >= bandwidth * _EMPTY[kernel]
    if empty.any():
        distance, _ = tree.query(centres[empty], k=[min(least, tree.n)])
        width[empty] = distance[:, 0] / _HALF[kernel]
    return width
