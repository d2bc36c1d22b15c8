"""The yardsticks against NUTS on their own models, and against conditions that define them."""

from __future__ import annotations

from typing import ClassVar

import numpy as np
import pytest
from scipy.special import expit

import zoo
from tests.comparisons import largest_z
from zoo.latent.weights_mode import _mode
from zoo.likelihoods import InverseGammaOfSquare, LogNormal


def _data(labels: bool, n_rows: int = 12) -> zoo.MultiTaskData:
    rng = np.random.default_rng(0)
    task = np.repeat([0, 1], n_rows)
    X = rng.standard_normal((len(task), 2))
    f = np.einsum("nd,nd->n", X, np.array([[1.0, -0.5], [0.3, 0.8]])[task])
    y = np.where(f + rng.logistic(size=len(f)) > 0, 1, 0) if labels else f + 0.5 * rng.standard_normal(len(f))
    return zoo.MultiTaskData.from_arrays(X, y, task)


@pytest.mark.scheduled
@pytest.mark.parametrize(
    "factory", [zoo.PooledTasks(), zoo.IndependentTasks()], ids=lambda f: type(f).__name__
)
def test_exact_draws_agree_with_nuts(factory):
    # |z| < 5 for some 20 quantities: false alarm below 2e-5.
    data = _data(labels=False)
    exact = factory.fit(data, "exact", draws=5000, random_seed=1, progress=False)
    nuts = factory.fit(
        data, "nuts", draws=2500, tune=1000, random_seed=2, progress=False, nuts={"target_accept": 0.95}
    )

    def quantities(posterior):
        result = {}
        for name in ("coefficients", "noise", "shrinkage"):
            values = posterior[name].to_numpy()
            flat = values.reshape(*values.shape[:2], -1)
            for i in range(flat.shape[2]):
                result[f"{name} {i}"] = flat[:, :, i]
                result[f"{name} squared {i}"] = flat[:, :, i] ** 2
        return result

    z, where = largest_z(quantities(exact.posterior), quantities(nuts.posterior))
    assert z < 5, f"{where} differs by {z:.1f} Monte-Carlo errors"


def test_laplace_stands_at_the_mode():
    data = _data(labels=True)
    y = np.where(data.y > 0, 1.0, -1.0)
    mode, factor, _ = _mode(data.X, y, 0.7, np.zeros(2))
    gradient = data.X.T @ (y * expit(-y * (data.X @ mode))) - mode / 0.49
    assert np.abs(gradient).max() < 1e-6
    p = expit(data.X @ mode)
    hessian = data.X.T @ (data.X * (p * (1 - p))[:, None]) + np.eye(2) / 0.49
    assert np.allclose(factor @ factor.T, hessian)


@pytest.mark.statistical
@pytest.mark.scheduled
def test_laplace_is_near_nuts_with_many_rows():
    data, factory = _data(labels=True, n_rows=400), zoo.IndependentTasks(likelihood="logistic")
    laplace = factory.fit(data, "laplace", random_seed=1, progress=False).posterior["coefficients"]
    nuts = factory.fit(data, "nuts", random_seed=2, progress=False).posterior["coefficients"]
    dims = ("chain", "draw")
    gap = np.abs(laplace.mean(dims) - nuts.mean(dims)) / nuts.std(dims)
    assert float(gap.max()) < 0.25  # an approximation: a quarter of a posterior standard deviation
    assert np.allclose(laplace.std(dims), nuts.std(dims), rtol=0.2)


def test_logistic_copes_with_a_task_of_one_class():
    data = zoo.MultiTaskData.from_arrays(np.ones((6, 1)), [1, 1, 1, 0, 1, 0], [0, 0, 0, 1, 1, 1])
    with pytest.warns(UserWarning, match="one class in 1 of 2 tasks"):
        fit = zoo.IndependentTasks(likelihood="logistic").fit(data, random_seed=1, progress=False)
    assert np.all(np.isfinite(fit.posterior["coefficients"]))


@pytest.mark.parametrize("factory", [zoo.PooledTasks, zoo.IndependentTasks])
def test_bad_fields_are_named(factory):
    with pytest.raises(ValueError, match="likelihood: 'counts'"):
        factory(likelihood="counts")
    with pytest.raises(ValueError, match="prior_scale is 0"):
        factory(prior_scale=0)


@pytest.mark.parametrize("factory", [zoo.PooledTasks, zoo.IndependentTasks])
def test_a_subclass_that_changes_the_prior_of_the_noise_is_sampled_from_it(factory):
    class Sure(factory):
        likelihood_laws: ClassVar = {**factory.likelihood_laws, "noise": InverseGammaOfSquare(1e8, 0.25e8)}

    class Other(factory):
        likelihood_laws: ClassVar = {**factory.likelihood_laws, "noise": LogNormal(0.0, 1.0)}

    data = _data(labels=False).standardize()  # the prior is in units of the response
    fit = Sure().fit(data, draws=100, random_seed=1, progress=False)
    assert fit.method == "exact"
    np.testing.assert_allclose(fit.posterior["noise"], 0.5, rtol=1e-3)
    assert "exact" not in Other().methods


def test_predictions_of_a_task_that_nothing_is_known_of_average_to_their_centre():
    """The tails of the noise's prior leave them no mean: averages of independent draws would be anywhere."""
    data = _data(labels=False)
    fit = zoo.IndependentTasks().fit(data, draws=100, random_seed=1, progress=False)
    drawn = fit.predict_draws(data.X[:3], "elsewhere", new_task=True, random_seed=1)["f"]
    np.testing.assert_allclose(drawn.mean(("chain", "draw")), 0.0, atol=1e-12)
    assert (drawn.std(("chain", "draw")) > 0.0).all()
