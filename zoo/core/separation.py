"""Levels of categories of which all rows have the lowest response, or all the highest one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from zoo.data.further_groups import dense_columns
from zoo.data.multitask import MultiTaskData

__all__ = ["Separated", "separated_levels"]


class Separated(NamedTuple):
    """A feature of two values, how many rows have the larger one, and whether their responses are all the highest."""

    name: str
    rows: int
    highest: bool


def separated_levels(data: MultiTaskData, names: Sequence[str]) -> list[Separated]:
    """Which of these features are levels whose rows all lie at one end of the responses.

    The rows of such a level bound its coefficient on one side alone, and the prior bounds it on the other.
    """
    columns = [name for name in names if name not in data.effects]
    if data.choice is not None or not columns or data.gaps is not None:
        return []
    X = dense_columns(data.X, [data.feature_names.index(name) for name in columns])
    low, high = data.y.min(), data.y.max()
    found = []
    for name, x in zip(columns, X.T, strict=True):
        at = x == x.max()
        if at.all() or np.any(x[~at] != x.min()):
            continue
        y = data.y[at]
        if np.all(y == high) or np.all(y == low):
            found.append(Separated(name, int(at.sum()), bool(y[0] == high)))
    return found
