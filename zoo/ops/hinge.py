r"""Hinge pseudo-likelihood and its augmentation (li2014 eqs 3, 7 and 10), as PyTensor graphs.

Composed of PyTensor's own operations on purpose: its compiler fuses value, gradient and sum into one pass over the
rows, so that an operation of our own would be no faster (``benchmarks/ops.py``), and every backend has them.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt

__all__ = ["augmented_hinge_logp", "hinge_logp"]


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
    """
    return -2.0 * C * pt.maximum(0.0, margin - y * f)


def augmented_hinge_logp(f: Any, y: Any, lam: Any, C: Any = 1.0, margin: Any = 1.0) -> Any:
    r"""Log of the joint density of the pseudo-likelihood and its auxiliary variable, li2014 eq (7):

    .. math::

        \log p(y, \lambda \mid f) = -\tfrac12 \log(2 \pi \lambda) - \frac{(\lambda + C (m - y f))^2}{2 \lambda}

    Its integral over :math:`\lambda > 0` is :math:`\exp(-2C \max(0, m - y f))` (Polson and Scott 2011), and it
    is quadratic in f.
    """
    return -0.5 * pt.log(2.0 * np.pi * lam) - 0.5 * (pt.sqrt(lam) + C * (margin - y * f) / pt.sqrt(lam)) ** 2
