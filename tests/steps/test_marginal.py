"""Blocks that are integrated out, against closed forms."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import zoo
from tests.steps import models

Y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
SD = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def _log_normal(y, covariance):
    """Of mean zero; scipy's own has fewer digits."""
    half = np.linalg.solve(np.linalg.cholesky(covariance), y)
    return -0.5 * (half @ half + np.linalg.slogdet(2 * np.pi * covariance)[1])


def _covariance(tau):
    return np.diag(SD**2 + tau**2) + 25.0


@pytest.mark.parametrize("build", [models.eight_schools, models.eight_schools_not_centred])
@pytest.mark.usefixtures("uncompiled")
def test_density_of_what_is_left(build):
    small = zoo.marginalise(build())
    assert [v.name for v in small.free_RVs] == ["tau"]
    assert not small.deterministics
    assert set(small.named_vars) == {"tau", "y", "block_integrated_out"}
    density = small.compile_logp(jacobian=False)
    found = []
    # PyMC's own densities take the logarithms of constants in single precision.
    for tau in (0.3, 2.0, 20.0):
        expected = _log_normal(Y, _covariance(tau))
        expected += stats.halfcauchy(scale=5.0).logpdf(tau)
        found.append(float(density({"tau_log__": np.log(tau)})) - expected)
    assert np.abs(found).max() < 1e-6
    assert np.ptp(found) < 1e-9


@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
@pytest.mark.usefixtures("uncompiled")
def test_missing_responses_say_nothing():
    small = zoo.marginalise(models.missing_responses())
    density = small.compile_logp(jacobian=False)
    for sigma in (0.5, 1.5):
        covariance = models.X[2:] @ models.X[2:].T + sigma**2 * np.eye(models.ROWS - 2)
        expected = _log_normal(models.REAL[2:], covariance)
        expected += stats.halfnorm.logpdf(sigma)
        assert float(density({"sigma_log__": np.log(sigma)})) == pytest.approx(expected, abs=1e-6)


@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.usefixtures("uncompiled")
def test_block_is_drawn_from_its_exact_law():
    # Means of 2,000 independent draws: |z| above 5 has probability 6e-7 for each of 9.
    model = models.eight_schools_not_centred()
    tau = 3.0
    known = xr.DataTree.from_dict(
        {"posterior": xr.Dataset({"tau": (("chain", "draw"), np.full((2, 1000), tau))})}
    )
    found = zoo.draw_marginalised(model, known, random_seed=1)["posterior"]
    assert found["z"].dims == ("chain", "draw", "z_dim_0")
    theta = found["theta"].to_numpy().reshape(-1, 8)
    prior = tau**2 * np.eye(8) + 25.0
    gain = prior @ np.linalg.inv(_covariance(tau))
    mean, cov = gain @ Y, prior - gain @ prior
    z = (theta.mean(axis=0) - mean) / np.sqrt(np.diag(cov) / 2000)
    assert np.abs(z).max() < 5
    np.testing.assert_allclose(np.cov(theta.T), cov, atol=5 * cov.max() * np.sqrt(2 / 2000))
    expected = found["mu"].to_numpy()[..., None] + tau * found["z"].to_numpy()
    np.testing.assert_allclose(found["theta"], expected, rtol=1e-12)
    assert "z" not in known["posterior"]


@pytest.mark.usefixtures("uncompiled")
def test_refusals():
    with pytest.raises(ValueError, match=r"'y' \(Student-t\), and only normal responses"):
        zoo.marginalise(models.robust_regression())
    with pm.Model() as large:
        pm.Normal("y", pm.Normal("b", shape=1001), 1.0, observed=np.zeros(1001))
    with pytest.raises(ValueError, match="1,001 entries, more than the 1,000"):
        zoo.marginalise(large)
    with pytest.raises(ValueError, match="the posterior has no 'tau'"):
        zoo.draw_marginalised(models.eight_schools(), xr.DataTree.from_dict({"posterior": xr.Dataset()}))


def _with_data(x, y):
    with pm.Model(coords={"obs": np.arange(len(x))}) as model:
        X, responses = pm.Data("X", x, dims="obs"), pm.Data("Y", y, dims="obs")
        tau, s = pm.HalfNormal("tau"), pm.HalfNormal("s")
        one = pm.math.ones(model.dim_lengths["obs"])
        pm.Normal("y", pm.Normal("b", 0.0, tau) * X + 0.5 * one, s, observed=responses, dims="obs")
    return model


@pytest.mark.parametrize("rows", [10, 6], ids=["as many rows", "fewer rows"])
@pytest.mark.usefixtures("uncompiled")
def test_data_can_be_changed(rows):
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(2, 10))
    point = {"tau_log__": np.array(0.3), "s_log__": np.array(-0.2)}
    model = _with_data(x, y)
    small = zoo.marginalise(model)
    before = small.compile_logp()(point)
    new = {"X": 3.0 * x[:rows], "Y": 2.0 * y[:rows]}
    of_new = _with_data(new["X"], new["Y"])
    pm.set_data(new, coords={"obs": np.arange(rows)}, model=model)
    assert small.compile_logp()(point) == before
    pm.set_data(new, coords={"obs": np.arange(rows)}, model=small)
    assert small.compile_logp()(point) == pytest.approx(zoo.marginalise(of_new).compile_logp()(point))
    values = {name: (("chain", "draw"), np.ones((1, 20))) for name in ("tau", "s")}
    known = xr.DataTree.from_dict({"posterior": xr.Dataset(values)})
    drawn, wanted = (
        zoo.draw_marginalised(m, known, random_seed=1)["posterior"]["b"] for m in (model, of_new)
    )
    np.testing.assert_allclose(drawn, wanted)
