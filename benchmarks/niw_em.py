"""EM of normal-inverse-Wishart hierarchies (Yu, Tresp and Schwaighofer 2005), as ratios within one run.

    python benchmarks/niw_em.py [--documents 1000] [--tasks 50] [--labels 300] [--maps 300] [--repeats 5] [--threads 2]

Their text categorisation: tasks are topics, labels -1 or +1, a linear kernel on TF-IDF, tau = 1, pi = 1e6. Prints

- seconds of a step of ours, of equations (12)-(16) as printed, with LAPACK, and their ratio (the printed step is timed
  on a few tasks and scaled up to all; its M-step for the covariance, which is the same for both, is left out);
- EM maps to the penalised log-likelihood that plain EM reaches, with acceleration and without, here and on School;
- peak memory of the process up to the end of our climb.
"""

from __future__ import annotations

import argparse
import resource
import time
from collections.abc import Callable

import numpy as np
from threadpoolctl import threadpool_limits

from zoo.datasets import load_rcv1_subset, load_school
from zoo.inference.em.algorithm import EMResult, expectation_maximisation


def rcv1(n: int, n_tasks: int, n_labels: int) -> dict:
    """Random documents, random topics with at least 30 documents in the whole subset, random labels."""
    data, rng = load_rcv1_subset(), np.random.default_rng(0)
    Y = np.asarray(data.Y.todense() if hasattr(data.Y, "todense") else data.Y)
    documents = rng.choice(len(Y), n, replace=False)
    topics = rng.choice(np.flatnonzero(Y.sum(axis=0) >= 30), n_tasks, replace=False)
    row = np.concatenate([rng.choice(n, n_labels, replace=False) for _ in topics])
    task = np.repeat(np.arange(n_tasks), n_labels)
    X = data.X[documents]
    values, U = np.linalg.eigh(np.asarray((X @ X.T).todense()))
    kept = values > n * np.finfo(float).eps * values[-1]
    y = np.where(Y[documents[row], topics[task]] > 0, 1.0, -1.0)
    return dict(inputs=U[:, kept] * np.sqrt(values[kept]), row=row, task=task, y=y, n_tasks=n_tasks)


def school() -> dict:
    """The first published split of School."""
    train, _ = load_school(split=1)
    return dict(
        inputs=np.asarray(train.inputs), row=train.row, task=train.task, y=train.y, n_tasks=train.n_tasks
    )


def printed_task(
    kernel: np.ndarray, precision: np.ndarray, rows: np.ndarray, y: np.ndarray, variance: float
) -> tuple:
    """(12), (13) and the terms of (16) for one task."""
    kappa = kernel[rows]
    cov = np.linalg.inv(kappa.T @ kappa / variance + precision)
    alpha = cov @ (kappa.T @ y / variance)
    return alpha, cov, ((y - kappa @ alpha) ** 2).sum() + ((kappa @ cov) * kappa).sum()


def seconds(call: Callable, repeats: int) -> float:
    """Median time of a call, after one that warms up."""
    call()
    times = []
    for _ in range(repeats):
        started = time.perf_counter()
        call()
        times.append(time.perf_counter() - started)
    return float(np.median(times))


def speed(problem: dict, repeats: int) -> None:
    """A step of ours against the printed one; the two take turns, so that both see the same machine."""
    inputs, T = problem["inputs"], problem["n_tasks"]
    kernel = inputs @ inputs.T + 1e-8 * np.eye(len(inputs))
    precision = np.linalg.inv(kernel)
    tasks = [np.flatnonzero(problem["task"] == t) for t in range(min(3, T))]
    stamps: list[float] = []
    ratios, ours, printed = [], [], []
    for _ in range(repeats):
        started = time.perf_counter()
        for rows in tasks:
            printed_task(kernel, precision, problem["row"][rows], problem["y"][rows], 0.5)
        each = (time.perf_counter() - started) / len(tasks)
        started = time.perf_counter()
        np.linalg.inv(precision)  # once a step
        printed.append(each * T + time.perf_counter() - started)
        stamps.clear()
        expectation_maximisation(
            **problem,
            pi=1e6,
            tau=1.0,
            max_iter=6,
            accelerate=False,
            progress=lambda *_: stamps.append(time.perf_counter()),
        )
        ours.append(float(np.median(np.diff(stamps))))
        ratios.append(printed[-1] / ours[-1])
    print("| step | seconds (median) |\n| --- | --- |")
    print(f"| printed (12)-(16), {T} inverses | {np.median(printed):.3g} |\n| ours | {np.median(ours):.3g} |")
    print(f"| ratio, median and range | {np.median(ratios):.1f} ({min(ratios):.1f}-{max(ratios):.1f}) |\n")


def climbs(name: str, problem: dict, maps: int, **options: float) -> EMResult:
    """EM maps to the value that plain EM has after ``maps`` of them, and on the way."""
    options = {"tol": 0.0, "min_gain": 0.0, **options}
    plain = expectation_maximisation(**problem, **options, max_iter=maps, accelerate=False)
    seen: list[tuple[int, float, float]] = []
    started = time.perf_counter()
    fast = expectation_maximisation(
        **problem,
        **options,
        max_iter=maps,
        progress=lambda n, value: seen.append((n, value, time.perf_counter() - started)),
    )
    print(f"{name}: in {fast.space}\n\n| penalised log-likelihood | plain | accelerated | kept | ratio |")
    print("| --- | --- | --- | --- | --- |")
    for count in [k for k in (30, 100, 300, 1000, 3000) if k < maps] + [maps]:
        target = plain.penalised_log_likelihood[count - 1]
        kept = int(np.argmax(fast.penalised_log_likelihood >= target))
        print(f"| {target:.3f} | {count} | {seen[kept][0]} | {kept + 1} | {count / seen[kept][0]:.1f} |")
    print(
        f"\nAfter {maps} maps: plain {plain.penalised_log_likelihood[-1]:.4f}, noise {plain.noise:.4g}; accelerated",
        end=" ",
    )
    print(f"{fast.penalised_log_likelihood[-1]:.4f}, noise {fast.noise:.4g}\n")
    return fast


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--documents", type=int, default=1000)
    parser.add_argument("--tasks", type=int, default=50)
    parser.add_argument("--labels", type=int, default=300)
    parser.add_argument("--maps", type=int, default=300)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    arguments = parser.parse_args()
    with threadpool_limits(arguments.threads):
        problem = rcv1(arguments.documents, arguments.tasks, arguments.labels)
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        expectation_maximisation(**problem, pi=1e6, tau=1.0, max_iter=20)
        after = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        print(
            f"Peak memory: {before / 1024:.0f} MiB with data and libraries, {after / 1024:.0f} MiB after a climb\n"
        )
        speed(problem, arguments.repeats)
        climbs("RCV1", problem, arguments.maps, pi=1e6, tau=1.0)
        climbs("School", school(), 1000, pi=1.0, tau=1.0)


if __name__ == "__main__":
    main()
