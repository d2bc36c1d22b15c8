"""Figures 2 to 4 of Bussas, Sawade, Scheffer & Landwehr (2015), on other house prices and rents than theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from scipy import stats

from zoo.experiments import housing
from zoo.experiments.bussas2015_runs import NOISELESS, SETS, SHOWN, Settings, jobs_of
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known
from zoo.experiments.varying_methods import METHODS, RIVALS, installed
from zoo.experiments.yardsticks import require_sklearn
from zoo.report import print_frame
from zoo.support.runner import Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "compared", "errors", "reproduce"]

# The paper prints no table; each figure comes with tables of its numbers.
TABLES: tuple[int, ...] = ()
FIGURES = (2, 3, 4)

# ---------------------------------------------------------------- what is run


# ---------------------------------------------------------------- jobs


# ---------------------------------------------------------------- numbers

Results = Mapping[str, Mapping[str, Any]]
# What each kind of problem is judged by, and how it is shown: factor, digits, title.
_METRICS = {
    "county": ("mae", 1e-3, 1, "mean absolute error, thousands of dollars"),
    "county-log": ("log", 1.0, 4, "mean absolute error of the logarithm of the price"),
    "county-labels": ("error", 100.0, 1, "wrong labels, percent"),
    "rents": ("mae", 1.0, 0, "mean absolute error, dollars a month"),
    "rents-log": ("log", 1.0, 4, "mean absolute error of the logarithm of the rent"),
    "rents-labels": ("error", 100.0, 1, "wrong labels, percent"),
}
_PAIRS = (
    ("isovcm-lin", "x-lin"),
    ("isovcm-lin", "xt-lin"),
    ("isovcm-lin", "local-lin"),
    ("isovcm-mat", "x-mat"),
    ("isovcm-mat", "xt-mat"),
    ("isovcm-mat", "local-mat"),
    ("isovcm-mat", "isovcm-lin"),
    ("isovcm-mat", "xt-mat-ard"),
    ("isovcm-mat", "gpboost"),
    ("isovcm-mat", "gwr"),
)
_LEVEL = 0.01


def errors(results: Results, name: str) -> pd.DataFrame:
    """One row per method, size and split of a set: its scores, and seconds of fit and prediction."""
    rows = []
    for job, numbers in results.items():
        head, _, rest = job.partition("-n")
        if head != name or "seconds" not in numbers or rest.count("-split") != 1:
            continue
        n, _, rest = rest.partition("-split")
        number, _, method = rest.partition("-")
        rows.append({"method": method, "n": int(n), "split": int(number), **numbers})
    return pd.DataFrame(rows)


def _paired(difference: np.ndarray) -> tuple[float, float]:
    """Statistic and two-sided p value; differences that are all the same have no statistic."""
    if len(difference) < 2 or np.std(difference) <= NOISELESS * np.abs(difference).max():
        return float("nan"), float("nan")
    found = stats.ttest_1samp(difference, 0.0)
    return float(found.statistic), float(found.pvalue)


def compared(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Paired t tests over splits: one row per pair of methods and a size; t is positive where the first errs less."""
    rows = []
    for n, part in frame.groupby("n"):
        table = part.pivot(index="split", columns="method", values=metric)
        for one, other in _PAIRS:
            if one in table and other in table:
                difference = (table[other] - table[one]).dropna().to_numpy()
                t, p = _paired(difference)
                rows.append(
                    {
                        "method": one,
                        "against": other,
                        "n": n,
                        "splits": len(difference),
                        "difference": difference.mean(),
                        "t": t,
                        "p": p,
                    }
                )
    return pd.DataFrame(rows)


def _means(frame: pd.DataFrame, metric: str) -> pd.DataFrame:
    """Mean and standard error over splits of each method and size."""
    groups = frame.groupby(["method", "n"])
    table = groups[metric].agg(mean="mean", se="sem", splits="count")
    return table.join(groups["seconds"].mean()).reset_index()


def _text(table: pd.DataFrame, factor: float, digits: int) -> pd.DataFrame:
    """Means with standard errors; the number of splits where it is not the most."""
    most = table["splits"].max()
    shown = pd.DataFrame(index=pd.Index([METHODS[m][0] for m in _order(table["method"])], name="method"))
    for n, part in table.groupby("n"):
        cells = {}
        for _, row in part.iterrows():
            text = f"{factor * row['mean']:.{digits}f}"
            text += "" if np.isnan(row["se"]) else f" ({factor * row['se']:.{digits}f})"
            cells[METHODS[row["method"]][0]] = text + (
                "" if row["splits"] == most else f", {row['splits']:.0f}"
            )
        shown[f"n = {n}"] = [cells.get(label, "") for label in shown.index]
    return shown


def _test_text(table: pd.DataFrame) -> pd.DataFrame:
    """Statistics, bold where the first of a pair errs less, and marked where it errs more, at the level."""
    pairs = [pair for pair in _PAIRS if ((table["method"] == pair[0]) & (table["against"] == pair[1])).any()]
    names = [f"{METHODS[a][0]}, against {METHODS[b][0]}" for a, b in pairs]
    shown = pd.DataFrame(index=pd.Index(names, name="paired t"))
    for n, part in table.groupby("n"):
        values = {
            (a, b): (float(t), float(p)) for a, b, t, p in part[["method", "against", "t", "p"]].to_numpy()
        }
        cells = []
        for pair in pairs:
            t, p = values.get(pair, (np.nan, np.nan))
            text = f"{t:.1f}" if p >= _LEVEL else f"**{t:.1f}**" if t > 0 else f"{t:.1f} (!)"
            cells.append("" if np.isnan(t) else text)
        shown[f"n = {n}"] = cells
    return shown


def _order(methods: Iterable[str]) -> list[str]:
    present = set(methods)
    return [method for method in METHODS if method in present]


# ---------------------------------------------------------------- figures

_COLOURS = {
    "isovcm": "C3", "x": "C7", "xt": "C0", "local": "C2", "regression": "k", "gwr": "C5", "gpboost": "C1",
    "gelfand": "C4", "bound": "C4",
}  # fmt: skip
_BOUND = "Gelfand et al., 5,000 factorisations"


def _style(method: str) -> dict[str, Any]:
    """Colour by family; dashed with a linear kernel, dotted beyond the paper."""
    family = method.split("-")[0]
    line = {"lin": "--", "mat": "-", "ard": ":"}.get(method.rsplit("-", 1)[-1], ":")
    return {
        "color": _COLOURS[family],
        "linestyle": line,
        "marker": "s" if line == "--" else "o",
        "markersize": 4,
    }


def _ticks(ax: Any, sizes: Iterable[int]) -> None:
    ticks = sorted(set(sizes))
    ax.set_xscale("log")
    ax.set_xticks(ticks, labels=[str(n) for n in ticks], minor=False)
    ax.minorticks_off()
    ax.set_xlabel("training rows (log scale)")


def _error_curves(frame: pd.DataFrame) -> Figure:
    """Figure 3 or 4: errors and their standard errors."""
    import matplotlib.pyplot as plt

    names = [name for name in SETS if name in set(frame["set"])]
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 5.4), layout="constrained", squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        part = frame[frame["set"] == name]
        _, factor, _, title = _METRICS[name]
        for method in _order(part["method"]):
            one = part[part["method"] == method].sort_values("n")
            ax.errorbar(
                one["n"],
                factor * one["mean"],
                factor * one["se"].fillna(0.0),
                capsize=2,
                label=METHODS[method][0],
                **_style(method),
            )
        _ticks(ax, part["n"])
        ax.set_ylabel(title)
    handles, labels = [], []
    for ax in axes[0]:
        for handle, label in zip(*ax.get_legend_handles_labels(), strict=True):
            if label not in labels:
                handles.append(handle)
                labels.append(label)
    figure.legend(handles, labels, fontsize=8, loc="outside lower center", ncols=2 * len(names))
    return figure


def _times_frame(results: Results) -> pd.DataFrame:
    """Seconds of fit and prediction of a block in King County, by kind of problem, and the bound."""
    parts = [
        found.groupby(["method", "n"], as_index=False)["seconds"].mean().assign(set=name)
        for name in ("county", "county-labels")
        if not (found := errors(results, name)).empty
    ]
    bound = [
        {"method": "bound", "n": int(job.rsplit("n", 1)[1]), "seconds": numbers["seconds"], "set": "county"}
        for job, numbers in results.items()
        if job.startswith("bound-")
    ]
    return pd.concat([*parts, pd.DataFrame(bound)], ignore_index=True)


def _time_curves(frame: pd.DataFrame) -> Figure:
    """Figure 2."""
    import matplotlib.pyplot as plt

    names = [name for name in ("county", "county-labels") if name in set(frame["set"])]
    figure, axes = plt.subplots(
        1, len(names), figsize=(5.2 * len(names), 5.4), layout="constrained", sharey=True, squeeze=False
    )
    for ax, name in zip(axes[0], names, strict=True):
        # Least squares take a millisecond, far below the others.
        part = frame[(frame["set"] == name) & (frame["method"] != "regression")]
        for method in [*_order(part["method"]), *({"bound"} & set(part["method"]))]:
            one = part[part["method"] == method].sort_values("n")
            label = _BOUND if method == "bound" else METHODS[method][0]
            style = _style(method) | ({"marker": "^", "linestyle": "-"} if method == "bound" else {})
            ax.plot(one["n"], one["seconds"], label=label, **style)
        _ticks(ax, part["n"])
        ax.set_yscale("log")
        ax.set_title("regression" if name == "county" else "classification", fontsize=10)
    axes[0, 0].set_ylabel("processor seconds, fit and prediction of a block")
    figure.legend(
        *axes[0, 0].get_legend_handles_labels(), fontsize=8, loc="outside lower center", ncols=2 * len(names)
    )
    return figure


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
    """Run what is missing, and write the figures, with tables of their numbers and of paired t tests, to a folder.

    Parameters
    ----------
    out : path
        Folder for ``bussas2015-figure2.png`` and ``.csv``, ``-figure3``, ``-figure4``, for ``-county.csv`` and ``.md``
        and the same of the other sets with ``-tests.csv``, and for the results of single jobs, from which a run that
        was cut off goes on. With ``quick``, names begin ``bussas2015-quick``.
    tables : sequence of int
        The paper has none: must be empty.
    figures : sequence of int
        Of 2, 3, 4. Figure 2 shows the seconds of King County's jobs, which belong to figure 3, too.
    sets : sequence of str, optional
        Of ``SETS``. Default: all.
    splits : int, optional
        Windows and folds, 20 at most, evenly spread. Default: 10; the slow ones take every second. With ``quick`` 2.
    cv : int
        Folds of the cross-validation of kernel-local smoothing.
    n_jobs : int
        Processes.
    quick : bool
        Few rows of both data sets: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome

    Notes
    -----
    Packages mgwr and gpboost are used where they are installed, and left out otherwise.
    """
    require_sklearn()
    if tables:
        raise ValueError(f"tables is {tuple(tables)}, and the paper has none. Use figures (2, 3, 4).")
    require_known(figure=(figures, FIGURES), sets=(sets, SETS))
    if splits is not None and splits > housing.FOLDS:
        raise ValueError(f"splits is {splits}. There are {housing.FOLDS} windows and folds: give no more.")
    console = console or Console(highlight=False)
    settings: Settings = chosen(Settings.look() if quick else Settings(), cv, sets, splits=splits)
    stem = "bussas2015-quick" if quick else "bussas2015"
    folder = Path(out)
    figures = tuple(dict.fromkeys(figures))
    # The seconds of figure 2 are those of the jobs of figure 3.
    needed = (*figures, 3) if 2 in figures and 3 not in figures else figures
    jobs = jobs_of(settings, needed)
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(settings.sets)}, of which the figures {figures} show nothing. Figures 2 and 3 show "
            "county, county-log and county-labels, figure 4 the rents."
        )
    for method in settings.methods:
        if not installed(method):
            console.print(
                f"{RIVALS[method]} is not installed: {METHODS[method][0]} is left out.", markup=False
            )
    outcome = run_jobs(jobs, folder / f"{stem}-jobs", n_jobs, stem, console)
    results = outcome.results
    if 2 in figures and not (times := _times_frame(results)).empty:
        write_figure(folder / f"{stem}-figure2", times, _time_curves, times, console)
    for figure in (3, 4):
        if figure in figures:
            _write_errors(results, figure, settings, folder, stem, console)
    for name, numbers in results.items():
        if "failed" in numbers:
            console.print(f"{name}: {numbers['failed']}", markup=False, soft_wrap=True)
    print_failures(outcome, console)
    return outcome


def _write_errors(
    results: Results, figure: int, settings: Settings, folder: Path, stem: str, console: Console
) -> None:
    shown = []
    for name in SHOWN[figure]:
        frame = errors(results, name)
        frame = frame if frame.empty else frame[frame["method"] != "gelfand"]
        if name not in settings.sets or frame.empty:
            continue
        metric, factor, digits, title = _METRICS[name]
        means, tests = _means(frame, metric), compared(frame, metric)
        texts = [(f"{name}: {title} (standard error over splits)", _text(means, factor, digits))]
        if not tests.empty:
            texts.append((f"{name}: paired t over splits", _test_text(tests)))
            write_table(
                folder / f"{stem}-{name}-tests", tests.set_index(["method", "against"]), texts[1:], console
            )
        for heading, text in texts:
            print_frame(console, text, heading)
        write_table(folder / f"{stem}-{name}", means.set_index(["method", "n"]), texts[:1], console)
        shown.append(means.assign(set=name))
    if curves := [part for part in shown if not part["set"].iloc[0].endswith("-log")]:
        picture = pd.concat(curves, ignore_index=True)
        write_figure(folder / f"{stem}-figure{figure}", picture, partial(_error_curves), picture, console)
