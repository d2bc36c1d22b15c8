"""The PyMC model of kernel-local smoothing: its mode, curvature and draws against the closed form."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import zoo
from tests.models.local_fits import direct, fitted, rows
from zoo.core.methods import UnsupportedMethodError
from zoo.models.local_smoothing import model as local_smoothing
from zoo.models.local_smoothing.model import KernelLocalSmoothing
from zoo.models.local_smoothing.reading import coefficients_at


@pytest.mark.parametrize("word", ["gaussian", "logistic"])
@pytest.mark.parametrize("degree", [0, 1])
def test_the_mode_of_the_model_is_the_local_fits(word: str, degree: int) -> None:
    """The gradient of the model's log density is zero at the estimate of method "map", and not near it."""
    labels = word != "gaussian"
    data = rows(12, labels=labels)
    fit = fitted(data, likelihood=word, degree=degree, bandwidth=1.2)
    model = fit.factory.build(data)
    names = [v.name for v in model.free_RVs]
    point = {name: fit.posterior[name][0, 0].to_numpy() for name in names}
    gradient = model.compile_dlogp()
    assert np.abs(gradient(point)).max() < 1e-5
    elsewhere = {name: value + 0.1 for name, value in point.items()}
    assert np.abs(gradient(elsewhere)).max() > 0.05


@pytest.mark.parametrize("degree", [0, 1])
def test_the_curvature_of_the_model_is_that_of_the_closed_form(degree: int) -> None:
    """Minus the model's Hessian inverts to the covariance of the draws of method "exact"."""
    data = rows(8)
    fit = fitted(data, degree=degree, bandwidth=1.2, likelihood=zoo.Gaussian(noise=0.4))
    model = fit.factory.build(data)
    point = {v.name: fit.posterior[v.name][0, 0].to_numpy() for v in model.free_RVs}
    gradient = model.compile_dlogp()
    # The log density is quadratic: differences of its gradient are exact.
    columns = []
    for name, value in point.items():
        for step in np.eye(value.size):
            moved = {**point, name: value + step.reshape(value.shape)}
            columns.append(gradient(point) - gradient(moved))
    H = np.array(columns)
    covariance = np.linalg.inv(H)
    places = np.unique(data.t, axis=0)
    K = len(places)
    for i in range(K):
        _, inverse = direct(data, places[i], 1.2, 0.7, "epanechnikov", degree)
        own = np.arange(len(inverse)) * K + i
        np.testing.assert_allclose(covariance[np.ix_(own, own)], 0.16 * inverse, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("degree", [0, 1])
def test_exact_draws_have_the_moments_of_the_closed_form(degree: int) -> None:
    """800 independent draws: each mean within 5 standard errors, a false alarm in 2e6 for each of 60 or 180."""
    data = rows(20)
    fit, point = (
        fitted(data, m, degree=degree, likelihood=zoo.Gaussian(noise=0.4)) for m in ("exact", "map")
    )
    for name in ("coefficients", "slopes")[: degree + 1]:
        draws = fit.posterior[name].to_numpy()
        draws = draws.reshape(-1, *draws.shape[2:])
        error = np.abs(draws.mean(axis=0) - point.posterior[name].to_numpy()[0, 0])
        assert np.all(error < 5.0 * draws.std(axis=0) / np.sqrt(800))
    sd = fit.posterior["coefficients"].std(("chain", "draw")).to_numpy()
    expected = coefficients_at(fit, np.unique(data.t, axis=0)).sd.T
    # The relative standard error of a standard deviation is 1 / sqrt(1600) = 0.025.
    np.testing.assert_allclose(sd, expected, rtol=0.15)


@pytest.mark.statistical
@pytest.mark.parametrize("degree", [0, pytest.param(1, marks=pytest.mark.statistical)])
def test_nuts_agrees_with_the_closed_form(degree: int) -> None:
    """Means within 6 standard errors of 800 draws of which half count, standard deviations within 25 percent.

    A standard error of the latter is some 4 percent, so that both bounds are beyond 6 of them for 24 (or 72) numbers.
    """
    data = rows(8)
    given = {"degree": degree, "bandwidth": 1.2, "likelihood": zoo.Gaussian(noise=0.4)}
    nuts, exact = (fitted(data, m, **given) for m in ("nuts", "map"))
    places = np.unique(data.t, axis=0)
    draws = nuts.posterior["coefficients"].to_numpy().reshape(800, 3, len(places))
    closed = coefficients_at(exact, places)
    error = np.abs(draws.mean(axis=0) - closed.mean.T)
    assert np.all(error < 6.0 * closed.sd.T / np.sqrt(400))
    np.testing.assert_allclose(draws.std(axis=0), closed.sd.T, rtol=0.25)
    # At a new place the draws are those of the local fit there.
    new = np.array([[10.0, 0.0]])
    f = nuts.predict_draws([[1.0, 1.0]], t=new, random_seed=3)["f"].to_numpy().ravel()
    w, inverse = direct(data, new[0], 1.2, 0.7, "epanechnikov", degree)
    sd = 0.4 * np.sqrt(inverse[:3, :3].sum())
    assert abs(f.mean() - w[:3].sum()) < 6.0 * sd / np.sqrt(800)
    assert f.std() == pytest.approx(sd, rel=0.2)


def test_predictions_of_draws_agree_with_the_closed_form() -> None:
    data = rows(20)
    fit = fitted(data, "exact", likelihood=zoo.Gaussian(noise=0.4))
    X, t = np.ones((2, 2)), np.array([data.t[0], [9.5, 0.01]])
    closed = fit.predict(X, t=t)
    y = fit.predict_draws(X, t=t, random_seed=1)["y"].to_numpy().reshape(-1, 2)
    assert np.all(np.abs(y.mean(axis=0) - closed["mean"]) < 6.0 * closed["sd"] / np.sqrt(800))
    np.testing.assert_allclose(y.std(axis=0), closed["sd"], rtol=0.15)


def test_pointwise_log_likelihood_is_that_of_the_own_place() -> None:
    data = rows(20)
    fit = fitted(data, "exact", likelihood=zoo.Gaussian(noise=0.4))
    fit.compute_log_likelihood()
    found = fit.idata["log_likelihood"]["y"].to_numpy()[1, 7]
    w = fit.posterior["coefficients"].to_numpy()[1, 7]
    _, place = np.unique(data.t, axis=0, return_inverse=True)
    f = np.sum(np.column_stack([data.X, np.ones(20)]) * w.T[place.ravel()], axis=1)
    expected = -0.5 * ((data.y - f) / 0.4) ** 2 - np.log(0.4) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(found, expected, rtol=1e-9)


def test_a_model_of_many_pairs_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    data = rows()
    factory = KernelLocalSmoothing(bandwidth=1e3, ridge=1.0)
    # 59 * 60 - 60 pairs: each place sees the rows of all others.
    monkeypatch.setattr(local_smoothing, "_MOST_IN_PAIRS", 3 * 3480)
    factory.build(data)
    monkeypatch.setattr(local_smoothing, "_MOST_IN_PAIRS", 3 * 3479)
    with pytest.raises(ValueError, match="more than 3479 pairs"):
        factory.build(data)
    fit = factory.fit(data, progress=False)
    assert np.isfinite(fit.predict(data.X, t=data.t)["mean"]).all()
    monkeypatch.setattr(local_smoothing, "_MOST_IN_DRAWS", 8 * 59 * 3 - 1)
    with pytest.raises(UnsupportedMethodError, match="would hold 1416 numbers"):
        factory.fit(data, "exact", draws=4, chains=2, progress=False)


def test_a_changed_hook_is_not_predicted_elsewhere() -> None:
    class Doubled(KernelLocalSmoothing):
        def latent(self, data: Any, priors: dict[str, Any]) -> Any:
            return 2.0 * super().latent(data, priors)

    data = rows(8)
    fit = Doubled(bandwidth=1.2, ridge=0.7, likelihood=zoo.Gaussian(noise=0.4)).fit(
        data, "nuts", draws=300, tune=300, chains=2, random_seed=1, progress=False
    )
    original = fitted(data, bandwidth=1.2, ridge=0.7 / 4.0, likelihood=zoo.Gaussian(noise=0.4))
    known, expected = (f.predict(data.X, t=data.t, random_seed=1) for f in (fit, original))
    # Doubling f is a quarter of the penalty: at every place, those of other rows too.
    assert np.all(np.abs(known["mean"] - expected["mean"]) < 6.0 * expected["sd"] / np.sqrt(300))
    with pytest.raises(UnsupportedMethodError, match="Doubled overrides a hook"):
        fit.predict(data.X, t=data.t + 0.01)
