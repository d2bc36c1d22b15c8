"""Predictions held against what was observed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.data.multitask import MultiTaskData
from zoo.data.new_rows import require_test_data
from zoo.diagnostics.scores import explained_variance, f1_scores, log_loss
from zoo.plots.figures import figure_of, panel

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["predicted_vs_observed"]

_INTERVALS = 200
_BINS = 10


def predicted_vs_observed(
    fit: Fit,
    test: MultiTaskData,
    ci_prob: float = 0.9,
    random_seed: Any = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (6.5, 6.0),
) -> Figure:
    """Predictions of held-out rows against what was observed.

    Real responses: observed y over the predictive mean, with the predictive interval of y (of some 200 rows where
    there are more, evenly along the means) and the diagonal. Labels: a calibration plot, the observed frequency of
    the positive class over its predicted probability in ten bins, with counts.

    Parameters
    ----------
    fit : Fit
    test : MultiTaskData
        Rows of known tasks, on the user's scale or standardized. Where they have weights, the numbers are weighted:
        a row of weight 2 counts as two rows alike.
    ci_prob : float
        Probability of the interval; for labels, of that of each bin's frequency.
    random_seed : int, optional
        For the predictive draws.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float)

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    TypeError
        ``test`` is no MultiTaskData.
    """
    require_test_data(test)
    predicted = fit.predict(test, ci_prob=ci_prob, random_seed=random_seed)
    axes = panel(ax, figsize)
    if fit.factory.likelihood.labels:
        _calibration(axes, test, predicted)
    else:
        _scatter(axes, test, predicted)
    return figure_of(axes)


def _scatter(axes: Axes, test: MultiTaskData, predicted: xr.Dataset) -> None:
    y = test.original_y()
    mean, low, high = (predicted[name].to_numpy() for name in ("mean", "lower", "upper"))
    ci = f"{100 * predicted.attrs['ci_prob']:g}%"
    order = np.argsort(mean, kind="stable")
    shown = order[np.unique(np.linspace(0, len(order) - 1, min(_INTERVALS, len(order))).round().astype(int))]
    some = "" if len(shown) == len(y) else f" of {len(shown)} rows"
    axes.vlines(
        mean[shown],
        low[shown],
        high[shown],
        color="C0",
        alpha=0.25,
        linewidth=1.0,
        label=f"{ci} interval{some}",
    )
    size, alpha = (14.0, 0.8) if len(y) <= 500 else (5.0, 0.3)
    axes.scatter(
        mean, y, s=size, alpha=alpha, color="C1", linewidths=0.0, label=f"{len(y):,} test rows", zorder=2
    )
    ends = [float(mean.min()), float(mean.max())]
    axes.plot(ends, ends, color="black", linewidth=1.2, label="observed = predicted", zorder=3)
    inside = float(np.average((y >= low) & (y <= high), weights=test.weight))
    # Constant y has no variance to explain; the picture is still worth drawing.
    explained = (
        f"{100 * explained_variance(y, mean, weight=test.weight).pooled:.1f}%"
        if np.ptp(y) > 0
        else "undefined"
    )
    axes.set_title(
        f"Explained variance {explained} (pooled), {ci} intervals cover {100 * inside:.1f}%", fontsize=11
    )
    axes.set_xlabel("predictive mean")
    axes.set_ylabel("observed y")
    legend = axes.legend(loc="best" if len(y) <= 500 else "upper left", fontsize=8)
    for handle in legend.legend_handles:
        if handle is not None:
            handle.set_alpha(1.0)


def _calibration(axes: Axes, test: MultiTaskData, predicted: xr.Dataset) -> None:
    probability = predicted["probability"].to_numpy()
    positive = test.y > 0
    bins = np.minimum((probability * _BINS).astype(int), _BINS - 1)
    filled = np.unique(bins)
    weight = np.ones(test.n_rows) if test.weight is None else test.weight
    count = np.array([np.sum(weight[bins == b]) for b in filled])
    hits = np.array([np.sum((weight * positive)[bins == b]) for b in filled])
    x = np.array([np.average(probability[bins == b], weights=weight[bins == b]) for b in filled])
    low, high = _frequency_interval(hits, count, predicted.attrs["ci_prob"])
    axes.plot([0, 1], [0, 1], color="0.6", linewidth=1.0, label="calibrated")
    axes.vlines(
        x, low, high, color="C0", linewidth=1.2, label=f"{100 * predicted.attrs['ci_prob']:g}% interval"
    )
    axes.plot(x, hits / count, "o", color="C0", label="bin of test rows, with its count")
    for i, n in enumerate(count):
        axes.annotate(
            f"{n:,.6g}", (x[i], hits[i] / count[i]), xytext=(5, -4), textcoords="offset points", fontsize=8
        )
    scores = f1_scores(test.y, predicted["label"].to_numpy(), test.task, test.weight)
    loss = log_loss(test.y, probability, test.weight)
    axes.set_title(f"Calibration: accuracy {100 * scores.accuracy:.1f}%, log loss {loss:.3f}", fontsize=11)
    axes.set_xlim(-0.02, 1.06)
    axes.set_ylim(-0.02, 1.02)
    axes.set_xlabel("predicted probability of the positive class")
    axes.set_ylabel("observed frequency")
    axes.legend(loc="upper left", fontsize=8)


def _frequency_interval(hits: np.ndarray, count: np.ndarray, prob: float) -> tuple[np.ndarray, np.ndarray]:
    """Interval of a frequency under Jeffreys' prior; it reaches 0 or 1 where the count does."""
    from scipy.stats import beta

    tail = (1.0 - prob) / 2.0
    a, b = hits + 0.5, count - hits + 0.5
    low = np.where(hits == 0, 0.0, beta.ppf(tail, a, b))
    return low, np.where(hits == count, 1.0, beta.ppf(1.0 - tail, a, b))
