"""Predictions and scores in closed form, against formulas written down and against quadrature.

Each law is built here from the posterior's numbers alone, without the code under test.
"""

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy.integrate import quad
from scipy.optimize import brentq
from scipy.special import expit, logsumexp
from scipy.stats import norm

import zoo
from zoo.core.fit import Fit
from zoo.core.predictive_law import expectation
from zoo.core.row_laws import NormalMixture
from zoo.diagnostics import compare, log_loss, negative_log_predictive_density
from zoo.likelihoods.gaussian import Gaussian

QUIET = {"progress": False, "random_seed": 1}


@pytest.fixture(scope="module")
def split():
    data, _ = zoo.datasets.simulate_joint_selection(
        3, 4, (1.0, 0.5), n_per_task=12, noise=0.04, random_seed=2
    )
    return data.split(0.5, random_seed=1)


@pytest.fixture(scope="module")
def scarce():
    """Three rows for each task, of four features: functions are left open, and the noise is small."""
    data, _ = zoo.datasets.simulate_joint_selection(
        3, 4, (1.0, 0.5), n_per_task=12, noise=0.04, random_seed=2
    )
    return data.split(0.75, random_seed=1)


def _given(fits):
    """A fit by NUTS whose draws are these estimates."""
    posterior = xr.concat([fit.posterior for fit in fits], dim="draw").assign_coords(draw=range(len(fits)))
    stats = fits[0].idata["sample_stats"].to_dataset()
    tree = xr.DataTree.from_dict({"posterior": posterior, "sample_stats": stats})
    return Fit(factory=fits[0].factory, data=fits[0].data, idata=tree, method="nuts")


# ---------------------------------------------------------------- the mixture itself


def test_quantiles_of_a_mixture_are_roots_of_its_distribution_function():
    rng = np.random.default_rng(1)
    mean, sd = rng.normal(scale=5.0, size=(30, 4)), rng.uniform(0.01, 2.0, (30, 4))
    law = NormalMixture(mean, sd)
    for p in (0.05, 0.5, 0.975):
        for i, found in enumerate(law.quantile(p)):
            root = brentq(
                lambda x, i=i, p=p: norm.cdf(x, mean[:, i], sd[:, i]).mean() - p, -50, 50, xtol=1e-13
            )
            assert found == pytest.approx(root, abs=1e-8)


def test_quantiles_between_parts_far_apart():
    """The distribution function is flat between the two: half the mass lies below any point there."""
    law = NormalMixture(np.array([[-1e3], [1e3]]), np.array([[1.0], [1e-6]]))
    assert -990 < law.quantile(0.5)[0] < 1000
    assert law.quantile(0.25)[0] == pytest.approx(-1e3)
    assert law.quantile(0.75)[0] == pytest.approx(1e3)


def test_moments_and_density_of_a_mixture():
    mean, sd = np.array([[0.0, 1.0], [2.0, 1.0]]), np.array([[1.0, 0.5], [3.0, 2.0]])
    law = NormalMixture(mean, sd)
    found = law.moments()
    assert found[0] == pytest.approx([1.0, 1.0])
    assert found[1] == pytest.approx(np.sqrt([1.0 + (1.0 + 9.0) / 2.0, (0.25 + 4.0) / 2.0]))
    expected = [np.log(norm.pdf(3.0, mean[:, i], sd[:, i]).mean()) for i in range(2)]
    assert law.log_density(np.array([3.0, 3.0])) == pytest.approx(expected)


@pytest.mark.parametrize("sd", [0.0, 0.3, 2.0, 25.0])
def test_expected_class_probability_is_that_of_quadrature(sd):
    mean = np.array([[-3.0, 0.0, 0.7, 8.0]])
    found = expectation(expit, mean, np.full_like(mean, sd))[0]
    for m, value in zip(mean[0], found, strict=True):
        if sd == 0.0:
            expected = expit(m)
        else:
            reach = m + sd * np.array([-12.0, 12.0])
            expected = quad(lambda f, m=m: expit(f) * norm.pdf(f, m, sd), *reach, limit=500, epsabs=1e-12)[0]
        assert value == pytest.approx(expected, abs=1e-10)


# ---------------------------------------------------------------- estimates and exact fits


def _processes(fit, train, test, draw):
    """Mean and standard deviation of y by one Gaussian process for each task, linear kernel without a mean."""
    kappa = fit.posterior["kappa"].to_numpy()[draw]
    noise = fit.posterior["noise"].to_numpy()[draw]
    mean, sd = np.empty(test.n_rows), np.empty(test.n_rows)
    for t, (known, asked) in enumerate(zip(train.rows_by_task(), test.rows_by_task(), strict=True)):
        X, Z = train.X[known], test.X[asked]
        A = (X * kappa[:, t]) @ X.T + noise[t] ** 2 * np.eye(len(X))
        cross = (Z * kappa[:, t]) @ X.T
        mean[asked] = cross @ np.linalg.solve(A, train.y[known])
        variance = np.sum(Z**2 * kappa[:, t], axis=1) - np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1)
        sd[asked] = np.sqrt(variance + noise[t] ** 2)
    return mean, sd


def _mode(data, C=0.05, kind=zoo.MultiLaplaceGP):
    model = kind(kernel="linear", penalty=C, mean="zero", standardize=False, noise_floor=0.05)
    return model.fit(data, method="map", progress=False)


@pytest.fixture(scope="module")
def mode(scarce):
    return _mode(scarce[0])


def test_density_of_a_mode_is_the_closed_form(mode, scarce):
    """The noise is far below the spread of the functions: an average over draws of them is far off."""
    train, test = scarce
    mean, sd = _processes(mode, train, test, (0, 0))
    expected = -norm.logpdf(test.y, mean, sd).mean()
    assert negative_log_predictive_density(mode, test) == pytest.approx(expected, rel=1e-9)
    # The planted mistake: what this scorer did before, an average over 1,000 sampled functions.
    f = mode.predict_draws(test, random_seed=1)["f"].to_numpy()[0]
    noise = mode.posterior["noise"].to_numpy()[0, 0][test.task]
    sampled = -(logsumexp(norm.logpdf(test.y, f, noise), axis=0) - np.log(len(f))).mean()
    assert sampled - expected > 0.1


def test_predictions_of_a_mode_are_the_closed_form(mode, scarce):
    train, test = scarce
    mean, sd = _processes(mode, train, test, (0, 0))
    found = mode.predict(test, ci_prob=0.8)
    np.testing.assert_allclose(found["mean"], mean, rtol=1e-9)
    np.testing.assert_allclose(found["sd"], sd, rtol=1e-9)
    np.testing.assert_allclose(found["upper"], norm.ppf(0.9, mean, sd), rtol=1e-9)
    assert found.identical(mode.predict(test, ci_prob=0.8, random_seed=9))


def test_units_are_those_of_the_user(split):
    train, test = split
    model = zoo.MultiLaplaceGP(kernel="linear", penalty=1.0, noise_floor=0.05)
    fit = model.fit(train.standardize(), method="map", progress=False)
    found = fit.predict(test)
    expected = -norm.logpdf(test.y, found["mean"], found["sd"]).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected)
    y = fit.predict_draws(test, random_seed=3)["y"].to_numpy()[0]
    # Of 1,000 draws a standard deviation is within 5 of its standard errors: false alarms in 1 of 50,000 runs.
    np.testing.assert_allclose(y.std(axis=0) / found["sd"], 1.0, atol=5.0 / np.sqrt(2000) * 1.5)


def test_draws_of_hyperparameters_make_a_mixture(scarce):
    train, test = scarce
    fit = _given([_mode(train, C) for C in (0.05, 0.5, 3.0)])
    parts = [_processes(fit, train, test, (0, d)) for d in range(3)]
    mean, sd = (np.stack(part) for part in zip(*parts, strict=True))
    expected = -(logsumexp(norm.logpdf(test.y, mean, sd), axis=0) - np.log(3.0)).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected, rel=1e-8)
    found = fit.predict(test)
    np.testing.assert_allclose(found["mean"], mean.mean(axis=0), rtol=1e-7)
    np.testing.assert_allclose(found["sd"], np.sqrt(mean.var(axis=0) + np.mean(sd**2, axis=0)), rtol=1e-7)


@pytest.mark.parametrize("noise", ["learned", 0.1])
def test_kernel_machine_by_maximal_evidence(split, noise):
    train, test = split
    base = pm.gp.cov.ExpQuad(4, ls=2.0)
    kernel = zoo.kernels.ICM(5, np.full(3, 0.7), 0.5, base=base)
    model = zoo.MultiTaskKernelMachine(kernel=kernel, amplitude=1.0, likelihood=zoo.Gaussian(noise=noise))
    fit = model.fit(train, method="exact", draws=3, chains=1, **QUIET)
    sigma = float(fit.posterior["noise"][0, 0]) if noise == "learned" else noise
    X, Z = (np.column_stack([part.X, part.task]) for part in (train, test))
    covariance = fit.factory.covariance_function({"amplitude": 1.0}, train)
    A = zoo.kernels.kernel_matrix(covariance, X) + sigma**2 * np.eye(len(X))
    cross = zoo.kernels.kernel_matrix(covariance, Z, X)
    mean = cross @ np.linalg.solve(A, train.y)
    prior = zoo.kernels.kernel_diagonal(covariance, Z)
    sd = np.sqrt(prior - np.sum(cross * np.linalg.solve(A, cross.T).T, axis=1) + sigma**2)
    expected = -norm.logpdf(test.y, mean, sd).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected, rel=1e-7)
    np.testing.assert_allclose(fit.predict(test)["sd"], sd, rtol=1e-7)


def test_kernel_machine_given_function_values(split):
    """Draws of function values make a mixture, with the conditional law at new inputs in it."""
    train, test = split
    base = pm.gp.cov.ExpQuad(4, ls=2.0)
    kernel = zoo.kernels.ICM(5, np.full(3, 0.7), 0.5, base=base)
    model = zoo.MultiTaskKernelMachine(kernel=kernel, amplitude=1.3)
    fit = model.fit(train, method="gibbs", draws=5, tune=5, chains=2, **QUIET)
    covariance = model.covariance_function({}, train)
    X, Z = (np.column_stack([part.X, part.task]) for part in (train, test))
    K, cross = (
        1.69 * zoo.kernels.kernel_matrix(covariance, X),
        1.69 * zoo.kernels.kernel_matrix(covariance, Z, X),
    )
    gain = np.linalg.solve(K + 1e-10 * 1.69 * np.eye(len(K)), cross.T).T
    left = 1.69 * zoo.kernels.kernel_diagonal(covariance, Z) - np.sum(gain * cross, axis=1)
    mean = fit.posterior["function_values"].to_numpy().reshape(10, -1) @ gain.T
    noise = fit.posterior["noise"].to_numpy().reshape(10, 1)
    sd = np.sqrt(noise**2 + left)
    expected = -(logsumexp(norm.logpdf(test.y, mean, sd), axis=0) - np.log(10.0)).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected, rel=1e-5)
    np.testing.assert_allclose(
        fit.predict(test)["sd"], np.sqrt(mean.var(axis=0) + np.mean(sd**2, axis=0)), rtol=1e-5
    )


@pytest.mark.parametrize("per_task", [(), ("noise",)])
def test_population_by_em(split, per_task):
    train, test = split
    fit = zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=per_task)).fit(train, method="em", progress=False)
    post = {str(name): v.to_numpy()[0, 0] for name, v in fit.posterior.items()}
    mean, sd = np.empty(test.n_rows), np.empty(test.n_rows)
    for t, (known, asked) in enumerate(zip(train.rows_by_task(), test.rows_by_task(), strict=True)):
        X, Z, s2 = train.X[known], test.X[asked], np.broadcast_to(post["noise"], 3)[t] ** 2
        precision = np.linalg.inv(post["feature_cov"]) + X.T @ X / s2
        cov = np.linalg.inv(precision)
        mean[asked] = Z @ post["coefficients"][:, t]
        sd[asked] = np.sqrt(np.sum(Z @ cov * Z, axis=1) + s2)
    expected = -norm.logpdf(test.y, mean, sd).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected, rel=1e-6)
    np.testing.assert_allclose(fit.predict(test)["sd"], sd, rtol=1e-6)


def test_functions_of_a_population_by_em(split):
    """At inputs that the fit has not: what they leave open of the base kernel counts too."""
    train, test = split
    fit = zoo.NIWGaussianProcess(base_kernel="squared_exponential").fit(train, method="em", progress=False)
    found = fit.predict(test)
    draws = fit.predict_draws(test, random_seed=1)
    f, y = (draws[name].to_numpy()[0] for name in ("f", "y"))
    np.testing.assert_allclose(found["mean"], f.mean(axis=0), atol=1e-9)
    # Standard deviations of 1,000 draws, of 18 rows: 5 standard errors; false alarms in 1 of 50,000 runs.
    np.testing.assert_allclose(y.std(axis=0) / found["sd"], 1.0, atol=5.0 / np.sqrt(2000))


def test_functions_of_a_population_by_gibbs(split):
    train, test = split
    model = zoo.NIWGaussianProcess(base_kernel="squared_exponential")
    fit = model.fit(train, method="gibbs", draws=400, tune=50, chains=1, **QUIET)
    found = fit.predict(test, random_seed=2)
    y = fit.predict_draws(test, random_seed=1)["y"].to_numpy()[0]
    # The same posterior draws with and without an average over the noise: 5 standard errors of 400 draws, for 18 rows.
    assert np.abs((y.mean(axis=0) - found["mean"]) / found["sd"]).max() < 5.0 / np.sqrt(400)
    # Tails are heavy, because the scale of what is left open is drawn: more than 5 standard errors of normal draws.
    np.testing.assert_allclose(y.std(axis=0) / found["sd"], 1.0, atol=0.25)


def test_varying_coefficients_and_local_fits():
    rng = np.random.default_rng(3)
    n = 40
    t = rng.uniform(0.0, 3.0, (n, 1))
    X = rng.standard_normal((n, 2))
    y = np.sin(t[:, 0]) * X[:, 0] + 0.5 * X[:, 1] + 0.05 * rng.standard_normal(n)
    data = zoo.MultiTaskData.from_arrays(X, y, t=t)
    train, test = data.take(np.arange(n) < 30), data.take(np.arange(n) >= 30)
    for model in (zoo.VaryingCoefficientGP(), zoo.KernelLocalSmoothing()):
        fit = model.fit(train, method="exact", draws=2, chains=1, **QUIET)
        found = fit.predict(test)
        expected = -norm.logpdf(test.y, found["mean"], found["sd"]).mean()
        assert negative_log_predictive_density(fit, test) == pytest.approx(expected)


# ---------------------------------------------------------------- models whose functions follow from the draws


@pytest.mark.parametrize("by_task", [False, True])
def test_conjugate_regression_makes_a_mixture_over_its_draws(split, by_task):
    train, test = split
    model = zoo.IndependentTasks() if by_task else zoo.PooledTasks()
    fit = model.fit(train, draws=25, chains=2, **QUIET)
    w = fit.posterior["coefficients"].to_numpy().reshape(50, 4, -1)
    noise = fit.posterior["noise"].to_numpy().reshape(50, -1)
    task = test.task if by_task else np.zeros_like(test.task)
    mean = np.einsum("nd,sdn->sn", test.X, w[:, :, task])
    sd = noise[:, task]
    found = fit.predict(test, ci_prob=0.9)
    np.testing.assert_allclose(found["sd"], np.sqrt(mean.var(axis=0) + np.mean(sd**2, axis=0)))
    below = norm.cdf(found["lower"].to_numpy(), mean, sd).mean(axis=0)
    np.testing.assert_allclose(below, 0.05, atol=1e-8)
    expected = -(logsumexp(norm.logpdf(test.y, mean, sd), axis=0) - np.log(50.0)).mean()
    assert negative_log_predictive_density(fit, test) == pytest.approx(expected)


# ---------------------------------------------------------------- labels


def test_class_probability_by_laplace_is_an_integral(split):
    """Of one normal law of f at each row; and the log loss follows."""
    train, test = (zoo.MultiTaskData.from_arrays(d.X, d.X[:, 0] > 0.3 * d.X[:, 1], d.task) for d in split)
    base = pm.gp.cov.ExpQuad(4, ls=2.0)
    kernel = zoo.kernels.ICM(5, np.full(3, 0.7), 0.5, base=base)
    model = zoo.MultiTaskKernelMachine(kernel=kernel, likelihood="logistic", amplitude=2.0)
    fit = model.fit(train, method="laplace", draws=2000, chains=2, **QUIET)
    found = fit.predict(test)
    f = fit.predict_draws(test, random_seed=1)["f"].to_numpy().reshape(-1, test.n_rows)
    mean, sd = found["mean"].to_numpy(), found["sd"].to_numpy()
    # 4,000 independent draws: 4.5 standard errors of 18 means and standard deviations, 1 false alarm in 5,000 runs.
    assert np.abs((f.mean(axis=0) - mean) / sd).max() < 4.5 / np.sqrt(4000)
    np.testing.assert_allclose(f.std(axis=0) / sd, 1.0, atol=4.5 / np.sqrt(8000))
    node, weight = np.polynomial.hermite_e.hermegauss(120)
    expected = expit(mean[:, None] + sd[:, None] * node) @ weight / np.sqrt(2.0 * np.pi)
    np.testing.assert_allclose(found["probability"], expected, atol=1e-8)
    assert compare({"a": fit}, test).loc["a", "log loss"] == pytest.approx(log_loss(test.y, expected))


# ---------------------------------------------------------------- subclasses


class _Doubled(zoo.MultiLaplaceGP):
    def latent(self, data, priors):
        return 2.0 * super().latent(data, priors)


class _Wide(Gaussian):
    """A density of its own, which is not that of the class it inherits from."""

    def term(self, f, y, **parameters):
        return pm.Laplace("y", f, parameters["noise"], observed=y, dims="obs")


def test_an_overridden_hook_counts(scarce):
    """Moments of the original would be wrong: draws by the model's own graph are taken."""
    train, test = scarce
    fits = [_mode(train, C) for C in (0.05, 0.5, 3.0)]
    plain = _given(fits)
    doubled = replace(plain, factory=_Doubled(**plain.factory.to_spec()["fields"]))
    assert np.ptp(np.asarray(plain.predict(test)["mean"])) > 0.0
    f = plain.predict_draws(test, random_seed=4)["f"].to_numpy()[0]
    np.testing.assert_allclose(doubled.predict(test, random_seed=4)["mean"], 2.0 * f.mean(axis=0))


def test_a_density_of_its_own_is_no_normal_one(split):
    train, test = split
    fit = zoo.PooledTasks().fit(train, draws=5, chains=1, **QUIET)
    with pytest.raises(ValueError, match="density is not Gaussian"):
        negative_log_predictive_density(replace(fit, factory=zoo.PooledTasks(likelihood=_Wide())), test)


# ---------------------------------------------------------------- leave-one-out


def test_leave_one_out_is_that_of_each_row_given_the_others(split):
    """Each row by the conditional normal law of the others, written out; repeated inputs are among them."""
    train = split[0]
    train = train.take(np.append(np.arange(train.n_rows), [0, 0, 7]))
    train = replace(train, y=train.y + 0.1 * np.random.default_rng(1).standard_normal(train.n_rows))
    base = pm.gp.cov.ExpQuad(4, ls=2.0)
    kernel = zoo.kernels.ICM(5, np.full(3, 0.7), 0.5, base=base)
    fit = zoo.MultiTaskKernelMachine(kernel=kernel, amplitude=1.0, likelihood=zoo.Gaussian(noise=0.1)).fit(
        train, method="exact", draws=200, chains=2, **QUIET
    )
    X = np.column_stack([train.X, train.task])
    A = zoo.kernels.kernel_matrix(fit.factory.covariance_function({}, train), X) + 0.01 * np.eye(len(X))
    expected = np.empty(len(X))
    for i in range(len(X)):
        rest = np.arange(len(X)) != i
        gain = np.linalg.solve(A[np.ix_(rest, rest)], A[rest, i])
        sd = np.sqrt(A[i, i] - gain @ A[rest, i])
        expected[i] = norm.logpdf(train.y[i], gain @ train.y[rest], sd)
    found = zoo.diagnostics.loo(fit, pointwise=True)
    np.testing.assert_allclose(found.elpd_i, expected, rtol=1e-6)
    assert found.elpd == pytest.approx(expected.sum())
    assert found.p > 0.0


def test_leave_one_out_without_digits_is_refused():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(24, 60))
    data = zoo.MultiTaskData.from_arrays(X, X[:, 0] + rng.normal(size=24), np.repeat(["a", "b"], 12))
    fit = zoo.MultiTaskKernelMachine(likelihood=zoo.Gaussian(noise=1e-4)).fit(
        data, "exact", draws=4, chains=1, random_seed=1, progress=False
    )
    with pytest.raises(ValueError, match="leave-one-out has no digits in row"):
        zoo.diagnostics.loo(fit)


def test_log_likelihood_of_a_conditioned_task_with_inputs_of_its_own_is_refused_by_name():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    data = zoo.MultiTaskData.from_arrays(
        X, np.sin(X[:, 0]) + 0.1 * rng.normal(size=30), np.repeat(["a", "b"], 15)
    )
    fit = zoo.NIWGaussianProcess().fit(
        data, "gibbs", draws=5, tune=5, chains=1, random_seed=1, progress=False
    )
    new = zoo.MultiTaskData.from_arrays(rng.normal(size=(4, 2)), rng.normal(size=4), ["newcomer"] * 4)
    with pytest.warns(UserWarning, match="inputs that the fit has not"):
        grown = fit.condition(new, random_seed=1)
    with pytest.raises(ValueError, match=r"'newcomer' came by `condition`.*Fit all tasks together"):
        grown.compute_log_likelihood()


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_some_tasks_are_predicted_as_among_all(method):
    """Every task has a noise of its own: a prediction of one task alone takes that task's, and its draws."""
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(6), 12)
    X = rng.standard_normal((72, 2))
    y = X @ [1.0, -1.0] + np.array([0.1, 0.3, 1.0, 3.0, 0.2, 2.0])[task] * rng.standard_normal(72)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    model = zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",)))
    run = {} if method == "em" else {"draws": 200, "tune": 100, "chains": 2}
    fit = model.fit(data, method, random_seed=1, progress=False, **run)
    every = fit.predict(data, random_seed=1)
    for names in (["task 3"], ["task 5", "task 1"]):
        rows = np.flatnonzero(np.isin(task, [int(name[-1]) for name in names]))
        some = fit.predict(X[rows], [f"task {t}" for t in task[rows]], random_seed=1)
        for column in ("mean", "sd", "lower", "upper"):
            np.testing.assert_allclose(some[column], every[column][rows], rtol=1e-9, atol=1e-12)
    # Draws as well: of the noise of the third task, ten times that of the first one.
    spread = [
        (fit.predict_draws(X[:1], f"task {t}", random_seed=1)).pipe(lambda d: d["y"] - d["f"]).std()
        for t in (0, 3)
    ]
    assert spread[1] > 5.0 * spread[0]


@pytest.mark.scheduled  # it compiles for two minutes
def test_degrees_of_new_tasks_are_to_blame_for_infinite_draws():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((120, 2))
    data = zoo.MultiTaskData.from_arrays(
        X, X.sum(axis=1) + 0.3 * rng.standard_normal(120), np.repeat([0, 1], 60)
    )
    factory = zoo.IndependentTasks(likelihood=zoo.StudentT(degrees=zoo.likelihoods.Gamma(0.3, 0.1)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        quick = {"nuts_sampler": "pymc", "max_treedepth": 4}  # less to compile
        fit = factory.fit(data, draws=50, tune=100, chains=1, random_seed=1, progress=False, nuts=quick)
    assert fit.posterior["degrees"].min() > 1.0  # those of known tasks are not
    with pytest.raises(ValueError, match="degrees of freedom of Student's t are as few as"):
        fit.predict(X[:40], [f"new {i}" for i in range(40)], new_task=True, random_seed=1)
