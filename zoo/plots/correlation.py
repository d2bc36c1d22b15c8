"""Heat map of how tasks correlate."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["mean_correlation", "task_correlation"]

_DRAWS_AT_A_TIME = 100
# The smaller side of zero has this share of the larger one where colours run around zero.
_BOTH_SIGNS = 0.25


def task_correlation(
    fit: Fit,
    order: str = "cluster",
    tasks: Sequence[str] | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Posterior mean of the correlation between tasks, as a heat map.

    Each draw of ``task_cov`` is scaled to a correlation, then averaged: the scale of ``task_cov`` alone is not
    identified. Of a fit without draws it is the estimate. Colours run over what is found between different tasks, so
    that 0.8 and 0.9 differ; the diagonal, which is 1, is grey.

    Parameters
    ----------
    fit : Fit
    order : {"cluster", "data"}
        Tasks by average-linkage clustering, so that groups show as blocks, or as in the data.
    tasks : sequence of str, optional
        Tasks to show; default: all.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional
        Inches; default: grows with the number of tasks, so that every name can be read.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The posterior has no ``task_cov``, or not one of ``tasks``.
    """
    one_of(order, ("cluster", "data"), "order")
    posterior = fit.idata["posterior"]
    if "task_cov" not in posterior:
        raise ValueError(
            f"fit has no 'task_cov' in its posterior ({fit.factory!r}). "
            'Fit a model that learns one, for instance zoo.MaxMargin(task_cov="learned").'
        )
    known = [str(name) for name in posterior["task"].to_numpy()]
    tasks = [tasks] if isinstance(tasks, str) else tasks
    if tasks is not None and not len(tasks):
        raise ValueError("tasks is empty. Name at least one task.")
    for name in () if tasks is None else tasks:
        one_of(name, known, "tasks")
    shown = np.arange(len(known)) if tasks is None else np.array([known.index(name) for name in tasks])
    correlation = mean_correlation(posterior["task_cov"].to_numpy()[:, :, shown[:, None], shown])
    places = _clustered(correlation) if order == "cluster" else np.arange(len(correlation))
    names = [known[i] for i in shown[places]]
    few = len(names) <= 40
    side = 3.0 + 0.22 * len(names) if few else min(2.0 + 0.09 * len(names), 40.0)
    axes = panel(ax, figsize or (side + 1.0, side))
    ordered = correlation[np.ix_(places, places)]
    between = np.ma.masked_array(ordered, mask=np.eye(len(names), dtype=bool))
    low, high, colours = _colours(between)
    image = axes.imshow(between, cmap=colours, vmin=low, vmax=high)
    axes.set_facecolor("0.75")
    size = 8.0 if few else 5.5
    axes.set_xticks(range(len(names)), names, rotation=90, fontsize=size, parse_math=False)
    axes.set_yticks(range(len(names)), names, fontsize=size, parse_math=False)
    axes.tick_params(length=1.5, pad=1.5)
    what = "estimate" if getattr(fit, "is_point", False) else "posterior mean"
    sorted_ = "similar tasks side by side" if order == "cluster" else "in the order of the data"
    title = f"Correlation of {counted(len(names), 'task')}, {what},\n{sorted_}"
    axes.set_title(title, fontsize=11)
    bar = figure_of(axes).colorbar(image, ax=axes, shrink=0.6, pad=0.02)
    bar.set_label("correlation between different tasks")
    return figure_of(axes)


def mean_correlation(covariance: np.ndarray) -> np.ndarray:
    """Average over draws of the correlation of each; covariance (chain, draw, T, T)."""
    draws = covariance.reshape(-1, *covariance.shape[2:])
    total = np.zeros(draws.shape[1:])
    # In blocks: a copy of all draws can be larger than memory.
    for start in range(0, len(draws), _DRAWS_AT_A_TIME):
        block = draws[start : start + _DRAWS_AT_A_TIME]
        sd = np.sqrt(np.diagonal(block, axis1=1, axis2=2))
        total += (block / (sd[:, :, None] * sd[:, None, :])).sum(axis=0)
    return total / len(draws)


def _colours(between: np.ma.MaskedArray) -> tuple[float, float, str]:
    """Range and colour map that show the structure: around zero where correlations of both signs are large."""
    if not between.count():
        return -1.0, 1.0, "RdBu_r"
    low, high = float(between.min()), float(between.max())
    if min(-low, high) > _BOTH_SIGNS * max(-low, high):
        most = max(-low, high)
        return -most, most, "RdBu_r"
    # Values that hardly differ shall not look as if they did.
    middle, half = (low + high) / 2.0, max((high - low) / 2.0, 0.01)
    return middle - half, middle + half, "viridis"


def _clustered(correlation: np.ndarray) -> np.ndarray:
    """Positions that put correlated tasks next to each other."""
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    if len(correlation) < 3:
        return np.arange(len(correlation))
    distance = np.clip(1.0 - (correlation + correlation.T) / 2.0, 0.0, None)
    np.fill_diagonal(distance, 0.0)
    tree = linkage(squareform(distance, checks=False), method="average", optimal_ordering=True)
    return leaves_list(tree)
