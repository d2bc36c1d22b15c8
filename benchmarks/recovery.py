"""Which features are found, and how many of them are false: rules of selection on simulated responses.

    python benchmarks/recovery.py [--designs few,ten] [--replications 100] [--penalty 20] [--fdr 0.1] [--full-bayes]

The rules are stated before the data are drawn:

tests: ``fit.select_features(fdr=0.1)``, which promises that 10 % of the selected features are false in the mean;
mode: ``kappa`` is not exactly zero in every task, ``fit.relevance()["included"]``;
horseshoe (``--full-bayes``, 15 s each): the posterior probability that the feature's share of the sum of relevances is
above 1 % (or 3 %, or 5 %) is above one half.

Printed are means over replications, with standard errors: the share of false features among the selected ones, zero
where none is selected (its mean is the false discovery rate), and the share of the relevant features that are selected.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

import zoo

SHARES = (0.01, 0.03, 0.05)


class Drawn(NamedTuple):
    """Data, and which features count (D,)."""

    data: zoo.MultiTaskData
    relevant: np.ndarray


def _respond(X: np.ndarray, task: np.ndarray, W: np.ndarray, noise: float, rng: np.random.Generator) -> Drawn:
    """Linear responses with coefficients W (T, D), a level of each task, and noise."""
    f = np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=len(W))[task]
    data = zoo.MultiTaskData.from_arrays(X, f + noise * rng.normal(size=len(f)), task)
    return Drawn(data, np.any(W != 0.0, axis=0))


def _coefficients(T: int, D: int, k: int, mean: float, sd: float, rng: np.random.Generator) -> np.ndarray:
    W = np.zeros((T, D))
    W[:, rng.choice(D, k, replace=False)] = mean + sd * rng.normal(size=(T, k))
    return W


def paper(rng: np.random.Generator) -> Drawn:
    """Srijith & Shevade's "high": ten tasks of 5 rows, five of ten features count."""
    seed = int(rng.integers(2**31))
    data, truth = zoo.datasets.simulate_joint_selection(n_per_task=5, noise=0.04, random_seed=seed)
    return Drawn(data, truth["relevant"].to_numpy())


def ten(rng: np.random.Generator) -> Drawn:
    """Ten tasks of 40 rows, four of ten features count."""
    X, task = rng.normal(size=(400, 10)), np.repeat(np.arange(10), 40)
    return _respond(X, task, _coefficients(10, 10, 4, 0.0, 1.0, rng), 1.0, rng)


def correlated(rng: np.random.Generator) -> Drawn:
    """Forty tasks of 10 rows, five of twenty features count, neighbours are correlated by 0.7."""
    root = np.linalg.cholesky(0.7 ** np.abs(np.subtract.outer(np.arange(20), np.arange(20))))
    X, task = rng.normal(size=(400, 20)) @ root.T, np.repeat(np.arange(40), 10)
    return _respond(X, task, _coefficients(40, 20, 5, 0.5, 0.5, rng), 1.0, rng)


def uneven(rng: np.random.Generator) -> Drawn:
    """Features have levels of tasks; half are binary, one is skewed; tasks have 4 to 30 rows."""
    task = np.repeat(np.arange(20), rng.integers(4, 31, size=20))
    X = rng.normal(size=(len(task), 10)) + rng.normal(size=(20, 10))[task]
    X[:, 5:], X[:, 4] = X[:, 5:] > 0.7, np.exp(0.5 * X[:, 4])
    return _respond(X, task, _coefficients(20, 10, 3, 0.0, 1.0, rng), 1.0, rng)


def none(rng: np.random.Generator) -> Drawn:
    """Twenty tasks of 10 rows, and none of ten features counts."""
    return _respond(rng.normal(size=(200, 10)), np.repeat(np.arange(20), 10), np.zeros((20, 10)), 1.0, rng)


SCHOOL = (
    "year 1",
    "year 2",
    "gender 1",
    "VR band 1",
    "VR band 2",
    "ethnic group 1",
    "ethnic group 5",
    "ethnic group 11",
)


def schools(rng: np.random.Generator) -> Drawn:
    """Students of 30 schools with eight of their binary features as they are, of which three count."""
    data = zoo.datasets.load_school()
    rows = np.flatnonzero(data.task < 30)
    data = data.take(np.sort(rng.choice(rows, 900, replace=False))).standardize()
    X = data.X[:, [data.feature_names.index(name) for name in SCHOOL]]
    return _respond(X, data.task, _coefficients(data.n_tasks, len(SCHOOL), 3, 0.2, 0.5, rng), 2.0, rng)


def shared(rng: np.random.Generator) -> Drawn:
    """Twelve tasks have the same 80 rows, as labels of songs do; three of eight features count."""
    X, task = np.tile(rng.normal(size=(80, 8)), (12, 1)), np.repeat(np.arange(12), 80)
    return _respond(X, task, _coefficients(12, 8, 3, 0.0, 0.3, rng), 1.0, rng)


def curved(rng: np.random.Generator) -> Drawn:
    """Functions of three of eight features, for the squared exponential kernel."""
    X, task = rng.normal(size=(600, 8)), np.repeat(np.arange(20), 30)
    a = rng.normal(size=(20, 3))[task]
    f = a[:, 0] * np.sin(2.0 * X[:, 0]) + 0.5 * a[:, 1] * X[:, 1] ** 2 + a[:, 2] * np.tanh(2.0 * X[:, 2])
    data = zoo.MultiTaskData.from_arrays(X, f + 0.3 * rng.normal(size=600), task)
    return Drawn(data, np.arange(8) < 3)


def squares(rng: np.random.Generator) -> Drawn:
    """Breaks what the tests assume: feature 1 is the square of feature 0, and feature 0 has a curved effect."""
    X, task = rng.normal(size=(600, 6)), np.repeat(np.arange(20), 30)
    X[:, 1] = X[:, 0] ** 2 + 0.5 * rng.normal(size=600)
    f = rng.normal(size=20)[task] * np.cos(2.0 * X[:, 0])
    data = zoo.MultiTaskData.from_arrays(X, f + 0.3 * rng.normal(size=600), task)
    return Drawn(data, np.arange(6) < 1)


DESIGNS: dict[str, tuple[Callable[[np.random.Generator], Drawn], dict[str, Any]]] = {
    "paper": (paper, {"kernel": "linear", "noise_floor": 0.05}),
    **{
        design.__name__: (design, {"kernel": "linear", "noise_floor": 0.1})
        for design in (ten, correlated, uneven, none, schools, shared)
    },
    **{design.__name__: (design, {"noise_floor": 0.1}) for design in (curved, squares)},
}


def by_mode(drawn: Drawn, fields: dict[str, Any], penalty: float, fdr: float) -> dict[str, np.ndarray]:
    """Features that two rules select at one mode."""
    factory = zoo.MultiLaplaceGP(penalty=penalty, **fields)
    fit = factory.fit(drawn.data.standardize(), "map", progress=False)
    tests = fit.select_features(fdr=fdr, random_seed=0)
    return {"tests": tests["selected"].to_numpy(), "mode": fit.relevance()["included"].to_numpy()}


def by_horseshoe(drawn: Drawn, fields: dict[str, Any], seed: int) -> dict[str, np.ndarray]:
    """Features included under the horseshoe."""
    factory = zoo.MultiLaplaceGP(
        prior="horseshoe", noise_rate="learned", kernel=fields.get("kernel", "linear")
    )
    fit = factory.fit(
        drawn.data.standardize(), "nuts", draws=500, tune=500, chains=2, cores=1, random_seed=seed, progress=False,
        nuts={"target_accept": 0.95},
    )  # fmt: skip
    return {
        f"horseshoe, share above {share:.0%}": fit.relevance(threshold=share)["included"].to_numpy()
        for share in SHARES
    }


def main() -> None:
    """Replicate, and print rates."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--designs", default=",".join(DESIGNS), help="of " + ", ".join(DESIGNS))
    parser.add_argument("--replications", type=int, default=100)
    parser.add_argument("--penalty", type=float, default=20.0)
    parser.add_argument("--fdr", type=float, default=0.1)
    parser.add_argument("--full-bayes", action="store_true", help="the horseshoe too")
    arguments = parser.parse_args()
    print("| design | rule | false discoveries | relevant found | s |\n| --- | --- | --- | --- | --- |")
    for name in arguments.designs.split(","):
        design, fields = DESIGNS[name]
        rates: dict[str, list[tuple[float, float]]] = {}
        started = time.perf_counter()
        for seed in range(arguments.replications):
            drawn = design(np.random.default_rng(seed))
            found = by_mode(drawn, fields, arguments.penalty, arguments.fdr)
            if arguments.full_bayes:
                found |= by_horseshoe(drawn, fields, seed)
            for rule, selected in found.items():
                false, right = selected & ~drawn.relevant, selected & drawn.relevant
                rates.setdefault(rule, []).append(
                    (false.sum() / max(selected.sum(), 1), right.sum() / max(drawn.relevant.sum(), 1))
                )
        seconds = (time.perf_counter() - started) / arguments.replications
        for rule, pairs in rates.items():
            values = np.array(pairs)
            error = values.std(axis=0, ddof=1) / np.sqrt(len(values))
            shown = " | ".join(
                f"{100 * m:.1f} % ({100 * e:.1f})" for m, e in zip(values.mean(0), error, strict=True)
            )
            print(f"| {name} | {rule} | {shown} | {seconds:.1f} |", flush=True)


if __name__ == "__main__":
    main()
