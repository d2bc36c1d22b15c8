"""The mode of a latent function and Laplace's evidence there, written out in NumPy: to rounding, and slowly."""

from __future__ import annotations

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


def laplace(model: Given) -> tuple[np.ndarray, float]:
    """The mode (n,) and the negative log evidence, by full Newton steps until these are rounding."""
    K = covariance_of(model)
    f, step = np.zeros(len(K)), np.inf
    for _ in range(300):
        value, slope, W = density(model, f)
        root = np.sqrt(W)
        B = np.eye(len(K)) + root[:, None] * K * root
        b = W * f + slope
        new = K @ (b - root * np.linalg.solve(B, root * (K @ b)))
        step, f = float(np.max(np.abs(new - f))), new
        if step < 1e-12:
            break
    assert step < 1e-12
    return f, -float(np.sum(value) - 0.5 * slope @ f - 0.5 * np.linalg.slogdet(B)[1])
