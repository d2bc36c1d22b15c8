"""Tables of Evgeniou, Micchelli & Pontil (2005), of finished jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from scipy import stats

from zoo.experiments import conjoint
from zoo.experiments.evgeniou2005_runs import (
    PAPER_METHODS,
    PAPER_TABLE_1,
    SCHOOL_METHODS,
    Settings,
    customers_name,
)

if TYPE_CHECKING:
    pass

__all__ = [
    "MAIN",
    "Results",
    "computers_table",
    "computers_text",
    "school_table",
    "school_text",
    "t_text",
    "table1",
    "table1_text",
]

Results = Mapping[str, Mapping[str, Any]]
# Two-sided; methods that differ from the best by less are as good as the best.
_LEVEL = 0.05


def _paired(difference: np.ndarray) -> tuple[float, float]:
    """Statistic and p value of paired differences; differences that are all the same have no statistic."""
    if np.std(difference) <= 1e-12 * np.abs(difference).max():
        return float("nan"), 0.0 if difference.any() else 1.0
    found = stats.ttest_1samp(difference, 0.0)
    return float(found.statistic), float(found.pvalue)


def _compared(errors: Mapping[str, np.ndarray]) -> dict[str, dict[str, float]]:
    """Mean of each method, p value of its difference from the best method, paired over tasks."""
    best = min(errors, key=lambda method: errors[method].mean())
    return {
        method: {"mean": float(values.mean()), "p": _paired(values - errors[best])[1]}
        for method, values in errors.items()
    }


def _t(errors: Mapping[str, np.ndarray], method: str, other: str) -> float:
    """Paired t over tasks, positive where ``method`` errs less than ``other``."""
    return _paired(errors[other] - errors[method])[0]


_RIVALS = (("identity", "individual"), ("pca", "identity"), ("learned", "pca"), ("learned", "identity"))


def table1(results: Results, settings: Settings) -> pd.DataFrame:
    """One row per number of tasks and of rows: errors in percent, the paper's, and paired t over all customers.

    ``best``: the methods of the paper that are best, or not worse at the 5% level. ``t of a against b`` is positive
    where a errs less.
    """
    rows = []
    for data in settings.data:
        for tasks in settings.tasks:
            found = [
                results[name]
                for panel in range(1, settings.repeats + 1)
                for group in range(settings.groups(tasks))
                if (name := customers_name(panel, tasks, data, group)) in results
            ]
            if found:
                rows.append({"tasks": tasks, "data": data, "groups": len(found), **_row(found)})
                paper = PAPER_TABLE_1.get((tasks, data), (np.nan,) * 4)
                rows[-1] |= {f"paper {m}": v for m, v in zip(PAPER_METHODS, paper, strict=True)}
    return pd.DataFrame(rows).set_index(["tasks", "data"]) if rows else pd.DataFrame()


def _row(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors in percent of several groups of tasks, with comparisons."""
    errors = {
        method: 100.0 * np.concatenate([one[method]["errors"] for one in found])
        for method in conjoint.METHODS
        if method in found[0]
    }
    compared = _compared({method: errors[method] for method in PAPER_METHODS})
    row: dict[str, Any] = {method: float(values.mean()) for method, values in errors.items()}
    row["best"] = " ".join(method for method, numbers in compared.items() if numbers["p"] > _LEVEL)
    row |= {f"t of {a} against {b}": _t(errors, a, b) for a, b in _RIVALS}
    chosen = [one["identity"]["parameters"] for one in found]
    row["lam"] = float(np.median([c["lam"] for c in chosen]))
    row["fine lam"] = float(np.median([one["identity-fine"]["parameters"]["lam"] for one in found]))
    row["PCA iterations"] = float(np.mean([one["pca"]["parameters"]["iterations"] for one in found]))
    return row


# The others stand in a table of their own.
MAIN = (*PAPER_METHODS, "learned", "square")


def _indexed(table: pd.DataFrame) -> pd.DataFrame:
    """A table of text that begins with the numbers of tasks and of rows."""
    tasks = pd.Index([str(t) for t, _ in table.index], name="tasks")
    return pd.DataFrame({"data": [str(d) for _, d in table.index]}, index=tasks)


def table1_text(table: pd.DataFrame, methods: Sequence[str] = MAIN) -> pd.DataFrame:
    """Table 1 as it is printed."""
    shown = _indexed(table)
    for method in methods:
        texts = []
        for _, row in table.iterrows():
            text = f"{row[method]:.1f}"
            if method in PAPER_METHODS:
                text = f"**{text}**" if method in row["best"].split() else text
                paper = row.get(f"paper {method}", np.nan)
                text += "" if np.isnan(paper) else f" ({paper:.1f})"
            texts.append(text)
        shown[conjoint.METHODS[method]] = texts
    return shown


def t_text(table: pd.DataFrame) -> pd.DataFrame:
    """Its t statistics as they are printed."""
    shown = _indexed(table)
    for a, b in _RIVALS:
        shown[f"{conjoint.METHODS[a]} against {conjoint.METHODS[b]}"] = [
            f"{value:.1f}" for value in table[f"t of {a} against {b}"]
        ]
    shown["lambda"] = [f"{value:g}" for value in table["lam"].round(4)]
    shown["fine lambda"] = [f"{value:g}" for value in table["fine lam"].round(4)]
    return shown


def computers_table(results: Results) -> pd.DataFrame:
    """One row per method on the computers: errors in percent of the labels, RMSE of the ratings; persons' means.

    The survey's own partition apart from the others; ``p``: of the difference from the best of a column, paired over
    persons, whose errors are averaged over partitions first.
    """
    found = {name: numbers for name, numbers in results.items() if name.startswith("computers-partition")}
    own = [numbers for name, numbers in found.items() if name.endswith("00")]
    rest = [numbers for name, numbers in found.items() if not name.endswith("00")]
    table = pd.DataFrame(index=pd.Index(list(conjoint.METHODS.values()), name="method"))
    for kind, parts in (("survey", own), ("drawn", rest)):
        for part, field, factor in (("labels", "errors", 100.0), ("ratings", "rmse", 1.0)):
            if not parts:
                continue
            errors = {
                method: factor * np.mean([one[part][method][field] for one in parts], axis=0)
                for method in parts[0][part]
            }
            for method, numbers in _compared(errors).items():
                label = conjoint.METHODS[method]
                table.loc[label, f"{kind}, {part}"] = numbers["mean"]
                table.loc[label, f"{kind}, {part}: p"] = numbers["p"]
    table.attrs["partitions"] = len(rest)
    return table.dropna(how="all")


def computers_text(table: pd.DataFrame) -> pd.DataFrame:
    """The table of the computers as it is printed."""
    names = {
        "survey, labels": "survey: error, %",
        "drawn, labels": "drawn: error, %",
        "survey, ratings": "survey: RMSE of ratings",
        "drawn, ratings": "drawn: RMSE of ratings",
    }
    shown = pd.DataFrame(index=table.index)
    for column, title in names.items():
        if column not in table:
            continue
        digits = 1 if column.endswith("labels") else 3
        texts = [
            "" if np.isnan(value) else f"**{value:.{digits}f}**" if p > _LEVEL else f"{value:.{digits}f}"
            for value, p in zip(table[column], table[f"{column}: p"], strict=True)
        ]
        shown[title] = texts
    return shown


def school_table(results: Results, settings: Settings) -> pd.DataFrame:
    """One row per method on School: explained variance in percent, pooled and per school, means and sd over splits.

    ``t``: paired over splits against lambda by evidence, positive where the method explains more.
    """
    values = {
        method: {
            score: np.array(
                [
                    results[name]["scores"][score]
                    for split in range(1, settings.splits + 1)
                    if (name := f"school-split{split:02d}-{method}") in results
                ]
            )
            for score in ("EV", "EV per task")
        }
        for method in SCHOOL_METHODS
    }
    rows = []
    for method, found in values.items():
        row: dict[str, Any] = {"method": SCHOOL_METHODS[method][0], "splits": len(found["EV"])}
        for score, numbers in found.items():
            row[score] = numbers.mean() if len(numbers) else np.nan
            row[f"{score} sd"] = numbers.std(ddof=1) if len(numbers) > 1 else np.nan
        chosen = [
            results[f"school-split{split:02d}-{method}"]["parameters"].get("lam", np.nan)
            for split in range(1, settings.splits + 1)
            if f"school-split{split:02d}-{method}" in results
        ]
        row["lam"] = float(np.median(chosen)) if chosen else np.nan
        base = values["evidence"]["EV"]
        paired = {"base": base, "own": found["EV"]}
        # `_t` compares errors, which are the smaller the better.
        row["t"] = _t(paired, "base", "own") if len(base) == len(found["EV"]) > 1 else np.nan
        rows.append(row)
    return pd.DataFrame(rows).set_index("method")


def school_text(table: pd.DataFrame) -> pd.DataFrame:
    """The table of School as it is printed."""
    table = table[table["splits"] > 0]
    shown = pd.DataFrame(index=table.index)
    for score, title in (("EV", "EV, %"), ("EV per task", "EV per school, %")):
        shown[title] = [
            f"{mean:.2f}" if np.isnan(sd) else f"{mean:.2f} ({sd:.2f})"
            for mean, sd in zip(table[score], table[f"{score} sd"], strict=True)
        ]
    shown["lambda"] = ["" if np.isnan(value) else f"{value:.2g}" for value in table["lam"]]
    shown["t"] = ["" if np.isnan(value) else f"{value:.1f}" for value in table["t"]]
    return shown
