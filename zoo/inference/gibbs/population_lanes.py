"""Tasks of a population side by side in the lanes of vector instructions, and one by one."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.inference.gibbs.group_moves import feature_moves
from zoo.inference.gibbs.population_steps import LANES

__all__ = [
    "Whole",
    "copy_sums",
    "from_lanes",
    "leave",
    "population_group_moves",
    "to_lanes",
    "turned_group_moves",
    "whole_space",
]


class Whole(NamedTuple):
    """What step 4 sees, which does not go by lanes: a row for each task, and the mean as a last task without rows."""

    S: np.ndarray  # (T + 1, D, D)
    linear: np.ndarray  # (T + 1, D)
    weight: np.ndarray  # (T + 1,), inverse noise variances
    H: np.ndarray  # (T + 1, D), coefficients


def whole_space(n_tasks: int, D: int) -> Whole:
    """Work space for :func:`copy_sums` to fill."""
    return Whole(*(np.zeros((n_tasks + 1, *shape)) for shape in ((D, D), (D,), (), (D,))))


@njit(cache=True, nogil=True)
def copy_sums(tasks, whole):
    """Fill ``S`` and ``linear``."""
    for t in range(len(whole.weight) - 1):
        block, lane = t // LANES, t % LANES
        whole.linear[t] = tasks.linear[block, :, lane]
        whole.S[t] = tasks.S[block, :, :, lane]


@njit(cache=True, nogil=True)
def population_group_moves(rng, whole, W, mu, P, inverse_noise, nu, n_tasks):
    """Step 4: shears and scales; ``whole`` holds the sums over rows."""
    for t in range(n_tasks):
        whole.weight[t] = inverse_noise[t // LANES, t % LANES]
        whole.H[t] = W[t // LANES, :, t % LANES]
    whole.H[n_tasks] = mu
    feature_moves(rng, whole.S, whole.linear, whole.weight, whole.H, P, nu)
    for t in range(n_tasks):
        W[t // LANES, :, t % LANES] = whole.H[t]
    mu[:] = whole.H[n_tasks]


@njit(cache=True, nogil=True)
def turned_group_moves(rng, whole, W, mu, P, inverse_noise, nu, n_tasks, Q):
    """Step 4 in another orthonormal basis, the columns of ``Q`` (D, D): the identity scale is the same in all."""
    for t in range(n_tasks):
        whole.S[t] = Q.T @ whole.S[t] @ Q
        whole.linear[t] = Q.T @ whole.linear[t]
        whole.weight[t] = inverse_noise[t // LANES, t % LANES]
        whole.H[t] = Q.T @ np.ascontiguousarray(W[t // LANES, :, t % LANES])
    whole.H[n_tasks] = Q.T @ mu
    turned = Q.T @ P @ Q
    feature_moves(rng, whole.S, whole.linear, whole.weight, whole.H, turned, nu)
    P[:] = Q @ turned @ Q.T
    for t in range(n_tasks):
        W[t // LANES, :, t % LANES] = Q @ whole.H[t]
    mu[:] = Q @ whole.H[n_tasks]


@njit(cache=True, nogil=True)
def leave(W, basis, n_tasks):
    """Coefficients (p, T) in the caller's coordinates."""
    rows = np.empty((basis.shape[1], n_tasks))
    for t in range(n_tasks):
        for i in range(basis.shape[1]):
            rows[i, t] = W[t // LANES, i, t % LANES]
    return basis @ rows


def to_lanes(array: np.ndarray) -> np.ndarray:
    """An array of tasks (blocks * lanes, ...) as (blocks, ..., lanes)."""
    split = array.reshape(-1, LANES, *array.shape[1:])
    return np.ascontiguousarray(np.moveaxis(split, 1, -1))


def from_lanes(array: np.ndarray) -> np.ndarray:
    """The inverse of :func:`to_lanes`."""
    moved = np.moveaxis(array, -1, 1)
    return moved.reshape(-1, *moved.shape[2:])
