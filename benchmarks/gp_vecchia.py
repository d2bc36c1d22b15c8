"""``zoo.gp.Vecchia`` beside PyMC's exact and FITC processes, in one plain PyMC model and one run.

    python benchmarks/gp_vecchia.py [--rows 1500] [--range 0.05 | --houses]

A simulated field with noise on the unit square, of which the truth is known; or, with ``--houses``, the log price of a
square foot in King County by longitude and latitude, of which held-out responses are predicted. For each process the
script prints seconds of compilation and of one log density with its gradient, seconds of ``pm.find_MAP``, and how the
predictions of 1,000 new places compare with the truth: root mean squared error, cover of 90 % intervals, and the mean
log density of the truth. One core; the models have the same priors and the same covariance function.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from typing import Any

import numpy as np
import pymc as pm
import pytensor
from threadpoolctl import threadpool_limits

import zoo

# Rows beyond which the exact process is left out: it takes a minute for each gradient.
MOST_EXACT = 4_000


def field(rows: int, length: float) -> tuple[np.ndarray, ...]:
    """Rows, responses, new places and the truth there; sums of waves have the covariance without factorising it."""
    rng = np.random.default_rng(1)
    places = rng.uniform(size=(rows + 1_000, 2))
    # The spectral law of the Matern 3/2 is a t law with three degrees of freedom, in two dimensions.
    waves = 4_000
    frequency = rng.normal(size=(waves, 2)) / np.sqrt(rng.chisquare(3, size=(waves, 1)) / 3) / length
    phase = rng.uniform(0, 2 * np.pi, waves)
    truth = np.concatenate(
        [
            np.cos(block @ frequency.T + phase) @ np.full(waves, np.sqrt(2 / waves))
            for block in np.array_split(places, 20)
        ]
    )
    y = truth[:rows] + 0.3 * rng.normal(size=rows)
    return places[:rows], y, places[rows:], truth[rows:]


def houses(rows: int) -> tuple[np.ndarray, ...]:
    """Places and standardized log prices of a square foot, and those of 1,000 other houses."""
    data = zoo.datasets.load_king_county()
    chosen = np.random.default_rng(1).permutation(data.n_rows)[: rows + 1_000]
    places = data.t[chosen, :2]
    logs = np.log(data.y / data.X[:, data.feature_names.index("sqft_living")])[chosen]
    logs = (logs - logs[:rows].mean()) / logs[:rows].std()
    return places[:rows], logs[:rows], places[rows:], logs[rows:]


def build(word: str, number: int, X: np.ndarray, y: np.ndarray) -> tuple[pm.Model, Any]:
    """The model with one kind of process."""
    with pm.Model() as model:
        scale = pm.InverseGamma("scale", 2.0, 0.2)
        size, sigma = pm.HalfNormal("size", 2.0), pm.HalfNormal("sigma", 1.0)
        cov = size**2 * pm.gp.cov.Matern32(2, ls=scale)
        if word == "exact":
            gp = pm.gp.Marginal(cov_func=cov)
            gp.marginal_likelihood("y", X=X, y=y, sigma=sigma)
        elif word == "FITC":
            gp = pm.gp.MarginalApprox("FITC", cov_func=cov)
            chosen = pm.gp.util.kmeans_inducing_points(number, X, seed=1) if number < len(X) else X
            gp.marginal_likelihood("y", X=X, Xu=chosen, y=y, sigma=sigma)
        else:
            gp = zoo.gp.Vecchia(number, cov_func=cov)
            gp.marginal_likelihood("y", X=X, y=y, sigma=sigma)
    return model, gp


def measure(word: str, number: int, data: tuple[np.ndarray, ...], noisy: bool) -> list[str]:
    X, y, new, truth = data
    model, gp = build(word, number, X, y)
    start = time.perf_counter()
    both = pytensor.function(
        model.value_vars, [model.logp(), *pytensor.grad(model.logp(), model.value_vars)], mode="NUMBA"
    )
    at = [model.initial_point()[v.name] for v in model.value_vars]
    both(*at)
    compiled = time.perf_counter() - start
    start, calls = time.perf_counter(), 0
    while time.perf_counter() - start < 2.0:
        both(*at)
        calls += 1
    gradient = (time.perf_counter() - start) / calls
    start = time.perf_counter()
    with model:
        point = pm.find_MAP(progressbar=False)
    search = time.perf_counter() - start
    start = time.perf_counter()
    with model:
        mean, variance = gp.predict(new, point=point, diag=True, pred_noise=noisy)
    predicted = time.perf_counter() - start
    sd = np.sqrt(variance)
    density = np.mean(-0.5 * ((truth - mean) / sd) ** 2 - np.log(sd) - 0.5 * np.log(2 * np.pi))
    cover = np.mean(np.abs(truth - mean) < 1.6449 * sd)
    return [
        f"{word}{f', {number}' if number else ''}",
        f"{compiled:.1f}",
        f"{gradient:.3f}",
        f"{search:.1f}",
        f"{predicted:.1f}",
        f"{np.sqrt(np.mean((truth - mean) ** 2)):.4f}",
        f"{100 * cover:.0f} %",
        f"{density:.3f}",
        f"{float(point['scale']):.4f}",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--rows", type=int, default=1_500)
    parser.add_argument("--houses", action="store_true", help="houses instead of a simulated field")
    parser.add_argument("--range", type=float, default=0.05, help="lengthscale on the unit square")
    asked = parser.parse_args()
    data = houses(asked.rows) if asked.houses else field(asked.rows, asked.range)
    kinds = [("Vecchia", 10), ("Vecchia", 20), ("Vecchia", 30), ("FITC", 100), ("FITC", 400)]
    if asked.rows <= MOST_EXACT:
        kinds.insert(0, ("exact", 0))
    what = "houses" if asked.houses else f"lengthscale {asked.range}"
    print(f"{asked.rows:,} rows, {what}, {platform.processor() or platform.machine()}")
    print(
        "| process | compilation, s | gradient, s | MAP, s | predictions, s | RMSE | cover | log density | scale |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    with threadpool_limits(1), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for word, number in kinds:
            print(f"| {' | '.join(measure(word, number, data, asked.houses))} |", flush=True)


if __name__ == "__main__":
    main()
