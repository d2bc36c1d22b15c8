"""Known mistakes, one module for each part of the package; ``python -m tests.statistical.mutants`` plants them."""

from __future__ import annotations

from tests.statistical.mutants import (
    augmentations,
    covariances,
    data,
    fits,
    latent,
    matrix_normal,
    population,
)
from tests.statistical.mutants.mutant import Mutant

__all__ = ["MUTANTS", "Mutant"]

MUTANTS: tuple[Mutant, ...] = (
    *fits.MUTANTS,
    *augmentations.MUTANTS,
    *matrix_normal.MUTANTS,
    *population.MUTANTS,
    *covariances.MUTANTS,
    *latent.MUTANTS,
    *data.MUTANTS,
)
