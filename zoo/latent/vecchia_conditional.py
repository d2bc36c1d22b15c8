r"""Functions at new rows given the nearest responses: their moments, and joint draws.

The function at a new row is normal given the m nearest responses, as in kriging from neighbours. New rows are drawn
jointly, in an order, each given m responses and the nearest of the new rows before it:

.. math:: f_i = w_i' y_{c(i)} + b_i' f_{d(i)} + s_i z_i, \quad z_i \sim N(0, 1).

Where fixed features with weights are part of the function, y stands for what the weights' mean leaves of the responses;
other weights change the mean of a new row by its features less those that its neighbours' weights make of theirs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.neighbour_recursion import recursion
from zoo.latent.vecchia import (
    Rows,
    back_substitute,
    factorise,
    forward_substitute,
    gather,
    in_blocks,
    kriging_weights,
)
from zoo.latent.vecchia_terms import Terms, covariance, workspace

__all__ = ["JointLaw", "joint_law", "moments"]

# Added to variances of functions that are conditioned on, as a share of them: two new rows may be nearly the same.
_JITTER = 1e-10
# Variance of a new row where no function is left beside the fixed features: its factor must not be zero.
_LEAST_VARIANCE = 1e-300


def moments(
    rows: Rows,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    place: np.ndarray,
    neighbours: np.ndarray,
    threads: int = 1,
    features: np.ndarray | None = None,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean and variance (n,) of the function at new rows, and what its neighbours explain of fixed features (n, p).

    Parameters
    ----------
    rows : Rows
    theta : (Q,) array
    x, t : (n, D) and (n, P) array
        The new rows; those of a place stand together.
    place : (G + 1,) int
        Where the rows of each place begin: they share their neighbours, and the factorisation.
    neighbours : (G, m) int
        Rows that each place is conditioned on.
    features : (N, p) array, optional
        Fixed features of the rows, whose responses are then those less what the mean of the weights says.

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    fixed = np.empty((len(rows), 0)) if features is None else features
    mean, variance, explained = np.empty(len(x)), np.empty(len(x)), np.zeros((len(x), fixed.shape[1]))

    def work(start: int, end: int) -> bool:
        return bool(
            _moments_of(
                rows.terms, theta, rows.x, rows.t, rows.y, rows.weight,
                x, t, place, neighbours, fixed, start, end, mean, variance, explained,
            )
        )  # fmt: skip

    _require(all(in_blocks(len(neighbours), work, threads, 32)))
    return mean, np.maximum(variance, 0.0), explained


def _require(found: bool) -> None:
    if not found:
        raise np.linalg.LinAlgError("a covariance matrix of neighbours is singular to rounding.")


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _moments_of(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    new_x: np.ndarray,
    new_t: np.ndarray,
    place: np.ndarray,
    neighbours: np.ndarray,
    features: np.ndarray,
    start: int,
    end: int,
    mean: np.ndarray,
    variance: np.ndarray,
    explained: np.ndarray,
) -> bool:
    m = neighbours.shape[1]
    room = workspace(m + 1, len(terms.kind), t.shape[1], x.shape[1])
    L, white, b, own = room.factor, room.vectors[0], room.vectors[1], np.zeros(1, dtype=np.int64)
    noise, last = np.exp(2.0 * theta[terms.noise]), m * (m + 1) // 2
    for g in range(start, end):
        near = neighbours[g]
        gather(t, near, m, room.t, 0)
        gather(x, near, m, room.x, 0)
        covariance(terms, theta, room, 0, m)
        for p in range(m):
            room.K[p * (p + 1) // 2 + p] += noise / weight[near[p]]
        if not factorise(room.K, L, 0, m):
            return False
        for p in range(m):
            white[p] = y[near[p]]
        forward_substitute(L, m, white)
        for i in range(place[g], place[g + 1]):
            own[0] = i
            gather(new_t, own, 1, room.t, m)
            gather(new_x, own, 1, room.x, m)
            covariance(terms, theta, room, m, m + 1)
            mu, v = 0.0, room.K[last + m]
            for p in range(m):
                b[p] = room.K[last + p]
            forward_substitute(L, m, b)
            for p in range(m):
                mu += b[p] * white[p]
                v -= b[p] * b[p]
            mean[i], variance[i] = mu, v
            if features.shape[1] > 0:
                back_substitute(L, m, b)
                _add_features(features, near, m, b, explained[i])
    return True


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _add_features(features: np.ndarray, near: np.ndarray, m: int, b: np.ndarray, out: np.ndarray) -> None:
    for p in range(m):
        for k in range(features.shape[1]):
            out[k] += b[p] * features[near[p], k]


class JointLaw(NamedTuple):
    """The law of the function at n new rows, as a recursion in their order."""

    base: np.ndarray
    """(n,) what the responses say of each row."""
    before: np.ndarray
    """(n, k) int: the rows before it that it is conditioned on, -1 behind the last."""
    weight: np.ndarray
    """(n, k): the weights of these."""
    sd: np.ndarray
    """(n,)."""
    explained: np.ndarray
    """(n, p): what its neighbours with responses explain of the fixed features of a row."""

    def draws(self, white: np.ndarray, moved: np.ndarray | None = None) -> np.ndarray:
        """Draws (S, n) made of standard normal numbers (S, n), and of weights (S, p) less their mean."""
        result, order = np.empty_like(white), np.arange(white.shape[1])
        base = self.base if moved is None else self.base - moved @ self.explained.T
        shift = base + self.sd * white
        for own, out in zip(shift, result, strict=True):
            recursion(own, self.weight, self.before, order, out)
        return result


def joint_law(
    rows: Rows,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    neighbours: np.ndarray,
    before: np.ndarray,
    threads: int = 1,
    features: np.ndarray | None = None,
) -> JointLaw:
    """The joint law of the function at new rows.

    Parameters
    ----------
    rows : Rows
    theta : (Q,) array
    x, t : (n, D) and (n, P) array
        The new rows, in the order in which they are drawn; no two alike.
    neighbours : (n, m) int
        Rows with responses that each is conditioned on.
    before : (n, k) int
        New rows before it that it is conditioned on, -1 behind the last of them.
    features : (N, p) array, optional
        As for :func:`moments`; the functions are then those without the part of the fixed features.

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    fixed = np.empty((len(rows), 0)) if features is None else features
    law = JointLaw(
        np.empty(len(x)), before, np.zeros(before.shape), np.empty(len(x)), np.zeros((len(x), fixed.shape[1]))
    )

    def work(start: int, end: int) -> bool:
        return bool(
            _law_of(
                rows.terms, theta, rows.x, rows.t, rows.y, rows.weight,
                x, t, neighbours, before, fixed, start, end, law.base, law.weight, law.sd, law.explained,
            )
        )  # fmt: skip

    _require(all(in_blocks(len(x), work, threads, 32)))
    return law


@njit(cache=True, nogil=True, fastmath={"reassoc", "contract", "nsz", "arcp"})
def _law_of(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    y: np.ndarray,
    weight: np.ndarray,
    new_x: np.ndarray,
    new_t: np.ndarray,
    neighbours: np.ndarray,
    before: np.ndarray,
    features: np.ndarray,
    start: int,
    end: int,
    base: np.ndarray,
    weights: np.ndarray,
    sd: np.ndarray,
    explained: np.ndarray,
) -> bool:
    m, most = neighbours.shape[1], neighbours.shape[1] + before.shape[1] + 1
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    L, b, noise = room.factor, room.vectors[0], np.exp(2.0 * theta[terms.noise])
    index = np.zeros(before.shape[1] + 1, dtype=np.int64)
    for i in range(start, end):
        k = 0
        while k < before.shape[1] and before[i, k] >= 0:
            index[k] = before[i, k]
            k += 1
        index[k], n = i, m + k
        gather(t, neighbours[i], m, room.t, 0)
        gather(x, neighbours[i], m, room.x, 0)
        gather(new_t, index, k + 1, room.t, m)
        gather(new_x, index, k + 1, room.x, m)
        covariance(terms, theta, room, 0, n + 1)
        for p in range(n + 1):
            at = p * (p + 1) // 2 + p
            own = _JITTER * room.K[at] + _LEAST_VARIANCE
            room.K[at] += noise / weight[neighbours[i, p]] if p < m else own
        if not factorise(room.K, L, 0, n + 1):
            return False
        sd[i] = L[n * (n + 1) // 2 + n]
        kriging_weights(L, n + 1, b)
        total = 0.0
        for p in range(m):
            total += b[p] * y[neighbours[i, p]]
        base[i] = total
        _add_features(features, neighbours[i], m, b, explained[i])
        for p in range(k):
            weights[i, p] = b[m + p]
    return True
