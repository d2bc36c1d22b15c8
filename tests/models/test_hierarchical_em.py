"""EM of the linear population with a mean of its own, against its objective written out with dense covariances."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import zoo
from zoo.inference.em.algorithm import expectation_maximisation

NU, MEAN_SD, SCALE_SD = 3.0, 2.5, 1.4
NOISE = (0.5, 0.01)


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(4)
    T, n = 9, 5
    task = np.repeat(np.arange(T), n)
    X = np.column_stack([np.ones(T * n), rng.normal(size=T * n)])
    w = np.array([0.5, -1.0]) + rng.normal(size=(T, 2)) @ np.array([[0.8, 0.0], [0.2, 0.4]])
    return X, task, np.sum(X * w[task], axis=1) + 0.5 * rng.normal(size=T * n)


def objective(rows, mean, cov, variance):
    """Log-likelihood with coefficients integrated out, and the log density of mean, log C and noise variance."""
    X, task, y = rows
    value = 0.0
    for t in np.unique(task):
        at = X[task == t]
        value += multivariate_normal.logpdf(
            y[task == t], at @ mean, at @ cov @ at.T + variance * np.eye(len(at))
        )
    precision = np.linalg.inv(cov)
    value -= 0.5 * mean @ mean / MEAN_SD**2
    value -= 0.5 * NU * np.linalg.slogdet(cov)[1]
    value -= 0.5 * (NU + 1.0) * np.log(np.diag(precision) + SCALE_SD**-2.0).sum()
    return value - (NOISE[0] + 1.0) * np.log(variance) - NOISE[1] / variance


def unpacked(x):
    """Mean, covariance and variance of an unbounded vector."""
    root = np.array([[np.exp(x[2]), 0.0], [x[3], np.exp(x[4])]])
    return x[:2], root @ root.T, np.exp(x[5])


@pytest.mark.parametrize("accelerate", [False, True])
def test_em_finds_the_mode(rows, accelerate):
    X, task, y = rows
    found = expectation_maximisation(
        X, np.arange(len(y)), task, y, 9, pi=0.0, tau=NU, learned=(MEAN_SD, SCALE_SD), noise_prior=NOISE,
        accelerate=accelerate, tol=1e-10, min_gain=0.0, max_iter=5000,
    )  # fmt: skip
    assert found.converged
    assert (np.diff(found.penalised_log_likelihood) > -1e-9).all()
    assert (
        abs(found.penalised_log_likelihood[-1] - objective(rows, found.mean, found.cov, found.noise**2))
        < 1e-6
    )
    best = minimize(
        lambda x: -objective(rows, *unpacked(x)), np.zeros(6), method="BFGS", options={"gtol": 1e-8}
    )
    mean, cov, variance = unpacked(best.x)
    np.testing.assert_allclose(found.mean, mean, atol=1e-4)
    np.testing.assert_allclose(found.cov, cov, atol=1e-4)
    np.testing.assert_allclose(found.noise**2, variance, atol=1e-4)


def test_an_estimate_describes_the_population_in_any_unit(rows):
    """The estimate and its predictions of known tasks and of a new one follow the unit and the origin of y."""
    X, task, y = rows
    fits = []
    for unit, origin in ((1.0, 0.0), (1e-4, 50.0)):
        data = zoo.MultiTaskData.from_arrays(X, unit * y + origin, task)
        fit = zoo.HierarchicalLinear().fit(data, "em", progress=False)
        new = fit.predict(X[:3], ["a new one"] * 3, new_task=True)
        fits.append(
            (fit, (new["mean"].to_numpy() - origin) / unit, fit.predict(data)["sd"].to_numpy() / unit)
        )
        assert fit.idata["sample_stats"].attrs["converged"]
    np.testing.assert_allclose(fits[1][1], fits[0][1], rtol=1e-6)
    np.testing.assert_allclose(fits[1][2], fits[0][2], rtol=1e-6)
    cov = fits[0][0].posterior["feature_cov"].to_numpy()[0, 0]
    assert abs(np.sqrt(cov[0, 0]) - 0.8) < 0.35 and abs(np.sqrt(cov[1, 1]) - 0.45) < 0.25
    kernel = fits[0][0].learned_kernel()
    np.testing.assert_allclose(kernel.kernel_matrix(X[:4]), X[:4] @ cov @ X[:4].T, rtol=1e-6)


def test_features_that_rows_do_not_tell_apart_are_refused(rows):
    X, task, y = rows
    data = zoo.MultiTaskData.from_arrays(np.column_stack([X, X[:, 1]]), y, task)
    with pytest.raises(ValueError, match="do not tell all features apart"):
        zoo.HierarchicalLinear().fit(data, "em", progress=False)
