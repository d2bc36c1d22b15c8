"""Priors that users give: distributions of PyMC and PreliZ in fields, and in place of priors of the model."""

from __future__ import annotations

import json
import pickle
from dataclasses import dataclass
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytest
from scipy import stats

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.likelihoods import Beta, Flat, Gamma, Gaussian, LogNormal, StudentT
from zoo.likelihoods.pymc_laws import PyMCLaw, as_law, law_from_spec

FEW = {"draws": 300, "tune": 300, "chains": 2, "random_seed": 1, "progress": False}


def rows(n: int = 40, n_tasks: int = 4, seed: int = 0) -> zoo.MultiTaskData:
    """A constant and one feature, and normal responses."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=n)
    task = [f"t{i % n_tasks}" for i in range(n)]
    return zoo.MultiTaskData.from_arrays(
        np.column_stack([np.ones(n), x]),
        1.0 + 2.0 * x + 0.5 * rng.normal(size=n),
        task,
        feature_names=["intercept", "x"],
    )


# ---------------------------------------------------------------- distributions as laws


@pytest.mark.parametrize(
    ("given", "law"),
    [
        (lambda: pm.LogNormal.dist(0.3, 2.0), LogNormal(0.3, 2.0)),
        (lambda: pm.Gamma.dist(alpha=2.0, beta=0.1), Gamma(2.0, 0.1)),
        (lambda: pm.Beta.dist(2.0, 3.0), Beta(2.0, 3.0)),
        (lambda: pm.HalfFlat.dist(), Flat()),
    ],
)
def test_laws_of_compiled_samplers_are_recognised(given: Any, law: Any) -> None:
    """A distribution that a Gibbs sampler knows becomes its law, so that the sampler stays."""
    assert as_law(given(), "noise") == law


@pytest.mark.parametrize(
    ("given", "frozen", "positive", "unit"),
    [
        (lambda: pm.HalfNormal.dist(2.0), stats.halfnorm(scale=2.0), True, False),
        (lambda: pm.HalfCauchy.dist(2.5), stats.halfcauchy(scale=2.5), True, False),
        (lambda: pm.Exponential.dist(0.5), stats.expon(scale=2.0), True, False),
        (lambda: pm.InverseGamma.dist(3.0, 2.0), stats.invgamma(3.0, scale=2.0), True, False),
        (lambda: pm.Normal.dist(1.0, 3.0), stats.norm(1.0, 3.0), False, False),
        (lambda: pm.StudentT.dist(4.0, mu=1.0, sigma=2.0), stats.t(4.0, 1.0, 2.0), False, False),
        (lambda: pm.Uniform.dist(0.0, 1.0), stats.uniform(), True, True),
        (lambda: pm.Uniform.dist(0.0, 3.0), stats.uniform(0.0, 3.0), True, False),
        (
            lambda: pm.Truncated.dist(pm.Normal.dist(1.0, 1.0), lower=0.0),
            stats.truncnorm(-1.0, np.inf, 1.0, 1.0),
            True,
            False,
        ),
    ],
)
def test_densities_and_draws_are_those_of_scipy(given: Any, frozen: Any, positive: bool, unit: bool) -> None:
    """Density at three points; 2,000 draws by a Kolmogorov-Smirnov test of false-alarm rate 1e-4."""
    law = as_law(given(), "scale")
    at = frozen.ppf([0.1, 0.5, 0.9])
    np.testing.assert_allclose(law.log_density(at), frozen.logpdf(at), rtol=1e-6)
    draws = law.random((1000, 2), np.random.default_rng(3))
    assert draws.shape == (1000, 2)
    assert stats.kstest(draws.ravel(), frozen.cdf).pvalue > 1e-4
    assert (law.positive, law.unit) == (positive, unit)
    assert abs(frozen.cdf(law.typical) - 0.5) < 0.05
    again = law_from_spec(json.loads(json.dumps(law.to_spec())))
    assert again == law
    assert hash(again) == hash(law)


def test_preliz_distributions_serve() -> None:
    """Whatever can become a distribution of PyMC is one, as those of PreliZ."""

    class HalfNormal:
        def to_pymc(self) -> Any:
            return pm.HalfNormal.dist(2.0)

    assert as_law(HalfNormal(), "noise") == PyMCLaw("HalfNormal", (0.0, 2.0))
    preliz = pytest.importorskip("preliz")
    assert as_law(preliz.HalfNormal(2.0), "noise") == PyMCLaw("HalfNormal", (0.0, 2.0))
    with pytest.raises(ValueError, match="parameters without values"):
        as_law(preliz.HalfNormal(), "noise")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        (lambda: pm.Poisson.dist(2.0), "no continuous univariate distribution"),
        (lambda: pm.MvNormal.dist(np.zeros(2), np.eye(2)), "no continuous univariate distribution"),
        (lambda: pm.HalfNormal.dist(pm.HalfNormal.dist(1.0)), "random itself"),
        (lambda: pm.HalfNormal.dist(1.0) + 1.0, "no continuous univariate distribution"),
        (lambda: pm.Normal.dist(shape=(2, 2)), r"has the shape \(2, 2\)"),
        (lambda: pm.Flat.dist(shape=2), r"has the shape \(2,\)"),
    ],
)
def test_what_is_no_law_is_refused(given: Any, message: str) -> None:
    """With what to give in its place."""
    with pytest.raises(ValueError, match=message):
        as_law(given(), "'scale'")


def test_a_shape_is_one_number_for_each_entry() -> None:
    """So that a wrong length is found where the variable is made."""
    law = as_law(pm.Normal.dist(0.5, [1.0, 2.0]), "'coefficients'")
    assert law == PyMCLaw("Normal", ((0.5, 0.5), (1.0, 2.0)))
    assert as_law(pm.Normal.dist(0.0, 1.0, shape=3), "'coefficients'").size == 3
    with pytest.raises(ValueError, match="has 3 entries"):
        zoo.PooledTasks(own_priors={"coefficients": pm.Normal.dist(shape=3)}).build(rows())


def test_variables_of_a_model_are_refused() -> None:
    """One with a name belongs to a model of the user's."""
    with pm.Model():
        scale = pm.HalfNormal("scale")
    with pytest.raises(ValueError, match="a variable of a model"):
        as_law(scale, "'scale'")


# ---------------------------------------------------------------- parameters of the likelihood


def test_parameters_of_the_likelihood_take_distributions() -> None:
    """And refuse those of other numbers by name."""
    assert Gaussian(noise=pm.HalfCauchy.dist(2.5)).noise == PyMCLaw("HalfCauchy", (2.5,))
    with pytest.raises(ValueError, match=r"noise of Gaussian has the prior Normal\(0, 1\)"):
        Gaussian(noise=pm.Normal.dist())
    with pytest.raises(ValueError, match="extra_zeros of ZeroInflatedPoisson has the prior"):
        zoo.ZeroInflatedPoisson(extra_zeros=pm.HalfNormal.dist())
    zoo.ZeroInflatedPoisson(extra_zeros=pm.Uniform.dist(0.0, 1.0))
    zoo.Ordinal(grades=5, width=pm.HalfNormal.dist(1.0))


@pytest.mark.parametrize("factory", [zoo.NIWLinear, zoo.MaxMargin, zoo.NonparametricMaxMargin])
def test_gibbs_steps_back_where_it_has_no_draws(factory: Any) -> None:
    """It stays with laws that it knows, and says which one it does not know."""
    known = factory(likelihood=StudentT(degrees=pm.Gamma.dist(2.0, 0.1)))
    assert "gibbs" in known.methods
    other = factory(likelihood=StudentT(degrees=pm.Exponential.dist(0.1)))
    assert "gibbs" not in other.methods
    with pytest.raises(
        UnsupportedMethodError, match=r"no draws of 'degrees' with the prior Exponential\(10\)"
    ):
        other.choose_method("gibbs", rows())


# ---------------------------------------------------------------- own priors


@pytest.mark.parametrize(
    ("factory", "own", "message"),
    [
        (zoo.NIWLinear, {"noise": pm.HalfNormal.dist()}, r"likelihood=zoo\.Gaussian\(noise=\.\.\.\)"),
        (zoo.NIWLinear, {"mean": pm.Normal.dist()}, "These are: population_mean"),
        (zoo.NIWLinear, {"coefficients": pm.Normal.dist()}, "no variable of NIWLinear with a prior"),
        (zoo.PooledTasks, {"shrinkage": pm.Normal.dist()}, "whose values are above 0"),
        (zoo.PooledTasks, {"coefficients": pm.Normal.dist([0.0] * 3)}, "has 3 entries"),
        (zoo.MultiLaplaceGP, {"kappa": pm.HalfNormal.dist()}, "own_priors names 'kappa'"),
    ],
)
def test_priors_that_cannot_be_replaced(factory: Any, own: Any, message: str) -> None:
    """The message names the variable and what to do."""
    with pytest.raises(ValueError, match=message):
        factory(own_priors=own).build(rows())


def test_a_copy_of_the_model_takes_further_variables() -> None:
    """As the model does, whose own priors it keeps."""
    model = zoo.PooledTasks(own_priors={"shrinkage": pm.HalfCauchy.dist(1.0)}).build(rows()).copy()
    with model:
        pm.Normal("extra")
    assert {"extra", "shrinkage"} <= {v.name for v in model.free_RVs}
    assert "HalfCauchy" in str(type(model["shrinkage"].owner.op))


def test_what_is_no_prior_is_refused() -> None:
    """A number is no distribution, and one distribution no dict."""
    with pytest.raises(TypeError, match="own_priors has 3 for 'shrinkage'"):
        zoo.PooledTasks(own_priors={"shrinkage": 3})
    with pytest.raises(TypeError, match="Give a dict by variable"):
        zoo.PooledTasks(own_priors=pm.HalfNormal.dist())


@pytest.mark.scheduled
def test_posterior_is_that_of_the_given_prior() -> None:
    """Normal priors of the coefficients and a known noise: the posterior in closed form, at 5 standard errors.

    False-alarm rate of the means 2e-6; the standard deviations may be off by 20 %.
    """
    data = rows(12, 2)
    mean, sd, noise = np.array([-1.0, 3.0]), np.array([0.3, 0.4]), 0.7
    model = zoo.PooledTasks(
        likelihood=Gaussian(noise=noise), own_priors={"coefficients": pm.Normal.dist(mean, sd)}
    )
    precision = data.X.T @ data.X / noise**2 + np.diag(sd**-2.0)
    centre = np.linalg.solve(precision, data.X.T @ data.y / noise**2 + mean / sd**2)
    fit = model.fit(data, **{**FEW, "draws": 1000})
    assert fit.method == "nuts"
    assert "coefficients ~ Normal([-1, 3], [0.3, 0.4])" in repr(fit)
    draws = fit.posterior["coefficients"].to_numpy().reshape(-1, 2)
    exact = np.sqrt(np.diag(np.linalg.inv(precision)))
    ess = fit.diagnostics()["ess_bulk"].min()
    assert np.all(np.abs(draws.mean(axis=0) - centre) < 5.0 * exact / np.sqrt(ess))
    np.testing.assert_allclose(draws.std(axis=0), exact, rtol=0.2)


def test_files_pickles_and_hashes_keep_own_priors(tmp_path: Any) -> None:
    """A fit that is read again has them, and predicts with them."""
    model = zoo.IndependentTasks(own_priors={"shrinkage": pm.Exponential.dist(2.0)})
    assert pickle.loads(pickle.dumps(model)) == model
    assert hash(model) == hash(zoo.IndependentTasks(own_priors={"shrinkage": pm.Exponential.dist(2.0)}))
    assert model != zoo.IndependentTasks()
    fit = model.fit(rows(), **{**FEW, "draws": 20, "tune": 20, "nuts": {"nuts_sampler": "pymc"}})
    fit.save(tmp_path / "fit.nc")
    assert zoo.load(tmp_path / "fit.nc").factory == model


def test_new_tasks_have_the_given_prior() -> None:
    """Of tasks that share nothing: 4,000 draws by a Kolmogorov-Smirnov test of false-alarm rate 1e-4."""
    import xarray as xr

    model = zoo.IndependentTasks(own_priors={"shrinkage": pm.Exponential.dist(2.0)})
    posterior = xr.Dataset(
        {"coefficients": (("chain", "draw", "feature", "task"), np.zeros((4, 1000, 2, 1)))}
    )
    drawn = model.new_task(posterior, ["new"], np.random.default_rng(0))["shrinkage"]
    assert stats.kstest(drawn.ravel(), stats.expon(scale=0.5).cdf).pvalue > 1e-4


def test_variables_of_a_subclass_take_own_priors() -> None:
    """Without a word of it in the hooks of the user."""

    @dataclass(frozen=True, kw_only=True)
    class Level(zoo.ModelFactory):
        def priors(self, data: Any) -> dict[str, Any]:
            spread = pm.HalfNormal("spread", 1.0)
            return {"level": pm.Normal("level", 0.0, spread), "coefficients": pm.Normal("c", dims="feature")}

        def latent(self, data: Any, priors: dict[str, Any]) -> Any:
            return super().latent(data, priors) + priors["level"]

    table = Level().priors_table(rows())
    assert list(table.index) == ["spread", "level", "c", "noise"]
    assert table.loc["spread", "prior"] == "HalfNormal(0, 1)"
    model = Level(own_priors={"spread": pm.HalfCauchy.dist(5.0)}).build(rows())
    assert "HalfCauchy" in str(type(model["spread"].owner.op))
    drawn = pm.draw(model["level"], draws=4000, random_seed=1)
    assert np.abs(drawn).max() > 100.0  # a half-normal spread of 1 never comes near


def test_population_of_own_mean_and_deviations() -> None:
    """Draws from the prior: mean N(3, 0.5^2), standard deviations Gamma(4, 4), independent of each other.

    Kolmogorov-Smirnov tests of 3,000 draws, false-alarm rate 1e-4 each.
    """
    model = zoo.NIWLinear(
        covariance_prior="lkj",
        scale_matrix=0.25,
        own_priors={"population_mean": pm.Normal.dist(3.0, 0.5), "feature_sd": pm.Gamma.dist(4.0, 4.0)},
    ).build(rows())
    names = ["population_mean", "feature_sd", "feature_cov", "coefficients"]
    mean, sd, cov, coefficients = pm.draw([model[name] for name in names], draws=3000, random_seed=2)
    np.testing.assert_allclose(np.sqrt(cov[:, [0, 1], [0, 1]]), sd)
    assert stats.kstest(mean[:, 0], stats.norm(3.0, 0.5).cdf).pvalue > 1e-4
    assert stats.kstest(sd[:, 1], stats.gamma(4.0, scale=0.25).cdf).pvalue > 1e-4
    white = (coefficients[:, 0, 0] - mean[:, 0]) / sd[:, 0]
    assert stats.kstest(white, stats.norm.cdf).pvalue > 1e-4


def test_deviations_of_the_default_are_those_of_the_scale() -> None:
    """Half-normal with the root of ``scale``, as where they were auxiliary."""
    model = zoo.NIWLinear(covariance_prior="lkj", scale_matrix=0.25).build(rows())
    drawn = pm.draw(model["feature_sd"], draws=3000, random_seed=3)
    assert stats.kstest(drawn[:, 0], stats.halfnorm(scale=0.5).cdf).pvalue > 1e-4


def test_gaussian_processes_take_priors_of_hyperparameters() -> None:
    """By the names of the posterior, and then by NUTS, also where the method is left to the model."""
    data = rows()
    model = zoo.PooledGP(
        instance_kernel="squared_exponential",
        own_priors={"instance_lengthscale": pm.InverseGamma.dist(5.0, 5.0)},
    )
    assert model.default_method(data) == "nuts"
    with pytest.raises(UnsupportedMethodError, match="own_priors names 'instance_lengthscale'"):
        model.fit(data, method="exact")
    built = model.build(data)
    drawn = pm.draw(built["instance_lengthscale"], draws=3000, random_seed=4)
    assert stats.kstest(drawn, stats.invgamma(5.0, scale=5.0).cdf).pvalue > 1e-4


@pytest.mark.statistical
@pytest.mark.scheduled
def test_sensitivity_scales_the_priors_that_a_user_chose() -> None:
    """Not the law of the tasks; a prior far from the data is found."""
    data = rows(60, 6)
    far = zoo.NIWLinear(
        likelihood=Gaussian(noise=0.5),
        own_priors={"population_mean": pm.Normal.dist(-2.0, 0.3)},
        covariance_prior="lkj",
    )
    fit = far.fit(data, **FEW)
    before = set(fit.idata.children)
    table = fit.prior_sensitivity(prior_var_names="population_mean")
    assert list(table.index) == ["population_mean[intercept]", "population_mean[x]"]
    assert (table["prior"] > 0.05).all()
    assert set(fit.idata.children) - before <= {"log_likelihood"}
    with pytest.raises(ValueError, match="prior_var_names"):
        fit.prior_sensitivity(prior_var_names="mean")
    point = zoo.NIWLinear().fit(data, "em", progress=False)
    with pytest.raises(UnsupportedMethodError, match="one estimate"):
        point.prior_sensitivity()


def eight_schools_by_quadrature(y: np.ndarray, sigma: np.ndarray) -> dict[str, float]:
    """Posterior means of mu, tau and the first effect: normal given tau, and tau on a grid."""
    tau = np.exp(np.linspace(np.log(1e-4), np.log(2e3), 6001))
    variance = sigma**2 + tau[:, None] ** 2
    precision = np.sum(1.0 / variance, axis=1) + 1.0 / 25.0
    centre = np.sum(y / variance, axis=1) / precision
    log = -0.5 * np.sum(np.log(variance) + y**2 / variance, axis=1) - 0.5 * np.log(precision)
    log += 0.5 * precision * centre**2 + stats.halfcauchy(scale=5.0).logpdf(tau) + np.log(tau)
    weight = np.exp(log - log.max())
    weight /= weight.sum()
    first = (y[0] * tau**2 + centre * sigma[0] ** 2) / (tau**2 + sigma[0] ** 2)
    return {"mu": float(weight @ centre), "tau": float(weight @ tau), "theta": float(weight @ first)}


@pytest.mark.statistical
@pytest.mark.scheduled
def test_eight_schools_are_those_of_quadrature() -> None:
    """Rubin's eight schools, with the priors of Stan's example: |z| below 5, false-alarm rate 2e-6 in all."""
    y = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    sigma = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    data = zoo.MultiTaskData.from_arrays(
        np.ones((8, 1)), y, [f"school {j}" for j in range(8)], weight=sigma**-2.0
    )
    model = zoo.NIWLinear(
        covariance_prior="lkj",
        likelihood=Gaussian(noise=1.0),
        own_priors={"population_mean": pm.Normal.dist(0.0, 5.0), "feature_sd": pm.HalfCauchy.dist(5.0)},
    )
    fit = model.fit(data, draws=2000, chains=4, random_seed=1, progress=False, nuts={"target_accept": 0.95})
    exact = eight_schools_by_quadrature(y, sigma)
    draws = {
        "mu": fit.posterior["population_mean"].to_numpy()[..., 0],
        "tau": fit.posterior["feature_sd"].to_numpy()[..., 0],
        "theta": fit.posterior["coefficients"].to_numpy()[:, :, 0, 0],
    }
    for name, values in draws.items():
        error = float(az.mcse(values, method="mean"))
        assert abs(values.mean() - exact[name]) < 5.0 * error, (name, values.mean(), exact[name], error)
