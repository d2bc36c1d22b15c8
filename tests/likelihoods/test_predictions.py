"""Likelihoods of counts: densities, the mean of y, and what y may be."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pymc as pm
import pytest
from scipy import stats

import zoo
from zoo.core.factory import ModelFactory
from zoo.likelihoods.gaussian import Gaussian
from zoo.likelihoods.negative_binomial import NegativeBinomial
from zoo.likelihoods.poisson import Poisson

F = np.array([0.1, -2.0, 3.0, 1.0, 0.5])
COUNTS = np.array([0.0, 3.0, 7.0, 1.0, 40.0])
COUNT_LIKELIHOODS = [Poisson(), NegativeBinomial()]


def log_density(likelihood: Any, **parameters: float) -> np.ndarray:
    with pm.Model(coords={"obs": np.arange(len(F))}) as model:
        y = pm.Data("y_observed", COUNTS, dims="obs")
        likelihood.term(pm.Flat("f", shape=len(F)), y, **parameters)
    return np.asarray(model.compile_logp(vars=[model["y"]], sum=False)({"f": F})[0])


def test_poisson_density() -> None:
    np.testing.assert_allclose(
        log_density(Poisson()), stats.poisson.logpmf(COUNTS, np.exp(F)), rtol=1e-12, atol=1e-12
    )


@pytest.mark.parametrize("dispersion", [0.3, 1.7, 50.0])
def test_negative_binomial_density(dispersion: float) -> None:
    expected = stats.nbinom.logpmf(COUNTS, dispersion, dispersion / (dispersion + np.exp(F)))
    actual = log_density(NegativeBinomial(), dispersion=dispersion)
    np.testing.assert_allclose(actual, expected, rtol=1e-10, atol=1e-10)


def test_negative_binomial_moments() -> None:
    """The law of the term has the mean and the variance that the docstring says: by the sum of its probabilities."""
    dispersion, f = 1.7, 0.8
    y = np.arange(2000)
    law = pm.NegativeBinomial.dist(mu=np.exp(f), alpha=dispersion)
    p = np.exp(pm.logp(law, y).eval())
    mean = np.sum(p * y)
    assert np.sum(p) == pytest.approx(1.0, abs=1e-10)
    assert mean == pytest.approx(NegativeBinomial().mean(np.array([[f]]))[0, 0], rel=1e-9)
    assert np.sum(p * (y - mean) ** 2) == pytest.approx(np.exp(f) + np.exp(2 * f) / dispersion, rel=1e-9)


def test_mean() -> None:
    f = np.array([[0.0, 1.0], [2.0, -1.0]])
    for likelihood in COUNT_LIKELIHOODS:
        np.testing.assert_array_equal(likelihood.mean(f, dispersion=np.ones((2, 1))), np.exp(f))
    assert Gaussian().mean(f, noise=np.ones((2, 1))) is f


def test_parameters() -> None:
    assert Poisson().learned == ()
    assert NegativeBinomial().learned == ("dispersion",)
    assert NegativeBinomial(dispersion=2).learned == ()


# ---------------------------------------------------------------- what y may be


def data_with(y: Any) -> zoo.MultiTaskData:
    X = np.arange(6.0).reshape(-1, 1)
    return zoo.MultiTaskData.from_arrays(X, y, task=["a", "a", "a", "b", "b", "b"])


@pytest.mark.parametrize("likelihood", COUNT_LIKELIHOODS, ids=lambda v: type(v).__name__)
class TestEncode:
    def test_counts_stay(self, likelihood: Any) -> None:
        y = np.array([0.0, 1.0, 5.0, 2.0, 0.0, 1e6])
        np.testing.assert_array_equal(likelihood.encode(data_with(y)), y)

    def test_negative(self, likelihood: Any) -> None:
        with pytest.raises(ValueError, match=r"y is -1 in row 4 \(task 'b'\).*0 or more"):
            likelihood.encode(data_with([0, 1, 2, 3, -1, 5]))

    def test_fraction(self, likelihood: Any) -> None:
        with pytest.raises(ValueError, match=r"y is 2.5 in row 2 \(task 'a'\).*whole numbers"):
            likelihood.encode(data_with([0, 1, 2.5, 3, 1, -5]))

    def test_standardized(self, likelihood: Any) -> None:
        data = data_with([0, 1, 2, 3, 1, 5])
        with pytest.raises(ValueError, match=r"standardize\(y=False\)"):
            likelihood.encode(data.standardize())
        np.testing.assert_array_equal(likelihood.encode(data.standardize(y=False)), data.y)


# ---------------------------------------------------------------- predictions


@dataclass(frozen=True, kw_only=True)
class CountRegression(ModelFactory):
    """One regression for all tasks."""

    likelihood: Any = "poisson"

    def priors(self, data: Any) -> dict[str, Any]:
        return {"coefficients": pm.Normal("coefficients", 0.0, 0.5, dims="feature")}


@pytest.mark.statistical
@pytest.mark.parametrize("word", ["poisson", "negative_binomial"])
def test_predicted_mean_is_that_of_y(word: str) -> None:
    """``mean`` is the mean of exp(f) over the draws, not that of f, and agrees with that of the drawn y.

    The drawn y have mean exp(f) given f: the error of their average has a known standard deviation, and the bound is
    six of them, a false alarm in a billion for each row.
    """
    rng = np.random.default_rng(1)
    X = rng.standard_normal((30, 2))
    data = zoo.MultiTaskData.from_arrays(X, rng.poisson(np.exp(X @ [0.5, 0.3])))
    fit = CountRegression(likelihood=word).fit(
        data, draws=200, tune=200, chains=2, random_seed=1, progress=False
    )
    draws = fit.predict_draws(X[:5], random_seed=2)
    f, y = (draws[name].to_numpy().reshape(-1, 5) for name in ("f", "y"))
    predicted = fit.predict(X[:5], random_seed=2)
    np.testing.assert_allclose(predicted["mean"], np.exp(f).mean(axis=0), rtol=1e-12)
    variance = np.exp(f)
    if word == "negative_binomial":
        variance = variance + np.exp(2 * f) / fit.posterior["dispersion"].to_numpy().reshape(-1, 1)
    error = np.abs(y.mean(axis=0) - predicted["mean"].to_numpy())
    assert np.all(error < 6.0 * np.sqrt(variance.mean(axis=0) / len(f)))
    np.testing.assert_array_equal(y, np.round(y))
    assert np.all(predicted["lower"] >= 0.0)


def test_draws_beyond_all_floats_are_explained() -> None:
    """With 0.001 degrees of freedom half of the draws of Student's t are infinite, whatever the features are."""
    rng = np.random.default_rng(1)
    data = zoo.MultiTaskData.from_arrays(
        rng.normal(size=(20, 2)), rng.normal(size=20), task=[*"abcd"] * 5, feature_names=["u", "v"]
    )
    fit = zoo.NIWLinear(likelihood="student_t").fit(
        data, "gibbs", draws=5, tune=5, chains=1, random_seed=1, progress=False
    )
    assert np.isfinite(fit.predict(data, random_seed=1)["sd"]).all()
    fit.posterior["degrees"][:] = 0.001
    with pytest.raises(ValueError, match=r"degrees of freedom of Student's t are as few as 0\.001") as caught:
        fit.predict(data, random_seed=1)
    assert "standardize" not in str(caught.value)
