"""Tables and pictures of a fit, written to a folder in one go."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from zoo.core.completeness import shortfall
from zoo.support.files import staged_folder

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = [
    "complete",
    "print_diagnostics",
    "print_frame",
    "run_report",
    "save_figure",
    "summary_table",
    "with_scale",
    "write_csv",
]

# A larger variable (the task covariance of School has 19,321 entries) stands in the table by its scalars alone.
_LARGEST_VARIABLE = 5_000
_DPI = 150


# -------------------------------------------------------------------- writing


def write_csv(frame: pd.DataFrame, path: Path, index: bool = True) -> None:
    """Write a table; eight significant digits, so that the file does not hang on the last bit."""
    frame.to_csv(path, index=index, float_format="%.8g", lineterminator="\n")


def save_figure(draw: Callable[..., Any], path: Path, *arguments: Any, **options: Any) -> None:
    """Write ``draw(*arguments, **options)`` to a PNG file and close it."""
    import matplotlib.pyplot as plt

    figure = draw(*arguments, **options)
    try:
        figure.savefig(path, dpi=_DPI)
    finally:
        plt.close(figure)


# -------------------------------------------------------------------- tables


def complete(fit: Fit) -> None:
    """Raise ``KeyboardInterrupt`` unless the fit has all its draws: Ctrl-C makes ``fit`` return what there is,
    and a command must not pass a part for the whole.
    """
    if shortfall(fit.idata):
        raise KeyboardInterrupt


def summary_table(fit: Fit) -> pd.DataFrame:
    """ArviZ's summary of the scalars that stand for the posterior, then of every variable that is not too large.

    Of a fit without draws the estimates alone.
    """
    if fit.is_point:
        return _estimates_table(fit)
    import arviz as az
    import xarray as xr

    from zoo.diagnostics import scalar_summaries

    posterior = fit.posterior
    scalars = scalar_summaries(posterior)
    added = scalars.drop_vars([name for name in scalars.data_vars if not str(name).startswith("log|")])
    sizes = posterior.sizes["chain"] * posterior.sizes["draw"]
    small = [name for name, values in posterior.items() if values.size // sizes <= _LARGEST_VARIABLE]
    tree = xr.DataTree.from_dict({"posterior": xr.merge([added, posterior[small]], join="outer")})
    # A variable that is the same in every draw has no R-hat: NaN, without a warning.
    with np.errstate(divide="ignore", invalid="ignore"):
        return az.summary(tree, round_to="none").rename_axis("name")


def with_scale(summary: pd.DataFrame, fit: Fit) -> pd.DataFrame:
    """A summary as it is written: of standardized data each row says so, for its numbers are not the user's units."""
    return summary if fit.data.transform is None else summary.assign(scale="standardized data")


def _estimates_table(fit: Fit) -> pd.DataFrame:
    """The estimates of a fit without draws, of every variable that is not too large."""
    rows = {}
    for name, values in fit.posterior.isel(chain=0, draw=0, drop=True).items():
        if values.size > _LARGEST_VARIABLE:
            continue
        for at in np.ndindex(values.shape):
            labels = [str(values[dim].to_numpy()[i]) for dim, i in zip(values.dims, at, strict=True)]
            rows[f"{name}[{', '.join(labels)}]" if at else str(name)] = float(values.to_numpy()[at])
    return pd.DataFrame({"estimate": rows}).rename_axis("name")


def print_diagnostics(console: Console, fit: Fit, warned: bool = False) -> None:
    """Worst R-hat and smallest effective sample size of all entries of a posterior, and whether they will do.

    ``warned`` leaves out what the fit has just said in its warning: what to do.
    """
    from zoo.core.verdict import verdict_text

    console.print(verdict_text(fit, brief=warned), markup=False, soft_wrap=True)


def print_frame(console: Console, frame: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table with its index."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(str(frame.index.name or ""), no_wrap=True)
    for name, column in frame.items():
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold", min_width=6)
    for row in frame.itertuples():
        table.add_row(*(_plain(value, digits) for value in row))
    console.print(table)


def _plain(value: Any, digits: int) -> Text:
    # Text, not str: names with square brackets would be read as markup.
    if not isinstance(value, float | np.floating):
        return Text(str(value))
    number = float(value)
    return Text(f"{number:.{digits}f}" if abs(number) < 1e4 else f"{number:.{digits + 3}g}")


# -------------------------------------------------------------------- the report


def run_report(fit: Fit, out: str | os.PathLike[str], console: Console) -> list[str]:
    """Write ``summary.csv``, ``diagnostics.csv`` and the pictures that this posterior has into a folder.

    Returns the file names.
    """
    from zoo import plots
    from zoo.core.convergence import has_chains

    with staged_folder(out) as folder:
        summary = summary_table(fit)
        write_csv(with_scale(summary, fit), folder / "summary.csv")
        if has_chains(fit):
            write_csv(fit.diagnostics(), folder / "diagnostics.csv")
        if "task_cov" in fit.posterior:
            save_figure(plots.task_correlation, folder / "task_correlation.png", fit)
        if "coefficients" in fit.posterior and not fit.is_point:
            save_figure(plots.coefficient_forest, folder / "coefficient_forest.png", fit)
        if "kappa" in fit.posterior:
            save_figure(plots.relevance_bars, folder / "relevance.png", fit)
        if fit.is_point:
            save_figure(plots.objective_trace, folder / "objective_trace.png", fit)
        else:
            save_figure(plots.trace_rank, folder / "trace_rank.png", fit)
        written = sorted(file.name for file in folder.iterdir())
    console.print(f"{fit!r}", markup=False, soft_wrap=True)
    if short := shortfall(fit.idata):
        console.print(f"The fit was {short}.", markup=False, soft_wrap=True)
    if fit.data.transform is not None:
        console.print(
            "The data were standardized: summary, coefficients and traces are on that scale. Predictions are on yours.",
            markup=False,
            soft_wrap=True,
        )
    print_diagnostics(console, fit)
    return written
