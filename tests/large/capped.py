"""A fit of many tasks, its predictions and its file, in this process, whose address space is capped.

    python -m tests.large.capped TASKS KEEP GIGABYTES FOLDER [MODEL]

KEEP is one of draws, moments, population, or default. MODEL is population (zoo.NIWLinear, by Gibbs sampling), batches
(the same, of ten times as many rows that come batch by batch and would not fit), or machine
(zoo.MultiTaskKernelMachine, by its closed form), whose matrix of tasks x tasks would not fit.

The cap counts from what the process has mapped once zoo is imported: libraries and threads map far more than they
use. It prints the numbers that the test looks at, as JSON.
"""

from __future__ import annotations

import json
import resource
import sys
import time
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

import zoo

ROWS, FEATURES, NOISE = 20, 5, 0.5
DRAWS, CHAINS = 200, 2


def simulate(n_tasks: int) -> tuple[zoo.MultiTaskData, np.ndarray, np.ndarray]:
    """Rows of many tasks, their coefficients, and the covariance of these."""
    rng = np.random.default_rng(0)
    root = 0.3 * np.eye(FEATURES) + 0.2 * np.tri(FEATURES)
    w = rng.standard_normal((n_tasks, FEATURES)) @ root.T + np.arange(FEATURES)
    task = np.repeat(np.arange(n_tasks), ROWS)
    X = rng.standard_normal((n_tasks * ROWS, FEATURES))
    y = np.einsum("nd,nd->n", X, w[task]) + NOISE * rng.standard_normal(len(task))
    return zoo.MultiTaskData.from_arrays(X, y, task), w, root @ root.T


def read(n_tasks: int) -> tuple[zoo.MultiTaskData, np.ndarray, np.ndarray]:
    """The same of ten times as many rows, which come in batches of all tasks."""
    few, w, cov = simulate(n_tasks)
    names, task = np.array(few.task_names), few.task
    del few
    rng = np.random.default_rng(1)

    def batches() -> Iterator[pd.DataFrame]:
        for _ in range(10):
            for part in np.array_split(task, max(1, n_tasks // 3000)):
                X = rng.standard_normal((len(part), FEATURES))
                y = np.einsum("nd,nd->n", X, w[part]) + NOISE * rng.standard_normal(len(part))
                yield pd.DataFrame(X, columns=[f"x{i}" for i in range(FEATURES)]).assign(
                    task=names[part], y=y
                )

    return zoo.MultiTaskData.from_batches(batches(), "y", "task"), w, cov


def fits(shape: tuple[int, ...]) -> bool:
    """Whether there is room for an array of numbers of this shape."""
    try:
        np.ones(shape)
    except MemoryError:
        return False
    return True


def _status(entry: str) -> int:
    """Kilobytes that Linux reports of this program; ``ru_maxrss`` would also count the process that started it."""
    return int(next(line.split()[1] for line in open("/proc/self/status") if line.startswith(entry)))


def once(data: zoo.MultiTaskData, keep: str | None, folder: Path, model: str) -> zoo.Fit:
    """A fit that was saved and loaded, after predictions."""
    options: dict[str, Any] = {
        "keep": keep,
        "draws": DRAWS,
        "chains": CHAINS,
        "random_seed": 1,
        "progress": False,
    }
    if model != "machine":
        fit = zoo.NIWLinear().fit(data, tune=20, cores=2, **options)
    else:
        fit = zoo.MultiTaskKernelMachine().fit(data, "exact", **options)
    fit.predict(np.eye(FEATURES)[:1], data.task_names[0])
    fit.predict(np.eye(FEATURES)[:1], "elsewhere", new_task=True, random_seed=1)
    zoo.load(fit.save(folder / "fit.nc", overwrite=True))
    return fit


def main(
    n_tasks: int, keep: str, gigabytes: float, folder: Path, model: str = "population"
) -> dict[str, float | str]:
    """Fit, predict, save and load; return what the test looks at."""
    chosen = None if keep == "default" else keep
    once(simulate(40)[0], chosen, folder, model)  # libraries are imported and mapped
    if model != "batches":
        data, w, cov = simulate(n_tasks)
    mapped = 1024 * _status("VmSize")
    limit = mapped + int(gigabytes * 1e9)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
    start = time.perf_counter()
    if model == "batches":
        data, w, cov = read(n_tasks)
        w = w[np.argsort([f"task {t}" for t in range(n_tasks)])]
    fit = once(data, chosen, folder, model)
    sampled = time.perf_counter() - start
    asked = [0, n_tasks // 2, n_tasks - 1]
    new = np.eye(FEATURES)[:3]
    found = fit.predict(new, [data.task_names[t] for t in asked])
    truth = np.array([w[t, i] for i, t in enumerate(asked)])
    again = zoo.load(folder / "fit.nc").predict(new, [data.task_names[t] for t in asked])
    if model != "machine":
        error = np.abs(fit.posterior["feature_cov"].mean(("chain", "draw")).to_numpy() - cov).max()
    else:
        error = abs(float(fit.posterior["noise"][0, 0]) - NOISE)
    return {
        "keep": fit.keep,
        "seconds": sampled,
        "error_of_population": float(error),
        "worst_z": float(np.max(np.abs(found["mean"] - truth) / found["sd"])),
        "all_draws_would_fit": fits((CHAINS, DRAWS, FEATURES, n_tasks)),
        "tasks_by_tasks_would_fit": fits((n_tasks, n_tasks)),
        "rows_would_fit": fits((10 * ROWS * n_tasks, FEATURES + 1)),
        "same_after_loading": bool(found.equals(again)),
        "peak_gigabytes": _status("VmHWM") / 1e6,
        "file_megabytes": (folder / "fit.nc").stat().st_size / 1e6,
    }


if __name__ == "__main__":
    warnings.simplefilter("ignore", UserWarning)  # draws that have not converged, and what is kept by default
    print(
        json.dumps(main(int(sys.argv[1]), sys.argv[2], float(sys.argv[3]), Path(sys.argv[4]), *sys.argv[5:]))
    )
