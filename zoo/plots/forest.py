"""Intervals of coefficients, one line per task."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes

from zoo.core.keep import require_draws
from zoo.plots.backends import forest_by, require_backend
from zoo.plots.figures import figure_of, panel
from zoo.support.checks import one_of, probability

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["choose_coefficients", "coefficient_forest"]


def coefficient_forest(
    fit: Fit,
    feature: str | None = None,
    tasks: Sequence[str] | None = None,
    ci_prob: float = 0.9,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
    backend: str = "matplotlib",
) -> Any:
    """Posterior mean and central interval of one feature's coefficient in each task, sorted by mean.

    Models whose coefficients hold for all tasks show one line per feature instead. A fit without draws has no
    intervals: its estimates stand alone. Coefficients are in the units of the data, as ``fit.in_data_units`` gives
    them; those of a model whose functions are not linear in the features stay as the posterior has them.

    Parameters
    ----------
    fit : Fit
    feature : str, optional
        Default: the feature with the largest mean absolute coefficient, the intercept left out.
    tasks : sequence of str, optional
        Default: all.
    ci_prob : float
        Probability of the interval.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional
        Inches; default: grows with the number of lines.
    backend : {"matplotlib", "plotly", "bokeh"}
        With another one than matplotlib the picture is that of ``arviz_plots.plot_forest``.

    Returns
    -------
    matplotlib.figure.Figure, or a figure of the backend

    Raises
    ------
    ValueError
        The posterior has no ``coefficients``, or the feature or a task is unknown.
    """
    probability(ci_prob, "ci_prob")
    require_backend(backend, {"ax": ax, "figsize": figsize})
    coefficients, title, dim = choose_coefficients(fit, feature, tasks)
    coefficients, scale = _in_units(fit, coefficients)
    if backend != "matplotlib":
        return forest_by(coefficients.rename(title), dim, ci_prob, backend)
    tail = (1.0 - ci_prob) / 2.0
    mean = coefficients.mean(("chain", "draw"))
    low, high = (coefficients.quantile(q, ("chain", "draw")) for q in (tail, 1.0 - tail))
    order = np.argsort(mean.to_numpy(), kind="stable")
    names = [str(coefficients[dim].to_numpy()[i]) for i in order]
    many = len(names) > 40
    axes = panel(ax, figsize or (6.0, min(1.4 + (0.105 if many else 0.22) * len(names), 60.0)))
    lines = np.arange(len(names))
    axes.axvline(0.0, color="0.6", linewidth=0.8, zorder=0)
    if not fit.is_point:
        axes.hlines(lines, low.to_numpy()[order], high.to_numpy()[order], color="C0", linewidth=1.2)
    axes.plot(mean.to_numpy()[order], lines, "o", color="C0", markersize=2.5 if many else 4.0)
    axes.set_yticks(lines, names, fontsize=5.5 if many else 8.5, parse_math=False)
    axes.tick_params(axis="y", length=1.5, pad=2.0)
    axes.set_ylim(-0.8, len(names) - 0.2)
    axes.grid(axis="y", color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)
    shown = "estimate" if fit.is_point else f"mean and {100 * ci_prob:g}% interval"
    axes.set_xlabel(f"{shown}{scale}")
    axes.set_title(title, fontsize=11, parse_math=False)
    return figure_of(axes)


def _in_units(fit: Fit, chosen: xr.DataArray) -> tuple[xr.DataArray, str]:
    """The coefficients that were chosen in the units of the data where that can be said, and what the axis says."""
    if fit.data.transform is None:
        return chosen, ""
    try:
        units = fit.in_data_units()["coefficients"]
    except ValueError:
        return chosen, ", standardized data"
    at = {dim: chosen[dim] for dim in ("feature", "task") if dim in chosen.coords}
    return units.sel(at).transpose(*chosen.dims), ", in the units of the data"


def choose_coefficients(
    fit: Fit, feature: str | None, tasks: Sequence[str] | None
) -> tuple[xr.DataArray, str, str]:
    """Coefficients to show, the title, and the dim that the lines run over."""
    require_draws(fit, "a picture of coefficients")
    if "coefficients" not in fit.idata["posterior"]:
        raise ValueError(
            f"fit has no 'coefficients' in its posterior ({fit.factory!r}). Use a model that is linear in x."
        )
    values = fit.posterior["coefficients"]
    if feature is not None:
        one_of(feature, [str(name) for name in values["feature"].to_numpy()], "feature")
    if "task" not in values.dims:
        if tasks is not None:
            raise ValueError(
                f"tasks was given, but the coefficients of {fit.factory!r} hold for all tasks. Leave it out."
            )
        shown = values if feature is None else values.sel(feature=[feature])
        return shown, "Coefficients, the same in all tasks", "feature"
    if tasks is not None:
        if isinstance(tasks, str):
            tasks = [tasks]
        for name in tasks:
            one_of(name, fit.data.task_names, "tasks")
        if not len(tasks):
            raise ValueError("tasks is empty. Name at least one task.")
        values = values.sel(task=list(tasks))
    if feature is None:
        feature = _largest(fit, values)
    return values.sel(feature=feature), f"Coefficient of {feature!r} by task", "task"


def _largest(fit: Fit, values: xr.DataArray) -> str:
    """The feature with the largest mean absolute coefficient; a constant column (the intercept) is no feature."""
    by_feature = values.mean(("chain", "draw")).transpose("feature", "task").to_numpy()
    size = np.abs(by_feature).mean(axis=1)
    names = [str(name) for name in values["feature"].to_numpy()]
    constant = dict(zip(fit.data.feature_names, fit.data.constant_features, strict=True))
    varying = np.array([not constant.get(name, False) for name in names])
    if varying.any():
        size = np.where(varying, size, -1.0)
    return names[int(np.argmax(size))]
