"""Where NUTS beats the Gibbs sampler on small hinge problems, and what that is worth.

    python benchmarks/nuts_or_gibbs.py

Simulated labels, an intercept, default fields but C. Prints a Markdown table: smallest bulk effective sample size a
second over the coefficients, compilation left out, and the seconds to 1,000 effective draws with it.
"""

from __future__ import annotations

import time

import numpy as np
import nutpie
import xarray as xr
from arviz_stats.base import array_stats

import zoo

# Tasks, rows per task, features, noise of the labels, C.
SHAPES = [
    (1, 100, 5, 0.5, 1.0), (1, 100, 5, 3.0, 1.0), (1, 100, 5, 3.0, 10.0), (1, 500, 10, 3.0, 1.0), (3, 100, 5, 3.0, 1.0),
    (8, 50, 5, 0.5, 1.0),
]  # fmt: skip


def simulate(tasks: int, rows: int, features: int, noise: float) -> zoo.MultiTaskData:
    """Labels by the sign of a noisy linear function."""
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(tasks), rows)
    X = np.c_[rng.standard_normal((len(task), features - 1)), np.ones(len(task))]
    f = np.einsum("nd,nd->n", X, rng.standard_normal((tasks, features))[task])
    y = np.where(f + noise * rng.standard_normal(len(f)) > 0, 1, -1)
    return zoo.MultiTaskData.from_arrays(X, y, task)


def smallest_ess(posterior: xr.Dataset) -> float:
    """Over the coefficients."""
    values = posterior["coefficients"].to_numpy()
    values = values.reshape(*values.shape[:2], -1)
    return min(
        float(array_stats.ess(values[:, :, i], chain_axis=0, draw_axis=1)) for i in range(values.shape[2])
    )


def main() -> None:
    """Run and print."""
    print(
        "| tasks | rows | features | noise | C | Gibbs ESS/s | nutpie ESS/s | Gibbs s to 1,000 | nutpie s to 1,000 |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for tasks, rows, features, noise, C in SHAPES:
        data, model = simulate(tasks, rows, features, noise), zoo.MaxMargin(likelihood=zoo.Hinge(C=C))
        started = time.perf_counter()
        model.fit(data, "gibbs", draws=1, tune=0, chains=1, progress=False)
        gibbs_compiled = time.perf_counter() - started
        started = time.perf_counter()
        gibbs = model.fit(data, "gibbs", draws=4000, tune=500, chains=2, random_seed=1, progress=False)
        gibbs_rate = smallest_ess(gibbs.posterior) / (time.perf_counter() - started)
        started = time.perf_counter()
        compiled = nutpie.compile_pymc_model(model.build(data))
        nuts_compiled = time.perf_counter() - started
        started = time.perf_counter()
        tree = nutpie.sample(
            compiled, draws=1000, tune=500, chains=2, cores=2, seed=1, progress_bar=False, target_accept=0.9
        )
        nuts_rate = smallest_ess(tree["posterior"].to_dataset()) / (time.perf_counter() - started)
        print(
            f"| {tasks} | {rows} | {features} | {noise} | {C} | {gibbs_rate:.0f} | {nuts_rate:.0f} "
            f"| {gibbs_compiled + 1000 / gibbs_rate:.1f} | {nuts_compiled + 1000 / nuts_rate:.1f} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
