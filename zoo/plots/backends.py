"""Pictures by arviz-plots, which draws with matplotlib, plotly and bokeh."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Any

import numpy as np
import xarray as xr

from zoo.support.checks import one_of

__all__ = ["BACKENDS", "forest_by", "rank_ecdf_by", "require_backend", "trace_rank_by"]

BACKENDS = ("matplotlib", "plotly", "bokeh")
_BESIDE = {"plotly": ("webcolors",)}


def require_backend(backend: str, taken: dict[str, Any]) -> None:
    """Raise where a backend is unknown or not installed, or where an argument is matplotlib's alone.

    Parameters
    ----------
    backend : str
    taken : dict
        Arguments that only matplotlib takes, by name; None where not given.
    """
    one_of(backend, BACKENDS, "backend")
    if backend == "matplotlib":
        return
    given = next((name for name, value in taken.items() if value is not None), None)
    if given is not None:
        raise ValueError(f"{given} is for backend='matplotlib', and backend is {backend!r}. Leave it out.")
    # What arviz-plots draws with plotly needs webcolors too.
    if any(find_spec(package) is None for package in (backend, *_BESIDE.get(backend, ()))):
        raise ImportError(
            f"backend={backend!r} needs the package {backend}: pip install 'multitask-zoo[interactive]'."
        )


def forest_by(values: xr.DataArray, dim: str, ci_prob: float, backend: str) -> Any:
    """Means and central intervals of draws (chain, draw, dim) as a figure of a backend, sorted by mean."""
    import arviz_plots

    mean = values.mean(("chain", "draw")).to_numpy()
    ordered = values.isel({dim: np.argsort(-mean, kind="stable")}).rename(str(values.name))
    collection = arviz_plots.plot_forest(
        xr.DataTree.from_dict({"posterior": ordered.to_dataset(name=str(values.name))}),
        combined=True,
        point_estimate="mean",
        ci_kind="eti",
        ci_probs=(min(0.5, ci_prob / 2.0), ci_prob),
        backend=backend,
    )
    return figure_in(collection)


def trace_rank_by(shown: dict[str, np.ndarray], backend: str) -> Any:
    """Traces, and how far ranks are from uniform ones, as a figure of a backend."""
    import arviz_plots

    draws = xr.Dataset({name: (("chain", "draw"), values) for name, values in shown.items()})
    collection = arviz_plots.combine_plots(
        xr.DataTree.from_dict({"posterior": draws}),
        [(arviz_plots.plot_trace, {}), (arviz_plots.plot_rank, {})],
        backend=backend,
        aes={"color": ["chain"]},
    )
    return figure_in(collection)


def rank_ecdf_by(
    x: np.ndarray,
    excess: dict[str, np.ndarray],
    band: tuple[np.ndarray, np.ndarray],
    outside: dict[str, bool],
    columns: int,
    backend: str,
) -> Any:
    """Lines (x,) by name over one band, a panel each, as a figure of a backend; those that leave it are red.

    ``arviz_plots.plot_ecdf_pit`` would draw another band, which does not hold all panels at once.
    """
    import arviz_plots
    from arviz_base.labels import BaseLabeller
    from arviz_plots import visuals

    lines = xr.Dataset(
        {name: (("plot_axis", "point"), np.stack([x, y])) for name, y in excess.items()},
        coords={"plot_axis": ["x", "y"]},
    )
    collection = arviz_plots.PlotCollection.wrap(
        lines,
        cols=["__variable__"],
        col_wrap=columns,
        backend=backend,
        figure_kwargs={"sharex": True, "sharey": True},
    )
    collection.map(
        visuals.fill_between_y, "band", x=x, y_bottom=band[0], y_top=band[1], color="#e0e0e0", alpha=1.0
    )
    for leaves, colour in ((False, "#1f77b4"), (True, "#d62728")):
        own = [name for name in excess if outside[name] is leaves]
        if own:
            collection.map(visuals.line_xy, f"lines_{leaves}", data=lines[own], color=colour)
    collection.map(visuals.labelled_title, "title", subset_info=True, labeller=BaseLabeller())
    collection.map(visuals.labelled_x, "xlabel", text="rank / number of ranks")
    collection.map(visuals.labelled_y, "ylabel", text="excess share below")
    return figure_in(collection)


def figure_in(collection: Any) -> Any:
    """The figure that a collection of panels is drawn into."""
    return collection.viz["figure"].item()
