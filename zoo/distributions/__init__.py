"""Distributions that PyMC does not have, in PyMC's own conventions.

``zoo.distributions.X("name", ...)`` inside a model, ``zoo.distributions.X.dist(...)`` with ``pm.draw`` and ``pm.logp``.
"""

from zoo.distributions.epsilon_insensitive import (
    EpsilonInsensitivePseudoLikelihood,
    NormalisedEpsilonInsensitive,
    epsilon_insensitive_lambda_omega,
)
from zoo.distributions.generalised_inverse_gaussian import GeneralisedInverseGaussian
from zoo.distributions.hinge import HingePseudoLikelihood, NormalisedHinge, hinge_lambda
from zoo.distributions.indian_buffet import (
    IndianBuffet,
    ibp_draw,
    ibp_logp,
    indian_buffet_sticks,
    left_ordered_form,
)
from zoo.distributions.inverse_gaussian import InverseGaussian
from zoo.distributions.inverse_wishart import InverseWishart
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.distributions.matrix_normal import MatrixNormal
from zoo.distributions.multi_laplace import MultiLaplace, multi_laplace_mixture, prox_group_norm
from zoo.distributions.normal_inverse_wishart import NormalInverseWishart
from zoo.distributions.scaled_inverse_wishart import ScaledInverseWishart

__all__ = [
    "EpsilonInsensitivePseudoLikelihood",
    "GeneralisedInverseGaussian",
    "HingePseudoLikelihood",
    "IndianBuffet",
    "InverseGaussian",
    "InverseWishart",
    "InverseWishartCholesky",
    "MatrixNormal",
    "MultiLaplace",
    "NormalInverseWishart",
    "NormalisedEpsilonInsensitive",
    "NormalisedHinge",
    "ScaledInverseWishart",
    "epsilon_insensitive_lambda_omega",
    "hinge_lambda",
    "ibp_draw",
    "ibp_logp",
    "indian_buffet_sticks",
    "left_ordered_form",
    "multi_laplace_mixture",
    "prox_group_norm",
]
