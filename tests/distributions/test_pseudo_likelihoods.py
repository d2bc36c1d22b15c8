"""Hinge and epsilon-insensitive likelihoods as PyMC distributions."""

from __future__ import annotations

import arviz as az
import numpy as np
import pymc as pm
import pytest
from pymc.logprob.utils import ParameterValueError
from scipy import integrate, special, stats

import zoo
from tests.distributions.numerics import assert_moments
from tests.losses import loss_of
from zoo.distributions import (
    EpsilonInsensitivePseudoLikelihood,
    GeneralisedInverseGaussian,
    HingePseudoLikelihood,
    NormalisedEpsilonInsensitive,
    NormalisedHinge,
    epsilon_insensitive_lambda_omega,
    hinge_lambda,
)
from zoo.likelihoods.epsilon_insensitive import EpsilonInsensitive
from zoo.likelihoods.hinge import Hinge

F = np.array([-3.0, -0.7, 0.0, 0.2, 0.9, 5.0])
C, MARGIN = 1.3, 0.8


def hinge(y, f):
    return -2 * C * np.maximum(0, MARGIN - y * f)


def test_pseudo_logp():
    y = np.array([1, -1, 1, 1, -1, 1])
    ours = pm.logp(HingePseudoLikelihood.dist(F, C, MARGIN), y).eval()
    np.testing.assert_allclose(ours, hinge(y, F), rtol=1e-14)
    np.testing.assert_allclose(Hinge(C=C, margin=MARGIN).minus_loss(F, y), ours, rtol=1e-14)
    responses = np.linspace(-2, 2, 6)
    ours = pm.logp(EpsilonInsensitivePseudoLikelihood.dist(F, C, 0.4), responses).eval()
    np.testing.assert_allclose(ours, -2 * C * np.maximum(0, np.abs(responses - F) - 0.4), rtol=1e-14)
    np.testing.assert_allclose(
        EpsilonInsensitive(C=C, epsilon=0.4).minus_loss(F, responses), ours, rtol=1e-14
    )


@pytest.mark.parametrize("epsilon", [0.0, 0.4])
def test_normalised_epsilon_insensitive_is_a_density(epsilon):
    variable = NormalisedEpsilonInsensitive.dist(0.3, C, epsilon)
    grid = np.linspace(-15, 15, 60_001)
    density = np.exp(pm.logp(variable, grid).eval())
    assert integrate.trapezoid(density, grid) == pytest.approx(1.0, abs=1e-6)
    if epsilon == 0.0:
        np.testing.assert_allclose(density, stats.laplace(0.3, 1 / (2 * C)).pdf(grid), rtol=1e-10)
    draws = pm.draw(NormalisedEpsilonInsensitive.dist(0.3, C, epsilon, size=20_000), random_seed=1)
    cdf = integrate.cumulative_trapezoid(density, grid, initial=0.0)
    # Null: the draws have this density; Kolmogorov-Smirnov at 1e-5.
    assert stats.kstest(draws, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-5


def test_normalised_hinge_is_a_distribution():
    variable = NormalisedHinge.dist(F, C, MARGIN)
    logs = np.array([pm.logp(variable, y).eval() for y in (1, -1)])
    np.testing.assert_allclose(special.logsumexp(logs, axis=0), 0.0, atol=1e-14)
    np.testing.assert_allclose(logs[0] - logs[1], hinge(1, F) - hinge(-1, F), rtol=1e-12)
    for value in (0, 2, -3):
        assert np.all(pm.logp(variable, value).eval() == -np.inf)
        assert np.all(pm.logp(HingePseudoLikelihood.dist(F), value).eval() == -np.inf)
    # Far out nothing underflows.
    assert pm.logp(NormalisedHinge.dist(-1e8, C, MARGIN), 1).eval() == pytest.approx(-2 * C * (1e8 + MARGIN))


@pytest.mark.compiled
@pytest.mark.parametrize("kind", [HingePseudoLikelihood, NormalisedHinge])
def test_labels_drawn(kind):
    # Null: P(+1) by its formula; normal tests of the frequencies over 20,000 draws; false alarm 1e-5.
    draws = pm.draw(kind.dist(F, C, MARGIN), 20_000, random_seed=1)
    assert draws.dtype == np.int64 and set(np.unique(draws)) == {-1, 1}
    probability = special.expit(hinge(1, F) - hinge(-1, F))
    assert_moments(
        (draws[:, 1:-1] == 1).astype(float), probability[1:-1], (probability * (1 - probability))[1:-1]
    )


@pytest.mark.compiled
@pytest.mark.parametrize("epsilon", [0.0, 0.001, 0.7])
def test_responses_drawn(epsilon):
    # Null: the normalised density; Kolmogorov-Smirnov on 20,000 draws, false alarm 1e-5. And its variance in the
    # docstring.
    def density(u):
        return np.exp(-2 * C * np.maximum(0, np.abs(u) - epsilon))

    knots = [-epsilon, 0.0, epsilon]
    mass = integrate.quad(density, -20, 20, points=knots)[0]
    assert mass == pytest.approx(2 * epsilon + 1 / C, rel=1e-6)
    draws = (
        pm.draw(EpsilonInsensitivePseudoLikelihood.dist(0.5, C, epsilon, size=20_000), random_seed=2) - 0.5
    )

    def cdf(u):
        outside = np.exp(-2 * C * np.maximum(0, np.abs(u) - epsilon)) / (2 * C)
        inside = np.clip(u, -epsilon, epsilon) + epsilon + 1 / (2 * C)
        return np.where(u < -epsilon, outside, np.where(u > epsilon, mass - outside, inside)) / mass

    assert stats.kstest(draws, cdf).pvalue > 1e-5
    variance = 2 * C / (2 * C * epsilon + 1) * (
        epsilon**3 / 3 + epsilon**2 / (2 * C) + epsilon / (2 * C**2) + 1 / (4 * C**3)
    )  # fmt: skip
    assert integrate.quad(lambda u: u**2 * density(u), -20, 20, points=knots)[0] / mass == pytest.approx(
        variance
    )


def test_conditionals_of_the_augmentation():
    # 1 / lambda is inverse Gaussian with mean 1 / (C |m - y f|) and shape 1 (li2014 eq 10).
    f, y = np.array([0.3, 2.0, MARGIN]), np.array([1.0, -1.0, 1.0])
    x = np.array([0.4, 1.0, 2.0])
    lam = hinge_lambda(f, y, C, MARGIN)
    same = GeneralisedInverseGaussian.dist(1.0, (C * (MARGIN - y * f)) ** 2)
    np.testing.assert_allclose(pm.logp(lam, x).eval(), pm.logp(same, x).eval(), rtol=1e-14)
    assert np.all(pm.draw(lam, 100, random_seed=3) > 0)
    above, below = epsilon_insensitive_lambda_omega(f, y, C, 0.2)
    for variable, gap in ((above, y - f - 0.2), (below, y - f + 0.2)):
        expected = stats.invgauss.logpdf(1 / x, 1 / (C * np.abs(gap))) - 2 * np.log(x)
        np.testing.assert_allclose(pm.logp(variable, x).eval(), expected, rtol=1e-10)


# ---------------------------------------------------------------- in a model


@pytest.mark.parametrize("loss", ["hinge", "epsilon_insensitive"])
@pytest.mark.filterwarnings("ignore:Estimated shape parameter")  # may be true of a row: it is left out below
def test_leave_one_out_of_a_fit(loss):
    data, _ = zoo.datasets.simulate_matrix_normal(
        n_tasks=3, n_features=2, n_per_task=20, loss=loss, random_seed=1
    )
    factory = zoo.MaxMargin(likelihood=loss_of(loss, 0.5), feature_nu=6.0, task_nu=6.0)
    fit = factory.fit(data, draws=1000, tune=300, chains=2, random_seed=2, progress=False)
    tree = fit.compute_log_likelihood()
    eta = fit.posterior["coefficients"].transpose("chain", "draw", "task", "feature").to_numpy()
    f = np.einsum("nd,abnd->abn", data.X, eta[:, :, data.task])
    density = factory.likelihood.minus_loss(f, factory.likelihood.encode(data))
    np.testing.assert_allclose(tree["log_likelihood"]["y"].to_numpy(), density, rtol=1e-9, atol=1e-12)
    # Importance sampling without smoothing is a rougher estimate of the same number.
    estimate = zoo.diagnostics.loo(tree, pointwise=True)
    plain = -special.logsumexp(-density.reshape(-1, data.n_rows), axis=0) + np.log(2000)
    easy = ~(estimate.pareto_k.to_numpy() > 0.5)
    assert easy.sum() > 0.7 * data.n_rows
    np.testing.assert_allclose(estimate.elpd_i.to_numpy()[easy], plain[easy], atol=0.2)


@pytest.mark.compiled
def test_leave_one_out_of_a_pymc_model():
    y = np.where(np.random.default_rng(5).random(30) < 0.7, 1, -1)
    with pm.Model():
        f = pm.Normal("f")
        HingePseudoLikelihood("pseudo", f, observed=y)
        tree = pm.sample(
            500, tune=300, chains=2, cores=1, nuts_sampler="nutpie", random_seed=6, progressbar=False
        )
        tree = pm.compute_log_likelihood(tree, progressbar=False)
    draws = tree["posterior"]["f"].to_numpy()[..., None]
    np.testing.assert_allclose(
        tree["log_likelihood"]["pseudo"], -2 * np.maximum(0, 1 - y * draws), rtol=1e-12
    )
    assert zoo.diagnostics.loo(tree).elpd == az.loo(tree).elpd


def test_in_a_model():
    y01 = np.array([0, 1, 1])
    with pm.Model() as model:
        f = pm.Normal("f", shape=3)
        scale = pm.HalfNormal("C")
        labels = pm.Data("labels", np.array([1.0, -1.0, 1.0]))
        HingePseudoLikelihood("pseudo", f, observed=labels)
        NormalisedHinge("proper", f, C=scale, observed=[1, -1, 1])
        EpsilonInsensitivePseudoLikelihood("real", f, observed=np.float32([0.1, 2.0, -1.0]))
        with pytest.raises(ValueError, match=r"observed is 0 at \[0\].*2 \* y - 1"):
            NormalisedHinge("wrong", f, observed=y01)
        prior = pm.sample_prior_predictive(20, random_seed=4)
    assert set(np.unique(prior["prior_predictive"]["proper"])) == {-1, 1}
    assert np.all(np.isfinite(model.compile_dlogp()(model.initial_point())))


@pytest.mark.parametrize(
    ("variable", "message"),
    [
        (NormalisedHinge.dist(0.0, -1.0), "C > 0"),
        (HingePseudoLikelihood.dist(0.0, 1.0, 0.0), "margin > 0"),
        (EpsilonInsensitivePseudoLikelihood.dist(0.0, 0.0), "C > 0"),
        (EpsilonInsensitivePseudoLikelihood.dist(0.0, 1.0, -0.1), "epsilon >= 0"),
    ],
)
def test_bad_parameters(variable, message):
    with pytest.raises(ParameterValueError, match=message):
        pm.draw(variable)
    with pytest.raises(ParameterValueError, match=message):
        pm.logp(variable, 1).eval()
