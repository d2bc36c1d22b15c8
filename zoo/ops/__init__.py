"""Pseudo-log-likelihoods of max-margin models and their augmented forms, and the auxiliary variables of likelihoods.

Functions of PyTensor variables; each makes a named operation, which a printed graph shows.
"""

from zoo.ops.epsilon_insensitive import (
    AugmentedEpsilonInsensitiveLogp,
    EpsilonInsensitiveLogp,
    augmented_epsilon_insensitive_logp,
    epsilon_insensitive_logp,
)
from zoo.ops.hinge import AugmentedHingeLogp, HingeLogp, augmented_hinge_logp, hinge_logp
from zoo.ops.random_variables import (
    EpsilonLambdaOmegaRV,
    HingeLambdaRV,
    InverseGaussianRV,
    PolyaGammaRV,
    epsilon_lambda_omega,
    hinge_lambda,
    inverse_gaussian,
    polya_gamma,
)

__all__ = [
    "AugmentedEpsilonInsensitiveLogp",
    "AugmentedHingeLogp",
    "EpsilonInsensitiveLogp",
    "EpsilonLambdaOmegaRV",
    "HingeLambdaRV",
    "HingeLogp",
    "InverseGaussianRV",
    "PolyaGammaRV",
    "augmented_epsilon_insensitive_logp",
    "augmented_hinge_logp",
    "epsilon_insensitive_logp",
    "epsilon_lambda_omega",
    "hinge_lambda",
    "hinge_logp",
    "inverse_gaussian",
    "polya_gamma",
]
