"""Responses as the likelihoods see them: labels -1 and +1, counts that are counts, grades 1 to K."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.warning_types import warn_user

__all__ = ["encode_counts", "encode_grades", "encode_labels", "label_values"]

_SHOWN = 12


def label_values(y: np.ndarray) -> tuple[float, float]:
    """The user's (negative, positive) label values: (-1, 1) or (0, 1)."""
    return (-1.0, 1.0) if np.any(y == -1.0) else (0.0, 1.0)


def encode_labels(data: MultiTaskData) -> np.ndarray:
    """Labels -1/+1 from -1/+1, 0/1 or bool; raises on anything else or on one class in all tasks."""
    _refuse_standardized(data, "labels")
    negative, positive = label_values(data.y)
    _require(
        np.isin(data.y, (negative, positive)),
        data,
        "labels must be -1/+1 or 0/1. Recode y, or choose a likelihood for real responses.",
    )
    data.warn_about_single_class_tasks()
    return np.where(data.y == positive, 1.0, -1.0)


def encode_counts(data: MultiTaskData) -> np.ndarray:
    """Counts as they are; raises on a negative, a fraction, or data whose y was standardized."""
    _refuse_standardized(data, "counts")
    _require(
        (data.y >= 0.0) & (data.y == np.floor(data.y)),
        data,
        "counts are whole numbers of 0 or more. Correct y, or choose a likelihood for real responses.",
    )
    return data.y


def encode_grades(data: MultiTaskData, values: np.ndarray) -> np.ndarray:
    """Grades as 1 to K, (N,), from the numbers (K,) that stand for them, or from ordered categories.

    Raises on what is no grade, and where all rows have one grade; warns of grades that no row has.
    """
    _refuse_standardized(data, "grades")
    if data.grades and (len(data.grades) != len(values) or values[0] != 1.0 or values[-1] != len(values)):
        raise ValueError(
            f"y has the {len(data.grades)} ordered categories {_listed(data.grades)}, and the likelihood has the "
            f"grades {_listed(values)}. Give zoo.Ordinal(grades={len(data.grades)})."
        )
    _require(
        np.isin(data.y, values),
        data,
        f"the grades are {_listed(values)}. Correct y, or give zoo.Ordinal(grades=K) for grades from 1 to K, or its "
        "numbers in order, as zoo.Ordinal(grades=(0, 1, 2)).",
    )
    found = np.searchsorted(values, data.y)
    names = data.grades or tuple(f"{value:g}" for value in values)
    count = np.bincount(found, minlength=len(values))
    if np.count_nonzero(count) == 1:
        raise ValueError(
            f"y is {names[int(found[0])]} in all {data.n_rows} rows. Give data with two grades or more."
        )
    absent = [name for name, size in zip(names, count, strict=True) if size == 0]
    if absent:
        warn_user(
            f"no row has the grade {_listed(absent)}, so that the prior alone says how wide it is. Give zoo.Ordinal "
            "the grades of the data, if there are no others."
        )
    return found + 1.0


def _refuse_standardized(data: MultiTaskData, kind: str) -> None:
    transform = data.transform
    if transform is not None and (transform.y_scale != 1.0 or transform.y_mean != 0.0):
        raise ValueError(
            f"y holds {kind} and must not be standardized: they would be no {kind} any more. "
            "Use data.standardize(y=False)."
        )


def _listed(values: Iterable[object]) -> str:
    texts = [f"{value:g}" if isinstance(value, float) else str(value) for value in values]
    return ", ".join(texts[:_SHOWN]) + (", ..." if len(texts) > _SHOWN else "")


def _require(good: np.ndarray, data: MultiTaskData, message: str) -> None:
    """Raise at the first row whose response is none; ``good`` is (N,)."""
    if not good.all():
        row = int(np.argmin(good))
        where = f"row {row} (task {data.task_names[data.task[row]]!r})"
        raise ValueError(f"y is {data.y[row]:g} in {where}, but {message}")
