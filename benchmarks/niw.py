"""Gibbs sampling of the normal-inverse-Wishart hierarchy against R's bayesm, on the same data and prior, in one run.

    python benchmarks/niw.py [--draws 2000] [--large] [--few] [--constant] [--little]

``rhierLinearModel`` of bayesm (Rossi, Allenby & McCulloch 2005; Debian's r-cran-bayesm) samples the same posterior:
its Delta is the population's mean, its V_beta the covariance, its tau_i the noise variances. Both run in one thread.
Printed: milliseconds per iteration (warm, compilation and reading of data left out), effective draws per second of the
coefficients, and how far the posterior means of all coefficients are apart in Monte-Carlo errors: the root mean square
should be near 1. Without R the rows of bayesm are left out.

``--constant`` compares instead the sampler with and without its moves on tasks with features that are constant within
them: worst R-hat, and effective draws per second of the slowest of all quantities. The sampler without moves gets ten
times the draws, because its effective size cannot be told from few. ``--little`` does the same, with as many draws, on
tasks that know little of all their coefficients: three splits of School, and simulated patients.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from pathlib import Path

import numpy as np
from arviz_stats.base import array_stats
from r_script import run_r
from threadpoolctl import threadpool_limits

import zoo
from zoo.inference.gibbs.normal_inverse_wishart import NormalInverseWishartKernel
from zoo.inference.run.chains import run_chains
from zoo.inference.run.mixing import mixing

SHAPES = [(139, 110, 28), (100, 20, 5), (1000, 20, 5)]
FEW_ROWS = [(139, 5, 28), (100, 3, 5)]
PI, DELTA, NOISE = 0.01, 4.0, (1.5, 1.5)
_WARM_UP = 200

_R = """
suppressMessages(library(bayesm))
d <- commandArgs(TRUE)
n <- as.integer(scan(file.path(d[1], "shape.txt"), quiet = TRUE))
X <- matrix(readBin(file.path(d[1], "X.bin"), "double", n[1] * n[2] * n[3]), ncol = n[3], byrow = TRUE)
y <- readBin(file.path(d[1], "y.bin"), "double", n[1] * n[2])
p <- scan(file.path(d[1], "prior.txt"), quiet = TRUE)
reg <- lapply(seq_len(n[1]), function(t) {
  rows <- ((t - 1) * n[2] + 1):(t * n[2]); list(y = y[rows], X = X[rows, , drop = FALSE]) })
Z <- matrix(1, n[1], 1)
prior <- list(Deltabar = matrix(0, 1, n[3]), A = matrix(p[1]), nu.e = p[3], ssq = rep(p[4], n[1]), nu = p[2],
              V = diag(n[3]))
R <- as.integer(d[2])
run <- function() rhierLinearModel(Data = list(regdata = reg, Z = Z), Prior = prior,
                                   Mcmc = list(R = R, keep = 1, nprint = 0))
invisible(capture.output(seconds <- system.time(out <- run())["elapsed"]))
writeBin(as.vector(out$betadraw), file.path(d[1], "draws.bin"))
cat(seconds)
"""


def simulate(T: int, n: int, D: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Rows of T tasks with n rows each; the first column is an intercept."""
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(T * n, D))
    X[:, 0] = 1.0
    task = np.repeat(np.arange(T), n)
    w = rng.normal(size=D) + 0.5 * rng.normal(size=(T, D))
    return X, (X * w[task]).sum(axis=1) + rng.normal(size=T * n), task


def run_zoo(
    X: np.ndarray, y: np.ndarray, task: np.ndarray, draws: int, moves: bool
) -> tuple[float, np.ndarray]:
    """Seconds per sweep, and draws (draw, D, T) of the coefficients."""
    data = zoo.MultiTaskData.from_arrays(X, y, task, task_names=[f"t{i}" for i in range(task.max() + 1)])
    model = zoo.NIWLinear(
        pi=PI,
        delta=DELTA,
        scale_matrix=1.0,
        likelihood=zoo.Gaussian(noise=zoo.likelihoods.InverseGammaOfSquare(*NOISE), per_task=("noise",)),
    )
    kernel = model.gibbs_kernel(model.design(data), model.validate(data), group_moves=moves)
    options = {"tune": 0, "chains": 1, "cores": 1, "threads": 1, "progress": False}
    run_chains(kernel, draws=2, random_seed=0, **options)  # compiles
    start = time.perf_counter()
    posterior, _ = run_chains(kernel, draws=draws, random_seed=1, **options)
    return (time.perf_counter() - start) / draws, posterior["coefficients"][0]


def run_bayesm(X: np.ndarray, y: np.ndarray, task: np.ndarray, draws: int) -> tuple[float, np.ndarray] | None:
    """The same of bayesm; None where there is no R with it."""
    if shutil.which("Rscript") is None:
        return None
    T, D = int(task.max()) + 1, X.shape[1]
    n = len(y) // T
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        X.tofile(place / "X.bin")
        y.tofile(place / "y.bin")
        (place / "shape.txt").write_text(f"{T} {n} {D}\n")
        # bayesm's noise: nu.e ssq / chi^2(nu.e), the inverse gamma of shape nu.e / 2 and rate nu.e ssq / 2.
        shape, rate = NOISE
        (place / "prior.txt").write_text(f"{PI} {DELTA + D - 1} {2 * shape} {rate / shape}\n")
        seconds = run_r(_R, place, draws)
        if seconds is None:
            return None
        values = np.fromfile(place / "draws.bin").reshape(draws, D, T)  # R: (T, D, draw), first index fastest
    return seconds / draws, values


def summary(values: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Mean, Monte-Carlo error and effective sample size of each column of (draw, D, T) values."""
    flat = values[_WARM_UP:].reshape(len(values) - _WARM_UP, -1)
    kept = flat[:, :: max(1, flat.shape[1] // 500)]
    ess = np.array(
        [float(array_stats.ess(v[None], chain_axis=0, draw_axis=1, method="mean")) for v in kept.T]
    )
    return kept.mean(axis=0), kept.std(axis=0) / np.sqrt(ess), ess


def compare(T: int, n: int, D: int, draws: int) -> None:
    """Print the rows of one shape."""
    X, y, task = simulate(T, n, D)
    print(f"\nT = {T}, N_t = {n}, D = {D}, {draws} draws")
    reference = run_bayesm(X, y, task, draws)
    rows = [] if reference is None else [("bayesm", *reference)]
    rows += [
        ("zoo", *run_zoo(X, y, task, draws, False)),
        ("zoo, group moves", *run_zoo(X, y, task, draws, True)),
    ]
    base_seconds, base = rows[0][1], summary(rows[0][2])
    for name, seconds, values in rows:
        mean, error, ess = summary(values)
        z = (mean - base[0]) / np.hypot(error, base[1])
        rate = ess / (seconds * len(values))
        print(
            f"  {name:18s} {1e3 * seconds:8.3f} ms  {base_seconds / seconds:6.2f}x  "
            f"ESS/s smallest {rate.min():9.1f} median {np.median(rate):9.1f}"
            + ("" if name == rows[0][0] else f"  z against {rows[0][0]}: rms {np.sqrt(np.mean(z**2)):.2f}")
        )


def simulate_constant(seed: int, T: int = 40, n: int = 20) -> zoo.MultiTaskData:
    """Patients with age and sex, a slope in time, copies of one feature, and features without any effect."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    age, sex = rng.normal(size=T)[task], rng.integers(0, 2, T)[task].astype(float)
    time_of, one = rng.uniform(size=T * n), rng.normal(size=T * n)
    copies = [one + 0.05 * rng.normal(size=T * n) for _ in range(3)]
    X = np.column_stack([age, sex, time_of, *copies, rng.normal(size=(T * n, 3))])
    effects = rng.normal(size=T)[task] + 0.3 * rng.normal(size=T)[task] * time_of
    y = effects + 0.5 * age - 0.3 * sex + 0.1 * rng.normal(size=T * n)
    X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(T * n)])
    return zoo.MultiTaskData.from_arrays(X, (y - y.mean()) / y.std(), task)


def compare_moves(name: str, data: zoo.MultiTaskData, model: zoo.NIWLinear, draws: int, more: int) -> None:
    """Print the sampler with and without its moves, four chains each, ``more`` times the draws without."""
    print(f"\n{name}, 4 chains")
    data, rates = model.design(data), []
    kernels = [model.gibbs_kernel(data, model.validate(data), group_moves=moves) for moves in (False, None)]
    for label, kernel, kept in zip(
        ("without moves", "with moves"), kernels, (more * draws, draws), strict=True
    ):
        options = {"tune": 500, "chains": 4, "cores": 1, "threads": 1, "progress": False}
        run_chains(kernel, draws=2, random_seed=0, **options)  # compiles
        start = time.perf_counter()
        posterior, _ = run_chains(kernel, draws=kept, random_seed=1, **options)
        seconds = (time.perf_counter() - start) * kept / (kept + 500)
        columns = [v.reshape(*v.shape[:2], -1) for v in posterior.values()]
        values = np.concatenate(columns, axis=2)
        found = mixing(np.ascontiguousarray(np.moveaxis(values, 2, 0)))
        rates.append(float(np.nanmin(found.ess_bulk)) / seconds)
        print(
            f"  {label:14s} {4 * kept:6d} draws  worst R-hat {np.nanmax(found.r_hat):.3f}  smallest ESS "
            f"{np.nanmin(found.ess_bulk):6.0f}  median {np.nanmedian(found.ess_bulk):6.0f}  "
            f"smallest a second {rates[-1]:8.2f}"
        )
    print(
        f"  ratio of the smallest ESS a second: {rates[1] / rates[0]:.1f}; time of a sweep, by turns: "
        f"{sweep_ratio(*kernels):.2f}"
    )


def sweep_ratio(first: NormalInverseWishartKernel, second: NormalInverseWishartKernel) -> float:
    """Time of a sweep of the second kernel over that of the first: median over turns of 60 sweeps each."""
    rng = np.random.default_rng(0)
    pairs = [(kernel, kernel.initialise(rng)) for kernel in (first, second)]
    seconds = np.empty((40, 2))
    for turn in seconds:
        for i, (kernel, state) in enumerate(pairs):
            start = time.perf_counter()
            for _ in range(60):
                kernel.sweep(rng, state)
            turn[i] = time.perf_counter() - start
    return float(np.median(seconds[:, 1] / seconds[:, 0]))


def simulate_noisy(seed: int, T: int = 40, n: int = 24) -> zoo.MultiTaskData:
    """Patients with age and sex, and effects of eight features that the noise nearly drowns."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(T), n)
    age, sex = rng.normal(size=T)[task], rng.integers(0, 2, T)[task].astype(float)
    X = np.column_stack([age, sex, rng.normal(size=(T * n, 8))])
    effects = rng.normal(size=T)[task] + 0.5 * age - 0.3 * sex
    effects = effects + (0.3 * rng.normal(size=(T, 8))[task] * X[:, 2:]).sum(axis=1)
    y = effects + 1.5 * rng.normal(size=T * n)
    X = np.column_stack([(X - X.mean(axis=0)) / X.std(axis=0), np.ones(T * n)])
    return zoo.MultiTaskData.from_arrays(X, (y - y.mean()) / y.std(), task)


def main() -> None:
    """Run all shapes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=2000)
    parser.add_argument("--few", action="store_true", help="only tasks with fewer rows than coefficients")
    parser.add_argument(
        "--large", action="store_true", help="also T = 10,000, 300 draws, without bayesm's draws"
    )
    parser.add_argument("--constant", action="store_true", help="only features constant within tasks")
    parser.add_argument(
        "--little", action="store_true", help="only tasks that know little of all coefficients"
    )
    arguments = parser.parse_args()
    with threadpool_limits(1):
        if arguments.constant:
            for seed in range(3):
                name = f"features constant within tasks, seed {seed}"
                compare_moves(name, simulate_constant(seed), zoo.NIWLinear(), arguments.draws, 10)
            return
        if arguments.little:
            for split in (1, 2, 3):
                data = zoo.datasets.load_school(split=split)[0].standardize()
                compare_moves(f"School, split {split}", data, zoo.NIWLinear(), 1000, 1)
            for seed in (11, 12, 13):
                name = f"patients with much noise, seed {seed}"
                compare_moves(name, simulate_noisy(seed), zoo.NIWLinear(), arguments.draws, 1)
            return
        for shape in FEW_ROWS if arguments.few else SHAPES:
            compare(*shape, arguments.draws)
        if arguments.large:
            compare(10_000, 20, 5, 300)


if __name__ == "__main__":
    main()
