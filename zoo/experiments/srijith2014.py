"""Tables 2 to 5 and figures 2 to 4 of Srijith & Shevade (ECML PKDD 2014)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console

from zoo.experiments.joint_selection_data import SETS
from zoo.experiments.outputs import print_failures, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.srijith2014_figures import draw_figure
from zoo.experiments.srijith2014_runs import (
    COLUMNS,
    PAPER_TABLE_2,
    PAPER_TABLE_3,
    PAPER_TABLE_4,
    PAPER_TABLE_5,
    Settings,
    job_name,
    jobs_of,
    methods_of,
)
from zoo.experiments.yardsticks import require_sklearn
from zoo.report import print_frame
from zoo.support.runner import Outcome, run_jobs

if TYPE_CHECKING:
    pass

__all__ = ["FIGURES", "TABLES", "paired_t", "reproduce"]

TABLES = (2, 3, 4, 5)
FIGURES = (2, 3, 4)

# ---------------------------------------------------------------- the paper's numbers


# ---------------------------------------------------------------- what is run


# ---------------------------------------------------------------- tables


def paired_t(first: Sequence[float], second: Sequence[float]) -> float:
    """Paired t statistic of ``second - first``: positive where the first is smaller; NaN for fewer than two pairs."""
    difference = np.asarray(second, dtype=float) - np.asarray(first, dtype=float)
    if len(difference) < 2:
        return float("nan")
    return float(difference.mean() / (difference.std(ddof=1) / np.sqrt(len(difference))))


def _finished(
    results: Mapping[str, Mapping[str, Any]], name: str, method: str, settings: Settings
) -> dict[int, Mapping[str, Any]]:
    """Results of a method by partition."""
    names = {i: job_name(name, method, i) for i in range(1, settings.partitions(name) + 1)}
    return {i: results[job] for i, job in names.items() if job in results}


def _values(found: Mapping[int, Mapping[str, Any]], criterion: str, score: str) -> dict[int, float]:
    """A score by partition, of the parameters that a criterion chose."""
    return {
        i: float(numbers["criteria"][criterion]["scores"].get(score, np.nan))
        for i, numbers in found.items()
        if criterion in numbers["criteria"]
    }


def _of_paper(table: Mapping[str, Sequence[Any]], data: str, method: str | None, empty: Any) -> Any:
    return table[data][COLUMNS.index(method)] if method else empty


def score_table(results: Mapping[str, Mapping[str, Any]], settings: Settings) -> pd.DataFrame:
    """One row per data set and method: tables 2, 3 and 5, ours beside the paper's, with standard deviations.

    Errors and explained variance are those of the parameters with the best held-out RMSE. ``NLPD`` is that of the
    parameters with the best held-out NLPD, ``NLPD by RMSE`` and ``RMSE by NLPD`` those of the other choice. ``C``
    and ``noise_floor`` are medians over partitions of what held-out RMSE chose, seconds are medians too.
    """
    rows = []
    for name in settings.sets:
        paper = SETS[name].paper
        for key, method in methods_of(name).items():
            found = _finished(results, name, key, settings)
            mean, sd = _of_paper(PAPER_TABLE_2, paper, method.paper, (np.nan, np.nan))
            row: dict[str, Any] = {
                "set": SETS[name].label,
                "method": method.label,
                "partitions": len(found),
                "paper": mean,
                "paper sd": sd,
                "paper NLPD": _of_paper(PAPER_TABLE_3, paper, method.paper, np.nan),
                "paper seconds": _of_paper(PAPER_TABLE_5, paper, method.paper, np.nan),
            }
            for column, criterion, score in _SCORES:
                values = pd.Series(_values(found, criterion, score), dtype=float)
                row[column], row[f"{column} sd"] = values.mean(), values.std(ddof=1)
            chosen = [numbers["criteria"]["RMSE"] for numbers in found.values()]
            for field in ("C", "noise_floor"):
                row[field] = pd.Series(
                    [c["parameters"].get(field, np.nan) for c in chosen], dtype=float
                ).median()
            row["distance"] = pd.Series([c.get("distance", np.nan) for c in chosen], dtype=float).mean()
            row["selected"] = pd.Series(
                [np.sum(c["relevance"]["selected"]) if "relevance" in c else np.nan for c in chosen],
                dtype=float,
            ).mean()
            # Medians: other work on the machine makes some fits wait.
            row["seconds"] = pd.Series([c["seconds"] for c in chosen], dtype=float).median()
            searches = [numbers.get("cv seconds", np.nan) for numbers in found.values()]
            row["cv seconds"] = pd.Series(searches, dtype=float).median()
            rows.append(row)
    return pd.DataFrame(rows).set_index(["set", "method"])


# Column, criterion of the parameters, score.
_SCORES = (
    ("RMSE", "RMSE", "RMSE"),
    ("pooled RMSE", "RMSE", "pooled RMSE"),
    ("EV", "RMSE", "EV"),
    ("EV per task", "RMSE", "EV per task"),
    ("NLPD", "NLPD", "NLPD"),
    ("NLPD by RMSE", "RMSE", "NLPD"),
    ("RMSE by NLPD", "NLPD", "RMSE"),
)


def t_table(results: Mapping[str, Mapping[str, Any]], settings: Settings) -> pd.DataFrame:
    """One row per data set: the paired t statistic of GPMTFS against GPMTL, positive where GPMTFS is better."""
    rows = []
    for name in settings.sets:
        data = SETS[name]
        row: dict[str, Any] = {"set": data.label, "paper t": PAPER_TABLE_4[data.paper]}
        measure, sign = ("EV", -1.0) if data.paper == "School" else ("RMSE", 1.0)
        for column, criterion, score in (("t", "RMSE", measure), ("t of NLPD", "NLPD", "NLPD")):
            ours, theirs = (
                _values(_finished(results, name, key, settings), criterion, score)
                for key in ("gpmtfs", "gpmtl")
            )
            both = sorted(ours.keys() & theirs.keys())
            direction = sign if score == measure else 1.0
            pairs = [(direction * ours[i], direction * theirs[i]) for i in both]
            row[column] = paired_t([a for a, _ in pairs], [b for _, b in pairs])
            row[f"{column}: mean difference"] = float(np.mean([b - a for a, b in pairs])) if pairs else np.nan
        row["measure"], row["partitions"] = measure, len(both)
        rows.append(row)
    return pd.DataFrame(rows).set_index("set")


def _text(mean: float, sd: float = float("nan"), digits: int = 3) -> str:
    if np.isnan(mean):
        return ""
    return f"{mean:.{digits}f}" if np.isnan(sd) else f"{mean:.{digits}f} ({sd:.{digits}f})"


def _shown(table: pd.DataFrame, columns: Mapping[str, str], digits: int) -> pd.DataFrame:
    """Columns of one data set as text, ours with standard deviations; ``columns``: shown name and column."""
    shown = pd.DataFrame(index=table.index)
    for title, column in columns.items():
        sd = table[f"{column} sd"] if f"{column} sd" in table else [np.nan] * len(table)
        shown[title] = [_text(*pair, digits) for pair in zip(table[column], sd, strict=True)]
    return shown


_ERRORS = {"paper RMSE": "paper", "RMSE": "RMSE", "pooled RMSE": "pooled RMSE"}
_EXPLAINED = {
    "paper EV": "paper",
    "EV, %": "EV",
    "EV per task, %": "EV per task",
    "RMSE": "RMSE",
    "pooled RMSE": "pooled RMSE",
}
_DENSITIES = {
    "paper NLPD": "paper NLPD",
    "NLPD": "NLPD",
    "NLPD at the parameters of table 2": "NLPD by RMSE",
    "RMSE at the parameters of this table": "RMSE by NLPD",
}
_SECONDS = {"paper": "paper seconds", "one fit": "seconds", "cross-validation": "cv seconds"}


def _texts(number: int, table: pd.DataFrame, settings: Settings) -> list[tuple[str, pd.DataFrame]]:
    """Headings and tables of text of table 2, 3 or 5, a data set each."""
    texts = []
    for name in settings.sets:
        data = SETS[name]
        part = pd.DataFrame(table.loc[data.label])
        part = part[part["partitions"] > 0]
        if part.empty:
            continue
        n = int(part["partitions"].max())
        school = data.paper == "School"
        columns = {2: _EXPLAINED if school else _ERRORS, 3: _DENSITIES, 5: _SECONDS}[number]
        if number == 3:
            part = part[part[["paper NLPD", "NLPD"]].notna().any(axis=1)]
        shown = _shown(part, columns, 2 if number == 5 else 3)
        if (part["partitions"] < n).any():
            shown["partitions"] = [str(count) for count in part["partitions"]]
        texts.append((f"{data.label}; {n} partition{'s' * (n != 1)}", shown))
    return texts


def _t_text(table: pd.DataFrame) -> pd.DataFrame:
    table = table[table["partitions"] > 0]
    shown = pd.DataFrame(index=table.index)
    shown["paper t"] = [_text(v, digits=2) for v in table["paper t"]]
    shown["t"] = [_text(v, digits=2) for v in table["t"]]
    shown["mean difference"] = [
        f"{_text(v)} {m}" if not np.isnan(v) else ""
        for v, m in zip(table["t: mean difference"], table["measure"], strict=True)
    ]
    shown["t of NLPD"] = [_text(v, digits=2) for v in table["t of NLPD"]]
    shown["partitions"] = [str(n) for n in table["partitions"]]
    return shown


# ---------------------------------------------------------------- figures


# ---------------------------------------------------------------- the whole


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
        Folder for ``srijith2014-table<n>.csv`` and ``.md``, ``srijith2014-figure<n>.csv`` and ``.png``, and for the
        results of single jobs, from which a run that was cut off goes on. With ``quick``, names begin
        ``srijith2014-quick``.
    tables, figures : sequence of int
        Of 2, 3, 4, 5 and 2, 3, 4. All tables are made of the same jobs.
    sets : sequence of str, optional
        Of ``SETS`` of :mod:`zoo.experiments.joint_selection`. Default: all; with ``quick`` four of them.
    splits : int, optional
        Partitions of each set, 10 in the paper; with ``quick`` 2. The survey's own design has one.
    cv : int
        Folds of the cross-validation.
    n_jobs : int
        Processes.
    quick : bool
        Two partitions, eight tasks, small grids and few draws: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome
    """
    require_sklearn()
    require_known(table=(tables, TABLES), figure=(figures, FIGURES), sets=(sets, list(SETS)))
    console = console or Console(highlight=False)
    used = bool(tables) or (3 in figures and (sets is None or "high" in sets))
    require_used("splits", splits, used, "the tables and figure 3")
    settings: Settings = chosen(Settings.look() if quick else Settings(), cv, sets, splits=splits)
    stem = "srijith2014-quick" if quick else "srijith2014"
    folder = Path(out)
    jobs = jobs_of(settings, tables, figures)
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(settings.sets)}, of which the figures {tuple(figures)} show nothing. "
            "Figures 2 and 3 show high, figure 4 computers and school."
        )
    outcome = run_jobs(jobs, folder / f"{stem}-jobs", n_jobs, stem, console)
    if tables:
        _write_tables(settings, tables, outcome, folder, stem, console)
    for figure in figures:
        draw_figure(figure, outcome.results, folder / f"{stem}-figure{figure}", console)
    print_failures(outcome, console)
    return outcome


def _write_tables(
    settings: Settings, tables: Sequence[int], outcome: Outcome, folder: Path, stem: str, console: Console
) -> None:
    whole = score_table(outcome.results, settings)
    for number in tables:
        if number == 4:
            frame = t_table(outcome.results, settings)
            texts = [("", _t_text(frame))]
        else:
            frame, texts = whole, _texts(number, whole, settings)
        for heading, text in texts:
            print_frame(console, text, f"Table {number}" + (f": {heading}" if heading else ""))
        write_table(folder / f"{stem}-table{number}", frame, texts, console)
