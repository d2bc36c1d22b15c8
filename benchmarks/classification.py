"""Laplace's approximation, expectation propagation and the variational bound for labels of `VaryingCoefficientGP`.

    python benchmarks/classification.py [--sets simulated county-labels rents-labels] [--rows 200] [--draws 200000]

Bussas et al. (2015), section 3.2, name all three. The first table holds the hyper-parameters where Laplace's evidence
is largest, and compares each approximation with 200,000 elliptical slices (Murray, Adams & MacKay 2010): the largest
and the mean error of the probabilities of the test rows, and the log evidence, of which annealed importance sampling
(Neal 2001) gives the truth, with its standard error over 20 runs. The second table fits each method from the data
alone, with hyper-parameters of its own evidence, and has the log loss of 1,000 test rows and the seconds of the fit.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable
from itertools import pairwise
from typing import Any

import numpy as np
from scipy.linalg import cho_solve
from scipy.special import expit, log_expit, logsumexp

import zoo
from zoo.core.context import Context
from zoo.experiments.housing import split
from zoo.models.varying_coefficient.sites import SITES, SiteSpace
from zoo.models.varying_coefficient.spaces import FunctionSpace, inputs_of

METHODS = ("laplace", *SITES)
RUNS, TEMPERATURES = 20, 20_000


def simulated(n_rows: int, n_test: int) -> tuple[zoo.MultiTaskData, zoo.MultiTaskData]:
    """Two coefficients that vary over a square, one more strongly."""
    rng = np.random.default_rng(0)
    n = n_rows + n_test
    t, x = rng.uniform(-2.0, 2.0, (n, 2)), rng.standard_normal((n, 2))
    f = 3.0 * np.sin(2.0 * t[:, 0]) * x[:, 0] + 1.5 * np.cos(t[:, 1]) * x[:, 1] + t[:, 0]
    y = np.where(rng.random(n) < expit(f), 1.0, -1.0)
    data = zoo.MultiTaskData.from_arrays(x, y, np.zeros(n, dtype=int), t=t)
    return data.take(np.arange(n) < n_rows), data.take(np.arange(n) >= n_rows)


def load(name: str, n_rows: int, n_test: int = 1_000) -> tuple[zoo.MultiTaskData, zoo.MultiTaskData]:
    """Training and test rows."""
    if name == "simulated":
        return simulated(n_rows, n_test)
    part = split(name, 0, n_rows, n_test)
    assert part is not None
    return part.train, part.test


def slices(
    root: np.ndarray, log_density: Callable[[np.ndarray], float], f: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """One elliptical slice from f, whose prior has the covariance ``root root'``."""
    other = root @ rng.standard_normal(len(f))
    level = log_density(f) + np.log(rng.random())
    angle = rng.uniform(0.0, 2.0 * np.pi)
    low, high = angle - 2.0 * np.pi, angle
    while True:
        new = f * np.cos(angle) + other * np.sin(angle)
        if log_density(new) > level:
            return np.asarray(new)
        low, high = (angle, high) if angle < 0.0 else (low, angle)
        angle = rng.uniform(low, high)


def annealed(root: np.ndarray, y: np.ndarray, seed: int) -> tuple[float, float]:
    """Log evidence by annealed importance sampling, and its standard error over the runs."""
    powers = np.linspace(0.0, 1.0, TEMPERATURES + 1) ** 3
    logs = np.zeros(RUNS)
    for run in range(RUNS):
        rng = np.random.default_rng([seed, run])
        f = root @ rng.standard_normal(len(y))
        for before, power in pairwise(powers):
            logs[run] += (power - before) * log_expit(y * f).sum()
            f = slices(root, lambda g, b=power: b * log_expit(y * g).sum(), f, rng)
    value = logsumexp(logs) - np.log(RUNS)
    return float(value), float(np.std(np.exp(logs - value), ddof=1) / np.sqrt(RUNS))


def space_of(method: str, model: zoo.VaryingCoefficientGP, rows: Any, y: np.ndarray) -> FunctionSpace:
    """Where the method has its algebra."""
    return FunctionSpace(model, rows, y) if method == "laplace" else SiteSpace(method, model, rows, y)


def at_one_point(train: zoo.MultiTaskData, test: zoo.MultiTaskData, draws: int) -> list[list[str]]:
    """Rows of the first table."""
    model = zoo.VaryingCoefficientGP(likelihood="logistic")
    fit = model.fit(train, "laplace", draws=2, chains=1, random_seed=1, progress=False)
    laplace, _ = fit.state
    z = laplace.recorded(fit.posterior.isel(chain=0, draw=0))
    rows, y = laplace.rows, laplace.y
    new = model.design(test, Context(fit.population_data))
    K = laplace.matrix(z, laplace.inputs, laplace.inputs)
    K[np.diag_indices_from(K)] += 1e-8 * np.mean(np.diag(K))
    root = np.linalg.cholesky(K)
    cross = laplace.matrix(z, inputs_of(new), laplace.inputs)
    slope = cho_solve((root, True), cross.T).T
    sd = np.sqrt(np.maximum(laplace.diagonal(z, inputs_of(new)) - np.einsum("mn,mn->m", slope, cross), 0.0))
    nodes, weights = np.polynomial.hermite_e.hermegauss(24)
    weights = weights / weights.sum()
    rng, f, total, kept = np.random.default_rng(2), np.zeros(len(y)), np.zeros(new.n_rows), 0
    for step in range(draws):
        f = slices(root, lambda g: log_expit(y * g).sum(), f, rng)
        if step >= draws // 10 and step % 20 == 0:
            total += expit((slope @ f)[:, None] + sd[:, None] * nodes) @ weights
            kept += 1
    truth = total / kept
    evidence, error = annealed(root, y, 3)
    lines = []
    for method in METHODS:
        space = space_of(method, model, rows, y)
        started = time.perf_counter()
        state = space.state(z)
        seconds = time.perf_counter() - started
        mean, variance = space.moments(state, new)
        found = expit(mean[:, None] + np.sqrt(variance)[:, None] * nodes) @ weights
        off = np.abs(found - truth)
        lines.append(
            [method, f"{off.max():.4f}", f"{off.mean():.4f}", f"{state.log_evidence:.2f}",
             f"{evidence:.2f} ({error:.2f})", f"{seconds:.3f}"]
        )  # fmt: skip
    return lines


def learned(train: zoo.MultiTaskData, test: zoo.MultiTaskData) -> list[list[str]]:
    """Rows of the second table."""
    lines = []
    for method in METHODS:
        started = time.perf_counter()
        fit = zoo.VaryingCoefficientGP(likelihood="logistic").fit(
            train, method, draws=100, chains=1, random_seed=1, progress=False
        )
        seconds = time.perf_counter() - started
        p = fit.predict(test, random_seed=1)["probability"].to_numpy()
        loss = -np.mean(np.log(np.where(test.y > 0.0, p, 1.0 - p)))
        amplitude = float(fit.posterior["amplitude"].mean())
        lines.append([method, f"{loss:.4f}", f"{amplitude:.2f}", f"{seconds:.1f}"])
    return lines


def main() -> None:
    """Print both tables in Markdown."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--sets", nargs="+", default=["simulated", "county-labels", "rents-labels"])
    parser.add_argument("--rows", type=int, default=200)
    parser.add_argument("--draws", type=int, default=200_000)
    asked = parser.parse_args()
    warnings.simplefilter("ignore")
    first, second = [], []
    for name in asked.sets:
        train, test = load(name, asked.rows)
        first += [[name, *line] for line in at_one_point(train, test, asked.draws)]
        second += [[name, *line] for line in learned(train, test)]
    names = ["set", "method", "largest error", "mean error", "log evidence", "by annealing", "seconds"]
    tables = [(names, first), (["set", "method", "log loss", "amplitude", "seconds"], second)]
    for header, lines in tables:
        print(f"\n| {' | '.join(header)} |\n|{' --- |' * len(header)}")
        print("\n".join(f"| {' | '.join(line)} |" for line in lines))


if __name__ == "__main__":
    main()
