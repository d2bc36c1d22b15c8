"""Crossed groups: levels and slopes of persons, and levels of items, against restricted maximum likelihood.

    python benchmarks/crossed.py [--table FILE] [--largest 100000] [--nuts]

Simulated ratings: every person has a level and a slope of x, and every item a level. For every size the table has the
seconds that the data and the fit take (four chains of 1,000 draws after 500, compiled before), the worst R-hat and the
smallest ESS of all entries of the posterior, and, where there are no slopes, posterior mean and standard deviation of
the standard deviations of both groups and of the noise beside their estimates by restricted maximum likelihood, which
a script of 40 lines below computes. From 1,000,000 ratings on the draws of persons are not kept. ``--nuts`` samples
the same model by nutpie, at the smallest size.

``--table`` reads a table with the columns y, s, d, service and dept, such as InstEval of the R package lme4
(``write.csv(lme4::InstEval, FILE)``), by ``y ~ service + (1 | s) + (1 | d)``, and once more with a third group, the
pairs of dept and service. Their estimates are those of lmer, which is timed too; that needs R with lme4.
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from r_script import run_r
from scipy import sparse
from scipy.optimize import minimize

import zoo

SIZES = ((10_000, 1_000, 100), (100_000, 10_000, 1_000), (1_000_000, 100_000, 10_000))
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
    settings = {**settings, "keep": "draws" if len(frame) < 1_000_000 else "population"}
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
    parts = [np.sqrt(fit.posterior["feature_cov"][..., 0, 0]), fit.posterior["noise"]]
    parts += list(fit.posterior["effect_scale"].transpose("effect", ...))
    for i, draws in enumerate(parts):
        estimate = "" if estimates is None else f" ({estimates[i]:.4f})"
        cells.append(f"{scale * float(draws.mean()):.4f} ± {scale * float(draws.std()):.4f}{estimate}")
    print("| " + " | ".join(cells) + " |", flush=True)


def lmer(formula: str, frame: pd.DataFrame) -> np.ndarray | None:
    """Standard deviations of the first group, of the noise, and of the other groups, by lme4; its seconds are said."""
    script = f"""
        suppressMessages(library(lme4))
        folder <- commandArgs(TRUE)[1]
        d <- read.csv(file.path(folder, "table.csv"), stringsAsFactors = TRUE)
        seconds <- system.time(m <- lmer({formula}, d))[3]
        sds <- as.data.frame(VarCorr(m)); rownames(sds) <- sds$grp
        write.csv(sds[, "sdcor", drop = FALSE], file.path(folder, "sds.csv"))
        cat(seconds)
    """
    with tempfile.TemporaryDirectory() as folder:
        frame.to_csv(Path(folder) / "table.csv", index=False)
        seconds = run_r(script, Path(folder), 0)
        if seconds is None:
            return None
        print(f"lmer of {formula}: {seconds:.1f} s", file=sys.stderr)
        sds = pd.read_csv(Path(folder) / "sds.csv", index_col=0)["sdcor"]
    first, *others = re.findall(r"\| (\w+)\)", formula)
    return sds[[first, "Residual", *others]].to_numpy()


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--table")
    parser.add_argument("--largest", type=int, default=SIZES[-1][0])
    parser.add_argument("--nuts", action="store_true")
    asked = parser.parse_args()
    print(
        "| data | method | s, data | s, fit | R-hat | ESS | tasks (REML) | noise (REML) | further groups (REML) |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for rows, persons, items in SIZES:
        if rows > asked.largest:
            continue
        for slopes in (False, True) if rows < 1_000_000 else (False,):
            frame = simulated(rows, persons, items, slopes)
            formula = f"y ~ x + ({'1 + x' if slopes else '1'} | person) + (1 | item)"
            X = np.column_stack([np.ones(rows), frame["x"]])
            # REML has a dense matrix of items.
            easy = not slopes and items <= 1_000
            known = (
                reml(frame["y"].to_numpy(), X, frame["person"], frame["item"])[[0, 2, 1]] if easy else None
            )
            name = f"{rows:,} ratings, {persons:,} x {items:,}{', slopes' if slopes else ''}"
            measured(name, formula, frame, estimates=known)
            if slopes and rows == SIZES[0][0] and asked.nuts:
                measured(name, formula, frame, "nuts")
    if asked.table:
        frame = pd.read_csv(asked.table)
        frame["pair"] = frame["dept"].astype(str) + " of " + frame["service"].astype(str)
        frame = frame[["y", "s", "d", "service", "pair"]].astype({"s": str, "d": str, "y": float})
        frame["s"], frame["d"] = "s" + frame["s"], "d" + frame["d"]
        for formula in ("y ~ service + (1 | s) + (1 | d)", "y ~ service + (1 | s) + (1 | d) + (1 | pair)"):
            measured(f"`{formula}`", formula, frame, estimates=lmer(formula, frame))


if __name__ == "__main__":
    main()
