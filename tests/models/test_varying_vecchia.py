"""Method "vecchia" of the varying-coefficient models: against method "exact", through the doors of a fit."""

from __future__ import annotations

import re
import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose

import zoo
from zoo.core.context import Context
from zoo.core.factory import UnsupportedMethodError
from zoo.likelihoods import Gaussian
from zoo.models.varying_coefficient import methods as varying_fit
from zoo.models.varying_coefficient.spaces import space_of

KW = {"draws": 4, "chains": 1, "random_seed": 1, "progress": False}


def field(n: int = 90, seed: int = 1, weight: bool = False) -> zoo.MultiTaskData:
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n, 2)), np.round(rng.uniform(0.0, 3.0, (n, 2)), 1)
    y = 5.0 + np.sin(2.0 * t[:, 0]) * X[:, 0] + np.cos(2.0 * t[:, 1]) + rng.normal(0.0, 0.3, n)
    return zoo.MultiTaskData.from_arrays(X=X, y=y, t=t, weight=rng.uniform(0.5, 2.0, n) if weight else None)


def new_rows(n: int = 7, seed: int = 2) -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    return rng.standard_normal((n, 2)), rng.uniform(0.0, 3.0, (n, 2))


PARTS = (
    zoo.VaryingComponent(columns=["t0"], amplitude="per_feature", lengthscale=0.8),
    zoo.VaryingComponent(columns=["t0", "t1"], features="intercept", kernel="matern12"),
    zoo.VaryingComponent(columns=["t1"], features=["x1"], kernel="squared_exponential", amplitude=0.7),
)
MODELS = {
    "default": zoo.VaryingCoefficientGP(),
    "components": zoo.VaryingCoefficientGP(task_kernel=PARTS),
    "no global coefficients": zoo.VaryingCoefficientGP(task_kernel=PARTS, global_coefficients=False),
    "no intercept": zoo.VaryingCoefficientGP(intercept=False, task_kernel="matern52"),
    "instance kernel": zoo.VaryingCoefficientGP(instance_kernel="matern52", instance_lengthscale=2.0),
    "fixed noise": zoo.VaryingCoefficientGP(likelihood=Gaussian(noise=0.3)),
    "pooled, x": zoo.PooledGP(),
    "pooled, xt": zoo.PooledGP(inputs="xt", instance_kernel="matern32", instance_lengthscale="per_feature"),
}
each_model = pytest.mark.parametrize("name", MODELS)


def all_rows(model: zoo.VaryingCoefficientGP) -> zoo.VaryingCoefficientGP:
    return replace(model, approximation="vecchia", n_neighbours=1000, n_neighbours_predict=1000)


@each_model
@pytest.mark.parametrize("weight", [False, True])
def test_evidence_and_gradient_are_exact_with_all_neighbours(name, weight):
    data, model = field(40, weight=weight), MODELS[name]
    y = model.validate(data)
    exact, ours = (space_of(m, m.design(data), y) for m in (model, all_rows(model)))
    z = exact.coordinates.start + 0.2 * np.random.default_rng(3).standard_normal(exact.coordinates.size)
    value, gradient = exact.evidence(z)
    found, slopes = ours.evidence(z)
    assert found == pytest.approx(value, abs=1e-8)
    assert_allclose(slopes, gradient, atol=1e-8 * max(1.0, np.abs(gradient).max()))


@each_model
def test_predictions_and_coefficients_are_exact_with_all_neighbours(name):
    data, model = field(40), MODELS[name]
    X, t = new_rows()
    exact = model.fit(data, "exact", **KW)
    fit = all_rows(model).fit(data, "vecchia", **KW)
    # Searches stop at places that differ by their tolerance: compared is what is said at the same place.
    for variable in fit.idata["posterior"].data_vars:
        fit.idata["posterior"][variable] = exact.idata["posterior"][variable]
    vars(fit).pop("state", None)
    ours, theirs = fit.predict(X, t=t), exact.predict(X, t=t)
    for summary in ("mean", "sd", "lower", "upper"):
        assert_allclose(ours[summary], theirs[summary], atol=1e-8)
    if model.is_linear and name != "pooled, xt":
        ours, theirs = fit.coefficients(t), exact.coefficients(t)
        assert_allclose(ours["mean"], theirs["mean"], atol=1e-8)
        assert_allclose(ours["sd"], theirs["sd"], atol=1e-8)


def test_components_whose_number_of_sines_is_given_are_shared():
    """Sines for the slopes and neighbours for the rest: with all neighbours the sum of both processes."""
    data, (X, t) = field(60), new_rows()
    sines = zoo.VaryingComponent(columns=["t0"], features=["x0"], n_basis=12, name="slow")
    near = zoo.VaryingComponent(columns=["t0", "t1"], features="intercept", kernel="matern12", name="near")
    model = zoo.VaryingCoefficientGP(task_kernel=[sines, near], n_neighbours=99, n_neighbours_predict=99)
    fit = model.fit(data, "vecchia", **KW)
    v = {str(name): values.to_numpy()[0, 0] for name, values in fit.posterior.items()}
    space = space_of(fit.factory, fit.factory.design(data), fit.factory.validate(data))
    kernel = space.shared
    assert [part.prefix for part in kernel.parts] == ["slow_"]
    S = np.exp(space._variances[0](space.recorded(fit.posterior.isel(chain=0, draw=0))))

    def covariance(a, b):
        phi, psi = (kernel.features(rows, slice(0, rows.n_rows)) for rows in (a, b))
        r = np.linalg.norm((a.times[:, None] - b.times[None]) / v["near_lengthscale"], axis=-1)
        return phi @ np.diag(S) @ psi.T + v["near_amplitude"] ** 2 * np.exp(-r)

    some = zoo.MultiTaskData.from_arrays(X=X, y=np.zeros(len(X)), t=t)
    old, new = space.rows, fit.factory.design(some, Context(data, data))
    K = covariance(old, old) + v["noise"] ** 2 * np.eye(60)
    cross, y = covariance(new, old), data.y - data.y.mean()
    mean = cross @ np.linalg.solve(K, y) + data.y.mean()
    variance = np.diag(covariance(new, new) - cross @ np.linalg.solve(K, cross.T)) + v["noise"] ** 2
    predicted = fit.predict(X, t=t)
    assert_allclose(predicted["mean"], mean, atol=1e-7)
    inside = ~kernel.parts[0].beyond(new.times)
    assert inside.any()
    assert_allclose(predicted["sd"][inside], np.sqrt(variance[inside]), atol=1e-7)
    evidence = -0.5 * (y @ np.linalg.solve(K, y) + np.linalg.slogdet(2 * np.pi * K)[1])
    assert float(fit.idata["sample_stats"]["log_evidence"][0, 0]) == pytest.approx(evidence, abs=1e-6)
    # Far from the data the sines have the variance of their process again.
    far = fit.predict(np.ones((1, 2)), t=[[50.0, 50.0]])
    prior = v["slow_amplitude"] ** 2 + v["near_amplitude"] ** 2 + v["noise"] ** 2
    assert float(far["sd"][0]) > 0.8 * np.sqrt(prior)
    draws = fit.predict_draws(X, t=t, random_seed=2)
    assert np.all(np.isfinite(draws["f"]))


def test_the_search_finds_what_that_of_the_exact_evidence_finds():
    data = field(150)
    exact = zoo.VaryingCoefficientGP().fit(data, "exact", tol=1e-12, **KW)
    fit = zoo.VaryingCoefficientGP().fit(data, "vecchia", n_neighbours=149, tol=1e-12, **KW)
    for name in ("amplitude", "lengthscale", "noise"):
        assert_allclose(fit.posterior[name], exact.posterior[name], rtol=1e-4)
    few = zoo.VaryingCoefficientGP().fit(data, "vecchia", n_neighbours=30, **KW)
    for name in ("amplitude", "lengthscale", "noise"):
        assert_allclose(few.posterior[name], exact.posterior[name], rtol=0.3)


def test_posterior_has_hyperparameters_alone_and_predictions_every_door(tmp_path):
    data, (X, t) = field(), new_rows()
    fit = zoo.VaryingCoefficientGP().fit(data, "vecchia", **KW)
    assert set(fit.posterior) == {"amplitude", "lengthscale", "global_scale", "noise"}
    predicted = fit.predict(X, t=t)
    other = fit.predict(X, t=t, task=["elsewhere"] * len(X), new_task=True)
    assert np.all(np.isfinite(other["mean"]))
    loaded = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert_allclose(loaded.predict(X, t=t)["mean"], predicted["mean"], rtol=0, atol=0)
    assert loaded.factory == fit.factory
    fit.compute_log_likelihood()
    assert np.all(np.isfinite(fit.idata["log_likelihood"]["y"]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        drawn = pm.sample_posterior_predictive(fit.idata, model=fit.model, progressbar=False, random_seed=1)
    gap = drawn.posterior_predictive["y"].mean(("chain", "draw")) - data.y
    assert float(np.abs(gap).mean()) < 1.0
    model = fit.factory.build(data)
    assert {"y", "function_values"} <= set(model.named_vars)


def test_joint_draws_have_the_moments_of_predictions():
    """400 draws: 4.5 standard errors of a mean, for 7 rows, are passed by chance once in 20,000 times."""
    data, (X, t) = field(), new_rows()
    fit = zoo.VaryingCoefficientGP().fit(data, "vecchia", **{**KW, "draws": 400})
    X, t = np.vstack([X, X[:1]]), np.vstack([t, t[:1]])
    draws = fit.predict_draws(X, t=t, random_seed=3)
    f = draws["f"].to_numpy()[0]
    assert np.array_equal(f[:, 0], f[:, -1])  # one function, so one value
    mean, sd = fit.predict(X, t=t)["mean"].to_numpy(), f.std(axis=0)
    assert np.all(np.abs(f.mean(axis=0) - mean) < 4.5 * sd / 20.0)
    y_sd = np.sqrt(sd**2 + float(fit.posterior["noise"][0, 0]) ** 2)
    assert_allclose(y_sd, fit.predict(X, t=t)["sd"], rtol=0.15)


def test_order_of_the_rows_of_the_data_matters_by_the_seed_alone():
    data = field(120)
    shuffled = data.take(np.random.default_rng(5).permutation(120))
    X, t = new_rows()
    one, two, three = (
        zoo.VaryingCoefficientGP(n_neighbours=25, ordering_seed=seed).fit(d, "vecchia", **KW)
        for d, seed in ((data, 0), (shuffled, 0), (data, 1))
    )
    for other in (two, three):
        assert_allclose(one.predict(X, t=t)["mean"], other.predict(X, t=t)["mean"], atol=0.1)
    # All neighbours: no order is left.
    value = [
        float(
            all_rows(zoo.VaryingCoefficientGP())
            .fit(d, "vecchia", **KW)
            .idata["sample_stats"]["log_evidence"][0, 0]
        )
        for d in (data, shuffled)
    ]
    assert value[0] == pytest.approx(value[1], abs=1e-4)


def test_maxmin_order():
    data, (X, t) = field(), new_rows()
    fit = zoo.VaryingCoefficientGP().fit(data, "vecchia", ordering="maxmin", **KW)
    assert fit.factory.ordering == "maxmin"
    other = zoo.VaryingCoefficientGP().fit(data, "vecchia", **KW)
    assert_allclose(fit.predict(X, t=t)["mean"], other.predict(X, t=t)["mean"], atol=0.1)


@pytest.mark.parametrize("kind", ["five places", "a line", "one far point", "no noise"])
def test_hostile_places(kind):
    """Fits end, and predictions are finite, near the data and far from them."""
    rng = np.random.default_rng(4)
    n = 400
    t = rng.uniform(0.0, 1.0, (n, 2))
    if kind == "five places":
        t = t[rng.integers(0, 5, n)]
    elif kind == "a line":
        t[:, 1] = 2.0 * t[:, 0]
    elif kind == "one far point":
        t[0] = [1e6, -1e6]
    x = rng.standard_normal((n, 1))
    y = np.sin(5.0 * t[:, 0]) + x[:, 0] + (0.0 if kind == "no noise" else 0.1) * rng.standard_normal(n)
    data = zoo.MultiTaskData.from_arrays(X=x, y=y, t=t)
    fit = zoo.VaryingCoefficientGP().fit(data, "vecchia", n_neighbours=10, **KW)
    near = fit.predict(data.X[1:], t=data.t[1:])
    if kind != "one far point":  # beside which the others are one place
        assert float(np.abs(near["mean"] - y[1:]).mean()) < 0.2
    far = fit.predict([[0.0]], t=[[1e7, 1e7]])
    for predicted in (near, far):
        assert np.all(np.isfinite(predicted["mean"]))
        assert np.all(predicted["sd"] > 0.0)
    assert np.all(np.isfinite(fit.predict_draws(data.X[:20], t=data.t[:20], random_seed=1)["f"]))


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: zoo.VaryingCoefficientGP(likelihood="hinge"), "Hinge has corners. Use 'nuts'"),
        (
            lambda: zoo.VaryingCoefficientGP(likelihood="poisson", amplitude="covariance"),
            "no covariance of the coefficients. Use 'laplace'",
        ),
        (
            lambda: zoo.VaryingCoefficientGP(amplitude="covariance"),
            "no covariance of the coefficients. Use 'exact'",
        ),
        (
            lambda: zoo.VaryingCoefficientGP(task_kernel=pm.gp.cov.Matern32(2, ls=1.0)),
            "Use 'hsgp' or 'inducing'",
        ),
        (
            lambda: zoo.VaryingCoefficientGP(task_kernel=zoo.kernels.Tree(parent=[-1, 0, 0])),
            "over tasks. Use 'exact', which holds trees",
        ),
        (
            lambda: zoo.PooledGP(instance_kernel=pm.gp.cov.Matern32(3, ls=1.0)),
            "instance kernels that have a word. Use 'exact'",
        ),
    ],
)
def test_refusals_say_which_method_serves(make, words):
    model = make()
    assert "vecchia" not in model.methods
    with pytest.raises(UnsupportedMethodError, match=words):
        model.fit(field(20), "vecchia", progress=False)
    with pytest.raises(ValueError, match=f'approximation is "vecchia", but .*{words}'):
        replace(model, approximation="vecchia")


@pytest.mark.parametrize(
    "settings, words",
    [
        ({"n_neighbours": 0}, "n_neighbours"),
        ({"n_neighbours_predict": 2.5}, "n_neighbours_predict"),
        ({"ordering": "sorted"}, "ordering"),
        ({"ordering_seed": -1}, "ordering_seed"),
    ],
)
def test_fields_are_checked(settings, words):
    with pytest.raises((ValueError, TypeError), match=words):
        zoo.VaryingCoefficientGP(**settings)


def wave(n: int, length: float, seed: int = 3) -> zoo.MultiTaskData:
    rng = np.random.default_rng(seed)
    x, t = rng.standard_normal((n, 1)), rng.uniform(0.0, 1.0, (n, 1))
    y = np.sin(t[:, 0] / length) + 0.5 * x[:, 0] + rng.normal(0.0, 0.1, n)
    return zoo.MultiTaskData.from_arrays(X=x, y=y, t=t)


def test_the_choice_looks_at_the_range(monkeypatch):
    """Many rows: sines where they resolve the range that a pilot fit finds, and neighbours where they do not."""
    monkeypatch.setattr(varying_fit, "_FEW_ROWS", 100)
    model = zoo.VaryingCoefficientGP()
    smooth, rough = wave(600, 0.3), wave(600, 0.004)
    assert varying_fit.choose(model, smooth).method == "hsgp"
    found = varying_fit.choose(model, rough)
    assert (found.method, found.approximation) == ("vecchia", "vecchia")
    assert re.search(r"600 rows, and ranges so short that \d+ sines would be needed over 't0'", found.reason)
    fit = model.fit(rough, **KW)
    assert fit.method == "vecchia"
    # The basis that was asked for is taken.
    given = zoo.VaryingCoefficientGP(task_kernel=zoo.VaryingComponent(n_basis=20))
    assert varying_fit.choose(given, rough).method == "hsgp"
    with pytest.warns(UserWarning, match=r"n_basis is 20 for 't0', .* or use method \"vecchia\""):
        sines = given.fit(rough, "hsgp", **KW)
    held = wave(200, 0.004, seed=9)
    errors = [np.abs(f.predict(held)["mean"].to_numpy() - held.y).mean() for f in (fit, sines)]
    assert errors[0] < 0.6 * errors[1]


def test_nuts_samples_the_exact_model():
    model = zoo.VaryingCoefficientGP(approximation="vecchia")
    assert model._for_method("nuts").approximation == "none"
    assert model.default_method(field(20)) == "vecchia"
