"""Arguments of `zoo.select`: the grid, the score, the folds."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import product
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.grade_scores import kind_of_scores
from zoo.support.checks import one_of, whole_number

__all__ = [
    "CHOICE_SCORES",
    "GRADE_SCORES",
    "LABEL_SCORES",
    "REAL_SCORES",
    "Score",
    "folds_of",
    "grid_points",
    "readable_score",
    "started_variables",
]

Score = str | Callable[[MultiTaskData, xr.Dataset], float]
# Columns of `compare` that order models, the default first. The coverage of an interval does not: it is best
# near its probability.
REAL_SCORES = ("explained variance %", "per task %", "RMSE", "MAE")
GRADE_SCORES = ("log loss", "RPS", "accuracy %", "MAE")
CHOICE_SCORES = ("log loss", "hit rate %")
LABEL_SCORES = ("micro F1 %", "macro F1 %", "accuracy %", "log loss")


def grid_points(factory: ModelFactory, grid: Any) -> list[dict[str, Any]]:
    """The changed fields of each grid point; raises with the list of the fields where one is unknown."""
    if isinstance(grid, Mapping):
        for field, values in grid.items():
            if isinstance(values, str | bytes | Mapping) or not isinstance(values, Iterable):
                raise ValueError(f"grid holds {values!r} for the field {field!r}. Give a list of values.")
        lists = {field: list(values) for field, values in grid.items()}
        for field, values in lists.items():
            if not values:
                raise ValueError(f"grid holds no value for the field {field!r}. Give at least one.")
        points = (
            [dict(zip(lists, values, strict=True)) for values in product(*lists.values())] if lists else []
        )
    elif isinstance(grid, Sequence) and not isinstance(grid, str):
        for i, point in enumerate(grid):
            if not isinstance(point, Mapping):
                raise ValueError(f"grid holds {point!r} at position {i}. Give a dict of field to value.")
        points = [dict(point) for point in grid]
    else:
        raise ValueError(f"grid is {grid!r}. Give a dict of field to values, or a list of dicts.")
    if not points:
        raise ValueError("grid is empty. Name at least one field and its values.")
    # A numpy scalar would neither print nor be saved as the number that it is.
    return [
        {field: value.item() if isinstance(value, np.generic) else value for field, value in point.items()}
        for point in points
    ]


def readable_score(points: list[ModelFactory], score: Score | None) -> Score:
    """The score, or the default for the responses of these models; raises where it does not fit them."""
    kinds = {kind_of_scores(point.likelihood) for point in points}
    if len(kinds) > 1:
        raise ValueError(
            f"grid mixes models of {' and of '.join(sorted(kinds))}. Select among one kind at a time."
        )
    if callable(score):
        return score
    columns = {
        "choices": CHOICE_SCORES,
        "labels": LABEL_SCORES,
        "grades": GRADE_SCORES,
        "real responses": REAL_SCORES,
    }[kinds.pop()]
    if score is None:
        return columns[0]
    one_of(score, columns, "score")
    return score


def started_variables(
    factory: ModelFactory, method: str, data: MultiTaskData, options: Mapping[str, Any]
) -> tuple[str, set[str]] | None:
    """Method and variables of a model that can start from another fit, None if it cannot.

    A fit with other variables says nothing of those it lacks, and may hold values of what is fixed here. Raises
    where the method does not have the options.
    """
    found = factory.method_named(method)
    parameters = {} if found is None else found.options
    allowed = [p for p in parameters if p not in ("data", "y", "run", "start")]
    for option in options:
        one_of(option, allowed, f"the options of method {method!r}")
    if "start" not in parameters:
        return None
    model = factory.build(data)
    return method, {str(v.name) for v in model.free_RVs + model.deterministics}


def folds_of(data: MultiTaskData, cv: Any, random_seed: Any) -> list[tuple[MultiTaskData, MultiTaskData]]:
    """Training and validation data of each fold, dealt here or given by the user."""
    if isinstance(cv, str) or not isinstance(cv, Iterable):
        return data.folds(whole_number(cv, "cv", 2), random_seed)
    folds = [tuple(pair) for pair in cv]
    for k, pair in enumerate(folds):
        if len(pair) != 2 or not all(isinstance(part, MultiTaskData) for part in pair):
            raise ValueError(
                f"cv holds no pair of MultiTaskData at position {k}. Give (train, held_out) pairs."
            )
    if not folds:
        raise ValueError("cv is empty. Give a number of folds, or a list of (train, held_out) pairs.")
    return [(train, test) for train, test in folds]
