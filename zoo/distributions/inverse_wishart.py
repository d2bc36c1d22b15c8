r"""Inverse-Wishart law of a covariance matrix."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.transforms import CholeskyCovTransform, _default_transform
from pymc.logprob.transforms import Transform
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.bartlett import CONDITION, bartlett_factor, covariance_logp, valid
from zoo.distributions.parameters import as_float64, exactly_one, lower_factor
from zoo.distributions.shapes import draw_size, full_batch, match_batch, match_shape, order_of, same_length

__all__ = ["InverseWishart", "check_value", "covariance_transform", "inverse_wishart_parameters"]


def inverse_wishart_parameters(nu: Any, delta: Any, scale: Any, scale_chol: Any) -> tuple[Any, Any]:
    """Degrees of freedom in the textbook sense, and the factor of the scale.

    Exactly one of ``nu`` and ``delta = nu - p + 1``, and exactly one of ``scale`` and ``scale_chol``.
    """
    exactly_one(nu=nu, delta=delta)
    factor = lower_factor(scale=scale, scale_chol=scale_chol)
    if delta is not None:
        nu = as_float64(delta, "delta") + factor.shape[-1] - 1.0
    return as_float64(nu, "nu"), factor


def check_value(value: Any, scale_chol: Any) -> None:
    """Raise where the shape of a value is known not to be that of the scale."""
    if value.type.ndim < 2:
        raise ValueError(f"The value has {value.type.ndim} dimensions. Give a matrix, or a batch of them.")
    for axis in (-2, -1):
        same_length("an axis of the value", value.type.shape[axis], "the scale", scale_chol.type.shape[-1])


class InverseWishartRV(SymbolicRandomVariable):
    """Draws of inverse-Wishart matrices."""

    name = "inverse_wishart"
    extended_signature = "[rng],[size],(),(p,p)->[rng],(p,p)"
    _print_name = ("InverseWishart", "\\operatorname{InverseWishart}")

    @staticmethod
    def of_factor(factor):
        """What is drawn, by its Cholesky factor."""
        return factor @ factor.mT

    @classmethod
    def rv_op(cls, nu, scale_chol, *, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        nu, scale_chol = pt.as_tensor(nu), pt.as_tensor(scale_chol)
        size = draw_size(size, (nu, scale_chol), (0, 2))
        next_rng, factor = bartlett_factor(nu, scale_chol, tuple(size), rng)
        outputs = [next_rng, cls.of_factor(factor)]
        return cls(inputs=[rng, size, nu, scale_chol], outputs=outputs)(rng, size, nu, scale_chol)


class InverseWishart(Continuous):
    r"""Inverse-Wishart distribution of a covariance matrix.

    .. math::

        f(X \mid \nu, S) = \frac{|S|^{\nu/2}}{2^{\nu p / 2} \Gamma_p(\nu / 2)} |X|^{-(\nu + p + 1)/2}
            \exp\left\{ -\tfrac12 \operatorname{tr}(S X^{-1}) \right\}

    ========  ==========================================================================================
    Support   :math:`X\,(p \times p)` positive definite
    Mean      :math:`S / (\nu - p - 1)` for :math:`\nu > p + 1`
    Mode      :math:`S / (\nu + p + 1)`
    Variance  of :math:`X_{ij}`, with :math:`\delta = \nu - p + 1 > 4`:
              :math:`\frac{\delta S_{ij}^2 + (\delta - 2) S_{ii} S_{jj}}{(\delta - 1)(\delta - 2)^2 (\delta - 4)}`
    ========  ==========================================================================================

    Any two blocks of a partition are consistent under ``delta``: the leading k x k block of
    InverseWishart(delta, S) is InverseWishart(delta, S[:k, :k]), which is not so for ``nu`` (Dawid 1981;
    yu2005 theorem 5.1 needs it).

    Parameters
    ----------
    nu : tensor_like of float, optional
        Degrees of freedom, any real number above p - 1. One of ``nu`` and ``delta``.
    scale : (..., p, p) tensor_like of float, optional
        Positive definite scale. One of ``scale`` and ``scale_chol``.
    delta : tensor_like of float, optional
        Dawid's ``nu - p + 1``, above 0.
    scale_chol : (..., p, p) tensor_like of float, optional
        Lower Cholesky factor of the scale, which saves a factorisation.

    Raises
    ------
    ValueError
        When the variable is made, where the shapes do not fit or not exactly one of a pair is given.
    ParameterValueError
        When it is evaluated, where ``nu`` is too small or the scale is not positive definite.

    Notes
    -----
    The default transform is to an unconstrained Cholesky factor. :class:`InverseWishartCholesky` is
    easier to sample: its unconstrained variables are independent a priori.

    References
    ----------
    Dawid, A. P. (1981). Some matrix-variate distribution theory. Biometrika 68, 265-274.
    """

    rv_type = InverseWishartRV
    rv_op = InverseWishartRV.rv_op

    @classmethod
    def dist(cls, nu=None, scale=None, *, delta=None, scale_chol=None, **kwargs):
        """Unregistered variable."""
        nu, scale_chol = inverse_wishart_parameters(nu, delta, scale, scale_chol)
        match_shape(kwargs, scale_chol.type.shape[-2:], "draw")
        match_batch(kwargs, 2, nu=(nu, 0), scale=(scale_chol, 2))
        return super().dist([nu, scale_chol], **kwargs)

    def support_point(rv, size, nu, scale_chol):
        """The mode, which always exists."""
        mode = scale_chol @ scale_chol.mT / (nu + scale_chol.shape[-1] + 1.0)[..., None, None]
        return full_batch(mode, size, 2)

    def logp(value, nu, scale_chol):
        """Log density; minus infinity for a matrix that is not positive definite."""
        check_value(value, scale_chol)
        factor = pt.linalg.cholesky(value)
        diagonal = pt.diagonal(factor, axis1=-2, axis2=-1)
        whitened = pt.linalg.solve_triangular(factor, scale_chol, lower=True, b_ndim=2)
        density = covariance_logp(pt.log(diagonal), whitened, nu, scale_chol)
        inside = pt.all(diagonal > 0, axis=-1)
        return check_parameters(pt.switch(inside, density, -np.inf), valid(nu, scale_chol), msg=CONDITION)


class CovarianceTransform(Transform):
    """PyMC's transform of a covariance to the entries of its Cholesky factor, for any size of the matrix.

    The size is not read off the parameters' graph, which may be random.
    """

    name = CholeskyCovTransform.name
    ndim_supp = 1

    def forward(self, value, *inputs):
        """Packed factor, with the diagonal in logs."""
        return CholeskyCovTransform(value.shape[-1]).forward(value)

    def backward(self, value, *inputs):
        """Covariance of a packed factor."""
        return CholeskyCovTransform(order_of(value, inputs[-1])).backward(value)

    def log_jac_det(self, value, *inputs):
        """Log determinant of the derivative of ``backward``."""
        return CholeskyCovTransform(order_of(value, inputs[-1])).log_jac_det(value)


@_default_transform.register(InverseWishartRV)
def covariance_transform(op, rv):
    """Default transform of the laws of covariances."""
    return CovarianceTransform()
