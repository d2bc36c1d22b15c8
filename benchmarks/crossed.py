"""Two crossed groups: levels and slopes of persons, and levels of items, against restricted maximum likelihood.

    python benchmarks/crossed.py [--table FILE] [--largest 100000]

Simulated ratings: every person has a level and a slope of x, and every item a level. For every size the table has the
seconds that the data and the fit take (four chains of 1,000 draws after 500, compiled before), the worst R-hat and the
smallest ESS of all entries of the posterior, and, where there are no slopes, posterior mean and standard deviation of
the standard deviations of both groups and of the noise beside their estimates by restricted maximum likelihood, which
a script of 40 lines below computes. ``nuts`` samples the same model by nutpie, at the smallest size alone.

``--table`` reads a table with the columns y, s and d (and service, if it is there) by
``y ~ service + (1 | s) + (1 | d)``, such as InstEval of the R package lme4 (``write.csv(lme4::InstEval, FILE)``).
"""

from __future__ import annotations

import argparse
import time
import warnings
from typing import Any

import numpy as np
import pandas as pd
from scipy import sparse
from scipy.optimize import minimize

import zoo

SIZES = ((10_000, 1_000, 100), (100_000, 10_000, 1_000))
SETTINGS: dict[str, Any] = {"draws": 1000, "tune": 500, "chains": 4, "random_seed": 1, "progress": False}


def simulated(rows: int, persons: int, items: int, slopes: bool, seed: int = 0) -> pd.DataFrame:
    """Ratings of items by persons."""
    rng = np.random.default_rng(seed)
    person, item = rng.integers(0, persons, rows), rng.integers(0, items, rows)
    level, slope, of_item = (
        rng.normal(size=persons),
        0.5 * rng.normal(size=persons),
        0.7 * rng.normal(size=items),
    )
    x = rng.normal(size=rows)
    y = 0.3 + level[person] + of_item[item] + rng.normal(size=rows)
    y += (1.0 + slope[person]) * x if slopes else x
    frame = pd.DataFrame({"x": x, "y": y, "person": person, "item": item})
    return frame.assign(person=frame["person"].map("p{}".format), item=frame["item"].map("i{}".format))


def reml(y: np.ndarray, X: np.ndarray, first: Any, second: Any) -> np.ndarray:
    """Standard deviations of two crossed groups and of the noise, by restricted maximum likelihood.

    The first group is eliminated level by level (Henderson's equations), and a dense system of the second is left.
    """
    codes = [pd.factorize(group)[0] for group in (first, second)]
    Z, V = (sparse.csr_array((np.ones(len(y)), (np.arange(len(y)), code))) for code in codes)
    size, cross, W = np.bincount(codes[0]), (Z.T @ V).tocsr(), np.column_stack([X, y])
    of_first, of_second, square = Z.T @ W, V.T @ W, W.T @ W
    counts, p = np.bincount(codes[1]), X.shape[1]

    def profiled(log_ratios: np.ndarray) -> tuple[float, np.ndarray]:
        a, b = np.exp(log_ratios)
        inverse = 1.0 / (size + 1.0 / a)
        back = cross.T @ sparse.diags_array(inverse)
        factor = np.linalg.cholesky(np.diag(counts + 1.0 / b) - (back @ cross).toarray())
        left = np.linalg.solve(factor, of_second - back @ of_first)
        M = square - of_first.T @ (inverse[:, None] * of_first) - left.T @ left
        root = np.linalg.cholesky(M[:p, :p])
        variance = (M[p, p] - np.sum(np.linalg.solve(root, M[:p, p]) ** 2)) / (len(y) - p)
        log_det = len(size) * log_ratios[0] - np.log(inverse).sum() + len(counts) * log_ratios[1]
        log_det += 2.0 * (np.log(np.diag(factor)).sum() + np.log(np.diag(root)).sum())
        return (len(y) - p) * np.log(variance) + log_det, np.sqrt(np.array([a, b, 1.0]) * variance)

    found = minimize(lambda x: profiled(x)[0], [-1.0, -1.0], method="Nelder-Mead", options={"xatol": 1e-5})
    return profiled(found.x)[1]


def measured(
    name: str, formula: str, frame: pd.DataFrame, method: str = "gibbs", estimates: Any = None
) -> None:
    """Print one row of the table."""
    start = time.perf_counter()
    data = zoo.MultiTaskData.from_formula(formula, frame).standardize()
    made = time.perf_counter() - start
    settings = SETTINGS if method == "gibbs" else {**SETTINGS, "nuts": {"target_accept": 0.9}}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        if method == "gibbs":
            zoo.NIWLinear().fit(data, method, **{**SETTINGS, "draws": 4, "tune": 1})
        start = time.perf_counter()
        fit = zoo.NIWLinear().fit(data, method, **settings)
    seconds = time.perf_counter() - start
    seen = fit.idata["sample_stats"].attrs
    ess = min(seen["convergence_ess_bulk"], seen["convergence_ess_tail"])
    cells = [name, method, f"{made:.1f}", f"{seconds:.0f}", f"{seen['convergence_r_hat']:.3f}", f"{ess:,.0f}"]
    scale = data.transform.y_scale
    parts = [np.sqrt(fit.posterior["feature_cov"][..., 0, 0]), fit.posterior["effect_scale"][..., 0]]
    for i, draws in enumerate([*parts, fit.posterior["noise"]]):
        estimate = "" if estimates is None else f" ({estimates[i]:.4f})"
        cells.append(f"{scale * float(draws.mean()):.4f} ± {scale * float(draws.std()):.4f}{estimate}")
    print("| " + " | ".join(cells) + " |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table")
    parser.add_argument("--largest", type=int, default=SIZES[-1][0])
    asked = parser.parse_args()
    print(
        "| data | method | s, data | s, fit | R-hat | ESS | tasks (REML) | second group (REML) | noise (REML) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for rows, persons, items in SIZES:
        if rows > asked.largest:
            continue
        for slopes in (False, True):
            frame = simulated(rows, persons, items, slopes)
            formula = f"y ~ x + ({'1 + x' if slopes else '1'} | person) + (1 | item)"
            X = np.column_stack([np.ones(rows), frame["x"]])
            known = None if slopes else reml(frame["y"].to_numpy(), X, frame["person"], frame["item"])
            name = f"{rows:,} ratings, {persons:,} x {items:,}{', slopes' if slopes else ''}"
            measured(name, formula, frame, estimates=known)
            if slopes and rows == SIZES[0][0]:
                measured(name, formula, frame, "nuts")
    if asked.table:
        frame = pd.read_csv(asked.table)
        fixed = [name for name in ("service",) if name in frame]
        frame = frame[["y", "s", "d", *fixed]].astype({"s": str, "d": str, "y": float})
        X = np.column_stack([np.ones(len(frame)), *(frame[name].astype(float) for name in fixed)])
        known = reml(frame["y"].to_numpy(), X, frame["s"], frame["d"])
        formula = f"y ~ {' + '.join(['1', *fixed])} + (1 | s) + (1 | d)"
        measured(f"{len(frame):,} rows of the table", formula, frame, estimates=known)


if __name__ == "__main__":
    main()
