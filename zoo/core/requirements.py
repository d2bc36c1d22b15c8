"""The requirements table: what a model holds, before anything runs."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pymc as pm

from zoo.support.memory import gigabytes

__all__ = ["requirements_table"]

# Kept draws of a fit by default: four chains of a thousand.
_DRAWS = 4_000


def requirements_table(model: pm.Model, constraints: dict[str, str]) -> pd.DataFrame:
    """Name, kind, shape, dims, constraint, prior, and memory of 4 x 1,000 draws, of every variable of ``model``.

    Read off the model itself, so that a subclass's variables stand in it too. ``constraints`` names those of
    derived variables, which the model does not record.
    """
    rows = []
    derived = {variable.name for variable in model.deterministics}
    for variable in [*model.free_RVs, *model.deterministics, *model.observed_RVs]:
        name = variable.name
        observed = variable in model.observed_RVs
        shape = tuple(int(n) for n in np.atleast_1d(variable.shape.eval())) if variable.ndim else ()
        kept = not (observed or str(name).startswith("_"))
        rows.append(
            {
                "name": name,
                "kind": "observed" if observed else "derived" if name in derived else "free",
                "shape": shape,
                "dims": ", ".join(map(str, model.named_vars_to_dims.get(name, ()))),
                "constraint": constraints.get(name) or _constraint(model, variable),
                "prior": "" if name in derived else _law(variable),
                # What a posterior does not hold has none.
                "memory": gigabytes(8 * _DRAWS * math.prod(shape)) if kept else "",
            }
        )
    return pd.DataFrame(rows).set_index("name")


def _constraint(model: pm.Model, variable: object) -> str:
    transform = model.rvs_to_transforms.get(variable)
    name = type(transform).__name__
    return {
        "NoneType": "",
        "ConditionedTransform": "",
        "LogTransform": "> 0",
        "LogOddsTransform": "in (0, 1)",
        "Interval": "bounded",
    }.get(name, name)


def _law(variable: object) -> str:
    op = variable.owner.op  # type: ignore[attr-defined]
    return str(getattr(op, "_print_name", (type(op).__name__,))[0])
