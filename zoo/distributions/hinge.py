r"""Labels under the hinge loss: the pseudo-likelihood, and the normalised likelihood."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Discrete, SymbolicRandomVariable
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param

from zoo.distributions.generalised_inverse_gaussian import GeneralisedInverseGaussian
from zoo.distributions.parameters import as_float64, require
from zoo.distributions.shapes import draw_size, full_batch, match_batch
from zoo.ops.hinge import HingeLogp, hinge_logp, require_labels

__all__ = ["HingePseudoLikelihood", "NormalisedHinge", "hinge_lambda", "hinge_log_odds"]

_CONDITION = "C > 0, margin > 0"


def hinge_log_odds(f: Any, C: Any, margin: Any) -> Any:
    """Log odds of +1 against -1 under the normalised hinge likelihood."""
    return hinge_logp(f, 1.0, C, margin) - hinge_logp(f, -1.0, C, margin)


def hinge_lambda(f: Any, y: Any, C: Any = 1.0, margin: Any = 1.0, **kwargs: Any) -> Any:
    r"""Unregistered auxiliary variable of the augmented hinge given the rest, li2014 eq (10).

    :math:`\lambda \mid y, f \sim \mathrm{GIG}(1/2,\, 1,\, C^2 (m - y f)^2)`. Draw it with ``pm.draw``.
    """
    return GeneralisedInverseGaussian.dist(1.0, (C * (margin - y * f)) ** 2, **kwargs)


class _HingeRV(SymbolicRandomVariable):
    """Labels drawn from the normalised likelihood."""

    extended_signature = "[rng],[size],(),(),()->[rng],()"

    @classmethod
    def rv_op(cls, f, C, margin, *, size=None, rng=None):
        """Graph of a draw."""
        rng, size = normalize_rng_param(rng), normalize_size_param(size)
        f, C, margin = pt.as_tensor(f), pt.as_tensor(C), pt.as_tensor(margin)
        size = draw_size(size, (f, C, margin), (0, 0, 0))
        next_rng, u = pm.Uniform.dist(0.0, 1.0, size=tuple(size), rng=rng).owner.outputs
        labels = pt.switch(u < pt.sigmoid(hinge_log_odds(f, C, margin)), np.int64(1), np.int64(-1))
        labels = require(labels, C > 0, margin > 0, message=_CONDITION)
        return cls(inputs=[rng, size, f, C, margin], outputs=[next_rng, labels])(rng, size, f, C, margin)


class HingePseudoLikelihoodRV(_HingeRV):
    """Named for printing and dispatch."""

    name = "hinge_pseudo_likelihood"
    _print_name = ("HingePseudoLikelihood", "\\operatorname{HingePseudoLikelihood}")


class NormalisedHingeRV(_HingeRV):
    """Named for printing and dispatch."""

    name = "normalised_hinge"
    _print_name = ("NormalisedHinge", "\\operatorname{NormalisedHinge}")


class _Labels(Discrete):
    """What the two have in common."""

    def __new__(cls, name, *args, observed=None, **kwargs):
        """Add to the model on the context stack."""
        if isinstance(observed, np.ndarray | list | tuple):
            require_labels(np.asarray(observed), "observed")
        return super().__new__(cls, name, *args, observed=observed, **kwargs)

    @classmethod
    def dist(cls, f, C=1.0, margin=1.0, **kwargs):
        """Unregistered variable."""
        f, C, margin = as_float64(f, "f"), as_float64(C, "C"), as_float64(margin, "margin")
        match_batch(kwargs, 0, f=(f, 0), C=(C, 0), margin=(margin, 0))
        return super().dist([f, C, margin], **kwargs)


def _more_likely(size, f, C, margin):
    label = pt.switch(f >= 0.0, np.int64(1), np.int64(-1)) + pt.zeros_like(C * margin, dtype="int64")
    return full_batch(label, size, 0)


def _on_labels(value, density, C, margin):
    density = pt.switch(pt.eq(pt.abs(value), 1), density, -np.inf)
    return check_parameters(density, C > 0, margin > 0, msg=_CONDITION)


class HingePseudoLikelihood(_Labels):
    r"""Pseudo-likelihood of a label under the hinge loss (li2014 eq 3).

    .. math::

        \log \phi(y \mid f) = -2C \max(0, m - y f)

    =======  =====================================================
    Support  :math:`y \in \{-1, +1\}`
    Draws    from the normalised form, see :class:`NormalisedHinge`
    =======  =====================================================

    It does not sum to one over the labels: :math:`\phi(1 \mid f) + \phi(-1 \mid f)` depends on f. As a term of a model
    this is the point: the posterior mode is a support vector machine. But ``pm.compute_log_likelihood`` then stores
    pseudo-log-likelihoods, and ``arviz.loo`` estimates the log of the posterior mean of :math:`\phi` at a row
    left out: a score in units of hinge loss, and no log predictive probability. Compare it only between models
    with the same C and margin. :class:`NormalisedHinge` gives log predictive probabilities.

    Parameters
    ----------
    f : tensor_like of float
        Function value of each row.
    C, margin : tensor_like of float, default 1
        Weight and margin m of the loss, above 0.
    """

    rv_type = HingePseudoLikelihoodRV
    rv_op = HingePseudoLikelihoodRV.rv_op

    def support_point(rv, size, f, C, margin):
        """The more probable label."""
        return _more_likely(size, f, C, margin)

    def logp(value, f, C, margin):
        """Pseudo-log-likelihood; minus infinity for other values."""
        return _on_labels(value, HingeLogp()(f, value, C, margin), C, margin)


class NormalisedHinge(_Labels):
    r"""Normalised hinge likelihood, a proper distribution of a label.

    .. math::

        p(y \mid f) = \frac{e^{-2C \max(0, m - y f)}}{e^{-2C \max(0, m - f)} + e^{-2C \max(0, m + f)}}

    ===========  ===============================================================================
    Support      :math:`y \in \{-1, +1\}`
    Probability  :math:`p(+1 \mid f) = \mathrm{logit}^{-1}\{2C (\max(0, m+f) - \max(0, m-f))\}`
    Mean         :math:`2 p(+1 \mid f) - 1`
    ===========  ===============================================================================

    The log odds are 4Cf inside the margin and grow by 2C outside. For prior predictive draws, leave-one-out and
    simulation-based calibration, and for a C that is learned: the pseudo-likelihood has no normaliser that
    would stop C from going to zero.

    Parameters
    ----------
    f : tensor_like of float
        Function value of each row.
    C, margin : tensor_like of float, default 1
        Weight and margin m of the loss, above 0.
    """

    rv_type = NormalisedHingeRV
    rv_op = NormalisedHingeRV.rv_op

    def support_point(rv, size, f, C, margin):
        """The more probable label."""
        return _more_likely(size, f, C, margin)

    def logp(value, f, C, margin):
        """Log probability; minus infinity for other values."""
        return _on_labels(value, -pt.softplus(-value * hinge_log_odds(f, C, margin)), C, margin)
