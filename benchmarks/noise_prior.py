"""What the prior of the noise of ``NIWLinear`` does where the noise is small: ``python benchmarks/noise_prior.py``.

Tasks from one population, of which half of the rows are held out. The table has the root mean squared error of the
others and the cover of their 90 % intervals, under the default prior and under one that expects more noise, which was
the default before. ``--seeds`` is the number of populations of each kind.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import zoo
from zoo.likelihoods import InverseGammaOfSquare

PRIORS = [InverseGammaOfSquare(1.0, 0.1), "learned"]  # the one before, and the default
# Tasks, rows of each to learn from, features, noise.
KINDS = [
    (40, 8, 5, 0.02),
    (200, 6, 5, 0.05),
    (40, 4, 5, 0.02),
    (40, 8, 5, 0.2),
    (40, 3, 6, 0.5),
    (40, 8, 5, 1.0),
]


def simulated(
    n_tasks: int, n_rows: int, n_features: int, noise: float, seed: int
) -> tuple[zoo.MultiTaskData, zoo.MultiTaskData]:
    """Rows to learn from and rows to predict, as many."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), 2 * n_rows)
    X = rng.standard_normal((len(task), n_features - 1))
    w = rng.standard_normal(n_features) + 0.5 * rng.standard_normal((n_tasks, n_features))
    f = np.einsum("nd,nd->n", np.column_stack([X, np.ones(len(X))]), w[task])
    data = zoo.MultiTaskData.from_arrays(X, f + noise * rng.standard_normal(len(f)), task).add_intercept()
    return data.split(0.5, random_seed=seed)


def scores(kind: tuple[int, int, int, float], prior: object, seed: int) -> tuple[float, float]:
    """Error of the mean, and share of the held-out rows within 90 % intervals."""
    train, test = simulated(*kind, seed=seed)
    model = zoo.NIWLinear(likelihood=zoo.Gaussian(noise=prior))
    found = model.fit(train.standardize(), random_seed=1, progress=False).predict(test, random_seed=1)
    held = (found["lower"] <= test.y) & (test.y <= found["upper"])
    return float(np.sqrt(((found["mean"] - test.y) ** 2).mean())), float(held.mean())


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=5)
    seeds = parser.parse_args().seeds
    warnings.simplefilter("ignore", zoo.ConvergenceWarning)
    print(
        "| tasks | rows of each | features | noise | RMSE, before | RMSE, default | cover, before | cover, default |"
    )
    print("|---|---|---|---|---|---|---|---|")
    for kind in KINDS:
        of = [np.mean([scores(kind, p, 100 + seed) for seed in range(seeds)], axis=0) for p in PRIORS]
        numbers = [f"{v:g}" for v in kind] + [f"{rmse:.4f}" for rmse, _ in of]
        print("| " + " | ".join(numbers + [f"{100 * cover:.0f} %" for _, cover in of]) + " |", flush=True)


if __name__ == "__main__":
    main()
