"""The demonstration: data to posterior to comparison, in one go."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console

import zoo
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics import compare
from zoo.report import (
    complete,
    print_diagnostics,
    print_frame,
    save_figure,
    summary_table,
    with_scale,
    write_csv,
)
from zoo.support.checks import one_of
from zoo.support.files import staged_folder

__all__ = ["DATA", "DemoData", "choose_data", "run_demo", "who_wins"]

DATA = ("simulated", "grunfeld", "school")
_SIMULATION_SEED = 1
_ROWS, _TEST_ROWS = 12, 40
_TEST_YEARS = 5
_SUMMARY_ROWS = 6


@dataclass(frozen=True)
class DemoData:
    """Training and test data of the demonstration, what they are, and the true coefficients where they are known."""

    train: MultiTaskData
    test: MultiTaskData
    statement: str
    truth: xr.DataArray | None = None


def choose_data(name: str = "simulated") -> DemoData:
    """Simulated tasks in groups, the panel of firms that is shipped with the package, or exam scores of schools."""
    one_of(name, DATA, "data")
    if name == "grunfeld":
        train, test = zoo.datasets.load_grunfeld(test_years=_TEST_YEARS)
        statement = (
            f"Grunfeld's investment panel, shipped with the package: {train.n_tasks} firms, {train.n_rows} training "
            f"rows, the last {_TEST_YEARS} years ({test.n_rows} rows) to test."
        )
        return DemoData(train, test, statement)
    if name == "school":
        train, test = zoo.datasets.load_school(split=1)
        statement = (
            f"School exam scores (ILEA), published split 1: {train.n_tasks} schools, {train.n_rows:,} training rows, "
            f"{test.n_rows:,} test rows."
        )
        return DemoData(train, test, statement)
    data, truth = zoo.datasets.simulate_groups(n_per_task=_ROWS + _TEST_ROWS, random_seed=_SIMULATION_SEED)
    train, test = data.split(_TEST_ROWS / (_ROWS + _TEST_ROWS), random_seed=_SIMULATION_SEED)
    statement = (
        f"simulated with seed {_SIMULATION_SEED} (zoo.datasets.simulate_groups): {data.n_tasks} tasks in three groups, "
        f"A, B and C, of which no model is told. {_ROWS} training rows and {_TEST_ROWS} test rows per task."
    )
    return DemoData(train.add_intercept(), test.add_intercept(), statement, truth["coefficients"])


def who_wins(comparison: pd.DataFrame, train: MultiTaskData) -> str:
    """Which of the three models predicts best, and why that is, in one sentence."""
    errors = comparison["RMSE"].sort_values()
    others = " and ".join(f"{error:.2f} of {name}" for name, error in errors.iloc[1:].items())
    counts = np.bincount(train.task, minlength=train.n_tasks)
    least, most = int(counts.min()), int(counts.max())
    rows = f"{least} rows" if least == most else f"{least} to {most} rows"
    size = f"{train.n_features} coefficients"
    why = {
        "IndependentTasks": "that happens where tasks have rows enough of their own "
        f"(here {rows} for {size}) or hardly resemble each other",
        "PooledTasks": "that happens where tasks hardly differ, so that all rows may be taken as those of one",
    }.get(
        str(errors.index[0]),
        f"{rows} of a task leave its {size} uncertain, one regression for all cannot tell tasks apart, and the model "
        "learns from the data which tasks are alike",
    )
    return f"{errors.index[0]} predicts best, with an error (RMSE) of {errors.iloc[0]:.2f} against {others}: {why}."


def run_demo(
    out: str | os.PathLike[str],
    *,
    data: str = "simulated",
    draws: int = 1000,
    tune: int = 500,
    chains: int = 4,
    seed: int | None = 1,
    console: Console | None = None,
) -> Path:
    """Read data, fit the model and both yardsticks, compare them on held-out rows, write everything to a folder.

    Parameters
    ----------
    out : path
        Folder for ``posterior.nc``, ``summary.csv``, ``comparison.csv`` and the pictures.
    data : {"simulated", "grunfeld", "school"}
        Tasks in groups, with the truth; a panel of 11 firms over 20 years; or 139 schools, whose files are downloaded
        where they are not at hand.
    draws, tune, chains : int
        Of the sampler; the yardsticks take as many draws.
    seed : int, optional
        Of the draws: same seed, same output. The simulated data have a seed of their own, which is always the same.
    console : rich.console.Console, optional

    Returns
    -------
    pathlib.Path
        The folder.
    """
    console = console or Console(highlight=False)
    chosen = choose_data(data)
    with staged_folder(out) as folder:
        console.print(f"Data: {chosen.statement}", markup=False, soft_wrap=True)
        train = chosen.train.standardize()
        model = zoo.MaxMargin(likelihood="gaussian")
        console.print(f"Model: {model!r}", markup=False, soft_wrap=True)
        held = model.requirements(train)
        held = held[~held.index.str.startswith("_")]  # the names of auxiliary variables
        print_frame(console, held, "What the model holds, auxiliary variables left out")
        console.print(f"Sampling (gibbs): {chains} chains of {tune} warm-up sweeps and {draws} draws")
        options: dict[str, Any] = {"draws": draws, "chains": chains, "random_seed": seed}
        fit = model.fit(train, "gibbs", tune=tune, **options)
        complete(fit)
        summary = summary_table(fit)
        print_frame(
            console,
            _shown(summary),
            f"Posterior (standardized data): {_SUMMARY_ROWS} of {len(summary):,} rows",
        )
        print_diagnostics(console, fit, warned=True)
        fits = {type(model).__name__: fit}
        yardsticks: tuple[ModelFactory, ...] = (zoo.IndependentTasks(), zoo.PooledTasks())
        for yardstick in yardsticks:
            fits[type(yardstick).__name__] = yardstick.fit(train, progress=False, **options)
        comparison = compare(fits, chosen.test, random_seed=seed)
        print_frame(console, comparison, "Held-out rows", digits=2)
        console.print(who_wins(comparison, train), markup=False, soft_wrap=True)
        write_csv(comparison, folder / "comparison.csv")
        write_csv(with_scale(summary, fit), folder / "summary.csv")
        _write(folder, fit, fits["IndependentTasks"], chosen, seed)
    console.print(f"Written to {Path(out).resolve()}", markup=False, soft_wrap=True)
    return Path(out)


def _shown(summary: pd.DataFrame) -> pd.DataFrame:
    """The first rows, and the columns that fit a terminal."""
    shown = summary[["mean", "sd", "ess_bulk", "ess_tail", "r_hat"]].head(_SUMMARY_ROWS)
    return shown.astype({"ess_bulk": int, "ess_tail": int}) if shown.notna().all(axis=None) else shown


def _write(folder: Path, fit: Fit, alone: Fit, chosen: DemoData, seed: int | None) -> None:
    """The posterior and its pictures."""
    from zoo import plots

    fit.save(folder / "posterior.nc")
    save_figure(_overview, folder / "overview.png", fit, alone, chosen.truth)
    save_figure(plots.task_correlation, folder / "task_correlation.png", fit)
    save_figure(plots.coefficient_forest, folder / "coefficient_forest.png", fit)
    save_figure(plots.trace_rank, folder / "trace_rank.png", fit)
    save_figure(
        plots.predicted_vs_observed, folder / "predicted_vs_observed.png", fit, chosen.test, random_seed=seed
    )


def _overview(fit: Fit, alone: Fit, truth: xr.DataArray | None) -> Any:
    """What sharing changes, and which tasks are alike, side by side."""
    import matplotlib.pyplot as plt

    from zoo import plots

    figure, (left, right) = plt.subplots(1, 2, figsize=(12.0, 6.0), layout="constrained")
    plots.shrinkage(fit, independent=alone, truth=truth, ax=left)
    plots.task_map(fit, ax=right)
    return figure
