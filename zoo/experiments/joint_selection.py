"""Data sets and methods of the tables of Srijith & Shevade (2014): every method chosen by the same cross-validation."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any, Protocol

import numpy as np
import xarray as xr

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics import explained_variance, negative_log_predictive_density
from zoo.experiments.joint_selection_data import DataSet, Partition
from zoo.experiments.yardsticks import FeatureLearning, decision
from zoo.models.multi_laplace.model import MultiLaplaceGP
from zoo.models.niw.linear import NIWLinear
from zoo.report import complete
from zoo.selection import select

__all__ = [
    "FullBayes",
    "GaussianProcesses",
    "KnownPrior",
    "Learner",
    "MultiTaskFeatures",
    "Population",
    "of_learned",
    "scores",
]

CRITERIA = ("RMSE", "NLPD")

# ---------------------------------------------------------------- data sets


# ---------------------------------------------------------------- scores


def scores(test: MultiTaskData, mean: np.ndarray) -> dict[str, float]:
    """RMSE averaged over tasks and of all rows, explained variance in percent of all rows and averaged over tasks."""
    y = test.original_y()
    square = (y - mean) ** 2
    explained = explained_variance(y, mean, test.task)
    by_task = [np.sqrt(square[rows].mean()) for rows in test.rows_by_task() if len(rows)]
    return {
        "RMSE": float(np.mean(by_task)),
        "pooled RMSE": float(np.sqrt(square.mean())),
        "EV": 100.0 * explained.pooled,
        "EV per task": 100.0 * explained.per_task,
    }


def _scores_of(fit: Fit, test: MultiTaskData, seed: int) -> dict[str, float]:
    mean = fit.predict(test, random_seed=seed)["mean"].to_numpy()
    return {**scores(test, mean), "NLPD": negative_log_predictive_density(fit, test, random_seed=seed)}


def coefficients(fit: Fit) -> np.ndarray:
    """Coefficients (D, T) of the mean functions: their values at unit vectors less that at zero.

    They are the functions' coefficients where the kernel is linear.
    """
    D, T = fit.data.n_features, fit.data.n_tasks
    rows = np.tile(np.vstack([np.eye(D), np.zeros(D)]), (T, 1))
    f = fit.predict(rows, task=np.repeat(np.arange(T), D + 1), random_seed=1)["mean"].to_numpy()
    f = f.reshape(T, D + 1)
    return (f[:, :D] - f[:, D:]).T


def of_learned(learned: Any, truth: xr.Dataset) -> float:
    """Frobenius distance of learned from true coefficients, (D, T) both."""
    return float(np.linalg.norm(np.asarray(learned) - truth["coefficients"].to_numpy()))


# ---------------------------------------------------------------- methods


class Learner(Protocol):
    """A row of the tables."""

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """Scores on the test rows, by criterion of the cross-validation, and what they cost.

        ``criteria``: for each criterion that chose parameters ``parameters``, ``scores``, ``seconds`` of one fit and
        ``facts``. ``cv seconds``: of the whole search, absent where there is none. ``grid``: held-out scores.
        """
        ...


class _Recorder:
    """Held-out scores of the grid points; what it returns is not used."""

    def __init__(self) -> None:
        self.rows: list[tuple[float, float]] = []

    def __call__(self, test: MultiTaskData, predicted: xr.Dataset) -> float:
        error = test.original_y() - predicted["mean"].to_numpy()
        sd = predicted["sd"].to_numpy()
        # The predictive law of an estimate is normal.
        density = 0.5 * np.log(2.0 * np.pi * sd**2) + 0.5 * (error / sd) ** 2
        self.rows.append((float(np.sqrt(np.mean(error**2))), float(density.mean())))
        return -self.rows[-1][0]


@dataclass(frozen=True)
class GaussianProcesses:
    """The posterior mode of :class:`zoo.MultiLaplaceGP`, C and noise floor chosen on held-out training rows.

    Parameters
    ----------
    ard : str
    mean : str, optional
        In the place of that of the data set's model.
    """

    ard: str = "group"
    mean: str | None = None

    def grid(self, data: DataSet, quick: bool) -> dict[str, tuple[float, ...]]:
        """Values of the fields. One process for all rows knows its noise: it takes the smallest floor, and fewer C."""
        floors, C = data.noise_floor, data.C
        if self.ard == "pooled":
            floors, C = floors[:1], C[::2]
        if quick:
            floors, C = floors[-2:], C[-2:]
        return {"noise_floor": floors, "penalty": C}

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """See :class:`Learner`."""
        train = data.prepared(partition.train)
        model = replace(data.model, ard=self.ard, mean=self.mean or data.model.mean)
        grid = self.grid(data, quick)
        begin = time.perf_counter()
        recorder = _Recorder()
        # One process, so that the recorder sees the folds, and in them the grid points, in order.
        select(
            model,
            train,
            grid,
            cv=train.folds(cv, random_seed=seed),
            score=recorder,
            method="map",
            draws=1,
            random_seed=seed,
            n_jobs=1,
            progress=False,
        )
        spent = time.perf_counter() - begin
        points: list[dict[str, Any]] = [
            dict(zip(grid, values, strict=True)) for values in product(*grid.values())
        ]
        held_out = np.array(recorder.rows).reshape(cv, len(points), len(CRITERIA)).mean(axis=0)
        table = [
            {**p, **dict(zip(CRITERIA, row.tolist(), strict=True))}
            for p, row in zip(points, held_out, strict=True)
        ]
        result: dict[str, Any] = {"criteria": {}, "cv seconds": spent, "grid": table}
        fitted: dict[int, dict[str, Any]] = {}
        for criterion, column in zip(CRITERIA, held_out.T, strict=True):
            number = int(np.argmin(column))
            if number not in fitted:
                fitted[number] = _fitted(replace(model, **points[number]), train, partition, "map", seed)
                fitted[number]["parameters"] = points[number]
            result["criteria"][criterion] = fitted[number]
        return result


@dataclass(frozen=True)
class FullBayes:
    """The same prior family by NUTS: a horseshoe over features, everything learned.

    Parameters
    ----------
    draws, tune, chains : int
    target_accept : float
    """

    draws: int = 300
    tune: int = 500
    chains: int = 2
    target_accept: float = 0.9

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """See :class:`Learner`; there is nothing to choose."""
        train = data.prepared(partition.train)
        model = replace(data.model, prior="horseshoe", mean="linear", noise_rate="learned")
        draws, tune = (10, 10) if quick else (self.draws, self.tune)
        settings = {
            "draws": draws,
            "tune": tune,
            "chains": self.chains,
            "cores": 1,
            "nuts": {"target_accept": self.target_accept},
        }
        found = _fitted(model, train, partition, "nuts", seed, **settings)
        return {"criteria": dict.fromkeys(CRITERIA, found), "grid": []}


@dataclass(frozen=True)
class Population:
    """:class:`zoo.NIWLinear` by EM, at the mode under the prior of full Bayes; nothing is chosen."""

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """See :class:`Learner`."""
        train = data.prepared(partition.train)
        model = NIWLinear(tau="prior")
        found = _fitted(model, train, partition, "em", seed)
        return {"criteria": dict.fromkeys(CRITERIA, found), "grid": []}


def _fitted(
    model: ModelFactory, train: MultiTaskData, partition: Partition, method: str, seed: int, **settings: Any
) -> dict[str, Any]:
    begin = time.perf_counter()
    fit = model.fit(train, method=method, random_seed=seed, progress=False, **settings)
    spent = time.perf_counter() - begin
    if not fit.is_point:
        complete(fit)
    result = {
        "parameters": {},
        "scores": _scores_of(fit, partition.test, seed),
        "seconds": spent,
        "facts": _facts(fit),
    }
    if isinstance(model, MultiLaplaceGP):
        table = fit.relevance()
        result["relevance"] = {
            name: table[name].to_numpy().tolist() for name in ("feature", "relevance", "lower", "upper")
        } | {"selected": table["included"].to_numpy().tolist()}
    if partition.truth is not None:
        learned = coefficients(fit)
        result["coefficients"] = learned.tolist()
        result["distance"] = of_learned(learned, partition.truth)
    return result


def _facts(fit: Fit) -> dict[str, float]:
    statistics = fit.idata["sample_stats"].to_dataset()
    facts = {"noise": float(fit.posterior["noise"].mean()) * _scale(fit)}
    if "converged" in statistics.attrs:
        facts["converged"] = int(statistics.attrs["converged"])
    if "diverging" in statistics:
        facts["divergences"] = int(statistics["diverging"].sum())
    return facts


def _scale(fit: Fit) -> float:
    return 1.0 if fit.data.transform is None else fit.data.transform.y_scale


@dataclass(frozen=True)
class MultiTaskFeatures:
    """Convex multi-task feature learning (the paper's CMTFL), its weight of the loss chosen by held-out RMSE."""

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """See :class:`Learner`; there is no predictive density, and one criterion."""
        train = data.prepared(partition.train)
        yardstick, weights = FeatureLearning("squared"), data.weights
        if quick:
            weights = weights[1:3]
        begin = time.perf_counter()
        held_out = np.zeros(len(weights))
        for part, rest in train.folds(cv, random_seed=seed):
            for i, C in enumerate(weights):
                held_out[i] += scores(rest, decision(yardstick.fit(part, C), part, rest))["pooled RMSE"] / cv
        searched = time.perf_counter() - begin
        best = weights[int(np.argmin(held_out))]
        begin = time.perf_counter()
        W = yardstick.fit(train, best)
        spent = time.perf_counter() - begin
        found: dict[str, Any] = {
            "parameters": {"C": best},
            "scores": scores(partition.test, decision(W, train, partition.test)),
            "seconds": spent,
            "facts": {},
        }
        if partition.truth is not None:
            found["distance"] = of_learned(W, partition.truth)
        grid = [{"C": C, "RMSE": float(v)} for C, v in zip(weights, held_out, strict=True)]
        return {"criteria": {"RMSE": found}, "cv seconds": searched, "grid": grid}


@dataclass(frozen=True)
class KnownPrior:
    """The posterior of simulated tasks given the variances and the noise that made them: no method can do better."""

    def run(self, data: DataSet, partition: Partition, cv: int, seed: int, quick: bool) -> dict[str, Any]:
        """See :class:`Learner`."""
        train, test, truth = partition
        assert truth is not None
        prior = np.zeros(train.n_features)
        prior[: len(data.variances)] = data.variances
        noise = truth.attrs["noise"] ** 2
        mean, variance = np.empty(test.n_rows), np.empty(test.n_rows)
        W = np.empty((train.n_features, train.n_tasks))
        for t, (known, asked) in enumerate(zip(train.rows_by_task(), test.rows_by_task(), strict=True)):
            X, Z = train.X[known], test.X[asked]
            gain = np.linalg.solve(X * prior @ X.T + noise * np.eye(len(X)), X * prior).T
            W[:, t] = gain @ train.y[known]
            cov = np.diag(prior) - gain @ (X * prior)
            mean[asked] = Z @ W[:, t]
            variance[asked] = noise + np.einsum("nd,de,ne->n", Z, cov, Z)
        density = 0.5 * np.log(2.0 * np.pi * variance) + 0.5 * (test.y - mean) ** 2 / variance
        found = {
            "parameters": {},
            "scores": {**scores(test, mean), "NLPD": float(density.mean())},
            "seconds": 0.0,
            "facts": {},
            "coefficients": W.tolist(),
            "distance": of_learned(W, truth),
        }
        return {"criteria": dict.fromkeys(CRITERIA, found), "grid": []}


def path_of(
    data: DataSet, partition: Partition, noise_floor: float, C: Sequence[float]
) -> list[Mapping[str, float]]:
    """Features selected, test RMSE and distance of the coefficients at modes along C, each from the one before."""
    assert partition.truth is not None
    rows: list[Mapping[str, float]] = []
    fit: Fit | None = None
    for value in C:
        model = replace(data.model, penalty=value, noise_floor=noise_floor)
        fit = model.fit(partition.train, method="map", start=fit, progress=False, random_seed=1)
        mean = fit.predict(partition.test, random_seed=1)["mean"].to_numpy()
        rows.append(
            {
                "C": value,
                "features selected": int(fit.relevance()["included"].sum()),
                "RMSE": scores(partition.test, mean)["RMSE"],
                "distance": of_learned(coefficients(fit), partition.truth),
            }
        )
    return rows
