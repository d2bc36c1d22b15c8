"""Table 1 of Yu, Tresp & Schwaighofer (2005): methods, settings, jobs, and the table."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd

from zoo.experiments.topics import (
    KernelRidge,
    Learner,
    Machine,
    MultiTaskGP,
    RegularisedTasks,
    SupportVectors,
    scores,
    tune,
)
from zoo.experiments.topics_data import PARTS, Design, Parameters, draw
from zoo.support.runner import Job

if TYPE_CHECKING:
    pass

__all__ = [
    "METHODS",
    "RIDGE",
    "SMALL_METHODS",
    "Method",
    "Settings",
    "kernel_file",
    "score_table",
    "table_jobs",
    "with_sd",
]

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


class Method(NamedTuple):
    """A row of table 1."""

    label: str
    learner: Learner
    grid: Mapping[str, Sequence[float]] = {}
    paper: str | None = None
    kernel: bool = False  # keep the learned kernel for figure 2
    held_out: bool = True  # cross-validation, of one point for the threshold alone

    def points(self, quick: bool) -> list[Parameters]:
        """The grid; a quick one has at most two values per parameter."""
        axes = [
            list(dict.fromkeys((values[1], values[-2]))) if quick and len(values) > 2 else values
            for values in self.grid.values()
        ]
        return [dict(zip(self.grid, point, strict=True)) for point in product(*axes)]


_PENALTIES = (0.003, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
_COSTS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_FIFTEEN = {"iterations": (15,)}
RIDGE = Method("Ridge, with bias", KernelRidge(), {"penalty": _PENALTIES})
SVM = Method("SVM", SupportVectors(), {"C": _COSTS}, paper="SVM")
METHODS = {
    "em15": Method(
        "Multi-Task GP, 15 EM iterations",
        MultiTaskGP(accelerate=False),
        _FIFTEEN,
        paper="Multi-Task GP",
        kernel=True,
    ),
    "em-tuned": Method(
        "Multi-Task GP, noise floor and tau by CV",
        MultiTaskGP(accelerate=False),
        {"noise_floor": (0.0, 0.2), "tau": (1.0, 10.0, 100.0, 300.0), **_FIFTEEN},
    ),
    "em15-bias": Method(
        "Multi-Task GP with bias, 15 EM iterations", MultiTaskGP(accelerate=False, bias=True), _FIFTEEN
    ),
    "em-bias": Method(
        "Multi-Task GP with bias, noise floor and tau by CV",
        MultiTaskGP(accelerate=False, bias=True),
        {"noise_floor": (0.0, 0.2), "tau": (1.0, 10.0, 30.0, 100.0, 300.0), **_FIFTEEN},
        kernel=True,
    ),
    "rmtl": Method(
        "Regularized MTL",
        RegularisedTasks(),
        {"C": (0.1, 0.3, 1.0, 3.0, 10.0), "mu": (0.1, 1.0, 10.0, 100.0)},
        paper="Regularized MTL",
    ),
    "ridge": Method("Ridge, no bias", KernelRidge(bias=False), {"penalty": _PENALTIES}, paper="Ridge"),
    "ridge-bias": RIDGE,
    "svm": SVM,
    "em": Method("Multi-Task GP, 300 EM iterations", MultiTaskGP(), {"iterations": (300,)}, held_out=False),
}
# The small study, where full Bayes is cheap enough.
SMALL_METHODS = {
    **{key: METHODS[key] for key in ("em15", "em", "em15-bias", "em-bias", "ridge", "ridge-bias", "svm")},
    "gibbs": Method("Multi-Task GP, full Bayes", MultiTaskGP("gibbs"), {"draws": (300,)}),
    "gibbs-bias": Method(
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
    row = (SMALL_METHODS if small else METHODS)[method]
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
        machine.learned().save(kernel_file(folder, method, repeat), overwrite=True)
    return result


def _by_rule(
    truth: np.ndarray, f: np.ndarray, used: np.ndarray, threshold: float | None
) -> dict[str, dict[str, float]]:
    """Scores of the sign rule, and of the threshold if there is one."""
    found = {"sign": scores(truth, f, used)}
    return found if threshold is None else {**found, "threshold": scores(truth, f, used, threshold)}


def kernel_file(folder: Path, method: str, repeat: int) -> Path:
    """File of the kernel that a method has learned."""
    return folder / f"kernel-{method}-repeat{repeat:02d}.npz"


def table_jobs(settings: Settings, folder: Path, small: bool = False) -> list[Job]:
    """Jobs of table 1."""
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
        for method, row in (SMALL_METHODS if small else METHODS).items()
    ]


def _job_name(small: bool, method: str, repeat: int) -> str:
    return f"{'small' if small else 'table1'}-repeat{repeat:02d}-{method}"


def score_table(
    methods: Mapping[str, Method],
    results: Mapping[str, Mapping[str, Any]],
    repeats: int,
    small: bool = False,
) -> pd.DataFrame:
    """One row per test set and method: the paper's scores, and ours with standard deviations over finished repeats.

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
        shown[column] = [with_sd(*pair) for pair in zip(table[column], table[f"{column} sd"], strict=True)]
    return shown


def with_sd(mean: float, sd: float) -> str:
    """A mean with its standard deviation, as text."""
    if np.isnan(mean):
        return ""
    return f"{mean:.3f}" if np.isnan(sd) else f"{mean:.3f} ({sd:.3f})"
