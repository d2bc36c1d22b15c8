"""Scores by the number of rows per task."""

from __future__ import annotations

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.diagnostics.scores import LOWER_IS_BETTER
from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of

__all__ = ["learning_curve"]


def learning_curve(
    table: pd.DataFrame,
    score: str | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (6.5, 4.5),
) -> Figure:
    """A score of each model over the training rows per task: the mean over repeats, in the band of all repeats.

    Parameters
    ----------
    table : pandas.DataFrame
        What :func:`zoo.diagnostics.learning_curve` returns.
    score : str, optional
        A column of it; default: "RMSE", or "log loss" of labels and grades.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float)

    Returns
    -------
    matplotlib.figure.Figure
    """
    missing = [name for name in ("model", "rows", "repeat") if name not in table]
    if missing:
        raise ValueError(
            f"table has no column {missing[0]!r}. Give what zoo.diagnostics.learning_curve returns."
        )
    scores = [str(name) for name in table.columns if name not in ("model", "rows", "repeat")]
    if score is None:
        score = next((name for name in LOWER_IS_BETTER if name in scores), scores[0])
    one_of(score, scores, "score")
    axes = panel(ax, figsize)
    sizes = np.sort(table["rows"].unique())
    for number, model in enumerate(table["model"].unique()):
        groups = table[table["model"] == model].groupby("rows")[score]
        colour = f"C{number}" if number == 0 else f"{0.25 + 0.25 * ((number - 1) % 3):.2f}"
        style = ("-", "--", ":", "-.")[number % 4]
        axes.fill_between(sizes, groups.min(), groups.max(), color=colour, alpha=0.15, linewidth=0.0)
        axes.plot(sizes, groups.mean(), style, marker="o", markersize=4.0, color=colour, label=str(model))
    axes.set_xscale("log")
    axes.set_xticks(sizes, [f"{size:,}" for size in sizes])
    axes.set_xticks([], minor=True)
    axes.set_xlabel("training rows per task (log scale)")
    better = "lower" if score in LOWER_IS_BETTER else "higher"
    axes.set_ylabel(f"{score} of held-out rows ({better} is better)")
    repeats = table["repeat"].nunique()
    band = f", mean and range of {repeats} repeats" if repeats > 1 else ""
    axes.set_title(f"What sharing buys{band}", fontsize=11)
    axes.grid(color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)
    legend = axes.legend(frameon=False, fontsize=8.5)
    for text in legend.get_texts():
        text.set_parse_math(False)
    return figure_of(axes)
