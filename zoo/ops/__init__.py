"""Pseudo-log-likelihoods of max-margin models, and their augmented forms, as functions of PyTensor variables."""

from zoo.ops.epsilon_insensitive import augmented_epsilon_insensitive_logp, epsilon_insensitive_logp
from zoo.ops.hinge import augmented_hinge_logp, hinge_logp

__all__ = [
    "augmented_epsilon_insensitive_logp",
    "augmented_hinge_logp",
    "epsilon_insensitive_logp",
    "hinge_logp",
]
