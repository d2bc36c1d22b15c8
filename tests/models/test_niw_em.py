"""Normal-inverse-Wishart hierarchies by EM, and the kernel that they learn."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats
from scipy.sparse import csr_matrix

import zoo
from tests.models.populations import Z_LIMIT, functions_on_shared_inputs, tasks_of_a_population
from zoo.data.units import Units
from zoo.distributions import NormalInverseWishart

# ---------------------------------------------------------------- EM


def test_inductive_and_transductive_em_agree():
    """Theorems 5.2 and 5.3: after the same number of EM steps unlabelled inputs change nothing, to 1e-8."""
    x = np.array([-0.33, 0.1234, 1.3])
    model = zoo.NIWGaussianProcess(
        base_kernel=pm.gp.cov.Matern32(1, ls=0.4), likelihood=zoo.Gaussian(noise=zoo.likelihoods.Flat())
    )
    options = {"method": "em", "progress": False, "accelerate": False, "max_iter": 300, "tol": 1e-14}
    small, large = (
        model.fit(functions_on_shared_inputs(), **options),
        model.fit(functions_on_shared_inputs(x), **options),
    )
    assert abs(float(small.posterior["noise"].squeeze() - large.posterior["noise"].squeeze())) < 1e-8
    for task in ("task 3", "task 11"):
        inductive = small.predict(x[:, None], task, random_seed=1)["mean"].to_numpy()
        transductive = large.posterior["function_values"].sel(task=task)[0, 0, 15:].to_numpy()
        np.testing.assert_allclose(inductive, transductive, atol=1e-8)
        old = large.posterior["function_values"].sel(task=task)[0, 0, :15].to_numpy()
        np.testing.assert_allclose(small.posterior["function_values"].sel(task=task)[0, 0], old, atol=1e-8)


def test_em_is_monotone_and_reports_its_traces():
    """Two traces of one length; the penalised one never falls."""
    stats_ = (
        zoo.NIWLinear(likelihood=zoo.Gaussian(noise=zoo.likelihoods.Flat()))
        .fit(tasks_of_a_population(), "em", progress=False)
        .idata["sample_stats"]
    )
    trace = stats_["penalised_log_likelihood"].to_numpy()[0]
    assert stats_["log_likelihood"].shape == stats_["penalised_log_likelihood"].shape
    assert len(trace) > 3
    assert np.all(np.diff(trace) >= -1e-9 * np.abs(trace[1:]))


def test_em_with_the_full_bayes_prior_is_its_mode():
    """``tau="prior"``: the gradient of log p(mu, C, sigma^2 | y) is zero there (sigma^2 has no Jacobian)."""
    data = tasks_of_a_population()
    data = replace(data, units=Units.of_size(data.n_features))  # the density below is in absolute numbers
    model = zoo.NIWLinear(tau="prior", delta=3.0, pi=0.7)
    point = model.fit(data, "em", progress=False, tol=1e-12, max_iter=20000).posterior.isel(chain=0, draw=0)
    mean, C = point["population_mean"].to_numpy(), point["feature_cov"].to_numpy()
    noise = float(point["noise"])
    D = len(mean)
    upper = np.triu_indices(D)
    m, cov = pt.dvector(), pt.dmatrix()
    prior = pytensor.function(
        [m, cov], NormalInverseWishart.logp(m, cov, pi=0.7, delta=3.0, scale=np.eye(D) / D)
    )
    variance_law = stats.invgamma(0.5, scale=0.005)

    def log_posterior(theta):
        m_, s2 = theta[:D], theta[-1]
        cov_ = np.zeros((D, D))
        cov_[upper] = theta[D:-1]
        cov_ = cov_ + np.triu(cov_, 1).T
        total = float(prior(m_, cov_)) + variance_law.logpdf(s2)
        for rows in data.rows_by_task():
            X = data.X[rows]
            total += stats.multivariate_normal(X @ m_, X @ cov_ @ X.T + s2 * np.eye(len(rows))).logpdf(
                data.y[rows]
            )
        return total

    theta = np.concatenate([mean, C[upper], [noise**2]])
    for i in range(len(theta)):
        step = np.zeros(len(theta))
        step[i] = 1e-4
        slope = (log_posterior(theta + step) - log_posterior(theta - step)) / 2e-4
        curvature = (
            log_posterior(theta + step) - 2 * log_posterior(theta) + log_posterior(theta - step)
        ) / 1e-8
        assert abs(slope / curvature) < 1e-4, i


def test_the_units_of_the_data_do_not_matter():
    """Estimates of y and features in other units and from other origins, standardized by hand or not."""
    data = tasks_of_a_population().add_intercept()
    model, options = zoo.NIWLinear(), {"progress": False, "tol": 1e-12, "max_iter": 5000}
    expected = model.fit(data.standardize(), "em", **options).predict(data, random_seed=1)
    scale = np.append(np.geomspace(1e-3, 1e3, data.n_features - 1), 1.0)
    for y, shift, origin in ((1.0, 0.0, 0.0), (1e-6, 0.0, 0.0), (1e6, 1e9, 7.0)):
        inputs = scale * (data.inputs + np.append(np.full(data.n_features - 1, origin), 0.0))
        moved = replace(data, inputs=inputs, y=y * data.y + shift)
        found = model.fit(moved, "em", **options).predict(moved, random_seed=1)
        for name in ("mean", "lower", "upper"):
            np.testing.assert_allclose((found[name] - shift) / y, expected[name], rtol=2e-3, atol=2e-3)


def test_em_predictions_have_the_conditional_variance():
    """The sd of an EM fit is that of the Gaussian posterior given the population; 1,000 draws stand for it."""
    data = tasks_of_a_population()
    fit = zoo.NIWLinear().fit(data, "em", progress=False)
    X = data.X[:5]
    predicted = fit.predict(X, "t2", random_seed=1)
    w = fit.posterior["coefficients"].sel(task="t2")[0, 0].to_numpy()
    cov = fit.posterior["coefficients_cov"].sel(task="t2")[0, 0].to_numpy()
    sd = np.sqrt(np.einsum("nd,de,ne->n", X, cov, X) + float(fit.posterior["noise"].squeeze()) ** 2)
    np.testing.assert_allclose(predicted["mean"], X @ w, atol=1e-10)
    # A standard deviation from 1,000 draws has a relative error of 2.2%.
    np.testing.assert_allclose(predicted["sd"], sd, rtol=Z_LIMIT * 0.0224)


# ---------------------------------------------------------------- learned kernel


def test_learned_kernel_of_em():
    """Eq (18) gives back K at the inputs, and eq (19) its mixture with the base kernel, by tau and T."""
    data = functions_on_shared_inputs()
    fit = zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.Matern32(1, ls=0.4), tau=2.0).fit(
        data, "em", progress=False
    )
    K = fit.posterior["function_cov"][0, 0].to_numpy()
    kappa = zoo.kernels.kernel_matrix(pm.gp.cov.Matern32(1, ls=0.4), data.inputs)
    np.testing.assert_allclose(fit.learned_kernel(combine=False).kernel_matrix(data.inputs), K, atol=1e-8)
    mixed = (data.n_tasks * K + 2.0 * kappa) / (2.0 + data.n_tasks)
    np.testing.assert_allclose(fit.learned_kernel().kernel_matrix(data.inputs), mixed, atol=1e-8)
    mean = fit.posterior["function_mean"][0, 0].to_numpy()
    np.testing.assert_allclose(fit.learned_kernel().mean_values(data.inputs), mean, atol=1e-8)


def test_learned_kernel_of_linear_tasks():
    """x' C x', with the posterior mean of C; after EM combined with the scale."""
    data = tasks_of_a_population()
    fit = zoo.NIWLinear(scale_matrix=0.5, tau=3.0).fit(data, "em", progress=False)
    C = fit.posterior["feature_cov"][0, 0].to_numpy()
    X = data.X[:4]
    np.testing.assert_allclose(fit.learned_kernel(combine=False).kernel_matrix(X), X @ C @ X.T)
    mixed = (6 * C + 3.0 * 0.5 * np.eye(3)) / (3.0 + 6)
    np.testing.assert_allclose(fit.learned_kernel().kernel_matrix(X), X @ mixed @ X.T)


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_draws_of_the_kernel_have_its_mean(method):
    """At inputs of the fit and elsewhere, linear tasks and functions."""
    options = {"draws": 30, "tune": 5, "chains": 2, "random_seed": 1, "progress": False}
    data, X = functions_on_shared_inputs(T=4, n=6), np.array([[-1.0], [0.3], [2.0]])
    functions = zoo.NIWGaussianProcess(base_kernel="matern32").fit(data, method, **options)
    linear = zoo.NIWLinear(scale_matrix=0.3).fit(tasks_of_a_population(), method, **options)
    for fit, points in ((functions, X), (linear, np.eye(3))):
        for combine in (False, True):
            draws = fit.learned_kernel_draws(points, combine=combine)
            assert draws.dims == ("chain", "draw", "point", "point_bis")
            learned = fit.learned_kernel(combine=combine).kernel_matrix(points)
            np.testing.assert_allclose(draws.mean(("chain", "draw")), learned, atol=1e-9)


def test_sparse_inputs_give_the_dense_answer():
    """A linear kernel on csr and on dense inputs, predictions and kernel."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(12, 40)) * (rng.random((12, 40)) < 0.2)
    Y = rng.normal(size=(12, 5))
    Y[rng.random(Y.shape) < 0.3] = np.nan
    model = zoo.NIWGaussianProcess(base_kernel="linear")
    new = rng.normal(size=(3, 40))
    answers = []
    for form in (np.asarray, csr_matrix):
        fit = model.fit(
            zoo.MultiTaskData.from_multilabel(form(X), Y), "em", progress=False, max_iter=30, tol=1e-14
        )
        answers.append(fit.predict(form(new), "task 2", random_seed=1)["mean"].to_numpy())
        answers.append(fit.learned_kernel().kernel_matrix(form(new)))
    np.testing.assert_allclose(answers[0], answers[2], atol=1e-8)
    np.testing.assert_allclose(answers[1], answers[3], atol=1e-8)


# ---------------------------------------------------------------- bad input


@pytest.mark.parametrize("method", ["gibbs", "nuts"])
def test_only_em_does_without_a_prior_of_the_noise(method):
    """The message says which method needs what."""
    with pytest.raises(ValueError, match='only method="em"'):
        zoo.NIWLinear(likelihood=zoo.Gaussian(noise=zoo.likelihoods.Flat())).fit(
            tasks_of_a_population(), method, draws=2, tune=2, chains=1, progress=False
        )


def test_no_leave_one_out_of_an_estimate():
    """One draw has no leave-one-out estimate."""
    with pytest.raises(ValueError, match="needs draws"):
        zoo.diagnostics.loo(zoo.NIWLinear().fit(tasks_of_a_population(), "em", progress=False))


@pytest.mark.parametrize("tau", [1.0, "prior"])
def test_em_far_from_the_inputs_has_the_variance_of_an_unlabelled_input(tau):
    """The population there is the prior's, whether the input is in the data or not."""
    model = zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.Matern32(1, ls=0.2), tau=tau)
    fits = [model.fit(functions_on_shared_inputs(extra), "em", progress=False) for extra in ((), (9.0,))]
    sd = [float(f.predict(np.array([[9.0]]), new_task=True, random_seed=1)["sd"][0]) for f in fits]
    assert sd[0] == pytest.approx(sd[1], rel=0.15)
