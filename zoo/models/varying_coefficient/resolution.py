"""Whether sines are enough for the lengthscales of a varying-coefficient model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.support.warning_types import warn_user

if TYPE_CHECKING:
    from zoo.models.varying_coefficient.parts import Part

__all__ = ["too_few_sines", "warn_of_coarse_basis", "warn_of_few_sines"]

# Functions a half width of the data, in lengthscales, that resolve a covariance (Riutort-Mayol et al. 2023).
_RESOLUTION = {"matern12": 4.5, "matern32": 3.42, "matern52": 2.65, "squared_exponential": 1.75}
# A lengthscale within this factor of the shortest one that the search allows is at its bound.
_AT_BOUND = 1.05


def too_few_sines(part: Part, values: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    """Columns of a component of which a basis does not show all at these hyper-parameters: name, sines, and how many
    would be enough.
    """
    if part.component.on_tasks or not part.component.is_word:
        return
    lengthscales = np.broadcast_to(part.lengthscale_numbers(values), len(part.columns))
    needed = _RESOLUTION[part.component.kernel] * part.basis.half_width / lengthscales
    for name, size, enough in zip(part.column_names, part.basis.size, needed, strict=True):
        if size < enough:
            yield name, size, int(np.ceil(enough))


def warn_of_coarse_basis(factory: VaryingDescription, space: Any, values: dict[str, Any]) -> None:
    """Warn where a lengthscale is no longer than the distance of two zeros of the finest sine: it is at its bound."""
    if factory.approximation != "hsgp":
        return
    other = ', or use method "vecchia"' if "vecchia" in factory.methods else ""
    for part in space.kernel.parts:
        if part.component.on_tasks or not part.component.is_word:
            continue
        lengthscales = np.broadcast_to(part.lengthscale_numbers(values), len(part.columns))
        at_bound = lengthscales <= _AT_BOUND * part.basis.finest
        for name, size, short in zip(part.column_names, part.basis.size, at_bound, strict=True):
            if short:
                warn_user(
                    f"n_basis is {size} for {name!r}, and its lengthscale is the shortest that so many sines show: "
                    "predictions are smoother than the data, and detail counts as noise. Give more in "
                    f"zoo.VaryingComponent(n_basis=...){other}."
                )


def warn_of_few_sines(factory: VaryingDescription, kernel: Any, posterior: dict[str, Any]) -> None:
    """Warn where draws (chain, draw, ...) by a Markov chain have lengthscales that the sines do not resolve."""
    if factory.approximation != "hsgp":
        return
    for part in kernel.parts:
        learned = {name: np.median(posterior[name], axis=(0, 1)) for name in part.hyperparameters()}
        for name, size, enough in too_few_sines(part, learned):
            warn_user(
                f"n_basis is {size} for {name!r}, and {enough} would resolve the median of its lengthscale: functions "
                "are smoother than this model says. Give more in zoo.VaryingComponent(n_basis=...), or use "
                'approximation="none".'
            )
