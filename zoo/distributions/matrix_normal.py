r"""Matrix normal law, in batches and without its Kronecker product."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import maybe_resize
from pymc.logprob.abstract import _logprob
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.parameters import as_float64, exactly_one, log_determinant, lower_factor, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch, match_shape, same_length

__all__ = ["MatrixNormal"]

_CONDITION = "row and column covariances (or precisions) positive definite"


class MatrixNormalRV(SymbolicRandomVariable):
    """Draws of matrix normal variables; each factor is one of a covariance or, if so flagged, of a precision."""

    name = "matrix_normal"
    extended_signature = "[rng],[size],(m,n),(m,m),(n,n)->[rng],(m,n)"
    _print_name = ("MatrixNormal", "\\operatorname{MatrixNormal}")

    def __init__(self, *args, row_precision: bool, column_precision: bool, **kwargs):
        self.row_precision, self.column_precision = row_precision, column_precision
        super().__init__(*args, **kwargs)

    @classmethod
    def rv_op(cls, mu, row, column, *, row_precision=False, column_precision=False, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        mu, row, column = pt.as_tensor(mu), pt.as_tensor(row), pt.as_tensor(column)
        size = draw_size(size, (mu, row, column), (2, 2, 2))
        shape = (*size, row.shape[-1], column.shape[-1])
        next_rng, white = pm.Normal.dist(0.0, 1.0, size=shape, rng=rng).owner.outputs
        half = _colour(require(row, _valid(row, column), message=_CONDITION), white, row_precision)
        draws = mu + _colour(column, half.mT, column_precision).mT
        op = cls(
            inputs=[rng, size, mu, row, column],
            outputs=[next_rng, draws],
            row_precision=row_precision,
            column_precision=column_precision,
        )
        return op(rng, size, mu, row, column)

    def rebuild_rv(self, *args, **kwargs):
        """The same law with other parameters or another size."""
        return self.rv_op(
            *args, row_precision=self.row_precision, column_precision=self.column_precision, **kwargs
        )


def _valid(row, column):
    # A matrix that is not positive definite has a factor of NaN, which is not above zero either.
    return pt.all([pt.all(pt.diagonal(factor, axis1=-2, axis2=-1) > 0) for factor in (row, column)])


def _colour(factor, white, precision):
    """Left factor of the covariance times white noise."""
    if precision:
        return pt.linalg.solve_triangular(factor, white, lower=True, trans=1, b_ndim=2)
    return factor @ white


def _whiten(factor, x, precision):
    """Inverse of :func:`_colour`."""
    if precision:
        return factor.mT @ x
    return pt.linalg.solve_triangular(factor, x, lower=True, b_ndim=2)


class MatrixNormal(Continuous):
    r"""Matrix normal distribution.

    .. math::

        f(X \mid M, U, V) = (2\pi)^{-mn/2} |U|^{-n/2} |V|^{-m/2}
            \exp\left\{ -\tfrac12 \operatorname{tr}[V^{-1} (X - M)' U^{-1} (X - M)] \right\}

    ==========  ==============================================================
    Support     :math:`X \in \mathbb{R}^{m \times n}`
    Mean        :math:`M`
    Covariance  :math:`\mathrm{cov}(X_{ij}, X_{kl}) = U_{ik} V_{jl}`, that is :math:`V \otimes U` of
                the columns stacked below each other
    ==========  ==============================================================

    Everything may have leading batch dimensions, which broadcast. The Kronecker product is never formed: after the
    factorisations, density and gradient take :math:`O(m^2 n + m n^2)` operations.

    Parameters
    ----------
    mu : tensor_like of float, default 0
        Mean, broadcast to (..., m, n).
    row_cov, row_chol, row_prec : (..., m, m) tensor_like of float
        Exactly one of: covariance among rows, its lower Cholesky factor, the precision among rows.
    col_cov, col_chol, col_prec : (..., n, n) tensor_like of float
        The same of the columns.

    Raises
    ------
    ValueError
        When the variable is made, where shapes do not fit or not exactly one of three is given.
    ParameterValueError
        When it is evaluated, where a matrix is not positive definite.

    Notes
    -----
    :math:`(c U, V / c)` gives the same law: of two learned covariances only :math:`V \otimes U` is identified.
    """

    rv_type = MatrixNormalRV
    rv_op = MatrixNormalRV.rv_op

    @classmethod
    def dist(
        cls,
        mu=0.0,
        *,
        row_cov=None,
        row_chol=None,
        row_prec=None,
        col_cov=None,
        col_chol=None,
        col_prec=None,
        **kwargs,
    ):
        """Unregistered variable."""
        row, row_precision = _side("row", row_cov, row_chol, row_prec)
        column, column_precision = _side("col", col_cov, col_chol, col_prec)
        core = (row.type.shape[-1], column.type.shape[-1])
        mu = _mean(mu, row, column)
        match_shape(kwargs, core, "draw")
        match_batch(kwargs, 2, mu=(mu, 2), rows=(row, 2), columns=(column, 2))
        flags = {"row_precision": row_precision, "column_precision": column_precision}
        return super().dist([mu, row, column], **flags, **kwargs)


def _side(side: str, cov: Any, chol: Any, prec: Any) -> tuple[Any, bool]:
    """Factor of a covariance or a precision, and whether it is one of a precision."""
    names = [f"{side}_{kind}" for kind in ("cov", "chol", "prec")]
    exactly_one(**dict(zip(names, (cov, chol, prec), strict=True)))
    if prec is not None:
        return lower_factor(**{names[2]: prec, f"{side}_prec_chol": None}), True
    return lower_factor(**{names[0]: cov, names[1]: chol}), False


def _mean(mu: Any, row: Any, column: Any) -> Any:
    mu = as_float64(mu, "mu")
    if mu.type.ndim:
        _fits("mu", mu.type.shape[-1], "columns", column.type.shape[-1])
    if mu.type.ndim > 1:
        _fits("mu", mu.type.shape[-2], "rows", row.type.shape[-1])
    lengths = (row.shape[-1], column.shape[-1])
    return pt.broadcast_to(mu, (*mu.shape[: max(mu.type.ndim - 2, 0)], *lengths))


def _fits(name: str, length: int | None, what: str, expected: int | None) -> None:
    if length != 1:
        same_length(f"the {what} axis of {name}", length, f"the covariance of the {what}", expected)


@_support_point.register(MatrixNormalRV)
def _matrix_normal_support_point(op, rv, rng, size, mu, row, column):
    return full_batch(mu, size, 2)


@_logprob.register(MatrixNormalRV)
def _matrix_normal_logp(op, values, rng, size, mu, row, column, **kwargs):
    (value,) = values
    for name, axis, factor in (("rows", -2, row), ("columns", -1, column)):
        same_length(f"the {name} axis of the value", value.type.shape[axis], f"the covariance of the {name}",
                    factor.type.shape[-1])  # fmt: skip
    half = _whiten(row, value - mu, op.row_precision)
    white = _whiten(column, half.mT, op.column_precision)
    m, n = row.shape[-1], column.shape[-1]
    # The factor of a precision enters the normaliser with the other sign.
    log_rows = log_determinant(row) * (-1.0 if op.row_precision else 1.0)
    log_columns = log_determinant(column) * (-1.0 if op.column_precision else 1.0)
    density = -0.5 * (
        m * n * np.log(2.0 * np.pi) + n * log_rows + m * log_columns + pt.sum(white**2, axis=(-2, -1))
    )
    return check_parameters(maybe_resize(density, size), _valid(row, column), msg=_CONDITION)
