"""Varying coefficients do not depend on units, names, the order of rows, or a file, and they widen far from data."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
import scipy.sparse
from numpy.testing import assert_allclose

import zoo
from tests.models.varying import (
    DRAWS,
    FIXED,
    QUICK,
    TREE,
    Component,
    Varying,
    labelled,
    log_evidence,
    new_places,
    on_tree,
    places,
    shown_at,
    values_of,
)
from zoo.latent.coordinates import Hyper
from zoo.likelihoods import Gaussian

# ---------------------------------------------------------------- data of every shape


def test_order_of_rows_and_repeats():
    """Rows in another order change nothing; a row given twice is two observations at one point."""
    data = places(30)
    order = np.random.default_rng(1).permutation(30)
    X, t = new_places(data)
    for method in ("exact", "hsgp"):
        fit, other = (FIXED.fit(d, method, **DRAWS) for d in (data, data.take(order)))
        assert_allclose(shown_at(other, X, t), shown_at(fit, X, t), atol=1e-9)
    twice = FIXED.fit(data.take(np.repeat(np.arange(30), 2)), "exact", **DRAWS)
    halved = replace(FIXED, likelihood=Gaussian(noise=0.5 / np.sqrt(2.0))).fit(data, "exact", **DRAWS)
    assert_allclose(twice.coefficients(t)["mean"], halved.coefficients(t)["mean"], atol=1e-8)
    assert_allclose(twice.coefficients(t)["sd"], halved.coefficients(t)["sd"], atol=1e-8)


def test_units_of_the_response():
    """Hyper-parameters learned: y times 10 and moved gives means and sds times 10; the evidence moves by n log 10."""
    data = places(40, 15)
    X, t = new_places(data)
    fit = Varying().fit(data, "exact", **DRAWS)
    other = Varying().fit(replace(data, y=10.0 * data.y + 7.0), "exact", **DRAWS)
    assert log_evidence(other) == pytest.approx(log_evidence(fit) - 40 * np.log(10.0), abs=1e-3)
    expected = shown_at(fit, X, t) * 10.0 + np.array([[7.0], [0.0]])
    assert_allclose(shown_at(other, X, t), expected, rtol=0.01, atol=0.05)


@pytest.mark.parametrize("method", ["exact", "hsgp", "inducing"])
def test_units_of_features_and_places(method):
    """Shifts and scales of x and t change nothing; columns of t of 1e6 and 1e-6 neither."""
    data = places(40, 15)
    moved = replace(
        data, inputs=data.inputs * [100.0, 0.01] + [3.0, -5.0], t=data.t * [1e6, 1e-6] + [1e5, 3.0]
    )
    X, t = new_places(data)
    settings = {"n_inducing": 10, "placement": "random"} if method == "inducing" else {}
    fit, other = (Varying().fit(d, method, **settings, **DRAWS) for d in (data, moved))
    assert log_evidence(other) == pytest.approx(log_evidence(fit), abs=1e-4)
    there = shown_at(other, X * [100.0, 0.01] + [3.0, -5.0], t * [1e6, 1e-6] + [1e5, 3.0])
    assert_allclose(there, shown_at(fit, X, t), rtol=1e-3, atol=1e-3)
    # Coefficients are per unit of the feature; the intercept is that of average features.
    one, two = fit.coefficients(t), other.coefficients(t * [1e6, 1e-6] + [1e5, 3.0])
    unit = np.array([1.0, 0.01, 100.0])[:, None]
    for name in ("mean", "sd"):
        assert_allclose(two[name], one[name] * unit, rtol=2e-3, atol=1e-3 * unit.min())


@pytest.mark.parametrize("method, intercept", [("exact", True), ("hsgp", True), ("hsgp", False)])
def test_coefficients_are_on_the_scale_of_the_user(method, intercept):
    """Without noise y is the sum of coefficients times features, and nothing beside."""
    rng = np.random.default_rng(5)
    t = np.repeat(np.linspace(0.0, 3.0, 25), 2)[:, None]
    X = rng.normal(size=(50, 2)) * [2.0, 30.0] + [5.0, 100.0]
    truth = np.column_stack([np.sin(t[:, 0]), 0.1 * np.cos(t[:, 0])])
    level = 40.0 + 3.0 * t[:, 0] if intercept else np.zeros(50)
    y = level + np.sum(truth * X, axis=1)
    data = zoo.MultiTaskData.from_arrays(X, y, t=t, t_names=["day"])
    factory = Varying(
        task_kernel=Component(kernel="squared_exponential", n_basis=30),
        amplitude="per_feature",
        intercept=intercept,
    )
    fit = factory.fit(data, method, **DRAWS)
    table = fit.coefficients(np.linspace(0.0, 3.0, 25))
    mean = dict(zip(table["feature"].to_numpy(), table["mean"].to_numpy(), strict=True))
    assert_allclose(mean["x0"], truth[::2, 0], atol=0.02)
    assert_allclose(mean["x1"], truth[::2, 1], atol=0.002)
    if intercept:  # at average features
        average = level[::2] + truth[::2] @ X.mean(axis=0)
        assert_allclose(mean["intercept"], average, atol=0.1)
    at = np.array([[8.0, 60.0], [5.0, 110.0]])
    predicted = fit.predict(at, t=t[[4, 24]])["mean"]
    move = (at - X.mean(axis=0)) if intercept else at
    by_hand = [
        sum(move[i, d] * mean[f"x{d}"][k] for d in (0, 1)) + (mean["intercept"][k] if intercept else 0.0)
        for i, k in enumerate((2, 12))
    ]
    assert_allclose(predicted, by_hand, atol=1e-6)
    assert_allclose(predicted, [level[k] + at[i] @ truth[k] for i, k in enumerate((4, 24))], atol=0.1)


def test_standardized_data_give_the_same_coefficients():
    data = places(40, 15)
    fit, other = (Varying().fit(d, "exact", **DRAWS) for d in (data, data.standardize()))
    t = data.t[:5]
    for name in ("mean", "sd", "lower", "upper"):
        assert_allclose(other.coefficients(t)[name], fit.coefficients(t)[name], rtol=1e-3, atol=1e-3)
    X, t = new_places(data)
    assert_allclose(shown_at(other, X, t), shown_at(fit, X, t), rtol=1e-3, atol=1e-3)


def test_global_coefficients_stay_where_nothing_varies():
    """Far from all data a coefficient is its global part; without one it is 0, with the prior's sd."""
    data = places(40, 15)
    far = [[500.0, 500.0]]
    fit = Varying(standardize=False).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    sd = fit.coefficients(far)["sd"].to_numpy()
    assert np.all(sd > v["amplitude"])
    bare = FIXED.fit(data, "exact", **DRAWS).coefficients(far)
    assert_allclose(bare["mean"], 0.0, atol=1e-8)
    assert_allclose(bare["sd"], 1.3, atol=1e-8)


@pytest.mark.parametrize("case", ["hsgp", "inducing", "laplace", "tree", "pooled"])
def test_a_loaded_fit_is_the_fit(case, tmp_path):
    data, rows = places(30), None
    X, t = new_places(data)
    if case == "tree":
        data = on_tree(30)
        X, t, rows = data.X[:6], None, list("abcdea")
        factory: Varying = Varying(task_kernel=TREE)
    elif case == "pooled":
        factory = zoo.PooledGP(instance_kernel="matern52", inputs="xt")
    elif case == "laplace":
        data, factory = labelled(data, "poisson"), Varying(likelihood="poisson")
    else:
        factory = Varying(task_kernel=["matern32", Component(columns="lat", features="intercept")])
    method = case if case in factory.methods else "exact"
    fit = factory.fit(data, method, **({"n_inducing": 8} if case == "inducing" else {}), **DRAWS)
    back = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert back.factory == fit.factory
    one, two = (f.predict(X, rows, t, random_seed=1) for f in (fit, back))
    for name in ("mean", "sd", "lower"):
        assert_allclose(two[name], one[name], rtol=1e-6, atol=1e-8)
    if case != "pooled":
        assert_allclose(back.coefficients()["sd"], fit.coefficients()["sd"], rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- bad input


def test_sparse_features_and_constant_responses():
    data = places()
    sparse = zoo.MultiTaskData.from_arrays(scipy.sparse.csr_matrix(data.X), data.y, t=data.t)
    with pytest.raises(ValueError, match="sparse"):
        Varying().fit(sparse, **DRAWS)
    fit = Varying().fit(replace(data, y=np.full(30, 4.0)), "exact", **DRAWS)
    assert_allclose(fit.predict(data.X, t=data.t)["mean"], 4.0, atol=1e-3)


@pytest.mark.filterwarnings("ignore:n_basis is")  # three rows know no lengthscale
def test_fewer_rows_than_functions():
    """Three rows: fewer than basis functions, than features, and than the inducing points asked for."""
    data = places(30, 25).take(np.arange(3))
    for method in ("exact", "hsgp", "inducing"):
        predicted = Varying().fit(data, method, **DRAWS).predict(data.X, t=data.t)
        assert np.all(np.isfinite(predicted["mean"]))
        assert np.all(predicted["sd"] >= 0.0)


# ---------------------------------------------------------------- beyond the data, names, units of t


def _wave(n=120, seed=5):
    rng = np.random.default_rng(seed)
    t = rng.uniform(0.0, 10.0, n)
    x = rng.normal(size=n)
    return t, x, np.sin(t) * x + rng.normal(0.0, 0.2, n)


def test_sines_are_as_uncertain_far_from_the_data_as_the_process():
    """Far outside, the coefficient's law is its prior: standard deviation `amplitude`, by draws of the graph too."""
    t, x, y = _wave()
    data = zoo.MultiTaskData.from_arrays(X=x[:, None], y=y, t=t)
    part = zoo.VaryingComponent(kernel="matern52", lengthscale=1.0, amplitude=1.3, n_basis=30)
    model = zoo.VaryingCoefficientGP(
        task_kernel=part, likelihood=zoo.Gaussian(noise=0.2), intercept=False, global_coefficients=False
    )
    fit = model.fit(data, "hsgp", draws=500, chains=2, random_seed=1, progress=False)
    far = fit.coefficients([[60.0]])
    unit = 1.0 / np.std(x)  # the amplitude is that of a standardized feature
    assert_allclose(far["sd"], 1.3 * unit, rtol=1e-6)
    assert_allclose(far["mean"], 0.0, atol=1e-6)
    draws = fit.predict_draws([[np.std(x)]], t=[[60.0]], random_seed=1)["f"]
    # Null: the sd of 1,000 normal draws is 1.3. Its relative error has sd 1 / sqrt(2000): 5 of them, 6e-7 false alarms.
    assert abs(float(draws.std()) / 1.3 - 1.0) < 5.0 / np.sqrt(2000.0)
    inside = fit.coefficients([[5.0]])
    assert float(inside["sd"].squeeze()) < 0.5 * unit


def test_a_feature_named_intercept_is_told_from_the_constant_one():
    t, x, y = _wave()
    data = zoo.MultiTaskData.from_arrays(X=x[:, None], y=y, t=t, feature_names=["intercept"])
    part = zoo.VaryingComponent(features="intercept", n_basis=8)
    fit = zoo.VaryingCoefficientGP(task_kernel=part).fit(data, "hsgp", draws=2, chains=1, progress=False)
    assert fit.coefficients([[5.0]])["feature"].to_numpy().tolist() == ["(intercept)", "intercept"]
    assert fit.factory.kernel_of(fit.factory.design(data)).parts[0].features == [0]


def test_lengthscales_are_found_in_any_units_of_t():
    """Without standardization, t a million times as large gives the same fit, its lengthscale as many times as long."""
    t, x, y = _wave()
    found = []
    for scale in (1.0, 1e6):
        data = zoo.MultiTaskData.from_arrays(X=x[:, None], y=y, t=scale * t)
        model = zoo.VaryingCoefficientGP(standardize=False, global_coefficients=False)
        found.append(model.fit(data, "exact", draws=2, chains=1, progress=False))
    evidence = [float(fit.idata["sample_stats"]["log_evidence"][0, 0]) for fit in found]
    assert abs(evidence[0] - evidence[1]) < 1e-4
    lengths = [float(fit.posterior["lengthscale"][0, 0, 0]) for fit in found]
    assert abs(lengths[1] / lengths[0] / 1e6 - 1.0) < 1e-2


def test_one_component_over_some_features_has_a_dim_of_its_own():
    t, x, y = _wave()
    data = zoo.MultiTaskData.from_arrays(X=np.column_stack([x, x**2]), y=y, t=t)
    part = zoo.VaryingComponent(features=["x0"], amplitude="per_feature")
    fit = zoo.VaryingCoefficientGP(task_kernel=part).fit(data, draws=2, chains=1, progress=False)
    assert fit.posterior["amplitude"].dims[2:] == ("varying_feature",)
    assert fit.posterior["varying_feature"].to_numpy().tolist() == ["x0"]


class NoiseATask(Varying):
    """A subclass with a noise for each task."""

    def hyperparameters(self, rows):
        return {**super().hyperparameters(rows), "noise": Hyper(np.full(2, 0.5))}

    def observe(self, data, f):
        noise = pm.modelcontext(None)["noise"]
        return pm.Normal("y", f, noise[data.task], observed=data.y, dims="obs")


@pytest.mark.parametrize("noise", ["learned", 1e-3])
def test_white_variables_start_where_the_responses_put_them(noise):
    """A start at the prior's mean is, seen given responses with little noise, far out."""
    data = places(12, 6)
    factory = Varying(likelihood=Gaussian(noise=noise))
    model = factory.build(data)
    start = model.initial_point()
    assert_allclose(start["_values_conditioned__"], 0.0, atol=1e-6)
    assert np.isfinite(model.compile_logp(mode=QUICK)(start))


def test_subclasses_with_another_noise_keep_white_variables_as_they_are():
    data = replace(places(12, 6), task=np.arange(12) % 2, task_names=("a", "b"))
    model = NoiseATask().build(data)
    assert "_values" in model.initial_point()
    assert np.isfinite(model.compile_logp(mode=QUICK)(model.initial_point()))


def test_numbers_of_columns_go_by_their_names():
    """A Series was read by position, whatever columns it named."""
    given = Component(columns=["lon", "lat"], lengthscale=[0.1, 9.0], n_basis=[5, 7])
    for kind in (dict, pd.Series):
        lengths, sizes = kind({"lat": 9.0, "lon": 0.1}), kind({"lat": 7, "lon": 5})
        assert Component(columns=["lon", "lat"], lengthscale=lengths, n_basis=sizes) == given
        with pytest.raises(
            ValueError, match=r"lengthscale has the names lat, lon. Give one value for each of lon, t"
        ):
            Component(columns=["lon", "t"], lengthscale=lengths)
        with pytest.raises(
            ValueError, match=r"n_basis has the names lat, lon, .*Give columns=\['lat', 'lon'\] too"
        ):
            Component(n_basis=sizes)
    assert Component(lengthscale=pd.Series([0.1, 9.0])).lengthscale == (0.1, 9.0)
