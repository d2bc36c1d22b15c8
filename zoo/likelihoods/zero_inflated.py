r"""What likelihoods of counts with structural zeros share (Lambert 1992).

With probability :math:`\pi` (``extra_zeros``) y is 0, and else it is a count of another law:

.. math::

    p(0) = \pi + (1 - \pi) g(0), \qquad p(y) = (1 - \pi) g(y), \quad y > 0.
"""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt

__all__ = ["inflated", "inflated_information", "inflated_random"]


def inflated(y: Any, log_zero: Any, log_count: Any, extra_zeros: Any) -> Any:
    """Log density of y, of whose count law these are the log densities at 0 and at y."""
    log_one, log_rest = _logs(extra_zeros)
    return pt.switch(pt.eq(y, 0.0), pt.logaddexp(log_one, log_rest + log_zero), log_rest + log_count)


def inflated_information(log_zero: Any, information: Any, extra_zeros: Any) -> Any:
    r"""Expected information of f, from that of the count law, :math:`s`, and its log density at 0.

    For the Poisson and the negative binomial law the slope of :math:`\log g(0)` in f is :math:`-s` too. With
    :math:`q = (1 - \pi) g(0) / p(0)`, the probability that an observed zero is none of the structural ones, the slope
    of :math:`\log p(y)` is :math:`-q s` at 0 and that of :math:`\log g` elsewhere, whence

    .. math::

        I = p(0) q^2 s^2 + (1 - \pi) (s - s^2 g(0)) = (1 - \pi) s \left( 1 - s \, g(0) \, (1 - q) \right),

    which is positive since :math:`s \, g(0) < 1`.
    """
    log_one, log_rest = _logs(extra_zeros)
    structural = pt.sigmoid(log_one - log_rest - log_zero)
    return (1.0 - extra_zeros) * information * (1.0 - information * pt.exp(log_zero) * structural)


def inflated_random(count: Any, extra_zeros: Any, size: Any) -> Any:
    """A draw of y, given a draw of the count law."""
    return pt.switch(pm.Uniform.dist(0.0, 1.0, size=size) < extra_zeros, 0.0, count)


def _logs(extra_zeros: Any) -> tuple[Any, Any]:
    # PyTensor holds a number such as 0.5 in single precision, which shows in the logarithms.
    p = pt.cast(extra_zeros, "float64")
    return pt.log(p), pt.log1p(-p)
