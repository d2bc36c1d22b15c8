"""Graphs of a model as functions of the points that PyMC's steps hand on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
from pytensor.graph.traversal import ancestors

from zoo.support.quick import QUICK

__all__ = ["PointFunction"]


class PointFunction:
    """``graphs`` as a function of a point, and of directions where there are such.

    Parameters
    ----------
    model : pm.Model
    graphs : sequence of variables
        They may read random variables of the model, whose values a point holds, transformed or not.
    directions : sequence of variables
        Further inputs.
    compiled : bool
        Whether it pays to compile them, or Python operations do.
    options : dict, optional
        ``compile_kwargs`` of ``pm.sample``.
    """

    def __init__(
        self,
        model: pm.Model,
        graphs: Sequence[Any],
        *,
        directions: Sequence[Any] = (),
        compiled: bool = True,
        options: dict[str, Any] | None = None,
    ):
        replaced = model.replace_rvs_by_values(list(graphs))
        reached = set(ancestors(replaced))
        values = [value for value in model.value_vars if value in reached]
        self._names = [str(value.name) for value in values]
        mode = {} if compiled else {"mode": QUICK}
        self._function = pm.pytensorf.compile(
            [*values, *directions], replaced, on_unused_input="ignore", **{**(options or {}), **mode}
        )
        # The points of PyMC's samplers hold arrays of the right type; checks would take a third of the time.
        self._function.trust_input = True

    def __call__(self, point: dict[str, np.ndarray], directions: Sequence[np.ndarray] = ()) -> list[Any]:
        """The values of the graphs."""
        given = [np.asarray(point[name], dtype=np.float64) for name in self._names]
        return list(self._function(*given, *directions))
