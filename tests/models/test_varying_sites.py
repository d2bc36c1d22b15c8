"""Labels of varying coefficients by expectation propagation and by the variational bound: the methods of the model.

``tests/latent/test_gaussian_sites.py`` has the algebra.
"""

import numpy as np
import pytest
from scipy.special import expit

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.kernels import TaskTree
from zoo.models.varying_coefficient.sites import SITES, SiteSpace

METHODS = sorted(SITES)


def labels(n, seed=0, weight=None):
    """Labels with two coefficients, one of which varies with t."""
    rng = np.random.default_rng(seed)
    t, x = rng.uniform(-2.0, 2.0, (n, 1)), rng.standard_normal((n, 1))
    f = 2.0 * np.sin(2.0 * t[:, 0]) + x[:, 0]
    y = np.where(rng.random(n) < expit(f), 1.0, -1.0)
    data = zoo.MultiTaskData.from_arrays(x, y, np.zeros(n, dtype=int), t=t, weight=weight)
    return data, f


@pytest.mark.parametrize("method", METHODS)
def test_the_gradient_in_the_hyperparameters_is_that_of_differences(method):
    data, _ = labels(40, weight=np.linspace(0.5, 1.5, 40))
    model = zoo.VaryingCoefficientGP(likelihood="logistic")
    rows = model.design(data)
    space = SiteSpace(method, model, rows, model.validate(data))
    z = np.full(space.coordinates.size, 0.2)
    _, gradient = space.evidence(z)
    for i in range(len(z)):
        step = np.zeros(len(z))
        step[i] = 1e-4
        ahead, behind = space.evidence(z + step)[0], space.evidence(z - step)[0]
        assert gradient[i] == pytest.approx((ahead - behind) / 2e-4, abs=1e-5)


@pytest.mark.parametrize("method", METHODS)
def test_a_fit_predicts_saves_and_has_coefficients(method, tmp_path):
    data, f = labels(150)
    train, test = data.take(np.arange(150) < 100), data.take(np.arange(150) >= 100)
    fit = zoo.VaryingCoefficientGP(likelihood="logistic").fit(
        train, method, draws=200, chains=2, random_seed=1, progress=False
    )
    assert fit.method == method and bool(fit.idata["sample_stats"]["converged"].all())
    found = fit.predict(test, random_seed=1)["probability"].to_numpy()
    assert np.mean((found - expit(f[100:])) ** 2) < 0.5 * np.mean((0.5 - expit(f[100:])) ** 2)
    fit.save(tmp_path / "fit.nc")
    again = zoo.load(tmp_path / "fit.nc").predict(test, random_seed=1)["probability"].to_numpy()
    np.testing.assert_allclose(again, found, rtol=1e-10)
    assert fit.coefficients(t=np.zeros((2, 1)))["mean"].shape == (2, 2)
    drawn = fit.posterior["function_values"].mean(("chain", "draw")).to_numpy()
    assert np.corrcoef(drawn, f[:100])[0, 1] > 0.7


@pytest.mark.parametrize("method", METHODS)
def test_amplitudes_do_not_run_away_where_labels_are_separated(method):
    """Without the restraint the amplitude of "ep" ends at its bound, a thousand times the start."""
    data, f = labels(40)
    separated = zoo.MultiTaskData.from_arrays(data.X, np.sign(f), data.task, t=data.t)
    fit = zoo.VaryingCoefficientGP(likelihood="logistic").fit(
        separated, method, draws=5, chains=1, random_seed=1, progress=False
    )
    assert float(fit.posterior["amplitude"].max()) < 30.0
    assert float(fit.posterior["global_scale"].max()) < 30.0
    p = fit.predict(separated, random_seed=1)["probability"].to_numpy()
    assert np.mean((p > 0.5) == (f > 0.0)) > 0.9 and p.min() < 0.2 and p.max() > 0.8


def test_other_likelihoods_and_trees_are_refused_with_a_reason():
    data, _ = labels(20)
    with pytest.raises(UnsupportedMethodError, match="are for likelihood='logistic', not Probit"):
        zoo.VaryingCoefficientGP(likelihood="probit").fit(data, "ep", progress=False)
    tree = zoo.VaryingCoefficientGP(
        likelihood="logistic", task_kernel=TaskTree.from_parents({"a": "all", "b": "all"})
    )
    on_tasks = zoo.MultiTaskData.from_arrays(data.X, data.y, np.tile(["a", "b"], 10))
    with pytest.raises(UnsupportedMethodError, match="held as weights"):
        tree.fit(on_tasks, "variational", progress=False)


@pytest.mark.parametrize("method", METHODS)
def test_the_yardsticks_of_the_paper_have_them_too(method):
    """A process on features and t, one on features, and coefficients with a covariance."""
    data, f = labels(40)
    for factory in (
        zoo.PooledGP(inputs="xt", instance_kernel="matern52", likelihood="logistic"),
        zoo.PooledGP(inputs="x", instance_kernel="matern52", likelihood="logistic"),
        zoo.NonisotropicVaryingCoefficients(likelihood="logistic"),
    ):
        fit = factory.fit(data, method, draws=5, chains=1, random_seed=1, progress=False)
        p = fit.predict(data, random_seed=1)["probability"].to_numpy()
        assert np.corrcoef(p, f)[0, 1] > 0.3


def test_a_fit_that_does_not_come_to_rest_says_so(monkeypatch, caplog):
    data, _ = labels(30)
    monkeypatch.setattr("zoo.latent.gaussian_sites._MOST_STEPS", 1)
    fit = zoo.VaryingCoefficientGP(likelihood="logistic").fit(
        data, "ep", draws=5, chains=1, random_seed=1, progress=False
    )
    assert not bool(fit.idata["sample_stats"]["converged"].any())
    assert "Expectation propagation did not converge" in caplog.text
