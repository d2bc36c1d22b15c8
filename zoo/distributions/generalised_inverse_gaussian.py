r"""Generalised inverse Gaussian law of order 1/2."""

from __future__ import annotations

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.continuous import PositiveContinuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.inverse_gaussian import inverse_gaussian_draws
from zoo.distributions.parameters import as_float64, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch

__all__ = ["GeneralisedInverseGaussian"]


class GeneralisedInverseGaussianRV(SymbolicRandomVariable):
    """Draws as reciprocals of inverse Gaussian ones."""

    name = "generalised_inverse_gaussian"
    extended_signature = "[rng],[size],(),()->[rng],()"
    _print_name = ("GeneralisedInverseGaussian", "\\operatorname{GIG}_{1/2}")

    @classmethod
    def rv_op(cls, a, b, *, size=None, rng=None):
        """Graph of a draw: 1/x is inverse Gaussian with mean sqrt(a/b) and shape a."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        a, b = pt.as_tensor(a), pt.as_tensor(b)
        shape = require(a, a > 0, b >= 0, message="a > 0, b >= 0")
        mean = pt.sqrt(shape) / pt.sqrt(b)
        size = draw_size(size, (a, b), (0, 0))
        next_rng, draws = inverse_gaussian_draws(mean, shape, tuple(size), rng)
        return cls(inputs=[rng, size, a, b], outputs=[next_rng, 1.0 / draws])(rng, size, a, b)


class GeneralisedInverseGaussian(PositiveContinuous):
    r"""Generalised inverse Gaussian distribution of order 1/2, with a closed normaliser.

    .. math::

        f(x \mid a, b) = \sqrt{\frac{a}{2 \pi x}} \exp\left\{ \sqrt{a b} - \frac{a x + b / x}{2} \right\}

    ========  ==========================================
    Support   :math:`x \in (0, \infty)`
    Mean      :math:`\sqrt{b / a} + 1 / a`
    Variance  :math:`\sqrt{b} / a^{3/2} + 2 / a^2`
    ========  ==========================================

    It is the law of :math:`1 / y` for :math:`y` inverse Gaussian with mean :math:`\sqrt{a / b}` and shape a. With
    :math:`b = 0` it is Gamma(1/2, rate a/2). In li2014 eq (10), :math:`\lambda_n` given the rest follows it with
    :math:`a = 1, b = C^2 (m - y_n f_n)^2`.

    Parameters
    ----------
    a : tensor_like of float
        Above 0.
    b : tensor_like of float
        0 or more.
    """

    rv_type = GeneralisedInverseGaussianRV
    rv_op = GeneralisedInverseGaussianRV.rv_op

    @classmethod
    def dist(cls, a, b, **kwargs):
        """Unregistered variable."""
        a, b = as_float64(a, "a"), as_float64(b, "b")
        match_batch(kwargs, 0, a=(a, 0), b=(b, 0))
        return super().dist([a, b], **kwargs)

    def support_point(rv, size, a, b):
        """The mean."""
        return full_batch(pt.sqrt(b / a) + 1.0 / a, size, 0)

    def logp(value, a, b):
        """Log density; minus infinity outside the support."""
        x = pt.switch(value > 0, value, 1.0)
        # The exponent as one square, so that a large a b does not cancel.
        density = (
            0.5 * pt.log(a / (2.0 * np.pi * x))
            - 0.5 * (pt.sqrt(a) * pt.sqrt(x) - pt.sqrt(b) / pt.sqrt(x)) ** 2
        )
        return check_parameters(
            pt.switch((value > 0) & (value < np.inf), density, -np.inf), a > 0, b >= 0, msg="a > 0, b >= 0"
        )
