"""The prior that keeps sines from running away, on fields with a gap; seeds are fixed, so there are no false alarms."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import zoo
from zoo.models.varying_coefficient.restraint import Restraint
from zoo.models.varying_coefficient.spaces import space_of

LOCAL = zoo.VaryingCoefficientGP(task_kernel=zoo.VaryingComponent(features="intercept", n_basis=14))


def _field(seed: int, n: int, range_: float, noise: float) -> Any:
    """Places (n, 2), a Matern 3/2 field there by random waves, responses, and who lies in a round gap."""
    rng = np.random.default_rng(seed)
    u = rng.uniform(size=(n, 2))
    waves = rng.normal(size=(1500, 2)) / np.sqrt(rng.gamma(1.5, 1.0 / 1.5, size=1500))[:, None] / range_
    f = np.sqrt(2.0 / 1500) * np.cos(u @ waves.T + rng.uniform(0.0, 2.0 * np.pi, 1500)).sum(axis=1)
    return u, f, f + rng.normal(0.0, noise, n), np.hypot(*(u - 0.5).T) < 0.22


def _fit(u: np.ndarray, y: np.ndarray) -> Any:
    data = zoo.MultiTaskData.from_arrays(X=np.zeros((len(u), 1)), y=y, t=u)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of the coarse basis, and the constant feature
        return LOCAL.fit(data, "hsgp", draws=10, chains=1, random_seed=1, progress=False)


def _mean(fit: Any, u: np.ndarray) -> np.ndarray:
    return np.asarray(fit.predict(np.zeros((len(u), 1)), t=u)["mean"])


def _amplitude(fit: Any) -> float:
    return float(fit.posterior["amplitude"].isel(chain=0, draw=0))


def test_predictions_in_a_gap_stay_on_the_scale_of_the_responses(monkeypatch: pytest.MonkeyPatch) -> None:
    u, f, y, hole = _field(3, 16_000, 0.1, 0.05)
    restrained = _fit(u[~hole], y[~hole])
    assert _amplitude(restrained) < 2.5 * y.std()
    error = np.sqrt(np.mean((_mean(restrained, u[hole]) - f[hole]) ** 2))
    assert error < 4.0 * f.std()
    monkeypatch.setattr(Restraint, "of", classmethod(lambda cls, space: None))
    free = _fit(u[~hole], y[~hole])
    assert _amplitude(free) > 10.0 * y.std()
    assert np.sqrt(np.mean((_mean(free, u[hole]) - f[hole]) ** 2)) > 3.0 * error


def test_far_from_the_data_stands_the_mean_with_the_sd_of_the_prior() -> None:
    u, _, y, _ = _field(5, 3000, 1.0, 0.1)
    fit = _fit(u, 3.0 + y)
    far = fit.predict(np.zeros((1, 1)), t=np.array([[9.0, 9.0]]))
    posterior = fit.posterior.isel(chain=0, draw=0)
    known = fit.coefficients(np.array([[9.0, 9.0]])).sel(feature="intercept")
    assert abs(float(far["mean"][0]) - float(known["mean"][0])) < 1e-8
    assert abs(float(far["mean"][0]) - float(np.mean(3.0 + y))) < 2.0 * float(posterior["global_scale"])
    assert _amplitude(fit) < float(known["sd"][0]) < 1.5 * _amplitude(fit)
    assert _amplitude(fit) < 5.0 * y.std()


def test_a_fit_that_sines_resolve_is_as_without_restraint(monkeypatch: pytest.MonkeyPatch) -> None:
    u, _, y, hole = _field(7, 2500, 0.35, 0.3)
    restrained = _fit(u[~hole], y[~hole])
    monkeypatch.setattr(Restraint, "of", classmethod(lambda cls, space: None))
    free = _fit(u[~hole], y[~hole])
    assert np.abs(_mean(restrained, u) - _mean(free, u)).max() < 1e-3 * y.std()
    assert _amplitude(restrained) == pytest.approx(_amplitude(free), rel=1e-3)


@pytest.mark.parametrize("kernel", ["matern12", "matern32", "matern52", "squared_exponential"])
@pytest.mark.parametrize("amplitude", ["shared", "per_feature"])
def test_its_derivative_is_that_of_differences(kernel: str, amplitude: str) -> None:
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        X=rng.normal(size=(60, 2)), y=rng.normal(size=60), t=rng.uniform(size=(60, 2))
    )
    factory = zoo.VaryingCoefficientGP(task_kernel=kernel, amplitude=amplitude, approximation="hsgp")
    rows = factory.design(data)
    restraint = Restraint.of(space_of(factory, rows, factory.validate(data)))
    assert restraint is not None
    start = restraint.coordinates.start
    z = start + rng.uniform(1.5, 2.5, len(start))
    value, gradient = restraint(z)
    assert value < -1.0
    steps = 1e-5 * np.eye(len(z))
    differences = [(restraint(z + e)[0] - restraint(z - e)[0]) / 2e-5 for e in steps]
    np.testing.assert_allclose(gradient, differences, rtol=1e-6, atol=1e-6)


def test_amplitudes_that_are_given_are_left_alone() -> None:
    rng = np.random.default_rng(1)
    data = zoo.MultiTaskData.from_arrays(
        X=rng.normal(size=(40, 1)), y=rng.normal(size=40), t=rng.uniform(size=(40, 1))
    )
    factory = zoo.VaryingCoefficientGP(amplitude=50.0, approximation="hsgp")
    restraint = Restraint.of(space_of(factory, factory.design(data), factory.validate(data)))
    assert restraint is not None
    value, gradient = restraint(restraint.coordinates.start)
    assert value == 0.0 and not gradient.any()
