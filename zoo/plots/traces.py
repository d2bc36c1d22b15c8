"""Traces and rank histograms of a few scalars."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.core.convergence import diagnosis_of, has_chains
from zoo.diagnostics.scalars import scalar_summaries
from zoo.plots.backends import require_backend, trace_rank_by
from zoo.plots.figures import figure_of, panel

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["has_objective", "objective_trace", "trace_rank"]

# Entries of the posterior that stand before the scalars.
_WORST = 4
# What a method that climbs or descends keeps of its way.
_OBJECTIVES = ("penalised_log_likelihood", "objective")


def has_objective(fit: Fit) -> bool:
    """Whether the method kept its way to the estimate; one that solves an equation has none."""
    return any(name in fit.idata["sample_stats"] for name in _OBJECTIVES)


def objective_trace(fit: Fit, ax: Axes | None = None) -> Figure:
    """Penalised log-likelihood or objective by iteration, of a fit whose method climbs the one or descends the other.

    Parameters
    ----------
    fit : Fit
        Its ``sample_stats`` hold ``penalised_log_likelihood`` (EM) or ``objective`` (a mode).
    ax : matplotlib.axes.Axes, optional

    Returns
    -------
    matplotlib.figure.Figure
    """
    stats = fit.idata["sample_stats"]
    name = next((n for n in _OBJECTIVES if n in stats), None)
    if name is None:
        raise ValueError(f"fit was made by method {fit.method!r}, which climbs no objective. Use trace_rank.")
    label, title = (
        ("negative log posterior density", "the descent")
        if name == "objective"
        else ("penalised log-likelihood", "the climb")
    )
    ax = panel(ax, (6.0, 3.0))
    ax.plot(stats[name].to_numpy()[0])
    ax.set(xlabel="iteration", ylabel=label, title=f"{fit.method}: {title}")
    return figure_of(ax)


def trace_rank(
    fit: Fit,
    var_names: Sequence[str] | None = None,
    figsize: tuple[float, float] | None = None,
    backend: str = "matplotlib",
) -> Any:
    """Trace and rank histogram of scalars of the posterior, one colour per chain.

    Where chains agree, the ranks of each chain's draws among all draws are uniform: its histogram stays near the
    grey line, mostly inside the grey band (99% for independent draws; correlated draws leave it more often).

    Parameters
    ----------
    fit : Fit
    var_names : sequence of str, optional
        Variables of the posterior; covariances are shown by their log determinant. Default: the
        four entries of the posterior that are worst by R-hat and effective sample size, then the
        log determinants and what is a scalar already; without a covariance, the first coefficients
        as well.
    figsize : (float, float), optional
    backend : {"matplotlib", "plotly", "bokeh"}
        With another one than matplotlib the panels are those of ``arviz_plots.plot_trace`` and ``plot_rank``.

    Returns
    -------
    matplotlib.figure.Figure, or a figure of the backend

    Raises
    ------
    ValueError
        The fit is an estimate, without draws; or a variable is unknown.
    """
    import matplotlib.pyplot as plt

    if getattr(fit, "is_point", False):
        raise ValueError(
            f"fit was made by method {fit.method!r}, an estimate without draws. Use objective_trace, or another method."
        )
    scalars = scalar_summaries(fit.posterior, var_names)
    shown = {str(name): scalars[name].to_numpy() for name in scalars.data_vars}
    if var_names is None:
        worst = _worst(fit)
        shown = {**worst, **{name: values for name, values in shown.items() if name not in worst}}
    require_backend(backend, {"figsize": figsize})
    if backend != "matplotlib":
        return trace_rank_by(shown, backend)
    names = list(shown)
    figure, panels = plt.subplots(
        len(names),
        2,
        figsize=figsize or (10.0, 0.6 + 2.0 * len(names)),
        squeeze=False,
        layout="constrained",
        width_ratios=[1.6, 1.0],
    )
    for name, (left, right) in zip(names, panels, strict=True):
        values = shown[name]
        _trace(left, values)
        left.set_title(name, fontsize=10, parse_math=False)
        _ranks(right, values)
        title = f"ranks of {name}"  # over the narrower panel, where a long one would be cut off
        right.set_title(title, fontsize=min(10.0, 520.0 / len(title)), parse_math=False)
    panels[-1, 0].set_xlabel("draw")
    panels[-1, 1].set_xlabel("rank among the draws of all chains")
    chains = scalars["chain"].to_numpy() if "chain" in scalars.coords else range(scalars.sizes["chain"])
    figure.legend(
        panels[0, 0].get_lines(),
        [f"chain {chain}" for chain in chains],
        loc="outside lower center",
        ncols=min(len(chains), 8),
        frameon=False,
    )
    return figure


def _worst(fit: Fit) -> dict[str, np.ndarray]:
    """Draws (chain, draw) of the entries that converge worst, by their names with coordinates."""
    if not has_chains(fit):
        return {}
    found = diagnosis_of(fit)
    return {found.name(i): found.values(i) for i in found.worst_first()[:_WORST]}


def _trace(axes: Axes, values: np.ndarray) -> None:
    for draws in values:
        axes.plot(draws, linewidth=0.7, alpha=0.8)
    axes.margins(x=0.01)


def _ranks(axes: Axes, values: np.ndarray) -> None:
    from scipy.stats import hypergeom, rankdata

    chains, draws = values.shape
    ranks = rankdata(values, method="average").reshape(chains, draws)
    n_bins = int(np.clip(draws // 20, 2, 20))
    edges = np.linspace(0.5, chains * draws + 0.5, n_bins + 1)
    # A bin holds a fixed number of the draws of all chains; how many are this chain's is hypergeometric.
    band = hypergeom.ppf([0.005, 0.995], chains * draws, draws, round(chains * draws / n_bins))
    axes.axhspan(band[0], band[1], color="0.92", zorder=0)
    axes.axhline(draws / n_bins, color="0.6", linewidth=0.8)
    for own in ranks:
        axes.stairs(np.histogram(own, edges)[0], edges, baseline=None, linewidth=1.2)
    axes.set_ylim(bottom=0.0)
    axes.set_ylabel("draws", fontsize=8)
    axes.margins(x=0.01)
