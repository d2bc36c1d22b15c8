"""Figures of Srijith & Shevade (2014), of finished jobs."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console

from zoo.experiments.joint_selection_data import SETS
from zoo.experiments.outputs import write_figure
from zoo.experiments.srijith2014_runs import (
    METHODS,
    SHOWN,
    job_name,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["draw_figure"]


def _figure2(matrices: Mapping[str, np.ndarray]) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(matrices), figsize=(3.4 * len(matrices) + 0.6, 3.5), layout="constrained"
    )
    limit = max(np.abs(matrix).max() for matrix in matrices.values())
    for ax, (title, matrix) in zip(axes, matrices.items(), strict=True):
        image = ax.imshow(matrix, vmin=-limit, vmax=limit, cmap="RdBu_r")
        ax.set(xlabel="task", xticks=range(matrix.shape[1]), yticks=range(matrix.shape[0]))
        ax.set_title(title, fontsize=10)
    axes[0].set_ylabel("feature")
    figure.colorbar(image, ax=axes.tolist(), shrink=0.85, label="coefficient")
    return figure


def _figure3(drawn: tuple[xr.Dataset, pd.DataFrame]) -> Figure:
    import matplotlib.pyplot as plt

    from zoo.plots import relevance_bars

    bars, frame = drawn
    figure, axes = plt.subplots(1, 4, figsize=(15.0, 3.6), layout="constrained")
    relevance_bars(bars, ax=axes[0])
    axes[0].set_title("Relevance, first instance", fontsize=10)
    for ax, column in zip(axes[1:], ("features selected", "RMSE", "distance"), strict=True):
        for _, one in frame.groupby("instance"):
            ax.plot(one["C"], one[column], color="0.8", linewidth=0.8)
        mean = frame.groupby("C")[column].mean()
        ax.plot(mean.index, mean, color="C0", linewidth=1.8)
        ax.set_xscale("log")
        ax.set_xlabel("C (log scale)")
        ax.set_title("Frobenius distance" if column == "distance" else column, fontsize=10)
    return figure


def _figure4(panels: Mapping[str, xr.Dataset]) -> Figure:
    import matplotlib.pyplot as plt

    from zoo.plots import relevance_bars

    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.6 * len(panels), 4.6), layout="constrained", squeeze=False
    )
    for ax, (title, table) in zip(axes[0], panels.items(), strict=True):
        relevance_bars(table, ax=ax)
        if (legend := ax.get_legend()) is not None:
            legend.set_loc("upper left")  # the highest bars stand in the middle and at the right
        ax.set_title(
            f"{title}: {int(table['included'].sum())} of {table.sizes['feature']} included", fontsize=10
        )
    return figure


def _relevance(numbers: Mapping[str, Any]) -> xr.Dataset:
    """What ``relevance_bars`` shows, of the fit with the best held-out RMSE."""
    found = numbers["criteria"]["RMSE"]["relevance"]
    values = {name: ("feature", np.asarray(v)) for name, v in found.items() if name != "feature"}
    table = xr.Dataset(values, coords={"feature": found["feature"]}, attrs={"ci_prob": 0.9})
    return table.rename(selected="included")  # the files of jobs have the paper's word


def draw_figure(number: int, results: Mapping[str, Mapping[str, Any]], path: Path, console: Console) -> None:
    """Write a figure of the finished jobs, or nothing if they are missing."""
    fits = {shown: results.get(job_name(*shown, 1)) for shown in SHOWN[number]}
    there = {shown: numbers for shown, numbers in fits.items() if numbers is not None}
    if not there:
        return
    if number == 2:
        truth = SETS["high"].partition(1).truth
        assert truth is not None
        matrices = {"generated": truth["coefficients"].to_numpy()}
        for (_, method), numbers in there.items():
            learned = np.array(numbers["criteria"]["RMSE"]["coefficients"])
            distance = np.linalg.norm(learned - matrices["generated"])
            matrices[f"{METHODS[method].label}, distance {distance:.2f}"] = learned
        frame = pd.concat(
            pd.DataFrame(
                {"matrix": title, "feature": i, "task": range(matrix.shape[1]), "coefficient": matrix[i]}
            )
            for title, matrix in matrices.items()
            for i in range(len(matrix))
        )
        write_figure(path, frame, _figure2, matrices, console)
        return
    tables = {shown: _relevance(numbers) for shown, numbers in there.items()}
    if number == 3:
        parts = [
            pd.DataFrame(numbers["rows"]).assign(instance=name)
            for name, numbers in results.items()
            if name.startswith("figure3-")
        ]
        if parts:
            frame = pd.concat(parts, ignore_index=True)
            write_figure(path, frame, _figure3, (next(iter(tables.values())), frame), console)
        return
    panels = {f"{name}, {METHODS[method].label}": table for (name, method), table in tables.items()}
    frame = pd.concat(
        [table.to_dataframe().reset_index().assign(panel=title) for title, table in panels.items()],
        ignore_index=True,
    )
    write_figure(path, frame, _figure4, panels, console)
