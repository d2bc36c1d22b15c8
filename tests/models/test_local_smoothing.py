"""Kernel-local smoothing against direct solves: fits, windows, choices, coefficients, errors."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.spatial import cKDTree

import zoo
from tests.models.local_fits import direct, fitted, rows, weights_at
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.local.fits import LocalRegressions, cross_validation
from zoo.inference.local.windows import kernel_weight, windows
from zoo.models.local_smoothing.model import KernelLocalSmoothing
from zoo.models.local_smoothing.reading import coefficients_at
from zoo.models.local_smoothing.rows import KnownRows
from zoo.testing import FactoryTestCase


class TestContract(FactoryTestCase):
    def make_factory(self) -> KernelLocalSmoothing:
        return KernelLocalSmoothing()

    def make_weighted_factory(self) -> KernelLocalSmoothing:
        # Folds of rows choose what is not given.
        return KernelLocalSmoothing(bandwidth=0.8, ridge=1.0, likelihood=zoo.Gaussian(noise=0.5))


class TestContractLocalLinearLabels(FactoryTestCase):
    def make_factory(self) -> KernelLocalSmoothing:
        return KernelLocalSmoothing(
            likelihood="logistic", bandwidth=1.0, ridge=0.5, degree=1, window="gaussian"
        )


class TestContractMatern(FactoryTestCase):
    def make_factory(self) -> KernelLocalSmoothing:
        return KernelLocalSmoothing(instance_kernel="matern", n_basis=4, bandwidth=1.0, ridge=0.5)


# ---------------------------------------------------------------- local fits


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
@pytest.mark.parametrize("degree", [0, 1])
def test_coefficients_are_those_of_a_direct_solve(kernel: str, degree: int) -> None:
    data = rows()
    fit = fitted(data, window=kernel, degree=degree)
    places = np.unique(data.t, axis=0)
    assert fit.posterior.sizes["place"] == len(places) == data.n_rows - 1
    for i in (0, 17, 58):
        w, _ = direct(data, places[i], 0.8, 0.7, kernel, degree)
        np.testing.assert_allclose(fit.posterior["coefficients"][0, 0, :, i], w[:3], rtol=1e-8, atol=1e-10)
        if degree:
            slopes = fit.posterior["slopes"][0, 0, :, :, i]
            np.testing.assert_allclose(slopes, w[3:].reshape(2, 3), rtol=1e-8, atol=1e-10)
    assert list(fit.posterior["feature"].to_numpy()) == ["x0", "x1", "intercept"]


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
@pytest.mark.parametrize("degree", [0, 1])
def test_predictions_at_new_places(kernel: str, degree: int) -> None:
    """Mean and standard deviation of y at a new place, from all rows in its window."""
    data = rows()
    fit = fitted(data, window=kernel, degree=degree, likelihood=zoo.Gaussian(noise=0.4))
    X, t = (
        np.array([[0.3, -1.0], [2.0, 0.5], [1.0, 1.0]]),
        np.array([[9.0, 0.02], [9.0, 0.02], [11.5, -0.05]]),
    )
    predicted = fit.predict(X, t=t)
    for n in range(3):
        w, inverse = direct(data, t[n], 0.8, 0.7, kernel, degree)
        x = np.append(X[n], 1.0)
        assert predicted["mean"][n] == pytest.approx(x @ w[:3], rel=1e-8)
        assert predicted["sd"][n] == pytest.approx(0.4 * np.sqrt(1.0 + x @ inverse[:3, :3] @ x), rel=1e-8)


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_labels_minimise_the_local_loss(kernel: str) -> None:
    data = rows(labels=True)
    fit = fitted(data, likelihood="logistic", window=kernel)
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    new = np.array([[9.0, 0.02]])

    def mode(place: np.ndarray) -> np.ndarray:
        weight, _ = weights_at(data, place, 0.8, kernel)

        def loss(w: np.ndarray) -> float:
            return float(np.sum(weight * np.logaddexp(0.0, -data.y * (X @ w))) + 0.35 * w @ w)

        return minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9}).x

    places = np.unique(data.t, axis=0)
    found = fit.posterior["coefficients"][0, 0].to_numpy()
    for i in (0, 30):
        np.testing.assert_allclose(found[:, i], mode(places[i]), atol=1e-6)
    predicted = fit.predict([[1.0, -1.0]], t=new)
    f = np.array([1.0, -1.0, 1.0]) @ mode(new[0])
    assert predicted["mean"][0] == pytest.approx(f, abs=1e-6)
    assert predicted["probability"][0] == pytest.approx(1.0 / (1.0 + np.exp(-f)), abs=1e-6)


def test_separable_labels() -> None:
    """Newton's steps are damped where the loss without its penalty has no minimum."""
    X = np.linspace(-3.0, 3.0, 40)[:, None] * 30.0
    rows = LocalRegressions(X, np.sign(X[:, 0]), np.linspace(0, 1, 40)[:, None], True, "gaussian", 0)
    [(fit,)] = rows.fits(np.array([[0.5]]), 100.0, [1e-6])
    p = 1.0 / (1.0 + np.exp(rows.y * (X @ fit.mean)))
    weight = kernel_weight("gaussian", ((rows.z[:, 0] - 0.5) / 100.0) ** 2)
    slope = X.T @ (weight * rows.y * p)
    np.testing.assert_allclose(slope, 1e-6 * fit.mean, rtol=1e-4)


# ---------------------------------------------------------------- limits


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
@pytest.mark.parametrize("degree", [0, 1])
def test_a_huge_bandwidth_is_ridge_on_all_rows(kernel: str, degree: int) -> None:
    data = rows()
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    ridge = np.linalg.solve(X.T @ X + 0.7 * np.eye(3), X.T @ data.y)
    found = fitted(data, bandwidth=1e6, window=kernel, degree=degree).posterior["coefficients"][0, 0]
    np.testing.assert_allclose(found, np.tile(ridge[:, None], data.n_rows - 1), rtol=1e-6)


def test_a_tiny_penalty_is_weighted_least_squares() -> None:
    data = rows()
    places = np.unique(data.t, axis=0)
    found = fitted(data, bandwidth=1.5, ridge=1e-10).posterior["coefficients"][0, 0, :, 20]
    weight, _ = weights_at(data, places[20], 1.5, "epanechnikov")
    X = np.column_stack([data.X, np.ones(data.n_rows)])
    root = np.sqrt(weight)
    np.testing.assert_allclose(
        found, np.linalg.lstsq(root[:, None] * X, root * data.y, rcond=None)[0], rtol=1e-7
    )


def test_a_huge_penalty_leaves_nothing() -> None:
    found = fitted(rows(), ridge=1e12).posterior["coefficients"]
    assert np.abs(found).max() < 1e-8


def test_a_penalty_too_small_says_so() -> None:
    data = rows()
    X = np.column_stack([data.X, data.X[:, 0]])
    twice = zoo.MultiTaskData.from_arrays(X * 1e6, data.y, t=data.t)
    with pytest.raises(ValueError, match="ridge is 1e-08, too small"):
        fitted(twice, ridge=1e-8)


# ---------------------------------------------------------------- windows


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
@pytest.mark.parametrize("bandwidth", [0.05, 0.5, 50.0])
def test_windows_hold_all_that_has_weight(kernel: str, bandwidth: float) -> None:
    """Whether all rows or the nearest are taken, what is left out has no weight."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((500, 2))
    tree, centres = cKDTree(z), z[:100]
    for centre, window in zip(centres, windows(tree, centres, bandwidth, kernel, 50), strict=True):
        dense = np.zeros(500)
        dense[window.rows] = window.weight
        expected = kernel_weight(kernel, np.sum((z - centre) ** 2, axis=1) / bandwidth**2)
        np.testing.assert_allclose(dense, expected, rtol=1e-9, atol=1e-15)


@pytest.mark.parametrize("kernel", ["epanechnikov", "gaussian"])
def test_an_empty_window_is_widened(kernel: str) -> None:
    """The 50th nearest row has half the weight of the place; far from all rows, and in both directions, too."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((500, 2))
    centres = np.array([[100.0, 0.0], [0.0, 1e6], z[0]])
    far, further, inside = windows(cKDTree(z), centres, 0.3, kernel, 50)
    for window in (far, further):
        assert np.sort(window.weight)[-50] == pytest.approx(0.5, rel=1e-6)
    assert inside.weight.max() == 1.0
    expected = kernel_weight(kernel, np.sum((z - z[0]) ** 2, axis=1) / 0.09)
    assert inside.weight.sum() == pytest.approx(expected.sum(), rel=1e-12)


def test_predictions_far_away_are_finite_and_from_rows() -> None:
    data = rows()
    far = fitted(data).predict([[1.0, 1.0]], t=[[1000.0, 50.0]])
    assert np.isfinite(far["mean"][0])
    assert abs(far["mean"][0]) > 1e-3


# ---------------------------------------------------------------- choices


@pytest.mark.parametrize("labels", [False, True])
def test_cross_validation_by_recomputation(labels: bool) -> None:
    """The table is that of dense fits to the same folds, and the smallest loss is chosen."""
    data = rows(labels=labels)
    grid, lams = (0.4, 0.8, 2.0), (0.1, 3.0)
    word = "logistic" if labels else "gaussian"
    factory = KernelLocalSmoothing(
        likelihood=word, bandwidth_grid=grid, ridge_grid=lams, cv_folds=3, cv_max_rows=40, design_seed=4
    )
    known = KnownRows(factory, data)
    losses = known.choice.losses
    rng = np.random.default_rng(4)
    fold = rng.permutation(60) % 3
    scored = rng.permutation(60)[:40]
    X = np.column_stack([data.X, np.ones(60)])
    z = (data.t - data.t.mean(axis=0)) / data.t.std(axis=0)
    for i, h in enumerate(grid):
        for j, lam in enumerate(lams):
            total = 0.0
            for n in scored:
                train = np.flatnonzero(fold != fold[n])
                distance = np.sqrt(np.sum((z[train] - z[n]) ** 2, axis=1))
                width = h if distance.min() < h else np.sort(distance)[min(50, len(train)) - 1] / np.sqrt(0.5)
                weight = np.clip(1.0 - (distance / width) ** 2, 0.0, None)
                w = _dense(X[train], data.y[train], weight, lam, labels)
                f = X[n] @ w
                total += np.logaddexp(0.0, -data.y[n] * f) if labels else (data.y[n] - f) ** 2
            assert losses[i, j] == pytest.approx(total / 40, rel=1e-6)
    best = np.unravel_index(losses.argmin(), losses.shape)
    assert (known.choice.bandwidth, known.choice.lam) == (grid[best[0]], lams[best[1]])
    fit = factory.fit(data, progress=False)
    assert float(fit.posterior["bandwidth"][0, 0]) == grid[best[0]]
    assert float(fit.posterior["lam"][0, 0]) == lams[best[1]]


def _dense(X: np.ndarray, y: np.ndarray, weight: np.ndarray, lam: float, labels: bool) -> np.ndarray:
    if not labels:
        return np.linalg.solve((X.T * weight) @ X + lam * np.eye(3), X.T @ (weight * y))
    w = np.zeros(3)
    for _ in range(60):
        p = 1.0 / (1.0 + np.exp(y * (X @ w)))
        H = (X.T * (weight * p * (1 - p))) @ X + lam * np.eye(3)
        w = w - np.linalg.solve(H, lam * w - X.T @ (weight * y * p))
    return w


def test_cross_validation_finds_what_varies() -> None:
    """Coefficients that vary fast ask for a smaller bandwidth than constant ones."""
    data = rows(600)
    rng = np.random.default_rng(2)
    constant = replace(data, y=data.X[:, 0] + 0.3 * rng.standard_normal(600))
    found = [KnownRows(KernelLocalSmoothing(), d).choice.bandwidth for d in (data, constant)]
    assert found[0] < found[1]


def test_an_end_of_the_grid_is_said(caplog: pytest.LogCaptureFixture) -> None:
    data = rows(200)
    chosen = KnownRows(
        KernelLocalSmoothing(bandwidth_grid=(0.2, 0.8, 50.0), ridge=0.1), data
    ).choice.bandwidth
    assert (chosen, caplog.text) == (0.8, "")
    KnownRows(KernelLocalSmoothing(bandwidth_grid=(20.0, 50.0), ridge=0.1), data).choice  # noqa: B018
    assert "end of bandwidth_grid" in caplog.text


def test_noise_is_that_of_left_out_rows() -> None:
    """The closed form of the leave-one-out residuals is that of fits without the row."""
    data = rows()
    known = KnownRows(KernelLocalSmoothing(bandwidth=0.8, ridge=0.7), data)
    X = np.column_stack([data.X, np.ones(60)])
    terms = []
    for n in range(60):
        weight, _ = weights_at(data, data.t[n], 0.8, "epanechnikov")
        weight[n] = 0.0
        inverse = np.linalg.inv((X.T * weight) @ X + 0.7 * np.eye(3))
        error = data.y[n] - X[n] @ inverse @ X.T @ (weight * data.y)
        terms.append(error**2 / (1.0 + X[n] @ inverse @ X[n]))
    assert known.choice.noise == pytest.approx(np.sqrt(np.mean(terms)), rel=1e-8)


def test_noise_is_found() -> None:
    """Simulated noise is 0.3; with 600 rows its standard error is 0.3 / sqrt(1200) = 0.009, and bias adds to it.

    The lower bound is more than four standard errors off.
    """
    fit = KernelLocalSmoothing().fit(rows(600), progress=False)
    assert 0.26 < float(fit.posterior["noise"][0, 0]) < 0.4


# ---------------------------------------------------------------- features


def test_matern_features_are_those_of_the_kernel() -> None:
    """With every row a centre, the features give the kernel back, and a huge bandwidth is kernel ridge regression."""
    data = rows(40)
    fit = fitted(data, bandwidth=1e6, ridge=0.5, instance_kernel="matern", lengthscale=1.3, intercept=False)
    X = np.random.default_rng(3).standard_normal((5, 2))

    def matern(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        r = np.sqrt(5.0) * np.linalg.norm(a[:, None] - b[None], axis=-1) / 1.3
        return (1.0 + r + r**2 / 3.0) * np.exp(-r)

    K = matern(data.X, data.X)
    expected = matern(X, data.X) @ np.linalg.solve(K + 0.5 * np.eye(40), data.y)
    np.testing.assert_allclose(fit.predict(X, t=data.t[:5] + 0.01)["mean"], expected, rtol=1e-5, atol=1e-6)


def test_the_number_of_basis_functions_is_bounded() -> None:
    known = KnownRows(KernelLocalSmoothing(instance_kernel="matern", n_basis=7), rows())
    assert known.feature_names == (*(f"basis {i}" for i in range(7)), "intercept")
    assert known.X.shape == (60, 8)


def test_an_intercept_is_added_once() -> None:
    data = rows()
    assert KnownRows(KernelLocalSmoothing(), data.add_intercept("one")).feature_names == ("x0", "x1", "one")
    assert KnownRows(KernelLocalSmoothing(intercept=False), data).feature_names == ("x0", "x1")


# ---------------------------------------------------------------- coefficients anywhere


@pytest.mark.parametrize("constant", ["none", "added", "given"])
def test_coefficients_are_on_the_users_scale(constant: str) -> None:
    """x' w on the user's scale is the prediction of standardized data, at known and at new places."""
    data = rows()
    data = replace(data, inputs=data.inputs * [5.0, 0.1] + [3.0, -2.0], y=100.0 + 7.0 * data.y)
    if constant == "given":
        data = data.add_intercept("one")
    fit = fitted(data.standardize(), intercept=constant == "added", likelihood=zoo.Gaussian(noise=0.5))
    t = np.array([[9.0, 0.02], [11.0, 0.0], data.t[3], data.t[3]])
    found = coefficients_at(fit, t)
    assert found.feature_names[-1] == ("one" if constant == "given" else "intercept")
    assert found.mean.shape == found.sd.shape == (4, 3)
    X = data.X[:4]
    predicted = fit.predict(X, t=t)
    ones = [] if constant == "given" else [np.ones(4)]
    full = np.column_stack([X, *ones])
    np.testing.assert_allclose(np.sum(full * found.mean, axis=1), predicted["mean"], rtol=1e-9)
    np.testing.assert_array_equal(found.mean[2], found.mean[3])
    # A unit more of a feature adds its coefficient.
    more = fit.predict(X + np.eye(X.shape[1])[0], t=t)["mean"] - predicted["mean"]
    np.testing.assert_allclose(found.mean[:, 0], more, rtol=1e-7)


def test_sd_of_coefficients() -> None:
    data = rows()
    found = coefficients_at(fitted(data, likelihood=zoo.Gaussian(noise=0.4)), data.t[:3])
    for n in range(3):
        w, inverse = direct(data, data.t[n], 0.8, 0.7, "epanechnikov", 0)
        np.testing.assert_allclose(found.mean[n], w, rtol=1e-8)
        np.testing.assert_allclose(found.sd[n], 0.4 * np.sqrt(np.diag(inverse)), rtol=1e-8)


def test_a_fit_gives_its_coefficients_as_the_processes_do() -> None:
    data = rows()
    fit = fitted(data, likelihood=zoo.Gaussian(noise=0.4))
    places = data.t[:3]
    table = fit.coefficients(places, ci_prob=0.5)
    found = coefficients_at(fit, places)
    assert table["mean"].dims == ("feature", "place")
    np.testing.assert_array_equal(table["mean"].T, found.mean)
    np.testing.assert_array_equal(table[fit.data.t_names[1]], places[:, 1])
    # Half of a normal law lies within 0.6745 standard deviations.
    np.testing.assert_allclose(table["upper"] - table["mean"], 0.674490 * table["sd"], rtol=1e-5)
    assert fit.coefficients().sizes["place"] == len(np.unique(data.t, axis=0))
    with pytest.raises(ValueError, match="task is given"):
        fit.coefficients(places, task="a")


def test_places_of_coefficients_are_checked() -> None:
    fit = fitted(rows())
    with pytest.raises(ValueError, match="t has 3 columns, but the data have 2"):
        coefficients_at(fit, np.zeros((4, 3)))
    with pytest.raises(ValueError, match=r"t is nan in row 1, column 'lat'"):
        coefficients_at(fit, np.array([[9.0, 0.0], [9.0, np.nan]]))


def test_basis_functions_have_no_coefficients_to_look_at() -> None:
    data = rows()
    with pytest.raises(UnsupportedMethodError, match="instance_kernel is 'matern'"):
        coefficients_at(fitted(data, instance_kernel="matern", n_basis=5), data.t)


# ---------------------------------------------------------------- errors


def test_data_without_t() -> None:
    data = zoo.MultiTaskData.from_arrays(np.eye(4), np.arange(4.0))
    with pytest.raises(ValueError, match=r"t is missing: KernelLocalSmoothing.*Give t"):
        KernelLocalSmoothing().fit(data, progress=False)


def test_constant_column_of_t() -> None:
    data = rows()
    data = replace(data, t=np.column_stack([data.t[:, 0], np.full(60, 2.0)]))
    with pytest.raises(ValueError, match="t column 'lat' is constant"):
        KernelLocalSmoothing().build(data)


def test_missing_t_is_refused_by_the_data() -> None:
    data = rows()
    t = data.t.copy()
    t[3, 1] = np.nan
    with pytest.raises(ValueError, match=r"t is nan in row 3"):
        zoo.MultiTaskData.from_arrays(data.X, data.y, t=t)


def test_another_feature_named_intercept() -> None:
    data = replace(rows(), feature_names=("x0", "intercept"))
    with pytest.raises(ValueError, match="feature 'intercept' is not constant"):
        KernelLocalSmoothing().fit(data, progress=False)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"likelihood": "poisson"}, "likelihood"),
        ({"window": "box"}, "window"),
        ({"degree": 2}, "degree"),
        ({"instance_kernel": "rbf"}, "instance_kernel"),
        ({"bandwidth": 0.0}, "bandwidth"),
        ({"bandwidth": "auto"}, "bandwidth"),
        ({"ridge": -1.0}, "ridge"),
        ({"lengthscale": 0.0}, "lengthscale"),
        ({"bandwidth_grid": ()}, "bandwidth_grid is empty"),
        ({"ridge_grid": (1.0, 0.0)}, "ridge_grid"),
        ({"cv_folds": 1}, "cv_folds"),
        ({"cv_max_rows": 0}, "cv_max_rows"),
        ({"n_basis": 0}, "n_basis"),
        ({"design_seed": -1}, "design_seed"),
    ],
)
def test_wrong_fields(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        KernelLocalSmoothing(**fields)


def test_cross_validation_leaves_the_row_out() -> None:
    """In a window of its own a row is fitted by itself, but not predicted."""
    y, z = np.random.default_rng(5).standard_normal(100), np.arange(100.0)[:, None]
    rows = LocalRegressions(np.ones((100, 1)), y, z, False, "epanechnikov", 0)
    np.testing.assert_allclose(rows.at_rows(rows.X, z, 0.5, 1e-3)[0], y, rtol=2e-3)
    losses = cross_validation(rows, [0.5], [1e-3], 5, 100, np.random.default_rng(0))
    assert losses[0, 0] > 0.5 * np.var(y)
