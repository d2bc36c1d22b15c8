"""The demonstration: data to posterior to comparison, in one go."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.console import Console

import zoo
from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.datasets.registry import FILES, cache_folder
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
from zoo.support.files import staged_folder

__all__ = ["DemoData", "choose_data", "run_demo"]

_SCHOOL_FILES = ("school/school_b.mat", "school/school_1_indexes.mat")
_TEST_YEARS = 5
_SUMMARY_ROWS = 6
_THIN = 4  # School's posterior has 24,000 numbers per draw: more sweeps cost less than more stored draws


@dataclass(frozen=True)
class DemoData:
    """Training and test data of the demonstration, and a statement of what they are and why."""

    train: MultiTaskData
    test: MultiTaskData
    statement: str


def choose_data() -> DemoData:
    """School, split 1, where its files are on this machine; else the panel shipped with the package."""
    places = {_place(name) for name in _SCHOOL_FILES}
    if None not in places:
        train, test = zoo.datasets.load_school(split=1)
        where = " and ".join(sorted(filter(None, places)))
        statement = (
            f"School exam scores (ILEA), published split 1, found in {where}: {train.n_tasks} schools, "
            f"{train.n_rows:,} training rows, {test.n_rows:,} test rows."
        )
        return DemoData(train, test, statement)
    train, test = zoo.datasets.load_grunfeld(test_years=_TEST_YEARS)
    folder = os.environ.get("ZOO_DATA")
    looked = f"ZOO_DATA ({folder})" if folder else "ZOO_DATA (not set)"
    statement = (
        f"Grunfeld's investment panel, shipped with the package: {train.n_tasks} firms, {train.n_rows} training "
        f"rows, the last {_TEST_YEARS} years ({test.n_rows} rows) to test. School, which the demo prefers, is "
        f"neither in {looked} nor in the cache {cache_folder()}; the demo does not use the network. "
        "zoo.datasets.load_school() downloads it."
    )
    return DemoData(train, test, statement)


def _place(name: str) -> str | None:
    """Where a data file lies on this machine, or None; the network is not asked."""
    folder = os.environ.get("ZOO_DATA")
    if folder and (Path(folder) / name).is_file():
        return "ZOO_DATA"
    cached = cache_folder() / name
    # The loader downloads a damaged file in the cache again: to the demo it is missing.
    if cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == FILES[name].sha256:
        return "the cache"
    return None


def run_demo(
    out: str | os.PathLike[str],
    *,
    draws: int = 500,
    tune: int = 500,
    chains: int = 2,
    seed: int | None = 1,
    console: Console | None = None,
) -> Path:
    """Read data, fit the model and both yardsticks, compare them on held-out rows, write everything to a folder.

    Parameters
    ----------
    out : path
        Folder for ``posterior.nc``, ``summary.csv``, ``comparison.csv`` and four pictures.
    draws, tune, chains : int
        Of the sampler, which keeps every fourth sweep; the yardsticks take as many draws.
    seed : int, optional
        Same seed, same output.
    console : rich.console.Console, optional

    Returns
    -------
    pathlib.Path
        The folder.
    """
    console = console or Console(highlight=False)
    with staged_folder(out) as folder:
        chosen = choose_data()
        console.print(f"Data: {chosen.statement}", markup=False, soft_wrap=True)
        train = chosen.train.standardize()
        model = zoo.MaxMargin(likelihood="epsilon_insensitive")
        console.print(f"Model: {model!r}", markup=False, soft_wrap=True)
        print_frame(console, model.requirements(train), "What the model holds")
        console.print(
            f"Sampling (gibbs): {chains} chains of {tune} warm-up sweeps and {draws} draws, {_THIN} sweeps each"
        )
        fit = model.fit(train, "gibbs", draws=draws, tune=tune, chains=chains, random_seed=seed, thin=_THIN)
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
            fits[type(yardstick).__name__] = yardstick.fit(
                train, draws=draws, chains=chains, random_seed=seed, progress=False
            )
        comparison = compare(fits, chosen.test, random_seed=seed)
        print_frame(console, comparison, "Held-out rows", digits=2)
        write_csv(comparison, folder / "comparison.csv")
        write_csv(with_scale(summary, fit), folder / "summary.csv")
        _write(folder, fit, chosen.test, seed)
    console.print(f"Written to {Path(out).resolve()}", markup=False, soft_wrap=True)
    return Path(out)


def _shown(summary: pd.DataFrame) -> pd.DataFrame:
    """The first rows, and the columns that fit a terminal."""
    shown = summary[["mean", "sd", "ess_bulk", "ess_tail", "r_hat"]].head(_SUMMARY_ROWS)
    return shown.astype({"ess_bulk": int, "ess_tail": int}) if shown.notna().all(axis=None) else shown


def _write(folder: Path, fit: Fit, test: MultiTaskData, seed: int | None) -> None:
    """The posterior and its four pictures."""
    from zoo import plots

    fit.save(folder / "posterior.nc")
    save_figure(plots.task_correlation, folder / "task_correlation.png", fit)
    save_figure(plots.coefficient_forest, folder / "coefficient_forest.png", fit)
    save_figure(plots.trace_rank, folder / "trace_rank.png", fit)
    save_figure(
        plots.predicted_vs_observed, folder / "predicted_vs_observed.png", fit, test, random_seed=seed
    )
