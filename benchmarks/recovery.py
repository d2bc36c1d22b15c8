"""Which features are found: the synthetic design of Srijith & Shevade (2014), 5 of 10 features relevant.

    python benchmarks/recovery.py [--replications 100] [--rows 5] [--noise 0.04] [--full-bayes]

Ten tasks, X uniform on [0, 1], coefficients of the relevant features normal with variances 1, 0.5, 0.1, 0.15, 0.1.
Rules of inclusion, stated before the data are drawn:
mode: kappa is not exactly zero in every task, C by 3-fold cross-validation of squared errors;
mode, share: the feature's share of the sum of relevances is above 1%;
horseshoe: the posterior probability that the share is above 1% (or 3%, or 5%) is above one half.
Printed: mean true and false positive rates over replications, with standard errors.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import numpy as np

import zoo

SHARES = (0.01, 0.03, 0.05)
GRID = [300.0, 100.0, 30.0, 10.0, 3.0, 1.0, 0.3]


def mode(data: zoo.MultiTaskData, seed: int) -> dict[str, np.ndarray]:
    """Features that two rules select at the mode."""
    factory = zoo.MultiLaplaceGP(kernel="linear", noise_floor=0.05)
    found = zoo.select(
        factory,
        data,
        {"likelihood.C": GRID},
        cv=3,
        score="RMSE",
        method="map",
        n_jobs=1,
        random_seed=seed,
        progress=False,
    )
    table = found.best.fit(data, "map", progress=False).relevance()
    return {
        "mode": table["selected"].to_numpy(),
        "mode, share": (table["share"] > 0.01).to_numpy(),
    }


def full_bayes(data: zoo.MultiTaskData, seed: int) -> dict[str, np.ndarray]:
    """Features included under the horseshoe."""
    factory = zoo.MultiLaplaceGP(kernel="linear", prior="horseshoe", noise_rate="learned")
    fit = factory.fit(
        data, "nuts", draws=500, tune=500, chains=2, cores=1, random_seed=seed, progress=False,
        nuts={"target_accept": 0.95},
    )  # fmt: skip
    return {
        f"horseshoe, share above {share:.0%}": fit.relevance(threshold=share)["selected"].to_numpy()
        for share in SHARES
    }


def main() -> None:
    """Replicate, and print rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--rows", type=int, default=5, help="of each task")
    parser.add_argument("--noise", type=float, default=0.04)
    parser.add_argument("--full-bayes", action="store_true", help="the horseshoe too, some 15 s each")
    arguments = parser.parse_args()
    methods: list[Callable[[zoo.MultiTaskData, int], dict[str, np.ndarray]]] = [mode]
    if arguments.full_bayes:
        methods.append(full_bayes)
    rates: dict[str, list[tuple[float, float]]] = {}
    started = time.perf_counter()
    for seed in range(arguments.replications):
        data, truth = zoo.datasets.simulate_joint_selection(
            n_per_task=arguments.rows, noise=arguments.noise, random_seed=seed
        )
        relevant = truth["relevant"].to_numpy()
        for method in methods:
            for name, selected in method(data.standardize(), seed).items():
                rates.setdefault(name, []).append((selected[relevant].mean(), selected[~relevant].mean()))
    print(
        f"{arguments.replications} replications, {arguments.rows} rows per task, noise {arguments.noise}, "
        f"{time.perf_counter() - started:.0f} s"
    )
    for name, pairs in rates.items():
        values = np.array(pairs)
        error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
        print(
            f"  {name:24s} true positives {values[:, 0].mean():.3f} (se {error[0]:.3f})  "
            f"false positives {values[:, 1].mean():.3f} (se {error[1]:.3f})"
        )


if __name__ == "__main__":
    main()
