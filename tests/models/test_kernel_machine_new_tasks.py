"""Rows and tasks that a kernel machine takes up later: against a refit."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import zoo
from tests.models.kernel_machines import DRAWS, MACHINES, Machine, simulated_tasks, smooth_kernel
from zoo.latent.task_weights import WeightConditional
from zoo.likelihoods import Gaussian
from zoo.models.kernel_machine.sides import space_of

# ---------------------------------------------------------------- new tasks and rows


def test_new_task_is_a_task_without_rows():
    """Mean and variance of its coefficients against the kernel of five tasks, one of them without rows."""
    data = simulated_tasks()
    lam, amplitude, noise, T = 0.3, 0.9, 0.6, 4
    machine = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=noise))
    fit = machine.fit(data, "exact", draws=20_000, chains=1, random_seed=1, progress=False)
    drawn = machine.new_task(fit.posterior, ["a", "b"], np.random.default_rng(1))["coefficients"][0]
    space = space_of(machine, machine.design(data), data.y)
    sums = space.unit_sums.scaled(noise**-2)
    empty = type(sums)(
        np.concatenate([sums.S, np.zeros((1, *sums.S.shape[1:]))]),
        np.concatenate([sums.b, np.zeros((1, sums.b.shape[1]))]),
    )
    loadings = space.numbers(space.coordinates.start)
    longer = type(loadings)(np.full(T + 1, loadings.d[0]), np.full((T + 1, 1), loadings.W[0, 0]), None)
    law = WeightConditional.of(empty, longer)
    for task in (0, 1):
        u = drawn[:, :, task]
        z = (u.mean(axis=0) - law.mean[:, T]) / np.sqrt(np.diag(law.covariance[T]) / len(u))
        assert np.abs(z).max() < 4.5
        spread = u.var(axis=0) / np.diag(law.covariance[T])
        assert np.allclose(spread, 1.0, atol=4.5 * np.sqrt(2 / len(u)))


def _refit(fit):
    """A fit of all rows with the hyper-parameters of ``fit`` as numbers."""
    draw, machine = fit.posterior.isel(chain=0, draw=0), fit.factory
    numbers = {n: float(draw[n]) for n in ("lam", "amplitude") if n in draw and not machine.learn}
    if machine.learn:
        known = {n: draw[n].to_numpy() for n in machine.learn}
        kernel = zoo.kernels.with_parameters(machine.kernel, known)
        numbers = {
            "kernel": kernel,
            "learn": (),
            "amplitude": float(draw["amplitude"]),
        }
    if "noise" in draw:
        numbers["likelihood"] = Gaussian(noise=float(draw["noise"]))
    if "feature_cov" in draw:
        numbers["Q"] = draw["feature_cov"].to_numpy()
    return replace(machine, **numbers).fit(fit.data, "exact", **DRAWS)


@pytest.mark.parametrize("name", ["mean", "metric", "smooth", "aligned"])
def test_added_rows_are_a_refit(name):
    machine, make, _ = MACHINES[name]
    data = make().standardize()
    rng = np.random.default_rng(8)
    first = data if name == "aligned" else data.take(np.arange(data.n_rows) % 3 > 0)
    more = data.take(np.arange(data.n_rows) % 3 == 0)
    more = replace(more, y=more.y + rng.normal(size=more.n_rows))  # of "aligned": rows that repeat inputs
    grown = machine.fit(first, "exact", **DRAWS).add_rows(more)
    assert grown.data.n_rows == first.n_rows + more.n_rows
    one, two = grown.predict(data), _refit(grown).predict(data)
    assert abs(one - two).max().to_array().max() < 1e-8
    again = grown.add_rows(more)
    assert abs(again.predict(data) - _refit(again).predict(data)).max().to_array().max() < 1e-7


def test_rows_are_added_in_the_units_of_the_fit(tmp_path):
    data = simulated_tasks()
    data = replace(data, y=1e3 * data.y + 1e4, inputs=data.inputs * [1e3, 1.0, 1.0] + [0.0, 50.0, 0.0])
    fit = Machine().fit(data.take(np.arange(data.n_rows) % 3 > 0), "exact", **DRAWS)
    grown = fit.add_rows(data.take(np.arange(data.n_rows) % 3 == 0))
    back = zoo.load(grown.save(tmp_path / "fit.nc"))
    one, two = grown.predict(data), back.predict(data)
    assert abs(one - two).max().to_array().max() < 1e-6 * one["sd"].min()


def test_added_tasks_are_a_refit(tmp_path):
    data = simulated_tasks(T=5, rows=(8, 6, 9, 7, 5)).standardize()
    old, new = data.select_tasks(data.task_names[:4]), data.select_tasks(data.task_names[4:])
    for machine in (Machine(), Machine(lam=0.4, amplitude=0.7)):
        fit = machine.fit(old, "exact", **DRAWS)
        grown = fit.add_task(new)
        assert abs(grown.predict(data) - _refit(grown).predict(data)).max().to_array().max() < 1e-8
        B = grown.posterior["task_cov"].isel(chain=0, draw=0)
        assert np.allclose(B[:4, :4], fit.posterior["task_cov"].isel(chain=0, draw=0), atol=1e-12)
        path = grown.save(tmp_path / "grown.nc")
        assert np.allclose(zoo.load(path).predict(data)["mean"], grown.predict(data)["mean"], atol=1e-10)
        path.unlink()
    four, five = (smooth_kernel(T, 3, lam=0.4) for T in (4, 5))
    fit = Machine(kernel=four).fit(old, "exact", **DRAWS)
    grown = fit.add_task(new, kernel=five)
    assert abs(grown.predict(data) - _refit(grown).predict(data)).max().to_array().max() < 1e-8
    with pytest.raises(ValueError, match="kernel is missing"):
        fit.add_task(new)


def test_rows_and_tasks_are_added_to_exact_fits_only():
    data = simulated_tasks()
    fit = Machine().fit(data, "gibbs", **DRAWS)
    with pytest.raises(ValueError, match="method 'gibbs'"):
        fit.add_rows(data)
    exact = Machine().fit(data, "exact", **DRAWS)
    with pytest.raises(ValueError, match="add_task"):
        exact.add_rows(replace(data, task_names=("a", *data.task_names[1:])))
    with pytest.raises(ValueError, match="in the fit already"):
        exact.add_task(data)
    with pytest.raises(ValueError, match="new fit of all rows"):
        zoo.PooledTasks().fit(data, **DRAWS).add_rows(data)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("lam", [1.0, "learned"])
def test_a_task_is_added_to_tasks_that_share_nothing(lam):
    """lam = 1, or next to it: rounding must not lead out of (0, 1]."""
    rng = np.random.default_rng(3)
    task = np.repeat(np.arange(12), 6)
    X = rng.standard_normal((72, 2))
    y = np.sum(X * rng.standard_normal((12, 2))[task], axis=1)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    old, new = data.select_tasks(data.task_names[:11]), data.select_tasks(data.task_names[11:])
    for amplitude in (1.3, 0.7, 1.1):
        fit = Machine(lam=lam, amplitude=amplitude, likelihood=Gaussian(noise=0.3)).fit(old, "exact", **DRAWS)
        assert np.all(np.isfinite(fit.add_task(new).predict(data)["mean"]))
