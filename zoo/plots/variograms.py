"""An empirical variogram with its band."""

from __future__ import annotations

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.plots.figures import figure_of, panel

__all__ = ["variogram"]


def variogram(
    dataset: xr.Dataset, ax: Axes | None = None, figsize: tuple[float, float] = (6.0, 3.8)
) -> Figure:
    """Semivariance over distance: both estimators, the band of no spatial structure, the variance of the values.

    Parameters
    ----------
    dataset : xarray.Dataset
        What :func:`zoo.diagnostics.variogram` returned.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional

    Returns
    -------
    matplotlib.figure.Figure

    Raises
    ------
    ValueError
        The Dataset is no variogram.
    """
    if not isinstance(dataset, xr.Dataset):
        raise ValueError(
            f"dataset is of type {type(dataset).__name__}. Hand over what zoo.diagnostics.variogram returned."
        )
    for name in ("semivariance", "robust", "pairs"):
        if name not in dataset or dataset[name].dims != ("distance",):
            raise ValueError(
                f"dataset has no {name!r} over distance. Hand over what zoo.diagnostics.variogram returned."
            )
    axes = panel(ax, figsize)
    filled = dataset.isel(distance=dataset["pairs"].to_numpy() > 0)
    distance = filled["distance"].to_numpy()
    if "lower" in filled:
        axes.fill_between(
            distance,
            filled["lower"].to_numpy(),
            filled["upper"].to_numpy(),
            color="0.88",
            linewidth=0.0,
            label=f"no structure, {100 * dataset.attrs['ci_prob']:g}% of curves",
        )
    if "variance" in dataset.attrs:
        axes.axhline(dataset.attrs["variance"], color="0.6", linewidth=0.8, linestyle=":", label="variance")
    axes.plot(distance, filled["robust"].to_numpy(), "--", color="C1", linewidth=1.2, label="robust")
    axes.plot(
        distance,
        filled["semivariance"].to_numpy(),
        "o-",
        color="C0",
        linewidth=1.2,
        markersize=4.0,
        label="Matheron",
    )
    axes.set_xlim(left=0.0)
    axes.set_ylim(0.0, 1.1 * axes.dataLim.y1)
    axes.set(xlabel="distance", ylabel="semivariance")
    pairs = f"{int(dataset['pairs'].sum()):,} pairs" + (" drawn" if dataset.attrs.get("sampled") else "")
    tested = f", no structure: p = {dataset.attrs['p_value']:.2g}" if "p_value" in dataset.attrs else ""
    axes.set_title(f"Variogram of {pairs}{tested}", fontsize=11)
    axes.legend(frameon=False, fontsize=8.5, loc="best")
    return figure_of(axes)
