"""Table 1 and figures 1 and 2 of Yu, Tresp & Schwaighofer (ICML 2005)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import pymc as pm
from rich.console import Console

from zoo.data import MultiTaskData
from zoo.experiments.outputs import markdown, print_failures, write_figure, write_table
from zoo.experiments.request import chosen, require_known, require_used
from zoo.experiments.topics import (
    PARTS,
    ZERO_MEAN,
    Design,
    KernelRidge,
    Learner,
    Machine,
    MultiTaskGP,
    Parameters,
    Problem,
    RegularisedTasks,
    SupportVectors,
    documents,
    draw,
    linear,
    scores,
    tune,
    with_positives,
)
from zoo.experiments.yardsticks import require_sklearn
from zoo.files import staged_file
from zoo.kernels import LearnedKernel
from zoo.likelihoods import Flat, Gaussian, InverseGammaOfSquare
from zoo.models.niw_gp import NIWGaussianProcess
from zoo.report import complete, print_frame
from zoo.runner import Job, Outcome, run_jobs

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["FIGURES", "TABLES", "Design", "Settings", "reproduce"]

TABLES = (1,)
FIGURES = (1, 2)
# AUC, micro F, macro F.
_PAPER = {
    "ALL": {
        "Multi-Task GP": (0.773, 0.605, 0.260),
        "Regularized MTL": (0.701, 0.571, 0.232),
        "Ridge": (0.756, 0.584, 0.245),
        "SVM": (0.697, 0.573, 0.221),
    },
    "PARTIALLY LABELED": {
        "Multi-Task GP": (0.826, 0.623, 0.281),
        "Regularized MTL": (0.709, 0.545, 0.216),
        "Ridge": (0.771, 0.564, 0.240),
        "SVM": (0.716, 0.547, 0.212),
    },
}

# ---------------------------------------------------------------- table 1


class _Method(NamedTuple):
    """A row of table 1."""

    label: str
    learner: Learner
    grid: Mapping[str, Sequence[float]] = {}
    paper: str | None = None
    kernel: bool = False  # keep the learned kernel for figure 2
    held_out: bool = True  # cross-validation, of one point for the threshold alone

    def points(self, quick: bool) -> list[Parameters]:
        """The grid; a quick one has at most two values a parameter."""
        axes = [
            list(dict.fromkeys((values[1], values[-2]))) if quick and len(values) > 2 else values
            for values in self.grid.values()
        ]
        return [dict(zip(self.grid, point, strict=True)) for point in product(*axes)]


_PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_FIFTEEN = {"iterations": (15,)}
_RIDGE = _Method("Ridge, with bias", KernelRidge(), {"penalty": _PENALTIES})
_SVM = _Method("SVM", SupportVectors(), {"C": _COSTS}, paper="SVM")
_METHODS = {
    "em15": _Method(
        "Multi-Task GP, 15 EM iterations",
        MultiTaskGP(accelerate=False),
        _FIFTEEN,
        paper="Multi-Task GP",
        kernel=True,
    ),
    "em-tuned": _Method(
        "Multi-Task GP, noise floor and tau by CV",
        MultiTaskGP(accelerate=False),
        {"noise_floor": (0.0, 0.2), "tau": (1.0, 10.0, 100.0, 300.0), **_FIFTEEN},
    ),
    "em15-bias": _Method(
        "Multi-Task GP with bias, 15 EM iterations", MultiTaskGP(accelerate=False, bias=True), _FIFTEEN
    ),
    "em-bias": _Method(
        "Multi-Task GP with bias, noise floor and tau by CV",
        MultiTaskGP(accelerate=False, bias=True),
        {"noise_floor": (0.0, 0.2), "tau": (1.0, 10.0, 30.0, 100.0, 300.0), **_FIFTEEN},
        kernel=True,
    ),
    "rmtl": _Method(
        "Regularized MTL",
        RegularisedTasks(),
        {"C": (0.1, 0.3, 1.0, 3.0, 10.0), "mu": (0.1, 1.0, 10.0, 100.0)},
        paper="Regularized MTL",
    ),
    "ridge": _Method("Ridge, no bias", KernelRidge(bias=False), {"penalty": _PENALTIES}, paper="Ridge"),
    "ridge-bias": _RIDGE,
    "svm": _SVM,
    "em": _Method("Multi-Task GP, 300 EM iterations", MultiTaskGP(), {"iterations": (300,)}, held_out=False),
}
# The small study, where full Bayes is cheap enough.
_SMALL_METHODS = {
    **{key: _METHODS[key] for key in ("em15", "em", "em15-bias", "em-bias", "ridge", "ridge-bias", "svm")},
    "gibbs": _Method("Multi-Task GP, full Bayes", MultiTaskGP("gibbs"), {"draws": (300,)}),
    "gibbs-bias": _Method(
        "Multi-Task GP with bias, full Bayes", MultiTaskGP("gibbs", bias=True), {"draws": (300,)}
    ),
}


_DESIGN = Design()
_SMALL_DESIGN = Design(documents=200, topics=15, labelled=60, fewest=150)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    design, small : Design
        Of table 1, and of the study with full Bayes below it.
    repeats, small_repeats : int
        Random repeats of each.
    cv : int
        Folds of the cross-validation.
    quick : bool
        Small grids.
    sizes : tuple of int
        Training documents in figure 2.
    curves : int
        Random repeats of figure 2.
    toys : int
        Random repeats of figure 1.
    toy_draws : int
        Draws of full Bayes in each.
    """

    design: Design = _DESIGN
    small: Design = _SMALL_DESIGN
    repeats: int = 10
    small_repeats: int = 5
    cv: int = 3
    quick: bool = False
    sizes: tuple[int, ...] = (10, 20, 50, 100, 200, 300, 400, 500)
    curves: int = 50
    toys: int = 10
    toy_draws: int = 1000

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            design=Design(documents=150, topics=6, labelled=60, fewest=200),
            small=Design(documents=60, topics=4, labelled=40, fewest=300),
            repeats=1,
            small_repeats=1,
            quick=True,
            sizes=(10, 50),
            curves=2,
            toys=1,
            toy_draws=100,
        )


def _score(
    design: Mapping[str, int],
    repeat: int,
    method: str,
    points: list[Parameters],
    cv: int,
    small: bool,
    folder: Path,
) -> dict[str, Any]:
    """Job: scores of a method on both test sets of a repeat, its parameters chosen on the labels."""
    problem, _ = draw(Design(**design), repeat)
    row = (_SMALL_METHODS if small else _METHODS)[method]
    tuned = tune(row.learner, problem, points, cv, repeat)
    machines: dict[int, tuple[Machine, np.ndarray]] = {}
    result: dict[str, Any] = {"parameters": tuned.parameters, "grid": tuned.table, "scores": {}, "facts": {}}
    for criterion, parameters in tuned.parameters.items():
        number = points.index(parameters)
        if number not in machines:
            machine = row.learner.fit(problem, **parameters)
            machines[number] = machine, machine.decide(np.arange(len(problem.truth)))
        machine, f = machines[number]
        threshold = tuned.thresholds.get(criterion)
        result["scores"][criterion] = {
            part: _by_rule(problem.truth, f, used, threshold) for part, used in problem.parts().items()
        }
        result["facts"][criterion] = {**machine.facts, "threshold": threshold}
    if row.kernel and not small:
        machine, _ = machines[points.index(tuned.parameters["AUC"])]
        assert machine.learned is not None
        machine.learned().save(_kernel_file(folder, method, repeat), overwrite=True)
    return result


def _by_rule(
    truth: np.ndarray, f: np.ndarray, used: np.ndarray, threshold: float | None
) -> dict[str, dict[str, float]]:
    """Scores of the sign rule, and of the threshold if there is one."""
    found = {"sign": scores(truth, f, used)}
    return found if threshold is None else {**found, "threshold": scores(truth, f, used, threshold)}


def _kernel_file(folder: Path, method: str, repeat: int) -> Path:
    return folder / f"kernel-{method}-repeat{repeat:02d}.npz"


def _table_jobs(settings: Settings, folder: Path, small: bool = False) -> list[Job]:
    design, repeats = (
        (settings.small, settings.small_repeats) if small else (settings.design, settings.repeats)
    )
    return [
        Job(
            _job_name(small, method, repeat),
            partial(_score, folder=folder),
            {
                "design": asdict(design),
                "repeat": repeat,
                "method": method,
                "points": row.points(settings.quick),
                "cv": settings.cv if row.held_out else 0,
                "small": small,
            },
        )
        for repeat in range(1, repeats + 1)
        for method, row in (_SMALL_METHODS if small else _METHODS).items()
    ]


def _job_name(small: bool, method: str, repeat: int) -> str:
    return f"{'small' if small else 'table1'}-repeat{repeat:02d}-{method}"


def score_table(
    methods: Mapping[str, _Method],
    results: Mapping[str, Mapping[str, Any]],
    repeats: int,
    small: bool = False,
) -> pd.DataFrame:
    """One row a test set and method: the paper's scores, and ours with standard deviations over finished repeats.

    AUC is that of the parameters chosen by AUC, F-values those of the parameters chosen by micro F.
    """
    rows = []
    for part in PARTS:
        for method, description in methods.items():
            names = [_job_name(small, method, repeat) for repeat in range(1, repeats + 1)]
            finished = [results[name] for name in names if name in results]
            row: dict[str, Any] = {"part": part, "method": description.label}
            paper = _PAPER[part].get(description.paper or "", (np.nan,) * 3)
            row.update(zip(("paper AUC", "paper micro F", "paper macro F"), paper, strict=True))
            for column, criterion, rule, score in _COLUMNS:
                found = [r["scores"][criterion][part].get(rule, {}).get(score, np.nan) for r in finished]
                values = pd.Series(found, dtype=float)
                row[column], row[f"{column} sd"] = values.mean(), values.std(ddof=1)
            row["repeats"] = len(finished)
            rows.append(row)
    return pd.DataFrame(rows).set_index(["part", "method"])


# Column, criterion of the parameters, rule of the labels, score.
_COLUMNS = (
    ("AUC", "AUC", "sign", "AUC"),
    ("micro F", "micro F", "sign", "micro F"),
    ("macro F", "micro F", "sign", "macro F"),
    ("micro F, threshold", "micro F", "threshold", "micro F"),
    ("macro F, threshold", "micro F", "threshold", "macro F"),
    ("AUC by accuracy", "accuracy", "sign", "AUC"),
    ("micro F by accuracy", "accuracy", "sign", "micro F"),
    ("macro F by accuracy", "accuracy", "sign", "macro F"),
)


def _shown(table: pd.DataFrame) -> pd.DataFrame:
    """One test set as text: the paper's score, and ours as mean (sd)."""
    shown = pd.DataFrame(index=table.index)
    for column, *_ in _COLUMNS[:5]:
        if f"paper {column}" in table and table[f"paper {column}"].notna().any():
            shown[f"paper {column}"] = ["" if np.isnan(v) else f"{v:.3f}" for v in table[f"paper {column}"]]
        shown[column] = [_with_sd(*pair) for pair in zip(table[column], table[f"{column} sd"], strict=True)]
    return shown


def _with_sd(mean: float, sd: float) -> str:
    if np.isnan(mean):
        return ""
    return f"{mean:.3f}" if np.isnan(sd) else f"{mean:.3f} ({sd:.3f})"


# ---------------------------------------------------------------- figure 2


class _Curve(NamedTuple):
    """A line of figure 2; ``kernel``: the method of table 1 that learned it, None for the base kernel."""

    label: str
    kernel: str | None
    method: _Method


_CURVES = (
    _Curve("ridge, learned kernel", "em15", _RIDGE),
    _Curve("ridge, learned kernel with bias", "em-bias", _RIDGE),
    _Curve("ridge, base kernel", None, _RIDGE),
    _Curve("SVM, base kernel", None, _SVM),
    _Curve("ridge without bias, learned kernel", "em15", _METHODS["ridge"]),
    _Curve("ridge without bias, base kernel", None, _METHODS["ridge"]),
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
        kernel = LearnedKernel.load(_kernel_file(folder, learned, repeat))
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
    method: _Method, problem: Problem, test: np.ndarray, quick: bool, cv: int, seed: int
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

_GRID = np.linspace(-1.0, 1.0, 41)
_FUNCTIONS = 20
_POINTS = 10
_TOY_NOISE = 0.1
_BIAS_VARIANCE, _SLOPE_VARIANCE = 4.0, 50.0
_LENGTHSCALE = 0.5


def neural_network_kernel(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Covariance (n, m) of a network of infinitely many sigmoid units (Williams 1998); inputs (n,) and (m,)."""

    def product_of(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return 2.0 * (_BIAS_VARIANCE + _SLOPE_VARIANCE * a * b)

    x, y = x[:, None], y[None, :]
    return np.asarray(
        2.0
        / np.pi
        * np.arcsin(product_of(x, y) / np.sqrt((1.0 + product_of(x, x)) * (1.0 + product_of(y, y))))
    )


def toy_data(seed: int) -> MultiTaskData:
    """Noisy functions from :func:`neural_network_kernel`, each at its own random points."""
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1.0, 1.0, size=(_FUNCTIONS, _POINTS))
    f = [rng.multivariate_normal(np.zeros(_POINTS), neural_network_kernel(row, row)) for row in x]
    y = np.array(f) + _TOY_NOISE * rng.standard_normal(x.shape)
    return MultiTaskData.from_arrays(x.reshape(-1, 1), y.ravel(), np.repeat(np.arange(_FUNCTIONS), _POINTS))


def _toy(seed: int, draws: int) -> dict[str, Any]:
    """Job: kernels on the grid, and how near they come to the true one."""
    data, grid = toy_data(seed), _GRID[:, None]
    base = pm.gp.cov.ExpQuad(1, ls=_LENGTHSCALE)
    factory = NIWGaussianProcess(base_kernel=base, pi=ZERO_MEAN, likelihood=Gaussian(noise=Flat()))
    em = factory.fit(data, "em", progress=False)
    gibbs = replace(factory, likelihood=Gaussian(noise=InverseGammaOfSquare(1.0, 0.01))).fit(
        data, "gibbs", draws=draws, tune=draws // 2, chains=1, random_seed=seed, progress=False, cores=1
    )
    complete(gibbs)
    kernels = {
        "true": neural_network_kernel(_GRID, _GRID),
        "base": np.exp(-0.5 * ((_GRID[:, None] - _GRID) / _LENGTHSCALE) ** 2),
        "learned, EM": em.learned_kernel(combine=False).kernel_matrix(grid),
        "learned, full Bayes": gibbs.learned_kernel().kernel_matrix(grid),
    }
    return {
        "kernels": {name: matrix.tolist() for name, matrix in kernels.items()},
        "scores": {name: nearness(matrix, kernels["true"]) for name, matrix in kernels.items()},
        "noise": {
            "learned, EM": float(em.posterior["noise"].mean()),
            "learned, full Bayes": float(gibbs.posterior["noise"].mean()),
        },
    }


def nearness(matrix: np.ndarray, truth: np.ndarray) -> dict[str, float]:
    """Correlation of the entries; Frobenius error over the norm of the truth, as it is and best scaled."""
    scale = np.vdot(matrix, truth) / np.vdot(matrix, matrix)
    size = np.linalg.norm(truth)
    return {
        "correlation": float(np.corrcoef(matrix.ravel(), truth.ravel())[0, 1]),
        "relative error": float(np.linalg.norm(matrix - truth) / size),
        "relative error, scaled": float(np.linalg.norm(scale * matrix - truth) / size),
    }


def _figure1(kernels: Mapping[str, Any]) -> Figure:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(
        1, 1 + len(kernels), figsize=(3.1 * (1 + len(kernels)), 3.1), layout="constrained"
    )
    data = toy_data(1)
    for rows in data.rows_by_task():
        rows = rows[np.argsort(data.X[rows, 0])]
        axes[0].plot(data.X[rows, 0], data.y[rows], "o-", markersize=2.5, linewidth=0.7)
    axes[0].set_title("toy data", fontsize=10)
    limit = max(np.abs(matrix).max() for matrix in kernels.values())
    for ax, (name, matrix) in zip(axes[1:], kernels.items(), strict=True):
        image = ax.imshow(matrix, extent=(-1, 1, 1, -1), vmin=-limit, vmax=limit, cmap="RdBu_r")
        ax.set_title(f"{name} kernel" if name in ("true", "base") else name, fontsize=10)
    figure.colorbar(image, ax=axes[1:].tolist(), shrink=0.8)
    return figure


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
    first = _table_jobs(settings, folder)
    if not tables:
        learning = {curve.kernel for curve in _CURVES}
        first = [job for job in first if 2 in figures and job.settings["method"] in learning]
        if 2 in figures:
            first = [job for job in first if job.settings["repeat"] <= settings.curves]
    else:
        first += _table_jobs(settings, folder, small=True)
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
    main = score_table(_METHODS, outcome.results, settings.repeats)
    small = score_table(_SMALL_METHODS, outcome.results, settings.small_repeats, small=True)
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
        {c: [_with_sd(*pair) for pair in zip(mean[c], sd[c], strict=True)] for c in columns}, index=mean.index
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
