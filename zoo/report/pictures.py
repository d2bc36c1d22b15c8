"""Which pictures a fit has, each with what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.core.capabilities import CoefficientSurface
from zoo.likelihoods.logistic import Logistic

if TYPE_CHECKING:
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = ["Picture", "pictures_of", "save_figure"]

_DPI = 150
# Points along each column of t, and how far from every row they may be, in standard deviations.
_GRID, _NEAR = 40, 0.3


class Picture(NamedTuple):
    """A picture: its file, its heading, what it shows, and how it is drawn."""

    file: str
    heading: str
    caption: str
    draw: Callable[[], Any]


def save_figure(draw: Callable[..., Any], path: Path, *arguments: Any, **options: Any) -> None:
    """Write ``draw(*arguments, **options)`` to a PNG file and close it."""
    import matplotlib.pyplot as plt

    figure = draw(*arguments, **options)
    try:
        figure.savefig(path, dpi=_DPI)
    finally:
        plt.close(figure)


def pictures_of(
    fit: Fit, test: MultiTaskData | None, independent: Fit | None, random_seed: Any
) -> Iterator[Picture]:
    """The pictures that this fit has, in the order of the report."""
    from zoo import plots
    from zoo.plots.traces import has_objective

    posterior = fit.posterior
    by_task = "coefficients" in posterior and "task" in posterior["coefficients"].dims
    if test is not None:
        yield Picture(
            "predicted_vs_observed.png",
            "Predictions of the held-out rows",
            "Where predictions are good, they stand near the diagonal, and intervals hold as often as they say.",
            partial(plots.predicted_vs_observed, fit, test, random_seed=random_seed),
        )
    # Coefficients under the hinge and under the logistic likelihood have different scales.
    comparable = not fit.factory.likelihood.labels or isinstance(fit.factory.likelihood, Logistic)
    if by_task and comparable and independent is not None:
        yield Picture(
            "shrinkage.png",
            "What sharing changes",
            "An open circle is the estimate of a task alone, a dot that of all tasks together. Long arrows mark the "
            "tasks that learn most from the others.",
            partial(plots.shrinkage, fit, independent=independent),
        )
    if isinstance(fit, CoefficientSurface) and fit.data.t is not None and fit.data.n_tasks == 1:
        yield Picture(
            "coefficient_surface.png",
            "How a coefficient varies",
            "White covers what cannot be told from zero on a map. Other features and places: "
            "zoo.plots.coefficient_map and coefficient_curve.",
            partial(_surface, fit, random_seed),
        )
    if ("task_cov" in posterior or by_task) and fit.data.n_tasks > 2:
        yield Picture(
            "task_map.png",
            "Which tasks are alike",
            "Tasks that stand near each other behave alike. The sign of a direction means nothing.",
            partial(plots.task_map, fit),
        )
    if "task_cov" in posterior:
        yield Picture(
            "task_correlation.png",
            "How tasks correlate",
            "Blocks are groups of tasks that behave alike. The diagonal is 1 by definition and has no colour.",
            partial(plots.task_correlation, fit),
        )
    if "coefficients" in posterior and not fit.is_point:
        yield Picture(
            "coefficient_forest.png",
            "The largest coefficient",
            "Posterior mean and 90% interval of the feature that matters most. Other features: "
            "zoo.plots.coefficient_forest(fit, feature=...).",
            partial(plots.coefficient_forest, fit),
        )
    if "kappa" in posterior:
        yield Picture(
            "relevance.png",
            "Which features matter",
            "How much each feature counts over all tasks.",
            partial(plots.relevance_bars, fit),
        )
    if fit.is_point and has_objective(fit):
        yield Picture(
            "objective_trace.png",
            "The way to the estimate",
            "The curve is flat at its end where the method has arrived.",
            partial(plots.objective_trace, fit),
        )
    if not fit.is_point:
        yield Picture(
            "trace_rank.png",
            "The chains",
            "Where chains agree, their traces lie on each other, and the ranks of each are even.",
            partial(plots.trace_rank, fit),
        )


def _surface(fit: CoefficientSurface, random_seed: Any) -> Any:
    """The coefficient that varies most, as a map of the first two columns of t, or a curve over the only one."""
    from zoo import plots

    assert fit.data.t_names is not None
    flat = len(fit.data.t_names) > 1
    places = plots.grid(fit.data, n=_GRID, near=_NEAR if flat else None)
    coefficients = fit.coefficients(places, random_seed=random_seed)
    if not flat:
        return plots.coefficient_curve(coefficients)
    names = [str(name) for name in coefficients["feature"].to_numpy()]
    spread = coefficients["mean"].std("place").to_numpy() * _scales(fit, names)
    return plots.coefficient_map(coefficients, names[int(np.argmax(spread))])


def _scales(fit: Fit, names: list[str]) -> np.ndarray:
    """What a usual change of each feature is; none of the constant one."""
    sd = dict(zip(fit.data.feature_names, fit.data.inputs.std(axis=0), strict=True))
    if fit.data.transform is not None:
        sd = {name: sd[name] * scale for name, scale in zip(sd, fit.data.transform.x_scale, strict=True)}
    return np.array([sd.get(name, 0.0) for name in names])
