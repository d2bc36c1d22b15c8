"""The linear population with a mean of its own: quadrature, units, what the paper's prior bends, and bad input."""

from __future__ import annotations

import warnings
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import zoo

RUN = {"draws": 300, "tune": 200, "chains": 2, "random_seed": 1, "progress": False}


def growth(seed=1, m=30, k=8, level=15.0, slope=7.0, sds=(4.0, 0.6), noise=2.5):
    """A growth table: levels and slopes of groups around large means."""
    rng = np.random.default_rng(seed)
    g, t = np.repeat(np.arange(m), k), np.tile(np.arange(k), m) * 1.0
    z = rng.normal(size=(2, m))
    y = level + slope * t + sds[0] * z[0, g] + sds[1] * z[1, g] * t + noise * rng.normal(size=m * k)
    return pd.DataFrame({"y": y, "t": t, "pen": [f"p{i}" for i in g]})


def by_formula(table):
    return zoo.MultiTaskData.from_formula("y ~ t + (t | pen)", table)


@pytest.mark.compiled
def test_levels_alone_agree_with_quadrature():
    """Posterior means of the standard deviation of levels and of the noise, on a grid with the mean integrated out."""
    rng = np.random.default_rng(3)
    m, k = 8, 5
    y = 20.0 + 1.5 * rng.normal(size=m)[:, None] + rng.normal(size=(m, k))
    data = zoo.MultiTaskData.from_arrays(np.ones((m * k, 1)), y.ravel(), np.repeat(np.arange(m), k))
    fit = zoo.HierarchicalLinear().fit(data, draws=4000, tune=500, chains=2, random_seed=1, progress=False)
    found = np.sqrt(fit.posterior["feature_cov"].to_numpy().ravel())
    unit, centre = y.std(), y.mean()
    sd, noise = (
        x * unit
        for x in np.meshgrid(np.geomspace(0.005, 8.0, 400), np.geomspace(0.3, 2.0, 200), indexing="ij")
    )
    # Means of groups are N(mean, v) with v = sd^2 + noise^2 / k, and the mean is N(centre, (2.5 unit)^2).
    means, within = y.mean(axis=1), np.sum((y - y.mean(axis=1, keepdims=True)) ** 2)
    v, prior = sd**2 + noise**2 / k, (2.5 * unit) ** 2
    gap, spread = means.mean() - centre, np.sum((means - means.mean()) ** 2)
    log = (
        -0.5 * (m - 1) * np.log(v)
        - 0.5 * spread / v
        - 0.5 * np.log(v + m * prior)
        - 0.5 * m * gap**2 / (v + m * prior)
    )
    log -= m * (k - 1) * np.log(noise) + 0.5 * within / noise**2
    delta = zoo.HierarchicalLinear().delta
    log -= 0.5 * (delta + 1.0) * np.log1p((sd / unit) ** 2 / delta)  # half-t, in units of y
    log -= 2.0 * np.log(noise) + 0.005 * unit**2 / noise**2  # inverse-gamma of the square, in units of y
    weight = np.exp(log - log.max()) * sd * noise  # the grids are geometric
    weight /= weight.sum()
    expected = float(np.sum(weight * sd))
    deviation = float(np.sqrt(np.sum(weight * sd**2) - expected**2))
    assert abs(found.mean() - expected) < 0.05 * deviation
    assert abs(float(fit.posterior["noise"].mean()) - float(np.sum(weight * noise))) < 0.01 * unit


def test_the_units_of_the_data_do_not_matter():
    """y and t in other units and from another origin, standardized by hand or not: the draws are the same."""
    table = growth()
    base = zoo.HierarchicalLinear().fit(by_formula(table).standardize(), **RUN)
    expected = base.predict(by_formula(table))
    corr = _correlation(base)
    for y, t, shift, origin in ((1.0, 1.0, 0.0, 0.0), (1e-6, 1e3, 0.0, 0.0), (1e6, 1e-3, 1e10, 5.0)):
        moved = table.assign(y=y * table["y"] + shift, t=t * (table["t"] + origin))
        data = by_formula(moved)
        fit = zoo.HierarchicalLinear().fit(data, **RUN)
        predicted = fit.predict(data)
        for name in ("mean", "lower", "upper"):
            found = (predicted[name].to_numpy() - shift) / y
            np.testing.assert_allclose(found, expected[name].to_numpy(), rtol=1e-5, atol=1e-5)
        if origin == 0.0:
            np.testing.assert_allclose(_correlation(fit), corr, atol=1e-6)


def test_shared_features_and_further_groups_in_any_unit():
    """A shared feature far from its origin moves the constants of the tasks, and nothing else."""
    rng = np.random.default_rng(5)
    table = growth(m=12)
    table["age"] = rng.normal(size=12)[table["pen"].str[1:].astype(int)]
    table["clinic"] = np.array(["a", "b", "c", "d"])[rng.integers(0, 4, len(table))]
    table["y"] += 3.0 * table["age"]
    formula = "y ~ age + t + (t | pen) + (1 | clinic)"
    base = zoo.MultiTaskData.from_formula(formula, table)
    expected = zoo.HierarchicalLinear().fit(base, **RUN).predict(base)
    moved = table.assign(age=1000.0 * (table["age"] + 40.0), y=1e-3 * table["y"])
    data = zoo.MultiTaskData.from_formula(formula, moved)
    fit = zoo.HierarchicalLinear().fit(data, **RUN)
    for name in ("mean", "lower", "upper"):
        found = 1e3 * fit.predict(data)[name].to_numpy()
        np.testing.assert_allclose(found, expected[name].to_numpy(), rtol=1e-5, atol=1e-5)
    slope = float(fit.posterior["shared_coefficients"].sel(shared_feature="age").mean()) * 1e6
    assert abs(slope - 3.0) < 2.5


def test_the_prior_of_the_paper_says_where_it_has_bent_the_answer():
    data = by_formula(growth(m=60, k=12))
    with pytest.warns(zoo.PriorWarning, match="make up for a population_mean .*zoo.HierarchicalLinear"):
        bent = zoo.NIWLinear().fit(data, **RUN)
    with warnings.catch_warnings():
        warnings.simplefilter("error", zoo.PriorWarning)
        fit = zoo.HierarchicalLinear().fit(data, **RUN)
        zoo.NIWLinear().fit(by_formula(growth(m=60, k=12, level=0.0, slope=0.0)), **RUN)
    level = [
        float(np.sqrt(f.posterior["feature_cov"].sel(feature="Intercept", feature_bis="Intercept")).mean())
        for f in (bent, fit)
    ]
    assert level[0] > 5.0 and abs(level[1] - 4.0) < 1.2


def test_workers_draw_the_same_law():
    """Means of the population, as on one machine; the law of a sweep is tested in tests/inference/test_shard.py."""
    data = by_formula(growth())
    with ThreadPoolExecutor(1) as pool:
        fits = [
            zoo.HierarchicalLinear().fit(data, **{**RUN, "draws": 1500}, **extra)
            for extra in ({}, {"executor": pool})
        ]
    for name in ("population_mean", "feature_cov", "noise"):
        means, sd = (
            [f.posterior[name].mean(("chain", "draw")) for f in fits],
            fits[0].posterior[name].std(("chain", "draw")),
        )
        assert float((abs(means[0] - means[1]) / sd).max()) < 0.25


def test_bad_input_is_fitted_or_refused_in_words():
    table = growth(m=6, k=4)
    with pytest.raises(ValueError, match="y is constant"):
        by_formula(table.assign(y=3.0)).standardize()
    few = {**RUN, "draws": 20, "tune": 20}
    fit = zoo.HierarchicalLinear().fit(by_formula(table.assign(y=3.0)), **few)
    assert np.allclose(fit.predict(by_formula(table))["mean"], 3.0, atol=1.0)
    single = zoo.MultiTaskData.from_arrays(np.ones((6, 1)), table["y"][:6], np.arange(6))
    assert np.isfinite(zoo.HierarchicalLinear().fit(single, **few).predict(single)["mean"]).all()
    one = replace(single, task=np.zeros(6, dtype=np.int64), task_names=("a",))
    assert np.isfinite(zoo.HierarchicalLinear().fit(one, **few).predict(one)["mean"]).all()
    for name in ("delta", "mean_scale", "sd_scale"):
        with pytest.raises(ValueError, match=name):
            zoo.HierarchicalLinear(**{name: 0.0})


def _correlation(fit):
    C = fit.in_data_units()["feature_cov"].to_numpy()
    return C[..., 0, 1] / np.sqrt(C[..., 0, 0] * C[..., 1, 1])
