"""Tables 2-4 and figures 2-3 of Li, Zhu & Chen (ICML 2014)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console

from zoo.experiments.li2014_numbers import PAPER_TABLE_2, PAPER_TABLE_3, PAPER_TABLE_4, SCHOOL
from zoo.experiments.li2014_runs import (
    BAYESIAN,
    LABEL_MODELS,
    LABEL_SETS,
    SCHOOL_MODELS,
    Model,
    Settings,
    figure_jobs,
    job_name,
    table_jobs,
)
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import require_known, require_used
from zoo.experiments.yardsticks import (
    require_sklearn,
)
from zoo.report import print_frame
from zoo.support.checks import whole_number
from zoo.support.runner import Job, Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "reproduce"]

TABLES = (2, 3, 4)
FIGURES = (2, 3)
_SCHOOL_SPLITS = 10

# ---------------------------------------------------------------- the paper's numbers: mean, standard deviation


# ---------------------------------------------------------------- what is run


# ---------------------------------------------------------------- data


# ---------------------------------------------------------------- jobs


# ---------------------------------------------------------------- tables

_LABEL_COLUMNS = {"micro F1 %": "micro F1", "macro F1 %": "macro F1", "accuracy %": "accuracy"}
_SCHOOL_COLUMNS = {"explained variance %": "pooled", "per task %": "per school"}


def score_table(
    data: str,
    models: Mapping[str, Model],
    paper: Mapping[str, tuple[float, float]],
    columns: Sequence[str],
    results: Mapping[str, Mapping[str, Any]],
    splits: int,
) -> pd.DataFrame:
    """One row per model, the paper's order first: its score in the paper, and ours over the finished splits.

    Parameters
    ----------
    data : str
        Name of the set, as in the jobs' names.
    models : dict of str to Model
    paper : dict
        Mean and standard deviation by label; rows that are not among ``models`` are shown without ours.
    columns : sequence of str
        Scores in the results.
    results : dict
        Of finished jobs, by name.
    splits : int
    """
    keys = {model.label: key for key, model in models.items()}
    rows = []
    for label in dict.fromkeys([*paper, *keys]):
        mean, sd = paper.get(label, (np.nan, np.nan))
        row: dict[str, Any] = {"set": data, "model": label, "paper %": mean, "paper sd": sd}
        names = [job_name(data, i, keys[label]) for i in range(1, splits + 1)] if label in keys else []
        finished = pd.DataFrame([results[name] for name in names if name in results])
        for column in columns:
            values = finished.get(column, pd.Series(dtype=float))
            row[column] = values.mean()
            row[column.replace(" %", " sd")] = values.std(ddof=1)
        row["C"] = finished.get("C", pd.Series(dtype=float)).median()
        row["splits"] = len(finished)
        rows.append(row)
    return pd.DataFrame(rows).set_index(["set", "model"])


def latent_table(
    results: Mapping[str, Mapping[str, Any]], sets: Sequence[str], splits: Mapping[str, int]
) -> pd.DataFrame:
    """Table 4: mean number of latent features, the paper's and ours, and the number of features."""
    rows = []
    for name in sets:
        names = [job_name(name, i, "nonparametric") for i in range(1, splits[name] + 1)]
        values = pd.Series([results[n]["n_latent"] for n in names if n in results], dtype=float)
        mean, sd = PAPER_TABLE_4[name]
        rows.append(
            {
                "set": name,
                "paper K": mean,
                "paper sd": sd,
                "K": values.mean(),
                "K sd": values.std(ddof=1),
                "splits": len(values),
            }
        )
    return pd.DataFrame(rows).set_index("set")


def _shown(table: pd.DataFrame, columns: Mapping[str, str]) -> pd.DataFrame:
    """The table of one set as text: mean (sd)."""
    shown = pd.DataFrame(index=table.index.get_level_values("model"))
    shown["paper"] = _with_sd(table["paper %"], table["paper sd"])
    for column, title in columns.items():
        shown[title] = _with_sd(table[column], table[column.replace(" %", " sd")])
    shown["C"] = ["" if np.isnan(C) else f"{C:.2g}" for C in table["C"]]
    return shown


def _with_sd(mean: pd.Series, sd: pd.Series) -> list[str]:
    """Two digits; nothing where there is no mean."""
    return [
        "" if np.isnan(m) else f"{m:.2f}" if np.isnan(s) else f"{m:.2f} ({s:.2f})"
        for m, s in zip(mean, sd, strict=True)
    ]


# ---------------------------------------------------------------- figures


def curves(data: str, model: str, numbers: Mapping[str, Any]) -> pd.DataFrame:
    """Numbers of a figure's job as a table: set, model, chain, sweep, score of the running mean and of the draw."""
    running = np.array(numbers["running mean"])
    chains, sweeps = running.shape
    frame = pd.DataFrame(
        {
            "set": data,
            "model": model,
            "chain": np.repeat(np.arange(chains), sweeps),
            "sweep": np.tile(np.arange(1, sweeps + 1), chains),
            "running mean": running.ravel(),
            "draw": np.ravel(numbers["draw"]),
        }
    )
    if "n_latent" in numbers:
        frame["n_latent"] = np.ravel(numbers["n_latent"])
    return frame


def _figure2(frame: pd.DataFrame) -> Figure:
    return _panels(
        [
            (frame[frame["set"] == name], "running mean", f"{name}: {score}")
            for name, score in (("yeast", "micro F1 %"), (SCHOOL, "explained variance %"))
            if (frame["set"] == name).any()
        ]
    )


def _figure3(frame: pd.DataFrame) -> Figure:
    return _panels([(frame, "n_latent", "latent features"), (frame, "running mean", "explained variance %")])


def _panels(panels: list[tuple[pd.DataFrame, str, str]]) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, len(panels), figsize=(5.0 * len(panels), 3.6), squeeze=False, layout="constrained"
    )
    for ax, (frame, column, title) in zip(axes[0], panels, strict=True):
        _curves_of_models(ax, frame, column)
        ax.set_title(title, fontsize=10)
        if title.endswith("explained variance %"):
            ax.set_ylim(0.0, 1.1 * frame[column].max())  # the first sweeps lie hundreds below
        ax.set_xlabel("sweeps")
    axes[0, -1].legend(frameon=False, fontsize=8)
    return figure


def _curves_of_models(ax: Axes, frame: pd.DataFrame, column: str) -> None:
    """Mean over chains, and their range."""
    for model, rows in frame.groupby("model", sort=False):
        by_sweep = rows.groupby("sweep")[column]
        mean = by_sweep.mean()
        [line] = ax.plot(mean.index, mean, linewidth=1.2, label=str(model))
        ax.fill_between(
            mean.index, by_sweep.min(), by_sweep.max(), color=line.get_color(), alpha=0.15, linewidth=0
        )
    ax.margins(x=0.01)


# ---------------------------------------------------------------- the whole


@dataclass(frozen=True)
class _Plan:
    """What was asked for."""

    tables: tuple[int, ...]
    figures: tuple[int, ...]
    sets: tuple[str, ...]
    splits: dict[str, int]
    settings: Settings
    chains: int
    stem: str  # of the files

    def sets_of(self, table: int) -> tuple[str, ...]:
        """The sets that a table shows."""
        if table == 4:
            return self.sets
        return tuple(name for name in self.sets if (name == SCHOOL) == (table == 3))

    def jobs(self) -> list[Job]:
        """What has to be run, each job once."""
        school, labels = self.splits[SCHOOL], max(v for k, v in self.splits.items() if k != SCHOOL)
        jobs: dict[str, Job] = {}
        for table in self.tables:
            for name, job in table_jobs(self.sets_of(table), labels, school, self.settings).items():
                if table != 4 or job.settings["model"] == "nonparametric":
                    jobs[name] = job
        for figure in self.figures:
            jobs.update((job.name, job) for job in figure_jobs(figure, self.chains, self.settings))
        return list(jobs.values())


def reproduce(
    out: str | Path,
    tables: Sequence[int] = TABLES,
    figures: Sequence[int] = FIGURES,
    sets: Sequence[str] | None = None,
    splits: int | None = None,
    cv: int = 3,
    n_jobs: int = 1,
    quick: bool = False,
    console: Console | None = None,
) -> Outcome:
    """Run what is missing, print our numbers beside the paper's, and write tables and pictures to a folder.

    Parameters
    ----------
    out : path
        Folder for ``li2014-table<n>.csv`` and ``.md``, ``li2014-figure<n>.csv`` and ``.png``, and for the results of
        single jobs, from which a run that was cut off goes on. With ``quick``, names begin ``li2014-quick``.
    tables, figures : sequence of int
        Of 2, 3, 4 and 2, 3.
    sets : sequence of str, optional
        Names of label sets and ``"School"``. Default: all; with ``quick`` emotions and School.
    splits : int, optional
        Random splits of a label set (default 5) and published splits of School (default, and at most, 10).
    cv : int
        Folds of the cross-validation.
    n_jobs : int
        Processes.
    quick : bool
        Two splits, small grids and few draws: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome
    """
    require_sklearn()
    console = console or Console(highlight=False)
    plan = _plan(tables, figures, sets, splits, cv, quick)
    folder = Path(out)
    jobs = plan.jobs()
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(plan.sets)}, of which the tables {plan.tables} show nothing. "
            "Table 2 shows the label sets, table 3 School, table 4 all."
        )
    outcome = run_jobs(jobs, folder / f"{plan.stem}-jobs", n_jobs, plan.stem, console)
    for table in plan.tables:
        _write_table(table, plan, outcome, folder, console)
    for figure in plan.figures:
        _write_figure(figure, outcome, folder / f"{plan.stem}-figure{figure}", console)
    print_failures(outcome, console)
    return outcome


def _plan(
    tables: Sequence[int],
    figures: Sequence[int],
    sets: Sequence[str] | None,
    splits: int | None,
    cv: int,
    quick: bool,
) -> _Plan:
    require_known(table=(tables, TABLES), figure=(figures, FIGURES), sets=(sets, [*LABEL_SETS, SCHOOL]))
    chosen = sets or (["emotions", SCHOOL] if quick else [*LABEL_SETS, SCHOOL])
    require_used("splits", splits, bool(tables), "the tables")
    if splits is not None:
        whole_number(splits, "splits", 1)
    whole_number(cv, "cv", 2)
    labels, school = (splits or (2 if quick else 5)), (splits or (2 if quick else _SCHOOL_SPLITS))
    return _Plan(
        tables=tuple(dict.fromkeys(tables)),
        figures=tuple(dict.fromkeys(figures)),
        sets=tuple(dict.fromkeys(chosen)),
        splits={**dict.fromkeys(LABEL_SETS, labels), SCHOOL: min(school, _SCHOOL_SPLITS)},
        settings=Settings.quick(cv) if quick else Settings(cv=cv),
        chains=1 if quick else 3,
        # Files of their own: a look must not overwrite a run of an hour.
        stem="li2014-quick" if quick else "li2014",
    )


def _write_table(table: int, plan: _Plan, outcome: Outcome, folder: Path, console: Console) -> None:
    if table == 4:
        frame = latent_table(outcome.results, plan.sets, plan.splits)
        text = pd.DataFrame(
            {
                "paper": _with_sd(frame["paper K"], frame["paper sd"]),
                "K": _with_sd(frame["K"], frame["K sd"]),
                "splits": frame["splits"].astype(str),
            },
            index=frame.index,
        )
        _write(folder / f"{plan.stem}-table4", frame, [("", text)], console, "Table 4: latent features")
        return
    school = table == 3
    models, columns = (SCHOOL_MODELS, _SCHOOL_COLUMNS) if school else (LABEL_MODELS, _LABEL_COLUMNS)
    frames = []
    for name in plan.sets_of(table):
        paper = PAPER_TABLE_3 if school else {label: scores[name] for label, scores in PAPER_TABLE_2.items()}
        frames.append(score_table(name, models, paper, list(columns), outcome.results, plan.splits[name]))
    if frames:
        texts = [(str(frame.index[0][0]), _shown(frame, columns)) for frame in frames]
        title = f"Table {table}: {'explained variance' if school else 'F1'} in %, mean (sd) over splits"
        _write(folder / f"{plan.stem}-table{table}", pd.concat(frames), texts, console, title)


def _write(
    path: Path,
    frame: pd.DataFrame,
    texts: list[tuple[str, pd.DataFrame]],
    console: Console,
    title: str,
) -> None:
    for name, text in texts:
        print_frame(console, text, f"{title}; {name}" if name else title)
    write_table(path, frame, texts, console)


def _write_figure(figure: int, outcome: Outcome, path: Path, console: Console) -> None:
    parts = []
    for name, numbers in outcome.results.items():
        if not name.startswith(f"figure{figure}-"):
            continue
        if figure == 3:
            parts.append(curves(SCHOOL, f"alpha {float(name.partition('alpha')[2]):g}", numbers))
        else:
            data, model = name.split("-")[1:]
            parts.append(curves(data, BAYESIAN[model].label, numbers))
    if not parts:
        return
    frame = pd.concat(parts, ignore_index=True)
    draw: Callable[[pd.DataFrame], Figure] = _figure2 if figure == 2 else _figure3
    write_figure(path, frame, draw, frame, console)
