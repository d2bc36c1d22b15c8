"""Data, models and formulas that the tests of varying coefficients share."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from pytensor.compile.mode import Mode
from scipy.spatial.distance import cdist
from scipy.special import expit

import zoo
from zoo.kernels import TaskTree
from zoo.likelihoods import Gaussian, NegativeBinomial, StudentT

Varying, Component = zoo.VaryingCoefficientGP, zoo.VaryingComponent
DRAWS = {"draws": 4, "chains": 1, "random_seed": 1, "progress": False}
QUICK = Mode("py", "fast_compile")
BARE = {"global_coefficients": False, "standardize": False, "intercept": False}


def places(n: int = 30, distinct: int = 8, D: int = 2, P: int = 2, seed: int = 1) -> zoo.MultiTaskData:
    """Rows at a few places, each of which several rows share."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.0, 1.0, (distinct, P))[rng.integers(0, distinct, n)]
    X = rng.normal(size=(n, D)) + 0.3
    y = X[:, 0] * np.sin(2.0 * t[:, 0]) + X[:, -1] * t[:, -1] + 0.5 + 0.3 * rng.normal(size=n)
    return zoo.MultiTaskData.from_arrays(X, y, t=t, t_names=["long", "lat", "date"][:P])


def labelled(data: zoo.MultiTaskData, response: str, seed: int = 2) -> zoo.MultiTaskData:
    """The same rows with a response of the kind."""
    rng, f = np.random.default_rng(seed), data.y
    if response == "logistic":
        return replace(data, y=(rng.random(len(f)) < expit(2.0 * f)).astype(np.float64))
    if response in ("poisson", "negative_binomial"):
        return replace(data, y=rng.poisson(np.exp(f)).astype(np.float64))
    return data


def matern32(a: np.ndarray, b: np.ndarray, lengthscale: Any) -> np.ndarray:
    r = np.sqrt(3.0) * cdist(a / lengthscale, b / lengthscale)
    return (1.0 + r) * np.exp(-r)


def log_evidence(fit: Any) -> float:
    return float(fit.idata["sample_stats"]["log_evidence"].to_numpy().max())


def values_of(fit: Any) -> dict[str, np.ndarray]:
    """Hyper-parameters of a fit at one point."""
    return {str(name): v.to_numpy() for name, v in fit.posterior.isel(chain=0, draw=0).items()}


# ---------------------------------------------------------------- theorem 3: the model of weights


FIXED = Varying(
    task_kernel=Component(lengthscale=(0.6, 0.9)), amplitude=1.3, likelihood=Gaussian(noise=0.5), **BARE
)


def new_places(data, n=6, seed=9):
    """Features at known and at new t."""
    rng = np.random.default_rng(seed)
    t = np.vstack([data.t[: n // 2], rng.uniform(-1.5, 1.5, (n - n // 2, data.t.shape[1]))])
    return rng.normal(size=(n, data.n_features)), t


# ---------------------------------------------------------------- trees


PARENTS = {
    "north": "all",
    "south": "all",
    "a": "north",
    "b": "north",
    "c": "south",
    "d": "south",
    "e": "south",
}
TREE = TaskTree.from_parents(PARENTS)


def on_tree(n=60, seed=4, tasks="abcde"):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n, 2)), rng.integers(0, len(tasks), n)
    slope = np.array([1.0, 1.2, -0.8, -0.5, -1.1])
    y = slope[task] * X[:, 0] + 0.3 * X[:, 1] + 0.4 * rng.normal(size=n)
    return zoo.MultiTaskData.from_arrays(X, y, task=np.array(list(tasks))[task])


# ---------------------------------------------------------------- responses that are not normal


def fixed(response: str, amplitude: float = 0.9, **settings: Any) -> Varying:
    """All hyper-parameters given."""
    return Varying(
        task_kernel=Component(lengthscale=0.8, amplitude=amplitude),
        likelihood={"student_t": StudentT(noise=0.5, degrees=4.0), "negative_binomial": NegativeBinomial(
            dispersion=1.5
        )}.get(response, response),
        **{**BARE, **settings},
    )  # fmt: skip


# ---------------------------------------------------------------- approximations


def shown_at(fit: Any, X: np.ndarray, t: np.ndarray) -> np.ndarray:
    predicted = fit.predict(X, t=t, random_seed=1)
    return np.stack([predicted["mean"].to_numpy(), predicted["sd"].to_numpy()])
