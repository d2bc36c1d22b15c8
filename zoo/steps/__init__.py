"""Gibbs steps for PyMC models that were not made here: they are found by reading the model's graph."""

from zoo.steps.gibbs import AugmentedGibbs, augmented_step
from zoo.steps.marginal import draw_marginalised, marginalise
from zoo.steps.run import sample

__all__ = ["AugmentedGibbs", "augmented_step", "draw_marginalised", "marginalise", "sample"]
