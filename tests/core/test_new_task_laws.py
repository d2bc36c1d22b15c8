"""Predictions of unseen tasks in closed form, against formulas written down and against draws."""

import numpy as np
import pytest
from scipy.optimize import brentq
from scipy.stats import norm

import zoo

ROWS = np.random.default_rng(4).standard_normal((12, 3))
NAMES = ["u", "v", "w"] * 4


def _data():
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(6), 12)
    X = rng.standard_normal((72, 3))
    w = np.array([1.0, -0.5, 0.0]) + 0.4 * rng.standard_normal((6, 3))
    y = np.sum(X * w[task], axis=1) + 0.3 * rng.standard_normal(72)
    return zoo.MultiTaskData.from_arrays(X, y, task).standardize()


def test_a_further_task_of_an_estimated_population():
    data = _data()
    fit = zoo.NIWLinear().fit(data, "em", progress=False)
    mean, cov, noise = (
        fit.posterior[name].to_numpy()[0, 0] for name in ("population_mean", "feature_cov", "noise")
    )
    X = data.transform.apply_x(ROWS)
    m = data.transform.restore_y(X @ mean)
    s = data.transform.y_scale * np.sqrt(np.sum(X @ cov * X, axis=1) + noise**2)
    found = fit.predict(ROWS, NAMES, new_task=True)
    np.testing.assert_allclose(found["mean"], m, rtol=1e-9)
    np.testing.assert_allclose(found["sd"], s, rtol=1e-9)
    np.testing.assert_allclose(found["upper"], norm.ppf(0.95, m, s), rtol=1e-9)
    assert found.identical(fit.predict(ROWS, NAMES, new_task=True, random_seed=9))


def test_a_further_task_of_a_mode_is_as_any():
    data = _data()
    fit = zoo.MultiLaplaceGP(kernel="linear", penalty=0.5, noise_floor=0.05).fit(
        data, method="map", progress=False
    )
    kappa, noise = (fit.posterior[name].to_numpy()[0, 0] for name in ("kappa", "noise"))
    X, scale = data.transform.apply_x(ROWS), data.transform.y_scale
    variance = kappa.T @ (X**2).T + fit.factory.constant_variance
    f = X @ fit.posterior["mean_coefficients"].to_numpy()[0, 0] if fit.factory.mean == "linear" else 0.0
    mean = np.broadcast_to(data.transform.restore_y(f + np.zeros(12)), variance.shape)
    sd = scale * np.sqrt(variance + noise[:, None] ** 2)
    found = fit.predict(ROWS, NAMES, new_task=True)
    np.testing.assert_allclose(found["mean"], mean.mean(axis=0), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(found["sd"], np.sqrt(np.mean(sd**2, axis=0)), rtol=1e-9)
    for i in range(12):
        root = brentq(
            lambda x, i=i: norm.cdf(x, mean[:, i], sd[:, i]).mean() - 0.05, -200.0, 200.0, xtol=1e-13
        )
        assert float(found["lower"][i]) == pytest.approx(root, abs=1e-7)


@pytest.mark.parametrize(
    "model",
    [
        zoo.NIWLinear(),
        zoo.NIWGaussianProcess(base_kernel="squared_exponential"),
        zoo.MultiLaplaceGP(noise_floor=0.05),
        zoo.MultiLaplaceGP(ard="pooled", noise_floor=0.05),
    ],
    ids=["linear", "functions", "relevance", "pooled"],
)
def test_it_is_the_law_of_the_draws(model):
    fit = model.fit(_data(), "map" if "map" in model.methods else "em", progress=False)
    found = fit.predict(ROWS, NAMES, new_task=True)
    y = fit.predict_draws(ROWS, NAMES, new_task=True, random_seed=1)["y"].to_numpy().reshape(-1, 12)
    error = found["sd"].to_numpy() / np.sqrt(len(y))
    # Means and standard deviations of 1,000 draws in 12 rows, heavier tails than normal ones allowed for.
    assert np.all(np.abs(y.mean(axis=0) - found["mean"].to_numpy()) < 5.0 * error)
    np.testing.assert_allclose(y.std(axis=0), found["sd"], rtol=0.25)
