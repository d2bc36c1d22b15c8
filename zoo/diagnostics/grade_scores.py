"""Scores of predicted grades, and the cut points between them."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr

from zoo.data.multitask import MultiTaskData
from zoo.likelihoods.base import Likelihood

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["SMALLEST_PROBABILITY", "cutpoints", "grade_scores", "kind_of_scores", "require_same_grades"]

# A probability of 0 for what happened would make the log loss infinite: it is held this far from 0 and 1.
SMALLEST_PROBABILITY = 1e-12


def kind_of_scores(likelihood: Likelihood) -> str:
    """Which scores a likelihood has: those of choices, of labels, of grades, or of real responses and counts."""
    if likelihood.of_choices:
        return "choices"
    return likelihood.responses if likelihood.responses in ("labels", "grades") else "real responses"


def require_same_grades(test: MultiTaskData, fit: Fit, name: str) -> None:
    """Raise where the grades of test rows are no grades of a fit."""
    likelihood = fit.factory.likelihood
    if test.grades != fit.data.grades:
        raise ValueError(
            f"test has the grades {', '.join(test.grades) or '(none)'}, and fit {name!r} has "
            f"{', '.join(fit.data.grades) or '(none)'}. Make y a column of the same ordered categories."
        )
    bad = np.flatnonzero(~np.isin(test.original_y(), likelihood.grade_values))
    if len(bad):
        raise ValueError(
            f"y of test is {test.original_y()[bad[0]]:g} in row {bad[0]}, which is no grade of fit {name!r}. "
            "Correct it."
        )


def grade_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    r"""Scores of grades that were predicted with their probabilities, by name.

    ``log loss`` is the mean of :math:`-\log p_y`, held off infinity at a probability of 1e-12; ``RPS`` the ranked
    probability score (Epstein 1969), the mean of :math:`\sum_{k<K} (P(y \le k) - 1[y \le k])^2 / (K - 1)`, which
    counts how far off a grade is; ``accuracy %`` the share of rows whose most probable grade came; ``MAE`` the mean
    distance of the expected grade from the one that came, in the numbers that stand for the grades. Rows count by
    their weights.

    Parameters
    ----------
    test : MultiTaskData
        Rows whose response is a grade of the fit.
    predicted : xarray.Dataset
        What ``fit.predict`` says of them.
    """
    y, weight = test.original_y(), np.ones(test.n_rows) if test.weight is None else test.weight
    probability = predicted["probability"].transpose("obs", "grade").to_numpy()
    labels = predicted["grade"].to_numpy()
    values = np.arange(1.0, len(labels) + 1.0) if test.grades else labels.astype(np.float64)
    came = y[:, None] == values
    below = y[:, None] <= values[:-1]
    distance = np.cumsum(probability, axis=1)[:, :-1] - below
    loss = -np.log(np.maximum(probability[came], SMALLEST_PROBABILITY))
    rows = {
        "log loss": loss,
        "RPS": np.mean(distance**2, axis=1),
        "accuracy %": 100.0 * (np.argmax(probability, axis=1) == np.argmax(came, axis=1)),
        "MAE": np.abs(predicted["mean"].to_numpy() - y),
    }
    return {name: float(np.average(row, weights=weight)) for name, row in rows.items()}


def cutpoints(fit: Fit) -> xr.DataArray:
    """The cut points of a fit with :class:`zoo.Ordinal`, at every draw.

    Returns
    -------
    xarray.DataArray
        Dims ``chain, draw, cutpoint`` and, where every task has its own, ``task``. The coordinates of ``cutpoint`` say
        which grades each one separates, as ``"2 | 3"``. The first one is 0.

    Raises
    ------
    ValueError
        The fit has no grades.
    """
    likelihood = fit.factory.likelihood
    if likelihood.responses != "grades":
        raise ValueError(
            f"fit has the likelihood {type(likelihood).__name__}, which has no cut points. They are of zoo.Ordinal."
        )
    posterior = fit.posterior
    blank = xr.zeros_like(posterior[likelihood.learned[0]]) if likelihood.learned else xr.DataArray(0.0)
    if "chain" not in blank.dims:
        sizes = {dim: posterior[dim] for dim in ("chain", "draw")}
        blank = blank.expand_dims(sizes)
    names = fit.data.grades or tuple(f"{value:g}" for value in likelihood.grade_values)
    cuts = [blank]
    for name in likelihood.parameter_names:
        cuts.append(cuts[-1] + (posterior[name] if name in posterior else getattr(likelihood, name)))
    between = [f"{a} | {b}" for a, b in pairwise(names)]
    joined = xr.concat(cuts, dim="cutpoint").assign_coords(cutpoint=between).rename("cutpoints")
    return joined.transpose("chain", "draw", "cutpoint", ...)
