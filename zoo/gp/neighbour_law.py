r"""The joint law of rows of which each is normal given some before it, as a variable of a PyMC model.

.. math:: y_i \mid y_{c(i)} \sim N(\mathrm{base}_i + b_i' y_{c(i)},\; v_i)

for rows in an order, c(i) being among those before i. The terms may be added up in any order; draws are made in it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.shape_utils import rv_size_is_none
from scipy.spatial import cKDTree

from zoo.latent.vecchia_neighbours import nearest_before, nearest_rows, spread_ties
from zoo.latent.vecchia_order import order_rows
from zoo.ops.neighbour_recursion import neighbour_recursion

__all__ = ["Neighbours", "less_neighbours", "made_of", "nearest_given", "neighbour_normal", "neighbours_of"]


class Neighbours(NamedTuple):
    """Which rows each row is conditioned on."""

    order: np.ndarray
    """(N,) int: the rows in the order in which they are drawn."""
    before: np.ndarray
    """(N, m) int: of each row the rows before it in that order, -1 where there are fewer."""

    @property
    def sets(self) -> np.ndarray:
        """(N, m + 1) int: neighbours of each row, -1 where there are fewer, and the row itself."""
        return np.column_stack([self.before, np.arange(len(self.before))])


def neighbours_of(places: np.ndarray, m: int, ordering: str, rng: np.random.Generator) -> Neighbours:
    """Of each row the m nearest before it.

    Parameters
    ----------
    places : (N, P) array
        In units in which distances compare.
    m : int
    ordering : str
        One of ``zoo.latent.vecchia_order.ORDERS``, or "given": the rows as they stand.
    rng : numpy.random.Generator
    """
    order = np.arange(len(places)) if ordering == "given" else order_rows(places, ordering, rng)
    found = nearest_before(spread_ties(places[order], rng), m)
    before = np.empty_like(found)
    before[order] = np.where(found >= 0, order[found], -1)
    return Neighbours(order, before)


def nearest_given(rows: np.ndarray, places: np.ndarray, m: int, rng: np.random.Generator) -> np.ndarray:
    """Of each new place the m nearest rows, (n, m) int."""
    tied = spread_ties(rows, rng)
    return nearest_rows(cKDTree(tied), np.column_stack([places, np.zeros(len(places))]), m)


def less_neighbours(values: Any, weights: Any, neighbours: Neighbours) -> Any:
    """``values`` (N,) less what the weights (N, m) make of those of the neighbours."""
    if not neighbours.before.shape[1]:
        return values
    return values - pt.sum(weights * values[np.maximum(neighbours.before, 0)], axis=-1)


def neighbour_normal(
    name: str, base: Any, weights: Any, variance: Any, neighbours: Neighbours, **kwargs: Any
) -> Any:
    """A variable with the law at the top of this module, free or observed; further arguments go to PyMC.

    Parameters
    ----------
    name : str
    base, variance : (N,) tensor
    weights : (N, m) tensor
        0 where there is no neighbour.
    neighbours : Neighbours
    """

    def logp(value: Any, base: Any, weights: Any, variance: Any) -> Any:
        rest = less_neighbours(value, weights, neighbours) - base
        return -0.5 * pt.sum(rest**2 / variance + pt.log(2.0 * np.pi * variance))

    def draw(base: Any, weights: Any, variance: Any, size: Any) -> Any:
        shape = base.shape if rv_size_is_none(size) else (*size, base.shape[0])
        shift = base + pt.sqrt(variance) * pm.Normal.dist(shape=shape)
        made = pt.vectorize(lambda v: made_of(v, weights, neighbours), signature="(n)->(n)")
        return made_of(shift, weights, neighbours) if shift.ndim == 1 else made(shift)

    return pm.CustomDist(
        name, base, weights, variance, logp=logp, dist=draw, signature="(n),(n,m),(n)->(n)", **kwargs
    )


def made_of(shift: Any, weights: Any, neighbours: Neighbours) -> Any:
    """Rows (N,): the shift of each, and what the weights (N, m) make of its neighbours, which are made before."""
    return neighbour_recursion(shift, weights, neighbours.before, neighbours.order)
