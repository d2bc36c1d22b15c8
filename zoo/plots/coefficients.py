"""Coefficients that vary over places: a map, and curves over one column of t."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import ListedColormap
from matplotlib.figure import Figure

from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of
from zoo.support.frames import read_column
from zoo.support.words import counted

__all__ = ["coefficient_curve", "coefficient_map", "columns_of_places"]

_INTERCEPT = "intercept"
# Features that are drawn as curves if none is named.
_CURVES = 6
# The grey that covers what is uncertain, and how much of it: white is a coefficient of 0, of which a fit is sure.
_UNCERTAIN, _FADE = "0.55", 0.8
# A map is drawn to scale unless one side would be so many times longer than the other.
_LONGEST = 5.0
# Cells of a grid for each place in it, from which on the places are scattered and no grid.
_SPARSE = 20


def coefficient_map(
    coefficients: xr.Dataset,
    feature: str,
    x: str | None = None,
    y: str | None = None,
    statistic: str = "mean",
    centre: float | str = 0.0,
    mask: Any = None,
    fade: bool = True,
    rows: Any = None,
    aspect: str | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (6.0, 5.0),
) -> Figure:
    """One feature's coefficient at many places, as a map.

    Places on a regular grid (:func:`zoo.plots.grid`), where some may be left out, make an image; others are points.

    Parameters
    ----------
    coefficients : xarray.Dataset
        What ``fit.coefficients(t)`` returned.
    feature : str
    x, y : str, optional
        Columns of t along the axes. Default: the first two.
    statistic : str
        Variable of the Dataset to show: ``"mean"``, ``"sd"``, ``"lower"`` or ``"upper"``.
    centre : float or "average"
        Value in the middle of the colours: 0, a coefficient that holds everywhere, or the average over the places
        shown. Not used for ``"sd"``, whose colours run from the smallest value to the largest.
    mask : (places,) array_like of bool, optional
        Places to leave out, water say, in their order. A Series whose index numbers the places otherwise is refused.
    fade : bool
        Cover with grey the places whose mean is less than one standard deviation away from ``centre``.
    rows : MultiTaskData or table, optional
        Rows to show as faint dots, those of the fit say, by their columns ``x`` and ``y`` of t.
    aspect : {"equal", "auto"}, optional
        Whether a unit of ``x`` is as long as one of ``y``. Default: it is, and a degree of longitude is as long as on
        the earth there, unless one side of the map would be more than five times as long as the other.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The feature, a column or the statistic is unknown, or several values stand at one point of the map.
    """
    import matplotlib as mpl

    known = columns_of_places(coefficients)
    if x is None or y is None:
        others = [name for name in known if name not in (x, y)]
        x, y = x or _next(others, "x"), y or _next(others, "y")
    for name, argument in ((x, "x"), (y, "y")):
        one_of(name, known, argument)
    if x == y:
        raise ValueError(f"x and y are both {x!r}. Name two columns of t.")
    one_of(statistic, _variables(coefficients), "statistic")
    table = _of_feature(coefficients, feature, "feature")
    if mask is not None:
        read = read_column(mask, "mask")
        if read.rows is not None and list(read.rows) != list(table["place"].to_numpy()):
            raise ValueError(
                "mask has another index than the places, 0, 1, ..., so its rows may belong to others. Align it, or "
                "pass mask.to_numpy() where the order is the same."
            )
        hidden = np.asarray(read.values)
        if hidden.shape != (table.sizes["place"],) or hidden.dtype != bool:
            raise ValueError(
                f"mask has shape {hidden.shape} and type {hidden.dtype}. "
                f"Give True or False for each of the {table.sizes['place']} places."
            )
        if hidden.all():
            raise ValueError("mask leaves no place to show. It is True where a place is left out.")
        table = table.isel(place=~hidden)
    at = np.column_stack([table[x].to_numpy(), table[y].to_numpy()]).astype(np.float64)
    _require_one_value(at, f"{x}, {y}", [name for name in known if name not in (x, y)])
    values = table[statistic].to_numpy()
    spread = statistic == "sd"
    middle = _centre(centre, values)
    if spread:
        low, high = float(np.nanmin(values)), float(np.nanmax(values))
        high = high if high > low else low + (abs(low) or 1.0)
    else:
        reach = float(np.nanmax(np.abs(values - middle))) or 1.0
        low, high = middle - reach, middle + reach
    faded = np.zeros(len(values), dtype=bool)
    if fade and not spread and "mean" in table and "sd" in table:
        faded = np.abs(table["mean"].to_numpy() - middle) < table["sd"].to_numpy()
    axes = panel(ax, figsize)
    axes.set_facecolor("0.93")  # where there are no places
    colours = mpl.colormaps["viridis" if spread else "RdBu_r"]
    image = _draw(axes, at, values, cmap=colours, vmin=low, vmax=high)
    if faded.any():
        covered = np.where(faded, 1.0, np.nan)
        _draw(axes, at, covered, cmap=ListedColormap([_UNCERTAIN]), vmin=0.0, vmax=1.0, alpha=_FADE)
    if rows is not None:
        dots = _places_of_rows(rows, x, y)
        axes.scatter(dots[:, 0], dots[:, 1], s=2.0, color="black", alpha=0.35, linewidths=0.0)
    _set_aspect(axes, at, aspect, _is_geographic(x, y))
    axes.set(xlabel=x, ylabel=y)
    axes.set_title(f"Coefficient of {feature!r} by place", fontsize=11, parse_math=False)
    bar = figure_of(axes).colorbar(image, ax=axes, pad=0.02, shrink=0.8)
    away = "|mean|" if middle == 0.0 else f"|mean - {middle:.3g}|"
    bar.set_label(statistic + (f"; grey where {away} < sd" if faded.any() else ""))
    return figure_of(axes)


def coefficient_curve(
    coefficients: xr.Dataset,
    feature: str | Sequence[str] | None = None,
    over: str | None = None,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (7.0, 3.8),
) -> Figure:
    """Mean and interval of coefficients over one column of t.

    Parameters
    ----------
    coefficients : xarray.Dataset
        What ``fit.coefficients(t)`` returned, for places that differ in ``over``.
    feature : str or sequence of str, optional
        Default: all but the intercept; of more than six, those whose mean varies most.
    over : str, optional
        Column of t, ``"day"`` say. Default: the one that varies.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        A feature or the column is unknown, or several values stand at one point of the curve.
    """
    known = columns_of_places(coefficients)
    varying = [name for name in known if np.ptp(coefficients[name].to_numpy()) > 0.0]
    if over is None:
        if len(varying) != 1:
            raise ValueError(
                f"over is missing, and {', '.join(varying) or 'no column'} of t varies. Name one column."
            )
        over = varying[0]
    one_of(over, known, "over")
    at = coefficients[over].to_numpy().astype(np.float64)
    _require_one_value(at[:, None], over, [name for name in known if name != over])
    coefficients = coefficients.isel(place=np.argsort(at, kind="stable"))
    at = np.sort(at)
    shown, of_how_many = _chosen(coefficients, feature)
    axes = panel(ax, figsize)
    axes.axhline(0.0, color="0.6", linewidth=0.8, zorder=0)
    for number, name in enumerate(shown):
        table = _of_feature(coefficients, name, "feature")
        if "lower" in table and "upper" in table:
            lower, upper = table["lower"].to_numpy(), table["upper"].to_numpy()
            alpha = 0.25 if len(shown) == 1 else 0.15
            axes.fill_between(at, lower, upper, color=f"C{number}", alpha=alpha, linewidth=0.0)
        axes.plot(at, table["mean"].to_numpy(), color=f"C{number}", linewidth=1.5, label=name)
    axes.margins(x=0.0)
    interval = (
        f"{100 * coefficients.attrs['ci_prob']:g}% interval"
        if "ci_prob" in coefficients.attrs
        else "interval"
    )
    axes.set_xlabel(over, parse_math=False)
    axes.set_ylabel(f"mean and {interval}")
    which = f"Coefficient of {shown[0]!r}" if len(shown) == 1 else f"Coefficients of {len(shown)} features"
    if len(shown) < of_how_many:
        which = f"Coefficients of the {len(shown)} of {counted(of_how_many, 'feature')} that vary most"
    fixed = [f"{name} = {float(coefficients[name][0]):.6g}" for name in known if name not in (*varying, over)]
    axes.set_title(
        which + (f", at {', '.join(fixed)}" if fixed else f" over {over}"), fontsize=11, parse_math=False
    )
    if len(shown) > 1:
        legend = axes.legend(frameon=False, fontsize=8.5, loc="center left", bbox_to_anchor=(1.0, 0.5))
        for text in legend.get_texts():
            text.set_parse_math(False)
    return figure_of(axes)


# -------------------------------------------------------------------- the Dataset


def columns_of_places(coefficients: Any) -> list[str]:
    """The columns of t, which are numeric coordinates along the places."""
    if not isinstance(coefficients, xr.Dataset):
        raise ValueError(
            f"coefficients is of type {type(coefficients).__name__}. Hand over what fit.coefficients(t) returned."
        )
    if "mean" not in coefficients or set(coefficients["mean"].dims) != {"feature", "place"}:
        raise ValueError(
            "coefficients has no 'mean' over feature and place. Hand over what fit.coefficients(t) returned."
        )
    return [
        str(name)
        for name, values in coefficients.coords.items()
        if values.dims == ("place",) and name != "place" and values.dtype.kind in "biuf"
    ]


def _variables(coefficients: xr.Dataset) -> list[str]:
    return [str(name) for name, v in coefficients.data_vars.items() if set(v.dims) == {"feature", "place"}]


def _of_feature(coefficients: xr.Dataset, feature: str, argument: str) -> xr.Dataset:
    known = [str(name) for name in coefficients["feature"].to_numpy()]
    one_of(feature, known, argument)
    return coefficients.isel(feature=known.index(feature))


def _chosen(coefficients: xr.Dataset, feature: str | Sequence[str] | None) -> tuple[list[str], int]:
    """Features to show, and of how many they are a choice."""
    if feature is not None:
        chosen = [feature] if isinstance(feature, str) else list(feature)
        if not chosen:
            raise ValueError("feature is empty. Name at least one feature.")
        return chosen, len(chosen)
    known = [str(name) for name in coefficients["feature"].to_numpy()]
    features = [name for name in known if name != _INTERCEPT] or known
    reach = np.ptp(coefficients["mean"].transpose("feature", "place").to_numpy(), axis=1)
    by_reach = sorted(features, key=lambda name: -reach[known.index(name)])
    most = set(by_reach[:_CURVES])
    return [name for name in features if name in most], len(features)


def _next(names: list[str], argument: str) -> str:
    """The first of the names, which it takes away."""
    if not names:
        raise ValueError(f"{argument} is missing: t has too few columns for a map. Use coefficient_curve.")
    return names.pop(0)


def _require_one_value(at: np.ndarray, axes: str, others: list[str]) -> None:
    """Raise where places coincide on the picture."""
    if len(np.unique(at, axis=0)) < len(at):
        of_others = f" (they differ in {', '.join(others)}, or not at all)" if others else ""
        raise ValueError(
            f"coefficients has several places at one point of {axes}{of_others}. "
            "Ask fit.coefficients for one value of the others, zoo.plots.grid(data, at=...) say."
        )


def _centre(centre: float | str, values: np.ndarray) -> float:
    if isinstance(centre, str):
        one_of(centre, ("average",), "centre")
        return float(np.nanmean(values))
    if not np.isfinite(centre):
        raise ValueError(f"centre is {centre}. Give a finite number, or 'average'.")
    return float(centre)


# -------------------------------------------------------------------- drawing


def _draw(axes: Axes, at: np.ndarray, values: np.ndarray, **style: Any) -> Any:
    """An image where the places are a grid, else points; NaN is left blank."""
    across, down = _axis(at[:, 0]), _axis(at[:, 1])
    if min(len(across), len(down)) < 2 or len(across) * len(down) > _SPARSE * len(at):
        seen = np.isfinite(values)
        size = float(np.clip(8_000 / len(at), 3.0, 50.0))
        return axes.scatter(at[seen, 0], at[seen, 1], c=values[seen], s=size, linewidths=0.0, **style)
    cells = np.full((len(down), len(across)), np.nan)
    # The nearest, for values may differ from the axis by rounding.
    cells[_nearest(down, at[:, 1]), _nearest(across, at[:, 0])] = values
    masked = np.ma.masked_invalid(cells)
    return axes.pcolormesh(across, down, masked, shading="nearest", rasterized=True, **style)


def _axis(values: np.ndarray) -> np.ndarray:
    """The distinct values, with those that are missing where the rest are a whole number of steps apart."""
    distinct = np.unique(values)
    reach = distinct[-1] - distinct[0]
    apart = np.diff(distinct) > 1e-9 * max(reach, 1e-300)
    distinct = distinct[np.r_[True, apart]]
    if len(distinct) < 3:
        return distinct
    gaps = np.diff(distinct)
    steps = gaps / gaps.min()
    n = int(np.round(steps).sum())
    if np.abs(steps - np.round(steps)).max() > 1e-6 or n > _SPARSE * len(values):
        return distinct
    return np.linspace(distinct[0], distinct[-1], n + 1)


def _nearest(axis: np.ndarray, values: np.ndarray) -> np.ndarray:
    middles = (axis[:-1] + axis[1:]) / 2.0
    return np.searchsorted(middles, values)


def _places_of_rows(rows: Any, x: str, y: str) -> np.ndarray:
    """The columns x and y of t of rows, (n, 2)."""
    if hasattr(rows, "t_names"):
        known = list(rows.t_names or ())
        for name in (x, y):
            one_of(name, known, "rows")
        return np.asarray(rows.t[:, [known.index(x), known.index(y)]])
    table = read_column(rows, "rows").values
    if not hasattr(table, "columns"):
        raise ValueError("rows has no names of columns. Give the data of the fit, or a table.")
    for name in (x, y):
        one_of(name, [str(c) for c in table.columns], "rows")
    return np.asarray(table[[x, y]], dtype=np.float64)


def _set_aspect(axes: Axes, at: np.ndarray, aspect: str | None, geographic: bool) -> None:
    """Draw to scale, or not, as `coefficient_map` says."""
    if aspect is not None:
        one_of(aspect, ("equal", "auto"), "aspect")
    # A degree of longitude is shorter than one of latitude.
    unit = 1.0 / np.cos(np.radians(float(np.mean(at[:, 1])))) if geographic else 1.0
    reach = np.ptp(at, axis=0) * [1.0, unit]
    to_scale = reach.min() > 0.0 and reach.max() <= _LONGEST * reach.min()
    if aspect == "equal" or (aspect is None and to_scale):
        axes.set_aspect(unit)


def _is_geographic(x: str, y: str) -> bool:
    return x.lower().startswith("lon") and y.lower().startswith("lat")
