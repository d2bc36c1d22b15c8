"""Method "vecchia" with labels, counts and other responses: against method "laplace", through the doors of a fit."""

from __future__ import annotations

import warnings
from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import zoo
from tests.daily import daily
from tests.models.test_varying_vecchia import KW, PARTS, all_rows, new_rows
from zoo.core.context import Context
from zoo.core.factory import UnsupportedMethodError
from zoo.likelihoods import StudentT
from zoo.models.varying_coefficient import methods as varying_fit
from zoo.models.varying_coefficient import vecchia_latent
from zoo.models.varying_coefficient.methods import latent_moments
from zoo.models.varying_coefficient.spaces import space_of


def counts(n: int = 90, seed: int = 1, weight: bool = False, kind: str = "poisson") -> zoo.MultiTaskData:
    rng = np.random.default_rng(seed)
    X, t = rng.standard_normal((n, 2)), np.round(rng.uniform(0.0, 3.0, (n, 2)), 1)
    f = np.sin(2.0 * t[:, 0]) * X[:, 0] + np.cos(2.0 * t[:, 1])
    y = rng.poisson(np.exp(f)).astype(np.float64)
    if kind in ("logistic", "probit"):
        y = (y > 1.0).astype(np.float64)
    elif kind == "ordinal":
        y = np.minimum(y, 4.0) + 1.0
    elif kind == "student":
        y = f + 0.2 * rng.standard_t(3.0, n)
    return zoo.MultiTaskData.from_arrays(X=X, y=y, t=t, weight=rng.uniform(0.5, 2.0, n) if weight else None)


GP = zoo.VaryingCoefficientGP
MODELS = {
    "logistic": (GP(likelihood="logistic"), "logistic"),
    "components": (GP(task_kernel=PARTS[:2], likelihood="probit"), "probit"),
    "no global coefficients": (GP(likelihood="poisson", global_coefficients=False), "poisson"),
    "negative binomial": (GP(likelihood="negative_binomial", intercept=False), "poisson"),
    "student": (GP(likelihood=StudentT(degrees=4.0)), "student"),
    "ordinal": (GP(likelihood="ordinal"), "ordinal"),
    "instance kernel": (GP(instance_kernel="matern52", likelihood="poisson"), "poisson"),
    "pooled": (zoo.PooledGP(inputs="xt", likelihood="poisson"), "poisson"),
}
each_model = pytest.mark.parametrize(
    "name", daily(MODELS, ("components", "no global coefficients", "student"))
)


@pytest.fixture
def nearly_no_nugget(monkeypatch):
    """Method "laplace" has none."""
    monkeypatch.setattr(vecchia_latent, "_NUGGET", 1e-6)


@each_model
def test_evidence_and_gradient_are_those_of_laplace_with_all_neighbours(name, nearly_no_nugget):
    model, kind = MODELS[name]
    data = counts(40, weight=name in ("components", "student", "pooled"), kind=kind)
    y = model.validate(data)
    exact, ours = (space_of(m, m.design(data), y) for m in (model, all_rows(model)))
    z = exact.coordinates.start + 0.2 * np.random.default_rng(3).standard_normal(exact.coordinates.size)
    value, gradient = exact.evidence(z)
    found, slopes = ours.evidence(z)
    assert found == pytest.approx(value, abs=1e-6)
    assert_allclose(slopes, gradient, atol=1e-6 * max(1.0, np.abs(gradient).max()))


@each_model
def test_predictions_and_coefficients_are_those_of_laplace_with_all_neighbours(name, nearly_no_nugget):
    model, kind = MODELS[name]
    data, (X, t) = counts(40, kind=kind), new_rows()
    laplace = model.fit(data, "laplace", **KW)
    fit = all_rows(model).fit(data, "vecchia", **KW)
    # Compared is what is said at the same hyper-parameters.
    for variable in fit.idata["posterior"].data_vars:
        fit.idata["posterior"][variable] = laplace.idata["posterior"][variable]
    vars(fit).pop("state", None)
    new = zoo.MultiTaskData.from_arrays(X=X, y=data.y[:7], t=t)
    ours, theirs = (latent_moments(f, f.factory.design(new, f.context)) for f in (fit, laplace))
    assert_allclose(ours, theirs, atol=1e-5)
    if model.is_linear and name != "pooled":
        ours, theirs = fit.coefficients(t), laplace.coefficients(t)
        assert_allclose(ours["mean"], theirs["mean"], atol=1e-5)
        assert_allclose(ours["sd"], theirs["sd"], atol=1e-5)


def test_the_search_finds_what_that_of_laplace_finds():
    data = counts(150)
    model = GP(likelihood="poisson", task_kernel="matern52")
    laplace = model.fit(data, "laplace", tol=1e-12, **KW)
    fit = model.fit(data, "vecchia", n_neighbours=149, tol=1e-12, **KW)
    for name in ("amplitude", "lengthscale"):
        assert_allclose(fit.posterior[name], laplace.posterior[name], rtol=3e-3)


def test_many_latents_agree_with_dense_algebra(monkeypatch):
    """By probes and draws: the evidence within 6 nats of 500 rows, means to 1e-4, sds within 15%: 4 standard errors."""
    data, (X, t) = counts(500), new_rows(30)
    model = GP(likelihood="poisson", n_neighbours=20)
    dense = model.fit(data, "vecchia", **KW)
    monkeypatch.setattr(vecchia_latent, "_DENSE", 50)
    monkeypatch.setattr(vecchia_latent, "_PILOT", 200)
    fit = model.fit(data, "vecchia", **KW)
    assert bool(fit.idata["sample_stats"]["converged"].all())
    for name in ("amplitude", "lengthscale"):
        assert_allclose(fit.posterior[name], dense.posterior[name], rtol=0.2)
    for variable in fit.idata["posterior"].data_vars:
        fit.idata["posterior"][variable] = dense.idata["posterior"][variable]
    vars(fit).pop("state", None)
    new = zoo.MultiTaskData.from_arrays(X=X, y=data.y[:30], t=t)
    rows = fit.factory.design(new, fit.context)
    monkeypatch.setattr(vecchia_latent, "ENTRIES", 4000)  # in blocks of ten rows
    ours = latent_moments(fit, rows)
    assert abs(fit.state[1].log_evidence - float(dense.idata["sample_stats"]["log_evidence"][0, 0])) < 6.0
    monkeypatch.setattr(vecchia_latent, "_DENSE", 1000)
    theirs = latent_moments(dense, rows)
    assert_allclose(ours[0], theirs[0], atol=1e-4)
    assert_allclose(ours[1], theirs[1], rtol=0.15)


def test_evidence_by_probes_has_the_gradient_of_differences(monkeypatch):
    """Of the whole, and of the first latents, which the search begins with."""
    monkeypatch.setattr(vecchia_latent, "_DENSE", 50)
    monkeypatch.setattr(vecchia_latent, "_PILOT", 60)
    model = GP(likelihood="student_t", approximation="vecchia", n_neighbours=8)
    data = counts(150, kind="student")
    space = space_of(model, model.design(data), model.validate(data))
    assert len(space.coarse) == 60
    z = space.coordinates.start + 0.1
    for coarse in (False, True):
        _, gradient = space.evidence(z, coarse)
        expected = [
            (space.evidence(z + e, coarse)[0] - space.evidence(z - e, coarse)[0]) / 2e-4
            for e in 1e-4 * np.eye(len(z))
        ]
        assert_allclose(gradient, expected, atol=1e-4 * np.abs(gradient).max())


# ---------------------------------------------------------------- doors of a fit


def test_posterior_has_hyperparameters_alone_and_predictions_every_door(tmp_path):
    data, (X, t) = counts(kind="student"), new_rows()
    fit = GP(likelihood="student_t").fit(data, "vecchia", **KW)
    assert set(fit.posterior) == {"amplitude", "lengthscale", "global_scale", "noise", "degrees"}
    predicted = fit.predict(X, t=t, random_seed=1)
    loaded = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert_allclose(loaded.predict(X, t=t, random_seed=1)["mean"], predicted["mean"], rtol=0, atol=0)
    fit.compute_log_likelihood()
    assert np.all(np.isfinite(fit.idata["log_likelihood"]["y"]))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "Numba will use object mode", UserWarning)
        drawn = pm.sample_posterior_predictive(fit.idata, model=fit.model, progressbar=False, random_seed=1)
    gap = drawn.posterior_predictive["y"].mean(("chain", "draw")) - data.y
    assert float(np.abs(gap).mean()) < 1.0
    assert {"y", "function_values"} <= set(fit.factory.build(data).named_vars)


@pytest.mark.parametrize("dense", [True, False])
def test_joint_draws_have_the_moments_of_the_functions(dense, monkeypatch):
    """400 draws: 4.5 standard errors of a mean, for 7 rows, are passed by chance once in 20,000 times."""
    monkeypatch.setattr(vecchia_latent, "_DENSE", 1000 if dense else 20)
    data, (X, t) = counts(kind="logistic"), new_rows()
    fit = GP(likelihood="logistic").fit(data, "vecchia", **{**KW, "draws": 400})
    X, t = np.vstack([X, X[:1]]), np.vstack([t, t[:1]])
    f = fit.predict_draws(X, t=t, random_seed=3)["f"].to_numpy()[0]
    assert np.array_equal(f[:, 0], f[:, -1])  # one function, so one value
    new = zoo.MultiTaskData.from_arrays(X=X, y=data.y[:8], t=t)
    mean, sd = latent_moments(fit, fit.factory.design(new, fit.context))
    assert np.all(np.abs(f.mean(axis=0) - mean) < 4.5 * sd / 20.0)
    assert_allclose(f.std(axis=0), sd, rtol=0.16)


def test_order_of_the_rows_of_the_data_matters_by_the_seed_alone():
    data = counts(120)
    shuffled = data.take(np.random.default_rng(5).permutation(120))
    X, t = new_rows()
    model = GP(likelihood="poisson", n_neighbours=25)
    new = zoo.MultiTaskData.from_arrays(X=X, y=data.y[:7], t=t)

    def mean(model, data):
        fit = model.fit(data, "vecchia", **KW)
        return latent_moments(fit, fit.factory.design(new, fit.context))[0]

    one = mean(model, data)
    for other in (
        (model, shuffled),
        (replace(model, ordering_seed=1), data),
        (replace(model, ordering="maxmin"), data),
    ):
        assert_allclose(mean(*other), one, atol=0.15)
    # All neighbours: no order is left.
    assert_allclose(mean(all_rows(model), shuffled), mean(all_rows(model), data), atol=1e-3)


def test_rows_that_are_alike_share_a_latent():
    """100,000 rows of three places are three latents, and what each says is that of its rate."""
    rng = np.random.default_rng(0)
    place = rng.integers(0, 3, 100_000)
    data = zoo.MultiTaskData.from_arrays(
        None, rng.poisson(np.array([1.0, 3.0, 9.0])[place]), t=place[:, None] * 1.0
    )
    fit = GP(likelihood="poisson").fit(data, "vecchia", **KW)
    assert len(fit.state[0].ordered) == 3
    rates = [data.y[place == i].mean() for i in range(3)]
    assert_allclose(np.exp(fit.coefficients([[0.0], [1.0], [2.0]])["mean"].to_numpy()[0]), rates, rtol=1e-3)


@pytest.mark.parametrize("kind", ["five places", "a line", "one far point", "one label", "rank"])
def test_hostile_data(kind, monkeypatch):
    """Fits end, and what they say is finite, near the data and far from them, by dense algebra and by probes."""
    rng = np.random.default_rng(4)
    n = 300
    t = rng.uniform(0.0, 1.0, (n, 2))
    x = rng.standard_normal((n, 1))
    if kind in ("five places", "rank"):
        t = t[rng.integers(0, 5, n)]
    elif kind == "a line":
        t[:, 1] = 2.0 * t[:, 0]
    elif kind == "one far point":
        t[0] = [1e6, -1e6]
    if kind == "five places":
        x = np.round(x)
    y = rng.uniform(size=n) < 1.0 / (1.0 + np.exp(-3.0 * np.sin(5.0 * t[:, 0]) - x[:, 0]))
    if kind == "one label":
        y[1:] = True
    data = zoo.MultiTaskData.from_arrays(X=x, y=y.astype(float), t=t)
    for dense in (1000, 30):
        monkeypatch.setattr(vecchia_latent, "_DENSE", dense)
        monkeypatch.setattr(vecchia_latent, "_PILOT", 100)
        fit = GP(likelihood="logistic").fit(data, "vecchia", n_neighbours=10, **KW)
        near, far = fit.predict(data.X[1:], t=data.t[1:]), fit.predict([[0.0]], t=[[1e7, 1e7]])
        for predicted in (near, far):
            assert np.all(np.isfinite(predicted["mean"]))
        if kind != "one far point":  # beside which the others are one place
            assert np.mean((near["mean"] > 0.5) == y[1:]) > 0.65
        assert np.all(np.isfinite(fit.predict_draws(data.X[:20], t=data.t[:20], random_seed=1)["f"]))


def test_other_methods_keep_the_exact_prior():
    model = GP(approximation="vecchia", likelihood="poisson")
    assert model._for_method("laplace").approximation == "none"
    assert model._for_method("nuts").approximation == "none"
    assert model.default_method(counts(20)) == "vecchia"


@pytest.mark.parametrize("kind", daily(["poisson", "logistic"], ["logistic"]))
def test_the_choice_looks_at_the_range(kind, monkeypatch):
    """Sines where they resolve the range that a pilot fit finds, and neighbours where they do not."""
    monkeypatch.setattr(varying_fit, "_FEW_ROWS", 100)

    def wave(n: int, length: float, seed: int = 3) -> zoo.MultiTaskData:
        rng = np.random.default_rng(seed)
        t = rng.uniform(0.0, 1.0, (n, 1))
        f = 1.0 + np.sin(t[:, 0] / length)
        y = (
            rng.poisson(3.0 * np.exp(f))
            if kind == "poisson"
            else rng.random(n) < 1.0 / (1.0 + np.exp(4.0 - 4.0 * f))
        )
        return zoo.MultiTaskData.from_arrays(None, y.astype(float), t=t)

    model = GP(likelihood=kind)
    assert varying_fit.choose(model, wave(600, 0.3)).method == "laplace"
    rough = wave(1500, 0.006)
    found = varying_fit.choose(model, rough)
    assert (found.method, found.approximation) == ("vecchia", "vecchia")
    assert "each row is given its nearest ones" in found.reason
    fit = model.fit(rough, **KW)
    assert fit.method == "vecchia" and fit.idata["posterior"].attrs["chosen"].startswith(
        "vecchia: 1,500 rows"
    )
    # Many columns of t have no basis: inducing points, as no comparison says more.
    wide = zoo.MultiTaskData.from_arrays(None, rough.y, t=np.random.default_rng(0).normal(size=(1500, 4)))
    assert varying_fit.choose(model, wide).method == "inducing"


# ---------------------------------------------------------------- calibration


@pytest.mark.parametrize("kind", daily(["logistic", "poisson"], ["logistic"]))
def test_intervals_of_functions_cover(kind):
    """At the true parameters, f at 500 new places of 8 fields: 90% intervals cover as they say.

    Null: an interval covers with its probability. Functions of one field are dependent, so a field counts as 50
    independent ones; Laplace's law of labels is normal, which costs little here. False-alarm rate 0.001.
    """
    covered, fields, n = 0.0, 8, 2000
    for seed in range(fields):
        rng = np.random.default_rng(seed)
        t = rng.uniform(0.0, 1.0, (n + 500, 2))
        omega = rng.standard_normal((1000, 2)) / np.sqrt(rng.chisquare(3.0, (1000, 1)) / 3.0) / 0.1
        f = np.cos(t @ omega.T + rng.uniform(0.0, 2.0 * np.pi, 1000)).sum(axis=1) * np.sqrt(2.0 / 1000)
        y = (
            rng.poisson(np.exp(f))
            if kind == "poisson"
            else rng.uniform(size=n + 500) < 1.0 / (1.0 + np.exp(-f))
        )
        data = zoo.MultiTaskData.from_arrays(np.ones((n + 500, 1)), y.astype(float), t=t)
        model = GP(
            task_kernel=zoo.VaryingComponent(lengthscale=0.1, amplitude=1.0), likelihood=kind, intercept=False,
            standardize=False, global_coefficients=False, approximation="vecchia", n_neighbours=15,
        )  # fmt: skip
        train, test = data.take(np.arange(n)), data.take(np.arange(n, n + 500))
        rows = model.design(train)
        space = space_of(model, rows, model.validate(train))
        mean, variance = space.moments(space.state(np.zeros(0)), model.design(test, Context(train, train)))
        sd = np.sqrt(variance)
        covered += float(np.mean(np.abs(f[n:] - mean) < stats.norm.ppf(0.95) * sd))
    assert stats.binomtest(round(50 * covered), 50 * fields, 0.9).pvalue > 0.001


# ---------------------------------------------------------------- GPBoost


@pytest.mark.parametrize("neighbours", [10, 199])
@pytest.mark.parametrize("kind, theirs", [("logistic", "bernoulli_logit"), ("poisson", "poisson")])
def test_evidence_is_that_of_gpboost(kind, theirs, neighbours, monkeypatch):
    """With its parameters, rows in the order of the data, and its factorisation: to 1e-5."""
    gpboost = pytest.importorskip("gpboost")
    rng = np.random.default_rng(6)
    t = rng.uniform(size=(200, 2))
    f = 1.5 * np.sin(6.0 * t[:, 0]) + np.cos(9.0 * t[:, 1])
    y = rng.poisson(np.exp(f)) if kind == "poisson" else rng.uniform(size=200) < 1.0 / (1.0 + np.exp(-f))
    y = y.astype(float)
    peer = gpboost.GPModel(
        gp_coords=t, cov_function="matern", cov_fct_shape=1.5, likelihood=theirs, gp_approx="vecchia",
        num_neighbors=neighbours, vecchia_ordering="none", matrix_inversion_method="cholesky", seed=1,
    )  # fmt: skip
    expected = -peer.neg_log_likelihood(cov_pars=np.array([1.44, 0.2]), y=y)
    monkeypatch.setattr(vecchia_latent, "order_rows", lambda places, *_: np.arange(len(places)))
    model = GP(
        task_kernel=zoo.VaryingComponent(lengthscale=0.2, amplitude=1.2), likelihood=kind, intercept=False,
        standardize=False, global_coefficients=False, approximation="vecchia", n_neighbours=neighbours,
    )  # fmt: skip
    data = zoo.MultiTaskData.from_arrays(np.ones((200, 1)), y, t=t)
    space = space_of(model, model.design(data), model.validate(data))
    assert space.evidence(np.zeros(0))[0] == pytest.approx(expected, abs=1e-5)
    with pytest.raises(UnsupportedMethodError, match="Learn one of them"):
        model.fit(data, "vecchia", **KW)
