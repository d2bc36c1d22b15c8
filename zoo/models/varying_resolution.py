"""Whether sines are enough for the lengthscales of a varying-coefficient model."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from zoo.models.varying_coefficient import VaryingCoefficientGP
    from zoo.models.varying_parts import Part

__all__ = ["too_few_sines", "warn_of_coarse_basis"]

# Functions a half width of the data, in lengthscales, that resolve a covariance (Riutort-Mayol et al. 2023).
_RESOLUTION = {"matern12": 4.5, "matern32": 3.42, "matern52": 2.65, "squared_exponential": 1.75}
# The warning is for bases that would have to be this many times as large a column: the number above is generous.
_CLEARLY = 2.0


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


def warn_of_coarse_basis(factory: VaryingCoefficientGP, space: Any, values: dict[str, Any]) -> None:
    """Warn where the sines are far too few for the lengthscale that was found."""
    if factory.approximation != "hsgp":
        return
    other = ', or use method "vecchia"' if "vecchia" in factory.methods else ""
    for part in space.kernel.parts:
        for name, size, enough in too_few_sines(part, values):
            if enough <= _CLEARLY * size:
                continue
            warnings.warn(
                f"n_basis is {size} for {name!r}, and would have to be {enough} for this lengthscale: predictions are "
                "smoother than the kernel is, and detail counts as noise. Give more in "
                f"zoo.VaryingComponent(n_basis=...){other}.",
                UserWarning,
                stacklevel=2,
            )
