"""Varying coefficients of responses that are not normal: against importance sampling and against NUTS."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy import stats
from scipy.special import expit, gammaln

import zoo
from tests.comparisons import mean_and_error
from tests.daily import daily
from tests.models.varying import (
    BARE,
    DRAWS,
    TREE,
    Component,
    Varying,
    fixed,
    labelled,
    log_evidence,
    matern32,
    new_places,
    on_tree,
    places,
)
from zoo.core.context import Context
from zoo.core.methods import UnsupportedMethodError
from zoo.likelihoods import Gaussian
from zoo.models.varying_coefficient.spaces import space_of

# ---------------------------------------------------------------- responses that are not normal


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
    found, found_sd = fit.factory.latent_moments(fit, fit.factory.design(data))
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
@pytest.mark.parametrize("kind", daily(["places", "tree", "hsgp", "fitc", "vfe"], ["tree", "hsgp"]))
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
    mean, sd = exact.factory.latent_moments(exact, exact.factory.design(rows, Context(data, data)))
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
    rows = exact.factory.design(data, Context(data, data))
    expected = exact.factory.latent_moments(exact, rows)
    for approximation in ("hsgp", "fitc"):
        other = factory.fit(data, "laplace", approximation=approximation, **DRAWS)
        assert other.factory.approximation == approximation
        assert log_evidence(other) == pytest.approx(log_evidence(exact), abs=1e-5)
        assert_allclose(other.factory.latent_moments(other, rows), expected, atol=1e-4)
        assert bool(np.all(other.idata["sample_stats"]["converged"]))


def assert_gradient_of_differences(space, name):
    """The gradient of the evidence near the start is that of central differences."""
    z = space.coordinates.start + 0.2 * np.random.default_rng(1).standard_normal(space.coordinates.size)
    gradient = space.evidence(z)[1]
    for i in range(len(z)):
        step = 1e-4 * np.eye(len(z))[i]
        expected = (space.evidence(z + step)[0] - space.evidence(z - step)[0]) / 2e-4
        assert gradient[i] == pytest.approx(expected, rel=1e-4, abs=2e-5), (name, i)


@pytest.mark.parametrize("response", ["student_t", "poisson"])
def test_gradient_of_a_space_is_that_of_differences(response):
    data = labelled(places(20, 6), response)
    component = Component(n_basis=5, amplitude="per_feature")
    for approximation in ("none", "hsgp", "fitc"):
        factory = Varying(
            task_kernel=component, likelihood=response, approximation=approximation, n_inducing=8
        )
        rows = factory.design(data)
        space = space_of(factory, rows, factory.validate(data))
        assert_gradient_of_differences(space, approximation)


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
        space = space_of(factory, factory.design(rows), factory.validate(rows))
        assert_gradient_of_differences(space, factory)


# ---------------------------------------------------------------- approximations


@pytest.mark.parametrize("response", ["logistic", "poisson"])
def test_closed_form_of_laplace_is_what_the_draws_say(response):
    data = labelled(places(30), response)
    fit = fixed(response).fit(data, "laplace", draws=4000, chains=1, random_seed=1, progress=False)
    X, t = new_places(data, 12)
    f = fit.predict_draws(X, t=t, random_seed=2)["f"].to_numpy()[0]
    rows = fit.factory.design(
        replace(data.take(np.arange(12)), inputs=X, row=np.arange(12), t=t), Context(data, data)
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


# ---------------------------------------------------------------- bad input


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


def test_methods_that_a_response_does_not_have():
    data = places()
    with pytest.raises(
        UnsupportedMethodError, match=r"laplace.*Choose from exact, hsgp, inducing, vecchia, gibbs, nuts"
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
