"""What every likelihood knows; the seam between a prior on functions and a kind of response."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from zoo.data import MultiTaskData
from zoo.inference.augmentation import Augmentation

__all__ = ["Likelihood", "encode_counts", "encode_labels", "label_values", "learned_value"]


@dataclass(frozen=True, kw_only=True)
class Likelihood(ABC):
    """Response given the latent function value ``f`` of its row."""

    labels: ClassVar[bool] = False
    """Whether y holds two classes, coded -1 and +1 inside the models."""

    weights: ClassVar[bool] = False
    """Whether ``term`` takes a ``weight`` of every row, which multiplies its log likelihood."""

    @property
    def generative(self) -> bool:
        """Whether the density is one of y, up to a factor without f: else draws of y have another law than it says."""
        return True

    @property
    def parameters(self) -> tuple[str, ...]:
        """Names of the model's variables that the density needs beside f, for instance ``noise``."""
        return ()

    @abstractmethod
    def encode(self, data: MultiTaskData) -> np.ndarray:
        """Checked and coded y, (N,); raises with the first offending row."""

    @abstractmethod
    def term(self, f: Any, y: Any, **parameters: Any) -> Any:
        """Add the observed variable ``"y"`` (dims ``obs``) to the PyMC model on the context stack.

        ``parameters`` holds one value for each row, or one for all, for each name in ``self.parameters``, and the
        ``weight`` of the rows where the data have weights: the log density of a row is then multiplied by it, as if the
        row occurred so many times, while draws of y are those of weight 1 (:func:`zoo.likelihoods.weighted.observed`).
        """

    def information(self, f: Any, **parameters: Any) -> Any:
        """Expected information of f, a PyTensor graph, where minus the second derivative may be negative; else None."""
        return None

    def augmentation(self) -> Augmentation | None:
        """The augmentation that makes the likelihood Gaussian in f, or None if it has none."""
        return None

    def probability(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Probability of the positive class at draws ``f`` (S, n); only for labels.

        ``parameters`` holds draws (S, n) of the variables in ``self.parameters``.
        """
        raise TypeError(f"{type(self).__name__} is for real responses. It has no class probability.")

    def mean(self, f: np.ndarray, **parameters: Any) -> np.ndarray:
        """Mean of y at draws ``f`` (S, n), on the scale of the model; here f itself. Not for labels.

        ``parameters`` holds draws (S, n) or (S, 1) of the variables in ``self.parameters``.
        """
        return f

    def normal_sd(self, **parameters: Any) -> np.ndarray | None:
        """Standard deviation of y around f where y is normal given f, on the scale of the model; here None.

        ``parameters`` holds draws (S, n) or (S, 1) of the variables in ``self.parameters``. Predictions and scores
        then have closed forms. A class that overrides ``term`` has to override this too, or it does not count.
        """
        return None


def label_values(y: np.ndarray) -> tuple[float, float]:
    """The user's (negative, positive) label values: (-1, 1) or (0, 1)."""
    return (-1.0, 1.0) if np.any(y == -1.0) else (0.0, 1.0)


def encode_labels(data: MultiTaskData) -> np.ndarray:
    """Labels -1/+1 from -1/+1, 0/1 or bool; raises on anything else or on one class in all tasks."""
    negative, positive = label_values(data.y)
    bad = ~np.isin(data.y, (negative, positive))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        where = f"row {row} (task {data.task_names[data.task[row]]!r})"
        raise ValueError(
            f"y is {data.y[row]:g} in {where}, but labels must be -1/+1 or 0/1. "
            "Recode y, or choose a likelihood for real responses."
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
    bad = (data.y < 0.0) | (data.y != np.floor(data.y))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        where = f"row {row} (task {data.task_names[data.task[row]]!r})"
        raise ValueError(
            f"y is {data.y[row]:g} in {where}, but counts are whole numbers of 0 or more. "
            "Correct y, or choose a likelihood for real responses."
        )
    return data.y


def learned_value(field: float | None, given: Any, name: str) -> Any:
    """A parameter that is a field of the likelihood, or handed over where the model learns it."""
    value = field if given is None else given
    if value is None:
        raise ValueError(f"{name} is learned by the model. Pass its value.")
    return value
