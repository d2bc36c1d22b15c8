"""Normal-inverse-Wishart hierarchies: the full-Bayes posterior, new tasks, and what is refused."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
import xarray as xr
from scipy import stats

import zoo
from tests.comparisons import largest_z, mean_and_error
from tests.models.populations import Z_LIMIT, functions_on_shared_inputs, tasks_of_a_population
from zoo.core.methods import UnsupportedMethodError


def _quantities(posterior: xr.Dataset, names=("coefficients", "population_mean", "feature_cov")):
    """Means and squares of coefficients, the population's mean, log determinant and variances, log noise."""
    values, mean, cov = names
    dim = posterior[mean].dims[-1]
    w = posterior[values].transpose("chain", "draw", dim, "task").to_numpy()
    result = {}
    for i, j in np.ndindex(w.shape[2:]):
        result[f"w {i},{j}"] = w[:, :, i, j]
        result[f"w^2 {i},{j}"] = w[:, :, i, j] ** 2
    C = posterior[cov].to_numpy()
    result["log det"] = np.linalg.slogdet(C)[1]
    for i in range(C.shape[-1]):
        result[f"mu {i}"] = posterior[mean].to_numpy()[..., i]
        result[f"log variance {i}"] = np.log(C[..., i, i])
    noise = posterior["noise"].to_numpy()
    result["log noise"] = np.log(noise if noise.ndim == 2 else noise[..., 0])
    if "pi" in posterior:
        result["log pi"] = np.log(posterior["pi"].to_numpy())
    return result


# ---------------------------------------------------------------- full Bayes


@pytest.mark.scheduled
@pytest.mark.parametrize("pi", [0.3, "learned"])
def test_gibbs_and_nuts_agree(pi):
    """Both engines, with and without group moves, have the same means of 46 quantities, and of a learned pi."""
    model = zoo.NIWLinear(
        likelihood=zoo.Gaussian(per_task=("noise",)),
        delta=4.0,
        pi=pi,
        scale_matrix=[[0.5, 0.1, 0], [0.1, 0.4, 0], [0, 0, 1.0]],
    )
    data = tasks_of_a_population()
    options = {"tune": 500, "chains": 2, "progress": False}
    gibbs = model.fit(data, "gibbs", draws=8000, random_seed=1, group_moves=False, **options)
    moves = model.fit(data, "gibbs", draws=8000, random_seed=2, group_moves=True, **options)
    nuts = model.fit(data, "nuts", draws=1000, random_seed=3, nuts={"target_accept": 0.9}, **options)
    first, second, third = (_quantities(fit.posterior) for fit in (gibbs, moves, nuts))
    for pair in ((first, second), (first, third), (second, third)):
        z, where = largest_z(*pair)
        assert z < Z_LIMIT, where


def test_known_population_covariance_and_noise_give_the_closed_form():
    """Very sure priors of C and of the noise: coefficients and their mean are jointly Gaussian."""
    data, sure, noise, pi = tasks_of_a_population(), 1e9, 0.4, 0.5
    C = np.array([[0.5, 0.1, 0], [0.1, 0.4, 0], [0, 0, 1.0]])
    model = zoo.NIWLinear(
        pi=pi,
        delta=sure,
        scale_matrix=sure * C,
        likelihood=zoo.Gaussian(noise=zoo.likelihoods.InverseGammaOfSquare(sure, sure * noise**2)),
    )
    draws = model.fit(data, "gibbs", draws=6000, tune=100, chains=2, random_seed=1, progress=False).posterior
    T, D = data.n_tasks, data.n_features
    # All coefficients together: prior covariance (I + 11'/pi) kron C.
    prior = np.kron(np.eye(T) + 1.0 / pi, C)
    rows = np.zeros((data.n_rows, T * D))
    for i, t in enumerate(data.task):
        rows[i, t * D : (t + 1) * D] = data.X[i]
    gain = prior @ rows.T @ np.linalg.inv(rows @ prior @ rows.T + noise**2 * np.eye(data.n_rows))
    mean, cov = gain @ data.y, prior - gain @ rows @ prior
    w = draws["coefficients"].transpose("chain", "draw", "task", "feature").to_numpy().reshape(2, -1, T * D)
    for i in range(T * D):
        estimate, error = mean_and_error(w[..., i])
        assert abs(estimate - mean[i]) < Z_LIMIT * error
        square, error = mean_and_error((w[..., i] - mean[i]) ** 2)
        assert abs(square - cov[i, i]) < Z_LIMIT * error


@pytest.mark.statistical
@pytest.mark.parametrize("pi", [0.7, "learned"])
def test_one_function_against_quadrature(pi):
    """One task at two inputs with known noise: given pi the prior of its values is a bivariate Student-t law."""
    delta, noise = 3.0, 0.5
    y = np.array([0.8, -0.4])
    data = zoo.MultiTaskData.from_arrays(np.array([[0.0], [0.7]]), y, ["a", "a"])
    model = zoo.NIWGaussianProcess(
        delta=delta,
        pi=pi,
        likelihood=zoo.Gaussian(noise=zoo.likelihoods.InverseGammaOfSquare(1e9, 1e9 * noise**2)),
    )
    fit = model.fit(data, "gibbs", draws=20000, tune=200, chains=2, random_seed=1, progress=False)
    kappa = np.exp(-0.5 * np.subtract.outer([0.0, 0.7], [0.0, 0.7]) ** 2)
    grid = np.linspace(-4, 4, 201)
    points = np.stack(np.meshgrid(grid, grid, indexing="ij"), axis=-1)
    # A learned pi is chi-squared with one degree of freedom: its quantiles at the middles of 200 equal parts.
    given = stats.chi2(1).ppf((np.arange(200) + 0.5) / 200) if pi == "learned" else [pi]
    laws = [stats.multivariate_t(shape=kappa * (1 + 1 / p) / delta, df=delta) for p in given]
    weight = np.mean([law.pdf(points) for law in laws], axis=0) * np.exp(
        -0.5 * np.sum((points - y) ** 2, axis=-1) / noise**2
    )
    weight /= weight.sum()
    f = fit.posterior["function_values"].isel(task=0).transpose("chain", "draw", "input").to_numpy()
    for i in range(2):
        for power in (1, 2):
            estimate, error = mean_and_error(f[..., i] ** power)
            assert abs(estimate - np.sum(weight * points[..., i] ** power)) < Z_LIMIT * error


@pytest.mark.scheduled
@pytest.mark.statistical
@pytest.mark.parametrize("pi", [0.5, "learned"])
def test_predictions_elsewhere_are_those_with_the_inputs_in_the_data(pi):
    """Dawid's delta: inputs without labels change nothing, and the kernel elsewhere is the posterior's."""
    x = np.array([-0.35, 0.55, 1.6])
    model = zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.ExpQuad(1, ls=0.6) * 0.8, pi=pi)
    options = {"method": "gibbs", "draws": 10000, "tune": 500, "chains": 4, "progress": False}
    small = model.fit(functions_on_shared_inputs(T=4, n=5), random_seed=1, **options)
    large = model.fit(functions_on_shared_inputs(x, T=4, n=5), random_seed=2, **options)
    inductive = small.predict_draws(x[:, None], "task 1", random_seed=3)["f"].to_numpy()
    new = small.predict_draws(x[:, None], new_task=True, random_seed=3)["f"].to_numpy()
    values = large.posterior["function_values"].isel(input=slice(5, None))
    transductive = values.sel(task="task 1").transpose("chain", "draw", "input").to_numpy()
    other = large.predict_draws(x[:, None], new_task=True, random_seed=4)["f"].to_numpy()
    for one, two in ((inductive, transductive), (new, other)):
        for shape in (np.asarray, np.abs, lambda v: 1.0 * (np.abs(v) > 1)):
            pair = [{i: shape(v[..., i]) for i in range(3)} for v in (one, two)]
            z, where = largest_z(*pair)
            assert z < 4.0, (shape, where)
    points = np.append(np.linspace(-1, 1, 5), x)[:, None]
    learned = small.learned_kernel().kernel_matrix(points)
    draws = large.posterior["function_cov"].to_numpy()
    for i, j in np.ndindex(8, 8):
        estimate, error = mean_and_error(draws[..., i, j])
        assert abs(estimate - learned[i, j]) < 6 * error  # `learned` has an error of about the same size


@pytest.mark.statistical
def test_residuals_follow_the_draws_of_pi():
    """Null: what new inputs add, divided by the root of |w|^2 + 1/pi + 1, is t with delta + r degrees of freedom.

    Given w and s it is normal with variance s times that, and s is IG((delta + r)/2, 1/2): a t law. The test of
    Kolmogorov and Smirnov raises a false alarm with probability 1e-5.
    """
    rng, shape, rank = np.random.default_rng(0), (1, 20000), 3
    model = zoo.NIWGaussianProcess(pi="learned", delta=2.0)
    pi = np.exp(2.0 * rng.standard_normal(shape))
    values = rng.standard_normal((*shape, rank, 1))
    residual = model._residual(values, pi, np.eye(rank), False, rng)[..., 0]
    spread = np.sqrt(np.sum(values[..., 0] ** 2, axis=-1) + 1.0 / pi + 1.0)
    law = stats.t(2.0 + rank, scale=1.0 / np.sqrt(2.0 + rank))
    assert stats.kstest((residual / spread).ravel(), law.cdf).pvalue > 1e-5


@pytest.mark.statistical
def test_dawids_delta_holds_for_subsets_and_the_textbook_nu_does_not():
    """K at one of two inputs and of six has one law, inverse gamma (delta/2, kappa/2). With nu fixed it has not."""
    delta, draws = 3.0, 4000
    law = stats.invgamma(delta / 2, scale=0.5)
    for n in (2, 6):
        data = zoo.MultiTaskData.from_arrays(np.arange(float(n))[:, None], np.arange(float(n)), ["a"] * n)
        model = zoo.NIWGaussianProcess(delta=delta).build(data)
        variance = pm.draw(model["function_cov"][0, 0], draws=draws, random_seed=n)
        assert stats.kstest(variance, law.cdf).pvalue > 1e-5
    nu = delta + 1.0  # right for two inputs
    textbook = zoo.distributions.InverseWishart.dist(nu=nu + 4.0, scale=np.eye(6))
    assert stats.kstest(pm.draw(textbook[0, 0], draws=draws, random_seed=1), law.cdf).pvalue > 1e-5
    wrong = zoo.distributions.InverseWishart.dist(nu=nu, scale=np.eye(2))
    with pytest.raises(ValueError, match="nu"):
        pm.draw(zoo.distributions.InverseWishart.dist(nu=nu, scale=np.eye(6)))
    larger = zoo.distributions.InverseWishart.dist(nu=nu + 2.0, scale=np.eye(2))
    assert stats.kstest(pm.draw(wrong[0, 0], draws=draws, random_seed=2), law.cdf).pvalue > 1e-5
    assert stats.kstest(pm.draw(larger[0, 0], draws=draws, random_seed=3), law.cdf).pvalue < 1e-5


@pytest.mark.statistical
def test_lkj_prior():
    """Unit rows, and each correlation of 4 x 4 has the LKJ's margin, beta(eta - 1 + 4/2) on (-1, 1)."""
    data = tasks_of_a_population(D=4)
    model = zoo.NIWLinear(covariance_prior="lkj", scale_matrix=1.0).build(data)
    C = pm.draw(model["feature_cov"], draws=3000, random_seed=1)
    deviation = np.sqrt(np.diagonal(C, axis1=1, axis2=2))
    correlation = C / (deviation[:, :, None] * deviation[:, None, :])
    law = stats.beta(3.0, 3.0, loc=-1.0, scale=2.0)
    for i, j in zip(*np.tril_indices(4, -1), strict=True):
        assert stats.kstest(correlation[:, i, j], law.cdf).pvalue > 1e-5
        assert stats.kstest(deviation[:, i], stats.halfnorm.cdf).pvalue > 1e-5


def test_draws_do_not_depend_on_cores():
    """Bit for bit."""
    model, data = zoo.NIWLinear(), tasks_of_a_population()
    options = {"method": "gibbs", "draws": 5, "tune": 5, "chains": 2, "random_seed": 4, "progress": False}
    assert model.fit(data, cores=1, **options).posterior.equals(model.fit(data, cores=2, **options).posterior)


def test_starting_values_come_back():
    """``set_values`` puts a draw into the state."""
    data = tasks_of_a_population()
    model = zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",)), scale_matrix=0.3)
    kernel = model.gibbs_kernel(model.design(data), data.y)
    rng = np.random.default_rng(0)
    first, second = kernel.initialise(rng), kernel.initialise(rng)
    for _ in range(3):
        kernel.sweep(rng, first)
    kernel.set_values(second, kernel.record(first))
    for name, value in kernel.record(first).items():
        np.testing.assert_allclose(kernel.record(second)[name], value, rtol=1e-9, atol=1e-12)


# ---------------------------------------------------------------- new tasks


@pytest.mark.parametrize("method", ["em", "gibbs"])
def test_condition_on_a_few_labels(method, tmp_path):
    """Coefficients of a new task are those of Gaussian regression given each draw of the population."""
    data = tasks_of_a_population().standardize()
    fit = zoo.NIWLinear().fit(data, method, draws=400, tune=100, chains=2, random_seed=1, progress=False)
    rng = np.random.default_rng(5)
    X, y = rng.normal(size=(3, 3)), rng.normal(size=3)
    X[:, 0] = 1.0
    more = fit.condition(zoo.MultiTaskData.from_arrays(X, y, ["new"] * 3), random_seed=2)
    assert more.data.n_tasks == data.n_tasks + 1
    assert more.conditioned == ("new",)
    assert more.population_data.task_names == data.task_names
    x, v = data.transform.apply_x(X), data.transform.apply_y(y)
    exact = []
    for c, d in np.ndindex(fit.posterior.sizes["chain"], fit.posterior.sizes["draw"]):
        draw = fit.posterior.isel(chain=c, draw=d)
        C, mu = draw["feature_cov"].to_numpy(), draw["population_mean"].to_numpy()
        gain = C @ x.T @ np.linalg.inv(x @ C @ x.T + float(draw["noise"]) ** 2 * np.eye(3))
        exact.append((mu + gain @ (v - x @ mu), np.diag(C - gain @ x @ C)))
    mean, variance = (np.array(part) for part in zip(*exact, strict=True))
    found = more.posterior["coefficients"].sel(task="new").to_numpy().reshape(-1, 3)
    if method == "em":
        np.testing.assert_allclose(found, mean, atol=1e-10)
    else:
        z = (found - mean) / np.sqrt(variance)  # standard normal, independent over draws
        assert stats.kstest(z.ravel(), stats.norm.cdf).pvalue > 1e-5
    old = more.posterior["coefficients"].isel(task=slice(0, -1))
    assert np.array_equal(old, fit.posterior["coefficients"])
    back = zoo.load(more.save(tmp_path / "fit.nc"))
    assert back.conditioned == ("new",)
    assert back.predict(X, "new", random_seed=1).equals(more.predict(X, "new", random_seed=1))


def test_condition_a_function_that_repeats_a_task():
    """EM: a new task with the rows of an old one gets its function, also where the inputs are given again."""
    data = functions_on_shared_inputs()
    fit = zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.Matern32(1, ls=0.4)).fit(data, "em", progress=False)
    rows = data.rows_by_task()[3]
    copy = zoo.MultiTaskData.from_arrays(data.X[rows], data.y[rows], ["copy"] * len(rows))
    more = fit.condition(copy)
    both = more.posterior["function_values"]
    np.testing.assert_allclose(both.sel(task="copy"), both.sel(task="task 3"), atol=1e-8)
    x = np.array([[0.123], [2.0]])
    np.testing.assert_allclose(
        more.predict(x, "copy", random_seed=1)["mean"],
        fit.predict(x, "task 3", random_seed=1)["mean"],
        atol=1e-8,
    )


def test_a_function_at_inputs_never_seen():
    """Labels of a new task far from all inputs pull its function only as far as the base kernel lets them."""
    fit = zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.Matern32(1, ls=0.4)).fit(
        functions_on_shared_inputs(), "em", progress=False
    )
    far = zoo.MultiTaskData.from_arrays(np.array([[9.0]]), np.array([30.0]), ["far"])
    near = fit.predict(np.array([[0.0]]), new_task=True, random_seed=1)["mean"]
    with pytest.warns(UserWarning, match="inputs that the fit has not"):
        more = fit.condition(far)
    pulled = more.predict(np.array([[0.0]]), "far", random_seed=1)["mean"]
    np.testing.assert_allclose(pulled, near, atol=1e-3)


# ---------------------------------------------------------------- bad input


def test_wrong_fields_are_named():
    """One message each, with what to do."""
    for fields, name in (
        ({"pi": 0.0}, "pi"),
        ({"pi": "one"}, "pi"),
        ({"delta": -1.0}, "delta"),
        ({"tau": 0.0}, "tau"),
        ({"tau": "paper"}, "tau"),
        ({"likelihood": "normal"}, "likelihood"),
        ({"scale_matrix": -1.0}, "scale_matrix"),
        ({"covariance_prior": "wishart"}, "covariance_prior"),
    ):
        with pytest.raises(ValueError, match=name):
            zoo.NIWLinear(**fields)
    with pytest.raises(ValueError, match="scale_matrix is 2 x 2, but the data have 3 features"):
        zoo.NIWLinear(scale_matrix=np.eye(2)).build(tasks_of_a_population())


def test_wrong_base_kernels():
    """Of other inputs, not a covariance, not positive semi-definite at the data."""
    data = functions_on_shared_inputs(T=2, n=4)

    class Negative(pm.gp.cov.Covariance):
        def full(self, X, Xs=None):
            return -pm.gp.cov.ExpQuad(1, ls=1.0).full(X, Xs)

        def diag(self, X):
            return -pm.gp.cov.ExpQuad(1, ls=1.0).diag(X)

    with pytest.raises(ValueError, match="input_dim 3, but the data have 1"):
        zoo.NIWGaussianProcess(base_kernel=pm.gp.cov.ExpQuad(3, ls=1.0)).build(data)
    with pytest.raises(ValueError, match="not positive semi-definite"):
        zoo.NIWGaussianProcess(base_kernel=Negative(1)).build(data)
    with pytest.raises(TypeError, match="base_kernel is a float"):
        zoo.NIWGaussianProcess(base_kernel=3.0)
    with pytest.raises(ValueError, match="base_kernel"):
        zoo.NIWGaussianProcess(base_kernel="cubic")


def test_a_covariance_of_the_users_own(tmp_path):
    """It serves; only a file cannot describe it, and says what to do."""

    class Mine(pm.gp.cov.ExpQuad):
        pass

    fit = zoo.NIWGaussianProcess(base_kernel=Mine(1, ls=0.5)).fit(
        functions_on_shared_inputs(T=3, n=5), "em", progress=False
    )
    assert np.isfinite(fit.predict(np.array([[0.1]]), "task 0")["mean"]).all()
    with pytest.raises(TypeError, match="base_covariance"):
        fit.save(tmp_path / "fit.nc")


def test_what_cannot_be_conditioned_or_has_no_kernel():
    """Known tasks, other likelihoods, other models."""
    data = tasks_of_a_population()
    fit = zoo.NIWLinear().fit(data, "em", progress=False)
    with pytest.raises(ValueError, match="'t1' of task_data is in the fit already"):
        fit.condition(data.select_tasks(["t1"]))
    pooled = zoo.PooledTasks().fit(data, draws=2, tune=0, chains=1, progress=False)
    with pytest.raises(UnsupportedMethodError, match="new fit"):
        pooled.condition(data.select_tasks(["t1"]))
    with pytest.raises(UnsupportedMethodError, match="no kernel"):
        pooled.learned_kernel()


@pytest.mark.usefixtures("uncompiled")
def test_condition_refuses_a_subclass_with_other_hooks():
    """What its hooks add to f would be left out of the new task's labels, and added to its predictions."""

    class Raised(zoo.NIWLinear):
        def latent(self, data, priors):
            return super().latent(data, priors) + 100.0

    data = tasks_of_a_population()
    fit = Raised().fit(
        data, "nuts", draws=3, tune=3, chains=1, random_seed=1, progress=False, nuts={"nuts_sampler": "pymc"}
    )
    with pytest.raises(UnsupportedMethodError, match="`latent`"):
        fit.condition(zoo.MultiTaskData.from_arrays(data.X[:2], data.y[:2], ["new"] * 2))
    with pytest.raises(TypeError, match="task_data is a ndarray"):
        zoo.NIWLinear().fit(data, "em", progress=False).condition(data.X)


@pytest.mark.statistical
def test_labels_under_nuts():
    """Logistic tasks: probabilities of known and of new tasks."""
    data = tasks_of_a_population()
    labels = replace(data, y=np.where(data.y > np.median(data.y), 1.0, -1.0))
    fit = zoo.NIWLinear(likelihood="logistic").fit(
        labels, "nuts", draws=20, tune=20, chains=1, random_seed=1, progress=False
    )
    assert fit.method == "nuts"
    w = fit.posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()
    f = np.einsum("nd,sdn->sn", data.X, w[0][..., data.task])
    density = fit.compute_log_likelihood()["log_likelihood"]["y"].to_numpy()[0]
    np.testing.assert_allclose(density, stats.logistic.logcdf(labels.y * f), atol=1e-10)
    for arguments in ({"task": "t1"}, {"new_task": True}):
        predicted = fit.predict(data.X[:4], random_seed=1, **arguments)
        assert np.all((predicted["probability"] > 0) & (predicted["probability"] < 1))
        assert set(np.unique(predicted["label"])) <= {-1.0, 1.0}


@pytest.mark.statistical
def test_student_t_density_and_priors():
    """At joint draws of the model: the likelihood by scipy, and the laws of what it has beside the coefficients."""
    data = tasks_of_a_population()
    model = zoo.NIWLinear(
        likelihood=zoo.StudentT(noise=zoo.likelihoods.InverseGammaOfSquare(3.0, 2.0))
    ).build(data)
    names = ("coefficients", "noise", "degrees")
    w, noise, degrees, density = pm.draw(
        [*(model[name] for name in names), pm.logp(model["y"], data.y)], draws=2000, random_seed=1
    )
    f = np.einsum("nd,sdn->sn", data.X, w[..., data.task])
    exact = stats.t.logpdf(data.y, degrees[:, None], f, noise[:, None])
    np.testing.assert_allclose(density, exact, atol=1e-9)
    assert stats.kstest(noise**2, stats.invgamma(3.0, scale=2.0).cdf).pvalue > 1e-5
    assert stats.kstest(degrees, stats.gamma(2.0, scale=10.0).cdf).pvalue > 1e-5


def test_noise_of_each_task():
    """Every method has one noise per task; a new task has that of some task."""
    data = tasks_of_a_population()
    model = zoo.NIWLinear(
        likelihood=zoo.Gaussian(per_task=("noise",)), scale_matrix=[[0.5, 0.1, 0], [0.1, 0.5, 0], [0, 0, 1]]
    )
    for method in ("gibbs", "em"):
        fit = model.fit(data, method, draws=10, tune=5, chains=1, random_seed=1, progress=False)
        assert fit.posterior["noise"].dims == ("chain", "draw", "task")
        assert np.isfinite(fit.predict(data.X[:3], new_task=True, random_seed=1)["sd"]).all()


def test_tasks_without_rows_are_functions_of_the_population():
    """Transduction: a task without labels is warned of, and every method takes it."""
    data = functions_on_shared_inputs(T=3, n=5)
    empty = replace(data, task_names=(*data.task_names, "nobody"))
    model = zoo.NIWGaussianProcess()
    for method in ("gibbs", "em"):
        with pytest.warns(UserWarning, match="nobody"):
            fit = model.fit(empty, method, draws=50, tune=10, chains=1, random_seed=1, progress=False)
        assert np.all(np.isfinite(fit.predict(data.inputs, "nobody", random_seed=1)["mean"]))


def test_the_default_method_follows_the_number_of_inputs():
    """Gibbs for few inputs, EM for many."""
    model = zoo.NIWGaussianProcess()
    assert model.default_method(functions_on_shared_inputs(n=20)) == "gibbs"
    repeated = zoo.MultiTaskData.from_arrays(np.zeros((200, 1)), np.zeros(200), ["a"] * 200)
    assert model.default_method(repeated) == "gibbs"
    assert model.default_method(functions_on_shared_inputs(n=200)) == "em"
