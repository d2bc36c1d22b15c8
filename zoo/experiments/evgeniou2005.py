"""Table 1 and figures 1 to 3 of Evgeniou, Micchelli & Pontil (JMLR 2005)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.console import Console
from scipy import stats

from zoo import datasets
from zoo.data import MultiTaskData
from zoo.experiments import conjoint
from zoo.experiments.joint_selection import scores
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.yardsticks import PooledLinear, SeparateLinear, choose, decision, require_sklearn
from zoo.fields import field_value
from zoo.kernels.task_metric import pca_metric
from zoo.likelihoods import EpsilonInsensitive, Gaussian
from zoo.models.multitask_kernel import MultiTaskKernelMachine
from zoo.report import print_frame
from zoo.runner import Job, Outcome, run_jobs
from zoo.selection import select

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "SETS", "TABLES", "Settings", "reproduce", "school_table", "table1"]

TABLES = (1,)
FIGURES = (1, 2, 3)
SETS = ("customers", "computers", "school")

# ---------------------------------------------------------------- the paper's numbers

# Tasks and rows a task: One SVM, individual, identity, PCA; percent of the test rows.
_PAPER_TABLE_1 = {
    (50, 20): (41.97, 29.86, 28.72, 29.16),
    (100, 20): (41.41, 29.86, 28.30, 29.26),
    (200, 20): (40.08, 29.86, 27.79, 28.53),
    (50, 30): (40.73, 26.84, 25.53, 25.65),
    (100, 30): (40.66, 26.84, 25.25, 24.79),
    (200, 30): (39.43, 26.84, 25.16, 24.13),
    (50, 60): (40.33, 22.84, 22.06, 21.08),
    (100, 60): (40.02, 22.84, 22.27, 20.79),
    (200, 60): (39.74, 22.84, 21.86, 20.00),
    (50, 90): (38.51, 19.84, 19.68, 18.45),
    (100, 90): (38.97, 19.84, 19.34, 18.08),
    (200, 90): (38.77, 19.84, 19.27, 17.53),
}
_PAPER_METHODS = ("one", "individual", "identity", "pca")
# Read off figure 3; the text has no number.
_PAPER_SCHOOL = 34.4

# ---------------------------------------------------------------- what is run

_CHOICES = 120
_LAMBDA = 0.6
_SHORT = 20
# Two tasks cannot say much about Q, and there are a hundred of them.
_LEAST_FOR_Q = 10
_COMPUTER_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SCHOOL_GAMMAS = (1.0, 3.0, 10.0)
_RIDGE_WEIGHTS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
_EPSILON = 0.01


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    sets : tuple of str
        Of ``SETS``.
    repeats : int
        Panels of simulated customers.
    customers : int
    tasks, data : tuple of int
        Customers of a group and choices of a customer to learn from in table 1.
    few : tuple of int
        Customers of a group in figure 1.
    two : tuple of int
        The same in figure 2.
    lams : tuple of float
        Horizontal axis of figure 2.
    partitions : int
        Of the computers, beside the survey's own.
    persons : int, optional
        Use the first persons alone.
    splits : int
        Of School.
    schools : int, optional
        Use the first schools alone.
    school_lams : tuple of float
        Horizontal axis of figure 3.
    cv : int
        Folds of the cross-validation on School.
    """

    sets: tuple[str, ...] = SETS
    repeats: int = 2
    customers: int = 200
    tasks: tuple[int, ...] = (50, 100, 200)
    data: tuple[int, ...] = (20, 30, 60, 90)
    few: tuple[int, ...] = (2, 4, 5, 10, 20, 40, 50, 100, 200)
    two: tuple[int, ...] = (10, 200)
    lams: tuple[float, ...] = (conjoint.ZERO, 0.001, 0.003, 0.01, 0.03, *(i / 10 for i in range(1, 11)))
    partitions: int = 5
    persons: int | None = None
    splits: int = 10
    schools: int | None = None
    school_lams: tuple[float, ...] = (0.0003, 0.001, 0.003, 0.01, 0.03, *(i / 10 for i in range(1, 11)))
    cv: int = 3

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            repeats=1,
            customers=20,
            tasks=(20,),
            data=(20,),
            few=(5, 20),
            two=(20,),
            lams=(conjoint.ZERO, 0.1, 1.0),
            partitions=1,
            persons=20,
            splits=2,
            schools=12,
            school_lams=(0.01, 0.1, 1.0),
        )

    def groups(self, tasks: int) -> int:
        """Groups of that many customers."""
        return self.customers // tasks


def _groups(rows: MultiTaskData, tasks: int, n_train: int) -> list[tuple[MultiTaskData, MultiTaskData]]:
    """Training and test rows of each group of customers; choices are in random order."""
    parts = []
    for begin in range(0, rows.n_tasks - tasks + 1, tasks):
        group = rows.select_tasks(rows.task_names[begin : begin + tasks])
        first = np.arange(group.n_rows) % _CHOICES < n_train
        parts.append((group.take(first), group.take(~first)))
    return parts


def _run_customers(panel: int, customers: int, tasks: int, data: int, group: int) -> dict[str, Any]:
    """Job: all methods of table 1 on a group of customers."""
    rows, truth = conjoint.customers(panel, customers)
    train, test = _groups(rows, tasks, data)[group]
    return conjoint.table_row(train, test, truth["covariance"].to_numpy())


def _run_computers(partition: int, persons: int | None) -> dict[str, Any]:
    """Job: the same on the computers' ratings, above or below the person's mean, and the ratings themselves."""
    train, test = conjoint.computers(partition, persons)
    labelled = conjoint.table_row(*conjoint.labels(train, test), gammas=_COMPUTER_GAMMAS)
    return {"labels": labelled, "ratings": conjoint.ratings(train, test, partition + 1)}


def _run_along(panel: int, customers: int, tasks: int, lams: list[float]) -> dict[str, Any]:
    """Job: a number of customers in figure 1 or 2, all groups."""
    rows, _ = conjoint.customers(panel, customers)
    groups = _groups(rows, tasks, _SHORT)
    result: dict[str, Any] = {"identity": conjoint.along(groups, lams)}
    # The dashed line: by the test rows, as in table 1.
    singles = [
        np.concatenate([conjoint.errors(test, conjoint.machine(train, 1.0, gamma)) for train, test in groups])
        for gamma in conjoint.SINGLE_GAMMAS
    ]
    result["individual"] = 100.0 * float(min(found.mean() for found in singles))
    if tasks >= _LEAST_FOR_Q:
        metrics = [conjoint.evidence(train, 1)[0] for train, _ in groups]
        result["learned"] = conjoint.along(groups, lams, metrics=metrics)
    return result


# ---------------------------------------------------------------- School


def _school(split: int, schools: int | None) -> tuple[MultiTaskData, MultiTaskData]:
    """Standardized training rows, and test rows."""
    train, test = datasets.load_school(split)
    if schools is not None:
        names = train.task_names[:schools]
        train, test = train.select_tasks(names), test.select_tasks(names)
    return train.standardize(), test


_EXACT: dict[str, Any] = {"method": "exact", "draws": 1, "chains": 1, "random_seed": 1, "progress": False}


def _exact(train: MultiTaskData, **fields: Any) -> Any:
    return MultiTaskKernelMachine(**fields).fit(train, **_EXACT)


# The errors are the same with a tighter tolerance, at several times the cost.
_TUBE: dict[str, Any] = {"method": "map", "tol": 1e-3, "max_iter": 2000, "random_seed": 1, "progress": False}


def _tube(train: MultiTaskData, lam: float, gamma: float) -> Any:
    """Regression with the epsilon-insensitive loss; ``gamma`` in units of T, as in :mod:`conjoint`."""
    likelihood = EpsilonInsensitive(C=_C(train, gamma), epsilon=_EPSILON)
    model = MultiTaskKernelMachine(likelihood=likelihood, lam=lam, amplitude=1.0)
    return model.fit(train, **_TUBE)


def _C(train: MultiTaskData, gamma: float) -> float:
    return 1.0 / (4.0 * gamma * train.n_tasks)


def _scores(fit: Any, test: MultiTaskData) -> dict[str, float]:
    return scores(test, fit.predict(test, random_seed=1)["mean"].to_numpy())


def _run_path(split: int, schools: int | None, lams: list[float]) -> dict[str, Any]:
    """Job: the curves of figure 3 on a split."""
    train, test = _school(split, schools)
    # The ridge whose penalty is gamma |w|^2 has noise variance gamma at amplitude 1.
    noise = float(np.sqrt(train.n_tasks))
    curves: dict[str, Any] = {
        _LITERAL: lambda lam: _tube(train, lam, 1.0 / train.n_tasks),
        "epsilon-insensitive loss, gamma = T": lambda lam: _tube(train, lam, 1.0),
        "square loss, gamma = T": lambda lam: _exact(
            train, lam=lam, amplitude=1.0, likelihood=Gaussian(noise=noise)
        ),
        "square loss, gamma by evidence": lambda lam: _exact(train, lam=lam),
    }
    rows = []
    for curve, fit in curves.items():
        # Where almost nothing is penalised liblinear takes long, and a few points say enough.
        at = lams[::3] if curve == _LITERAL else lams
        rows += [{"curve": curve, "lam": lam, **_scores(fit(lam), test)} for lam in at]
    return {"rows": rows}


def _held_out_ev(held_out: MultiTaskData, values: np.ndarray) -> float:
    return -float(np.mean((held_out.original_y() - values) ** 2))


def _by_yardstick(kind: Any, train: MultiTaskData, test: MultiTaskData, cv: int) -> dict[str, Any]:
    model = kind("squared")
    C = choose(model, train.folds(cv, random_seed=1), _RIDGE_WEIGHTS, _held_out_ev)
    return {"scores": scores(test, decision(model.fit(train, C), train, test)), "parameters": {"C": C}}


def _by_evidence(train: MultiTaskData, test: MultiTaskData, cv: int, Q: Any = "identity") -> dict[str, Any]:
    if Q == "pca":
        # Without a floor coefficients outside the first components could not be learned at all.
        Q = pca_metric(conjoint.coefficients(_exact(train)), floor=_PCA_FLOOR)
    fit = _exact(train, Q=Q)
    names = [name for name in ("lam", "noise", "amplitude") if name in fit.posterior]
    return {
        "scores": _scores(fit, test),
        "parameters": {name: float(fit.posterior[name].mean()) for name in names},
    }


def _squared_error(held_out: MultiTaskData, predicted: Any) -> float:
    return -float(np.mean((held_out.original_y() - predicted["mean"].to_numpy()) ** 2))


def _by_cv(train: MultiTaskData, test: MultiTaskData, cv: int, tube: bool) -> dict[str, Any]:
    grid: dict[str, Sequence[float]] = {"lam": _CV_LAMBDAS}
    model, settings = MultiTaskKernelMachine(), _EXACT
    if tube:
        likelihood = EpsilonInsensitive(epsilon=_EPSILON)
        model, settings = MultiTaskKernelMachine(likelihood=likelihood, lam=1.0, amplitude=1.0), _TUBE
        grid["likelihood.C"] = [_C(train, gamma) for gamma in _SCHOOL_GAMMAS]
    folds = train.folds(cv, random_seed=1)
    best = select(model, train, grid, cv=folds, score=_squared_error, n_jobs=1, **settings).best
    fit = best.fit(train, **settings)
    return {
        "scores": _scores(fit, test),
        "parameters": {name.removeprefix("likelihood."): field_value(best, name) for name in grid},
    }


_CV_LAMBDAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_PCA_FLOOR = 0.05
_SCHOOL_METHODS: dict[str, tuple[str, Any]] = {
    "pooled": ("one ridge regression", partial(_by_yardstick, PooledLinear)),
    "independent": ("a ridge regression for each school", partial(_by_yardstick, SeparateLinear)),
    "evidence": ("square loss; lambda by evidence", _by_evidence),
    "cv": ("square loss; lambda by cross-validation", partial(_by_cv, tube=False)),
    "pca": ("square loss; lambda by evidence, PCA Q", partial(_by_evidence, Q="pca")),
    "learned": ("square loss; lambda and Q by evidence", partial(_by_evidence, Q="learned")),
    "tube": (
        "epsilon-insensitive loss; lambda and gamma by cross-validation",
        partial(_by_cv, tube=True),
    ),
}


def _run_school(split: int, schools: int | None, method: str, cv: int) -> dict[str, Any]:
    """Job: a method on a split, everything chosen on the training rows."""
    return dict(_SCHOOL_METHODS[method][1](*_school(split, schools), cv))


# ---------------------------------------------------------------- jobs


def _customers_name(panel: int, tasks: int, data: int, group: int) -> str:
    return f"customers{panel:02d}-tasks{tasks:03d}-data{data:02d}-group{group}"


def _jobs(settings: Settings, tables: Sequence[int], figures: Sequence[int]) -> list[Job]:
    panels = range(1, settings.repeats + 1)
    jobs = []
    if tables and "customers" in settings.sets:
        jobs += [
            Job(
                _customers_name(panel, tasks, data, group),
                _run_customers,
                {
                    "panel": panel,
                    "customers": settings.customers,
                    "tasks": tasks,
                    "data": data,
                    "group": group,
                },
            )
            for panel in panels
            for tasks in settings.tasks
            for data in settings.data
            for group in range(settings.groups(tasks))
        ]
    if tables and "computers" in settings.sets:
        jobs += [
            Job(
                f"computers-partition{number:02d}",
                _run_computers,
                {"partition": number, "persons": settings.persons},
            )
            for number in range(settings.partitions + 1)
        ]
    if "customers" in settings.sets:
        shown = {1: (settings.few, (_LAMBDA,)), 2: (settings.two, settings.lams)}
        jobs += [
            Job(
                f"figure{figure}-panel{panel:02d}-tasks{tasks:03d}",
                _run_along,
                {"panel": panel, "customers": settings.customers, "tasks": tasks, "lams": list(lams)},
            )
            for figure, (sizes, lams) in shown.items()
            if figure in figures
            for panel in panels
            for tasks in sizes
        ]
    if 3 in figures and "school" in settings.sets:
        for split in range(1, settings.splits + 1):
            given = {"split": split, "schools": settings.schools}
            jobs.append(
                Job(f"school-split{split:02d}-path", _run_path, {**given, "lams": list(settings.school_lams)})
            )
            jobs += [
                Job(
                    f"school-split{split:02d}-{method}",
                    _run_school,
                    {**given, "method": method, "cv": settings.cv},
                )
                for method in _SCHOOL_METHODS
            ]
    return jobs


# ---------------------------------------------------------------- tables

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
    """One row a number of tasks and of rows: errors in percent, the paper's, and paired t over all customers.

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
                if (name := _customers_name(panel, tasks, data, group)) in results
            ]
            if found:
                rows.append({"tasks": tasks, "data": data, "groups": len(found), **_row(found)})
                paper = _PAPER_TABLE_1.get((tasks, data), (np.nan,) * 4)
                rows[-1] |= {f"paper {m}": v for m, v in zip(_PAPER_METHODS, paper, strict=True)}
    return pd.DataFrame(rows).set_index(["tasks", "data"]) if rows else pd.DataFrame()


def _row(found: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Errors in percent of several groups of tasks, with comparisons."""
    errors = {
        method: 100.0 * np.concatenate([one[method]["errors"] for one in found])
        for method in conjoint.METHODS
        if method in found[0]
    }
    compared = _compared({method: errors[method] for method in _PAPER_METHODS})
    row: dict[str, Any] = {method: float(values.mean()) for method, values in errors.items()}
    row["best"] = " ".join(method for method, numbers in compared.items() if numbers["p"] > _LEVEL)
    row |= {f"t of {a} against {b}": _t(errors, a, b) for a, b in _RIVALS}
    chosen = [one["identity"]["parameters"] for one in found]
    row["lam"] = float(np.median([c["lam"] for c in chosen]))
    row["fine lam"] = float(np.median([one["identity-fine"]["parameters"]["lam"] for one in found]))
    row["PCA iterations"] = float(np.mean([one["pca"]["parameters"]["iterations"] for one in found]))
    return row


# The others stand in a table of their own.
_MAIN = (*_PAPER_METHODS, "learned", "square")


def _indexed(table: pd.DataFrame) -> pd.DataFrame:
    """A table of text that begins with the numbers of tasks and of rows."""
    tasks = pd.Index([str(t) for t, _ in table.index], name="tasks")
    return pd.DataFrame({"data": [str(d) for _, d in table.index]}, index=tasks)


def _table1_text(table: pd.DataFrame, methods: Sequence[str] = _MAIN) -> pd.DataFrame:
    shown = _indexed(table)
    for method in methods:
        texts = []
        for _, row in table.iterrows():
            text = f"{row[method]:.1f}"
            if method in _PAPER_METHODS:
                text = f"**{text}**" if method in row["best"].split() else text
                paper = row.get(f"paper {method}", np.nan)
                text += "" if np.isnan(paper) else f" ({paper:.1f})"
            texts.append(text)
        shown[conjoint.METHODS[method]] = texts
    return shown


def _t_text(table: pd.DataFrame) -> pd.DataFrame:
    shown = _indexed(table)
    for a, b in _RIVALS:
        shown[f"{conjoint.METHODS[a]} against {conjoint.METHODS[b]}"] = [
            f"{value:.1f}" for value in table[f"t of {a} against {b}"]
        ]
    shown["lambda"] = [f"{value:g}" for value in table["lam"].round(4)]
    shown["fine lambda"] = [f"{value:g}" for value in table["fine lam"].round(4)]
    return shown


def computers_table(results: Results) -> pd.DataFrame:
    """One row a method on the computers: errors in percent of the labels, RMSE of the ratings; persons' means.

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


def _computers_text(table: pd.DataFrame) -> pd.DataFrame:
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
    """One row a method on School: explained variance in percent, pooled and per school, means and sd over splits.

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
        for method in _SCHOOL_METHODS
    }
    rows = []
    for method, found in values.items():
        row: dict[str, Any] = {"method": _SCHOOL_METHODS[method][0], "splits": len(found["EV"])}
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


def _school_text(table: pd.DataFrame) -> pd.DataFrame:
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


# ---------------------------------------------------------------- figures

# Off the picture for most lam: it is drawn, and does not set the axes.
_LITERAL = "epsilon-insensitive loss, gamma = 1"
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
        label = f"{conjoint.METHODS[str(method)]}, lambda = {_LAMBDA:g}"
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
    chosen = table.loc[_SCHOOL_METHODS["evidence"][0]]
    for ax, score, log in zip(axes, ("EV", "EV", "EV per task"), (False, True, True), strict=True):
        for curve, one in mean.groupby("curve", sort=False):
            ax.plot(one["lam"], one[score], "o-", ms=3, label=str(curve))
        shown = mean.loc[mean["curve"] != _LITERAL, score]
        margin = 0.15 * float(np.ptp(shown)) + 0.5
        ax.set_ylim(float(shown.min()) - margin, float(shown.max()) + margin)
        for method, colour in (("pooled", "0.2"), ("independent", "0.55")):
            label = _SCHOOL_METHODS[method][0]
            level = float(table[score][label])
            if not np.isnan(level):
                ax.axhline(level, color=colour, linestyle="--", linewidth=1, label=label)
        if score == "EV":
            ax.axhline(_PAPER_SCHOOL, color="C4", linestyle=":", label="the paper's figure, about 34.4")
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
        Folder for ``evgeniou2005-table1.csv`` and ``.md``, ``-computers``, ``-school``, the figures' ``.csv`` and
        ``.png``, and for the results of single jobs, from which a run that was cut off goes on. With ``quick``, names
        begin ``evgeniou2005-quick``.
    tables, figures : sequence of int
        Of 1, and of 1, 2, 3. Table 1 has the simulated customers and the computers; figure 3 comes with a table of
        School.
    sets : sequence of str, optional
        Of ``SETS``. Default: all.
    splits : int, optional
        Of School, 10 in the paper; with ``quick`` 2.
    repeats : int, optional
        Panels of simulated customers. Default: 2.
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
    panels = "customers" in asked and (bool(tables) or 1 in figures or 2 in figures)
    require_used("repeats", repeats, panels, "table 1, figures 1 and 2 and the set customers")
    settings: Settings = chosen(
        Settings.look() if quick else Settings(), cv, sets, splits=splits, repeats=repeats
    )
    stem = "evgeniou2005-quick" if quick else "evgeniou2005"
    folder = Path(out)
    jobs = _jobs(settings, tables, figures)
    if not jobs:
        raise ValueError(
            f"sets holds {', '.join(settings.sets)}, of which the tables {tuple(tables)} and figures {tuple(figures)} "
            "show nothing. Table 1 shows customers and computers, figures 1 and 2 customers, figure 3 school."
        )
    outcome = run_jobs(jobs, folder / f"{stem}-jobs", n_jobs, stem, console)
    results = outcome.results
    if 1 in tables:
        _write_table1(results, settings, folder, stem, console)
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
            ("Errors in percent, the paper's in brackets", _table1_text(table)),
            (
                "Errors in percent, other ways to choose",
                _table1_text(table, [m for m in conjoint.METHODS if m not in _MAIN]),
            ),
            ("Paired t over customers, and the lambda that validation chose", _t_text(table)),
        ]
        for heading, text in texts:
            print_frame(console, text, f"Table 1: {heading}")
        write_table(folder / f"{stem}-table1", table, texts, console)
    if not (table := computers_table(results)).empty:
        heading = f"Computers; the survey's own partition and {table.attrs['partitions']} drawn"
        text = _computers_text(table)
        print_frame(console, text, heading)
        write_table(folder / f"{stem}-computers", table, [(heading, text)], console)


def _write_school(results: Results, settings: Settings, folder: Path, stem: str, console: Console) -> None:
    table = school_table(results, settings)
    if table["splits"].any():
        heading = f"School, everything chosen on the training rows; {int(table['splits'].max())} splits"
        text = _school_text(table)
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
