"""Varying-coefficient Gaussian processes against models of weights and against other libraries."""

from __future__ import annotations

import warnings

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.spatial.distance import cdist

import zoo
from tests.models.varying import (
    BARE,
    DRAWS,
    FIXED,
    QUICK,
    Component,
    Varying,
    log_evidence,
    matern32,
    new_places,
    places,
    values_of,
)

# ---------------------------------------------------------------- theorem 3: the model of weights


class Weights:
    """The hierarchical model of Bussas et al. (2015), section 2: w at the distinct t as one normal vector."""

    def __init__(self, data, t_new, amplitude=1.3, lengthscale=(0.6, 0.9), noise=0.5):
        D, self.noise = data.n_features, noise
        self.t, position = np.unique(np.vstack([data.t, t_new]), axis=0, return_inverse=True)
        self.new = position[data.n_rows :]
        prior = amplitude**2 * matern32(self.t, self.t, np.array(lengthscale))
        self.prior = np.kron(prior, np.eye(D))  # w of a place after that of another
        self.features = self.at(data.X, position[: data.n_rows])
        self.y = data.y

    def at(self, X, position):
        result = np.zeros((len(X), len(self.t), X.shape[1]))
        result[np.arange(len(X)), position] = X
        return result.reshape(len(X), -1)

    def posterior(self):
        precision = np.linalg.inv(self.prior) + self.features.T @ self.features / self.noise**2
        cov = np.linalg.inv(precision)
        return cov @ self.features.T @ self.y / self.noise**2, cov


def test_theorem_3_predictions_and_coefficients_are_those_of_weights():
    data = places()
    X, t = new_places(data)
    model = Weights(data, t)
    mean, cov = model.posterior()
    fit = FIXED.fit(data, "exact", **DRAWS)
    predicted, new = fit.predict(X, t=t), model.at(X, model.new)
    assert_allclose(predicted["mean"], new @ mean, atol=1e-8)
    sd = np.sqrt(np.einsum("ni,ij,nj->n", new, cov, new) + 0.25)
    assert_allclose(predicted["sd"], sd, atol=1e-8)
    assert_allclose(predicted["upper"] - predicted["mean"], stats.norm.ppf(0.95) * sd, atol=1e-8)
    table = fit.coefficients(t)
    assert table["mean"].dims == ("feature", "place")
    assert list(table["feature"].to_numpy()) == ["x0", "x1"]
    assert_allclose(table["long"], t[:, 0])
    assert_allclose(table["mean"], mean.reshape(-1, 2)[model.new].T, atol=1e-8)
    own = np.sqrt(np.diag(cov)).reshape(-1, 2)[model.new].T
    assert_allclose(table["sd"], own, atol=1e-8)
    assert_allclose(table["upper"] - table["lower"], 2.0 * stats.norm.ppf(0.95) * own, atol=1e-8)
    # And its evidence is that of the marginal law of y.
    marginal = model.features @ model.prior @ model.features.T + 0.25 * np.eye(data.n_rows)
    expected = stats.multivariate_normal(cov=marginal).logpdf(data.y)
    assert log_evidence(fit) == pytest.approx(expected, abs=1e-8)


@pytest.mark.filterwarnings("ignore:PyTensor could not link")
def test_theorem_3_a_model_of_pymc_in_weights_has_the_same_posterior():
    """The posterior of the weights is normal: slope and curvature of the log density at 0 say all."""
    data = places()
    X, t = new_places(data)
    weights = Weights(data, t)
    with pm.Model() as model:
        w = pm.MvNormal("w", np.zeros(len(weights.prior)), cov=weights.prior)
        pm.Normal("y", pm.math.dot(weights.features, w), 0.5, observed=data.y)
    zero = {"w": np.zeros(len(weights.prior))}
    precision = -model.compile_d2logp(negate_output=False, mode=QUICK)(zero)
    cov = np.linalg.inv(precision)
    mean, new = cov @ model.compile_dlogp(mode=QUICK)(zero), weights.at(X, weights.new)
    predicted = FIXED.fit(data, "exact", **DRAWS).predict(X, t=t)
    assert_allclose(predicted["mean"], new @ mean, atol=1e-8)
    assert_allclose(predicted["sd"] ** 2, np.einsum("ni,ij,nj->n", new, cov, new) + 0.25, atol=1e-8)


def test_components_global_coefficients_and_scales_add_up():
    """Place and time, own features, a scale per feature, and coefficients that do not vary: by the plain kernel."""
    data = places(P=3)
    factory = Varying(
        task_kernel=[
            Component(columns=("long", "lat"), amplitude="per_feature", lengthscale=0.7),
            Component(
                columns="date", features=("intercept", "x1"), kernel="squared_exponential", name="when"
            ),
            Component(
                columns="date", features="intercept", amplitude=0.4, kernel="matern12", lengthscale=0.5
            ),
        ],
        standardize=False,
    )
    fit = factory.fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert {"long_lat_amplitude", "when_amplitude", "when_lengthscale", "global_scale", "noise"} <= set(v)
    X = np.column_stack([np.ones(data.n_rows), data.X])
    K = matern32(data.t[:, :2], data.t[:, :2], 0.7) * ((X * v["long_lat_amplitude"] ** 2) @ X.T)
    squares = cdist(data.t[:, 2:], data.t[:, 2:], "sqeuclidean")
    smooth = v["when_amplitude"] ** 2 * np.exp(-0.5 * squares / v["when_lengthscale"] ** 2)
    K = K + smooth * (1.0 + np.outer(data.X[:, 1], data.X[:, 1]))
    K = K + 0.16 * np.exp(-np.sqrt(squares) / 0.5) + v["global_scale"] ** 2 * X @ X.T
    y = data.y - data.y.mean()
    expected = stats.multivariate_normal(cov=K + v["noise"] ** 2 * np.eye(len(y))).logpdf(y)
    # PyMC's distances of 0 are 1e-6, which the kernel of smoothness 1/2 alone shows.
    assert log_evidence(fit) == pytest.approx(expected, abs=1e-4)
    assert_allclose(
        fit.predict(data.X, t=data.t)["mean"] - data.y.mean(),
        K @ np.linalg.solve(K + v["noise"] ** 2 * np.eye(len(y)), y),
        atol=1e-4,
    )


# ---------------------------------------------------------------- other libraries


def test_evidence_is_that_of_scikit_learn():
    gaussian_process = pytest.importorskip("sklearn.gaussian_process")
    kernels = gaussian_process.kernels

    def expected(kernel, points, y):
        return (
            gaussian_process.GaussianProcessRegressor(kernel, alpha=0.0)
            .fit(points, y)
            .log_marginal_likelihood()
        )

    data = places()
    y = data.y - data.y.mean()
    noisy = {"standardize": False, "global_coefficients": True}
    for word, make in (
        ("matern52", lambda ls: kernels.Matern(ls, "fixed", nu=2.5)),
        ("matern32", lambda ls: kernels.Matern(ls, "fixed", nu=1.5)),
        ("squared_exponential", lambda ls: kernels.RBF(ls, "fixed")),
    ):
        fit = zoo.PooledGP(instance_kernel=word, **noisy).fit(data, "exact", **DRAWS)
        v = values_of(fit)
        kernel = kernels.ConstantKernel(v["global_scale"] ** 2, "fixed") * make(v["instance_lengthscale"])
        kernel += kernels.WhiteKernel(v["noise"] ** 2, "fixed")
        assert log_evidence(fit) == pytest.approx(expected(kernel, data.X, y), rel=1e-8, abs=1e-8)
        # A spatial process: an intercept that varies.
        spatial = Component(kernel=word, features="intercept")
        fit = Varying(task_kernel=spatial, standardize=False, global_coefficients=False).fit(
            data, "exact", **DRAWS
        )
        v = values_of(fit)
        kernel = kernels.ConstantKernel(v["amplitude"] ** 2, "fixed") * make(v["lengthscale"])
        kernel += kernels.WhiteKernel(v["noise"] ** 2, "fixed")
        assert log_evidence(fit) == pytest.approx(expected(kernel, data.t, y), rel=1e-8, abs=1e-8)
    # Coefficients that do not vary: linear regression with a normal prior.
    fit = zoo.PooledGP(**noisy).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    kernel = kernels.ConstantKernel(v["global_scale"] ** 2, "fixed") * kernels.DotProduct(1.0, "fixed")
    kernel += kernels.WhiteKernel(v["noise"] ** 2, "fixed")
    assert log_evidence(fit) == pytest.approx(expected(kernel, data.X, y), rel=1e-8, abs=1e-8)


def product_of_pymc(v, D):
    """Theorem 3's kernel on [t, x], from PyMC's own parts."""
    linear = pm.gp.cov.Linear(2 + D, c=0.0, active_dims=list(range(2, 2 + D)))
    varying = pm.gp.cov.Matern52(2 + D, ls=v["lengthscale"], active_dims=[0, 1])
    return v["amplitude"] ** 2 * varying * linear + v["global_scale"] ** 2 * linear


def test_evidence_and_predictions_are_those_of_pymc():
    data = places()
    settings = {**BARE, "global_coefficients": True}
    fit = Varying(task_kernel="matern52", **settings).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    X, t = new_places(data)
    with pm.Model() as model:
        gp = pm.gp.Marginal(cov_func=product_of_pymc(v, 2))
        gp.marginal_likelihood("y", np.column_stack([data.t, data.X]), data.y, sigma=v["noise"], jitter=0.0)
        assert log_evidence(fit) == pytest.approx(float(model.compile_logp(mode=QUICK)({})), rel=1e-8)
        mean, variance = gp.predict(np.column_stack([t, X]), point={}, diag=True, pred_noise=True, jitter=0.0)
    predicted = fit.predict(X, t=t)
    assert_allclose(predicted["mean"], mean, atol=1e-7)
    assert_allclose(predicted["sd"], np.sqrt(variance), atol=1e-7)


@pytest.mark.statistical  # torch alone takes half a minute to load
def test_evidence_is_that_of_gpytorch():
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch = pytest.importorskip("torch")
        gpytorch = pytest.importorskip("gpytorch")
        data = places()
        settings = {**BARE, "global_coefficients": True}
        for word, nu in (("matern32", 1.5), ("matern52", 2.5)):
            fit = Varying(task_kernel=word, **settings).fit(data, "exact", **DRAWS)
            v = values_of(fit)
            points = torch.tensor(np.column_stack([data.t, data.X]), dtype=torch.float64)
            scaled = points.clone()
            scaled[:, :2] /= torch.tensor(v["lengthscale"])
            varying = gpytorch.kernels.MaternKernel(nu=nu, active_dims=(0, 1)).double()
            varying.lengthscale = 1.0
            linear = gpytorch.kernels.LinearKernel(active_dims=(2, 3)).double()
            linear.variance = 1.0
            with torch.no_grad():
                both = (varying * linear)(scaled).to_dense() * float(v["amplitude"]) ** 2
                K = both + linear(scaled).to_dense() * float(v["global_scale"]) ** 2
                K = K + float(v["noise"]) ** 2 * torch.eye(data.n_rows, dtype=torch.float64)
                law = gpytorch.distributions.MultivariateNormal(
                    torch.zeros(data.n_rows, dtype=torch.float64), K
                )
                with gpytorch.settings.fast_computations(log_prob=False):
                    expected = float(law.log_prob(torch.tensor(data.y)))
            assert log_evidence(fit) == pytest.approx(expected, abs=1e-6)
