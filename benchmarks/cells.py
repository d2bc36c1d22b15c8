"""Gibbs by augmentation against NUTS: the smallest effective sample size per second of any number.

    python benchmarks/cells.py

T = 20 tasks, D = 10 features, N = 1,000 rows, simulated, unless a case says another size; varying coefficients have
two features, and one task. "augmentation" is Gibbs
without the moves under the likelihood that it takes where a label is rare. Both engines have compiled before the clock
starts: a first fit of few draws is thrown away, and of NUTS the time that nutpie reports for sampling
is taken. Both run the same chains one after the other, with nothing else on the machine.
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any
from unittest import mock

import numpy as np

import zoo
from zoo.inference.gibbs import augmented_discrete_responses as labels

T, D, N = 20, 10, 1000


def rows(
    responses: str,
    rare: float | None = None,
    shape: tuple[int, int, int] = (T, D, N),
    seed: int = 0,
) -> zoo.MultiTaskData:
    """Tasks whose coefficients scatter about a common mean; ``rare`` is the share of positive labels."""
    rng = np.random.default_rng(seed)
    T, D, N = shape
    task = np.sort(np.arange(N) % T)
    X = rng.standard_normal((N, D))
    X[:, 0] = 1.0
    w = 0.5 * rng.standard_normal(D)[:, None] + 0.3 * rng.standard_normal((D, T))
    f = np.einsum("nd,nd->n", X, w.T[task])
    if responses == "labels":
        shift = 0.0 if rare is None else -np.quantile(f + rng.logistic(size=N), 1.0 - rare)
        y: Any = np.where(f + shift + rng.logistic(size=N) > 0, 1.0, -1.0)
    elif responses == "counts":
        y = rng.poisson(np.exp(0.5 * f) * rng.gamma(2.0, 0.5, N)).astype(float)
    elif responses == "grades":
        y = 1.0 + np.sum(f + rng.standard_normal(N) > np.array([[0.0], [0.5], [1.0], [2.0]]), axis=0)
    else:
        y = f + 0.4 * rng.standard_t(4.0, N)
    return zoo.MultiTaskData.from_arrays(X, y, task)


def varying(responses: str, n_rows: int, seed: int = 0) -> zoo.MultiTaskData:
    """Rows whose intercept and two coefficients vary over one continuous variable."""
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n_rows, 2)), rng.uniform(0.0, 10.0, n_rows)
    f = np.cos(t) + 1.5 * np.sin(t) * X[:, 0] + np.cos(0.5 * t) * X[:, 1]
    labels = np.where(f + rng.logistic(size=n_rows) > 0.0, 1.0, -1.0)
    y = labels if responses == "labels" else f + 0.3 * rng.standard_t(4.0, n_rows)
    return zoo.MultiTaskData.from_arrays(X, y, np.zeros(n_rows, dtype=int), t=t)


def measured(
    factory: zoo.ModelFactory, data: zoo.MultiTaskData, method: str, draws: int, chains: int = 2
) -> dict[str, float]:
    """Seconds of sampling, smallest ESS, largest R-hat and divergences of a fit."""
    options: dict[str, Any] = {"chains": chains, "progress": False, "cores": 1}
    share = 0.0 if method == "augmentation" else labels.RARE
    method = "gibbs" if method == "augmentation" else method
    with warnings.catch_warnings(), mock.patch.object(labels, "RARE", share):
        warnings.simplefilter("ignore")
        factory.fit(data, method, draws=20, tune=20, random_seed=3, **options)
        start = time.perf_counter()
        fit = factory.fit(data, method, draws=draws, tune=1000, random_seed=1, **options)
        seconds = time.perf_counter() - start
    stats = fit.idata["sample_stats"]
    if method == "nuts":
        seconds = float(stats.attrs.get("sampling_time", seconds))
    table = fit.diagnostics()
    found = {
        "ess": float(table[["ess_bulk", "ess_tail"]].to_numpy().min()),
        "r_hat": float(table["r_hat"].max()),
    }
    divergences = float(stats["diverging"].sum()) if "diverging" in stats else 0.0
    return {**found, "seconds": seconds, "ess/s": found["ess"] / seconds, "divergences": divergences}


CASES: dict[str, tuple[Any, ...]] = {
    "MaxMargin, logistic": ("MaxMargin", {}, "logistic", None),
    "MaxMargin, student_t": ("MaxMargin", {}, "student_t", None),
    "MaxMargin, negative_binomial": ("MaxMargin", {}, "negative_binomial", None),
    "MaxMargin, ordinal": ("MaxMargin", {}, "ordinal", None),
    "NIWLinear, ordinal": ("NIWLinear", {"scale_matrix": 1.0 / D}, "ordinal", None),
    "NIWLinear, logistic": ("NIWLinear", {"scale_matrix": 1.0 / D}, "logistic", None),
    "NIWLinear, student_t": ("NIWLinear", {"scale_matrix": 1.0 / D}, "student_t", None),
    "NIWLinear, negative_binomial": ("NIWLinear", {"scale_matrix": 1.0 / D}, "negative_binomial", None),
    "NIWLinear, logistic, 1 % positive": ("NIWLinear", {"scale_matrix": 1.0 / D}, "logistic", 0.01),
    "MaxMargin, logistic, 1 % positive": ("MaxMargin", {}, "logistic", 0.01),
    "NIWLinear, 29 tasks x 9 features x 3,700 rows, 6 % positive": (
        "NIWLinear", {"scale_matrix": 1.0 / 9}, "logistic", 0.06, (29, 9, 3700)
    ),
    "MaxMargin, 29 tasks x 9 features x 3,700 rows, 6 % positive": (
        "MaxMargin", {}, "logistic", 0.06, (29, 9, 3700)
    ),
    "MultiTaskKernelMachine, logistic": ("MultiTaskKernelMachine", {}, "logistic", None),
    "MultiTaskKernelMachine, ordinal": ("MultiTaskKernelMachine", {}, "ordinal", None),
    "MultiTaskKernelMachine, student_t": ("MultiTaskKernelMachine", {}, "student_t", None),
    "MultiTaskKernelMachine, negative_binomial": ("MultiTaskKernelMachine", {}, "negative_binomial", None),
    **{
        f"VaryingCoefficientGP, {word}, {what}": ("VaryingCoefficientGP", fields, word, n_rows)
        for word in ("hinge", "epsilon_insensitive", "laplace_noise", "gaussian", "student_t", "logistic")
        for what, fields, n_rows in (
            ("150 rows", {}, 150),
            ("300 rows", {}, 300),
            ("2,000 rows, sines", {"approximation": "hsgp"}, 2000),
        )
    },
}  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=1000)
    parser.add_argument("--only", nargs="*", default=[], help="parts of names of cases")
    parser.add_argument("--methods", nargs="*", default=["gibbs", "nuts"], help="gibbs, augmentation, nuts")
    parser.add_argument("--chains", type=int, default=2)
    arguments = parser.parse_args()
    print("| case | method | worst R-hat | smallest ESS | seconds | ESS per second | divergences |")
    print("|---|---|---|---|---|---|---|")
    for name, (model, fields, word, *shape) in CASES.items():
        if arguments.only and not any(part in name for part in arguments.only):
            continue
        factory = getattr(zoo, model)(likelihood=word, **fields)
        data = (varying if model == "VaryingCoefficientGP" else rows)(factory.likelihood.responses, *shape)
        for method in arguments.methods:
            r = measured(factory, data, method, arguments.draws, arguments.chains)
            print(
                f"| {name} | {method} | {r['r_hat']:.3f} | {r['ess']:,.0f} | {r['seconds']:.1f} | {r['ess/s']:.1f} | "
                f"{r['divergences']:.0f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
