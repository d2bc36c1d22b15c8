"""Varying-coefficient Gaussian processes: against models of weights, hierarchies, other libraries, and themselves."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import scipy.sparse
from numpy.testing import assert_allclose
from pytensor.compile.mode import Mode
from scipy import stats
from scipy.integrate import quad
from scipy.spatial.distance import cdist
from scipy.special import expit, gammaln

import zoo
from tests.comparisons import mean_and_error
from zoo.core.methods import UnsupportedMethodError
from zoo.kernels import GraphLaplacian, MeanRegularised, TaskTree, Tree
from zoo.latent.coordinates import Hyper
from zoo.likelihoods import Gaussian, NegativeBinomial, Poisson, StudentT
from zoo.models.varying_coefficient import methods as varying_fit
from zoo.models.varying_coefficient.spaces import space_of
from zoo.models.varying_coefficient.stationary import log_density as log_spectrum

Varying, Component = zoo.VaryingCoefficientGP, zoo.VaryingComponent
DRAWS = {"draws": 4, "chains": 1, "random_seed": 1, "progress": False}
QUICK = Mode("py", "fast_compile")
BARE = {"global_coefficients": False, "standardize": False, "intercept": False}


def places(n: int = 30, distinct: int = 8, D: int = 2, P: int = 2, seed: int = 1) -> zoo.MultiTaskData:
    """Rows at a few places, each of which several rows share."""
    rng = np.random.default_rng(seed)
    t = rng.uniform(-1.0, 1.0, (distinct, P))[rng.integers(0, distinct, n)]
    X = rng.normal(size=(n, D)) + 0.3
    y = X[:, 0] * np.sin(2.0 * t[:, 0]) + X[:, -1] * t[:, -1] + 0.5 + 0.3 * rng.normal(size=n)
    return zoo.MultiTaskData.from_arrays(X, y, t=t, t_names=["long", "lat", "date"][:P])


def labelled(data: zoo.MultiTaskData, response: str, seed: int = 2) -> zoo.MultiTaskData:
    """The same rows with a response of the kind."""
    rng, f = np.random.default_rng(seed), data.y
    if response == "logistic":
        return replace(data, y=(rng.random(len(f)) < expit(2.0 * f)).astype(np.float64))
    if response in ("poisson", "negative_binomial"):
        return replace(data, y=rng.poisson(np.exp(f)).astype(np.float64))
    return data


def matern32(a: np.ndarray, b: np.ndarray, lengthscale: Any) -> np.ndarray:
    r = np.sqrt(3.0) * cdist(a / lengthscale, b / lengthscale)
    return (1.0 + r) * np.exp(-r)


def log_evidence(fit: Any) -> float:
    return float(fit.idata["sample_stats"]["log_evidence"].to_numpy().max())


def values_of(fit: Any) -> dict[str, np.ndarray]:
    """Hyper-parameters of a fit at one point."""
    return {str(name): v.to_numpy() for name, v in fit.posterior.isel(chain=0, draw=0).items()}


def shown(fit: Any, rows: zoo.MultiTaskData) -> np.ndarray:
    """Mean and sd of predictions at rows, (2, n)."""
    predicted = fit.predict(rows.original_X(), [rows.task_names[i] for i in rows.task], rows.t, random_seed=1)
    return np.stack([predicted["mean"].to_numpy(), predicted["sd"].to_numpy()])


# ---------------------------------------------------------------- theorem 3: the model of weights


FIXED = Varying(
    task_kernel=Component(lengthscale=(0.6, 0.9)), amplitude=1.3, likelihood=Gaussian(noise=0.5), **BARE
)


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


def new_places(data, n=6, seed=9):
    """Features at known and at new t."""
    rng = np.random.default_rng(seed)
    t = np.vstack([data.t[: n // 2], rng.uniform(-1.5, 1.5, (n - n // 2, data.t.shape[1]))])
    return rng.normal(size=(n, data.n_features)), t


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


# ---------------------------------------------------------------- trees


PARENTS = {
    "north": "all",
    "south": "all",
    "a": "north",
    "b": "north",
    "c": "south",
    "d": "south",
    "e": "south",
}
TREE = TaskTree.from_parents(PARENTS)


def on_tree(n=60, seed=4, tasks="abcde"):
    rng = np.random.default_rng(seed)
    X, task = rng.normal(size=(n, 2)), rng.integers(0, len(tasks), n)
    slope = np.array([1.0, 1.2, -0.8, -0.5, -1.1])
    y = slope[task] * X[:, 0] + 0.3 * X[:, 1] + 0.4 * rng.normal(size=n)
    return zoo.MultiTaskData.from_arrays(X, y, task=np.array(list(tasks))[task])


def hierarchy(parent: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Covariance of u_j = u_pa(j) + sigma_j eps_j, marginalised node by node, parents first."""
    cov = np.zeros((len(parent), len(parent)))
    for j in range(len(parent)):
        above = parent[j]
        if above >= 0:
            cov[j, :j] = cov[:j, j] = cov[above, :j]
            cov[j, j] = cov[above, above]
        cov[j, j] += sigma[j] ** 2
    return cov


def test_tree_kernel_is_the_hierarchical_model_both_ways():
    parent, sigma = np.array(TREE.parent), np.random.default_rng(2).uniform(0.3, 1.5, TREE.n_nodes)
    expected = hierarchy(parent, sigma)
    A = np.zeros((len(parent), len(parent)))  # the paper's: A_{pa(j), j} = 1
    A[parent[1:], np.arange(1, len(parent))] = 1.0
    back = np.linalg.inv(np.eye(len(parent)) - A)
    assert_allclose(back.T @ np.diag(sigma**2) @ back, expected, atol=1e-12)
    printed = back @ np.diag(sigma**2) @ back.T  # as the paper prints it
    assert np.abs(printed - expected).max() > 0.3
    tree = TREE.kernel(sigma=sigma, tasks=TREE.names)
    assert_allclose(tree.task_covariance().to_numpy(), expected, atol=1e-12)
    # By simulation: 1e5 draws of each node, 28 covariances, 4.5 standard errors, false alarm 2e-4.
    rng, n = np.random.default_rng(3), 100_000
    u = np.zeros((n, len(parent)))
    for j in range(len(parent)):
        u[:, j] = (u[:, parent[j]] if parent[j] >= 0 else 0.0) + sigma[j] * rng.standard_normal(n)
    error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / n)
    assert np.abs((u.T @ u / n - expected) / error).max() < 4.5


def test_tree_predictions_and_coefficients_are_the_hierarchical_model():
    """Steps of every node as weights of their own, with fixed standard deviations: posterior by their precision."""
    data = on_tree()
    sigma = np.array([0.7, 0.5, 0.9, 0.3, 0.4, 0.6, 0.2, 0.35])
    parent, tasks = np.array(TREE.parent), TREE.for_tasks(data.task_names)
    kernel = Tree(parent=parent, sigma=sigma, tasks=tasks, task_names=data.task_names)
    factory = Varying(
        task_kernel=Component(kernel=kernel, lengthscale="fixed", amplitude=1.0),
        likelihood=Gaussian(noise=0.4),
        **BARE,
    )
    fit = factory.fit(data, "exact", **{**DRAWS, "draws": 4000})
    steps = np.zeros((data.n_rows, len(parent), 2))
    above = np.array([[j in TREE._up(i) for j in range(len(parent))] for i in tasks])
    steps = (above[data.task][:, :, None] * data.X[:, None, :]).reshape(data.n_rows, -1)
    precision = np.diag(np.repeat(sigma**-2.0, 2)) + steps.T @ steps / 0.16
    cov = np.linalg.inv(precision)
    mean = cov @ steps.T @ data.y / 0.16
    predicted = fit.predict(data)
    assert_allclose(predicted["mean"], steps @ mean, atol=1e-8)
    assert_allclose(predicted["sd"] ** 2, np.einsum("ni,ij,nj->n", steps, cov, steps) + 0.16, atol=1e-8)
    table = fit.coefficients()
    by_task = np.einsum("tj,jd->dt", above, mean.reshape(-1, 2))
    assert_allclose(table["mean"], by_task, atol=1e-8)
    assert tuple(table["task"].to_numpy()) == data.task_names
    root = np.kron(above, np.eye(2))  # (task feature)
    sd = np.sqrt(np.diag(root @ cov @ root.T)).reshape(-1, 2).T
    assert_allclose(table["sd"], sd, atol=1e-8)
    assert_allclose(fit.coefficients(task=["d", "a"])["mean"], by_task[:, [3, 0]], atol=1e-8)
    # The draws of the posterior have these moments: 10 means and sds of 4,000 draws, 4.5 standard errors.
    draws = fit.posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()[0]
    assert np.abs((draws.mean(axis=0) - by_task) / sd).max() < 4.5 / np.sqrt(4000)
    assert np.abs(draws.std(axis=0) / sd - 1.0).max() < 4.5 / np.sqrt(8000)


def test_steps_of_levels_have_maximal_evidence():
    data = on_tree()
    fit = Varying(task_kernel=TREE, **BARE).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert list(fit.posterior["level"].to_numpy()) == ["level 0", "level 1", "level 2"]
    depth, parent, tasks = np.array(TREE.depth), np.array(TREE.parent), TREE.for_tasks(data.task_names)

    def evidence(level_sigma, noise):
        B = hierarchy(parent, level_sigma[depth])[np.ix_(tasks, tasks)]
        K = B[np.ix_(data.task, data.task)] * (data.X @ data.X.T)
        return stats.multivariate_normal(cov=K + noise**2 * np.eye(data.n_rows)).logpdf(data.y)

    best = evidence(v["level_sigma"], float(v["noise"]))
    assert log_evidence(fit) == pytest.approx(best, abs=1e-8)
    for factor in (0.9, 1.1):
        for i in range(3):
            changed = v["level_sigma"] * np.where(np.arange(3) == i, factor, 1.0)
            assert evidence(changed, float(v["noise"])) < best + 1e-4
        assert evidence(v["level_sigma"], float(v["noise"]) * factor) < best
    # The data were made with far steps at the middle level.
    assert v["level_sigma"][1] > v["level_sigma"][2]


def test_other_kernels_of_tasks():
    """A graph and a mean: with numbers by weights, with learned parameters by the plain kernel; both dense formulas."""
    data = on_tree()
    graph = GraphLaplacian(None, np.ones((5, 5)) - np.eye(5), regularisation=0.3)
    for kernel, lengthscale in (
        (graph, "fixed"),
        (graph, "learned"),
        (MeanRegularised(None, 5, lam=0.4), "learned"),
    ):
        component = Component(kernel=kernel, lengthscale=lengthscale)
        fit = Varying(task_kernel=component, **BARE).fit(data, "exact", **DRAWS)
        v = values_of(fit)
        part = fit.factory.kernel_of(fit.factory.prepare(data)).parts[0]
        B = zoo.kernels.evaluate.fixed_number(part._kernel(v).task_matrix())
        K = v["amplitude"] ** 2 * B[np.ix_(data.task, data.task)] * (data.X @ data.X.T)
        expected = stats.multivariate_normal(cov=K + v["noise"] ** 2 * np.eye(data.n_rows)).logpdf(data.y)
        assert log_evidence(fit) == pytest.approx(expected, abs=1e-7)


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


# ---------------------------------------------------------------- responses that are not normal


def fixed(response: str, amplitude: float = 0.9, **settings: Any) -> Varying:
    """All hyper-parameters given."""
    return Varying(
        task_kernel=Component(lengthscale=0.8, amplitude=amplitude),
        likelihood={"student_t": StudentT(noise=0.5, degrees=4.0), "negative_binomial": NegativeBinomial(
            dispersion=1.5
        )}.get(response, response),
        **{**BARE, **settings},
    )  # fmt: skip


def log_density(response: str, y: np.ndarray, f: np.ndarray) -> np.ndarray:
    if response == "logistic":
        return -np.logaddexp(0.0, -(2.0 * y - 1.0) * f)
    if response == "poisson":
        return y * f - np.exp(f) - gammaln(y + 1.0)
    return stats.nbinom.logpmf(y, 1.5, 1.5 / (1.5 + np.exp(f)))


def by_importance(response: str, data: zoo.MultiTaskData, amplitude: float = 0.9, n: int = 100_000):
    """Log evidence and its error, posterior means and sds of f: weighted draws of whitened values from a t law."""
    K = amplitude**2 * matern32(data.t, data.t, 0.8) * (data.X @ data.X.T)
    value, vector = np.linalg.eigh(K)
    root = (vector * np.sqrt(np.maximum(value, 0.0)))[:, value > 1e-10]
    rng, q = np.random.default_rng(7), root.shape[1]
    centre = np.zeros(q)
    cov = np.eye(q)
    for last in (False, False, True):  # the proposal learns its moments twice
        law = stats.multivariate_t(centre, 1.3 * cov, df=8, seed=rng)
        v = law.rvs(n if last else 20_000)
        f = v @ root.T
        logs = (
            log_density(response, data.y, f).sum(axis=1)
            - 0.5 * np.sum(v**2, axis=1)
            - 0.5 * q * np.log(2 * np.pi)
        )
        logs -= law.logpdf(v)
        w = np.exp(logs - logs.max())
        centre, cov = np.average(v, axis=0, weights=w), np.cov(v.T, aweights=w)
    mean = np.average(f, axis=0, weights=w)
    sd = np.sqrt(np.average((f - mean) ** 2, axis=0, weights=w))
    error = np.std(w) / np.mean(w) / np.sqrt(n)
    return np.log(np.mean(w)) + logs.max(), error, mean, sd


@pytest.mark.parametrize("amplitude, evidence_error, mean_error", [(0.9, 0.25, 0.45), (0.3, 0.05, 0.15)])
@pytest.mark.parametrize("response", ["logistic", "poisson", "negative_binomial"])
def test_laplace_against_importance_sampling(response, amplitude, evidence_error, mean_error):
    """Twelve rows. Sampling errors are below 0.005: what is left is Laplace's own, and vanishes with the prior's width.

    Of coefficients of 0.9 it is up to 0.18 in the log evidence, and 0.36 sd in the mean of f (Poisson, being skewed).
    """
    data = labelled(places(12, 6), response)
    fit = fixed(response, amplitude).fit(data, "laplace", **DRAWS)
    expected, error, mean, sd = by_importance(response, data, amplitude)
    assert error < 0.005
    assert log_evidence(fit) == pytest.approx(expected, abs=evidence_error)
    found, found_sd = fit.factory.latent_moments(fit, fit.factory.prepare(data))
    assert np.abs((found - mean) / sd).max() < mean_error
    assert np.abs(found_sd / sd - 1.0).max() < 0.12


@pytest.mark.statistical
@pytest.mark.parametrize(
    "response",
    ["logistic", "poisson", pytest.param("negative_binomial", marks=pytest.mark.scheduled)],
)
def test_nuts_is_the_exact_posterior_of_functions(response):
    """Means of f at 12 rows, NUTS against importance sampling, |z| < 4.5: false alarm below 1e-4 a response."""
    data = labelled(places(12, 6), response)
    fit = fixed(response).fit(data, "nuts", draws=2000, chains=2, random_seed=1, progress=False)
    _, _, mean, sd = by_importance(response, data, n=400_000)
    f = fit.predict_draws(data, random_seed=3)["f"].to_numpy()
    for i in range(data.n_rows):
        found, error = mean_and_error(f[:, :, i])
        # Of the weighted draws too, which are worth at least 40,000.
        assert abs(found - mean[i]) < 4.5 * np.hypot(error, sd[i] / 200.0)


@pytest.mark.statistical
@pytest.mark.parametrize("kind", ["places", "tree", "hsgp", "fitc", "vfe"])
def test_nuts_is_exact_where_hyperparameters_are_given(kind):
    """Means and squares of f at rows and new rows: |z| < 4.5, 24 numbers, false alarm 2e-4."""
    if kind == "tree":
        data = on_tree(30)
        kernel = TREE.kernel(level_sigma=[0.5, 0.6, 0.4], tasks=data.task_names)
        factory = Varying(
            task_kernel=Component(kernel=kernel, lengthscale="fixed", amplitude=1.0),
            likelihood=Gaussian(noise=0.4),
            **BARE,
        )
        rows = data.take(np.arange(12))
    else:
        data = places(30)
        approximation = "none" if kind == "places" else kind
        component = Component(lengthscale=0.8, amplitude=1.3, n_basis=6)
        factory = Varying(
            task_kernel=component,
            likelihood=Gaussian(noise=0.5),
            approximation=approximation,
            n_inducing=10,
            **BARE,
        )
        X, t = new_places(data, 12)
        t = np.clip(t, data.t.min(axis=0), data.t.max(axis=0))  # f of sines is 0 outside their box
        rows = replace(data.take(np.arange(12)), inputs=X, row=np.arange(12), t=t)
    fast = {"places": "exact", "tree": "exact", "hsgp": "hsgp"}.get(kind, "inducing")
    exact = factory.fit(data, fast, **DRAWS)
    sampled = factory.fit(data, "nuts", draws=2000, chains=2, random_seed=1, progress=False)
    f = sampled.predict_draws(rows, random_seed=2)["f"].to_numpy()
    mean, sd = exact.factory.latent_moments(exact, exact.factory.prepare(rows, data, data))
    for i in range(12):
        for values, expected in ((f[:, :, i], mean[i]), ((f[:, :, i] - mean[i]) ** 2, sd[i] ** 2)):
            found, error = mean_and_error(values)
            assert abs(found - expected) < 4.5 * error


@pytest.mark.parametrize("response", ["student_t", "logistic", "poisson"])
def test_spaces_of_other_responses_agree(response):
    """With enough functions, or all points, evidence and predictions are those of the exact prior."""
    data = labelled(places(20, 6, P=1), response)
    smooth = Component(kernel="squared_exponential", lengthscale=0.8, amplitude=0.9, n_basis=40, boundary=5.0)
    factory = replace(fixed(response), task_kernel=smooth)
    exact = factory.fit(data, "laplace", **DRAWS)
    rows = exact.factory.prepare(data, data, data)
    expected = exact.factory.latent_moments(exact, rows)
    for approximation in ("hsgp", "fitc"):
        other = factory.fit(data, "laplace", approximation=approximation, **DRAWS)
        assert other.factory.approximation == approximation
        assert log_evidence(other) == pytest.approx(log_evidence(exact), abs=1e-5)
        assert_allclose(other.factory.latent_moments(other, rows), expected, atol=1e-4)
        assert bool(np.all(other.idata["sample_stats"]["converged"]))


@pytest.mark.parametrize("response", ["student_t", "poisson"])
def test_gradient_of_a_space_is_that_of_differences(response):
    data = labelled(places(20, 6), response)
    component = Component(n_basis=5, amplitude="per_feature")
    for approximation in ("none", "hsgp", "fitc"):
        factory = Varying(
            task_kernel=component, likelihood=response, approximation=approximation, n_inducing=8
        )
        rows = factory.prepare(data)
        space = space_of(factory, rows, factory.validate(data))
        z = space.coordinates.start + 0.2 * np.random.default_rng(1).standard_normal(space.coordinates.size)
        gradient = space.evidence(z)[1]
        for i in range(len(z)):
            step = 1e-4 * np.eye(len(z))[i]
            expected = (space.evidence(z + step)[0] - space.evidence(z - step)[0]) / 2e-4
            assert gradient[i] == pytest.approx(expected, rel=1e-4, abs=2e-5), (approximation, i)


def test_gradient_of_every_kind_of_hyperparameter():
    """Normal noise: words, covariances of PyMC, metrics, instance kernels, trees, by differences."""
    data = places(20, 6)
    on_t = pm.gp.cov.RatQuad(2, ls=0.7, alpha=1.5)
    cases = [
        (Varying(task_kernel=["matern12", "matern52"]), data),
        (Varying(task_kernel=on_t), data),
        (Varying(amplitude="covariance"), data),
        (Varying(instance_kernel="matern32", instance_lengthscale="per_feature"), data),
        (Varying(instance_kernel=pm.gp.cov.ExpQuad(2, ls=[1.0, 2.0])), data),
        (Varying(task_kernel=Component(kernel=TREE, amplitude="per_feature")), on_tree(20)),
        (Varying(approximation="vfe", n_inducing=9), data),
    ]
    for factory, rows in cases:
        space = space_of(factory, factory.prepare(rows), factory.validate(rows))
        z = space.coordinates.start + 0.2 * np.random.default_rng(1).standard_normal(space.coordinates.size)
        gradient = space.evidence(z)[1]
        for i in range(len(z)):
            step = 1e-4 * np.eye(len(z))[i]
            expected = (space.evidence(z + step)[0] - space.evidence(z - step)[0]) / 2e-4
            assert gradient[i] == pytest.approx(expected, rel=1e-4, abs=2e-5), (factory, i)


# ---------------------------------------------------------------- approximations


@pytest.mark.filterwarnings("ignore:n_basis is")  # what is looked at is how far off too few are
def test_hsgp_converges_to_exact():
    """Errors of mean and sd of f, in units of the amplitude, by functions per column and boundary."""
    data = places(40, 25, P=1)
    X, t = np.ones((9, 2)), np.linspace(-1.0, 1.0, 9)[:, None]
    sizes = [(8, 1.5), (16, 2.0), (40, 3.0), (300, 6.0)]
    for word, final in (("matern32", 1e-3), ("matern52", 1e-5), ("squared_exponential", 1e-8)):
        errors = []
        for n_basis, boundary in sizes:
            component = Component(
                kernel=word, lengthscale=0.5, amplitude=1.0, n_basis=n_basis, boundary=boundary
            )
            factory = Varying(task_kernel=component, likelihood=Gaussian(noise=0.3), **BARE)
            if not errors:
                exact = shown_at(factory.fit(data, "exact", **DRAWS), X, t)
            basis = shown_at(factory.fit(data, "hsgp", **DRAWS), X, t)
            errors.append(np.abs(exact - basis).max())
        assert errors[3] < errors[2] < errors[1] < errors[0], (word, errors)
        assert errors[-1] < final, (word, errors)


def shown_at(fit: Any, X: np.ndarray, t: np.ndarray) -> np.ndarray:
    predicted = fit.predict(X, t=t, random_seed=1)
    return np.stack([predicted["mean"].to_numpy(), predicted["sd"].to_numpy()])


def test_hsgp_in_two_columns_and_several_components():
    data = places(40, 20, P=3)
    components = [
        Component(
            columns=("long", "lat"),
            kernel="squared_exponential",
            lengthscale=(0.6, 0.8),
            amplitude=1.1,
            n_basis=(22, 18),
            boundary=3.0,
        ),
        Component(
            columns="date",
            kernel="squared_exponential",
            lengthscale=0.6,
            amplitude=0.5,
            n_basis=30,
            boundary=3.0,
        ),
    ]
    factory = Varying(task_kernel=components, likelihood=Gaussian(noise=0.4), **BARE)
    X, t = new_places(data, 8)
    t = np.clip(t, -1.0, 1.0)
    exact, basis = (shown_at(factory.fit(data, m, **DRAWS), X, t) for m in ("exact", "hsgp"))
    assert np.abs(exact - basis).max() < 1e-3


@pytest.mark.parametrize("word", ["matern12", "matern32", "matern52", "squared_exponential"])
def test_spectral_densities(word):
    """They integrate to the variance, 1, and are PyMC's where it has them."""

    logs = {}
    for P in (1, 2):
        omega, scale = pt.dmatrix("omega"), pt.dvector("scale")
        logs[P] = pytensor.function([omega, scale], log_spectrum(word, omega, scale, P), mode=QUICK)

    def density(omega, lengthscale):
        return np.exp(logs[len(lengthscale)](np.atleast_2d(omega), np.array(lengthscale)))

    total = quad(lambda w: density([[w]], [0.7])[0], -np.inf, np.inf)[0] / (2.0 * np.pi)
    assert total == pytest.approx(1.0, abs=1e-6)
    radial = quad(lambda w: w * density([[w, 0.0]], [0.7, 0.7])[0], 0.0, np.inf)[0] / (2.0 * np.pi)
    assert radial == pytest.approx(1.0, abs=1e-6)
    theirs = {
        "matern32": pm.gp.cov.Matern32,
        "matern52": pm.gp.cov.Matern52,
        "squared_exponential": pm.gp.cov.ExpQuad,
    }
    if word in theirs:
        omega = np.random.default_rng(1).uniform(0.0, 4.0, (7, 2))
        expected = theirs[word](2, ls=[0.7, 1.6]).power_spectral_density(omega).eval(mode=QUICK)
        assert_allclose(
            density(omega, [0.7, 1.6]), expected, rtol=1e-6
        )  # theirs is in part of single precision


@pytest.mark.parametrize("approximation", ["fitc", "vfe"])
def test_all_inducing_points_are_exact(approximation):
    data = places(30)
    exact = FIXED.fit(data, "exact", **DRAWS)
    # More points are asked for than there are rows: that is all of them, and nothing is said.
    settings = {"n_inducing": 500, "approximation": approximation}
    component = Component(kernel="matern12", lengthscale=(0.6, 0.9))
    rough = replace(FIXED, task_kernel=replace(component, amplitude=1.3))
    for factory, tolerance in ((FIXED, 1e-7), (rough, 1e-7)):
        exact = factory.fit(data, "exact", **DRAWS)
        other = factory.fit(data, "inducing", **settings, **DRAWS)
        assert log_evidence(other) == pytest.approx(log_evidence(exact), abs=1e-5)
        X, t = new_places(data)
        assert_allclose(shown_at(other, X, t), shown_at(exact, X, t), atol=tolerance)
    assert other.posterior["inducing_values"].sizes["inducing"] == len(other.factory.prepare(data).points)


def test_vfe_is_below_the_evidence_and_fitc_is_not_bound():
    data = places(40, 20)
    for n_inducing in (3, 8, 15):
        bound = FIXED.fit(data, "inducing", approximation="vfe", n_inducing=n_inducing, **DRAWS)
        assert log_evidence(bound) < log_evidence(FIXED.fit(data, "exact", **DRAWS))


def test_blocks_change_nothing(monkeypatch):
    data = places(30)
    X, t = new_places(data, 9)
    methods = [
        ("exact", {}),
        ("hsgp", {}),
        ("inducing", {"n_inducing": 12}),
        ("inducing", {"n_inducing": 12, "approximation": "vfe"}),
    ]
    whole = [
        (log_evidence(f), shown_at(f, X, t)) for f in (FIXED.fit(data, m, **s, **DRAWS) for m, s in methods)
    ]
    for module in ("spaces", "weights"):
        monkeypatch.setattr(f"zoo.models.varying_coefficient.{module}.ENTRIES", 40)
    monkeypatch.setattr("zoo.latent.basis_regression._BLOCK", 40)
    monkeypatch.setattr("zoo.latent.basis_regression._KEPT", 0)
    for (method, settings), (evidence, predicted) in zip(methods, whole, strict=True):
        fit = FIXED.fit(data, method, **settings, **DRAWS)
        assert log_evidence(fit) == pytest.approx(evidence, abs=1e-8)
        assert_allclose(shown_at(fit, X, t), predicted, atol=1e-8)


METHODS = {
    "exact": ("exact", {}),
    "hsgp": ("hsgp", {}),
    "fitc": ("inducing", {"n_inducing": 6}),
    "vfe": ("inducing", {"n_inducing": 6, "approximation": "vfe"}),
}


@pytest.mark.parametrize("name", METHODS)
def test_closed_form_is_what_the_draws_say(name):
    """Moments, and draws through the model: 12 means and sds of 1,500 draws, 4.5 errors, false alarm 2e-4."""
    data = places(30)
    method, settings = METHODS[name]
    fit = Varying().fit(data, method, **settings, draws=1500, chains=1, random_seed=1, progress=False)
    X, t = new_places(data, 12)
    y = fit.predict_draws(X, t=t, random_seed=2)["y"].to_numpy()[0]
    expected = fit.predict(X, t=t)
    z = (y.mean(axis=0) - expected["mean"].to_numpy()) / (y.std(axis=0) / np.sqrt(len(y)))
    assert np.abs(z).max() < 4.5
    assert_allclose(y.std(axis=0) / expected["sd"], 1.0, atol=4.5 / np.sqrt(2 * len(y)))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize("learned", [False, True])
@pytest.mark.parametrize("approximation", ["none", "hsgp", "fitc", "vfe"])
def test_the_model_that_nuts_samples_is_that_of_the_engine(approximation, learned):
    """Given hyper-parameters the model is linear and normal: slope and curvature at 0 are the posterior, exactly."""
    data = places(30)
    component = Component(lengthscale="learned" if learned else 0.8, amplitude=1.3, n_basis=6)
    factory = Varying(
        task_kernel=component,
        likelihood=Gaussian(noise=0.5),
        approximation=approximation,
        n_inducing=10,
        **BARE,
    )
    fit = factory.fit(data, {"none": "exact", "hsgp": "hsgp"}.get(approximation, "inducing"), **DRAWS)
    model, f = factory.assemble(factory.prepare(data), data.y)
    point = {name: np.zeros_like(value) for name, value in model.initial_point().items()}
    if learned:
        point["lengthscale_log__"] = np.log(values_of(fit)["lengthscale"])
    free = [v for v in model.free_RVs if v.name != "lengthscale"]
    white = [model.rvs_to_values[v] for v in free]
    precision = -model.compile_d2logp(vars=free, negate_output=False, mode=QUICK)(point)
    cov = np.linalg.inv(precision)
    mean = cov @ model.compile_dlogp(vars=free, mode=QUICK)(point)
    value = model.replace_rvs_by_values([f])[0]
    slopes = model.compile_fn(pytensor.gradient.jacobian(value, white), mode=QUICK)(point)
    J = np.hstack(slopes)
    centre = model.compile_fn(value, mode=QUICK)(point)  # of functions that are seen given the responses
    found, sd = fit.factory.latent_moments(fit, fit.factory.prepare(data, data, data))
    known = fit.state[1].known
    if approximation in (
        "fitc",
        "vfe",
    ):  # at the rows of the fit: another part of their own than new rows have
        found, sd = known[1].f, np.sqrt(known[1].solver.variance())
    assert_allclose(centre + J @ mean, found, atol=1e-6)
    assert_allclose(np.einsum("ni,ij,nj->n", J, cov, J), sd**2, atol=1e-6)


@pytest.mark.parametrize("approximation", ["fitc", "vfe"])
def test_draws_at_given_hyperparameters(approximation):
    """As above, where the covariance at the inducing points is one of numbers."""
    data = places(30)
    settings = {"approximation": approximation, "n_inducing": 6}
    fit = FIXED.fit(data, "inducing", **settings, draws=1500, chains=1, random_seed=1, progress=False)
    X, t = new_places(data, 12)
    y = fit.predict_draws(X, t=t, random_seed=2)["y"].to_numpy()[0]
    expected = fit.predict(X, t=t)
    z = (y.mean(axis=0) - expected["mean"].to_numpy()) / (y.std(axis=0) / np.sqrt(len(y)))
    assert np.abs(z).max() < 4.5
    assert_allclose(y.std(axis=0) / expected["sd"], 1.0, atol=4.5 / np.sqrt(2 * len(y)))


@pytest.mark.parametrize("response", ["logistic", "poisson"])
def test_closed_form_of_laplace_is_what_the_draws_say(response):
    data = labelled(places(30), response)
    fit = fixed(response).fit(data, "laplace", draws=4000, chains=1, random_seed=1, progress=False)
    X, t = new_places(data, 12)
    f = fit.predict_draws(X, t=t, random_seed=2)["f"].to_numpy()[0]
    rows = fit.factory.prepare(
        replace(data.take(np.arange(12)), inputs=X, row=np.arange(12), t=t), data, data
    )
    mean, sd = fit.factory.latent_moments(fit, rows)
    assert np.abs((f.mean(axis=0) - mean) / (sd / np.sqrt(len(f)))).max() < 4.5
    assert_allclose(f.std(axis=0) / sd, 1.0, atol=4.5 / np.sqrt(2 * len(f)))
    predicted = fit.predict(X, t=t, random_seed=3)
    if response == "poisson":  # the mean of y is that of exp(f), exp(m + s^2 / 2)
        spread = np.exp(mean + sd**2 / 2.0) * np.sqrt(np.expm1(sd**2))
        assert np.abs((predicted["mean"] - np.exp(mean + sd**2 / 2.0)) / (spread / np.sqrt(4000))).max() < 5.5
    else:
        node, weight = np.polynomial.hermite_e.hermegauss(60)
        expected = expit(mean[:, None] + sd[:, None] * node) @ weight / np.sqrt(2.0 * np.pi)
        assert_allclose(predicted["probability"], expected, atol=4.5 * 0.5 / np.sqrt(4000))


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


# ---------------------------------------------------------------- the choice of a method


@pytest.mark.filterwarnings("ignore:n_basis is")
def test_choice_says_why(monkeypatch, capsys):
    data = places(30)
    fit = Varying().fit(data, draws=2, chains=1, random_seed=1)
    assert fit.method == "exact"
    assert "30 rows are few enough" in capsys.readouterr().out
    assert fit.idata["posterior"].attrs["chosen"].startswith("exact: 30 rows")
    monkeypatch.setattr(varying_fit, "_FEW_ROWS", 20)
    few = Component(n_basis=4)
    nonlinear = Varying(instance_kernel="matern52", n_inducing=5)
    cases = [
        (Varying(task_kernel=few), data, "hsgp", "hsgp"),
        (nonlinear, data, "vecchia", "vecchia"),
        (Varying(amplitude="covariance"), data, "inducing", "fitc"),
        (Varying(task_kernel=few, likelihood="poisson"), labelled(data, "poisson"), "laplace", "hsgp"),
        (replace(nonlinear, likelihood="poisson"), labelled(data, "poisson"), "inducing", "fitc"),
        (Varying(task_kernel=TREE), on_tree(30), "exact", "none"),
        (Varying(approximation="vfe"), data, "inducing", "vfe"),
    ]
    for factory, rows, method, approximation in cases:
        choice = varying_fit.choose(factory, rows)
        assert (choice.method, choice.approximation) == (method, approximation), factory
        assert factory.default_method(rows) == method
    fit = cases[3][0].fit(cases[3][1], **DRAWS)
    assert (fit.method, fit.factory.approximation) == ("laplace", "hsgp")


@pytest.mark.parametrize(
    "make", ["MATERN12", "RATQUAD", "SUM", "MULTIPLE", "PRODUCT", "CONSTANT", "ONE_COLUMN"]
)
def test_a_basis_is_offered_where_there_is_a_spectral_density(make):
    """Covariances of PyMC: what has a basis agrees with exact algebra, what has none is not given one."""
    covariances = {
        "MATERN12": pm.gp.cov.Matern12(2, ls=0.7),
        "RATQUAD": pm.gp.cov.RatQuad(2, ls=0.7, alpha=2.0),
        "SUM": pm.gp.cov.ExpQuad(2, ls=0.5) + pm.gp.cov.ExpQuad(2, ls=0.8),
        "MULTIPLE": pm.gp.cov.ExpQuad(2, ls=[0.8, 0.6]) * 0.5,
        "PRODUCT": pm.gp.cov.ExpQuad(2, ls=0.8) * pm.gp.cov.ExpQuad(2, ls=0.6),
        "CONSTANT": pm.gp.cov.ExpQuad(2, ls=0.8) + 0.5,
        "ONE_COLUMN": pm.gp.cov.ExpQuad(2, ls=0.8, active_dims=[0]),
    }
    component = Component(
        kernel=covariances[make], lengthscale="fixed", amplitude=0.9, n_basis=22, boundary=3.5
    )
    factory, data = replace(FIXED, task_kernel=component), places(30)
    if make not in ("RATQUAD", "SUM", "MULTIPLE"):
        assert not factory.kernel_of(factory.prepare(data)).has_basis
        with pytest.raises(ValueError, match="basis of sines"):
            factory.fit(data, "hsgp", **DRAWS)
        return
    one, two = factory.fit(data, "exact", **DRAWS), factory.fit(data, "hsgp", **DRAWS)
    # The rational quadratic has a long tail, which the box cuts off.
    assert log_evidence(two) == pytest.approx(log_evidence(one), abs=0.1 if make == "RATQUAD" else 1e-3)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize(
    "make, words",
    [
        (lambda: Varying(task_kernel="matern"), ["task_kernel", "matern32"]),
        (lambda: Varying(task_kernel=3.0), ["task_kernel", "float"]),
        (lambda: Varying(task_kernel=(), global_coefficients=False), ["task_kernel is empty"]),
        (lambda: Varying(task_kernel=MeanRegularised(2, 3, base=pm.gp.cov.Linear(1, c=0.0))), ["task_kernel", "base"]),
        (lambda: Varying(task_kernel=[{"kernel": "matern32", "colour": 1}]), ["task_kernel", "colour"]),
        (lambda: Varying(instance_kernel="cubic"), ["instance_kernel", "linear"]),
        (lambda: Varying(instance_kernel=2), ["instance_kernel", "int"]),
        (lambda: Varying(instance_kernel="matern52", amplitude="per_feature"), ["instance_kernel", "amplitude"]),
        (lambda: Varying(instance_kernel="matern52", amplitude="covariance"), ["amplitude", "linear"]),
        (lambda: Varying(instance_kernel="matern52", task_kernel=Component(features="x0")), ["features", "linear"]),
        (lambda: Varying(instance_lengthscale=-1.0), ["instance_lengthscale", "-1"]),
        (lambda: Varying(instance_lengthscale="all"), ["instance_lengthscale", "shared"]),
        (lambda: Varying(likelihood="gamma"), ["likelihood: 'gamma'", "poisson"]),
        (lambda: Varying(amplitude="big"), ["amplitude", "per_feature"]),
        (lambda: Varying(amplitude=0.0), ["amplitude", "0"]),
        (lambda: Varying(likelihood=Gaussian(noise=-0.1)), ["noise", "-0.1"]),
        (lambda: Varying(likelihood=Gaussian(noise="estimated")), ["noise", "learned"]),
        (lambda: Varying(approximation="sines"), ["approximation", "hsgp"]),
        (lambda: Varying(approximation="vfe", likelihood="poisson"), ["vfe", "fitc"]),
        (lambda: Varying(approximation="hsgp", instance_kernel="matern52"), ["hsgp", "instance_kernel"]),
        (lambda: Varying(approximation="hsgp", amplitude="covariance"), ["hsgp", "covariance"]),
        (lambda: Varying(n_inducing=0), ["n_inducing", "1"]),
        (lambda: Varying(n_inducing=2.5), ["n_inducing", "2.5"]),
        (lambda: Varying(placement="grid"), ["placement", "kmeans"]),
        (lambda: Component(kernel=TREE, columns="long"), ["columns", "tasks"]),
        (lambda: Component(columns=()), ["columns", "empty"]),
        (lambda: Component(columns=("long", "long")), ["columns", "long", "twice"]),
        (lambda: Component(amplitude="huge"), ["amplitude", "shared"]),
        (lambda: Component(lengthscale="fixed"), ["lengthscale", "learned"]),
        (lambda: Component(lengthscale=0.0), ["lengthscale", "0"]),
        (lambda: Component(lengthscale=(1.0, -2.0)), ["lengthscale", "-2"]),
        (lambda: Component(kernel=TREE, lengthscale=1.0), ["lengthscale", "fixed"]),
        (lambda: Component(boundary=1.0), ["boundary", "1.5"]),
        (lambda: Component(n_basis=0), ["n_basis", "0"]),
        (lambda: zoo.PooledGP(task_kernel="matern32"), ["task_kernel", "VaryingCoefficientGP"]),
        (lambda: zoo.PooledGP(inputs="t"), ["inputs", "xt"]),
    ],
)  # fmt: skip
def test_fields_are_checked(make, words):
    with pytest.raises((ValueError, TypeError)) as error:
        make()
    assert all(word in str(error.value) for word in words), str(error.value)


def _without_t():
    return replace(places(), t=None)


def _constant_t():
    data = places()
    return replace(data, t=np.column_stack([data.t[:, 0], np.full(30, 3.0)]))


@pytest.mark.parametrize(
    "factory, make, words",
    [
        (Varying(), _without_t, ["t is missing", "t=[...]"]),
        (Varying(), _constant_t, ["t", "constant", "lat"]),
        (Varying(task_kernel=Component(columns="date")), places, ["columns", "date", "long, lat"]),
        (Varying(task_kernel=Component(features="rooms")), places, ["features", "rooms", "x0"]),
        (Varying(intercept=False, task_kernel=Component(features="intercept")), places, ["features", "intercept"]),
        (Varying(task_kernel=Component(lengthscale=(1.0, 2.0, 3.0))), places, ["lengthscale", "3", "2 columns"]),
        (Varying(task_kernel=pm.gp.cov.Matern32(1, ls=1.0)), places, ["task_kernel", "input_dim=1", "2 columns"]),
        (Varying(approximation="hsgp", task_kernel=Component(n_basis=(3, 3, 3))), places, ["n_basis", "3", "2"]),
        (Varying(task_kernel=TREE), lambda: on_tree(tasks="abcd"), []),
        (Varying(task_kernel=TREE), lambda: on_tree(tasks="abcdz"), ["task_names", "z"]),
        (Varying(task_kernel=Tree(parent=[-1, 0, 0])), on_tree, ["task_kernel", "3 tasks", "5"]),
        (Varying(task_kernel=TREE.kernel(tasks=list("abced"))), on_tree, ["task_kernel", "order"]),
        (Varying(task_kernel=GraphLaplacian(None, np.ones((4, 4)) - np.eye(4))), on_tree, ["task_kernel", "4 tasks"]),
        (Varying(likelihood="poisson"), places, ["y", "row 0", "counts"]),
        (Varying(likelihood="negative_binomial"), lambda: replace(places(), y=np.full(30, 0.5)), ["0.5", "row 0"]),
        (Varying(likelihood="poisson"), lambda: labelled(places(), "poisson").standardize(), ["y", "standardize"]),
        (Varying(likelihood="logistic"), places, ["y", "row 0", "labels"]),
        (zoo.PooledGP(inputs="xt"), _without_t, ["t is missing", "xt"]),
    ],
)  # fmt: skip
def test_data_are_checked(factory, make, words):
    data = make()
    if not words:  # a leaf without rows is no fault
        assert np.all(np.isfinite(factory.fit(data, "exact", **DRAWS).coefficients()["mean"]))
        return
    with pytest.raises((ValueError, TypeError)) as error:
        factory.fit(data, **DRAWS)
    assert all(word in str(error.value) for word in words), str(error.value)


def test_t_must_be_numbers():
    data = places()
    t = data.t.copy()
    t[7, 1] = np.nan
    with pytest.raises(ValueError, match=r"t.*row 7.*lat|t.*lat.*row 7"):
        zoo.MultiTaskData.from_arrays(data.X, data.y, t=pd.DataFrame(t, columns=["long", "lat"]))
    with pytest.raises(ValueError, match="t has"):
        zoo.MultiTaskData.from_arrays(data.X, data.y, t=t[:5])
    fit = FIXED.fit(data, "exact", **DRAWS)
    with pytest.raises(ValueError, match="t "):
        fit.predict(data.X[:3])
    with pytest.raises(ValueError, match=r"t has 1 column, and the data of the fit 2: long, lat"):
        fit.coefficients(t[:3, :1])
    with pytest.raises(ValueError, match="row 7"):
        fit.coefficients(t)
    with pytest.raises(ValueError, match="lat"):
        fit.coefficients(pd.DataFrame({"long": [0.1]}))
    frame = pd.DataFrame({"lat": [0.2], "more": [9.0], "long": [0.1]})
    assert_allclose(fit.coefficients(frame)["mean"], fit.coefficients([[0.1, 0.2]])["mean"])


def test_trees_are_trees():
    with pytest.raises(ValueError, match="cycle"):
        TaskTree.from_parents({"a": "b", "b": "a", "c": "a"})
    with pytest.raises(ValueError, match="one root"):
        TaskTree.from_parents({"a": "r", "b": "s"})
    with pytest.raises(ValueError, match="cycle"):
        Tree(parent=[-1, 2, 1])
    with pytest.raises(ValueError, match="one root"):
        Tree(parent=[-1, -1, 0])


def test_one_class_alone():
    """Of all rows an error; of the rows of one task a warning."""
    data = labelled(places(), "logistic")
    with pytest.raises(ValueError, match="y has one class"):
        Varying(likelihood="logistic").fit(replace(data, y=np.ones(data.n_rows)), "laplace", **DRAWS)
    task = (data.y == 1.0) & (np.arange(30) % 2 == 0)
    split = zoo.MultiTaskData.from_arrays(data.X, data.y, t=data.t, task=np.where(task, "sure", "rest"))
    with pytest.warns(UserWarning, match="sure"):
        fit = Varying(likelihood="logistic").fit(split, "laplace", **DRAWS)
    assert np.all(np.isfinite(fit.predict(split, random_seed=1)["probability"]))


def test_sparse_features_and_constant_responses():
    data = places()
    sparse = zoo.MultiTaskData.from_arrays(scipy.sparse.csr_matrix(data.X), data.y, t=data.t)
    with pytest.raises(ValueError, match="sparse"):
        Varying().fit(sparse, **DRAWS)
    fit = Varying().fit(replace(data, y=np.full(30, 4.0)), "exact", **DRAWS)
    assert_allclose(fit.predict(data.X, t=data.t)["mean"], 4.0, atol=1e-3)


def test_methods_that_a_response_does_not_have():
    data = places()
    with pytest.raises(
        UnsupportedMethodError, match=r"laplace.*Choose from exact, hsgp, inducing, vecchia, nuts"
    ):
        Varying().fit(data, "laplace", **DRAWS)
    with pytest.raises(
        UnsupportedMethodError, match=r"exact.*Choose from laplace, inducing, hsgp, vecchia, nuts"
    ):
        Varying(likelihood="poisson").fit(labelled(data, "poisson"), "exact", **DRAWS)
    with pytest.raises(UnsupportedMethodError, match="hsgp"):
        Varying(instance_kernel="matern52").fit(data, "hsgp", **DRAWS)
    fit = Varying(instance_kernel="matern52").fit(data, "exact", **DRAWS)
    with pytest.raises(ValueError, match="instance_kernel is not linear"):
        fit.coefficients()


@pytest.mark.filterwarnings("ignore:n_basis is")  # three rows know no lengthscale
def test_fewer_rows_than_functions():
    """Three rows: fewer than basis functions, than features, and than the inducing points asked for."""
    data = places(30, 25).take(np.arange(3))
    for method in ("exact", "hsgp", "inducing"):
        predicted = Varying().fit(data, method, **DRAWS).predict(data.X, t=data.t)
        assert np.all(np.isfinite(predicted["mean"]))
        assert np.all(predicted["sd"] >= 0.0)


# ---------------------------------------------------------------- subclasses, descriptions


def test_a_subclass_may_change_the_covariance():
    """Overridden `kernel_of` and `hyperparameters` serve every method; an overridden law or function leaves nuts."""

    @dataclass(frozen=True, kw_only=True)
    class Halved(Varying):
        share: float = 0.5

        def __post_init__(self):
            super().__post_init__()
            if not 0.0 < self.share <= 1.0:
                raise ValueError("share")

        def hyperparameters(self, rows):
            return {
                name: hyper for name, hyper in super().hyperparameters(rows).items() if name != "global_scale"
            }

        def values_of(self, learned, rows):
            return {
                "global_scale": pt.constant(self.share, dtype="float64"),
                **super().values_of(learned, rows),
            }

    data = places()
    X = np.column_stack([np.ones(30), (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)])
    t, y = (data.t - data.t.mean(axis=0)) / data.t.std(axis=0), data.y - data.y.mean()
    factory = Halved(share=0.7, likelihood="gaussian")
    assert set(factory.methods) == set(Varying().methods)
    fit = factory.fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert "global_scale" not in v
    K = (v["amplitude"] ** 2 * matern32(t, t, v["lengthscale"]) + 0.49) * (X @ X.T)
    expected = stats.multivariate_normal(cov=K + v["noise"] ** 2 * np.eye(30)).logpdf(y)
    assert log_evidence(fit) == pytest.approx(expected, abs=1e-7)
    assert Halved(likelihood="poisson").likelihood == Poisson()
    assert replace(Halved(likelihood="poisson"), share=0.2).likelihood == Poisson()
    with pytest.raises(ValueError, match="share"):
        Halved(share=2.0)

    class Twice(Varying):
        def latent(self, data, priors):
            return 2.0 * super().latent(data, priors)

    class Noisy(Varying):
        def observe(self, data, f):
            return super().observe(data, f)

    class Kernel(Varying):
        def kernel_of(self, rows):
            kernel = super().kernel_of(rows)
            kernel.with_global = False
            return kernel

    assert set(Twice().methods) == set(Noisy().methods) == {"nuts"}
    assert varying_fit.choose(Twice(), data).method == "nuts"
    with pytest.raises(UnsupportedMethodError, match="latent"):
        Twice().fit(data, "exact", **DRAWS)
    same = Varying(global_coefficients=False).fit(data, "exact", **DRAWS)
    assert log_evidence(Kernel().fit(data, "exact", **DRAWS)) == pytest.approx(log_evidence(same), abs=1e-6)
    # A subclass's hyper-parameter of another start and prior.

    class Started(Varying):
        def hyperparameters(self, rows):
            return {**super().hyperparameters(rows), "noise": Hyper(0.01)}

    one = Started().fit(data, "exact", **DRAWS)
    assert log_evidence(one) == pytest.approx(log_evidence(Varying().fit(data, "exact", **DRAWS)), abs=1e-2)


def test_descriptions():
    graph = GraphLaplacian(None, np.ones((5, 5)) - np.eye(5))
    factories = [
        Varying(),
        Varying(task_kernel=["matern12", "matern52"]),
        Varying(task_kernel=pm.gp.cov.Matern32(2, ls=[1.0, 2.0])),
        Varying(task_kernel=TREE),
        Varying(
            task_kernel=[graph, Component(columns="long", features=["x0"], n_basis=(4,), lengthscale=[0.4])]
        ),
        Varying(instance_kernel=pm.gp.cov.ExpQuad(2, ls=1.0), instance_lengthscale="fixed"),
        Varying(instance_kernel="matern32", instance_lengthscale=0.5),
        zoo.PooledGP(inputs="xt"),
        zoo.NonisotropicVaryingCoefficients(),
    ]
    import json

    for factory in factories:
        spec = json.loads(json.dumps(factory.to_spec()))
        again = type(factory).from_spec(spec)
        assert again == factory
        assert hash(again) == hash(factory)
        assert repr(again) == repr(factory)
        assert replace(factory, likelihood=Gaussian(noise=0.5)) != factory
    assert len(set(factories)) == len(factories)
    fit = Varying().fit(places(), "inducing", n_inducing=7, approximation="vfe", **DRAWS)
    assert (fit.factory.n_inducing, fit.factory.approximation) == (7, "vfe")
    assert replace(fit.factory, n_inducing=1000, approximation="none") == Varying()


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
    assert fit.factory.kernel_of(fit.factory.prepare(data)).parts[0].features == [0]


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
