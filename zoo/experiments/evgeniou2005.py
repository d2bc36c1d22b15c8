"""Table 1 and figures 1 to 3 of Evgeniou, Micchelli & Pontil (JMLR 2005), and a table 2 that is not in the paper."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from rich.console import Console

from zoo.experiments import conjoint
from zoo.experiments.evgeniou2005_runs import (
    _LITERAL,
    LAMBDA,
    PAPER_SCHOOL,
    SCHOOL_METHODS,
    SETS,
    Settings,
    jobs_of,
)
from zoo.experiments.evgeniou2005_structure import POLYNOMIALS, STRUCTURES, structure_table, structure_text
from zoo.experiments.evgeniou2005_tables import (
    MAIN,
    Results,
    computers_table,
    computers_text,
    school_table,
    school_text,
    t_text,
    table1,
    table1_text,
)
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.yardsticks import require_sklearn
from zoo.report import print_frame
from zoo.support.runner import Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "reproduce"]

TABLES = (1, 2)
FIGURES = (1, 2, 3)

# ---------------------------------------------------------------- the paper's numbers


# ---------------------------------------------------------------- what is run


# ---------------------------------------------------------------- School


# ---------------------------------------------------------------- jobs


# ---------------------------------------------------------------- tables


# ---------------------------------------------------------------- figures

_COLOURS = {"identity": "C0", "learned": "C2"}


def _along_frame(results: Results, figure: int) -> pd.DataFrame:
    """Finished curves of figure 1 or 2, panels averaged."""
    rows = []
    for name, numbers in results.items():
        if not name.startswith(f"figure{figure}-"):
            continue
        tasks = int(name.rsplit("tasks", 1)[1])
        for method in ("identity", "learned"):
            for row in numbers.get(method, []):
                rows.append({"tasks": tasks, "method": method, **row, "individual": numbers["individual"]})
    frame = pd.DataFrame(rows)
    if frame.empty:
        return frame
    return frame.groupby(["method", "tasks", "lam"], as_index=False).mean()


def _figure1(frame: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    figure, ax = plt.subplots(figsize=(6.4, 4.0), layout="constrained")
    for method, one in frame.groupby("method"):
        label = f"{conjoint.METHODS[str(method)]}, lambda = {LAMBDA:g}"
        ax.plot(one["tasks"], one["error"], "o-", color=_COLOURS[str(method)], label=label)
    ax.axhline(
        frame["individual"].mean(), color="0.3", linestyle="--", label="Indiv SVM, gamma by the test rows"
    )
    ticks = sorted(set(frame["tasks"]))
    ax.set_xscale("log")
    ax.set_xticks(ticks, labels=[str(t) for t in ticks], minor=False)
    ax.minorticks_off()
    ax.set(xlabel="customers (log scale)", ylabel="test error, %")
    ax.legend()
    return figure


def _figure2(frame: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    sizes = sorted(set(frame["tasks"]))
    figure, axes = plt.subplots(
        1, len(sizes), figsize=(5.2 * len(sizes), 4.0), layout="constrained", sharey=True, squeeze=False
    )
    for ax, tasks in zip(axes[0], sizes, strict=True):
        part = frame[frame["tasks"] == tasks]
        for method, one in part.groupby("method"):
            ax.plot(
                one["lam"],
                one["error"],
                "o-",
                ms=4,
                color=_COLOURS[str(method)],
                label=conjoint.METHODS[str(method)],
            )
        ax.axhline(
            part["individual"].mean(), color="0.3", linestyle="--", label="Indiv SVM, gamma by the test rows"
        )
        ax.set_title(f"{tasks} customers", fontsize=10)
        ax.set_xlabel("lambda")
    axes[0, 0].set_ylabel("test error, %")
    axes[0, -1].legend()
    return figure


def _figure3(drawn: tuple[pd.DataFrame, pd.DataFrame]) -> Figure:
    import matplotlib.pyplot as plt

    frame, table = drawn
    mean = frame.groupby(["curve", "lam"], sort=False)[["EV", "EV per task"]].mean().reset_index()
    figure, axes = plt.subplots(1, 3, figsize=(16.0, 4.2), layout="constrained")
    chosen = table.loc[SCHOOL_METHODS["evidence"][0]]
    for ax, score, log in zip(axes, ("EV", "EV", "EV per task"), (False, True, True), strict=True):
        for curve, one in mean.groupby("curve", sort=False):
            ax.plot(one["lam"], one[score], "o-", ms=3, label=str(curve))
        shown = mean.loc[mean["curve"] != _LITERAL, score]
        margin = 0.15 * float(np.ptp(shown)) + 0.5
        ax.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
        for method, colour in (("pooled", "0.2"), ("independent", "0.55")):
            label = SCHOOL_METHODS[method][0]
            level = float(table[score][label])
            if not np.isnan(level):
                ax.axhline(level, color=colour, linestyle="--", linewidth=1, label=label)
        if score == "EV":
            ax.axhline(PAPER_SCHOOL, color="C4", linestyle=":", label="the paper's figure, about 34.4")
        if not np.isnan(chosen[score]):
            ax.plot(
                chosen["lam"],
                chosen[score],
                "k*",
                ms=11,
                label="lambda by evidence",
                zorder=5,
                linestyle="none",
            )
        if log:
            ax.set_xscale("log")
        ax.set_xlabel("lambda (log scale)" if log else "lambda")
        ax.set_ylabel("explained variance, %" + ("" if score == "EV" else ", averaged over schools"))
    figure.legend(*axes[0].get_legend_handles_labels(), fontsize=8, loc="outside right center")
    return figure


# ---------------------------------------------------------------- the whole


def reproduce(
    out: str | Path,
    tables: Sequence[int] = TABLES,
    figures: Sequence[int] = FIGURES,
    sets: Sequence[str] | None = None,
    splits: int | None = None,
    repeats: int | None = None,
    cv: int = 3,
    n_jobs: int = 1,
    quick: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Run what is missing, print our numbers beside the paper's, and write tables and pictures to a folder.

    Parameters
    ----------
    out : path
        Folder for ``evgeniou2005-table1.csv`` and ``.md``, ``-table2``, ``-computers``, ``-school``, the figures'
        ``.csv`` and ``.png``, and for the results of single jobs, from which a run that was cut off goes on. With
        ``quick``, names begin ``evgeniou2005-quick``.
    tables, figures : sequence of int
        Of 1, 2, and of 1, 2, 3. Table 1 has the simulated customers and the computers, table 2 tasks whose structure
        a kernel knows or gets wrong; figure 3 comes with a table of School.
    sets : sequence of str, optional
        Of ``SETS``. Default: all.
    splits : int, optional
        Of School, 10 in the paper; with ``quick`` 2.
    repeats : int, optional
        Panels of simulated customers, and draws of the tasks of table 2. Default: 2, and 20 of table 2.
    cv : int
        Folds of the cross-validation on School.
    n_jobs : int
        Processes.
    quick : bool
        One panel of twenty customers, twenty persons, twelve schools: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome
    """
    require_sklearn()
    require_known(table=(tables, TABLES), figure=(figures, FIGURES), sets=(sets, SETS))
    console = console or Console(highlight=False)
    asked = SETS if sets is None else sets
    require_used("splits", splits, 3 in figures and "school" in asked, "figure 3 and the set school")
    panels = "customers" in asked and (1 in tables or 1 in figures or 2 in figures)
    require_used(
        "repeats",
        repeats,
        panels or ("structures" in asked and 2 in tables),
        "table 1, figures 1 and 2 and the set customers, and table 2 and the set structures",
    )
    settings: Settings = chosen(
        Settings.look() if quick else Settings(),
        cv,
        sets,
        splits=splits,
        repeats=repeats,
        structure_repeats=repeats,
    )
    stem = "evgeniou2005-quick" if quick else "evgeniou2005"
    folder = Path(out)
    jobs = jobs_of(settings, tables, figures)
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(settings.sets)}, of which the tables {tuple(tables)} and figures {tuple(figures)} "
            "show nothing. Table 1 shows customers and computers, table 2 structures, figures 1 and 2 customers, "
            "figure 3 school."
        )
    outcome = run_jobs(jobs, folder / f"{stem}-jobs", n_jobs, stem, console)
    results = outcome.results
    if 1 in tables:
        _write_table1(results, settings, folder, stem, console)
    if 2 in tables:
        _write_table2(results, settings, folder / f"{stem}-table2", console)
    for figure in figures:
        path = folder / f"{stem}-figure{figure}"
        if figure == 3:
            _write_school(results, settings, folder, stem, console)
        elif not (frame := _along_frame(results, figure)).empty:
            write_figure(path, frame, {1: _figure1, 2: _figure2}[figure], frame, console)
    print_failures(outcome, console)
    return outcome


def _write_table1(results: Results, settings: Settings, folder: Path, stem: str, console: Console) -> None:
    if not (table := table1(results, settings)).empty:
        texts = [
            ("Errors in percent, the paper's in brackets", table1_text(table)),
            (
                "Errors in percent, other ways to choose",
                table1_text(table, [m for m in conjoint.METHODS if m not in MAIN]),
            ),
            ("Paired t over customers, and the lambda that validation chose", t_text(table)),
        ]
        for heading, text in texts:
            print_frame(console, text, f"Table 1: {heading}")
        write_table(folder / f"{stem}-table1", table, texts, console)
    if not (table := computers_table(results)).empty:
        heading = f"Computers; the survey's own partition and {table.attrs['partitions']} drawn"
        text = computers_text(table)
        print_frame(console, text, heading)
        write_table(folder / f"{stem}-computers", table, [(heading, text)], console)


def _write_table2(results: Results, settings: Settings, path: Path, console: Console) -> None:
    if (table := structure_table(results, settings.structure_repeats)).empty:
        return
    error = f"RMSE of (22), what others have more, and its standard error; {table['repeats'].max()} repeats"
    texts = [
        (f"Structures: {error}", structure_text(table, STRUCTURES)),
        (
            "Structures: log evidence, what others have more than (22)",
            structure_text(table, STRUCTURES, True),
        ),
        (f"Polynomials: {error}", structure_text(table, POLYNOMIALS)),
    ]
    texts = [(heading, text) for heading, text in texts if not text.empty]
    for heading, text in texts:
        print_frame(console, text, f"Table 2, not in the paper: {heading}")
    write_table(path, table, texts, console)


def _write_school(results: Results, settings: Settings, folder: Path, stem: str, console: Console) -> None:
    table = school_table(results, settings)
    if table["splits"].any():
        heading = f"School, everything chosen on the training rows; {int(table['splits'].max())} splits"
        text = school_text(table)
        print_frame(console, text, heading)
        write_table(folder / f"{stem}-school", table, [(heading, text)], console)
    parts = [
        pd.DataFrame(numbers["rows"]).assign(split=int(name[12:14]))
        for name, numbers in results.items()
        if name.startswith("school-split") and name.endswith("-path")
    ]
    if parts:
        frame = pd.concat(parts, ignore_index=True)
        write_figure(folder / f"{stem}-figure3", frame, _figure3, (frame, table), console)
