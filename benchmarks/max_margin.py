"""Gibbs and nutpie on one max-margin posterior, both covariances learned, one run for each set.

    ZOO_DATA=... python benchmarks/max_margin.py [--sets school emotions yeast cal500] [--nutpie-minutes 10]

School: split 1, standardized, epsilon-insensitive loss, C = 1, epsilon = 0.001. The others: hinge, C = 0.1, training
inputs standardized and an intercept; the official training inputs of emotions and yeast, two thirds of CAL500's.

nutpie is stopped after the given minutes; if it has not left warm-up by then, the second half of its warm-up draws
stands in.

Prints a Markdown table a set: seconds of compilation and of sampling, warm-up included, bulk effective sample
size per second over all coefficients, log|feature_cov| and log|task_cov|, and the worst R-hat among them.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
import warnings

import numpy as np
import nutpie
import xarray as xr
from arviz_stats.base import array_stats

import zoo

# Draws and warm-up of the Gibbs samplers: some minutes a set.
LENGTHS = {"school": (3000, 500), "emotions": (4000, 500), "yeast": (1500, 250), "cal500": (750, 250)}


def load(name: str) -> tuple[zoo.MaxMargin, zoo.MultiTaskData]:
    """Model and data of a set."""
    if name == "school":
        train, _ = zoo.datasets.load_school(split=1)
        return zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C=1.0, epsilon=0.001)), train.standardize()
    if name == "cal500":
        train, _ = zoo.datasets.load_cal500().split(1 / 3, random_seed=0)
    else:
        train, _ = getattr(zoo.datasets, f"load_{name}")(split="official")
    return zoo.MaxMargin(likelihood=zoo.Hinge(C=0.1)), train.standardize().add_intercept()


def quantities(posterior: xr.Dataset) -> np.ndarray:
    """All coefficients and both log determinants, (chain, draw, quantity)."""
    eta = posterior["coefficients"].to_numpy()
    parts = [eta.reshape(*eta.shape[:2], -1)]
    for name in ("feature_cov", "task_cov"):
        parts.append(np.linalg.slogdet(posterior[name].to_numpy())[1][..., None])
    return np.concatenate(parts, axis=2)


def row(name: str, posterior: xr.Dataset, seconds: float, compile_seconds: float) -> str:
    """One line of the table."""
    values = quantities(posterior)
    chains, draws, n = values.shape
    ess = np.array([array_stats.ess(values[:, :, i], chain_axis=0, draw_axis=1) for i in range(n)])
    rhat = np.array([array_stats.rhat(values[:, :, i], chain_axis=0, draw_axis=1) for i in range(n)])
    per_second = ess / seconds
    return (
        f"| {name} | {chains} x {draws} | {compile_seconds:.0f} | {seconds:.0f} | {per_second.min():.3g} "
        f"| {per_second[:-2].min():.3g} | {np.median(per_second[:-2]):.3g} | {per_second[-2]:.3g} "
        f"| {per_second[-1]:.3g} | {rhat.max():.3f} |"
    )


def gibbs(model: zoo.MaxMargin, data: zoo.MultiTaskData, draws: int, tune: int, moves: bool) -> str:
    """The compiled Gibbs sampler, with or without the group moves."""
    started = time.perf_counter()
    model.fit(data, "gibbs", draws=1, tune=0, chains=1, progress=False, group_moves=moves)
    compiled = time.perf_counter() - started
    started = time.perf_counter()
    fit = model.fit(
        data, "gibbs", draws=draws, tune=tune, chains=2, random_seed=1, progress=False, group_moves=moves
    )
    name = "Gibbs, group moves" if moves else "Gibbs, the paper's conditionals"
    return row(name, fit.posterior, time.perf_counter() - started, compiled)


def nuts(model: zoo.MaxMargin, data: zoo.MultiTaskData, draws: int, tune: int, minutes: float) -> str:
    """Nutpie on the same density, stopped after the given minutes."""
    started = time.perf_counter()
    compiled_model = nutpie.compile_pymc_model(model.build(data))
    compiled = time.perf_counter() - started
    started = time.perf_counter()
    sampler = nutpie.sample(
        compiled_model, draws=draws, tune=tune, chains=2, cores=2, seed=1, blocking=False,
        progress_bar=False,
    )  # fmt: skip
    try:
        tree = sampler.wait(timeout=60 * minutes)
    except TimeoutError:
        tree = sampler.abort()
    seconds = time.perf_counter() - started
    reached = {g: tree[g].to_dataset() for g in ("posterior", "warmup_posterior") if g in tree.children}
    for group, label in (
        ("posterior", "nutpie"),
        ("warmup_posterior", "nutpie, 2nd half of its warm-up"),
    ):
        kept = reached.get(group, xr.Dataset())
        kept = kept.dropna("draw", how="any", subset=["coefficients"]) if "coefficients" in kept else kept
        n = kept.sizes.get("draw", 0)
        if group == "warmup_posterior":
            kept = kept.isel(draw=slice(n // 2, None))
        if kept.sizes.get("draw", 0) >= 8:
            return row(label, kept, seconds, compiled)
    return f"| nutpie | {n} warm-up draws | {compiled:.0f} | {seconds:.0f} | too few to say | | | | | |"


def main() -> None:
    """Run and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", choices=LENGTHS, default=list(LENGTHS))
    parser.add_argument("--nutpie-minutes", type=float, default=10.0)
    args = parser.parse_args()
    # The table says of every sampler whether it has converged.
    warnings.filterwarnings("ignore", category=zoo.ConvergenceWarning)
    print(f"{platform.machine()}, {os.cpu_count()} cores, Python {platform.python_version()}, 2 chains")
    for name in args.sets:
        model, data = load(name)
        draws, tune = LENGTHS[name]
        print(f"\n{name}: {data}; {tune} warm-up sweeps\n")
        measured = [
            "smallest of all",
            "smallest coefficient",
            "median",
            "log det feature_cov",
            "log det task_cov",
        ]
        header = ["sampler", "chains x draws", "compile s", "sampling s", *(f"ESS/s {m}" for m in measured)]
        print("| " + " | ".join([*header, "worst R-hat"]) + " |")
        print("|---|---|---|---|---|---|---|---|---|---|")
        for moves in (True, False):
            print(gibbs(model, data, draws, tune, moves), flush=True)
        if args.nutpie_minutes > 0:
            print(nuts(model, data, draws, tune, args.nutpie_minutes), flush=True)


if __name__ == "__main__":
    main()
