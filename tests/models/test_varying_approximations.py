"""Varying coefficients by basis functions and inducing points, and which method is chosen."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad

from tests.daily import daily
from tests.models.varying import (
    BARE,
    DRAWS,
    FIXED,
    QUICK,
    TREE,
    Component,
    Varying,
    labelled,
    log_evidence,
    new_places,
    on_tree,
    places,
    shown_at,
    values_of,
)
from zoo.core.context import Context
from zoo.likelihoods import Gaussian
from zoo.models.varying_coefficient import methods as varying_fit
from zoo.models.varying_coefficient.stationary import log_density as log_spectrum

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
    assert other.posterior["inducing_values"].sizes["inducing"] == len(other.factory.design(data).points)


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


def assert_moments_of_draws(fit, X, t):
    """Means and standard deviations of draws of y at new rows are those of the closed form, within 4.5 errors."""
    y = fit.predict_draws(X, t=t, random_seed=2)["y"].to_numpy()[0]
    expected = fit.predict(X, t=t)
    z = (y.mean(axis=0) - expected["mean"].to_numpy()) / (y.std(axis=0) / np.sqrt(len(y)))
    assert np.abs(z).max() < 4.5
    assert_allclose(y.std(axis=0) / expected["sd"], 1.0, atol=4.5 / np.sqrt(2 * len(y)))


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
    assert_moments_of_draws(fit, *new_places(data, 12))


@pytest.mark.statistical
@pytest.mark.filterwarnings("ignore:PyTensor could not link")
@pytest.mark.parametrize(
    ("approximation", "learned"),
    daily(
        [(name, learned) for name in ("none", "hsgp", "fitc", "vfe") for learned in (False, True)],
        [("none", False), ("hsgp", True)],
    ),
)
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
    model, f = factory.assemble(factory.design(data), data.y)
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
    found, sd = fit.factory.latent_moments(fit, fit.factory.design(data, Context(data, data)))
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
    assert_moments_of_draws(fit, *new_places(data, 12))


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
        assert not factory.kernel_of(factory.design(data)).has_basis
        with pytest.raises(ValueError, match="basis of sines"):
            factory.fit(data, "hsgp", **DRAWS)
        return
    one, two = factory.fit(data, "exact", **DRAWS), factory.fit(data, "hsgp", **DRAWS)
    # The rational quadratic has a long tail, which the box cuts off.
    assert log_evidence(two) == pytest.approx(log_evidence(one), abs=0.1 if make == "RATQUAD" else 1e-3)
