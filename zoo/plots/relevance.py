"""How much each feature counts: bars, a map by task, and the path over penalties."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["relevance_bars", "relevance_map", "relevance_path"]

_NAMED_LINES = 30
_LINE_STYLES = ("-", "--", ":", "-.")


def relevance_bars(
    fit: Fit | xr.Dataset,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """Relevance of each feature as bars, with the posterior interval where there is one.

    Features that are not included are grey; those with a relevance of exactly zero carry a cross. To colour those
    that a test selected, hand over ``fit.relevance().assign(included=fit.select_features()["selected"])``.

    Parameters
    ----------
    fit : Fit or xarray.Dataset
        A fit that selects features, or what its ``relevance()`` returned.
    names : sequence of str, optional
        Features to show, in this order; default: all, as in the data.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional
        Inches; default: grows with the number of features.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The fit selects no features, the Dataset is another one, or a name is unknown.
    """
    table = _relevance(fit, {name: ("feature",) for name in ("relevance", "lower", "upper", "included")})
    table = _chosen(table, names)
    shown = [str(name) for name in table["feature"].to_numpy()]
    height = table["relevance"].to_numpy()
    low, high = table["lower"].to_numpy(), table["upper"].to_numpy()
    included = table["included"].to_numpy().astype(bool)
    many = len(shown) > 40
    axes = panel(ax, figsize or (min(2.0 + (0.12 if many else 0.26) * len(shown), 40.0), 3.6))
    places = np.arange(len(shown))
    grey = ~included & (height > 0.0)
    axes.bar(places[~grey], height[~grey], width=0.7, color="C0", label="included")
    if grey.any():
        axes.bar(places[grey], height[grey], width=0.7, color="0.75", label="not included")
    drawn = low < high
    if drawn.any():
        axes.vlines(places[drawn], low[drawn], high[drawn], color="0.2", linewidth=1.2)
    zero = height == 0.0
    if zero.any():
        # Across the axis line: a bar of height zero is otherwise no ink at all.
        axes.plot(
            places[zero], height[zero], "x", color="C3", markersize=5.0, clip_on=False, label="exactly zero"
        )
    if not included.all():
        axes.legend(frameon=False, fontsize=8.5)
    _name_ticks(axes, "x", shown)
    axes.tick_params(axis="x", pad=5.0)  # room for the crosses
    axes.set_xlim(-0.8, len(shown) - 0.2)
    axes.set_ylim(bottom=0.0)
    axes.grid(axis="y", color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)
    interval = (
        f", {100 * table.attrs['ci_prob']:g}% interval" if drawn.any() and "ci_prob" in table.attrs else ""
    )
    axes.set_ylabel(f"relevance{interval}")
    axes.set_title(f"Relevance of {counted(len(shown), 'feature')}, {included.sum()} included", fontsize=11)
    return figure_of(axes)


def relevance_map(
    fit: Fit | xr.Dataset, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Relevance of each feature in each task, on standardized features, as a heat map.

    Parameters
    ----------
    fit : Fit or xarray.Dataset
        A fit that selects features, or what its ``relevance()`` returned.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional
        Inches; default: grows with the numbers of features and tasks. Of more than 40 tasks only some are named.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The fit selects no features, its tasks share their ARD parameters, or the Dataset is another one.
    """
    import matplotlib as mpl

    table = _relevance(fit, {"kappa_standardized": ()})
    if "task" not in table["kappa_standardized"].dims:
        raise ValueError(
            "fit has one ARD parameter per feature for all tasks. Show them with relevance_bars."
        )
    values = table["kappa_standardized"]
    features, tasks = ([str(name) for name in values[dim].to_numpy()] for dim in ("feature", "task"))
    kappa = values.transpose("feature", "task").to_numpy()
    height = min(1.6 + (0.12 if len(features) > 40 else 0.22) * len(features), 40.0)
    axes = panel(ax, figsize or (2.6 + min(0.24 * len(tasks), 6.0), height))
    zero = kappa == 0.0
    image = axes.imshow(
        np.ma.masked_array(kappa, zero),
        # Of the colours none is grey, so that exact zeros differ from small values.
        cmap=mpl.colormaps["YlGnBu"].with_extremes(bad="0.85"),
        vmin=0.0,
        vmax=float(kappa.max()) or 1.0,
        aspect="auto",
        interpolation="nearest",
    )
    _name_ticks(axes, "y", features)
    _name_ticks(axes, "x", tasks, every=1 if len(tasks) <= 40 else _round_step(len(tasks) / 20))
    axes.set_title(
        f"Relevance of {counted(len(features), 'feature')} in {counted(len(tasks), 'task')}", fontsize=11
    )
    bar = figure_of(axes).colorbar(image, ax=axes, pad=0.02)
    bar.set_label("ARD parameter" + ("; grey: exactly zero" if zero.any() else ""))
    return figure_of(axes)


def relevance_path(
    path: xr.Dataset, ax: Axes | None = None, figsize: tuple[float, float] | None = None
) -> Figure:
    """Relevance of each feature against the penalty, which falls from left to right.

    The numbers along the top say how many features are selected. Lines are named at their right end; of more than
    30 features, the 30 that are most relevant somewhere on the path are, and the others are grey.

    Parameters
    ----------
    path : xarray.Dataset
        What ``path(data)`` of a factory that selects features returned.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The Dataset is no path.
    """
    if not isinstance(path, xr.Dataset):
        raise ValueError(
            f"path is of type {type(path).__name__}. Hand over what factory.path(data) returned."
        )
    _require(
        path, {"relevance": ("penalty", "feature"), "n_selected": ("penalty",)}, "path", "factory.path(data)"
    )
    path = path.sortby("penalty")
    C, values = path["penalty"].to_numpy(), path["relevance"].transpose("penalty", "feature").to_numpy()
    if not C[0] > 0.0:
        raise ValueError(f"path has a penalty of {C[0]:g}, which a log axis cannot show. Leave it out.")
    names = [str(name) for name in path["feature"].to_numpy()]
    named = np.sort(np.argsort(-values.max(axis=0), kind="stable")[:_NAMED_LINES])
    axes = panel(ax, figsize or (7.0, max(3.8, 1.2 + 0.15 * len(named))))
    axes.set_xscale("log")
    for i in np.setdiff1d(np.arange(len(names)), named):
        axes.plot(C, values[:, i], color="0.8", linewidth=0.8)
    top = 1.05 * float(values.max()) or 1.0
    for place, i in enumerate(named):
        axes.plot(
            C,
            values[:, i],
            color=f"C{place % 10}",
            linestyle=_LINE_STYLES[place // 10 % len(_LINE_STYLES)],
            linewidth=1.4,
            label=names[i],
        )
    for place, (i, y) in enumerate(zip(named, _spread(values[0, named] / top), strict=True)):
        axes.annotate(
            names[i],
            xy=(C[0], values[0, i]),
            xytext=(1.04, y),
            textcoords="axes fraction",
            color=f"C{place % 10}",
            fontsize=7.5,
            verticalalignment="center",
            annotation_clip=False,
            parse_math=False,
            arrowprops={
                "arrowstyle": "-",
                "color": "0.7",
                "linewidth": 0.5,
                "shrinkA": 0,
                "shrinkB": 0,
                "relpos": (0.0, 0.5),
            },
        )
    if len(C) > 1:
        axes.set_xlim(C[-1], C[0])
    axes.set_ylim(0.0, top)
    axes.set(xlabel="penalty C (log scale)", ylabel="relevance")
    above = axes.secondary_xaxis("top")
    shown = _some_places(np.log(C))
    above.set_xticks(C[shown], [str(int(n)) for n in path["n_selected"].to_numpy()[shown]], fontsize=8.5)
    above.set_xticks([], minor=True)
    above.set_xlabel("features selected", fontsize=8.5)
    axes.set_title(f"Relevance of {counted(len(names), 'feature')} by penalty", fontsize=11)
    return figure_of(axes)


# -------------------------------------------------------------------- parts


def _relevance(fit: Fit | xr.Dataset, variables: dict[str, tuple[str, ...]]) -> xr.Dataset:
    """The Dataset to show, which has these variables."""
    if isinstance(fit, xr.Dataset):
        if "penalty" in fit.dims:
            raise ValueError("fit is a path over the penalty. Show it with relevance_path.")
        table = fit
    else:
        method = getattr(fit, "relevance", None)
        if method is None:
            raise ValueError(
                f"fit is of type {type(fit).__name__} and has no relevance(). "
                "Hand over a fit that selects features, or what its relevance() returned."
            )
        table = method()
    _require(table, variables, "fit", "fit.relevance()")
    return table


def _require(table: xr.Dataset, variables: dict[str, tuple[str, ...]], argument: str, source: str) -> None:
    """Raise unless the Dataset has the variables, each with its dims where some are given."""
    for name, dims in variables.items():
        if name not in table:
            raise ValueError(f"{argument} has no {name!r}. Hand over what {source} returned.")
        if dims and set(table[name].dims) != set(dims):
            raise ValueError(
                f"{argument}: {name!r} has dims {dict(table[name].sizes)}, where {' and '.join(dims)} are needed. "
                f"Hand over what {source} returned."
            )


def _chosen(table: xr.Dataset, names: Sequence[str] | None) -> xr.Dataset:
    """The features of these names, in their order."""
    if names is None:
        return table
    if isinstance(names, str):
        names = [names]
    if not len(names):
        raise ValueError("names is empty. Name at least one feature.")
    known = [str(name) for name in table["feature"].to_numpy()]
    for name in names:
        one_of(name, known, "names")
    return table.isel(feature=[known.index(name) for name in names])


def _name_ticks(axes: Axes, which: str, names: Sequence[str], every: int = 1) -> None:
    """Ticks with names, upright along x where they are long or many."""
    size = 5.5 if len(names) > 40 and every == 1 else 8.5
    places, shown = range(0, len(names), every), names[::every]
    if which == "x":
        upright = len(shown) > 12 or max(len(name) for name in shown) > 3
        axes.set_xticks(places, shown, rotation=90 if upright else 0, fontsize=size, parse_math=False)
    else:
        axes.set_yticks(places, shown, fontsize=size, parse_math=False)
    axes.tick_params(axis="x" if which == "x" else "y", length=1.5, pad=2.0)


def _round_step(least: float) -> int:
    """The first of 1, 2, 5, 10, 20, ... that is not below ``least``."""
    power = 10 ** int(np.floor(np.log10(least)))
    return next(step * power for step in (1, 2, 5, 10) if step * power >= least)


def _spread(heights: np.ndarray) -> np.ndarray:
    """Heights in 0 .. 1, moved as little as keeps them apart, in the same order."""
    n = len(heights)
    gap = min(0.05, 1.0 / max(n - 1, 1))
    order = np.argsort(heights, kind="stable")
    # Least squares under the constraint that neighbours are a gap apart: isotonic regression of what is left.
    from scipy.optimize import isotonic_regression

    rest = np.asarray(isotonic_regression(heights[order] - gap * np.arange(n)).x)
    result = np.empty(n)
    result[order] = np.clip(rest, 0.0, 1.0 - gap * (n - 1)) + gap * np.arange(n)
    return result


def _some_places(positions: np.ndarray) -> np.ndarray:
    """Indices of ascending positions that leave room for a label each: the ends, and a few between."""
    room = (positions[-1] - positions[0]) / 14
    chosen = [len(positions) - 1]
    for i in range(len(positions) - 2, -1, -1):
        if positions[chosen[-1]] - positions[i] >= room and (i == 0 or positions[i] - positions[0] >= room):
            chosen.append(i)
    return np.array(chosen[::-1])
