"""Gibbs sampling of varying-coefficient models: hyper-parameters with the functions integrated out."""

from dataclasses import replace

import numpy as np
import pytest

import zoo
from tests.comparisons import largest_z, mean_and_error
from tests.daily import daily
from zoo.diagnostics import kernel_test
from zoo.likelihoods import LogNormal
from zoo.models.varying_coefficient.sampled import SampledValues, SampledWeights

ALPHA = 1e-5 / 10
SHORT = {"draws": 12, "tune": 12, "chains": 2, "random_seed": 1, "progress": False}


def data_of(responses="real", n_rows=24, n_tasks=1, seed=0):
    """Rows of two features whose coefficients vary over t."""
    rng = np.random.default_rng(seed)
    X, t, task = rng.standard_normal((n_rows, 1)), rng.uniform(0.0, 6.0, n_rows), np.arange(n_rows) % n_tasks
    f = np.cos(t) + np.sin(t) * X[:, 0]
    y = {
        "real": f + 0.3 * rng.standard_normal(n_rows),
        "labels": np.where(f + rng.logistic(size=n_rows) > 0.0, 1.0, -1.0),
        "counts": rng.poisson(np.exp(0.5 * f)).astype(float),
        "grades": 1.0 + np.sum(f + rng.standard_normal(n_rows) > np.array([[-0.5], [0.5]]), axis=0),
    }[responses]
    return zoo.MultiTaskData.from_arrays(X, y, task, t=t)


def sines(n_basis=5):
    return zoo.VaryingComponent(n_basis=n_basis)


def trees():
    return zoo.kernels.TaskTree(("root", "task 0", "task 1", "node", "task 2"), (-1, 0, 0, 0, 3))


MODELS = {
    "function values": {},
    "sines": {"approximation": "hsgp", "task_kernel": sines()},
    "a scale per feature": {"amplitude": "per_feature"},
    "pooled": {"cls": zoo.PooledGP},
    "a tree": {"task_kernel": trees()},
}


def model_of(name, **more):
    fields = {**MODELS[name], **more}
    return fields.pop("cls", zoo.VaryingCoefficientGP)(**fields)


def functions_of(model, data):
    kernel = model.gibbs_kernel(model.design(data), model.validate(data))
    return kernel.prior, kernel


# ---------------------------------------------------------------- the law


def test_the_posterior_of_a_lengthscale_is_that_of_quadrature():
    """One hyper-parameter and Gaussian noise: mean and spread of its logarithm, to 5 Monte-Carlo errors.

    The density is made of the formulas of the covariance and of the normal law alone.
    """
    data = data_of(n_rows=30)
    model = zoo.VaryingCoefficientGP(
        task_kernel=zoo.VaryingComponent(kernel="squared_exponential", amplitude=1.0),
        likelihood=zoo.Gaussian(noise=0.4),
        global_coefficients=False,
    )
    t = (data.t - data.t.mean()) / data.t.std()
    X = np.column_stack([np.ones(30), (data.X - data.X.mean()) / data.X.std()])
    y = data.y - data.y.mean()
    start = model.hyperparameters(model.design(data))["lengthscale"].value
    log_ell = np.linspace(-5.0, 4.0, 2000)
    density = np.empty(len(log_ell))
    for i, ell in enumerate(np.exp(log_ell)):
        S = np.exp(-0.5 * (t - t.T) ** 2 / ell**2) * (X @ X.T) + 0.4**2 * np.eye(30)
        density[i] = -0.5 * (y @ np.linalg.solve(S, y)) - 0.5 * np.linalg.slogdet(S)[1]
    density -= 0.5 * (log_ell - np.log(np.ravel(start)[0])) ** 2
    share = np.exp(density - density.max())
    share /= share.sum()
    mean = share @ log_ell
    fit = model.fit(data, "gibbs", draws=1500, tune=200, chains=2, random_seed=1, progress=False)
    found = np.log(fit.posterior["lengthscale"].to_numpy()).reshape(2, 1500)
    for values, expected in ((found, mean), ((found - mean) ** 2, share @ (log_ell - mean) ** 2)):
        ours, error = mean_and_error(values)
        assert abs(ours - expected) < 5.0 * error


JOINT = {
    "function values, gaussian": ("function values", zoo.Gaussian(noise=LogNormal(-1.0, 0.4))),
    "function values, tube": ("function values", zoo.EpsilonInsensitive(C="learned", epsilon=0.3)),
    "function values, logistic": ("function values", "logistic"),
    "function values, probit": ("function values", "probit"),
    "sines, student t": ("sines", zoo.StudentT(noise=LogNormal(-1.0, 0.4), degrees=5.0)),
    "sines, laplace": ("sines", "laplace_noise"),
    "sines, ordinal": ("sines", zoo.Ordinal(grades=3, width=LogNormal(-0.3, 0.6))),
    "a tree, logistic": ("a tree", "logistic"),
    "pooled, logistic": ("pooled", "logistic"),
    "a scale per feature, negative binomial": (
        "a scale per feature",
        zoo.NegativeBinomial(dispersion=LogNormal(0.7, 0.4)),
    ),
}
DAILY = {
    "function values, gaussian",
    "sines, student t",
    "a tree, logistic",
}


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:ks_2samp.*Exact calculation unsuccessful")  # of ties
@pytest.mark.parametrize("case", daily(JOINT, DAILY))
def test_against_joint_draws(case):
    """The kernel keeps the posterior (Gandy & Scott 2020); each case is rejected with probability 1e-6 at most."""
    name, likelihood = JOINT[case]
    model = model_of(name, likelihood=likelihood)
    data = data_of(model.likelihood.responses, n_rows=9, n_tasks=3)
    result = kernel_test(model, data, sweeps=2, size=500, alpha=ALPHA, random_seed=1)
    assert not result.rejected, str(result)


def test_the_default_prior_of_the_noise_is_that_of_the_model():
    """Its median is half the scale of the responses: the sampler and the model read it alike, far from 1 too."""
    data = data_of(n_rows=12)
    data = replace(data, y=50.0 * data.y)
    model = model_of("sines", likelihood="student_t")
    result = kernel_test(model, data, sweeps=2, size=300, alpha=ALPHA, random_seed=1)
    assert not result.rejected, str(result)


def test_simulated_responses_have_the_scale_of_the_data():
    """Priors look at the responses of the data that are handed in."""
    data = data_of(n_rows=40)
    data = replace(data, y=1000.0 + 50.0 * data.y)
    model = zoo.VaryingCoefficientGP()
    drawn = [model.simulate(data, random_seed=seed) for seed in range(30)]
    noise = np.median([truth["noise"] for _, truth in drawn])
    assert 0.4 < noise / (0.5 * data.y.std()) < 2.5  # the median of 30 draws of a log-normal law, to 3 errors
    assert np.median([np.mean(rows.y) for rows, _ in drawn]) == pytest.approx(data.y.mean(), abs=100.0)


AGREE = {
    "hinge": zoo.Hinge(C=0.7),
    "tube": zoo.EpsilonInsensitive(C="learned", epsilon=0.1),
    "laplace_noise": "laplace_noise",
    "logistic": "logistic",
    "gaussian": "gaussian",
}


@pytest.mark.scheduled
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.parametrize("word", AGREE)
@pytest.mark.parametrize("name", ["function values", "sines"])
def test_gibbs_agrees_with_nuts(name, word):
    """Two engines: the largest |z| of some 20 quantities is below 5, which has a false-alarm rate of about 1e-5."""
    model = model_of(name, likelihood=AGREE[word])
    data = data_of(model.likelihood.responses, n_rows=50)
    shared = {"chains": 4, "tune": 1000, "progress": False}
    gibbs = model.fit(data, "gibbs", draws=2000, random_seed=1, **shared)
    nuts = model.fit(data, "nuts", draws=1500, random_seed=2, nuts={"target_accept": 0.95}, **shared)
    z, where = largest_z(*(quantities(fit) for fit in (gibbs, nuts)))
    assert z < 5.0, f"{where} differs by {z:.1f} Monte-Carlo errors"


def quantities(fit):
    found = {}
    for name, values in fit.posterior.items():
        numbers = values.to_numpy().reshape(*values.shape[:2], -1)[:, :, :12]
        for i in range(numbers.shape[2]):
            held = name in ("function_values", "basis_weights")
            found[f"{name} {i}"] = numbers[:, :, i] if held else np.log(numbers[:, :, i])
    return found


# ---------------------------------------------------------------- its parts


@pytest.mark.parametrize("name", [name for name in MODELS if name != "a tree"])
def test_the_amplitudes_scale_the_function_as_a_whole(name):
    """A step of s along their direction takes the covariance of the function times exp(2 s)."""
    model = model_of(name, likelihood="logistic")
    prior, _ = functions_of(model, data_of("labels", n_tasks=3))
    z = prior.coordinates.start
    direction = prior.scales_together()
    assert direction.sum() == len([n for n in prior.coordinates.hypers if "lengthscale" not in n]) + (
        1.0 if name == "a scale per feature" else 0.0
    )
    before, after = prior.numbers(z), prior.numbers(z + 0.3 * direction)
    if isinstance(prior, SampledWeights):
        np.testing.assert_allclose(after, before + 0.6, atol=1e-12)
    else:
        assert isinstance(prior, SampledValues)
        np.testing.assert_allclose(after, np.exp(0.6) * before, rtol=1e-12)


def test_ridges_hold_what_rows_tell_of_a_matern_process():
    """Along a ridge the short-range variation of each component stays, a^2 / l^(2 nu), and nothing else moves."""
    parts = [zoo.VaryingComponent(kernel=k, name=k) for k in ("matern12", "matern52")]
    model = zoo.VaryingCoefficientGP(task_kernel=parts, amplitude="per_feature")
    prior, kernel = functions_of(model, data_of())
    z, c = prior.coordinates.start, prior.coordinates
    assert len(kernel.ridges) == 2
    for ridge, (name, nu) in zip(kernel.ridges, (("matern12", 0.5), ("matern52", 2.5)), strict=True):
        before, after = c.unpack(z), c.unpack(z + 0.7 * ridge)
        a, ell = f"{name}_amplitude", f"{name}_lengthscale"
        np.testing.assert_allclose(after[a] / after[ell] ** nu, before[a] / before[ell] ** nu, rtol=1e-12)
        assert (after[ell] > before[ell]).all()
        for other in set(before) - {a, ell}:
            np.testing.assert_array_equal(after[other], before[other])
    assert functions_of(zoo.VaryingCoefficientGP(amplitude=1.0), data_of())[1].ridges is None


@pytest.mark.parametrize("fields", [{"amplitude": 1.0}, {"task_kernel": trees()}])
def test_no_move_of_the_scale_where_one_is_no_coordinate(fields):
    prior, kernel = functions_of(
        zoo.VaryingCoefficientGP(likelihood="logistic", **fields), data_of("labels", n_tasks=3)
    )
    expected = None if "amplitude" in fields else prior.scales_together()
    assert (kernel.amplitude is None) == (expected is None)


def test_weights_and_function_values_have_one_law():
    """Sums over the rows of a basis, and of function values with its covariance: the same evidence and mean."""
    data = data_of("labels", n_rows=40)
    model = model_of("sines", likelihood="logistic")
    prior, _ = functions_of(model, data)
    z = prior.coordinates.start + 0.1
    rng = np.random.default_rng(0)
    omega, nu = rng.uniform(0.1, 0.5, 40), rng.standard_normal(40)
    law = prior.condition(prior.numbers(z), prior.sums(omega, nu))
    Phi = prior.kernel.features(prior.rows, slice(0, 40))
    K = (Phi * np.exp(prior.numbers(z))) @ Phi.T
    G = np.eye(40) + np.sqrt(omega)[:, None] * K * np.sqrt(omega)
    mean = K @ (nu - np.sqrt(omega) * np.linalg.solve(G, np.sqrt(omega) * (K @ nu)))
    np.testing.assert_allclose(prior.mean_functions(law), mean, atol=1e-10)
    expected = 0.5 * nu @ mean - 0.5 * np.linalg.slogdet(G)[1]
    assert law.log_evidence == pytest.approx(expected, abs=1e-10)
    variance = 0.3
    gaussian = prior.gaussian(prior.numbers(z), variance)
    S = K + variance * np.eye(40)
    density = -0.5 * (prior.y @ np.linalg.solve(S, prior.y)) - 0.5 * np.linalg.slogdet(2.0 * np.pi * S)[1]
    assert prior.log_marginal(gaussian, variance) == pytest.approx(density, abs=1e-9)


# ---------------------------------------------------------------- as users meet it


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning", "ignore:n_basis is")
@pytest.mark.parametrize("word", ["hinge", "epsilon_insensitive", "laplace_noise", "ordinal"])
@pytest.mark.parametrize("name", ["function values", "sines", "a tree"])
def test_a_cell_predicts_known_and_new_rows(name, word):
    """Draws have the names and dims of the model, the same seed gives the same, and intervals are in order."""
    model = model_of(name, likelihood=zoo.Ordinal(grades=3) if word == "ordinal" else word)
    data = data_of(model.likelihood.responses, n_tasks=3)
    fit, again = (model.fit(data, "gibbs", **SHORT) for _ in range(2))
    built = model.build(data)
    for variable, values in fit.posterior.items():
        np.testing.assert_array_equal(values, again.posterior[variable])
        assert values.dims[2:] == tuple(built.named_vars_to_dims.get(variable, ()))
    assert {v.name for v in (*built.free_RVs, *built.deterministics) if v.name[0] != "_"} == set(
        fit.posterior
    )
    predicted = fit.predict(
        data.X[:4], task=["task 0", "task 1", "task 2", "task 0"], t=data.t[:4] + 0.1, random_seed=1
    )
    assert all(np.isfinite(v).all() for v in predicted.values())
    if "lower" in predicted:
        assert (predicted["lower"] <= predicted["upper"]).all()
    surface = fit.coefficients(
        t=data.t[:3], task=["task 0", "task 1", "task 2"] if name == "a tree" else None
    )
    assert all(np.isfinite(v).all() for v in surface.values())


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_a_fit_that_was_killed_goes_on(tmp_path):
    model, data = model_of("function values", likelihood="hinge"), data_of("labels")
    whole = model.fit(data, "gibbs", **SHORT)
    for _ in range(2):  # the second call reads what the first one wrote
        kept = model.fit(data, "gibbs", **SHORT, checkpoint=tmp_path / "run.zarr")
    np.testing.assert_array_equal(kept.posterior["function_values"], whole.posterior["function_values"])
    kept.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    rows = {"X": data.X[:3], "t": data.t[:3], "task": ["task 0"] * 3, "random_seed": 1}
    np.testing.assert_array_equal(kept.predict(**rows)["probability"], loaded.predict(**rows)["probability"])


@pytest.mark.parametrize(
    ("n_rows", "fields", "method", "approximation"),
    [
        (50, {}, "gibbs", "none"),
        (400, {}, "gibbs", "hsgp"),
        (400, {"task_kernel": trees()}, "gibbs", "none"),
        (400, {"amplitude": "covariance"}, "nuts", "none"),
        (60, {"approximation": "hsgp"}, "gibbs", "hsgp"),
        (60, {"approximation": "fitc"}, "nuts", "fitc"),
    ],
)
def test_what_a_likelihood_with_corners_takes(n_rows, fields, method, approximation):
    """Gibbs sampling by function values while the rows are few, else by a basis; NUTS where it does not serve."""
    from zoo.models.varying_coefficient.methods import choose

    model = zoo.VaryingCoefficientGP(likelihood="hinge", **fields)
    found = choose(model, data_of("labels", n_rows=n_rows, n_tasks=3))
    assert (found.method, found.approximation) == (method, approximation), found.reason


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"amplitude": "covariance"}, "knows no covariance of the coefficients. Use 'nuts', or amplitude="),
        ({"approximation": "fitc"}, "knows no inducing points, and approximation is 'fitc'. Use 'nuts', or"),
        ({"likelihood": "poisson"}, "needs an augmentation .*Poisson has none"),
    ],
)
def test_what_gibbs_does_not_serve_is_said(fields, message):
    model = zoo.VaryingCoefficientGP(**{"likelihood": "hinge", **fields})
    data = data_of(model.likelihood.responses)
    with pytest.raises(ValueError, match=message):
        model.fit(data, "gibbs", **SHORT)


def test_a_subclass_with_hooks_of_its_own_keeps_nuts():
    class Mine(zoo.VaryingCoefficientGP):
        def latent(self, data, priors):
            return super().latent(data, priors)

        def method_table(self):
            return super().method_table()

    assert list(Mine(likelihood="hinge").methods) == ["nuts"]
    with pytest.raises(ValueError, match="overrides the hook `latent`"):
        Mine(likelihood="hinge").fit(data_of("labels"), "gibbs", **SHORT)


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_too_few_sines_are_warned_of():
    rng = np.random.default_rng(0)
    t = np.linspace(0.0, 10.0, 120)
    y = np.where(np.sin(8.0 * t) + 0.1 * rng.standard_normal(120) > 0.0, 1.0, -1.0)
    data = zoo.MultiTaskData.from_arrays(rng.standard_normal((120, 1)), y, np.zeros(120, dtype=int), t=t)
    short = zoo.VaryingComponent(n_basis=8, lengthscale=0.1, features="intercept")
    model = zoo.VaryingCoefficientGP(likelihood="hinge", approximation="hsgp", task_kernel=short)
    with pytest.warns(UserWarning, match=r"n_basis is 8 for 't0', and \d+ would resolve the median"):
        model.fit(data, "gibbs", **SHORT)
