r"""Rows that are made one after the other of rows before them, compiled, and the adjoint of that map.

.. math:: f_i = s_i + \sum_j W_{ij} f_{c(i, j)}

for rows in an order, c(i, j) being before i in it. The derivatives :math:`a_i` in :math:`s_i` of a function with
derivatives :math:`g_i` in :math:`f_i` come in the opposite order, since a row passes its own on to those that it is
made of:

.. math:: a_i = g_i + \sum_{(k, j):\, c(k, j) = i} W_{kj} a_k,

and that in :math:`W_{ij}` is :math:`a_i f_{c(i, j)}`.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["recursion", "recursion_adjoint"]


@njit(cache=True, nogil=True)
def recursion(
    shift: np.ndarray, weights: np.ndarray, before: np.ndarray, order: np.ndarray, out: np.ndarray
) -> None:
    """Write the rows f (n,) to ``out``.

    Parameters
    ----------
    shift : (n,) array
    weights : (n, m) array
    before : (n, m) int
        Rows before each row; -1 behind the last of them.
    order : (n,) int
        The rows in their order.
    out : (n,) array
    """
    for i in order:
        total = shift[i]
        for j in range(before.shape[1]):
            if before[i, j] < 0:
                break
            total += weights[i, j] * out[before[i, j]]
        out[i] = total


@njit(cache=True, nogil=True)
def recursion_adjoint(
    f: np.ndarray,
    weights: np.ndarray,
    before: np.ndarray,
    order: np.ndarray,
    slope: np.ndarray,
    in_weights: np.ndarray,
) -> None:
    """Turn derivatives in f (n,), held by ``slope``, into those in ``shift``; put those in ``weights`` beside them."""
    for k in range(len(order) - 1, -1, -1):
        i = order[k]
        for j in range(before.shape[1]):
            if before[i, j] < 0:
                break
            slope[before[i, j]] += weights[i, j] * slope[i]
            in_weights[i, j] = slope[i] * f[before[i, j]]
