"""Grades: how often intervals hold, and what an ordinal likelihood buys over one that takes grades for numbers.

    python benchmarks/ordinal.py [--replications 20]

Three kinds of simulated tasks, each drawn anew in every replication: grades that are used alike; most rows in the two
highest grades, as with ratings of products; and judges who use the scale differently, with cut points of their own.
Coefficients of each task are normal around a common mean. "covers" is the share of true numbers inside their central
90 % interval, over all tasks and replications. Scores are of held-out rows, averaged: of ``zoo.Ordinal``, and of
``zoo.Gaussian`` on the grades as numbers, whose probability of a grade is that of the interval around it.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any, NamedTuple

import numpy as np
from scipy.special import ndtr

import zoo


class Setting(NamedTuple):
    """Sizes, the level of f, the widths of the grades between, and the spread of their logarithms over tasks."""

    n_tasks: int
    n_rows: int
    n_features: int
    level: float
    widths: tuple[float, ...]
    spread: float = 0.0


SETTINGS = {
    "5 grades used alike, 20 tasks x 25 rows": Setting(20, 25, 3, 0.9, (0.6, 0.6, 0.6)),
    "5 grades, most high, 40 tasks x 15 rows": Setting(40, 15, 3, 2.4, (0.5, 0.6, 0.9)),
    "4 grades, cut points by task, 12 tasks x 60 rows": Setting(12, 60, 2, 0.8, (0.7, 0.8), 0.4),
}
TEST_ROWS = 20


def simulated(setting: Setting, rng: np.random.Generator) -> tuple[Any, Any, dict[str, np.ndarray]]:
    """Training rows, test rows, and the truth."""
    s = setting
    mean = np.array([s.level, *rng.normal(0.0, 0.6, s.n_features - 1)])
    w = mean[:, None] + 0.5 * rng.standard_normal((s.n_features, s.n_tasks))
    by_task = np.exp(s.spread * rng.standard_normal((len(s.widths), s.n_tasks)))
    widths = np.array(s.widths)[:, None] * by_task
    task = np.repeat(np.arange(s.n_tasks), s.n_rows + TEST_ROWS)
    X = np.column_stack([np.ones(len(task)), rng.standard_normal((len(task), s.n_features - 1))])
    z = np.einsum("nd,nd->n", X, w.T[task]) + rng.standard_normal(len(task))
    cuts = np.vstack([np.zeros(s.n_tasks), np.cumsum(widths, axis=0)])
    y = 1.0 + np.sum(z > cuts[:, task], axis=0)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    train = np.tile(np.arange(s.n_rows + TEST_ROWS) < s.n_rows, s.n_tasks)
    truth = {f"width_{k}": widths[k - 2] if s.spread else widths[k - 2, 0] for k in range(2, len(cuts) + 1)}
    return data.take(train), data.take(~train), {"coefficients": w, **truth}


def covers(fit: zoo.Fit, truth: dict[str, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
    """Whether each coefficient, and each width, lies in its interval."""
    inside = {}
    for name, value in truth.items():
        low, high = np.quantile(fit.posterior[name], [0.05, 0.95], axis=(0, 1))
        inside[name] = np.ravel((value >= low) & (value <= high))
    widths = [v for name, v in inside.items() if name != "coefficients"]
    return inside["coefficients"], np.concatenate(widths)


def scores_of_numbers(fit: zoo.Fit, test: Any, n_grades: int) -> tuple[float, float]:
    """Log loss and ranked probability score of a normal law of the grades."""
    said = fit.predict(test, random_seed=1)
    ends = np.arange(1.5, n_grades)
    below = ndtr((ends - said["mean"].to_numpy()[:, None]) / said["sd"].to_numpy()[:, None])
    p = np.diff(below, axis=1, prepend=0.0, append=1.0)
    came = test.y.astype(int) - 1
    loss = -np.log(np.maximum(p[np.arange(len(p)), came], 1e-12))
    ranked = np.mean((below - (test.y[:, None] <= np.arange(1, n_grades))) ** 2, axis=1)
    return float(loss.mean()), float(ranked.mean())


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=20)
    replications = parser.parse_args().replications
    print(
        "| data | coefficients: covers | widths: covers | log loss | as numbers | RPS | as numbers | s a fit |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for name, setting in SETTINGS.items():
        n_grades = len(setting.widths) + 2
        likelihood = zoo.Ordinal(grades=n_grades, per_task="width" if setting.spread else ())
        found, numbers, inside, seconds = [], [], [], []
        for r in range(replications):
            train, test, truth = simulated(setting, np.random.default_rng([r, 7]))
            shared: dict[str, Any] = {
                "draws": 1000,
                "tune": 500,
                "chains": 2,
                "random_seed": r,
                "progress": False,
            }
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                start = time.perf_counter()
                fit = zoo.NIWLinear(likelihood=likelihood).fit(train, "gibbs", **shared)
                seconds.append(time.perf_counter() - start)
                plain = zoo.NIWLinear().fit(train.standardize(y=True), "gibbs", **shared)
            row = zoo.diagnostics.compare({"ordinal": fit}, test, random_seed=1).iloc[0]
            found.append([row["log loss"], row["RPS"]])
            numbers.append(scores_of_numbers(plain, test, n_grades))
            inside.append(covers(fit, truth))
        shares = [100.0 * np.concatenate(part).mean() for part in zip(*inside, strict=True)]
        (loss, rps), (loss_2, rps_2) = np.mean(found, axis=0), np.mean(numbers, axis=0)
        print(
            f"| {name} | {shares[0]:.1f} % | {shares[1]:.1f} % | {loss:.3f} | {loss_2:.3f} | {rps:.4f} | {rps_2:.4f} | "
            f"{np.median(seconds):.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
