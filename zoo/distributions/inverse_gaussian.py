r"""Inverse Gaussian law, with draws that do not cancel."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import PositiveContinuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.parameters import as_float64, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch

__all__ = ["InverseGaussian", "inverse_gaussian_draws"]


def inverse_gaussian_draws(mu: Any, lam: Any, size: tuple[Any, ...], rng: Any) -> tuple[Any, Any]:
    r"""The next generator, and draws with mean ``mu`` (which may be infinite) and shape ``lam``.

    With :math:`z \sim N(0, 1)` and :math:`a = \mu z^2 / \lambda`, the two roots of Michael, Schucany and Haas (1976)
    are :math:`\mu / h` and :math:`\mu h` with :math:`h = 1 + a/2 + \sqrt{a (a + 4)} / 2`. Nothing cancels in them,
    while the textbook form subtracts nearly equal numbers for a large mean, and returns zero or less. The
    smaller root is taken with probability :math:`h / (1 + h)`; for :math:`\mu \to \infty` it is
    :math:`\lambda / z^2`.
    """
    next_rng, z = pm.Normal.dist(0.0, 1.0, size=size, rng=rng).owner.outputs
    next_rng, u = pm.Uniform.dist(0.0, 1.0, size=size, rng=next_rng).owner.outputs
    z2 = pt.maximum(z * z, np.finfo(float).tiny)
    a = mu * z2 / lam
    h = 1.0 + 0.5 * (a + pt.sqrt(a * (a + 4.0)))
    return next_rng, pt.switch(pt.isinf(h), lam / z2, pt.switch(u * (1.0 + h) <= h, mu / h, mu * h))


class InverseGaussianRV(SymbolicRandomVariable):
    """Draws of the inverse Gaussian law."""

    name = "inverse_gaussian"
    extended_signature = "[rng],[size],(),()->[rng],()"
    _print_name = ("InverseGaussian", "\\operatorname{InverseGaussian}")

    @classmethod
    def rv_op(cls, mu, lam, *, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        mu, lam = pt.as_tensor(mu), pt.as_tensor(lam)
        size = draw_size(size, (mu, lam), (0, 0))
        checked = require(mu, mu > 0, lam > 0, message="mu > 0, lam > 0")
        next_rng, draws = inverse_gaussian_draws(checked, lam, tuple(size), rng)
        return cls(inputs=[rng, size, mu, lam], outputs=[next_rng, draws])(rng, size, mu, lam)


class InverseGaussian(PositiveContinuous):
    r"""Inverse Gaussian (Wald) distribution.

    .. math::

        f(x \mid \mu, \lambda) = \sqrt{\frac{\lambda}{2 \pi x^3}}
            \exp\left\{ -\frac{\lambda (x - \mu)^2}{2 \mu^2 x} \right\}

    ========  ==============================
    Support   :math:`x \in (0, \infty)`
    Mean      :math:`\mu`
    Variance  :math:`\mu^3 / \lambda`
    ========  ==============================

    The density of ``pm.Wald``, but every draw is positive and has the right law for any mean, also in compiled mode.
    An infinite ``mu`` is allowed and gives the Levy law of :math:`\lambda / z^2`: in the augmented hinge
    (li2014 eq 10), :math:`1 / \lambda_n` follows it where the margin is met exactly.

    Parameters
    ----------
    mu : tensor_like of float
        Mean, above 0; ``inf`` is allowed.
    lam : tensor_like of float, default 1
        Shape, above 0.
    """

    rv_type = InverseGaussianRV
    rv_op = InverseGaussianRV.rv_op

    @classmethod
    def dist(cls, mu, lam=1.0, **kwargs):
        """Unregistered variable."""
        mu, lam = as_float64(mu, "mu"), as_float64(lam, "lam")
        match_batch(kwargs, 0, mu=(mu, 0), lam=(lam, 0))
        return super().dist([mu, lam], **kwargs)

    def support_point(rv, size, mu, lam):
        """The mode, which exists for an infinite mean too."""
        ratio = 1.5 * mu / lam  # mode = mu (sqrt(1 + r^2) - r), written without cancellation
        mode = pt.switch(pt.isinf(mu), lam / 3.0, mu / (ratio + pt.sqrt(1.0 + ratio**2)))
        return full_batch(mode, size, 0)

    def logp(value, mu, lam):
        """Log density; minus infinity outside the support."""
        x = pt.switch(value > 0, value, 1.0)
        density = 0.5 * pt.log(lam / (2.0 * np.pi)) - 1.5 * pt.log(x) - 0.5 * lam / x * (x / mu - 1.0) ** 2
        return check_parameters(
            pt.switch((value > 0) & (value < np.inf), density, -np.inf),
            mu > 0,
            lam > 0,
            msg="mu > 0, lam > 0",
        )
