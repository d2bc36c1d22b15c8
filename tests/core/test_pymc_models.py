"""PyMC's and ArviZ's own functions on fits: right, or refused, and never draws from the prior."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from typing import Any

import arviz as az
import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
import xarray as xr
from pymc.model.transform.conditioning import remove_value_transforms
from pymc.stats import compute_log_likelihood, compute_log_prior
from scipy.stats import invwishart, multivariate_normal

import zoo
from zoo.core.fit import Fit
from zoo.core.prior_density import half_t_density
from zoo.core.storage import to_datatree
from zoo.data.units import Units

N, T = 48, 3


def made(kind: str = "real", place: bool = False, seed: int = 0) -> zoo.MultiTaskData:
    rng = np.random.default_rng(seed)
    X = np.column_stack([rng.normal(size=(N, 2)), np.ones(N)])
    task = np.repeat(np.arange(T), N // T)
    y = 2.0 * X[:, 0] + task - 1.0 + 0.3 * rng.normal(size=N)
    if kind == "labels":
        y = np.where(y > 0.0, 1.0, -1.0)
    if kind == "counts":
        y = rng.poisson(np.exp(0.5 * y)).astype(float)
    return zoo.MultiTaskData.from_arrays(
        X, y, task, feature_names=["a", "b", "intercept"], t=rng.uniform(size=(N, 2)) if place else None
    )


STATS = {"independent": np.ones((2, 200), dtype=bool)}
REAL, LABELS = made(), made("labels")
PLACES, PLACED_LABELS, PLACED_COUNTS = (made(kind, place=True) for kind in ("real", "labels", "counts"))
BASED = zoo.kernels.MeanRegularised(4, T, lam=0.5, base=pm.gp.cov.ExpQuad(3, ls=2.0))
CASES = [
    (zoo.MaxMargin(), LABELS, "gibbs"),
    (zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C="learned")), REAL, "gibbs"),
    (zoo.MaxMargin(task_cov="identity"), LABELS, "gibbs"),
    (zoo.NonparametricMaxMargin(), LABELS, "gibbs"),
    (zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))), REAL, "gibbs"),
    (zoo.NIWLinear(), REAL, "em"),
    (zoo.NIWGaussianProcess(), REAL, "gibbs"),
    (zoo.NIWGaussianProcess(), REAL, "em"),
    (zoo.MultiLaplaceGP(noise_floor=0.2), REAL, "map"),
    (zoo.MultiTaskKernelMachine(), REAL, "exact"),
    (zoo.MultiTaskKernelMachine(likelihood="hinge"), LABELS, "gibbs"),
    (zoo.MultiTaskKernelMachine(likelihood="hinge", lam=0.5, amplitude=1.0), LABELS, "map"),
    (zoo.MultiTaskKernelMachine(likelihood="logistic"), LABELS, "laplace"),
    (zoo.MultiTaskKernelMachine(kernel=BASED), REAL, "exact"),
    (zoo.IndependentTasks(), REAL, "exact"),
    (zoo.IndependentTasks(likelihood="logistic"), LABELS, "laplace"),
    (zoo.PooledTasks(), REAL, "exact"),
    (zoo.VaryingCoefficientGP(), PLACES, "exact"),
    (zoo.VaryingCoefficientGP(approximation="hsgp"), PLACES, "hsgp"),
    (zoo.VaryingCoefficientGP(approximation="fitc", n_inducing=15), PLACES, "inducing"),
    (zoo.VaryingCoefficientGP(likelihood="logistic"), PLACED_LABELS, "laplace"),
    (zoo.VaryingCoefficientGP(likelihood="poisson"), PLACED_COUNTS, "laplace"),
    (zoo.PooledGP(), PLACES, "exact"),
    (zoo.KernelLocalSmoothing(), PLACES, "exact"),
]
# What a pointwise log likelihood given the posterior's variables cannot be had of: functions are drawn anew.
NO_LIKELIHOOD = ("inducing",)


def name_of(case: Any) -> str:
    return f"{type(case[0]).__name__}-{case[2]}-{case[1].y[0]:.3g}"


@pytest.fixture(scope="module", params=CASES, ids=name_of)
def fit(request: pytest.FixtureRequest) -> Fit:
    factory, data, method = request.param
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return factory.fit(data, method, draws=300, tune=300, chains=2, random_seed=1, progress=False)


def agrees(fit: Fit, drawn: xr.DataTree) -> None:
    """Draws of y at the fitted rows have the mean and the spread of ``predict_draws``.

    Null: the same law. 48 means and 48 variances for each of 2 x 24 cases, each beyond 5 standard errors with
    probability 6e-7: some 0.003 false alarms in all, were draws independent; those of one chain are nearly so.
    """
    y = drawn["posterior_predictive"]["y"].stack(sample=("chain", "draw")).to_numpy()
    expected = fit.predict_draws(fit.data, random_seed=7)["y"].stack(sample=("chain", "draw")).to_numpy()
    n = min(y.shape[1], expected.shape[1]) / 3.0  # chains forget in a few draws
    both = np.hstack([y, expected])
    error = np.abs(y.mean(axis=1) - expected.mean(axis=1)) / np.sqrt(2.0 * both.var(axis=1) / n + 2.0 / n**2)
    assert error.max() < 5.0
    squares = (both - both.mean(axis=1, keepdims=True)) ** 2
    half = y.shape[1]
    spread = np.abs(squares[:, :half].mean(axis=1) - squares[:, half:].mean(axis=1))
    assert (spread < 5.0 * np.sqrt(2.0 * squares.var(axis=1) / n + 2.0 / n**2)).all()


def test_posterior_predictive_of_the_model_of_a_fit(fit):
    if fit.is_point:
        with pytest.raises(ValueError, match="to_pymc"):
            _ = fit.model
        return
    agrees(fit, pm.sample_posterior_predictive(fit.idata, model=fit.model, random_seed=2, progressbar=False))


def test_posterior_predictive_of_to_pymc(fit):
    model, idata = fit.to_pymc(random_seed=5)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        agrees(fit, pm.sample_posterior_predictive(idata, model=model, random_seed=3, progressbar=False))


def test_posterior_predictive_of_the_built_model(fit):
    """What a PyMC user does first; an estimate is one draw, so that there is nothing to compare."""
    if fit.is_point:
        return
    model = fit.factory.build(fit.data)
    with warnings.catch_warnings():
        warnings.simplefilter(
            "ignore", UserWarning
        )  # PyMC says that it freezes what depends on absent variables
        # A chain that came to its bound takes more columns than the model has. Whether one does so depends on the last
        # bits of its numbers, which differ between machines.
        columns = fit.posterior.sizes.get("latent", 0)
        if columns > len(model.coords.get("latent", ())):
            with pytest.raises(TypeError, match="not compatible"):
                pm.sample_posterior_predictive(fit.posterior, model=model, progressbar=False)
            return
        for trace in (fit.posterior, fit.idata):
            agrees(fit, pm.sample_posterior_predictive(trace, model=model, random_seed=4, progressbar=False))


def test_log_likelihood_by_pymc(fit):
    if fit.is_point:
        return
    if fit.method in NO_LIKELIHOOD:
        with pytest.raises(ValueError, match="Random variables detected"):
            compute_log_likelihood(fit.idata.copy(), model=fit.model, progressbar=False)
        return
    found = compute_log_likelihood(fit.idata.copy(), model=fit.model, progressbar=False)["log_likelihood"][
        "y"
    ]
    own = fit.compute_log_likelihood()["log_likelihood"]["y"]
    np.testing.assert_allclose(found, own, rtol=1e-9, atol=1e-9)


def test_log_prior_by_pymc_or_refused(fit):
    if fit.is_point:
        return
    try:
        found = compute_log_prior(fit.idata.copy(), model=fit.model, progressbar=False)["log_prior"]
    except NotImplementedError as error:
        assert "does not say the prior density" in str(error)
        assert {"function_values", "n_latent"} & set(fit.posterior.data_vars)
        return
    assert all(np.isfinite(values).all() for values in found.data_vars.values())


# ---------------------------------------------------------------- new rows


def test_set_data_with_new_rows():
    fit = zoo.MaxMargin(likelihood="epsilon_insensitive").fit(
        REAL, draws=300, tune=300, chains=2, random_seed=1, progress=False
    )
    new = made(seed=5).take(slice(3, 40))
    model = fit.model
    with model:
        pm.set_data(
            {"X": new.X, "task_index": new.task.astype("int32"), "y_observed": np.zeros(new.n_rows)},
            coords={"obs": np.arange(new.n_rows)},
        )
        drawn = pm.sample_posterior_predictive(
            fit.posterior, predictions=True, random_seed=1, progressbar=False
        )
    y = drawn["predictions"]["y"].mean(("chain", "draw"))
    expected = fit.predict_draws(new, random_seed=2)["y"]
    # Null: the same mean; 37 rows beyond 6 standard errors with probability 1e-7.
    assert float(
        (np.abs(y - expected.mean(("chain", "draw"))) / expected.std(("chain", "draw"))).max()
    ) < 6 / np.sqrt(100)
    assert fit.model["X"].get_value().shape == REAL.X.shape  # a new model at every call


def test_models_at_new_rows():
    fit = zoo.VaryingCoefficientGP().fit(PLACES, "exact", draws=400, chains=2, random_seed=1, progress=False)
    new = made(place=True, seed=5).take(slice(3, 40))
    with pytest.raises(ValueError, match=r"'X' cannot be set.*to_pymc"):
        fit.model.set_data("X", new.X, coords={"obs": np.arange(new.n_rows)})
    model, idata = fit.to_pymc(new)
    drawn = pm.sample_posterior_predictive(idata, model=model, random_seed=1, progressbar=False)[
        "posterior_predictive"
    ]["y"]
    expected = fit.predict(new)
    error = (drawn.mean(("chain", "draw")).to_numpy() - expected["mean"]) / expected["sd"]
    assert float(np.abs(error).max()) < 6 / np.sqrt(800)
    ratio = drawn.std(("chain", "draw")).to_numpy() / expected["sd"]
    assert float(np.abs(ratio - 1.0).max()) < 6 / np.sqrt(1600)


def test_rows_of_a_model_of_functions_cannot_be_set():
    fit = zoo.NIWGaussianProcess().fit(REAL, draws=20, tune=20, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="columns of X are not the features"):
        fit.model.set_data("X", np.zeros((N, N + 1)))


def test_setting_rows_of_standardized_data_warns():
    fit = zoo.PooledTasks().fit(REAL.standardize(), draws=20, chains=1, random_seed=1, progress=False)
    with pytest.warns(UserWarning, match=r"scale of data\.standardize"):
        fit.model.set_data("X", REAL.X)


def test_new_tasks_in_pymc():
    fit = zoo.NIWLinear().fit(REAL, draws=400, tune=200, chains=2, random_seed=1, progress=False)
    new = REAL.take(REAL.task == 0)
    model, idata = fit.to_pymc(new.X, task="a newcomer", new_task=True, random_seed=1)
    drawn = pm.sample_posterior_predictive(idata, model=model, random_seed=1, progressbar=False)[
        "posterior_predictive"
    ]["y"]
    expected = fit.predict(new.X, task="a newcomer", new_task=True, random_seed=2)
    # The population's covariance has heavy tails: quartiles. Null: the same law, standard errors below 0.06 sd.
    low, high = (drawn.quantile(q, ("chain", "draw")).to_numpy() for q in (0.25, 0.75))
    centre = expected["mean"].to_numpy()
    assert np.all((low < centre) & (centre < high))


# ---------------------------------------------------------------- a user's own model


@dataclass(frozen=True, kw_only=True)
class Doubled(zoo.MaxMargin):
    """Coefficients of another prior, by auxiliary variables that no engine knows."""

    def priors(self, data: Any) -> dict[str, Any]:
        white = pm.Normal("_own", dims=("feature", "task"))
        return {"coefficients": pm.Deterministic("coefficients", 2.0 * white, dims=("feature", "task"))}


def own_fit() -> Fit:
    factory = Doubled(likelihood=zoo.EpsilonInsensitive(C=1.0))
    rng = np.random.default_rng(0)
    coefficients = np.array([[2.0] * 3, [0.0] * 3, [-1.0, 0.0, 1.0]]) + 0.1 * rng.normal(size=(2, 200, 3, 3))
    idata = to_datatree(factory, REAL, REAL, REAL.y, {"coefficients": coefficients}, STATS, "nuts", 0)
    return Fit(factory=factory, data=REAL, idata=idata, method="nuts")


def test_a_users_own_model():
    fit = own_fit()
    agrees(fit, pm.sample_posterior_predictive(fit.idata, model=fit.model, random_seed=2, progressbar=False))
    compute_log_likelihood(fit.idata.copy(), model=fit.model, progressbar=False)
    with pytest.raises(NotImplementedError, match=r"'coefficients'.*prior_density"):
        compute_log_prior(fit.idata.copy(), model=fit.model, progressbar=False)
    with pytest.raises(ValueError, match="'coefficients' has to be among the draws"):
        pm.sample_prior_predictive(10, model=fit.model)


def test_a_posterior_without_what_y_needs_is_refused():
    fit = own_fit()
    bare = fit.idata.copy()
    bare["posterior"] = xr.Dataset({"other": (("chain", "draw"), np.zeros((2, 200)))})
    with pytest.raises(ValueError, match="y needs '_own'"):
        _ = replace(fit, idata=bare).model


# ---------------------------------------------------------------- ArviZ


def test_arviz_reads_the_groups():
    fit = zoo.NIWLinear().fit(REAL, draws=200, tune=200, chains=2, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="groups: 'loo'"):
        fit.extend("loo")
    with pytest.raises(ValueError, match="groups is empty"):
        fit.extend()
    tree = fit.extend(
        "log_likelihood", "log_prior", "posterior_predictive", "prior", "prior_predictive", draws=100
    )
    assert not [v for v in tree["prior"].data_vars if str(v).startswith("_")]
    assert set(tree["log_prior"].data_vars) == {"feature_cov", "population_mean", "coefficients", "noise"}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of Pareto k, and of Matplotlib
        table = az.psense_summary(tree, var_names=["noise"])
        assert np.isfinite(table.select_dtypes("number").to_numpy()).all()
        az.plot_ppc_dist(tree)
        az.plot_loo_pit(tree)
        az.plot_prior_posterior(tree, var_names=["noise"])
    import matplotlib.pyplot as plt

    plt.close("all")


# ---------------------------------------------------------------- densities of named variables


def lower(matrix: np.ndarray) -> np.ndarray:
    return matrix[np.tril_indices(len(matrix))]


def coordinates(name: str, value: np.ndarray, scaled: bool) -> np.ndarray:
    """Free coordinates of a named variable: a covariance of given trace has one less."""
    if not name.endswith("_cov"):
        return value.ravel()
    return lower(value)[:-1] if name == "feature_cov" and scaled else lower(value)


@pytest.mark.parametrize(
    "factory",
    [
        zoo.MaxMargin(likelihood="epsilon_insensitive"),
        zoo.MaxMargin(likelihood="epsilon_insensitive", task_correlation=0.4, feature_nu=5.5),
        zoo.MaxMargin(likelihood="epsilon_insensitive", feature_cov="identity"),
        zoo.NIWLinear(pi=2.0, delta=4.0, scale_matrix=0.5, likelihood=zoo.Gaussian(per_task=("noise",))),
        zoo.IndependentTasks(),
        zoo.PooledTasks(),
        zoo.MultiLaplaceGP(penalty=2.0, noise_rate=3.0, noise_floor=0.1),
    ],
    ids=lambda f: type(f).__name__,
)
def test_prior_density_by_change_of_variables(factory):
    """Density of the auxiliary variables over the Jacobian of the map to the named ones, by differences."""
    data = REAL.select_tasks(["task 0", "task 1"])
    model = factory.build(data)
    plain = remove_value_transforms(model)
    auxiliary = [v for v in plain.free_RVs]
    named = [v.name for v in [*model.deterministics, *model.free_RVs] if not v.name.startswith("_")]
    inputs = [plain.rvs_to_values[v] for v in auxiliary]
    density = plain.compile_fn(plain.logp(vars=auxiliary, jacobian=False), inputs=inputs, point_fn=False)
    forward = pm.pytensorf.compile(
        inputs, plain.replace_rvs_by_values([plain[name] for name in named]), on_unused_input="ignore"
    )
    scaled = "covariance_scale" in named
    triangular = [v.name.endswith("_chol") for v in auxiliary]

    def unpack(u: np.ndarray, like: list[np.ndarray]) -> list[np.ndarray]:
        parts, at = [], 0
        for value, factor in zip(like, triangular, strict=True):
            new = np.zeros_like(value)
            every = tuple(np.indices(value.shape).reshape(value.ndim, value.size))
            index = np.tril_indices(len(value)) if factor else every
            size = len(index[0]) if value.ndim else 1
            new[index] = u[at : at + size] if value.ndim else u[at]
            parts.append(new)
            at += size
        return parts

    def flat(u: np.ndarray, like: list[np.ndarray]) -> np.ndarray:
        values = forward(*unpack(u, like))
        return np.concatenate(
            [coordinates(n, np.asarray(v), scaled) for n, v in zip(named, values, strict=True)]
        )

    draws = pm.draw([model[v.name] for v in auxiliary], draws=4, random_seed=3)
    expected, named_draws = [], []
    for s in range(4):
        like = [np.asarray(values[s], dtype=float) for values in draws]
        u = np.concatenate([lower(v) if f else v.ravel() for v, f in zip(like, triangular, strict=True)])
        steps = 1e-5 * np.maximum(np.abs(u), 1e-2)
        jacobian = np.column_stack(
            [
                (flat(u + h * e, like) - flat(u - h * e, like)) / (2.0 * h)
                for h, e in zip(steps, np.eye(len(u)), strict=True)
            ]
        )
        expected.append(float(density(*like)) - np.linalg.slogdet(jacobian)[1])
        named_draws.append(forward(*like))
    posterior = {n: np.stack([np.asarray(d[i]) for d in named_draws])[None] for i, n in enumerate(named)}
    rows = factory.design(data)
    idata = to_datatree(factory, data, rows, data.y, posterior, {"lp": np.zeros((1, 4))}, "nuts", 0)
    fit = Fit(factory=factory, data=data, idata=idata, method="nuts")
    found = compute_log_prior(idata, model=fit.model, progressbar=False)["log_prior"]
    total = sum(v.sum([d for d in v.dims if d not in ("chain", "draw")]) for v in found.data_vars.values())
    difference = total.to_numpy()[0] - np.array(expected)
    np.testing.assert_allclose(difference, difference[0], atol=2e-4)  # constants do not count
    assert np.ptp(expected) > 1.0


def test_prior_density_of_the_kernel_machine():
    data = replace(REAL, units=Units.of_size(REAL.n_features))
    fit = zoo.MultiTaskKernelMachine().fit(
        data, "gibbs", draws=3, tune=20, chains=1, random_seed=1, progress=False
    )
    found = compute_log_prior(fit.idata, model=fit.model, progressbar=False)["log_prior"]["coefficients"]
    for s in range(3):
        draw = fit.posterior.isel(chain=0, draw=s)
        law = multivariate_normal(cov=np.kron(np.eye(3), draw["task_cov"]))
        assert float(found[0, s]) == pytest.approx(
            law.logpdf(draw["coefficients"].to_numpy().ravel()), rel=1e-8
        )


def test_a_copy_of_the_built_model_reads_posteriors_too():
    fit = zoo.IndependentTasks().fit(REAL, draws=200, chains=2, random_seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        model = fit.factory.build(fit.data).copy()
        agrees(
            fit, pm.sample_posterior_predictive(fit.posterior, model=model, random_seed=4, progressbar=False)
        )


@pytest.mark.parametrize("method", ["hsgp", "inducing"])
def test_functions_in_other_variables_than_the_models_are_refused(method):
    factory = zoo.VaryingCoefficientGP(n_inducing=15)
    fit = factory.fit(PLACES, method, draws=100, chains=2, random_seed=1, progress=False)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        with pytest.raises(ValueError, match=r"posterior does not hold '_values'.*fit\.model"):
            pm.sample_posterior_predictive(fit.idata, model=factory.build(PLACES), progressbar=False)
        model = fit.factory.build(PLACES)
        if (
            method == "hsgp"
        ):  # at inducing points the built model has residuals of the fitted rows, which nobody keeps
            agrees(
                fit, pm.sample_posterior_predictive(fit.idata, model=model, random_seed=1, progressbar=False)
            )


def test_prior_density_of_learned_scales_by_quadrature():
    """The inverse-Wishart density averaged over the scales, on a grid of Gauss and Legendre."""
    nu, sd, size = 4.5, 1.3, 60
    covariances = [
        np.array(C) for C in ([[1.0, 0.3], [0.3, 0.5]], [[0.02, 0.1], [0.1, 3.0]], [[0.4, 0.0], [0.0, 9.0]])
    ]
    nodes, weights = np.polynomial.legendre.leggauss(size)
    g, weight = 5.0 * sd * (nodes + 1.0), weights * np.exp(-0.5 * (5.0 * (nodes + 1.0)) ** 2)
    expected = [
        np.log(
            sum(
                weight[i] * weight[j] * invwishart.pdf(C, nu, np.diag([g[i] ** 2, g[j] ** 2]))
                for i in range(size)
                for j in range(size)
            )
        )
        for C in covariances
    ]
    found = np.array([half_t_density(pt.as_tensor(C), nu, sd).eval() for C in covariances])
    np.testing.assert_allclose(found - found[0], np.array(expected) - expected[0], atol=1e-6)
