r"""The sparse factor of latent functions under Vecchia's approximation: its products, and derivatives through it.

With the latents in an order, and latent i normal given those before it that are its neighbours :math:`c(i)`,

.. math::

    f_i = b_i' f_{c(i)} + \sqrt{d_i}\, \xi_i, \quad b_i = A^{-1} k, \quad d_i = k_{ii} - k' A^{-1} k, \quad \xi_i \sim
    N(0, 1),

so that :math:`f = L \xi` with :math:`L = B^{-1} D^{1/2}` and B unit lower triangular, with :math:`-b_i` in row i. Any
function of b and d has with :math:`s_i = \partial / \partial b_i` and :math:`p_i = \partial / \partial d_i` the
derivative

.. math:: p_i\, u' dJ\, u + u' dJ\, \alpha, \quad u = (-b_i, 1), \quad \alpha = (A^{-1} s_i, 0),

in the joint covariance J of the latent and its neighbours: ``add_slopes`` of :mod:`zoo.latent.vecchia`. The noise of
the rows is here a nugget, a number that stands on the diagonal of the covariance of the latents, so that it has a
factor where latents are nearly the same.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from zoo.inference.compiled import njit
from zoo.latent.vecchia import (
    Rows,
    add_slopes,
    forward_substitute,
    in_blocks,
    kriging_weights,
    require_finite,
    with_neighbours,
)
from zoo.latent.vecchia_terms import Terms, workspace

__all__ = ["Factor", "add_pulls", "factor_of", "pulled_slopes"]

_FAST = {"reassoc", "contract", "nsz", "arcp"}


class Factor(NamedTuple):
    """The factor L of latents in an order."""

    neighbours: np.ndarray
    """(N, m) int: the latents before each that it is conditioned on, -1 behind the last of them."""
    b: np.ndarray
    """(N, m): their coefficients."""
    sd: np.ndarray
    """(N,): the root of what they leave of the variance."""

    def times(self, columns: np.ndarray) -> np.ndarray:
        """The product ``L columns`` (N, k)."""
        result = self.sd[:, None] * columns
        _add_from_neighbours(self.neighbours, self.b, 1.0, result, result)
        return result

    def transposed(self, columns: np.ndarray) -> np.ndarray:
        """The product ``B'^-1 columns`` (N, k); times ``sd`` it is that with the transpose of L."""
        result = np.array(columns, order="C")
        _add_to_neighbours(self.neighbours, self.b, 1.0, True, result, result)
        return result

    def solve(self, columns: np.ndarray) -> np.ndarray:
        """The product ``L^-1 columns`` (N, k)."""
        result = np.array(columns, order="C")
        _add_from_neighbours(self.neighbours, self.b, -1.0, columns, result)
        result /= self.sd[:, None]
        return result

    def solve_transposed(self, columns: np.ndarray) -> np.ndarray:
        """The product ``L'^-1 columns`` (N, k)."""
        scaled = columns / self.sd[:, None]
        result = scaled.copy()
        _add_to_neighbours(self.neighbours, self.b, -1.0, False, scaled, result)
        return result


def factor_of(
    rows: Rows,
    theta: np.ndarray,
    neighbours: np.ndarray,
    threads: int = 1,
    information: np.ndarray | None = None,
) -> Factor:
    """The factor at ``theta``.

    Parameters
    ----------
    rows : Rows
        The latents in their order; their noise is the nugget, and their y is not looked at.
    theta : (Q,) array
        Logarithms of the parameters, as ``rows.terms`` points to them.
    neighbours : (N, m) int
        Of every latent those before it that it is conditioned on, -1 behind the last of them.
    threads : int
    information : (N,) array, optional
        Numbers W above 0. The factor is then that of :math:`W^{1/2} f` with noise of variance 1 added.

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    b, sd = np.zeros(neighbours.shape), np.zeros(len(rows))
    nugget, weight = (
        (np.exp(2.0 * theta[rows.terms.noise]), rows.weight) if information is None else (1.0, information)
    )

    def work(start: int, end: int) -> float:
        return float(
            _factor_block(rows.terms, theta, nugget, rows.x, rows.t, weight, start, end, neighbours, b, sd)
        )

    require_finite(np.sum(in_blocks(len(rows), work, threads)))
    if information is not None:
        root = np.sqrt(information)
        b *= root[:, None] / root[np.maximum(neighbours, 0)]
        sd *= root
    return Factor(neighbours, b, sd)


def pulled_slopes(
    rows: Rows,
    theta: np.ndarray,
    neighbours: np.ndarray,
    pull_b: np.ndarray,
    pull_d: np.ndarray,
    threads: int = 1,
) -> np.ndarray:
    """Derivatives (Q,) in ``theta`` of what has the derivatives ``pull_b`` (N, m) in b and ``pull_d`` (N,) in d.

    The derivative in the nugget is left out: it is a number. Other parameters as for :func:`factor_of`.
    """

    def work(start: int, end: int) -> np.ndarray:
        slopes = np.zeros(len(theta))
        _slopes_block(
            rows.terms, theta, rows.x, rows.t, rows.weight, start, end, neighbours, pull_b, pull_d, slopes
        )  # fmt: skip
        return slopes

    return np.asarray(np.sum(in_blocks(len(rows), work, threads), axis=0))


@njit(cache=True, nogil=True, fastmath=_FAST)
def _factor_block(
    terms: Terms,
    theta: np.ndarray,
    nugget: float,
    x: np.ndarray,
    t: np.ndarray,
    weight: np.ndarray,
    start: int,
    end: int,
    neighbours: np.ndarray,
    b: np.ndarray,
    sd: np.ndarray,
) -> float:
    most = neighbours.shape[1] + 1
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    index = np.zeros(most, dtype=np.int64)
    L, own = room.factor, room.vectors[0]
    for i in range(start, end):
        n = with_neighbours(terms, theta, nugget, x, t, weight, neighbours, i, index, room)
        if n == 0:
            return np.nan
        m = n - 1
        kriging_weights(L, n, own)
        for p in range(m):
            b[i, p] = own[p]
        sd[i] = L[m * (m + 1) // 2 + m]
    return 0.0


@njit(cache=True, nogil=True, fastmath=_FAST)
def _slopes_block(
    terms: Terms,
    theta: np.ndarray,
    x: np.ndarray,
    t: np.ndarray,
    weight: np.ndarray,
    start: int,
    end: int,
    neighbours: np.ndarray,
    pull_b: np.ndarray,
    pull_d: np.ndarray,
    gradient: np.ndarray,
) -> None:
    most = neighbours.shape[1] + 1
    room = workspace(most, len(terms.kind), t.shape[1], x.shape[1])
    index, pull = np.zeros(most, dtype=np.int64), np.zeros(most * (most + 1) // 2)
    L, nugget = room.factor, np.exp(2.0 * theta[terms.noise])
    half, b = room.vectors[1], room.vectors[2]
    for i in range(start, end):
        n = with_neighbours(terms, theta, nugget, x, t, weight, neighbours, i, index, room)
        m = n - 1
        for p in range(m):
            half[p] = pull_b[i, p]
        forward_substitute(L, m, half)
        kriging_weights(L, n, b)
        add_slopes(terms, theta, room, b, half, pull_d[i], 1.0, weight, index, n, pull, gradient)


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_from_neighbours(
    neighbours: np.ndarray, b: np.ndarray, sign: float, f: np.ndarray, result: np.ndarray
) -> None:
    """Add ``sign * b[i, p] * f[j]`` of the neighbours j of each latent i to ``result[i]``, all columns at once.

    The latents come in their order. With the sign -1 and a copy of f for ``result`` (N, k) this is the product ``B f``.
    With the sign 1 and f itself for ``result`` it solves ``B x = f`` in place, since a latent then adds what its
    neighbours have become.
    """
    for i in range(len(f)):
        for p in range(neighbours.shape[1]):
            j = neighbours[i, p]
            if j < 0:
                break
            weight = sign * b[i, p]
            for s in range(f.shape[1]):
                result[i, s] += weight * f[j, s]


@njit(cache=True, nogil=True, fastmath=_FAST)
def _add_to_neighbours(
    neighbours: np.ndarray, b: np.ndarray, sign: float, backwards: bool, f: np.ndarray, result: np.ndarray
) -> None:
    """Add ``sign * b[i, p] * f[i]`` of each latent i to ``result[j]`` of its neighbours j: the transpose of the above.

    With the sign -1 and a copy of f for ``result`` this is the product ``B' f``. With the sign 1, backwards, and f
    itself for ``result`` it solves ``B' x = f`` in place: the last latent is the neighbour of none.
    """
    n = len(f)
    for k in range(n):
        i = n - 1 - k if backwards else k
        for p in range(neighbours.shape[1]):
            j = neighbours[i, p]
            if j < 0:
                break
            weight = sign * b[i, p]
            for s in range(f.shape[1]):
                result[j, s] += weight * f[i, s]


@njit(cache=True, nogil=True, fastmath=_FAST)
def add_pulls(
    neighbours: np.ndarray, left: np.ndarray, right: np.ndarray, factor: float, pull: np.ndarray
) -> None:
    """Add ``factor * left[i] . right[j]`` of every latent i (N, k) and each of its neighbours j to ``pull`` (N, m)."""
    for i in range(len(left)):
        for p in range(neighbours.shape[1]):
            j = neighbours[i, p]
            if j < 0:
                break
            total = 0.0
            for s in range(left.shape[1]):
                total += left[i, s] * right[j, s]
            pull[i, p] += factor * total
