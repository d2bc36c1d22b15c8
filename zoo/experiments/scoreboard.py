"""The scoreboard: models at their defaults beside what people use instead, on the same folds.

``zoo benchmark`` runs it. One job is a method on a fold, and leaves a file, so that a run that was stopped goes on.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from rich.console import Console

from zoo.data.multitask import MultiTaskData
from zoo.experiments.outputs import print_failures, write_figure, write_table
from zoo.experiments.request import require_known
from zoo.experiments.scoreboard_methods import METHODS, Said
from zoo.experiments.scoreboard_ranks import average_ranks, draw_ranks
from zoo.experiments.scoreboard_rivals import RIVALS
from zoo.experiments.scoreboard_sets import SETS
from zoo.experiments.yardsticks import require_sklearn
from zoo.support.checks import whole_number
from zoo.support.memory import with_peak
from zoo.support.runner import Job, Outcome, run_jobs

__all__ = [
    "NAMES",
    "costs_of",
    "methods_named",
    "one_job",
    "print_scoreboard",
    "run_scoreboard",
    "scores_of",
    "table_of",
]

# Of the number of folds: a method within this many standard errors of the best counts as one of the best.
_CLOSE = 1.0
_SMALLEST = 1e-12

NAMES = (*METHODS, *RIVALS)


def scores_of(said: Said, test: MultiTaskData, labels: bool) -> dict[str, float]:
    """Root mean squared error and cover of real responses; log loss and AUC, averaged over tasks, of labels."""
    y = test.y
    if not labels:
        found = {"score": float(np.sqrt(np.mean((said.mean - y) ** 2)))}
        if said.lower is not None and said.upper is not None:
            found["cover"] = float(np.mean((said.lower <= y) & (y <= said.upper)))
        return found
    positive, p = y > 0.0, np.clip(said.mean, _SMALLEST, 1.0 - _SMALLEST)
    loss = -np.log(np.where(positive, p, 1.0 - p))
    return {"score": float(loss.mean()), "AUC": _auc_by_task(positive, said.mean, test.task)}


def _auc_by_task(positive: np.ndarray, p: np.ndarray, task: np.ndarray) -> float:
    """Probability that a positive row of a task is above a negative one, ties by half; mean over tasks with both."""
    found = []
    for t in np.unique(task):
        up, down = p[(task == t) & positive], p[(task == t) & ~positive]
        if len(up) and len(down):
            order = np.sort(down)
            above = np.searchsorted(order, up, "left") + np.searchsorted(order, up, "right")
            found.append(above.mean() / (2.0 * len(down)))
    return float(np.mean(found)) if found else float("nan")


def one_job(data: str, method: str, fold: int) -> dict[str, Any]:
    """Fit a method to a fold of a set, and score what it says of the test rows; or say why a rival does not."""
    chosen = SETS[data]
    train, test = chosen.load(fold)
    start = time.perf_counter()
    rival = RIVALS.get(method)
    if rival is not None and (reason := rival.refuses(train, chosen.labels)):
        return {"left_out": reason}
    run = METHODS[method] if rival is None else rival.run
    said, peak = with_peak(lambda: run(train, test, chosen.labels))
    found: dict[str, Any] = {"seconds": time.perf_counter() - start, **scores_of(said, test, chosen.labels)}
    if peak is not None:
        found["gigabytes"] = peak / 1e9
    if not np.isfinite(said.mean).all():
        raise ValueError(f"{method} says nothing of some rows of {data}, fold {fold}.")
    return found if said.r_hat is None else {**found, "r_hat": float(said.r_hat)}


def run_scoreboard(
    out: Path,
    sets: Sequence[str] | None = None,
    methods: Sequence[str] | None = None,
    folds: int | None = None,
    n_jobs: int = 1,
    console: Console | None = None,
) -> Outcome:
    """Run what has no file in ``out`` yet, and write ``scoreboard.csv`` and ``scoreboard.md`` there.

    Where two methods or more have scores on two sets or more, ``ranks.png`` shows their average ranks.

    Parameters
    ----------
    out : Path
    sets, methods : sequence of str, optional
        Names of ``SETS`` and ``NAMES``; default: all.
    folds : int, optional
        Folds of each set at most.
    n_jobs : int
        Processes at a time.

    Raises
    ------
    ImportError
        scikit-learn is not installed.
    ValueError
        A name is unknown.
    """
    require_sklearn()
    require_known(sets=(sets, list(SETS)), methods=(methods, list(NAMES)))
    most = None if folds is None else whole_number(folds, "folds", 1)
    console = Console() if console is None else console
    methods = _installed(methods or NAMES, console)
    jobs = [
        Job(
            f"{name}-{_slug(method)}-{fold}",
            one_job,
            {"data": name, "method": method, "fold": fold},
        )
        for name in sets or SETS
        for fold in range(min(SETS[name].folds, most or SETS[name].folds))
        for method in methods
    ]
    outcome = run_jobs(jobs, out / "jobs", n_jobs=n_jobs, title="scoreboard", console=console)
    settings = {job.name: job.settings for job in jobs}
    rows = [{**settings[name], **result} for name, result in outcome.results.items()]
    scored = [row for row in rows if "left_out" not in row]
    refused = {(row["data"], row["method"]): row["left_out"] for row in rows if "left_out" in row}
    if scored:
        frame, shown = table_of(pd.DataFrame(scored))
        parts = [("", [m for m in shown if m in METHODS]), ("Specialists", [m for m in shown if m in RIVALS])]
        texts = [(title, shown[part]) for title, part in parts if part]
        write_table(out / "scoreboard", frame, [*texts, ("Seconds and memory", costs_of(frame))], console)
        # A method that is not for all sets would leave few on which all can be ranked.
        scores = frame["score"].unstack("method").drop(columns={m for _, m in refused}, errors="ignore")
        if scores.shape[1] > 1 and len(scores.dropna()) > 1:
            ranks = average_ranks(scores).rename("average rank").rename_axis("method").reset_index()
            write_figure(out / "ranks", ranks, draw_ranks, scores, console)
    for (data, method), reason in refused.items():
        console.print(f"{method} leaves out {data}: {reason}.", markup=False, soft_wrap=True)
    print_failures(outcome, console)
    return outcome


def _installed(methods: Sequence[str], console: Console) -> list[str]:
    """Those methods whose package is there; of the other ones it says which package is missing."""
    kept = []
    for method in methods:
        reason = RIVALS[method].missing() if method in RIVALS else None
        if reason is None:
            kept.append(method)
        else:
            console.print(f"{method} is left out: {reason}.", markup=False, soft_wrap=True)
    return kept


def methods_named(words: Sequence[str] | None) -> list[str] | None:
    """The methods whose names hold one of these words; None where none were given.

    Raises
    ------
    ValueError
        No method's name holds a word.
    """
    if words is None:
        return None
    for word in words:
        if not any(word in method for method in NAMES):
            raise ValueError(f"methods is {word!r}, which no name holds. There are {'; '.join(NAMES)}.")
    return [method for method in NAMES if any(word in method for word in words)]


def print_scoreboard(console: Console) -> None:
    """The names of sets, with their folds, and those of methods."""
    for name, data in SETS.items():
        folds = f"{data.folds} fold{'s' if data.folds > 1 else ''}"
        console.print(f"{name:13} {folds:8} {data.about}", markup=False, soft_wrap=True)
    console.print("\nMethods: " + "; ".join(NAMES), markup=False, soft_wrap=True)


def _slug(method: str) -> str:
    return "".join(c if c.isalnum() else "_" for c in method)


def table_of(rows: pd.DataFrame) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Numbers by set and method, and the table of text: the best score of a set, and those close to it, are bold.

    A method is close where its mean is within one standard error, over folds, of its difference to the best.
    """
    numbers: list[dict[str, Any]] = []
    text: dict[str, dict[str, str]] = {}
    for name, of_set in rows.groupby("data", sort=False):
        scores = of_set.pivot(index="fold", columns="method", values="score")
        scores = scores.reindex(columns=[m for m in NAMES if m in scores])
        mean = scores.mean()
        apart = scores.sub(scores.iloc[:, int(np.argmin(mean.to_numpy()))], axis=0)
        error = apart.std(ddof=1) / np.sqrt(apart.notna().sum()) if len(scores) > 1 else 0.0 * mean
        close = apart.mean() <= _CLOSE * error.fillna(0.0) + 1e-12
        cells: dict[str, str] = {}
        for method in map(str, scores.columns):
            own = of_set[of_set["method"] == method]
            found = {"set": name, "method": method, "score": mean[method], "best": bool(close[method])}
            found |= {
                key: own[key].max() if key in ("r_hat", "gigabytes") else own[key].mean()
                for key in ("cover", "AUC", "seconds", "gigabytes", "r_hat")
                if key in own and own[key].notna().any()
            }
            numbers.append(found)
            shown = f"{mean[method]:.4f}"
            cells[method] = f"**{shown}**" if close[method] else shown
            if "cover" in found:
                cells[method] += f" ({100.0 * found['cover']:.0f} %)"
        text[f"{name}, {'log loss' if SETS[str(name)].labels else 'RMSE'}"] = cells
    table = pd.DataFrame.from_dict(text, orient="index").fillna("")
    table.index.name = "set"
    return pd.DataFrame(numbers).set_index(["set", "method"]), table


def costs_of(numbers: pd.DataFrame) -> pd.DataFrame:
    """By method, as text: seconds of a fit and its predictions, over the sets, and the most memory that one took.

    Parameters
    ----------
    numbers : DataFrame
        The first table of :func:`table_of`.
    """
    shown = {}
    for method, own in numbers.reset_index("set").groupby("method", sort=False):
        own = own.set_index("set")
        seconds, most = own["seconds"], own.get("gigabytes", pd.Series(dtype=float)).dropna()
        shown[method] = {
            "seconds, median set": f"{seconds.median():.1f}",
            "longest": f"{seconds.max():.0f} ({seconds.idxmax()})",
            "most GB": f"{most.max():.2f} ({most.idxmax()})" if len(most) else "",
        }
    return pd.DataFrame.from_dict(shown, orient="index").rename_axis("method")
