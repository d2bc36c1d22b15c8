"""Leave-one-out estimates with rows that no draw gives a loss."""

from __future__ import annotations

import arviz as az
import numpy as np
import pytest
import xarray as xr

import zoo


def tree_of(values: np.ndarray, dims: tuple[str, ...]) -> xr.DataTree:
    posterior = xr.Dataset({"x": (("chain", "draw"), np.random.default_rng(1).normal(size=values.shape[:2]))})
    return xr.DataTree.from_dict(
        {"posterior": posterior, "log_likelihood": xr.Dataset({"y": (("chain", "draw", *dims), values)})}
    )


def losses(*shape: int) -> np.ndarray:
    return -0.3 * np.random.default_rng(2).gamma(2.0, size=(2, 500, *shape))


def test_a_single_draw_is_refused():
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(rng.normal(size=(20, 2)), rng.normal(size=20), np.repeat([0, 1], 10))
    fit = zoo.PooledTasks().fit(data, draws=1, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="single draw"):
        zoo.diagnostics.loo(fit)


def test_same_as_arviz_where_that_works():
    tree = tree_of(losses(6), ("obs",))
    ours, theirs = zoo.diagnostics.loo(tree, pointwise=True), az.loo(tree, pointwise=True)
    assert ours.elpd == theirs.elpd and ours.se == theirs.se
    np.testing.assert_array_equal(ours.elpd_i, theirs.elpd_i)


@pytest.mark.parametrize(("shape", "dims"), [((6,), ("obs",)), ((2, 3), ("a", "b"))])
def test_rows_without_loss(shape, dims):
    values = losses(*shape)
    flat = values.reshape(2, 500, -1)
    flat[..., [1, 4]] = 0.0
    tree = tree_of(values, dims)
    with pytest.raises(ValueError, match="All tail values"):  # if ArviZ learns it, this module can go
        az.loo(tree)
    ours = zoo.diagnostics.loo(tree, pointwise=True)
    rest = [0, 2, 3, 5]
    others = az.loo(tree_of(flat[..., rest], ("obs",)), pointwise=True)
    pointwise = ours.elpd_i.to_numpy().ravel()
    np.testing.assert_allclose(pointwise[[1, 4]], 0.0, atol=1e-12)
    np.testing.assert_allclose(pointwise[rest], others.elpd_i, rtol=1e-12)
    np.testing.assert_allclose(ours.pareto_k.to_numpy().ravel()[rest], others.pareto_k, rtol=1e-12)
    assert ours.elpd == pytest.approx(others.elpd, rel=1e-12)
    assert ours.elpd_i.dims == dims


def test_no_loss_at_all():
    with pytest.warns(UserWarning, match="point-wise LOO is the same"):  # ArviZ's, and true
        estimate = zoo.diagnostics.loo(tree_of(np.zeros((2, 500, 3)), ("obs",)))
    assert estimate.elpd == pytest.approx(0.0, abs=1e-12)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # true of some rows, and not the point
def test_a_fit_computes_what_is_missing(tmp_path):
    data = zoo.datasets.load_grunfeld().standardize()
    fit = zoo.IndependentTasks().fit(data, draws=200, chains=2, random_seed=3, progress=False)
    estimate = zoo.diagnostics.loo(fit, pointwise=True)
    assert estimate.elpd_i.sizes["obs"] == data.n_rows
    # Pointwise densities by hand: Gaussian, noise per task.
    posterior = fit.posterior
    w = posterior["coefficients"].transpose("chain", "draw", "task", "feature").to_numpy()
    f = np.einsum("nd,abnd->abn", data.X, w[:, :, data.task])
    noise = posterior["noise"].to_numpy()
    noise = noise[..., data.task] if noise.ndim == 3 else noise[..., None]
    density = -0.5 * ((data.y - f) / noise) ** 2 - np.log(noise) - 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(fit.idata["log_likelihood"]["y"], density, rtol=1e-10)
    again = zoo.load(fit.save(tmp_path / "fit.nc"))
    np.testing.assert_array_equal(again.idata["log_likelihood"]["y"], fit.idata["log_likelihood"]["y"])


def test_wrong_input():
    tree = tree_of(losses(2), ("obs",))
    with pytest.raises(ValueError, match="Choose one of 'y'"):
        zoo.diagnostics.loo(tree, "z")
    with pytest.raises(ValueError, match="no group log_likelihood"):
        zoo.diagnostics.loo(xr.DataTree.from_dict({"posterior": tree["posterior"].to_dataset()}))
