r"""Hinge pseudo-likelihood and its augmentation (li2014 eqs 3, 7 and 10), as named PyTensor
operations.

A named operation is one that a printed graph shows and that a rewrite can find. The compiler puts
the operations of its body in its place before anything else, so that it still fuses value, gradient
and sum into one pass over the rows (``benchmarks/ops.py``), and every backend has it.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Constant, Variable

from zoo.ops.elementwise import ElementwiseOp

__all__ = ["AugmentedHingeLogp", "HingeLogp", "augmented_hinge_logp", "hinge_logp", "require_labels"]


def require_labels(y: Any, argument: str) -> None:
    """Raise where an array, a number or a constant of PyTensor holds other labels than -1 and +1.

    What a symbolic variable will hold is not known yet, and not looked at.
    """
    if isinstance(y, Variable) and not isinstance(y, Constant):
        return
    values = np.atleast_1d(y.data if isinstance(y, Constant) else y)
    bad = np.argwhere(~np.isin(values, (-1, 1)))
    if len(bad):
        place = tuple(int(i) for i in bad[0])
        raise ValueError(
            f"{argument} is {values[place]!s} at {list(place)}. Labels must be -1 or +1: recode 0/1 labels as 2 * y - "
            "1."
        )


class HingeLogp(ElementwiseOp):
    r""":math:`-2C \max(0, m - y f)` of f, y, C and margin m, elementwise (li2014 eq 3).

    At the kink the gradient is the subgradient 0.
    """

    def build_inner_graph(self, f: Any, y: Any, C: Any, margin: Any) -> list[Any]:
        """The formula."""
        return [-2.0 * C * pt.maximum(0.0, margin - y * f)]


class AugmentedHingeLogp(ElementwiseOp):
    r"""Log of the joint density of y and :math:`\lambda` of f, y, :math:`\lambda`, C and margin
    (li2014 eq 7).
    """

    def build_inner_graph(self, f: Any, y: Any, lam: Any, C: Any, margin: Any) -> list[Any]:
        """The formula, as a square: nothing cancels in it."""
        root = pt.sqrt(lam)
        return [-0.5 * pt.log(2.0 * np.pi * lam) - 0.5 * (root + C * (margin - y * f) / root) ** 2]


def hinge_logp(f: Any, y: Any, C: Any = 1.0, margin: Any = 1.0) -> Any:
    r"""Pseudo-log-likelihood :math:`-2C \max(0, m - y f)`, elementwise.

    Parameters
    ----------
    f : tensor_like
        Function values.
    y : tensor_like
        Labels -1 or +1.
    C, margin : tensor_like
        Weight and margin of the loss, above 0.

    Notes
    -----
    At the kink, :math:`y f = m`, the gradient is the subgradient 0.

    Raises
    ------
    ValueError
        Labels are others, such as 0 and 1.
    """
    require_labels(y, "y")
    return HingeLogp()(f, y, C, margin)


def augmented_hinge_logp(f: Any, y: Any, lam: Any, C: Any = 1.0, margin: Any = 1.0) -> Any:
    r"""Log of the joint density of the pseudo-likelihood and its auxiliary variable, li2014 eq (7):

    .. math::

        \log p(y, \lambda \mid f) = -\tfrac12 \log(2 \pi \lambda) - \frac{(\lambda + C (m - y
        f))^2}{2 \lambda}

    Its integral over :math:`\lambda > 0` is :math:`\exp(-2C \max(0, m - y f))` (Polson and Scott
    2011), and it is quadratic in f.

    Parameters
    ----------
    f : tensor_like
        Function values.
    y : tensor_like
        Labels -1 or +1.
    lam : tensor_like
        Auxiliary variables, above 0.
    C, margin : tensor_like
        Weight and margin of the loss, above 0.

    Raises
    ------
    ValueError
        Labels are others, such as 0 and 1.
    """
    require_labels(y, "y")
    return AugmentedHingeLogp()(f, y, lam, C, margin)
