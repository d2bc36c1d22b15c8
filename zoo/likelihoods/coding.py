"""Responses as the likelihoods see them: labels -1 and +1, counts that are counts."""

from __future__ import annotations

import numpy as np

from zoo.data.multitask import MultiTaskData

__all__ = ["encode_counts", "encode_labels", "label_values"]


def label_values(y: np.ndarray) -> tuple[float, float]:
    """The user's (negative, positive) label values: (-1, 1) or (0, 1)."""
    return (-1.0, 1.0) if np.any(y == -1.0) else (0.0, 1.0)


def encode_labels(data: MultiTaskData) -> np.ndarray:
    """Labels -1/+1 from -1/+1, 0/1 or bool; raises on anything else or on one class in all tasks."""
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
    transform = data.transform
    if transform is not None and (transform.y_scale != 1.0 or transform.y_mean != 0.0):
        raise ValueError(
            "y holds counts and must not be standardized: they would be no counts any more. "
            "Use data.standardize(y=False)."
        )
    _require(
        (data.y >= 0.0) & (data.y == np.floor(data.y)),
        data,
        "counts are whole numbers of 0 or more. Correct y, or choose a likelihood for real responses.",
    )
    return data.y


def _require(good: np.ndarray, data: MultiTaskData, message: str) -> None:
    """Raise at the first row whose response is none; ``good`` is (N,)."""
    if not good.all():
        row = int(np.argmin(good))
        where = f"row {row} (task {data.task_names[data.task[row]]!r})"
        raise ValueError(f"y is {data.y[row]:g} in {where}, but {message}")
