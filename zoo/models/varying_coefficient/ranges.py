"""Which ranges a pilot fit finds in the data, and whether sines would resolve them: for the choice of a method."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from zoo.inference.run.progress import ClimbProgress
from zoo.models.varying_coefficient.description import VaryingDescription
from zoo.models.varying_coefficient.resolution import too_few_sines
from zoo.models.varying_coefficient.search import Search, bounds_of, starts_of
from zoo.models.varying_coefficient.spaces import space_of

if TYPE_CHECKING:
    from zoo.data.multitask import MultiTaskData
    from zoo.models.varying_coefficient.rows import VaryingRows

__all__ = ["too_short_for_sines"]

# Neighbours, steps and tolerance of the pilot fit: its lengthscales need one digit.
_NEIGHBOURS, _STEPS, _TOLERANCE = 15, 60, 1e-4


def too_short_for_sines(factory: VaryingDescription, data: MultiTaskData, rows: VaryingRows) -> str:
    """The column whose range the default number of sines would not resolve, in words; nothing where they would.

    The pilot fit takes the evidence of some rows, each given its nearest ones, so it costs seconds, whatever the number
    of rows. Components whose number of sines the user gave keep it, and are not looked at.
    """
    pilot = replace(
        factory, approximation="vecchia", n_neighbours=min(factory.n_neighbours, _NEIGHBOURS, data.n_rows - 2)
    )
    space = space_of(pilot, rows, pilot.likelihood.encode(data))
    low, high = bounds_of(space)
    starts = [np.clip(z, low, high) for z in starts_of(space)]
    with ClimbProgress(_STEPS, False, "evidence", "negative log evidence") as bar:
        search = Search(space, bar, _STEPS, _TOLERANCE)
        search.run(starts, low, high, coarse=getattr(space, "coarse", None) is not None)
    if search.best is None:
        return ""
    values = space.values_at(search.best)
    for part in space.kernel.parts:
        if part.component.n_basis is None:
            for name, size, enough in too_few_sines(part, values):
                return f"{enough:,} sines would be needed over {name!r}, and a basis has {size}"
    return ""
