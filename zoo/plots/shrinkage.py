"""What sharing did to each task: its estimate alone, and together with the others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.data.further_groups import dense_columns
from zoo.likelihoods.base import Likelihood, code_of
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.logistic import Logistic
from zoo.models.baselines import IndependentTasks, data_for
from zoo.plots.figures import figure_of, panel
from zoo.plots.forest import choose_coefficients
from zoo.support.checks import probability
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["shrinkage"]


def shrinkage(
    fit: Fit,
    feature: str | None = None,
    independent: Fit | None = None,
    truth: xr.DataArray | None = None,
    tasks: Sequence[str] | None = None,
    ci_prob: float = 0.9,
    ax: Axes | None = None,
    figsize: tuple[float, float] | None = None,
) -> Figure:
    """The coefficient of one feature in each task, estimated alone and together with the other tasks.

    One line per task: an open circle for the task alone, a dot with an interval for the fit of all tasks, and an
    arrow from the first to the second. Tasks are sorted by the second. Numbers are on the scale of the user's data.

    Parameters
    ----------
    fit : Fit
        Of a model that has one coefficient per feature and task.
    feature : str, optional
        Default: the feature with the largest mean absolute coefficient, the intercept left out.
    independent : Fit, optional
        Estimates of the tasks alone, of the same data. Default: :class:`zoo.IndependentTasks` by its own method,
        which takes about a second. For labels under another likelihood than the logistic one, and for counts and
        grades, it has to be given, because coefficients under different likelihoods have different scales. Its data
        may be standardized or not: each fit is read on the scale of its own data.
    truth : xarray.DataArray, optional
        True coefficients (feature, task) on the scale of the user's data, as simulators return them: drawn as
        crosses.
    tasks : sequence of str, optional
        Default: all.
    ci_prob : float
        Probability of the interval.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional
        Inches; default: grows with the number of tasks.

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The posterior has no coefficients of tasks; a name is unknown; or ``independent`` has to be given.
    """
    probability(ci_prob, "ci_prob")
    together = choose_coefficients(fit, feature, tasks)[0]
    if "task" not in together.dims:
        raise ValueError(
            f"fit is of {type(fit.factory).__name__}, whose coefficients hold for all tasks. "
            "Fit a model whose tasks have coefficients of their own, such as zoo.MaxMargin."
        )
    feature = str(together["feature"].item())
    shown = [str(name) for name in together["task"].to_numpy()]
    alone = _estimates(independent or _independent(fit), fit, feature, shown)
    scale, offset, what = _scale(fit, feature)
    draws = offset + scale * together
    mean = draws.mean(("chain", "draw")).to_numpy()
    order = np.argsort(mean, kind="stable")
    names = [str(name) for name in draws["task"].to_numpy()[order]]
    start = alone[order]
    mean = mean[order]
    many = len(names) > 40
    axes = panel(ax, figsize or (6.5, min(1.8 + (0.105 if many else 0.22) * len(names), 60.0)))
    lines = np.arange(len(names))
    if not fit.is_point:
        tail = (1.0 - ci_prob) / 2.0
        low, high = (draws.quantile(q, ("chain", "draw")).to_numpy()[order] for q in (tail, 1.0 - tail))
        axes.hlines(lines, low, high, color="C0", linewidth=2.0 if many else 4.0, alpha=0.25)
    axes.axvline(
        mean.mean(), color="0.6", linewidth=0.8, linestyle="--", zorder=0, label="average of the tasks"
    )
    for y, (begin, end) in enumerate(zip(start, mean, strict=True)):
        axes.annotate(
            "", (end, y), (begin, y), arrowprops={"arrowstyle": "->", "color": "0.45", "linewidth": 0.8}
        )
    size = 3.0 if many else 5.5
    axes.plot(start, lines, "o", color="0.35", markerfacecolor="white", markersize=size, label="task alone")
    interval = "" if fit.is_point else f", with {100 * ci_prob:g}% interval"
    axes.plot(mean, lines, "o", color="C0", markersize=size, label=f"all tasks together{interval}")
    if truth is not None:
        true = truth.sel(feature=feature, task=names).to_numpy()
        axes.plot(true, lines, "x", color="C3", markersize=size, markeredgewidth=1.5, label="truth")
    axes.set_yticks(lines, names, fontsize=5.5 if many else 8.5, parse_math=False)
    axes.tick_params(axis="y", length=1.5, pad=2.0)
    axes.set_ylim(-0.8, len(names) - 0.2)
    axes.grid(axis="y", color="0.93", linewidth=0.6)
    axes.set_axisbelow(True)
    axes.set_xlabel(what, parse_math=False)
    axes.set_ylabel("task")
    axes.set_title(
        f"What sharing changes: {feature!r} in {counted(len(names), 'task')}", fontsize=11, parse_math=False
    )
    # Below the axes, as every place inside of them may hold an estimate.
    marks = axes.get_legend_handles_labels()
    figure_of(axes).legend(*marks, loc="outside lower center", ncols=2, fontsize=8, frameon=False)
    return figure_of(axes)


def _independent(fit: Fit) -> Fit:
    """The tasks alone, on the same data."""
    likelihood = fit.factory.likelihood
    if likelihood.responses == "real" and type(likelihood).mean is Likelihood.mean:
        word: Any = Gaussian()
    elif isinstance(likelihood, Logistic):
        word = Logistic()
    else:
        data = "dataclasses.replace(fit.data, shared_names=())" if fit.data.shared_names else "fit.data"
        raise ValueError(
            f"independent is not given, and fit has the likelihood {likelihood!r}. Pass "
            f"independent=zoo.IndependentTasks(likelihood={code_of(likelihood)}).fit({data})."
        )
    model = IndependentTasks(likelihood=word)
    return model.fit(data_for(model, fit.data), next(iter(model.methods)), random_seed=0, progress=False)


def _estimates(independent: Fit, fit: Fit, feature: str, tasks: Sequence[str]) -> np.ndarray:
    """Estimates of the tasks alone, (tasks,), on the scale of the user's data, and of what ``fit`` estimates.

    An intercept is the response where all other features are 0, on the scale of the data of its fit. Where the two fits
    have different scales these are different places, and the estimate is carried over to that of ``fit``.
    """
    one = choose_coefficients(independent, feature, tasks)[0].mean(("chain", "draw")).to_numpy()
    scale, offset, _ = _scale(independent, feature)
    own, data = independent.data, fit.data
    if own.transform is data.transform or not data.constant_features[data.feature_names.index(feature)]:
        return offset + scale * one
    absent = [name for name in own.feature_names if name not in data.feature_names]
    if absent:
        raise ValueError(
            f"independent has the feature {absent[0]!r}, which fit has not. Give IndependentTasks of the same features."
        )
    at = [data.feature_names.index(name) for name in own.feature_names]
    # Where the other features of `fit` are 0, on the user's scale and then on that of `independent`.
    place = np.where(data.constant_features, dense_columns(data.inputs[:1], slice(None))[0], 0.0)
    if data.transform is not None:
        place = data.transform.x_mean + data.transform.x_scale * place
    place = place[at] if own.transform is None else own.transform.apply_x(place[at])
    values = independent.posterior["coefficients"].sel(feature=list(own.feature_names), task=list(tasks))
    f = values.mean(("chain", "draw")).transpose("feature", "task").to_numpy().T @ place
    return f if own.transform is None else own.transform.y_mean + own.transform.y_scale * f


def _scale(fit: Fit, feature: str) -> tuple[float, float, str]:
    """Factor and offset that bring a coefficient to the user's scale, and what it then is."""
    transform = fit.data.transform
    response = "f" if fit.factory.likelihood.responses != "real" else "y"
    per_unit = f"coefficient of {feature!r}: change of {response} per unit of {feature!r}"
    if transform is None:
        return 1.0, 0.0, per_unit
    at = fit.data.feature_names.index(feature)
    if fit.data.constant_features[at]:
        return transform.y_scale, transform.y_mean, f"{response} at average features"
    return transform.y_scale / float(transform.x_scale[at]), 0.0, per_unit
