r"""Epsilon-insensitive pseudo-likelihood and its augmentation (li2014 eqs 14 and 15), as named
PyTensor operations.
"""

from __future__ import annotations

from typing import Any

import pytensor.tensor as pt

from zoo.ops.elementwise import ElementwiseOp
from zoo.ops.hinge import augmented_hinge_logp

__all__ = [
    "AugmentedEpsilonInsensitiveLogp",
    "EpsilonInsensitiveLogp",
    "augmented_epsilon_insensitive_logp",
    "epsilon_insensitive_logp",
]


class EpsilonInsensitiveLogp(ElementwiseOp):
    r""":math:`-2C \max(0, |y - f| - \epsilon)` of f, y, C and epsilon, elementwise (li2014 section
    5).

    At the kinks the gradient is the subgradient 0, also for :math:`\epsilon = 0`.
    """

    def build_inner_graph(self, f: Any, y: Any, C: Any, epsilon: Any) -> list[Any]:
        """The formula."""
        return [-2.0 * C * pt.maximum(0.0, pt.abs(y - f) - epsilon)]


class AugmentedEpsilonInsensitiveLogp(ElementwiseOp):
    r"""Log of the joint density of y and both auxiliary variables, of f, y, these, C and epsilon
    (li2014 eq 14).
    """

    def build_inner_graph(self, f: Any, y: Any, lam: Any, omega: Any, C: Any, epsilon: Any) -> list[Any]:
        """Two augmented hinges of margin minus epsilon."""
        above = augmented_hinge_logp(f - y, 1.0, lam, C, -epsilon)
        return [above + augmented_hinge_logp(y - f, 1.0, omega, C, -epsilon)]


def epsilon_insensitive_logp(f: Any, y: Any, C: Any = 1.0, epsilon: Any = 0.001) -> Any:
    r"""Pseudo-log-likelihood :math:`-2C \max(0, |y - f| - \epsilon)`, elementwise.

    Parameters
    ----------
    f, y : tensor_like
        Function values and responses.
    C : tensor_like
        Weight of the loss, above 0.
    epsilon : tensor_like
        Half width of the tube without loss, 0 or more.

    Notes
    -----
    At the kinks, :math:`|y - f| = \epsilon`, the gradient is the subgradient 0, also for
    :math:`\epsilon = 0`.
    """
    return EpsilonInsensitiveLogp()(f, y, C, epsilon)


def augmented_epsilon_insensitive_logp(
    f: Any, y: Any, lam: Any, omega: Any, C: Any = 1.0, epsilon: Any = 0.001
) -> Any:
    r"""Log of the joint density with both auxiliary variables.

    Since :math:`\max(0, |u| - \epsilon) = \max(0, u - \epsilon) + \max(0, -u - \epsilon)`, it is
    the sum of two augmented hinges, one above the tube (``lam``) and one below (``omega``). Both
    are written as hinges of margin :math:`-\epsilon` in :math:`\mp(y - f)`.

    Parameters
    ----------
    f, y : tensor_like
        Function values and responses.
    lam, omega : tensor_like
        Auxiliary variables, above 0.
    C : tensor_like
        Weight of the loss, above 0.
    epsilon : tensor_like
        Half width of the tube without loss, 0 or more.
    """
    return AugmentedEpsilonInsensitiveLogp()(f, y, lam, omega, C, epsilon)
