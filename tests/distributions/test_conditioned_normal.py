"""Standard normal variables seen given normal responses: the law, the map, and what is left for a sampler."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from numpy.testing import assert_allclose
from scipy import stats

from tests.distributions.numerics import assert_moments, log_jacobian, unconstrained
from zoo.distributions.conditioned_normal import conditioned_normal

A = np.random.default_rng(0).normal(size=(8, 3))
Y = np.random.default_rng(1).normal(size=8)


def regression(noise=None):
    """Responses A z + noise, of which the noise is learned or a number."""
    with pm.Model(coords={"weight": range(3)}) as model:
        sigma = pm.LogNormal("sigma", 0.0, 1.0) if noise is None else pt.constant(noise)
        y = pm.Data("y_data", Y)
        z = conditioned_normal("z", pt.constant(A.T @ A), pt.dot(A.T, y), sigma, "weight")
        pm.Normal("y", pt.dot(A, z), sigma, observed=y)
    return model


@pytest.mark.parametrize("noise", [1e-8, 0.3, 1e8])
def test_law_is_standard_normal_and_the_jacobian_that_of_the_map(noise):
    model = regression(noise)
    value, density, plain = unconstrained(model, "z")
    for u in np.random.default_rng(2).normal(size=(3, 3)):
        z = value(u)
        assert plain(u) == pytest.approx(stats.norm.logpdf(z).sum(), rel=1e-10)
        assert density(u) - plain(u) == pytest.approx(log_jacobian(value, u), abs=1e-4)
        transform, inputs = model.rvs_to_transforms[model["z"]], model["z"].owner.inputs
        assert_allclose(transform.forward(z, *inputs).eval(), u, atol=1e-4)


@pytest.mark.parametrize("sigma", [0.05, 0.7, 4.0])
def test_what_is_left_is_the_evidence(sigma):
    """The density that is sampled is p(sigma) p(y | sigma) N(u): u is independent of sigma."""
    model = regression()
    density = model.compile_logp()
    evidence = stats.multivariate_normal(cov=A @ A.T + sigma**2 * np.eye(8)).logpdf(Y)
    for u in np.random.default_rng(3).normal(size=(3, 3)):
        expected = stats.norm.logpdf(np.log(sigma)) + evidence + stats.norm.logpdf(u).sum()
        # The map's own variance is a little more than that of the noise.
        assert density({"sigma_log__": np.log(sigma), "z_conditioned__": u}) == pytest.approx(
            expected, rel=1e-6
        )


def test_draws_from_the_prior_do_not_look_at_the_responses():
    """Means and squares of 20,000 draws, false alarm 1e-5."""
    draws = pm.draw(regression()["z"], 20_000, random_seed=4)
    assert_moments(np.column_stack([draws, draws**2]), np.repeat([0.0, 1.0], 3), np.repeat([1.0, 2.0], 3))
