"""False discoveries of ``select_features(fdr=0.1)`` where data are not as its copies of features would like them.

    python benchmarks/false_discoveries.py --sets 60
    python benchmarks/false_discoveries.py --design "unbalanced tasks"

Each design draws eight tasks of twelve rows and eight correlated features, of which the first two count. Printed are,
for each design, the mean share of false features among those selected, its standard error, and the share of the two
that are found. ``benchmarks/recovery.py`` has designs that the copies are made for, and compares rules.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

import zoo

TASKS, ROWS, FEATURES, COUNT = 8, 12, 8, 2
CORRELATION = 0.5 ** np.abs(np.subtract.outer(np.arange(FEATURES), np.arange(FEATURES)))
ROOT = np.linalg.cholesky(CORRELATION)


def _features(rng, task):
    return rng.normal(size=(len(task), FEATURES)) @ ROOT.T


def _spread_of_features(rng, task):
    return _features(rng, task) * np.exp(rng.normal(0.0, 1.0, (TASKS, FEATURES)))[task]


def _spread_of_one(rng, task):
    X = _features(rng, task)
    X[:, 3] *= np.exp(rng.normal(0.0, 1.5, TASKS))[task]
    return X


def _absent(rng, task):
    """A feature that does not count is 0 in every second task."""
    X = _features(rng, task)
    X[:, 3] *= (np.arange(TASKS) % 2)[task]
    return X


def _levels(rng, task):
    return _features(rng, task) + 2.0 * rng.normal(size=(TASKS, FEATURES))[task]


def _skewed(rng, task):
    return np.exp(_features(rng, task))


def _curved(rng, task):
    """A feature is a curved function of one that counts, and noise."""
    X = _features(rng, task)
    X[:, 3] = X[:, 0] ** 2 + 0.5 * rng.normal(size=len(X))
    return X


def _binary(rng, task):
    return (_features(rng, task) > 0.0).astype(float)


def _equal_rows(rng):
    return np.repeat(np.arange(TASKS), ROWS)


def _unequal_rows(rng):
    return np.repeat(np.arange(TASKS), rng.permutation([3, 4, 5, 8, 12, 16, 24, 24]))


def _noise(rng, X, task):
    return rng.normal(size=len(task))


def _noise_of_tasks(rng, X, task):
    return np.exp(rng.normal(0.0, 0.7, TASKS))[task] * rng.normal(size=len(task))


def _noise_by_feature(rng, X, task):
    """The noise grows with a feature that does not count."""
    return np.exp(0.5 * X[:, 3] / X[:, 3].std()) * rng.normal(size=len(task))


def _heavy(rng, X, task):
    return rng.standard_t(3, size=len(task))


# Features, rows of tasks and noise of each design.
DESIGNS = {
    "as the copies assume": (_features, _equal_rows, _noise),
    "spread of all features differs": (_spread_of_features, _equal_rows, _noise),
    "spread of one feature differs": (_spread_of_one, _equal_rows, _noise),
    "a feature absent in some tasks": (_absent, _equal_rows, _noise),
    "levels of features differ": (_levels, _equal_rows, _noise),
    "unbalanced tasks": (_features, _unequal_rows, _noise),
    "unbalanced, spread differs": (_spread_of_features, _unequal_rows, _noise),
    "noise differs between tasks": (_features, _equal_rows, _noise_of_tasks),
    "noise grows with a feature": (_features, _equal_rows, _noise_by_feature),
    "heavy noise": (_features, _equal_rows, _heavy),
    "skewed features": (_skewed, _equal_rows, _noise),
    "a feature is a curve of another": (_curved, _equal_rows, _noise),
    "binary features": (_binary, _equal_rows, _noise),
}


def one_set(design: str, seed: int) -> tuple[float, float]:
    """Share of false features among the selected, and of the two that count which were found."""
    features, rows, noise = DESIGNS[design]
    rng = np.random.default_rng(seed)
    task = rows(rng)
    X = features(rng, task)
    W = np.zeros((TASKS, FEATURES))
    W[:, :COUNT] = 1.0 + 0.5 * rng.normal(size=(TASKS, COUNT))
    y = np.sum(X * W[task], axis=1) + noise(rng, X, task)
    data = zoo.MultiTaskData.from_arrays(X, y, task=task).standardize()
    fit = zoo.MultiLaplaceGP(kernel="linear").fit(data, "map", random_seed=seed, progress=False)
    chosen = fit.select_features(fdr=0.1, random_seed=seed, progress=False)["selected"].to_numpy()
    return chosen[COUNT:].sum() / max(chosen.sum(), 1), chosen[:COUNT].mean()


def main() -> None:
    """Prints a line for each design."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sets", type=int, default=60)
    parser.add_argument("--design", nargs="*", default=list(DESIGNS), choices=list(DESIGNS))
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    for design in asked.design:
        false, found = np.array([one_set(design, seed) for seed in range(asked.sets)]).T
        error = false.std() / np.sqrt(asked.sets)
        print(
            f"{design:34s} false {100 * false.mean():5.1f} +- {100 * error:.1f} %   found {100 * found.mean():.0f} %",
            flush=True,
        )


if __name__ == "__main__":
    main()
