"""Characteristics of tasks: `task_features` against the Z of R's bayesm, on the same data, in one run.

    python benchmarks/task_features.py [--draws 6000] [--seeds 1 2 3]

Rossi, Allenby & McCulloch (2005, section 5.4): ``w_t = Delta' z_t + v_t`` with ``v_t ~ N(0, C)``. 300 tasks have 12
rows with a constant and two features, and two characteristics each, of which the second has no effect. bayesm's
``rhierLinearModel`` (Debian's r-cran-bayesm) samples the model with Z; ``NIWLinear`` has the same priors of C and of
each task's noise. The priors of Delta differ in one thing that 300 tasks do show: bayesm's is ``N(0, 100 C)`` in each
row, ours for the rows beside the constant ``N(0, 100)``, whose density does not depend on C. So our draws have the
weight ``det(C)^-1 exp(tr(Delta' Delta (I - C^-1)) / 200)``, over these two rows, which turns our posterior
into bayesm's.

Printed: root mean square of the z scores of means of Delta, C and the coefficients of 20 tasks, with the Monte Carlo
errors of both sides (near 1 if both are right); the smallest effective number of draws per second of Delta and C; and
the share of the true entries of Delta in our 90 % intervals. Without R the columns of bayesm are left out.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
from arviz_stats.base import array_stats
from r_script import run_r

import zoo
from zoo.likelihoods import InverseGammaOfSquare

T, ROWS = 300, 12
DELTA_DOF, NOISE = 4.0, (1.5, 1.5)
_WARM_UP = 1000
_TRUTH = np.array([[1.0, -0.5, 0.3], [0.8, 0.0, -0.6], [0.0, 0.0, 0.0]])  # (z, feature); z_0 is 1

_R = """
suppressMessages(library(bayesm))
d <- commandArgs(TRUE)
n <- as.integer(scan(file.path(d[1], "shape.txt"), quiet = TRUE))
X <- matrix(readBin(file.path(d[1], "X.bin"), "double", n[1] * n[2] * 3), ncol = 3, byrow = TRUE)
Z <- matrix(readBin(file.path(d[1], "Z.bin"), "double", n[1] * 3), ncol = 3, byrow = TRUE)
y <- readBin(file.path(d[1], "y.bin"), "double", n[1] * n[2])
p <- scan(file.path(d[1], "prior.txt"), quiet = TRUE)
reg <- lapply(seq_len(n[1]), function(t) {
  rows <- ((t - 1) * n[2] + 1):(t * n[2]); list(y = y[rows], X = X[rows, , drop = FALSE]) })
prior <- list(Deltabar = matrix(0, 3, 3), A = 0.01 * diag(3), nu.e = p[2], ssq = rep(p[3], n[1]), nu = p[1],
              V = diag(3))
R <- as.integer(d[2])
set.seed(1)
run <- function() rhierLinearModel(Data = list(regdata = reg, Z = Z), Prior = prior,
                                   Mcmc = list(R = R, keep = 1, nprint = 0))
invisible(capture.output(seconds <- system.time(out <- run())["elapsed"]))
writeBin(as.vector(out$Deltadraw), file.path(d[1], "delta.bin"))
writeBin(as.vector(out$Vbetadraw), file.path(d[1], "cov.bin"))
writeBin(as.vector(out$betadraw[1:20, , ]), file.path(d[1], "beta.bin"))
cat(seconds)
"""


def simulate(seed: int) -> tuple[pd.DataFrame, np.ndarray]:
    """Rows as a table, and the characteristics (T, 3) with the constant one."""
    rng = np.random.default_rng(seed)
    Z = np.column_stack([np.ones(T), rng.normal(size=(T, 2))])
    C = np.array([[0.5, 0.2, 0.0], [0.2, 0.4, -0.1], [0.0, -0.1, 0.3]])
    w = Z @ _TRUTH + rng.multivariate_normal(np.zeros(3), C, size=T)
    task = np.repeat(np.arange(T), ROWS)
    frame = pd.DataFrame(rng.normal(size=(T * ROWS, 2)), columns=["a", "b"])
    X = np.column_stack([np.ones(T * ROWS), frame])
    frame["y"] = np.sum(X * w[task], axis=1) + rng.normal(size=T * ROWS)
    frame["task"] = [f"t{t:03d}" for t in task]
    frame["one"] = 1.0
    frame["size"], frame["age"] = Z[task, 1], Z[task, 2]
    return frame, Z


def by_bayesm(frame: pd.DataFrame, Z: np.ndarray, draws: int) -> tuple[float, dict[str, np.ndarray]] | None:
    """Seconds, and draws of Delta (draw, z, feature), C, and coefficients of 20 tasks; None without R."""
    if shutil.which("Rscript") is None:
        return None
    X = np.column_stack([np.ones(len(frame)), frame[["a", "b"]]])
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        for name, values in (("X", X), ("Z", Z), ("y", frame["y"].to_numpy())):
            values.tofile(place / f"{name}.bin")
        (place / "shape.txt").write_text(f"{T} {ROWS}\n")
        # bayesm's noise: nu.e ssq / chi^2(nu.e), the inverse gamma of shape nu.e / 2 and rate nu.e ssq / 2.
        shape, rate = NOISE
        (place / "prior.txt").write_text(f"{DELTA_DOF + 2} {2 * shape} {rate / shape}\n")
        seconds = run_r(_R, place, draws)
        if seconds is None:
            return None
        # R's arrays have the first index fastest, and rows of draws: Delta is stacked by columns, (z, feature).
        delta = np.fromfile(place / "delta.bin").reshape(9, draws).T.reshape(draws, 3, 3).swapaxes(1, 2)
        cov = np.fromfile(place / "cov.bin").reshape(9, draws).T.reshape(draws, 3, 3)
        beta = np.fromfile(place / "beta.bin").reshape(draws, 3, 20).swapaxes(1, 2)
    return seconds, {"Delta": delta, "C": cov, "coefficients": beta}


def by_zoo(frame: pd.DataFrame, draws: int) -> tuple[float, dict[str, np.ndarray], float]:
    """Seconds, the same draws, and the worst R-hat of two chains."""
    data = zoo.MultiTaskData.from_frame(
        frame, y="y", task="task", features=["one", "a", "b"], task_features=["size", "age"]
    )
    model = zoo.NIWLinear(
        pi=0.01,
        delta=DELTA_DOF,
        scale_matrix=1.0,
        shared_scale=10.0,
        likelihood=zoo.Gaussian(noise=InverseGammaOfSquare(*NOISE), per_task=("noise",)),
    )
    options: dict[str, Any] = {"chains": 2, "tune": _WARM_UP, "progress": False, "random_seed": 1, "cores": 1}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model.fit(data, draws=4, **{**options, "tune": 4})  # compiles
        started = time.perf_counter()
        fit = model.fit(data, draws=draws, **options)
        seconds = time.perf_counter() - started
    posterior = fit.posterior.stack(sample=("chain", "draw")).transpose("sample", ...)
    shared = posterior["shared_coefficients"]
    rows = [posterior["population_mean"].to_numpy()]
    for z in ("size", "age"):
        names = [z, f"{z}:a", f"{z}:b"]
        rows.append(shared.sel(shared_feature=names).to_numpy())
    delta = np.stack(rows, axis=1)
    # Coefficients of bayesm hold what follows from the characteristics, ours what is left beside it.
    z = np.column_stack([frame.groupby("task")[name].first().to_numpy()[:20] for name in ("size", "age")])
    own = posterior["coefficients"].to_numpy()[:, :, :20].swapaxes(1, 2)
    beta = own + np.einsum("tz,szd->std", z, delta[:, 1:])
    found = {"Delta": delta, "C": posterior["feature_cov"].to_numpy(), "coefficients": beta}
    return seconds, found, float(fit.diagnostics()["r_hat"].max())


def weights(found: dict[str, np.ndarray]) -> np.ndarray:
    """Weights of our draws, with mean 1, under which they are draws of bayesm's posterior."""
    C, rows = found["C"], found["Delta"][:, 1:]
    left = np.eye(3) - np.linalg.inv(C)
    log = np.einsum("szd,sde,sze->s", rows, left, rows) / 200.0 - np.linalg.slogdet(C)[1]
    weight = np.exp(log - log.max())
    return weight / weight.mean()


def moments(
    values: np.ndarray, chains: int, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Weighted means, Monte Carlo errors and effective draws of each entry of (draw, ...) values."""
    if weight is not None:  # the ratio of two means, linearised
        shape = (-1, *(1,) * (values.ndim - 1))
        centre = np.mean(values * weight.reshape(shape), axis=0)
        values = centre + (values - centre) * weight.reshape(shape)
    flat = values.reshape(chains, len(values) // chains, -1)
    ess = np.array(
        [float(array_stats.ess(v, chain_axis=0, draw_axis=1, method="mean")) for v in np.moveaxis(flat, 2, 0)]
    )
    pooled = flat.reshape(-1, flat.shape[2])
    return pooled.mean(axis=0), pooled.std(axis=0) / np.sqrt(ess), ess


def main() -> None:
    """Print one line for each seed."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--draws", type=int, default=6000)
    parser.add_argument("--seeds", type=int, nargs="+", default=[1, 2, 3])
    given = parser.parse_args()
    for seed in given.seeds:
        frame, Z = simulate(seed)
        seconds, ours, worst = by_zoo(frame, given.draws // 2)
        low, high = np.quantile(ours["Delta"], [0.05, 0.95], axis=0)
        covered = float(np.mean((low <= _TRUTH) & (_TRUTH <= high)))
        plain = {name: moments(values, 2) for name, values in ours.items()}
        here = {name: moments(values, 2, weights(ours)) for name, values in ours.items()}
        ess = min(plain["Delta"][2].min(), plain["C"][2].min())
        line = f"seed {seed}: R-hat {worst:.4f}, ESS/s {ess / seconds:,.0f}, cover of Delta {covered:.2f}"
        reference = by_bayesm(frame, Z, given.draws)
        if reference is not None:
            there = {name: moments(values[_WARM_UP:], 1) for name, values in reference[1].items()}
            least = min(there["Delta"][2].min(), there["C"][2].min())
            for name, (mean, error, _) in here.items():
                z = (mean - there[name][0]) / np.hypot(error, there[name][1])
                line += f"; {name}: rms z {np.sqrt(np.mean(z**2)):.2f}, largest {np.abs(z).max():.2f}"
            line += f"; bayesm ESS/s {least / reference[0]:,.0f}"
        print(line, flush=True)


if __name__ == "__main__":
    main()
