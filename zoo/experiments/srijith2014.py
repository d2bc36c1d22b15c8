"""Tables 2 to 5 and figures 2 to 4 of Srijith & Shevade (ECML PKDD 2014)."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from rich.console import Console

from zoo.experiments.joint_selection import (
    SETS,
    FullBayes,
    GaussianProcesses,
    KnownPrior,
    Learner,
    MultiTaskFeatures,
    Population,
    path_of,
)
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.yardsticks import require_sklearn
from zoo.report import print_frame
from zoo.runner import Job, Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "Settings", "paired_t", "reproduce"]

TABLES = (2, 3, 4, 5)
FIGURES = (2, 3, 4)

# ---------------------------------------------------------------- the paper's numbers

_COLUMNS = ("GPMTFS", "CMTFL", "GPMTL", "ITL", "ATL")
# Mean and standard deviation: RMSE averaged over tasks, of School explained variance in percent.
_PAPER_TABLE_2 = {
    "Synthetic (High)": ((0.041, 0.005), (0.042, 0.005), (0.045, 0.006), (0.071, 0.008), (0.105, 0.008)),
    "Synthetic (Low)": ((3.201, 0.050), (3.138, 0.048), (3.532, 0.062), (4.522, 0.090), (6.589, 0.099)),
    "PC": ((2.041, 0.030), (2.045, 0.030), (2.062, 0.036), (2.475, 0.060), (2.283, 0.032)),
    "School": ((35.45, 1.36), (35.63, 1.25), (34.96, 1.54), (32.67, 2.17), (34.23, 1.15)),
}
_PAPER_TABLE_3 = {
    "Synthetic (High)": (-1.6521, np.nan, -1.6552, -0.9553, 1.0622),
    "Synthetic (Low)": (2.7468, np.nan, 3.2681, 3.4862, 3.4365),
    "PC": (2.2228, np.nan, 2.3798, 3.4740, 6.2068),
    "School": (3.6284, np.nan, 3.7821, 6.2431, 5.4468),
}
_PAPER_TABLE_4 = {"Synthetic (High)": 1.514, "Synthetic (Low)": 12.119, "PC": 4.846, "School": 9.336}
_PAPER_TABLE_5 = {
    "Synthetic (High)": (11.0825, 11.6845, 8.2543, 13.1067, 15.8405),
    "Synthetic (Low)": (11.0825, 11.6845, 8.2543, 13.1067, 15.8405),
    "PC": (333.3381, 243.7865, 325.4205, 356.0030, 395.3381),
    "School": (7577.8, 8556.6, 7172.3, 9886.3, 15566.0),
}

# ---------------------------------------------------------------- what is run


class _Method(NamedTuple):
    """A row of the tables; ``sets``: beginnings of the names of the data sets that have it; later waves run last."""

    label: str
    learner: Learner
    paper: str | None = None
    sets: tuple[str, ...] = ("",)
    wave: int = 0


_REAL = ("computers", "school")
_METHODS = {
    "gpmtfs": _Method("GPMTFS", GaussianProcesses("group"), "GPMTFS"),
    "cmtfl": _Method("CMTFL", MultiTaskFeatures(), "CMTFL"),
    "gpmtl": _Method("GPMTL", GaussianProcesses("shared"), "GPMTL"),
    "itl": _Method("ITL", GaussianProcesses("independent"), "ITL"),
    "atl": _Method("ATL", GaussianProcesses("pooled"), "ATL"),
    "known": _Method("prior and noise known", KnownPrior(), sets=("high", "low")),
    "linear-mean": _Method(
        "GPMTFS, linear mean", GaussianProcesses("group", mean="linear"), sets=_REAL, wave=1
    ),
    "population": _Method("NIWLinear, EM", Population(), sets=_REAL),
    "full-bayes": _Method("GPMTFS, horseshoe, full Bayes", FullBayes(), sets=("computers",), wave=2),
}
_FIGURE_3_FLOOR = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    sets : tuple of str
    splits : int
        Partitions of each set, at most as many as it has.
    tasks : int, optional
        Use the first tasks alone.
    cv : int
        Folds of the cross-validation.
    quick : bool
        Small grids, few draws.
    path : tuple of float
        Values of C in figure 3.
    """

    sets: tuple[str, ...] = tuple(SETS)
    splits: int = 10
    tasks: int | None = None
    cv: int = 3
    quick: bool = False
    path: tuple[float, ...] = tuple(np.geomspace(1e-3, 1e3, 19).round(6).tolist())

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            sets=("computers", "school", "high", "low"),
            splits=2,
            tasks=8,
            quick=True,
            path=(0.1, 10.0, 1000.0),
        )

    def partitions(self, name: str) -> int:
        """Number of partitions of a data set."""
        return min(self.splits, SETS[name].partitions)


def _run_method(
    name: str, number: int, method: str, tasks: int | None, cv: int, quick: bool
) -> dict[str, Any]:
    """Job: a method on a partition of a data set, its parameters chosen on the training rows."""
    data = SETS[name]
    with warnings.catch_warnings():
        # Dummies of rare groups are constant in the rows of some folds; low noise floors are there to be compared.
        warnings.filterwarnings(
            "ignore", "feature .* is constant|the noise of .* is at noise_floor", UserWarning
        )
        return _METHODS[method].learner.run(data, data.partition(number, tasks), cv, number, quick)


def _run_path(number: int, noise_floor: float, C: list[float]) -> dict[str, Any]:
    """Job: the right-hand picture of figure 3 on an instance of the synthetic data."""
    data = SETS["high"]
    return {"rows": path_of(data, data.partition(number), noise_floor, C)}


def _methods_of(name: str) -> dict[str, _Method]:
    return {key: row for key, row in _METHODS.items() if name.startswith(row.sets)}


def _job_name(name: str, method: str, number: int) -> str:
    return f"{name}-split{number:02d}-{method}"


def _job(settings: Settings, name: str, method: str, number: int) -> Job:
    given = {
        "name": name,
        "number": number,
        "method": method,
        "tasks": settings.tasks,
        "cv": settings.cv,
        "quick": settings.quick,
    }
    return Job(_job_name(name, method, number), _run_method, given)


# Of the first partition: which fits the figures show.
_SHOWN = {
    2: [("high", "gpmtfs"), ("high", "gpmtl")],
    3: [("high", "gpmtfs")],
    4: [("computers", "gpmtfs"), ("computers", "full-bayes"), ("school", "gpmtfs")],
}


def _jobs(settings: Settings, tables: Sequence[int], figures: Sequence[int]) -> list[Job]:
    """In waves, and in each set by set."""
    wanted = []
    if tables:
        wanted = [
            (name, method, number)
            for name in settings.sets
            for number in range(1, settings.partitions(name) + 1)
            for method, row in _methods_of(name).items()
            if not (settings.quick and row.wave > 1)
        ]
    wanted += [
        (name, method, 1)
        for figure in figures
        for name, method in _SHOWN[figure]
        if name in settings.sets and not (settings.quick and _METHODS[method].wave > 1)
    ]
    wanted = sorted(dict.fromkeys(wanted), key=lambda one: _METHODS[one[1]].wave)
    jobs = [_job(settings, *one) for one in wanted]
    if 3 in figures and "high" in settings.sets:
        jobs += [
            Job(
                f"figure3-instance{number:02d}",
                _run_path,
                {"number": number, "noise_floor": _FIGURE_3_FLOOR, "C": list(settings.path)},
            )
            for number in range(1, settings.partitions("high") + 1)
        ]
    return jobs


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
    names = {i: _job_name(name, method, i) for i in range(1, settings.partitions(name) + 1)}
    return {i: results[job] for i, job in names.items() if job in results}


def _values(found: Mapping[int, Mapping[str, Any]], criterion: str, score: str) -> dict[int, float]:
    """A score by partition, of the parameters that a criterion chose."""
    return {
        i: float(numbers["criteria"][criterion]["scores"].get(score, np.nan))
        for i, numbers in found.items()
        if criterion in numbers["criteria"]
    }


def _of_paper(table: Mapping[str, Sequence[Any]], data: str, method: str | None, empty: Any) -> Any:
    return table[data][_COLUMNS.index(method)] if method else empty


def score_table(results: Mapping[str, Mapping[str, Any]], settings: Settings) -> pd.DataFrame:
    """One row a data set and method: tables 2, 3 and 5, ours beside the paper's, with standard deviations.

    Errors and explained variance are those of the parameters with the best held-out RMSE. ``NLPD`` is that of the
    parameters with the best held-out NLPD, ``NLPD by RMSE`` and ``RMSE by NLPD`` those of the other choice. ``C``
    and ``noise_floor`` are medians over partitions of what held-out RMSE chose, seconds are medians too.
    """
    rows = []
    for name in settings.sets:
        paper = SETS[name].paper
        for key, method in _methods_of(name).items():
            found = _finished(results, name, key, settings)
            mean, sd = _of_paper(_PAPER_TABLE_2, paper, method.paper, (np.nan, np.nan))
            row: dict[str, Any] = {
                "set": SETS[name].label,
                "method": method.label,
                "partitions": len(found),
                "paper": mean,
                "paper sd": sd,
                "paper NLPD": _of_paper(_PAPER_TABLE_3, paper, method.paper, np.nan),
                "paper seconds": _of_paper(_PAPER_TABLE_5, paper, method.paper, np.nan),
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
    """One row a data set: the paired t statistic of GPMTFS against GPMTL, positive where GPMTFS is better."""
    rows = []
    for name in settings.sets:
        data = SETS[name]
        row: dict[str, Any] = {"set": data.label, "paper t": _PAPER_TABLE_4[data.paper]}
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
            f"{title}: {int(table['selected'].sum())} of {table.sizes['feature']} selected", fontsize=10
        )
    return figure


def _relevance(numbers: Mapping[str, Any]) -> xr.Dataset:
    """What ``relevance_bars`` shows, of the fit with the best held-out RMSE."""
    found = numbers["criteria"]["RMSE"]["relevance"]
    values = {name: ("feature", np.asarray(v)) for name, v in found.items() if name != "feature"}
    return xr.Dataset(values, coords={"feature": found["feature"]}, attrs={"ci_prob": 0.9})


def _draw_figure(number: int, results: Mapping[str, Mapping[str, Any]], path: Path, console: Console) -> None:
    """Write a figure of the finished jobs, or nothing if they are missing."""
    fits = {shown: results.get(_job_name(*shown, 1)) for shown in _SHOWN[number]}
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
            matrices[f"{_METHODS[method].label}, distance {distance:.2f}"] = learned
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
    panels = {f"{name}, {_METHODS[method].label}": table for (name, method), table in tables.items()}
    frame = pd.concat(
        [table.to_dataframe().reset_index().assign(panel=title) for title, table in panels.items()],
        ignore_index=True,
    )
    write_figure(path, frame, _figure4, panels, console)


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
    jobs = _jobs(settings, tables, figures)
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(settings.sets)}, of which the figures {tuple(figures)} show nothing. "
            "Figures 2 and 3 show high, figure 4 computers and school."
        )
    outcome = run_jobs(jobs, folder / f"{stem}-jobs", n_jobs, stem, console)
    if tables:
        _write_tables(settings, tables, outcome, folder, stem, console)
    for figure in figures:
        _draw_figure(figure, outcome.results, folder / f"{stem}-figure{figure}", console)
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
