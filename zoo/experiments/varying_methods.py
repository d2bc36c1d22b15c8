"""The methods that Bussas et al. (2015) compare, and two rivals of later years, each as a function of rows."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import lapack

from zoo.data.multitask import MultiTaskData
from zoo.experiments.housing import Split, score
from zoo.experiments.yardsticks import independent_columns
from zoo.models.local_smoothing.model import KernelLocalSmoothing
from zoo.models.varying_coefficient.baselines import NonisotropicVaryingCoefficients, PooledGP
from zoo.models.varying_coefficient.component import VaryingComponent
from zoo.models.varying_coefficient.model import VaryingCoefficientGP

__all__ = ["METHODS", "RIVALS", "Effort", "gelfand_bound", "installed", "measure"]


class Effort(NamedTuple):
    """How a method fits.

    Parameters
    ----------
    cv : int
        Folds that choose bandwidth and penalty of kernel-local smoothing.
    exact_up_to : int
        Rows up to which Gaussian processes are exact. Beyond, they have random inducing points (FITC); linear
        coefficients that vary over longitude and latitude alone, a basis of sines. (Such a basis ends at its box, and
        cannot predict days after those of the training rows.)
    n_inducing : int
    seed : int
        Of inducing points, folds and draws.
    """

    cv: int = 3
    exact_up_to: int = 1000
    n_inducing: int = 500
    seed: int = 0


# Errors are the same to three digits with 1e-7, at twice the cost.
_TOLERANCE = 1e-5
# Labels are predicted by the sign of the mean of this many draws of f, whose own error is small against its sd.
_DRAWS = 400
# Functions a column of t where linear coefficients that vary over places have a basis of sines.
_SINES = 20

Predictor = Callable[[MultiTaskData, MultiTaskData, bool, Effort], np.ndarray]


# ---------------------------------------------------------------- Gaussian processes

_MATERN: dict[str, Any] = {"instance_kernel": "matern52"}
_PROCESSES: dict[str, Any] = {
    # The paper's kernel is the product alone: no coefficients that do not vary.
    "isovcm-lin": VaryingCoefficientGP(task_kernel="matern32", global_coefficients=False),
    "isovcm-mat": VaryingCoefficientGP(task_kernel="matern32", global_coefficients=False, **_MATERN),
    "x-lin": PooledGP(inputs="x"),
    "x-mat": PooledGP(inputs="x", **_MATERN),
    "xt-lin": PooledGP(inputs="xt"),
    "xt-mat": PooledGP(inputs="xt", **_MATERN),
    "xt-mat-ard": PooledGP(inputs="xt", instance_lengthscale="per_feature", **_MATERN),
    "gelfand": NonisotropicVaryingCoefficients(task_kernel="matern32"),
}


def _process(
    name: str, train: MultiTaskData, test: MultiTaskData, labels: bool, effort: Effort
) -> np.ndarray:
    model = replace(_PROCESSES[name], likelihood="logistic" if labels else "gaussian")
    settings: dict[str, Any] = {"tol": _TOLERANCE, "random_seed": effort.seed, "progress": False, "chains": 1}
    method = "laplace" if labels else "exact"
    # A linear kernel of x alone has as many weights as features: exact whatever n is.
    if train.n_rows > effort.exact_up_to and name not in ("x-lin", "xt-lin"):
        approximation, method = "fitc", "laplace" if labels else "inducing"
        settings |= {"n_inducing": effort.n_inducing, "placement": "random", "design_seed": effort.seed}
        if name == "isovcm-lin" and train.t is not None and train.t.shape[1] == 2:
            model = replace(model, task_kernel=(VaryingComponent(kernel="matern32", n_basis=_SINES),))
            approximation, method = "hsgp", "laplace" if labels else "hsgp"
        settings["approximation"] = approximation
    fit = model.fit(train, method, draws=_DRAWS if labels else 1, **settings)
    return np.asarray(fit.predict(test, random_seed=effort.seed)["mean"].to_numpy())


# ---------------------------------------------------------------- local smoothing, and one model for all rows


def _local(
    kernel: str, train: MultiTaskData, test: MultiTaskData, labels: bool, effort: Effort
) -> np.ndarray:
    model = KernelLocalSmoothing(
        likelihood="logistic" if labels else "gaussian",
        instance_kernel=kernel,
        cv_folds=effort.cv,
        design_seed=effort.seed,
    )
    fit = model.fit(train.standardize(), "map", random_seed=effort.seed, progress=False)
    return np.asarray(fit.predict(test, random_seed=effort.seed)["mean"].to_numpy())


def _scaled(train: MultiTaskData, test: MultiTaskData) -> tuple[np.ndarray, np.ndarray]:
    """Features with mean 0 and standard deviation 1 over the training rows; a constant one is 0."""
    mean, sd = train.X.mean(axis=0), train.X.std(axis=0)
    sd = np.where(sd > 1e-12 * np.abs(mean), sd, np.inf)
    return (train.X - mean) / sd, (test.X - mean) / sd


def _regression(train: MultiTaskData, test: MultiTaskData, labels: bool, effort: Effort) -> np.ndarray:
    """Least squares of smallest norm, or logistic regression with penalty |w|^2 / 2, on x."""
    X, new = _scaled(train, test)
    if labels:
        from sklearn.linear_model import LogisticRegression

        return np.asarray(LogisticRegression(max_iter=1000).fit(X, train.y).decision_function(new))
    w = np.linalg.lstsq(X, train.y - train.y.mean(), rcond=None)[0]
    return np.asarray(train.y.mean() + new @ w)


# ---------------------------------------------------------------- rivals, where they are installed

RIVALS = {"gwr": "mgwr", "gpboost": "gpboost"}
# Features of King County whose coefficients geographically weighted regression lets vary. With all of them it is
# singular: one area is the sum of two others, and in most windows no house is at the waterfront.
_VARYING = ("bathrooms", "sqft_living", "grade", "yr_built", "sqft_living15")
_KM_OF_LATITUDE = 110.57


def installed(method: str) -> bool:
    """Whether the package of a rival is installed; the other methods need none."""
    return method not in RIVALS or find_spec(RIVALS[method]) is not None


def _kilometres(data: MultiTaskData, latitude: float) -> np.ndarray:
    assert data.t is not None
    east = _KM_OF_LATITUDE * np.cos(np.radians(latitude))
    return data.t[:, :2] * (east, _KM_OF_LATITUDE)


def _gwr(train: MultiTaskData, test: MultiTaskData, labels: bool, effort: Effort) -> np.ndarray:
    """Geographically weighted regression of mgwr: windows of as many neighbours as its golden search of AICc finds."""
    from mgwr.gwr import GWR
    from mgwr.sel_bw import Sel_BW

    assert train.t is not None
    names = [name for name in _VARYING if name in train.feature_names] or list(train.feature_names)
    columns = [train.feature_names.index(name) for name in names]
    X, new = (part[:, columns] for part in _scaled(train, test))
    latitude = float(train.t[:, 1].mean())
    here, there = _kilometres(train, latitude), _kilometres(test, latitude)
    scale = float(train.y.std())
    y = ((train.y - train.y.mean()) / scale)[:, None]
    bandwidth = Sel_BW(here, y, X, n_jobs=1).search()
    model = GWR(here, y, X, bandwidth, n_jobs=1)
    found = model.fit()
    # No more rows at a time than it was fitted to: beyond, it fails.
    parts = np.array_split(np.arange(len(new)), -(-len(new) // train.n_rows))
    predicted = [
        model.predict(there[part], new[part], found.scale, found.resid_response).predictions for part in parts
    ]
    return train.y.mean() + scale * np.concatenate([np.ravel(part) for part in predicted])


def _gpboost(train: MultiTaskData, test: MultiTaskData, labels: bool, effort: Effort) -> np.ndarray:
    """GPBoost: a Gaussian process of longitude and latitude beside fixed coefficients of x, and of the day."""
    import gpboost

    assert train.t is not None and test.t is not None
    # Further columns of t enter as features.
    parts = [np.column_stack([data.X, data.t[:, 2:]]) for data in (train, test)]  # type: ignore[index]
    X, new = _scaled(*(replace(train, inputs=part, row=np.arange(len(part)), y=np.zeros(len(part)),
        task=np.zeros(len(part), dtype=np.int64), t=None, t_names=None,
        feature_names=tuple(map(str, range(part.shape[1])))) for part in parts))  # fmt: skip
    # Columns that are constant or the sum of others would have no estimate.
    kept = independent_columns(X)
    X, new = (np.column_stack([np.ones(len(part)), part[:, kept]]) for part in (X, new))
    latitude = float(train.t[:, 1].mean())
    scale, mean = (1.0, 0.0) if labels else (float(train.y.std()), float(train.y.mean()))
    y = (train.y > 0.0).astype(float) if labels else (train.y - mean) / scale
    model = gpboost.GPModel(
        gp_coords=_kilometres(train, latitude),
        cov_function="matern",
        cov_fct_shape=1.5,
        likelihood="bernoulli_logit" if labels else "gaussian",
        gp_approx="none" if train.n_rows <= effort.exact_up_to else "vecchia",
        num_parallel_threads=1,
        seed=effort.seed,
    )
    model.fit(y=y, X=X)
    found = model.predict(
        gp_coords_pred=_kilometres(test, latitude), X_pred=new, predict_var=False, predict_response=not labels
    )
    return mean + scale * np.asarray(found["mu"])


# ---------------------------------------------------------------- all

METHODS: dict[str, tuple[str, Predictor]] = {
    "isovcm-lin": ("isoVCM, linear", partial(_process, "isovcm-lin")),
    "isovcm-mat": ("isoVCM, Matern", partial(_process, "isovcm-mat")),
    "x-lin": ("GP on x, linear", partial(_process, "x-lin")),
    "x-mat": ("GP on x, Matern", partial(_process, "x-mat")),
    "xt-lin": ("GP on (x, t), linear", partial(_process, "xt-lin")),
    "xt-mat": ("GP on (x, t), Matern", partial(_process, "xt-mat")),
    "local-lin": ("Fan & Zhang, linear", partial(_local, "linear")),
    "local-mat": ("Fan & Zhang, Matern", partial(_local, "matern")),
    "regression": ("regression on x", _regression),
    "xt-mat-ard": ("GP on (x, t), Matern, one lengthscale per column", partial(_process, "xt-mat-ard")),
    "gwr": ("GWR (mgwr)", _gwr),
    "gpboost": ("spatial GP and fixed effects (GPBoost)", _gpboost),
    "gelfand": ("Gelfand et al., maximal evidence", partial(_process, "gelfand")),
}


def measure(method: str, part: Split, effort: Effort) -> dict[str, Any]:
    """Errors of a method on a split, and the processor seconds of fit and prediction; of a rival that fails, why."""
    begin = time.process_time()
    try:
        predicted = METHODS[method][1](part.train, part.test, part.problem.kind == "label", effort)
    except Exception as error:
        if method not in RIVALS:
            raise
        return {"failed": f"{type(error).__name__}: {error}"}
    seconds = time.process_time() - begin
    if not np.isfinite(predicted).all():
        raise ArithmeticError(f"{METHODS[method][0]} predicts numbers that are not finite.")
    return {**score(part, predicted), "seconds": seconds}


def gelfand_bound(n: int, m: int, iterations: int = 5000) -> float:
    """Seconds that inverses of Cholesky factors (n m, n m) take in a run of the Gibbs sampler of Gelfand et al. (2003).

    One is timed: a lower bound, as in the paper.
    """
    size = n * m
    matrix = np.full((size, size), 0.5, order="F")
    matrix[np.diag_indices(size)] = 1.0
    begin = time.process_time()
    factor, info = lapack.dpotrf(matrix, lower=1, overwrite_a=1)
    _, other = lapack.dtrtri(factor, lower=1, overwrite_c=1)
    seconds = time.process_time() - begin
    if info or other:
        raise ArithmeticError(f"The matrix of {size} rows could not be factorised (info {info}, {other}).")
    return iterations * seconds
