"""Scores of predicted choices between alternatives."""

from __future__ import annotations

import numpy as np
import xarray as xr

from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.grade_scores import SMALLEST_PROBABILITY

__all__ = ["choice_scores"]


def choice_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    r"""Scores of choices that were predicted with probabilities of their alternatives, by name.

    ``log loss`` is the mean over choices of :math:`-\log p` of the alternative that was chosen, held off infinity at a
    probability of 1e-12; an even guess among K alternatives has :math:`\log K`. ``hit rate %`` is the share of choices
    whose most probable alternative was chosen. Choices count by their weights.

    Parameters
    ----------
    test : MultiTaskData
        Rows with ``choice``, in each of which one alternative was chosen.
    predicted : xarray.Dataset
        What ``fit.predict`` says of them.

    Raises
    ------
    ValueError
        A choice of ``test`` has no chosen alternative, or several.
    """
    assert test.choice is not None  # without choices there would be no predictions
    chosen = np.flatnonzero(test.y > 0.0)
    if len(np.unique(test.choice[chosen])) != len(chosen) or len(chosen) != len(np.unique(test.choice)):
        raise ValueError(
            "test has choices without a chosen alternative, or with several. y is 1 in one row of each choice, and 0 "
            "elsewhere."
        )
    weight = np.ones(len(chosen)) if test.weight is None else test.weight[chosen]
    probability = predicted["probability"].to_numpy()[chosen]
    hit = predicted["label"].to_numpy()[chosen] > 0.0
    return {
        "log loss": float(np.average(-np.log(np.maximum(probability, SMALLEST_PROBABILITY)), weights=weight)),
        "hit rate %": 100.0 * float(np.average(hit, weights=weight)),
    }
