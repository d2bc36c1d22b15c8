r"""Real responses under the epsilon-insensitive loss."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.continuous import Continuous
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.hinge import hinge_lambda
from zoo.distributions.parameters import as_float64, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch
from zoo.ops.epsilon_insensitive import epsilon_insensitive_logp

__all__ = [
    "EpsilonInsensitivePseudoLikelihood",
    "NormalisedEpsilonInsensitive",
    "epsilon_insensitive_lambda_omega",
    "epsilon_insensitive_quantile",
]

_CONDITION = "C > 0, epsilon >= 0"


def epsilon_insensitive_lambda_omega(
    f: Any, y: Any, C: Any = 1.0, epsilon: Any = 0.001, **kwargs: Any
) -> tuple[Any, Any]:
    r"""Unregistered auxiliary variables of the augmented loss given the rest, li2014 eq (15).

    Independent of each other, each :math:`\mathrm{GIG}(1/2,\, 1,\, C^2 (y - f \mp \epsilon)^2)`.
    """
    return hinge_lambda(f - y, 1.0, C, -epsilon, **kwargs), hinge_lambda(y - f, 1.0, C, -epsilon, **kwargs)


def epsilon_insensitive_quantile(u: Any, C: Any, epsilon: Any, xp: Any = pt) -> Any:
    r"""Quantile of :math:`y - f` at probability (1 + u) / 2, for u in (-1, 1).

    The density is flat inside the tube, with mass :math:`q = 2 \epsilon / (2 \epsilon + 1/C)`, and falls off
    at rate 2C outside. ``xp`` is the array module, ``pytensor.tensor`` or ``numpy``.
    """
    q = 2.0 * epsilon / (2.0 * epsilon + 1.0 / C)
    tail = epsilon - xp.log1p(-xp.maximum(xp.abs(u) - q, 0.0) / (1.0 - q)) / (2.0 * C)
    return xp.sign(u) * xp.where(xp.abs(u) < q, xp.abs(u) * (epsilon + 0.5 / C), tail)


class EpsilonInsensitivePseudoLikelihoodRV(SymbolicRandomVariable):
    """Draws of the normalised density."""

    name = "epsilon_insensitive_pseudo_likelihood"
    extended_signature = "[rng],[size],(),(),()->[rng],()"
    _print_name = ("EpsilonInsensitivePseudoLikelihood", "\\operatorname{EpsilonInsensitivePseudoLikelihood}")

    @classmethod
    def rv_op(cls, f, C, epsilon, *, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        f, C, epsilon = pt.as_tensor(f), pt.as_tensor(C), pt.as_tensor(epsilon)
        size = draw_size(size, (f, C, epsilon), (0, 0, 0))
        next_rng, u = pm.Uniform.dist(-1.0, 1.0, size=tuple(size), rng=rng).owner.outputs
        draws = f + epsilon_insensitive_quantile(u, C, epsilon)
        draws = require(draws, C > 0, epsilon >= 0, message=_CONDITION)
        return cls(inputs=[rng, size, f, C, epsilon], outputs=[next_rng, draws])(rng, size, f, C, epsilon)


class NormalisedEpsilonInsensitiveRV(EpsilonInsensitivePseudoLikelihoodRV):
    """The same draws."""

    name = "normalised_epsilon_insensitive"
    _print_name = ("NormalisedEpsilonInsensitive", "\\operatorname{NormalisedEpsilonInsensitive}")


class EpsilonInsensitivePseudoLikelihood(Continuous):
    r"""Pseudo-likelihood of a real response under the epsilon-insensitive loss (li2014 section 5).

    .. math::

        \log \phi(y \mid f) = -2C \max(0, |y - f| - \epsilon)

    ========  =================================================================================
    Support   :math:`y \in \mathbb{R}`
    Mean      :math:`f` of the normalised density
    Variance  :math:`\frac{2C}{2 C \epsilon + 1} \left( \frac{\epsilon^3}{3} + \frac{\epsilon^2}{2C}
              + \frac{\epsilon}{2 C^2} + \frac{1}{4 C^3} \right)` of the normalised density
    ========  =================================================================================

    It integrates to :math:`2 \epsilon + 1/C` over y, whatever f. So for fixed C and epsilon it *is* a density up to a
    constant: draws come from the normalised density, and ``arviz.loo`` on it is the log predictive density plus
    :math:`\log(2 \epsilon + 1/C)` a row. A C or epsilon that is learned needs that constant:
    :class:`NormalisedEpsilonInsensitive` has it.

    Parameters
    ----------
    f : tensor_like of float
        Function value of each row.
    C : tensor_like of float, default 1
        Weight of the loss, above 0.
    epsilon : tensor_like of float, default 0.001
        Half width of the tube without loss, 0 or more.
    """

    rv_type = EpsilonInsensitivePseudoLikelihoodRV
    rv_op = EpsilonInsensitivePseudoLikelihoodRV.rv_op

    @classmethod
    def dist(cls, f, C=1.0, epsilon=0.001, **kwargs):
        """Unregistered variable."""
        f, C, epsilon = as_float64(f, "f"), as_float64(C, "C"), as_float64(epsilon, "epsilon")
        match_batch(kwargs, 0, f=(f, 0), C=(C, 0), epsilon=(epsilon, 0))
        return super().dist([f, C, epsilon], **kwargs)

    def support_point(rv, size, f, C, epsilon):
        """The function value."""
        return full_batch(f + pt.zeros_like(C * epsilon), size, 0)

    def logp(value, f, C, epsilon):
        """Pseudo-log-likelihood."""
        return check_parameters(
            epsilon_insensitive_logp(f, value, C, epsilon), C > 0, epsilon >= 0, msg=_CONDITION
        )


class NormalisedEpsilonInsensitive(EpsilonInsensitivePseudoLikelihood):
    r"""Density proportional to the epsilon-insensitive pseudo-likelihood, for a C that is learned.

    .. math::

        \log p(y \mid f) = -2C \max(0, |y - f| - \epsilon) - \log(2 \epsilon + 1/C)

    ========  ==============================================
    Support   :math:`y \in \mathbb{R}`
    Mean      :math:`f`
    Variance  of :class:`EpsilonInsensitivePseudoLikelihood`
    ========  ==============================================

    For :math:`\epsilon = 0` it is the Laplace density with scale 1/(2C).

    Parameters
    ----------
    f : tensor_like of float
        Function value of each row.
    C : tensor_like of float, default 1
        Weight of the loss, above 0.
    epsilon : tensor_like of float, default 0.001
        Half width of the tube without loss, 0 or more.
    """

    rv_type = NormalisedEpsilonInsensitiveRV
    rv_op = NormalisedEpsilonInsensitiveRV.rv_op

    def logp(value, f, C, epsilon):
        """Log density."""
        density = epsilon_insensitive_logp(f, value, C, epsilon) - pt.log(2.0 * epsilon + 1.0 / C)
        return check_parameters(density, C > 0, epsilon >= 0, msg=_CONDITION)
