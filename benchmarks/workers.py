"""Rows that come batch by batch, and tasks that are dealt to workers: seconds and memory by the number of tasks.

    python benchmarks/workers.py [--tasks 10000 100000 1000000] [--full]

Simulated linear tasks of 20 rows and 5 features from one population. ``batches`` is the time that
``MultiTaskData.from_batches`` takes for tables of 200,000 rows, less that of making the tables; ``peak`` is the most
memory that the process ever held, with what the fit takes. ``a pass`` is one sweep of one chain over all tasks, in
seconds of processor time. ``fit`` is the wall time of ``NIWLinear`` by ``gibbs`` with 2 chains of 20 + 100 sweeps: in
this process, by two threads, and by two processes of a local cluster of Dask, with the time that its workers take to
get the data. ``overhead`` is the time of a sweep of one chain with 100 tasks, which is all messages. Draws of threads
and of the cluster are compared, bit for bit.

With ``--full`` the default fit, 4 chains of 1,000 + 1,000 sweeps by two threads, of the largest number follows.
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import Any

import numpy as np
import pandas as pd

import zoo

ROWS, FEATURES, AT_ONCE = 20, 5, 10_000
RUN = {"draws": 100, "tune": 20, "chains": 2, "random_seed": 1, "progress": False, "keep": "population"}


def tables(n_tasks: int) -> Iterator[pd.DataFrame]:
    """Rows of a few thousand tasks at a time."""
    rng = np.random.default_rng(0)
    for first in range(0, n_tasks, AT_ONCE):
        size = min(AT_ONCE, n_tasks - first)
        w, task = 0.5 * rng.standard_normal((size, FEATURES)), np.repeat(np.arange(size), ROWS)
        X = rng.standard_normal((len(task), FEATURES))
        y = np.einsum("nd,nd->n", X, w[task]) + 0.3 * rng.standard_normal(len(task))
        yield pd.DataFrame(X, columns=[f"x{i}" for i in range(FEATURES)]).assign(task=first + task, y=y)


def seconds(call: Callable[[], Any], clock: Callable[[], float] = time.perf_counter) -> tuple[float, Any]:
    """Seconds that a call takes, and what it returns."""
    start = clock()
    result = call()
    return clock() - start, result


def read(n_tasks: int) -> tuple[float, zoo.MultiTaskData]:
    """Seconds of reading, and the summary."""
    making = seconds(lambda: sum(len(table) for table in tables(n_tasks)))[0]
    taken, data = seconds(lambda: zoo.MultiTaskData.from_batches(tables(n_tasks), "y", "task"))
    return taken - making, data


def fits(data: zoo.MultiTaskData, run: dict[str, Any]) -> dict[str, float]:
    """Wall seconds of fits in this process, by threads and by a cluster."""
    import distributed

    model, found, draws = zoo.NIWLinear(), {}, []
    found["here"] = seconds(lambda: model.fit(data, **run))[0]
    with ExitStack() as stack:
        threads = stack.enter_context(ThreadPoolExecutor(2))
        cluster = stack.enter_context(
            distributed.LocalCluster(n_workers=2, threads_per_worker=1, dashboard_address=None)
        )
        client = stack.enter_context(distributed.Client(cluster))
        for name, executor in (("threads", threads), ("cluster", client)):
            model.fit(data.select_tasks(list(data.task_names[:100])), executor=executor, **run)  # compiles
            found[name], fit = seconds(lambda by=executor: model.fit(data, executor=by, **run))
            draws.append(fit.posterior)
    assert all(np.array_equal(draws[0][name], draws[1][name]) for name in draws[0])
    return found


def measured(n_tasks: int) -> dict[str, float]:
    """The numbers of one line."""
    read(1000)
    found: dict[str, float] = {}
    found["batches"], data = read(n_tasks)
    model = zoo.NIWLinear()
    kernel = model.gibbs_kernel(model.design(data), model.validate(data), group_moves=False)
    from zoo.inference.gibbs.sharded_population import shards_of

    (shard,) = shards_of(kernel, 1)
    mu, P = np.zeros(FEATURES), np.eye(FEATURES)
    shard.sums((1,), mu, P, 10.0)
    found["a pass"] = min(
        seconds(lambda: shard.sums((1,), mu, P, 10.0), time.process_time)[0] for _ in range(5)
    )
    found |= fits(data, RUN)
    found["peak GB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    few = data.select_tasks(list(data.task_names[:100]))
    found |= {f"overhead, {k}": v / 240 for k, v in fits(few, RUN).items() if k != "here"}
    return found


def full(n_tasks: int) -> None:
    """Print what the default fit takes by two threads."""
    data = read(n_tasks)[1]
    with ThreadPoolExecutor(2) as pool:
        taken, fit = seconds(lambda: zoo.NIWLinear().fit(data, random_seed=1, progress=False, executor=pool))
    worst = fit.diagnostics()["r_hat"].max()
    print(f"\ndefault fit of {n_tasks:,} tasks: {taken:,.0f} s, largest R-hat {worst:.4f}")


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--tasks", type=int, nargs="*", default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--line", type=int, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    warnings.simplefilter("ignore", UserWarning)
    if arguments.line:
        print(json.dumps(measured(arguments.line)))
        return
    columns = ["batches", "a pass", "here", "threads", "cluster", "overhead, threads", "overhead, cluster"]
    print(f"| tasks | {' | '.join(columns)} | peak GB |\n|---|{'---|' * (len(columns) + 1)}")
    for n_tasks in arguments.tasks:  # each in a process of its own, for its memory
        command = [sys.executable, __file__, "--line", str(n_tasks)]
        found = json.loads(subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout)
        cells = [f"{found[c]:.2g} s" if found[c] > 0.5 else f"{1e3 * found[c]:.3g} ms" for c in columns]
        print(f"| {n_tasks:,} | {' | '.join(cells)} | {found['peak GB']:.2g} |", flush=True)
    if arguments.full:
        full(max(arguments.tasks))


if __name__ == "__main__":
    main()
