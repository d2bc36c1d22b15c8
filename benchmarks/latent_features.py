"""How many latent features samplers of li2014's nonparametric model count on School, and after how many sweeps.

    ZOO_DATA=... python benchmarks/latent_features.py [--sweeps 500] [--alphas 1 5 16]

Table 4 of the paper prints 14.8 for School, its figure 3 the same for every alpha from 1 to 16 after ten sweeps. The
rows of the table differ in what the paper leaves open or does otherwise than the package: the order in which bits are
drawn (before eq 13 the columns of a row alone are dropped), the coefficients of one task at a time (eq 14), the
rescaled covariance of tasks (section 6.1.1), and where the chain starts. Split 1, standardized, C = 1.

Prints a Markdown table: the mean number of columns in sweeps 11 to 50 and in the last fifth of the run, and the
explained variance of the mean of the coefficients of the last half.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import Any

import numpy as np
from scipy.linalg import solve_triangular
from scipy.stats import invwishart

import zoo
from zoo.inference.gibbs import buffet
from zoo.inference.gibbs.matrix_normal import _paper_scaled

EPSILON = 0.001
Sweep = Callable[[np.random.Generator, np.ndarray, np.ndarray, float], np.ndarray]


def papers_bits(rng: np.random.Generator, W: np.ndarray, Z: np.ndarray, alpha: float) -> np.ndarray:
    """A scan in the paper's order: the columns of a row alone are dropped before its other bits are drawn."""
    (D, T), Z = W.shape, Z.copy()
    M, E = buffet._moments(W, Z)
    others = buffet._column_sums(Z)
    for d in range(D):
        buffet._leave_out(M, E, Z[d], W[d])
        others -= Z[d]
        Z, M, E, others = buffet._select(Z, M, E, others, np.flatnonzero(others))
        v, r, s = buffet._row_state(M, E, Z[d], W[d])
        s = buffet._draw_bits(rng, M, E, Z[d], v, r, s, others, D - others)
        n_new = buffet._draw_new(rng, s, buffet._squared(r), T, alpha / D)
        buffet._put_back(M, E, v, r, s + n_new)
        others += Z[d]
        if n_new > 0:
            Z, M, E, others = buffet._append(Z, M, E, others, d, n_new, v, r, s + n_new)
    return Z


def task_by_task(
    train: zoo.MultiTaskData,
    alpha: float,
    sweeps: int,
    sweep: Sweep,
    start: str,
    scaled: bool,
    C: float = 1.0,
) -> tuple[np.ndarray, np.ndarray]:
    """Numbers of columns by sweep, and the mean coefficients (D, T) of the last half, by the paper's sampler."""
    rng, X, y, rows = np.random.default_rng(1), train.X, train.y, train.rows_by_task()
    D, T = train.n_features, train.n_tasks
    H = np.zeros((D, T))
    if start == "ridge":
        H = np.stack([np.linalg.solve(X[r].T @ X[r] + np.eye(D), X[r].T @ y[r]) for r in rows], axis=1)
    Z, P, count, total = np.zeros((D, 0), dtype=np.int8), np.eye(T), [], np.zeros((D, T))
    for _ in range(5):  # of no tasks: the prior
        Z = buffet.buffet_sweep(rng, np.empty((D, 0)), Z, alpha)
    for s in range(sweeps):
        residual = y - np.sum(X * H.T[train.task], axis=1)
        above = rng.wald(1.0 / (C * np.maximum(np.abs(residual - EPSILON), 1e-10)), 1.0)
        below = rng.wald(1.0 / (C * np.maximum(np.abs(residual + EPSILON), 1e-10)), 1.0)
        w, v = C**2 * (above + below), C**2 * ((y - EPSILON) * above + (y + EPSILON) * below)
        dense = Z.astype(np.float64)
        precision = np.linalg.inv(np.eye(D) + dense @ dense.T)
        for t, r in enumerate(rows):  # eq (14), with the cross-task term corrected
            factor = np.linalg.cholesky((X[r].T * w[r]) @ X[r] + P[t, t] * precision)
            pull = X[r].T @ v[r] - precision @ (H @ P[:, t] - H[:, t] * P[t, t])
            mean = solve_triangular(factor, pull, lower=True)
            H[:, t] = solve_triangular(factor.T, mean + rng.standard_normal(D))
        cov = invwishart.rvs(T + 1 + D, np.eye(T) + H.T @ precision @ H, random_state=rng)
        P = np.linalg.inv(cov)
        P = _paper_scaled(P) if scaled else P
        Z = sweep(rng, np.ascontiguousarray(H @ np.linalg.cholesky(P)), Z, alpha)
        count.append(Z.shape[1])
        total += H * (s >= sweeps // 2)
    return np.array(count, dtype=float), total / (sweeps - sweeps // 2)


def by_package(
    train: zoo.MultiTaskData, alpha: float, sweeps: int, **options: Any
) -> tuple[np.ndarray, np.ndarray]:
    """The same by the sampler of the package."""
    fields = {name: options.pop(name) for name in ("task_cov",) if name in options}
    factory = zoo.NonparametricMaxMargin(
        likelihood=zoo.EpsilonInsensitive(C=1.0, epsilon=EPSILON), alpha=alpha, **fields
    )
    fit = factory.fit(
        train, "gibbs", draws=sweeps, tune=0, chains=1, random_seed=1, progress=False, cores=1, **options
    )
    coefficients = fit.posterior["coefficients"].isel(chain=0, draw=slice(sweeps // 2, None)).mean("draw")
    return fit.posterior["n_latent"].to_numpy()[0].astype(float), coefficients.to_numpy()


VARIANTS: dict[str, Callable[[zoo.MultiTaskData, float, int], tuple[np.ndarray, np.ndarray]]] = {
    "the package": lambda *a: by_package(*a),
    "the package without group moves": lambda *a: by_package(*a, group_moves=False),
    "the package, R rescaled (`paper_scaling`)": lambda *a: by_package(*a, paper_scaling=True),
    "the package, R the identity": lambda *a: by_package(*a, task_cov="identity"),
    "task by task, from ridge": lambda *a: task_by_task(*a, buffet.buffet_sweep, "ridge", False),
    "task by task, from zero": lambda *a: task_by_task(*a, buffet.buffet_sweep, "zero", False),
    "task by task, the paper's bits": lambda *a: task_by_task(*a, papers_bits, "ridge", False),
    "task by task, the paper's bits, R rescaled": lambda *a: task_by_task(*a, papers_bits, "ridge", True),
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sweeps", type=int, default=500)
    parser.add_argument("--alphas", type=float, nargs="+", default=[1.0, 5.0, 16.0])
    asked = parser.parse_args()
    raw, test = zoo.datasets.load_school(split=1)
    train = raw.standardize()
    transform = train.transform
    assert transform is not None
    X, y = transform.apply_x(test.original_X()), test.original_y()
    print("| sampler | alpha | sweeps 11-50 | last fifth | explained variance % |\n|---|---|---|---|---|")
    for name, run in VARIANTS.items():
        for alpha in asked.alphas:
            count, coefficients = run(train, alpha, asked.sweeps)
            predicted = transform.restore_y(np.sum(X * coefficients.T[test.task], axis=1))
            explained = 100.0 * (1.0 - np.mean((y - predicted) ** 2) / np.var(y))
            last = count[-max(1, asked.sweeps // 5) :].mean()
            print(
                f"| {name} | {alpha:g} | {count[10:50].mean():.1f} | {last:.1f} | {explained:.1f} |",
                flush=True,
            )


if __name__ == "__main__":
    main()
