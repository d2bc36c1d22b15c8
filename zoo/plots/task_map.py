"""Tasks as points: those that behave alike are near each other."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.core.keep import require_draws
from zoo.plots.correlation import mean_correlation
from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["task_map"]

# Where a name may stand beside its point, in points of type, best first.
_PLACES = ((4, 3), (4, -9), (-4, 3), (-4, -9), (0, 7), (0, -13), (9, -3), (-9, -3))


def task_map(
    fit: Fit,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (6.5, 6.0),
) -> Figure:
    """Tasks in the two directions in which they differ most, with their names.

    Where the model learns a covariance of tasks, the map is classical scaling of their posterior mean correlation:
    tasks that are near each other correlate. Where it does not, the map shows the principal components of the
    posterior mean coefficients, as they are on the model's scale. The sign of a direction means nothing.

    Parameters
    ----------
    fit : Fit
    names : sequence of str, optional
        Tasks whose names are written. Default: all that have room, those far from the middle first; every task has
        its point.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float)

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The posterior has neither ``task_cov`` nor coefficients of tasks, there are fewer than three tasks, or a name
        is unknown.
    """
    require_draws(fit, "a map of the tasks")
    known = [str(name) for name in fit.posterior["task"].to_numpy()] if "task" in fit.posterior.dims else []
    similarity, what = _similarity(fit)
    if len(known) < 3:
        raise ValueError(f"fit has {counted(len(known), 'task')}. A map needs three or more.")
    if isinstance(names, str):
        names = [names]
    for name in names or ():
        one_of(name, known, "names")
    values, vectors = np.linalg.eigh(similarity)
    values, vectors = np.clip(values[::-1], 0.0, None), vectors[:, ::-1]
    points = vectors[:, :2] * np.sqrt(values[:2])
    # The sign of an eigenvector is arbitrary: the largest entry is made positive, so that a figure repeats itself.
    points *= np.sign(points[np.abs(points).argmax(axis=0), [0, 1]]) + (points == 0.0).all(axis=0)
    share = 100.0 * values[:2] / values.sum() if values.sum() > 0.0 else np.zeros(2)

    axes = panel(ax, figsize)
    axes.axhline(0.0, color="0.9", linewidth=0.8, zorder=0)
    axes.axvline(0.0, color="0.9", linewidth=0.8, zorder=0)
    axes.plot(*points.T, "o", color="C0", markersize=5.0, alpha=0.8)
    axes.set_aspect("equal", adjustable="datalim")
    axes.margins(0.12)
    axes.set_xlabel(f"first direction, {share[0]:.0f}% of how tasks differ")
    axes.set_ylabel(f"second direction, {share[1]:.0f}%")
    wanted = np.argsort(-np.hypot(*points.T), kind="stable")
    if names is not None:
        wanted = np.array([known.index(name) for name in names], dtype=int)
    written = _write_names(axes, points, [known[i] for i in wanted], wanted)
    some = "" if written == len(known) else f", {written} of them named"
    axes.set_title(f"Map of {len(known)} tasks by {what}{some}", fontsize=11)
    return figure_of(axes)


def _similarity(fit: Fit) -> tuple[np.ndarray, str]:
    """Inner products of the tasks around their centre, and what they are of."""
    posterior = fit.posterior
    if "task_cov" in posterior:
        similarity = mean_correlation(posterior["task_cov"].to_numpy())
        what = "their correlation"
    elif "coefficients" in posterior and "task" in posterior["coefficients"].dims:
        mean = posterior["coefficients"].mean(("chain", "draw")).transpose("task", "feature").to_numpy()
        similarity = mean @ mean.T
        what = "their coefficients"
    else:
        raise ValueError(
            f"fit has neither 'task_cov' nor coefficients of tasks in its posterior ({fit.factory!r}). "
            "Fit a model that learns one of them, for instance zoo.MaxMargin or zoo.NIWLinear."
        )
    centred = similarity - similarity.mean(axis=0)
    return centred - centred.mean(axis=1)[:, None], what


def _write_names(axes: Axes, points: np.ndarray, names: list[str], of: np.ndarray) -> int:
    """Write names beside their points where they have room; return how many found some."""
    figure = figure_of(axes)
    figure.draw_without_rendering()
    inside = axes.get_window_extent()
    places = axes.transData.transform(points)
    dot = 3.0 * figure.dpi / 72.0
    taken: list[Sequence[float]] = [(x - dot, y - dot, x + dot, y + dot) for x, y in places]
    written = 0
    for name, i in zip(names, of, strict=True):
        for right, up in _PLACES:
            side = "left" if right > 0 else "right" if right < 0 else "center"
            style: dict[str, Any] = {"ha": side, "fontsize": 8, "parse_math": False}
            text = axes.annotate(name, points[i], (right, up), textcoords="offset points", **style)
            box = text.get_window_extent().extents
            room = inside.x0 <= box[0] and box[2] <= inside.x1 and inside.y0 <= box[1] and box[3] <= inside.y1
            if room and not any(_overlap(box, other) for other in taken):
                taken.append(tuple(box))
                written += 1
                break
            text.remove()
    return written


def _overlap(a: Sequence[float], b: Sequence[float]) -> bool:
    return a[0] < b[2] and b[0] < a[2] and a[1] < b[3] and b[1] < a[3]
