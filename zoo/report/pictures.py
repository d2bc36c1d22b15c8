"""Which pictures a fit has, each with what it shows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from zoo.likelihoods.logistic import Logistic

if TYPE_CHECKING:
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = ["Picture", "pictures_of", "save_figure"]

_DPI = 150


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
    if fit.is_point:
        yield Picture(
            "objective_trace.png",
            "The way to the estimate",
            "The curve is flat at its end where the method has arrived.",
            partial(plots.objective_trace, fit),
        )
    else:
        yield Picture(
            "trace_rank.png",
            "The chains",
            "Where chains agree, their traces lie on each other, and the ranks of each are even.",
            partial(plots.trace_rank, fit),
        )
