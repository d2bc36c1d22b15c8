"""What two priors of ``NIWLinear`` do: that of the noise where it is small, and that of the mean.

    python benchmarks/noise_prior.py [--seeds 5] [--pi groups,rice,...]

Tasks from one population, of which half of the rows are held out. The table has the root mean squared error of the
others and the cover of their 90 % intervals, under the default prior and under one that expects more noise, which was
the default before. ``--seeds`` is the number of populations of each kind.

``--pi`` compares ``pi="learned"`` and ``pi=0.01`` with the default ``pi=1.0`` instead, on the folds of sets that ``zoo
benchmark --list`` names, and on three kinds of simulated populations: "mean 0", whose coefficients have mean 0 and
standard deviation 1 over tasks; "mean 1" with a mean of size 1 and 0.5; "mean 4" with a mean of size 4 and 0.2. The
table has the score of the default (root mean squared error, or log loss of labels) and by how many percent the others
differ, with the standard error over folds. Two chains of 1,000 draws each.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import zoo
from zoo.experiments.scoreboard import scores_of
from zoo.experiments.scoreboard_methods import Said
from zoo.experiments.scoreboard_sets import SETS
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
# Size of the mean, and standard deviation over tasks.
MEANS = {"mean 0": (0.0, 1.0), "mean 1": (1.0, 0.5), "mean 4": (4.0, 0.2)}


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


def around_a_mean(size: float, spread: float, seed: int) -> tuple[zoo.MultiTaskData, zoo.MultiTaskData]:
    """Rows to learn from and to predict, six of each of 20 tasks: five coefficients with a mean of such a size."""
    rng = np.random.default_rng(1000 + seed)
    task = np.repeat(np.arange(20), 12)
    X = rng.standard_normal((len(task), 4))
    w = size * rng.standard_normal(5) + spread * rng.standard_normal((20, 5))
    f = np.einsum("nd,nd->n", np.column_stack([X, np.ones(len(X))]), w[task])
    data = zoo.MultiTaskData.from_arrays(X, f + 0.5 * rng.standard_normal(len(f)), task).add_intercept()
    return data.split(0.5, random_seed=seed)


def score_of_pi(name: str, fold: int, prior: str, pi: float | str) -> float:
    """Score of the held-out rows of a fold."""
    kind = SETS.get(name)
    train, test = around_a_mean(*MEANS[name], fold) if kind is None else kind.load(fold)
    labels = kind is not None and kind.labels
    likelihood = "logistic" if labels else "gaussian"
    model = zoo.NIWLinear(covariance_prior=prior, pi=pi, likelihood=likelihood)
    fit = model.fit(train.standardize(), random_seed=1, progress=False, chains=2)
    mean = fit.predict(test, random_seed=1)["probability" if labels else "mean"].to_numpy()
    return scores_of(Said(mean), test, labels)["score"]


def compare_pi(names: list[str], seeds: int) -> None:
    """Print the table of the weights of the mean."""
    print("| set | covariance | score, `pi=1` | learned, % | `pi=0.01`, % |")
    print("|---|---|---|---|---|")
    for name in names:
        folds = range(seeds if name in MEANS else SETS[name].folds)
        for prior in ("inverse_wishart", "half_t"):
            one, *others = (
                np.array([score_of_pi(name, fold, prior, pi) for fold in folds])
                for pi in (1.0, "learned", 0.01)
            )
            cells = [f"{one.mean():.4f}"]
            for other in others:
                apart = 100.0 * (other / one - 1.0)
                error = apart.std(ddof=1) / np.sqrt(len(apart)) if len(apart) > 1 else np.nan
                cells.append(f"{apart.mean():+.2f} ± {error:.2f}")
            print("| " + " | ".join([name, prior, *cells]) + " |", flush=True)


def main() -> None:
    """Print a table in Markdown."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--pi", help="names of sets, with commas between them")
    asked = parser.parse_args()
    seeds = asked.seeds
    warnings.simplefilter("ignore", zoo.ConvergenceWarning)
    if asked.pi is not None:
        names = asked.pi.split(",")
        if unknown := [name for name in names if name not in (*MEANS, *SETS)]:
            parser.error(f"--pi has {unknown[0]!r}. There are {', '.join((*MEANS, *SETS))}.")
        compare_pi(names, seeds)
        return
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
