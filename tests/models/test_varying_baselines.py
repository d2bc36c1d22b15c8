"""Special cases of the varying-coefficient model that it is compared with: GPs of the features, and Gelfand's model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial.distance import cdist

import zoo
from tests.comparisons import mean_and_error
from tests.models.varying import DRAWS, log_evidence, matern32, new_places, places, shown_at, values_of
from zoo.core.methods import UnsupportedMethodError


def squared_exponential(a, b, lengthscale):
    return np.exp(-0.5 * cdist(a / lengthscale, b / lengthscale, "sqeuclidean"))


def standardized(a, like):
    return (a - like.mean(axis=0)) / like.std(axis=0)


@pytest.mark.parametrize("inputs", ["x", "xt"])
@pytest.mark.parametrize("lengthscale", ["shared", "per_feature"])
def test_pooled_gp_is_a_gp_of_its_inputs(inputs, lengthscale):
    data = places(40, 15)
    X, t = new_places(data)
    fit = zoo.PooledGP(
        instance_kernel="squared_exponential", instance_lengthscale=lengthscale, inputs=inputs
    ).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert np.shape(v["instance_lengthscale"]) == (
        () if lengthscale == "shared" else (2 if inputs == "x" else 4,)
    )
    old, new = (data.X, X) if inputs == "x" else (np.hstack([data.X, data.t]), np.hstack([X, t]))
    old, new = standardized(old, old), standardized(new, old)
    s2, noise = v["global_scale"] ** 2, v["noise"] ** 2
    K = s2 * squared_exponential(old, old, v["instance_lengthscale"]) + noise * np.eye(40)
    cross = s2 * squared_exponential(new, old, v["instance_lengthscale"])
    y = data.y - data.y.mean()
    assert log_evidence(fit) == pytest.approx(stats.multivariate_normal(cov=K).logpdf(y), abs=1e-7)
    mean = cross @ np.linalg.solve(K, y) + data.y.mean()
    sd = np.sqrt(s2 + noise - np.sum(cross * np.linalg.solve(K, cross.T).T, axis=1))
    assert_allclose(shown_at(fit, X, t), [mean, sd], atol=1e-6)


def test_pooled_gp_without_t():
    """With inputs "x" t plays no part: not where it is, and not where it is absent."""
    data = places(20, 8)
    bare = zoo.MultiTaskData.from_arrays(data.X, data.y)
    one, two = (zoo.PooledGP(instance_kernel="matern52").fit(d, "exact", **DRAWS) for d in (data, bare))
    X, t = new_places(data)
    predicted = two.predict(X)
    assert_allclose(predicted["mean"], one.predict(X, t=t)["mean"], atol=1e-8)
    assert_allclose(predicted["mean"], one.predict(X, t=t + 5.0)["mean"], atol=1e-8)
    assert not zoo.PooledGP().needs_t
    assert zoo.PooledGP(inputs="xt").needs_t
    with pytest.raises(UnsupportedMethodError, match="xt"):
        zoo.PooledGP(inputs="xt").fit(data, "exact", **DRAWS).coefficients()


def test_linear_pooled_gp_is_ridge_regression():
    data = places(40, 15)
    fit = zoo.PooledGP().fit(data, "exact", **DRAWS)
    v = values_of(fit)
    X = np.column_stack([np.ones(40), standardized(data.X, data.X)])
    y = data.y - data.y.mean()
    penalty = v["noise"] ** 2 / v["global_scale"] ** 2
    w = np.linalg.solve(X.T @ X + penalty * np.eye(3), X.T @ y)
    table = fit.coefficients(data.t[:1])
    expected = np.array([w[0] + data.y.mean(), *(w[1:] / data.X.std(axis=0))])
    assert_allclose(table["mean"].to_numpy()[:, 0], expected, atol=1e-8)


def test_nonisotropic_model_is_its_covariance():
    """Gelfand et al. (2003): the coefficients' covariance times the task kernel, here by the Kronecker product."""
    data = places(40, 15)
    fit = zoo.NonisotropicVaryingCoefficients().fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert fit.posterior["coefficient_cov"].dims[2:] == ("feature", "feature_bis")
    assert np.trace(v["coefficient_cov"]) == pytest.approx(3.0)
    X = np.column_stack([np.ones(40), standardized(data.X, data.X)])
    t = standardized(data.t, data.t)
    law = np.kron(
        matern32(t, t, v["lengthscale"]), v["amplitude"] ** 2 * v["coefficient_cov"]
    )  # of all w(t_n)
    features = np.zeros((40, 40, 3))
    features[np.arange(40), np.arange(40)] = X
    features = features.reshape(40, -1)
    K = features @ law @ features.T + v["noise"] ** 2 * np.eye(40)
    y = data.y - data.y.mean()
    assert log_evidence(fit) == pytest.approx(stats.multivariate_normal(cov=K).logpdf(y), abs=1e-7)
    w = (law @ features.T @ np.linalg.solve(K, y)).reshape(40, 3)
    expected = w / np.array([1.0, *data.X.std(axis=0)]) + np.array([data.y.mean(), 0.0, 0.0])
    assert_allclose(fit.coefficients(data.t)["mean"], expected.T, atol=1e-6)
    # The isotropic model is the special case of a multiple of the identity.
    isotropic = zoo.VaryingCoefficientGP(global_coefficients=False).fit(data, "exact", **DRAWS)
    assert log_evidence(fit) >= log_evidence(isotropic) - 1e-3


@pytest.mark.scheduled
@pytest.mark.statistical
def test_nonisotropic_model_in_full_bayes_learns_which_coefficients_move_together():
    """Two coefficients that are each other's negative: their correlation is below 0 with 99% of the posterior."""
    rng = np.random.default_rng(3)
    t = rng.uniform(-1.0, 1.0, (60, 1))
    X = rng.normal(size=(60, 2))
    y = 2.0 * np.sin(3.0 * t[:, 0]) * (X[:, 0] - X[:, 1]) + 0.2 * rng.normal(size=60)
    data = zoo.MultiTaskData.from_arrays(X, y, t=t)
    fit = zoo.NonisotropicVaryingCoefficients(intercept=False).fit(
        data, "nuts", draws=500, tune=500, chains=2, random_seed=1, progress=False
    )
    cov = fit.posterior["coefficient_cov"].to_numpy()
    correlation = cov[..., 0, 1] / np.sqrt(cov[..., 0, 0] * cov[..., 1, 1])
    assert np.mean(correlation < 0.0) > 0.99
    assert mean_and_error(correlation)[0] < -0.7
