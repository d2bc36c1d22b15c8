"""Rows, and local fits by direct algebra, for the tests of kernel-local smoothing."""

from __future__ import annotations

from typing import Any

import numpy as np

import zoo
from zoo.models.local_smoothing.model import KernelLocalSmoothing


def rows(n: int = 60, labels: bool = False, seed: int = 1) -> zoo.MultiTaskData:
    """Coefficients that vary over the plane; some rows share a place."""
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n, 2)), rng.uniform(-1.0, 1.0, (n, 2)) * [3.0, 0.1] + [10.0, 0.0]
    t[5] = t[6]
    f = np.sin(t[:, 0]) * X[:, 0] + 10.0 * t[:, 1] * X[:, 1] + 0.5
    y = np.where(f + rng.logistic(size=n) > 0.0, 1.0, -1.0) if labels else f + 0.3 * rng.standard_normal(n)
    return zoo.MultiTaskData.from_arrays(X, y, t=t, t_names=["long", "lat"])


def fitted(data: zoo.MultiTaskData, method: str = "map", **fields: Any) -> zoo.Fit:
    factory = KernelLocalSmoothing(**{"bandwidth": 0.8, "ridge": 0.7, **fields})
    return factory.fit(data, method, draws=400, tune=400, chains=2, random_seed=1, progress=False)


def weights_at(data: zoo.MultiTaskData, place: np.ndarray, h: float, kernel: str) -> Any:
    """Kernel weights and offsets of all rows by the definition."""
    offset = (data.t - place) / data.t.std(axis=0) / h
    square = np.sum(offset**2, axis=1)
    return (np.clip(1.0 - square, 0.0, None) if kernel == "epanechnikov" else np.exp(-square / 2)), offset


def direct(data: zoo.MultiTaskData, place: np.ndarray, h: float, lam: float, kernel: str, degree: int) -> Any:
    """Coefficients and inverse Hessian at a place, by one dense solve with the penalty as further rows."""
    weight, offset = weights_at(data, place, h, kernel)
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    if degree:
        X = np.column_stack([X, X * offset[:, :1], X * offset[:, 1:]])
    M = X.shape[1]
    tall = np.vstack([np.sqrt(weight)[:, None] * X, np.sqrt(lam) * np.eye(M)])
    w = np.linalg.lstsq(tall, np.concatenate([np.sqrt(weight) * data.y, np.zeros(M)]), rcond=None)[0]
    return w, np.linalg.inv(tall.T @ tall)
