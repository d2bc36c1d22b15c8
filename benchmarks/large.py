"""Fits of many tasks: seconds of processor time, memory and files by the number of tasks.

    python benchmarks/large.py [--tasks 10000 100000 300000] [--others]

Simulated linear tasks of 20 rows and 5 features from one population. Every line is a process of its own, in which
small data went through the same steps before, so that nothing is compiled or imported in what is measured. ``start``
is what it takes until the first sweep, ``sweep`` one sweep of one chain. ``fit`` has 2 chains of 20 + 100 sweeps, and
two cores share it. ``one row`` and ``1,000 rows`` are predictions of rows of known tasks, of as many tasks as
rows. ``peak`` is the most memory that the process ever held, data included. With ``--others`` EM, the yardsticks, and
the kernel machine with a mean-regularised kernel follow, with 10 rows per task for the last one.

Another table has the memory that 4 x 1,000 draws take, as ``fit`` estimates it before it samples.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import zoo
from zoo.core.keep import KEEP, Numbers, needed_bytes
from zoo.support.memory import gigabytes

ROWS, FEATURES = 20, 5
# More tasks are fitted with keep="population" alone.
MOST = 300_000
RUN = {"draws": 100, "tune": 20, "chains": 2, "random_seed": 1, "progress": False}
OTHERS: dict[str, tuple[Callable[[], Any], str, int]] = {
    "NIWLinear, em": (zoo.NIWLinear, "em", ROWS),
    "IndependentTasks, exact": (zoo.IndependentTasks, "exact", ROWS),
    "PooledTasks, exact": (zoo.PooledTasks, "exact", ROWS),
    "MultiTaskKernelMachine, mean-regularised, exact": (
        lambda: zoo.MultiTaskKernelMachine(kernel="mean_regularised"), "exact", 10
    ),
}  # fmt: skip
# Of these also ten times as many tasks.
LARGER = ("NIWLinear, em", "MultiTaskKernelMachine, mean-regularised, exact")


def simulate(n_tasks: int, rows: int = ROWS) -> zoo.MultiTaskData:
    """Linear tasks from one population."""
    rng = np.random.default_rng(0)
    w = 0.5 * rng.standard_normal((n_tasks, FEATURES))
    task = np.repeat(np.arange(n_tasks), rows)
    X = rng.standard_normal((n_tasks * rows, FEATURES))
    y = np.einsum("nd,nd->n", X, w[task]) + 0.3 * rng.standard_normal(len(task))
    return zoo.MultiTaskData.from_arrays(X, y, task)


def seconds(call: Callable[[], Any]) -> tuple[float, Any]:
    """Seconds of processor time that a call takes, and what it returns."""
    start = time.process_time()
    result = call()
    return time.process_time() - start, result


def sampler(data: zoo.MultiTaskData) -> dict[str, float]:
    """Start and sweep of the Gibbs sampler."""
    model, rng = zoo.NIWLinear(), np.random.default_rng(1)
    kernel = model.gibbs_kernel(model.design(data), model.validate(data))
    start, state = seconds(lambda: kernel.initialise(rng))
    sweeps = min(seconds(lambda: kernel.sweep(rng, state))[0] for _ in range(10))
    return {"start": start, "sweep": sweeps}


def steps(data: zoo.MultiTaskData, model: Any, method: str, keep: str | None) -> dict[str, float]:
    """Fit, predictions and file."""
    options: dict[str, Any] = {} if keep is None else {"keep": keep}
    found: dict[str, float] = {}
    found["fit"], fit = seconds(lambda: model.fit(data, method, **RUN, **options))
    many = np.linspace(0, data.n_tasks - 1, min(1000, data.n_tasks)).astype(int)
    tasks, X = [data.task_names[t] for t in many], np.ones((len(many), FEATURES))
    found["one row"] = seconds(lambda: fit.predict(X[:1], tasks[:1], random_seed=1))[0]
    found["1,000 rows"] = seconds(lambda: fit.predict(X, tasks, random_seed=1))[0]
    with tempfile.TemporaryDirectory() as folder:
        found["save"], path = seconds(lambda: fit.save(Path(folder) / "fit.nc"))
        found["load"] = seconds(lambda: zoo.load(path))[0]
        found["MB"] = path.stat().st_size / 1e6
    return found


def measured(n_tasks: int, name: str) -> dict[str, float]:
    """The numbers of one line."""
    keep = name if name in KEEP else None
    make, method, rows = (zoo.NIWLinear, "gibbs", ROWS) if keep else OTHERS[name]
    found: dict[str, float] = {}
    for data in (simulate(30, rows), simulate(n_tasks, rows)):
        found = sampler(data) if keep else {}
        found |= steps(data, make(), method, keep)
    return {**found, "peak GB": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6}


def line(n_tasks: int, name: str) -> dict[str, float]:
    """The same, in a process of its own; empty where that ends with an error."""
    command = [sys.executable, __file__, "--line", str(n_tasks), name]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        print(f"{name} with {n_tasks:,} tasks: {done.stderr.strip().splitlines()[-1]}", file=sys.stderr)
        return {}
    return dict(json.loads(done.stdout.splitlines()[-1]))


def shown(value: float | None, column: str) -> str:
    """A number as a cell."""
    if value is None:
        return ""
    return (
        f"{1e3 * value:.3g} ms"
        if column == "sweep"
        else f"{value:,.0f}"
        if column == "MB"
        else f"{value:.2g}"
    )


def table(lines: list[tuple[str, str]]) -> None:
    """Print lines of (tasks, name) as they are measured."""
    columns = ["start", "sweep", "fit", "one row", "1,000 rows", "save", "load", "MB", "peak GB"]
    print(f"\n| tasks | | {' | '.join(columns)} |\n|---|---|{'---|' * len(columns)}", flush=True)
    for n_tasks, name in lines:
        found = line(int(n_tasks), name)
        cells = [shown(found.get(column), column) for column in columns]
        print(f"| {int(n_tasks):,} | {name} | {' | '.join(cells)} |", flush=True)


def memory(sizes: list[int]) -> None:
    """Print the memory that draws of the default size take."""
    print(f"\n| tasks | {' | '.join(f'keep={keep!r}' for keep in KEEP)} |\n|---|{'---|' * len(KEEP)}")
    population = {"population_mean": FEATURES, "feature_cov": FEATURES**2, "noise": 1}
    for n_tasks in sizes:
        numbers = Numbers({"coefficients": n_tasks * FEATURES}, population)
        cells = [gigabytes(sum(needed_bytes(keep, numbers, 4_000, 4).values())) for keep in KEEP]
        print(f"| {n_tasks:,} | {' | '.join(cells)} |")


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, nargs="*", default=[10_000, 100_000, 300_000])
    parser.add_argument("--others", action="store_true")
    parser.add_argument("--line", nargs=2, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.line:
        warnings.simplefilter("ignore", UserWarning)
        print(json.dumps(measured(int(arguments.line[0]), arguments.line[1])))
        return
    memory([10_000, 100_000, 1_000_000])
    table([(str(n), keep) for n in arguments.tasks for keep in KEEP if n <= MOST or keep == "population"])
    if arguments.others:
        table([("10000", name) for name in OTHERS] + [("100000", name) for name in LARGER])


if __name__ == "__main__":
    main()
