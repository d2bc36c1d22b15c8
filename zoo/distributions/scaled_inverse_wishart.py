r"""Huang and Wand's scaled inverse-Wishart law: half-t standard deviations."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.distributions.transforms import _default_transform
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.bartlett import bartlett_factor
from zoo.distributions.inverse_wishart import check_value, covariance_transform
from zoo.distributions.parameters import as_float64, multigammaln, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch, match_shape

__all__ = ["ScaledInverseWishart"]

_CONDITION = "df > 0, sigma > 0"


class ScaledInverseWishartRV(SymbolicRandomVariable):
    """Draws through the gamma mixture over the scales."""

    name = "scaled_inverse_wishart"
    extended_signature = "[rng],[size],(),(p)->[rng],(p,p)"
    _print_name = ("ScaledInverseWishart", "\\operatorname{ScaledInverseWishart}")

    @classmethod
    def rv_op(cls, df, sigma, *, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        df, sigma = pt.as_tensor(df), pt.as_tensor(sigma)
        p = sigma.shape[-1]
        size = draw_size(size, (df, sigma), (0, 1))
        checked = require(sigma, df > 0, sigma > 0, message=_CONDITION)
        # 1 / a of the docstring, which is Gamma(1/2, rate 1 / sigma^2).
        next_rng, precision = pm.Gamma.dist(0.5, 1.0 / checked**2, size=(*size, p), rng=rng).owner.outputs
        root = pt.sqrt(2.0 * df[..., None] * precision)
        next_rng, factor = bartlett_factor(df + p - 1.0, root[..., None] * pt.eye(p), tuple(size), next_rng)
        return cls(inputs=[rng, size, df, sigma], outputs=[next_rng, factor @ factor.mT])(
            rng, size, df, sigma
        )


class ScaledInverseWishart(Continuous):
    r"""Covariance matrix with half-t standard deviations (Huang and Wand 2013).

    The mixture :math:`X \mid a \sim \mathrm{IW}(d + p - 1,\, 2 d\, \mathrm{diag}(1/a))`,
    :math:`a_k \sim \mathrm{InverseGamma}(1/2, 1/\sigma_k^2)`, with a integrated out:

    .. math::

        f(X \mid d, \sigma) = \frac{d^{\,p n / 2}}{\Gamma_p(n / 2)} |X|^{-(n + p + 1)/2} \prod_{k=1}^{p}
            \frac{\Gamma((n+1)/2)}{\sqrt{\pi}\, \sigma_k}
            \left\{ d\, (X^{-1})_{kk} + \sigma_k^{-2} \right\}^{-(n + 1)/2}, \qquad n = d + p - 1

    ===========  ====================================================================
    Support      :math:`X\,(p \times p)` positive definite
    Deviations   :math:`\sqrt{X_{kk}} \sim \text{HalfStudentT}(d, \sigma_k)`
    Correlation  each has density proportional to :math:`(1 - \rho^2)^{d/2 - 1}`
    ===========  ====================================================================

    With ``df=2`` every correlation is uniform on (-1, 1). An inverse-Wishart prior ties small standard deviations
    to small correlations; this one does so much less.

    Parameters
    ----------
    df : tensor_like of float, default 2
        Degrees of freedom of the half-t, above 0.
    sigma : (..., p) tensor_like of float
        Scales of the standard deviations, above 0.

    Notes
    -----
    To sample without the funnel that heavy tails make, write the mixture out: ``a`` as an ``InverseGamma`` and
    ``InverseWishartCholesky(delta=df, scale_chol=diag(sqrt(2 df / a)))``.

    References
    ----------
    Huang, A. and Wand, M. P. (2013). Simple marginally noninformative prior distributions for covariance matrices.
    Bayesian Analysis 8, 439-452.
    """

    rv_type = ScaledInverseWishartRV
    rv_op = ScaledInverseWishartRV.rv_op

    @classmethod
    def dist(cls, df=2.0, sigma=None, **kwargs):
        """Unregistered variable."""
        if sigma is None:
            raise ValueError("sigma is missing. Give the p scales of the standard deviations.")
        sigma = as_float64(sigma, "sigma")
        if sigma.type.ndim < 1:
            raise ValueError("sigma is a number. Give a vector with one scale for each standard deviation.")
        match_shape(kwargs, (sigma.type.shape[-1],) * 2, "draw")
        df = as_float64(df, "df")
        match_batch(kwargs, 2, df=(df, 0), sigma=(sigma, 1))
        return super().dist([df, sigma], **kwargs)

    def support_point(rv, size, df, sigma):
        """Independent standard deviations at their scales."""
        matrix = sigma[..., None] ** 2 * pt.eye(sigma.shape[-1])
        # df may have batch dimensions that sigma has not.
        return full_batch(matrix + 0.0 * df[..., None, None], size, 2)

    def logp(value, df, sigma):
        """Log density; minus infinity for a matrix that is not positive definite."""
        check_value(value, sigma)
        p = sigma.shape[-1]
        n = df + p - 1.0
        factor = pt.linalg.cholesky(value)
        diagonal = pt.diagonal(factor, axis1=-2, axis2=-1)
        inverse = pt.linalg.solve_triangular(factor, pt.eye(p), lower=True, b_ndim=2)
        precisions = pt.sum(inverse**2, axis=-2)  # the diagonal of the inverse covariance
        mixed = (
            pt.gammaln(0.5 * (n + 1.0))[..., None]
            - pt.log(sigma)
            - 0.5 * np.log(np.pi)
            - 0.5 * (n + 1.0)[..., None] * pt.log(df[..., None] * precisions + sigma**-2)
        )
        density = (
            0.5 * p * n * pt.log(df)
            - multigammaln(0.5 * n, p)
            - (n + p + 1.0) * pt.sum(pt.log(diagonal), axis=-1)
            + pt.sum(mixed, axis=-1)
        )
        inside = pt.all(diagonal > 0, axis=-1)
        return check_parameters(pt.switch(inside, density, -np.inf), df > 0, sigma > 0, msg=_CONDITION)


_default_transform.register(ScaledInverseWishartRV, covariance_transform)
