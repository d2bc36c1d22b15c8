"""Table 1 and figures 1 and 2 of Yu, Tresp & Schwaighofer (ICML 2005)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
from rich.console import Console

from zoo.experiments.outputs import markdown, print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.topics import scores, tune
from zoo.experiments.topics_data import PARTS, Design, Problem, documents, draw, linear, with_positives
from zoo.experiments.yardsticks import require_sklearn
from zoo.experiments.yu2005_table import (
    METHODS,
    RIDGE,
    SMALL_METHODS,
    SVM,
    Method,
    Settings,
    _shown,
    kernel_file,
    score_table,
    table_jobs,
    with_sd,
)
from zoo.experiments.yu2005_toy import _figure1, _toy
from zoo.kernels import LearnedKernel
from zoo.report import print_frame
from zoo.support.files import staged_file
from zoo.support.runner import Job, Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "Design", "reproduce"]

TABLES = (1,)
FIGURES = (1, 2)

# ---------------------------------------------------------------- table 1


# ---------------------------------------------------------------- figure 2


class _Curve(NamedTuple):
    """A line of figure 2; ``kernel``: the method of table 1 that learned it, None for the base kernel."""

    label: str
    kernel: str | None
    method: Method


_CURVES = (
    _Curve("ridge, learned kernel", "em15", RIDGE),
    _Curve("ridge, learned kernel with bias", "em-bias", RIDGE),
    _Curve("ridge, base kernel", None, RIDGE),
    _Curve("SVM, base kernel", None, SVM),
    _Curve("ridge without bias, learned kernel", "em15", METHODS["ridge"]),
    _Curve("ridge without bias, base kernel", None, METHODS["ridge"]),
)


def _generalise(
    design: Mapping[str, int],
    repeat: int,
    curve: int,
    sizes: list[int],
    cv: int,
    quick: bool,
    folder: Path,
) -> dict[str, Any]:
    """Job: scores on topics that were not among the tasks of a repeat, by line and training size.

    Documents beside a pool of the largest training size are the test set.
    """
    X, Y = documents()
    rng = np.random.default_rng([1998, curve])
    _, others = draw(Design(**design), repeat)
    truth = Y[:, others]
    pool = np.sort(with_positives(truth, max(sizes), rng, fewest=1))
    orders = [_order(truth[pool, t], rng) for t in range(len(others))]
    test = np.setdiff1d(np.arange(len(Y)), pool)
    kernels: dict[str | None, np.ndarray] = {None: linear(X, X[pool])}
    for learned in {c.kernel for c in _CURVES if c.kernel}:
        kernel = LearnedKernel.load(kernel_file(folder, learned, repeat))
        kernels[learned] = kernel.kernel_matrix(X, X[pool])
    result: dict[str, Any] = {"topics": len(others), "rows": []}
    for size in sizes:
        labels = np.full((len(pool), len(others)), np.nan)
        for t, order in enumerate(orders):
            rows = order[:size]
            labels[rows, t] = np.where(truth[pool[rows], t], 1.0, -1.0)
        for label, name, method in _CURVES:
            problem = Problem(X, truth, pool, labels, kernels[name])
            found = _tuned_scores(method, problem, test, quick, cv, curve)
            result["rows"].append({"line": label, "documents": size, **found})
    return result


def _order(positive: np.ndarray, rng: np.random.Generator) -> np.ndarray:
    """A random order of the pool that begins with a positive document: with none nothing can be learned."""
    order = rng.permutation(len(positive))
    first = int(np.flatnonzero(positive[order])[0])
    order[[0, first]] = order[[first, 0]]
    return order


def _tuned_scores(
    method: Method, problem: Problem, test: np.ndarray, quick: bool, cv: int, seed: int
) -> dict[str, float]:
    tuned = tune(method.learner, problem, method.points(quick), cv, seed)
    result: dict[str, float] = {}
    for criterion, names in (("AUC", ("AUC",)), ("micro F", ("micro F", "macro F"))):
        f = method.learner.fit(problem, **tuned.parameters[criterion]).decide(test)
        found = scores(problem.truth[test], f, np.ones(f.shape, dtype=bool))
        result.update((name, found[name]) for name in names)
    return result


def _curve_jobs(settings: Settings, folder: Path) -> list[Job]:
    jobs = []
    for curve in range(1, settings.curves + 1):
        repeat = 1 + (curve - 1) % settings.repeats
        given = {
            "design": asdict(settings.design),
            "repeat": repeat,
            "curve": curve,
            "sizes": list(settings.sizes),
            "cv": settings.cv,
            "quick": settings.quick,
        }
        name = f"figure2-curve{curve:02d}-repeat{repeat:02d}"
        jobs.append(Job(name, partial(_generalise, folder=folder), given))
    return jobs


def _figure2(frame: pd.DataFrame) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(13.0, 4.4), layout="constrained")
    lines = list(dict.fromkeys(frame["line"]))
    for ax, score in zip(axes, ("AUC", "micro F", "macro F"), strict=True):
        for number, line in enumerate(lines):
            by_size = frame[frame["line"] == line].groupby("documents")[score]
            mean, sd = by_size.mean(), by_size.std(ddof=1).fillna(0.0)
            shift = 1.0 + 0.015 * (number - len(lines) / 2)  # error bars beside each other
            style = ":" if "without bias" in line else "-"
            ax.errorbar(mean.index * shift, mean, sd, label=line, linestyle=style, linewidth=1.2, capsize=2)
        ax.set_xscale("log")
        ax.set_xticks(mean.index, [str(size) for size in mean.index], fontsize=8)
        ax.minorticks_off()
        ax.set_xlabel("training documents")
        ax.set_title(score, fontsize=10)
    handles, labels = axes[0].get_legend_handles_labels()
    figure.legend(handles, labels, loc="outside lower center", ncols=3, frameon=False, fontsize=8)
    return figure


# ---------------------------------------------------------------- figure 1


# ---------------------------------------------------------------- the whole


def reproduce(
    out: str | Path,
    tables: Sequence[int] = TABLES,
    figures: Sequence[int] = FIGURES,
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
        Folder for ``yu2005-table1.csv`` and ``.md``, ``yu2005-figure<n>.csv`` and ``.png``, and for the results of
        single jobs and the learned kernels, from which a run that was cut off goes on. With ``quick``, names begin
        ``yu2005-quick``.
    tables, figures : sequence of int
        Of 1, and of 1, 2.
    repeats : int, optional
        Random repeats of table 1, 10 in the paper; with ``quick`` 1.
    cv : int
        Folds of the cross-validation.
    n_jobs : int
        Processes.
    quick : bool
        Few documents and topics, small grids: a look at whether everything works.
    console : rich.console.Console, optional

    Returns
    -------
    Outcome
    """
    require_sklearn()
    require_known(table=(tables, TABLES), figure=(figures, FIGURES))
    console = console or Console(highlight=False)
    require_used("repeats", repeats, bool(tables) or 2 in figures, "table 1 and figure 2")
    settings: Settings = chosen(Settings.look() if quick else Settings(), cv, repeats=repeats)
    stem = "yu2005-quick" if quick else "yu2005"
    folder = Path(out)
    outcome = _run(settings, tables, figures, folder / f"{stem}-jobs", n_jobs, stem, console)
    if tables:
        _write_table(settings, outcome, folder / f"{stem}-table1", console)
    if 1 in figures:
        _write_toy(outcome, folder / f"{stem}-figure1", console)
    if 2 in figures:
        _write_curves(outcome, folder / f"{stem}-figure2", console)
    print_failures(outcome, console)
    return outcome


def _run(
    settings: Settings,
    tables: Sequence[int],
    figures: Sequence[int],
    folder: Path,
    n_jobs: int,
    title: str,
    console: Console,
) -> Outcome:
    """The jobs of table 1 first: figure 2 loads the kernels that they learn."""
    first = table_jobs(settings, folder)
    if not tables:
        learning = {curve.kernel for curve in _CURVES}
        first = [job for job in first if 2 in figures and job.settings["method"] in learning]
        if 2 in figures:
            first = [job for job in first if job.settings["repeat"] <= settings.curves]
    else:
        first += table_jobs(settings, folder, small=True)
    if 1 in figures:
        first += [
            Job(f"figure1-seed{seed:02d}", _toy, {"seed": seed, "draws": settings.toy_draws})
            for seed in range(1, settings.toys + 1)
        ]
    outcome = run_jobs(first, folder, n_jobs, title, console)
    if 2 not in figures:
        return outcome
    curves = run_jobs(_curve_jobs(settings, folder), folder, n_jobs, f"{title}, figure 2", console)
    return Outcome({**outcome.results, **curves.results}, {**outcome.failures, **curves.failures})


def _write_table(settings: Settings, outcome: Outcome, path: Path, console: Console) -> None:
    main = score_table(METHODS, outcome.results, settings.repeats)
    small = score_table(SMALL_METHODS, outcome.results, settings.small_repeats, small=True)
    small = small.drop(columns=[name for name in small if str(name).startswith("paper")])
    texts = []
    for design, table in ((settings.design, main), (settings.small, small)):
        size = f"{design.documents:,} documents, {design.topics} topics, {design.labelled} labels each"
        for part in PARTS:
            texts.append((f"{part} ({size})", _shown(pd.DataFrame(table.loc[part]))))
            print_frame(console, texts[-1][1], f"Table 1: {texts[-1][0]}")
    write_table(path, pd.concat({"table 1": main, "small": small}, names=["study"]), texts, console)


def _write_toy(outcome: Outcome, path: Path, console: Console) -> None:
    found = {name: numbers for name, numbers in outcome.results.items() if name.startswith("figure1-")}
    if not found:
        return
    frame = pd.DataFrame(
        [
            {"seed": int(name[-2:]), "kernel": kernel, **row}
            for name, numbers in found.items()
            for kernel, row in numbers["scores"].items()
            if kernel != "true"
        ]
    )
    columns = ["correlation", "relative error", "relative error, scaled"]
    by_kernel = frame.groupby("kernel", sort=False)[columns]
    mean, sd = by_kernel.mean(), by_kernel.std(ddof=1)
    text = pd.DataFrame(
        {c: [with_sd(*pair) for pair in zip(mean[c], sd[c], strict=True)] for c in columns}, index=mean.index
    )
    print_frame(console, text, "Figure 1: learned against true kernel, mean (sd) over random repeats")
    kernels = {name: np.array(matrix) for name, matrix in next(iter(found.values()))["kernels"].items()}
    with staged_file(f"{path}.md") as temporary:
        temporary.write_text(markdown(text), encoding="utf-8")
    write_figure(path, frame, _figure1, kernels, console)


def _write_curves(outcome: Outcome, path: Path, console: Console) -> None:
    parts = [
        pd.DataFrame(numbers["rows"]).assign(curve=name)
        for name, numbers in outcome.results.items()
        if name.startswith("figure2-")
    ]
    if not parts:
        return
    frame = pd.concat(parts, ignore_index=True)
    write_figure(path, frame, _figure2, frame, console)
