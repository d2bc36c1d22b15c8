r"""What the neighbours of rows say of them under a sum of product kernels, compiled, with derivatives.

The weights :math:`b = A^{-1} k` and the variance :math:`v = k_{ii} - k'b` of a row are those of
:mod:`zoo.ops.neighbour_weights`, which has their derivatives. Here the covariances of one row at a time are made and
forgotten, so that memory is that of the weights.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit
from zoo.latent.vecchia import add_slopes, factorise, forward_substitute, gather, kriging_weights
from zoo.latent.vecchia_terms import Terms, Workspace, covariance, workspace

__all__ = ["weights", "weights_adjoint"]


@njit(cache=True, nogil=True)
def _factor(
    terms: Terms,
    theta: np.ndarray,
    noise: np.ndarray,
    t: np.ndarray,
    index: np.ndarray,
    n: int,
    room: Workspace,
) -> bool:
    """Factorise the covariance of n rows, noise included, for kernels that do not read features."""
    gather(t, index, n, room.t, 0)
    covariance(terms, theta, room, 0, n)
    for p in range(n):
        room.K[p * (p + 1) // 2 + p] += noise[index[p]]
    return factorise(room.K, room.factor, 0, n)


@njit(cache=True, nogil=True)
def _members(sets: np.ndarray, i: int, index: np.ndarray, slot: np.ndarray) -> int:
    """Put the members of set i that are there into ``index``, and their columns into ``slot``; return how many."""
    n = 0
    for j in range(sets.shape[1]):
        if sets[i, j] >= 0:
            index[n], slot[n] = sets[i, j], j
            n += 1
    return n


@njit(cache=True, nogil=True)
def weights(
    terms: Terms, theta: np.ndarray, noise: np.ndarray, t: np.ndarray, sets: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (N, m) and variances (N,) of rows given their neighbours; NaN where a covariance is singular.

    Parameters
    ----------
    terms : Terms
        Linear in the one feature that is 1 in every row.
    theta : (Q,) array
        Logarithms of the parameters; that of the noise is not read.
    noise : (R,) array
        Added to the variances of the rows of the table.
    t : (R, P) array
        A table of rows.
    sets : (N, m + 1) int
        Of each row its neighbours in the table, -1 where there is none, and its own place last.
    """
    N, most = sets.shape
    room = workspace(most, len(terms.kind), t.shape[1], 1)
    room.x[:] = 1.0
    index, slot = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    b, v, own = np.zeros((N, most - 1)), np.empty(N), room.vectors[0]
    for i in range(N):
        n = _members(sets, i, index, slot)
        if not _factor(terms, theta, noise, t, index, n, room):
            b[i], v[i] = np.nan, np.nan
            continue
        m = n - 1
        v[i] = room.factor[m * (m + 1) // 2 + m] ** 2
        kriging_weights(room.factor, n, own)
        for p in range(m):
            b[i, slot[p]] = own[p]
    return b, v


@njit(cache=True, nogil=True)
def weights_adjoint(
    terms: Terms,
    theta: np.ndarray,
    noise: np.ndarray,
    t: np.ndarray,
    sets: np.ndarray,
    b: np.ndarray,
    of_b: np.ndarray,
    of_v: np.ndarray,
) -> tuple[np.ndarray, np.ndarray]:
    """Derivatives in ``theta`` and ``noise`` of a function with the derivatives ``of_b`` and ``of_v``."""
    N, most = sets.shape
    room = workspace(most, len(terms.kind), t.shape[1], 1)
    room.x[:] = 1.0
    index, slot = np.zeros(most, dtype=np.int64), np.zeros(most, dtype=np.int64)
    in_theta, in_noise = np.zeros(len(theta)), np.zeros(len(noise))
    pull, unit = np.zeros(most * (most + 1) // 2), np.ones(len(noise))
    own, half = room.vectors[0], room.vectors[1]
    for i in range(N):
        n = _members(sets, i, index, slot)
        if not _factor(terms, theta, noise, t, index, n, room):
            in_theta[:], in_noise[:] = np.nan, np.nan
            return in_theta, in_noise
        m = n - 1
        for p in range(m):
            own[p], half[p] = b[i, slot[p]], of_b[i, slot[p]]
        forward_substitute(room.factor, m, half)
        add_slopes(terms, theta, room, own, half, of_v[i], 1.0, unit, index, n, pull, in_theta)
        for p in range(n):
            in_noise[index[p]] += pull[p * (p + 1) // 2 + p]
    return in_theta, in_noise
