"""The mode of a latent function and Laplace's evidence there, written out in NumPy: to rounding, and slowly."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy import stats
from scipy.special import log_ndtr

from tests.gpboost_cases import Given
from tests.gpboost_data import distances
from zoo.likelihoods import StudentT


def covariance_of(model: Given) -> np.ndarray:
    """The covariance (n, n) of a model whose parts are exponential, written out."""
    n = len(model.y)
    X = np.ones((n, 1)) if model.X is None else model.X
    K = np.zeros((n, n))
    for one in model.parts:
        columns = range(model.t.shape[1]) if one.columns is None else [int(name[1:]) for name in one.columns]
        r = distances(model.t[:, list(columns)] / np.array(one.lengthscale))
        x = X[:, int(one.features[0][1:])]
        K += one.amplitude**2 * np.exp(-r) * np.outer(x, x)
    return K


def density(model: Given, f: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Log densities of the rows, their slopes, and the information, of SciPy or written out."""
    y, likelihood = model.y, model.likelihood
    if likelihood == "probit":
        sign = 2.0 * y - 1.0
        z = sign * f
        ratio = np.exp(stats.norm.logpdf(z) - log_ndtr(z))
        return log_ndtr(z), sign * ratio, ratio * (ratio + z)
    if isinstance(likelihood, StudentT):
        sd, nu = float(likelihood.noise), float(likelihood.degrees)
        left = y - f
        information = np.full(
            len(y), (nu + 1.0) / ((nu + 3.0) * sd**2)
        )  # expected: the density is not log-concave
        return stats.t.logpdf(left, nu, scale=sd), (nu + 1.0) * left / (nu * sd**2 + left**2), information
    shape = float(likelihood.shape)
    ratio = y * np.exp(-f)
    return stats.gamma.logpdf(y, shape, scale=np.exp(f) / shape), shape * (ratio - 1.0), shape * ratio


class Mode(NamedTuple):
    """A mode (n,), the slope and information of the rows there, and the log density of both less a constant."""

    f: np.ndarray
    slope: np.ndarray
    W: np.ndarray
    objective: float


def information_matrix(K: np.ndarray, W: np.ndarray) -> np.ndarray:
    """The matrix (n, n) of one and the information in units of the prior."""
    root = np.sqrt(W)
    return np.eye(len(K)) + root[:, None] * K * root


def mode_of(model: Given, K: np.ndarray, share: float = 0.0) -> Mode:
    """Full Newton steps from 0, until these are rounding, or until the objective gains less than a share of itself."""
    f = np.zeros(len(K))
    value, slope, W = density(model, f)
    objective = float(np.sum(value))
    for _ in range(300):
        root, b = np.sqrt(W), W * f + slope
        weights = b - root * np.linalg.solve(information_matrix(K, W), root * (K @ b))
        step, f = float(np.max(np.abs(K @ weights - f))), K @ weights
        value, slope, W = density(model, f)
        last, objective = objective, float(np.sum(value) - 0.5 * weights @ f)
        if objective - last < share * abs(last) if share else step < 1e-12:
            return Mode(f, slope, W, objective)
    raise AssertionError("Newton's steps have not ended.")


def laplace(model: Given, share: float = 0.0) -> tuple[np.ndarray, float]:
    """The mode (n,) and the negative log evidence; ``share`` as in :func:`mode_of`."""
    K = covariance_of(model)
    mode = mode_of(model, K, share)
    return mode.f, 0.5 * float(np.linalg.slogdet(information_matrix(K, mode.W))[1]) - mode.objective


def laplace_at(
    model: Given, t: np.ndarray, X: np.ndarray | None, share: float
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance (m,) of the function at new rows, the mean as GPBoost has it: of the slopes at the mode."""
    n, m = len(model.y), len(t)
    rows = model._replace(y=np.zeros(n + m), t=np.vstack([model.t, t]))
    K = covariance_of(rows if X is None else rows._replace(X=np.vstack([model.X, X])))
    mode = mode_of(model, K[:n, :n], share)
    cross = K[n:, :n] * np.sqrt(mode.W)
    explained = np.sum(cross * np.linalg.solve(information_matrix(K[:n, :n], mode.W), cross.T).T, axis=1)
    return K[n:, :n] @ mode.slope, np.diag(K)[n:] - explained
