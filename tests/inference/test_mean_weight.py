"""A learned weight of the prior of the mean: its conditional law, the law of the mean without it, what refuses it."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy import stats
from scipy.integrate import cumulative_trapezoid

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.gibbs.mean_weight import mean_weight_given

# p-value below which a test of Kolmogorov and Smirnov fails: the rate of false alarms of each, under the null.
ALARM = 1e-5


@pytest.mark.statistical
@pytest.mark.parametrize("size", [0.0, 0.4, 6.0], ids=["mean at zero", "small mean", "large mean"])
def test_draws_have_the_conditional_law(size):
    """Null: draws follow the density of the weight times that of the mean given it, normalised on a grid."""
    rng = np.random.default_rng(0)
    root = rng.standard_normal((4, 4))
    C, mu = root @ root.T + 0.3 * np.eye(4), size * rng.standard_normal(4)
    logs = np.linspace(-30.0, 8.0, 20001)
    weights = np.exp(logs)
    law = stats.multivariate_normal(np.zeros(4), C)
    # The density of the mean under covariance C / pi is pi^2 times that of its multiple by the root of pi under C.
    density = stats.chi2(1).pdf(weights) * weights**2 * law.pdf(np.sqrt(weights)[:, None] * mu) * weights
    below = cumulative_trapezoid(density, logs, initial=0.0)
    draws = [mean_weight_given(rng, mu, np.linalg.inv(C)) for _ in range(20000)]
    found = stats.kstest(np.log(draws), lambda s: np.interp(s, logs, below / below[-1]))
    assert found.pvalue > ALARM


@pytest.mark.statistical
@pytest.mark.parametrize("prior", ["inverse_wishart", "half_t", "lkj"])
def test_the_mean_is_cauchy_given_the_covariance(prior):
    """Null: in the PyMC model each mean divided by the standard deviation of its feature has the Cauchy law."""
    data = zoo.MultiTaskData.from_arrays(np.eye(3), np.zeros(3), ["a", "a", "b"])
    model = zoo.NIWLinear(pi="learned", covariance_prior=prior).build(data)
    mean, cov = pm.draw([model["population_mean"], model["feature_cov"]], 4000, random_seed=1)
    for i in range(3):
        assert stats.kstest(mean[:, i] / np.sqrt(cov[:, i, i]), stats.cauchy.cdf).pvalue > ALARM


def test_what_knows_no_learned_weight_refuses_it():
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((6, 1)), rng.standard_normal(6), [0, 0, 0, 1, 1, 1]
    )
    with pytest.raises(UnsupportedMethodError, match=r"method 'em' has no estimate of pi.*Give pi a number"):
        zoo.NIWLinear(pi="learned").fit(data, "em", progress=False)
    with pytest.raises(ValueError, match=r"pi is 'estimated'\. Give a number above 0, or 'learned'"):
        zoo.NIWLinear(pi="estimated")
    with pytest.raises(ValueError, match="pi is 'learned', and own_priors has a prior of 'population_mean'"):
        zoo.NIWLinear(pi="learned", own_priors={"population_mean": pm.Normal.dist(0, 1)})
