"""Coefficients that vary over places, as one HTML file to move about in."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from zoo.plots.backends import require_backend
from zoo.plots.coefficients import columns_of_places
from zoo.support.checks import one_of
from zoo.support.files import require_new, staged_file

__all__ = ["interactive_map"]

_UNCERTAIN = "#8c8c8c"


def interactive_map(
    coefficients: xr.Dataset,
    path: str | os.PathLike[str],
    x: str | None = None,
    y: str | None = None,
    overwrite: bool = False,
) -> Path:
    """Write a map of coefficients as one HTML file that needs no network and no Python.

    A menu chooses the feature. Each place shows its coefficient, its standard deviation and its interval under the
    mouse. Grey places are uncertain: their mean is less than one standard deviation away from 0.

    Parameters
    ----------
    coefficients : xarray.Dataset
        What ``fit.coefficients(t)`` returned.
    path : path
        File to write.
    x, y : str, optional
        Columns of t along the axes. Default: the first two.
    overwrite : bool
        Replace the file where it exists.

    Returns
    -------
    pathlib.Path

    Raises
    ------
    ImportError
        Plotly is not installed.
    ValueError
        A column is unknown, or t has fewer than two; or the file exists.
    """
    require_backend("plotly", {})
    require_new(path, overwrite)
    known = columns_of_places(coefficients)
    if len(known) < 2:
        raise ValueError("t has too few columns for a map. Use coefficient_curve.")
    x = x or next(name for name in known if name != y)
    y = y or next(name for name in known if name != x)
    for name, argument in ((x, "x"), (y, "y")):
        one_of(name, known, argument)
    figure = _figure(coefficients, x, y)
    with staged_file(path) as temporary:
        figure.write_html(str(temporary), include_plotlyjs=True, full_html=True)
    return Path(path)


def _figure(coefficients: xr.Dataset, x: str, y: str) -> Any:
    import plotly.graph_objects as go

    features = [str(name) for name in coefficients["feature"].to_numpy()]
    figure = go.Figure()
    for i in range(len(features)):
        table = coefficients.isel(feature=i)
        mean = table["mean"].to_numpy()
        sd = table["sd"].to_numpy() if "sd" in table else np.zeros(len(mean))
        reach = float(np.nanmax(np.abs(mean))) or 1.0
        sure = np.abs(mean) >= sd
        colours = {
            "color": mean[sure],
            "colorscale": "RdBu",
            "reversescale": True,
            "cmin": -reach,
            "cmax": reach,
        }
        for kept, marker in (
            (sure, {**colours, "colorbar": {"title": "mean"}}),
            (~sure, {"color": _UNCERTAIN}),
        ):
            figure.add_trace(_places(table, kept, x, y, marker, visible=i == 0))
    buttons = [
        {
            "label": name,
            "method": "update",
            "args": [
                {"visible": [j // 2 == i for j in range(2 * len(features))]},
                {"title.text": _title(name)},
            ],
        }
        for i, name in enumerate(features)
    ]
    figure.update_layout(
        title={"text": _title(features[0])},
        template="simple_white",
        showlegend=False,
        updatemenus=[{"buttons": buttons, "x": 1.0, "xanchor": "right", "y": 1.12, "yanchor": "top"}],
        xaxis_title=x,
        yaxis={"title": y, "scaleanchor": "x"},
    )
    return figure


def _places(
    table: xr.Dataset, kept: np.ndarray, x: str, y: str, marker: dict[str, Any], visible: bool
) -> Any:
    """Some places as points, which say their numbers under the mouse."""
    import plotly.graph_objects as go

    names = [name for name in ("mean", "sd", "lower", "upper") if name in table]
    numbers = ", ".join(f"{name} %{{customdata[{i}]:.4g}}" for i, name in enumerate(names))
    return go.Scattergl(
        x=table[x].to_numpy()[kept],
        y=table[y].to_numpy()[kept],
        mode="markers",
        visible=visible,
        customdata=np.column_stack([table[name].to_numpy()[kept] for name in names]),
        hovertemplate=f"{x} %{{x}}<br>{y} %{{y}}<br>{numbers}<extra></extra>",
        marker={**marker, "size": 9},
    )


def _title(feature: str) -> str:
    return f"Coefficient of {feature} by place (grey: less than one sd from 0)"
