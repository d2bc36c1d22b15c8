"""More features than rows, and many tasks: which side is taken, and what it saves.

    python benchmarks/wide.py [--sides] [--models] [--tasks]

--sides: MultiTaskKernelMachine (square loss, everything learned, method "exact", 2 x 100 draws) on 10 tasks of 20 rows
with D features, by the side that it takes and by the weights of all features, in one process.
--models: seconds of the other models on 10 tasks of 30 rows with 2,000 features, as multiples of that machine's.
--tasks: seconds of one sweep, or of one fit, against the number of tasks T (5 rows each, 10 features).
Imports and first calls are left out. Times are of one run each, ratios of the same run. Linear algebra has one thread.
"""

from __future__ import annotations

import argparse
import os
import time
import warnings
from collections.abc import Callable
from typing import Any

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import numpy as np

import zoo
from zoo.models.kernel_machine import sides as kernel_sides

Machine = zoo.MultiTaskKernelMachine


def tasks_of(T: int, rows: int, D: int, labels: bool = False) -> zoo.MultiTaskData:
    """Linear tasks near their mean."""
    rng = np.random.default_rng(1)
    X, task = rng.standard_normal((T * rows, D)), np.repeat(np.arange(T), rows)
    W = (rng.standard_normal((D, 1)) + 0.5 * rng.standard_normal((D, T))) / np.sqrt(D)
    y = np.einsum("nd,dn->n", X, W[:, task]) + 0.5 * rng.standard_normal(T * rows)
    return zoo.MultiTaskData.from_arrays(X=X, y=np.sign(y) if labels else y, task=task)


def seconds(call: Callable[[], Any]) -> float:
    """Of one call."""
    started = time.perf_counter()
    call()
    return time.perf_counter() - started


def fit(model: Any, data: zoo.MultiTaskData, method: str, draws: int = 100) -> float:
    """Seconds of a fit; 40 sweeps by Gibbs sampling."""
    options = {"gibbs": {"draws": 20, "tune": 20, "chains": 1}, "em": {}, "map": {}}
    chosen = options.get(method, {"draws": draws, "chains": 2})
    return seconds(lambda: model.fit(data, method, random_seed=1, progress=False, **chosen))


def sides() -> None:
    """The side taken against the weights of all features."""
    fit(Machine(), tasks_of(3, 5, 20), "exact")
    fit(Machine(), tasks_of(3, 20, 5), "exact")
    cheapest = kernel_sides._cheapest_side
    print("| features | by the side taken, s | by the weights, s | ratio |\n|---|---|---|---|")
    for D in (200, 400, 800, 2000):
        data = tasks_of(10, 20, D) if D > 200 else tasks_of(10, 15, D)
        taken = fit(Machine(), data, "exact")
        if D > 400:
            print(f"| {D} | {taken:.2f} | | |", flush=True)
            continue
        kernel_sides._cheapest_side = lambda space: space
        weights = fit(Machine(), data, "exact")
        kernel_sides._cheapest_side = cheapest
        print(f"| {D} | {taken:.2f} | {weights:.1f} | {weights / taken:.0f} |", flush=True)


def models() -> None:
    """Every model that takes 2,000 features."""
    listed = [
        ("MultiTaskKernelMachine", Machine(), "exact"),
        ("MultiTaskKernelMachine", Machine(), "gibbs"),
        ('MultiTaskKernelMachine(likelihood="hinge")', Machine(likelihood="hinge"), "gibbs"),
        ('MultiTaskKernelMachine(likelihood="logistic")', Machine(likelihood="logistic"), "laplace"),
        ('MaxMargin(feature_cov="identity")', zoo.MaxMargin(feature_cov="identity"), "gibbs"),
        ('NIWGaussianProcess(base_kernel="linear")', zoo.NIWGaussianProcess(base_kernel="linear"), "gibbs"),
        ('NIWGaussianProcess(base_kernel="linear")', zoo.NIWGaussianProcess(base_kernel="linear"), "em"),
        ("IndependentTasks", zoo.IndependentTasks(), "exact"),
        ('IndependentTasks(likelihood="logistic")', zoo.IndependentTasks(likelihood="logistic"), "laplace"),
        ('PooledTasks(likelihood="logistic")', zoo.PooledTasks(likelihood="logistic"), "laplace"),
    ]
    print("| model | method | s | over the first |\n|---|---|---|---|")
    first = 0.0
    for name, model, method in listed:
        labels = model.likelihood.labels
        fit(model, tasks_of(3, 5, 20, labels), method)
        taken = fit(model, tasks_of(10, 30, 2000, labels), method)
        first = first or taken
        print(f"| `{name}` | {method} | {taken:.1f} | {taken / first:.1f} |", flush=True)


def tasks() -> None:
    """Growth in the number of tasks."""
    fit(Machine(), tasks_of(20, 5, 10), "exact")
    print("| tasks | a sweep of MaxMargin, s | MultiTaskKernelMachine exact, s |\n|---|---|---|")
    for T in (250, 500, 1000, 2000, 4000):
        sweep = float("nan")
        if T <= 1000:
            data = tasks_of(T, 5, 10, labels=True)
            kernel = zoo.MaxMargin().gibbs_kernel(data, data.y)
            rng = np.random.default_rng(1)
            state = kernel.initialise(rng)
            kernel.sweep(rng, state)
            sweep = seconds(lambda: [kernel.sweep(rng, state) for _ in range(3)]) / 3  # noqa: B023
        whole = fit(Machine(), tasks_of(T, 5, 10), "exact", draws=50)
        print(f"| {T} | {sweep:.3f} | {whole:.2f} |", flush=True)


def main() -> None:
    """Read the arguments; all parts where none is named."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parts = {"sides": sides, "models": models, "tasks": tasks}
    for name in parts:
        parser.add_argument(f"--{name}", action="store_true")
    chosen = vars(parser.parse_args())
    warnings.simplefilter("ignore")
    for name, run in parts.items():
        if chosen[name] or not any(chosen.values()):
            print(f"\n{name}\n")
            run()


if __name__ == "__main__":
    main()
