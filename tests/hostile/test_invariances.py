"""What must not matter: the order of tasks, rows and features, units, and features that say nothing."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import zoo
from zoo.data.units import Units

N_TASKS, N_FEATURES = 3, 3


def _data(labels=False, with_t=False, seed=0):
    """Rows in task order, of several tasks of several sizes."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(N_TASKS), [6, 9, 5])
    X = rng.standard_normal((len(task), N_FEATURES))
    f = (X * (np.array([1.0, -0.5, 0.3]) + 0.3 * rng.standard_normal((N_TASKS, N_FEATURES)))[task]).sum(
        axis=1
    )
    y = f + 0.5 * rng.standard_normal(len(task))
    return zoo.MultiTaskData.from_arrays(
        X,
        np.where(y > 0.0, 1.0, -1.0) if labels else y,
        task,
        t=rng.standard_normal((len(task), 2)) if with_t else None,
        task_names=["a", "b", "c"],
    )


# Methods without randomness, whose answer is the law of each row's mean: factory, method, whether of labels, with t.
DETERMINISTIC = {
    "EM": (zoo.NIWLinear(), "em", False, False),
    "EM of functions": (zoo.NIWGaussianProcess(), "em", False, False),
    "kernel machine": (zoo.MultiTaskKernelMachine(), "exact", False, False),
    "sparse processes": (zoo.MultiLaplaceGP(), "map", False, False),
    "local smoothing": (zoo.KernelLocalSmoothing(bandwidth=1.0, ridge=0.1), "map", False, True),
    "varying coefficients": (zoo.VaryingCoefficientGP(), "exact", False, True),
}
# Compiled in a moment; the others in the second pass.
QUICK = {"EM", "local smoothing"}


def _cases(names=DETERMINISTIC):
    return [pytest.param(name, marks=() if name in QUICK else pytest.mark.statistical) for name in names]


def _answer(name, data, rows):
    """Posterior means (n,) at rows, by closed forms where there are any, else by one seed."""
    factory, method, _, _ = DETERMINISTIC[name]
    fit = factory.fit(data, method, draws=2, tune=2, chains=1, random_seed=1, progress=False)
    return fit.predict(rows, random_seed=1)["mean"].to_numpy()


def _close(one, other):
    # The tolerance is that of optimisers, which stop near their optimum.
    np.testing.assert_allclose(one, other, rtol=1e-4, atol=1e-4)


def _deterministic(name):
    _, _, labels, with_t = DETERMINISTIC[name]
    return _data(labels, with_t).standardize()


# -------------------------------------------------------------------- exact draws of the yardsticks


def _moments(factory, data, n=4000):
    """Posterior mean of the coefficients (feature, task) and its Monte-Carlo standard error."""
    fit = factory.fit(data, draws=n, chains=1, random_seed=1, progress=False)
    draws = fit.posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()[0]
    return draws.mean(axis=0), draws.std(axis=0) / np.sqrt(n)


def _agree(one, other):
    """Two Monte-Carlo means of the same law. Null: a difference beyond 6 standard errors, in any of at most 20
    coefficients; false alarms below 20 * 2e-9.
    """
    error = np.sqrt(one[1] ** 2 + other[1] ** 2)
    assert np.all(np.abs(one[0] - other[0]) < 6.0 * error)


def test_order_of_rows_and_features_and_tasks():
    data, rng = _data(), np.random.default_rng(3)
    plain = _moments(zoo.IndependentTasks(), data)
    rows = data.take(rng.permutation(data.n_rows))
    _agree(_moments(zoo.IndependentTasks(), rows), plain)
    order = [2, 0, 1]
    features = replace(
        data, inputs=data.inputs[:, order], feature_names=tuple(data.feature_names[i] for i in order)
    )
    mean, error = _moments(zoo.IndependentTasks(), features)
    _agree((mean[np.argsort(order)], error[np.argsort(order)]), plain)
    mean, error = _moments(zoo.IndependentTasks(), data.select_tasks(["c", "a", "b"]))
    _agree((mean[:, np.argsort(order)], error[:, np.argsort(order)]), plain)


def test_a_feature_of_zeros_keeps_its_prior():
    """It adds nothing to the likelihood: the other coefficients stay, and its own is symmetric about 0."""
    data = _data()
    wider = replace(
        data,
        inputs=np.column_stack([data.inputs, np.zeros(data.n_rows)]),
        feature_names=(*data.feature_names, "0"),
    )
    plain, more = _moments(zoo.IndependentTasks(), data), _moments(zoo.IndependentTasks(), wider)
    _agree((more[0][:-1], more[1][:-1]), plain)
    _agree((more[0][-1:], more[1][-1:]), (np.zeros((1, N_TASKS)), np.zeros((1, N_TASKS))))


def test_rows_in_large_units_lose_no_digits():
    """With y far beyond its noise, y'y minus the part that features explain would cancel to rounding.

    By hand: one feature and y = 1e8 x exactly, so that w is 1e8 up to the shrinkage by 1 / (1 + 1 / (tau^2 x'x)).
    Through y'y - ... the residual was of order 1e16 * 1e-16 * N, and below 0 for some tau.
    """
    x = np.linspace(-1.0, 1.0, 50)
    data = zoo.MultiTaskData.from_arrays(x[:, None], 1e8 * x)
    data = replace(data, units=Units.of_size(1))  # a noise far below the unit of y is what the test is about
    fit = zoo.PooledTasks(prior_scale=1e6).fit(data, draws=500, chains=1, random_seed=1, progress=False)
    assert np.isfinite(fit.posterior["noise"].to_numpy()).all()
    np.testing.assert_allclose(fit.posterior["coefficients"].to_numpy(), 1e8, rtol=1e-3)


@pytest.mark.parametrize("factor", [1e-8, 1e6])
def test_units_of_y_come_back(factor):
    """Standardized data have no units: the same draws, and predictions that scale."""
    data = _data()
    scaled = replace(data, y=factor * data.y)
    fits = [
        zoo.IndependentTasks().fit(d.standardize(), draws=20, chains=1, random_seed=1, progress=False)
        for d in (data, scaled)
    ]
    one, other = (
        fit.predict(data.X, task=[data.task_names[c] for c in data.task], random_seed=1) for fit in fits
    )
    for name in ("mean", "sd", "lower", "upper"):
        np.testing.assert_allclose(other[name], factor * one[name], rtol=1e-6, atol=1e-9 * factor)


# -------------------------------------------------------------------- engines without randomness


@pytest.mark.parametrize("name", _cases())
def test_order_of_rows(name):
    data = _deterministic(name)
    shuffled = data.take(np.random.default_rng(1).permutation(data.n_rows))
    _close(_answer(name, data, data), _answer(name, shuffled, data))


@pytest.mark.parametrize("name", _cases())
def test_order_of_tasks(name):
    data = _deterministic(name)
    _close(_answer(name, data, data), _answer(name, data.select_tasks(["c", "a", "b"]), data))


@pytest.mark.parametrize("name", _cases())
def test_order_of_features(name):
    data = _deterministic(name)
    order = [2, 0, 1]
    transform = replace(
        data.transform, x_mean=data.transform.x_mean[order], x_scale=data.transform.x_scale[order]
    )
    features = replace(
        data,
        inputs=data.inputs[:, order],
        feature_names=tuple(data.feature_names[i] for i in order),
        transform=transform,
    )
    _close(_answer(name, data, data), _answer(name, features, features))
