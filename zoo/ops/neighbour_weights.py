r"""What the neighbours of a row say of it, from their covariances, for many rows at once.

With A the covariance of the neighbours of a row, k that of the row with them and :math:`k_{ii}` its variance, the row
given its neighbours has the mean :math:`b'y` and the variance v,

.. math:: b = A^{-1} k, \quad v = k_{ii} - k'b.

A change dA, dk, :math:`dk_{ii}` moves them by :math:`db = A^{-1}(dk - dA\, b)` and
:math:`dv = dk_{ii} - 2 b'dk + b' dA\, b`. So with :math:`h = A^{-1} g_b` the derivatives of a function whose slopes in
b and v are :math:`g_b` and :math:`g_v` are

.. math:: h - 2 g_v b \text{ in k}, \quad g_v \text{ in } k_{ii}, \quad
    g_v\, b b' - \tfrac12 (h b' + b h') \text{ in A},

which takes one more solution with the same factor.
"""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType
from pytensor.tensor.symbolic import TensorSymbolicOp

__all__ = ["NeighbourWeights", "neighbour_weights"]


class NeighbourWeights(TensorSymbolicOp):
    """Weights (N, m) and variances (N,) from covariances (N, m + 1, m + 1) of neighbours and the row, which is last."""

    inline = True

    def build_inner_graph(self, K: Any) -> list[Any]:
        """By the Cholesky factor of the neighbours' covariance."""
        half = pt.linalg.solve_triangular(_factor(K), K[:, :-1, -1], lower=True, b_ndim=1)
        b = pt.linalg.solve_triangular(_factor(K), half, lower=True, trans="T", b_ndim=1)
        return [b, K[:, -1, -1] - pt.sum(half**2, axis=-1)]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """The derivatives at the top of this module; each pair of entries off the diagonal shares its own evenly."""
        (K,), (b, v) = inputs, outputs
        of_b, of_v = (
            out.zeros_like() if isinstance(g.type, DisconnectedType) else g
            for out, g in zip((b, v), cotangents, strict=True)
        )
        half = pt.linalg.solve_triangular(_factor(K), of_b, lower=True, b_ndim=1)
        h = pt.linalg.solve_triangular(_factor(K), half, lower=True, trans="T", b_ndim=1)
        # The matrix is r b' + b r' with b and r continued to the row itself: dv = u' dK u for u = (-b, 1), and so on.
        one = pt.ones_like(of_v)[:, None]
        u = pt.concatenate([-b, one], axis=1)
        left = pt.concatenate([h, 0.0 * one], axis=1)
        product = left[:, :, None] * u[:, None, :]
        slope = of_v[:, None, None] * u[:, :, None] * u[:, None, :]
        return [slope + 0.5 * (product + product.transpose(0, 2, 1))]


def _factor(K: Any) -> Any:
    # The compiler makes one of equal ones.
    return pt.linalg.cholesky(K[:, :-1, :-1], lower=True, on_error="nan")


def neighbour_weights(K: Any) -> tuple[Any, Any]:
    """Weights b (N, m) of the neighbours and variances v (N,) of rows given them, differentiable in K.

    Parameters
    ----------
    K : (N, m + 1, m + 1) tensor
        Covariances of the m neighbours of each row and of the row itself, which is the last. What a place without a
        neighbour needs is a row and a column of zeros with a positive number on the diagonal: its weight is then 0.
    """
    b, v = NeighbourWeights()(K)
    return b, v
