r"""Logarithms of normal probabilities as PyTensor graphs, with their digits and finite derivatives far out.

:mod:`zoo.inference.gibbs.normal_interval` has the formulas of an interval, and the same numbers compiled. With
:math:`L(a, b) = \log(\Phi(b) - \Phi(a))` the derivatives are those of the named operation itself,

.. math:: \partial L / \partial b = \varphi(b) e^{-L}, \quad \partial L / \partial a = -\varphi(a) e^{-L},

so that second derivatives, and derivatives of these, are made of L again and stay short. A derivative is at most
:math:`e^{3/2} \max(1 + |x|, 1 / (b - a))` in size, x being its end, which keeps it finite where L has no digits left.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

from zoo.inference.gibbs.normal_interval import NARROW
from zoo.ops.elementwise import ElementwiseOp

__all__ = ["FAR", "LogNormalInterval", "log_normal_cdf", "log_normal_interval"]

FAR = 1e9
"""An interval of this width is one without a second end."""

# Where the two forms of the logarithm of the normal distribution function change places.
_SPLIT = -1.0
_HALF_LOG_2_PI = 0.5 * np.log(2.0 * np.pi)


def log_normal_cdf(z: Any) -> Any:
    """Logarithm of the standard normal distribution function."""
    # Each form gets only numbers that it can do with: the derivative of the other one must not be infinite.
    below, above = pt.minimum(z, _SPLIT), pt.maximum(z, _SPLIT)
    left = pt.log(0.5 * pt.erfcx(-np.sqrt(0.5) * below)) - 0.5 * below**2
    right = pt.log1p(-0.5 * pt.erfc(np.sqrt(0.5) * above))
    return pt.switch(z < _SPLIT, left, right)


class LogNormalInterval(ElementwiseOp):
    """Logarithm of the probability that a standard normal variable lies between finite a and b, elementwise."""

    def build_inner_graph(self, a: Any, b: Any) -> list[Any]:
        """The interval is mirrored to the left; a narrow one is expanded around its middle."""
        right = pt.gt(a + b, 0.0)
        low, high = pt.switch(right, -b, a), pt.switch(right, -a, b)
        width, middle = high - low, 0.5 * (low + high)
        narrow = pt.lt(width * pt.maximum(1.0, -middle), NARROW)
        bend = pt.switch(narrow, width**2 * (middle**2 - 1.0) / 24.0, 0.0)
        of_narrow = pt.log(width) - 0.5 * middle**2 - _HALF_LOG_2_PI + pt.log1p(bend)
        upper = log_normal_cdf(high)
        between = pt.switch(narrow, -1.0, log_normal_cdf(low) - upper)
        return [pt.switch(narrow, of_narrow, upper + pt.log(-pt.expm1(between)))]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> list[Any]:
        """By the closed form, which needs the value alone."""
        a, b = inputs
        (value,), (cotangent,) = outputs, cotangents
        steepest = 1.0 / (b - a)

        def slope(x: Any) -> Any:
            most = 1.5 + pt.log(pt.maximum(1.0 + pt.abs(x), steepest))
            return pt.exp(pt.minimum(-0.5 * x**2 - _HALF_LOG_2_PI - value, most))

        return [-cotangent * slope(a), cotangent * slope(b)]


def log_normal_interval(a: Any, b: Any) -> Any:
    """Logarithm of the probability that a standard normal variable lies between finite numbers, a below b."""
    return LogNormalInterval()(a, b)
