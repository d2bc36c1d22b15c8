r"""Inverse-Wishart law of a Cholesky factor, non-centred by construction."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.transforms import _default_transform
from pymc.logprob.transform_value import TransformedValue
from pymc.logprob.transforms import Transform

from zoo.distributions.bartlett import (
    CONDITION,
    covariance_logp,
    scaled_inverse,
    triangle,
    valid,
)
from zoo.distributions.inverse_wishart import InverseWishartRV, check_value, inverse_wishart_parameters
from zoo.distributions.shapes import full_batch, match_batch, match_shape, order_of

__all__ = ["BartlettTransform", "InverseWishartCholesky"]


class InverseWishartCholeskyRV(InverseWishartRV):
    """Draws of Cholesky factors of inverse-Wishart matrices."""

    name = "inverse_wishart_cholesky"
    _print_name = ("InverseWishartCholesky", "\\operatorname{InverseWishartCholesky}")

    @staticmethod
    def of_factor(factor):
        """The factor itself."""
        return factor


class InverseWishartCholesky(Continuous):
    r"""Distribution of the lower Cholesky factor of an inverse-Wishart covariance.

    :math:`F` with :math:`F F' \sim \mathrm{IW}(\nu, S)`. Its density is that of the covariance times the Jacobian
    of :math:`F \mapsto F F'`:

    .. math::

        f(F \mid \nu, S) = 2^p \prod_{i=1}^{p} F_{ii}^{p - i + 1} \; \mathrm{IW}(F F' \mid \nu, S)

    ========  =========================================================================
    Support   :math:`F\,(p \times p)` lower triangular with a positive diagonal
    Mode      of :math:`F F'`: :math:`S / (\nu + p + 1)`
    ========  =========================================================================

    What a sampler sees is its :class:`BartlettTransform`: the logs of chi variables, and standard normal
    variables, independent of each other and of the scale a priori. So no funnel between the factor and a
    learned scale.

    Parameters
    ----------
    nu : tensor_like of float, optional
        Degrees of freedom, any real number above p - 1. One of ``nu`` and ``delta``.
    scale : (..., p, p) tensor_like of float, optional
        Positive definite scale of the covariance. One of ``scale`` and ``scale_chol``.
    delta : tensor_like of float, optional
        Dawid's ``nu - p + 1``, above 0.
    scale_chol : (..., p, p) tensor_like of float, optional
        Lower Cholesky factor of the scale.

    Examples
    --------
    .. code-block:: python

        with pm.Model():
            chol = zoo.distributions.InverseWishartCholesky("chol", delta=2, scale=np.eye(3))
            cov = pm.Deterministic("cov", chol @ chol.T)
            x = pm.MvNormal("x", mu=0, chol=chol, shape=(10, 3))
    """

    rv_type = InverseWishartCholeskyRV
    rv_op = InverseWishartCholeskyRV.rv_op

    @classmethod
    def dist(cls, nu=None, scale=None, *, delta=None, scale_chol=None, **kwargs):
        """Unregistered variable."""
        nu, scale_chol = inverse_wishart_parameters(nu, delta, scale, scale_chol)
        match_shape(kwargs, scale_chol.type.shape[-2:], "draw")
        match_batch(kwargs, 2, nu=(nu, 0), scale=(scale_chol, 2))
        return super().dist([nu, scale_chol], **kwargs)

    def support_point(rv, size, nu, scale_chol):
        """The factor of the covariance's mode."""
        return full_batch(scale_chol / pt.sqrt(nu + scale_chol.shape[-1] + 1.0)[..., None, None], size, 2)

    def logp(value, nu, scale_chol):
        """Log density; minus infinity off the support."""
        check_value(value, scale_chol)
        B = _made_from(value)
        if B is None:
            diagonal = pt.diagonal(value, axis1=-2, axis2=-1)
            whitened = pt.linalg.solve_triangular(value, scale_chol, lower=True, b_ndim=2)
            inside = pt.all(diagonal > 0, axis=-1) & pt.all(pt.eq(pt.triu(value, 1), 0.0), axis=(-2, -1))
            density = pt.switch(inside, _factor_logp(pt.log(diagonal), whitened, nu, scale_chol), -np.inf)
        else:
            of_scale, of_B = (pt.diagonal(each, axis1=-2, axis2=-1) for each in (scale_chol, B))
            density = _factor_logp(pt.log(of_scale) - pt.log(of_B), B, nu, scale_chol)
        return check_parameters(density, valid(nu, scale_chol), msg=CONDITION)


def _factor_logp(log_diagonal, whitened, nu, scale_chol):
    p = scale_chol.shape[-1]
    jacobian = p * np.log(2.0) + pt.sum((p - pt.arange(p)) * log_diagonal, axis=-1)
    return covariance_logp(log_diagonal, whitened, nu, scale_chol) + jacobian


def _made_from(value):
    """The ``B`` that :class:`BartlettTransform` made ``value = L B^-1`` from, which saves to solve for it again."""
    made = value.owner is not None and isinstance(value.owner.op, TransformedValue)
    return getattr(value.owner.inputs[0].tag, "bartlett", None) if made else None


class BartlettTransform(Transform):
    r"""Map a factor :math:`F` to the entries of :math:`B = F^{-1} L`, with the diagonal in logs.

    The unconstrained vector holds the lower triangle row by row. From :math:`dF = -F\, dB\, B^{-1}` and the
    determinants of products of triangular matrices,

    .. math::

        \log |J| = \sum_{i=1}^{p} i \log L_{ii} - p \log B_{ii}

    where :math:`L L'` is the scale.
    """

    name = "bartlett"
    ndim_supp = 1

    def forward(self, value, *inputs):
        """Unconstrained vector of a factor."""
        B = pt.linalg.solve_triangular(value, inputs[-1], lower=True, b_ndim=2)
        rows, columns = pt.tril_indices(B.shape[-1])
        on_diagonal = pt.eq(rows, columns)
        entries = B[..., rows, columns]
        return pt.switch(on_diagonal, pt.log(pt.switch(on_diagonal, entries, 1.0)), entries)

    def backward(self, value, *inputs):
        """Factor of an unconstrained vector."""
        B = _bartlett(value, order_of(value, inputs[-1]))
        factor = scaled_inverse(B, inputs[-1])
        factor.tag.bartlett = B
        return factor

    def log_jac_det(self, value, *inputs):
        """Log determinant of the derivative of ``backward``."""
        p = order_of(value, inputs[-1])
        logs = value[..., _diagonal(p)]
        of_scale = pt.log(pt.diagonal(inputs[-1], axis1=-2, axis2=-1))
        return pt.sum((pt.arange(p) + 1.0) * of_scale - p * logs, axis=-1)


def _diagonal(p):
    """Places of the diagonal in the packed lower triangle."""
    return pt.arange(p) * (pt.arange(p) + 3) // 2


def _bartlett(value, p):
    rows, columns = pt.tril_indices(p)
    below = pt.nonzero(pt.neq(rows, columns))[0]
    return triangle(pt.exp(value[..., _diagonal(p)]), value[..., below])


@_default_transform.register(InverseWishartCholeskyRV)
def _bartlett_transform(op, rv):
    return BartlettTransform()
