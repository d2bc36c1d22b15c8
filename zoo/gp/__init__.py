"""Gaussian processes for models that are written in PyMC, beside those of ``pymc.gp``."""

from zoo.gp.vecchia import Vecchia

__all__ = ["Vecchia"]
