"""The default method of ``VaryingCoefficientGP`` for many labels or counts: default sines beside neighbours.

    python benchmarks/vecchia_defaults.py [--set NAME ...]

Five sets that had no part in the rule by which ``fit(data)`` chooses between them: simulated fields of three ranges,
and labels of two maps. A third of the rows is held out. The script prints what is chosen, the seconds that this takes,
and for both methods the log loss of held-out labels, or the root mean squared error of the rate of held-out counts.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable

import numpy as np

import zoo
from zoo.models.varying_coefficient.methods import choose

# Places, responses, the likelihood, and the rates of counts.
Set = tuple[np.ndarray, np.ndarray, str, np.ndarray | None]
_MOST = 14_000


def field(n: int, length: float, degrees: int) -> tuple[np.ndarray, np.ndarray, np.random.Generator]:
    """Places on the unit square and a Matern field there, of smoothness half of ``degrees``, by a sum of waves."""
    rng = np.random.default_rng(5)
    places, waves = rng.uniform(size=(n, 2)), 3_000
    frequency = rng.normal(size=(waves, 2)) / np.sqrt(rng.chisquare(degrees, (waves, 1)) / degrees) / length
    phase = rng.uniform(0.0, 2.0 * np.pi, waves)
    f = [
        np.cos(part @ frequency.T + phase).sum(axis=1) * np.sqrt(2.0 / waves)
        for part in np.array_split(places, 20)
    ]
    return places, np.concatenate(f), rng


def labels_of_a_field(length: float) -> Set:
    places, f, rng = field(12_000, length, 5)
    return places, np.where(rng.random(len(f)) < 1.0 / (1.0 + np.exp(-1.5 * f)), 1.0, -1.0), "logistic", None


def counts_of_a_field() -> Set:
    places, f, rng = field(9_000, 0.05, 3)
    rate = np.exp(1.0 + 0.7 * f)
    return places, rng.poisson(rate).astype(float), "poisson", rate


def houses() -> Set:
    """Whether a house is among the fifth that is dearest by square foot."""
    data = zoo.datasets.load_king_county()
    price = data.y / data.X[:, data.feature_names.index("sqft_living")]
    return data.t[:, :2], np.where(price > np.quantile(price, 0.8), 1.0, -1.0), "logistic", None


def flats() -> Set:
    """Whether a rent is above the median."""
    data = zoo.datasets.load_nyc_rents()
    return data.t[:, :2], np.where(data.y > np.median(data.y), 1.0, -1.0), "logistic", None


SETS: dict[str, Callable[[], Set]] = {
    "labels, lengthscale 0.04": lambda: labels_of_a_field(0.04),
    "labels, lengthscale 0.3": lambda: labels_of_a_field(0.3),
    "counts, lengthscale 0.05": counts_of_a_field,
    "houses in King County": houses,
    "flats in New York": flats,
}


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--set", nargs="*", default=[], help="a part of the name of each set")
    asked = parser.parse_args().set
    warnings.simplefilter("ignore")
    print(
        "| set | rows | chosen | s | default sines | s | neighbours | s |\n|---|---|---|---|---|---|---|---|"
    )
    for name, load in SETS.items():
        if asked and not any(part in name for part in asked):
            continue
        places, y, likelihood, rate = load()
        order = np.random.default_rng(5).permutation(len(y))[:_MOST]
        train, test = np.split(order, [2 * len(order) // 3])
        data = zoo.MultiTaskData.from_arrays(None, y[train], t=places[train])
        start = time.perf_counter()
        chosen = choose(zoo.VaryingCoefficientGP(likelihood=likelihood), data).method
        cells = [name, f"{len(train):,}", chosen, f"{time.perf_counter() - start:.0f}"]
        for method, approximation in (("laplace", "hsgp"), ("vecchia", "vecchia")):
            start = time.perf_counter()
            factory = zoo.VaryingCoefficientGP(likelihood=likelihood, approximation=approximation)
            found = factory.fit(data, method, random_seed=1, progress=False).predict(
                None, t=places[test], random_seed=1
            )
            if rate is None:
                p = found["probability"].to_numpy()
                score = -np.mean(np.log(np.where(y[test] > 0.0, p, 1.0 - p)))
            else:
                score = np.sqrt(np.mean((found["mean"].to_numpy() - rate[test]) ** 2))
            cells += [f"{score:.4f}", f"{time.perf_counter() - start:.0f}"]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
