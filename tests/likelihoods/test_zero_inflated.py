"""Counts with structural zeros: densities against SciPy, the information, means, and fits by Laplace and NUTS."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from scipy import stats

import zoo
from zoo.latent.coordinates import Coordinates, Hyper
from zoo.likelihoods import Beta, LogNormal
from zoo.likelihoods.derivatives import DifferentiatedResponses

F = np.array([0.1, -2.0, 3.0, 1.0, 0.5, -30.0, 6.0])
COUNTS = np.array([0.0, 3.0, 0.0, 1.0, 40.0, 0.0, 0.0])
EVERY = np.arange(4000.0)


def count_law(f: Any, dispersion: float | None) -> Any:
    if dispersion is None:
        return stats.poisson(np.exp(f))
    return stats.nbinom(dispersion, dispersion / (dispersion + np.exp(f)))


def inflated_logpmf(y: Any, f: Any, extra: float, dispersion: float | None) -> np.ndarray:
    own = np.log1p(-extra) + count_law(f, dispersion).logpmf(y)
    return np.where(np.asarray(y) == 0.0, np.logaddexp(np.log(extra), own), own)


def made(extra: float | str, dispersion: float | str | None) -> Any:
    if dispersion is None:
        return zoo.ZeroInflatedPoisson(extra_zeros=extra)
    return zoo.ZeroInflatedNegativeBinomial(extra_zeros=extra, dispersion=dispersion)


@pytest.mark.parametrize("dispersion", [None, 0.3, 50.0])
@pytest.mark.parametrize("extra", [1e-9, 0.5, 0.97])
@pytest.mark.parametrize("learned", [True, False])
def test_density(extra, dispersion, learned):
    given = {"extra_zeros": extra} if dispersion is None else {"extra_zeros": extra, "dispersion": dispersion}
    likelihood = made("learned", dispersion and "learned") if learned else made(extra, dispersion)
    with pm.Model(coords={"obs": np.arange(len(F))}) as model:
        y = pm.Data("y_observed", COUNTS, dims="obs")
        likelihood.term(pm.Flat("f", shape=len(F)), y, **(given if learned else {}))
    function = model.compile_logp(vars=[model["y"]], sum=False, mode="FAST_COMPILE")
    expected = inflated_logpmf(COUNTS, F, extra, dispersion)
    np.testing.assert_allclose(function({"f": F})[0], expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dispersion", [None, 0.3, 4.0])
@pytest.mark.parametrize("extra", [0.02, 0.6])
def test_information_is_the_expected_square_of_the_slope(extra, dispersion):
    likelihood = made(extra, dispersion)
    f, step = np.array([-2.0, 0.0, 1.0, 2.5, 4.0]), 1e-5
    found = np.asarray(likelihood.information(pt.as_tensor(f)).eval())
    expected = []
    for value in f:
        up, low = (inflated_logpmf(EVERY, value + s, extra, dispersion) for s in (step, -step))
        p = np.exp(inflated_logpmf(EVERY, value, extra, dispersion))
        expected.append(np.sum(p * ((up - low) / (2.0 * step)) ** 2))
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_derivatives_are_finite_and_the_information_positive():
    """Also far out, where the observed one of a zero is negative."""
    f = np.array([-700.0, -40.0, 0.0, 2.0, 40.0, 300.0])
    for y in (np.zeros(6), np.full(6, 3.0)):
        for likelihood in (made(0.3, None), made(0.3, 1.7)):
            found = DifferentiatedResponses(likelihood, y).density(f, np.zeros(0))
            assert all(np.all(np.isfinite(part)) for part in found)
            assert np.all(found[2] >= 0.0)
    symbol = pt.dvector()
    zero = made(0.3, None).log_density(symbol, np.zeros(1), extra_zeros=0.3)
    second = pytensor.grad(pytensor.grad(zero.sum(), symbol).sum(), symbol)
    assert pytensor.function([symbol], second, mode="FAST_COMPILE")(np.array([2.0]))[0] > 0.0


@pytest.mark.parametrize("dispersion", [None, 1.7])
def test_slopes_in_parameters_are_those_of_logits_and_logarithms(dispersion):
    likelihood = made("learned", dispersion and "learned")
    y = np.array([0.0, 0.0, 2.0, 7.0])
    responses = DifferentiatedResponses(likelihood, y, np.array([1.0, 2.0, 0.5, 1.0]))
    f, z = np.array([-0.5, 1.5, 0.3, 2.0]), np.array([0.4, -0.8][: len(responses.learned)])
    order = list(responses.learned)
    values = {
        n: 1.0 / (1.0 + np.exp(-v)) if n == "extra_zeros" else np.exp(v)
        for n, v in zip(order, z, strict=True)
    }
    expected = np.array([1.0, 2.0, 0.5, 1.0]) @ inflated_logpmf(
        y, f, values["extra_zeros"], values.get("dispersion")
    )
    assert responses.density(f, z)[0] == pytest.approx(expected, rel=1e-10)
    for i, found in enumerate(responses.parameter_slopes(f, z)):
        step = np.zeros(len(z))
        step[i] = 1e-6
        up, low = responses.density(f, z + step), responses.density(f, z - step)
        for k in range(3):
            np.testing.assert_allclose(found[k], (up[k] - low[k]) / 2e-6, rtol=1e-6, atol=1e-8)


def test_means():
    f, extra = np.array([[0.0, 1.0], [2.0, -1.0]]), np.array([[0.5], [0.1]])
    for dispersion in (None, 1.7):
        learned = made("learned", dispersion)
        np.testing.assert_allclose(learned.mean(f, extra_zeros=extra), (1.0 - extra) * np.exp(f))
        np.testing.assert_allclose(made(0.25, dispersion).mean(f), 0.75 * np.exp(f))
        p = np.exp(inflated_logpmf(EVERY, 0.8, 0.25, dispersion))
        assert np.sum(p * EVERY) == pytest.approx(
            made(0.25, dispersion).mean(np.array([[0.8]])).item(), rel=1e-9
        )


def test_a_learned_probability_has_its_density_in_free_coordinates():
    """The logarithm of the density of the logit: that of a Beta law times p (1 - p)."""
    for law in (Beta(2.0, 3.0), Beta()):
        coordinates = Coordinates({"p": Hyper(law.typical, "unit", law=law)})
        z = np.linspace(-30.0, 30.0, 60_001)
        density = np.exp([coordinates.log_prior(np.array([v])) for v in z[::20]])
        assert np.sum(density) * (z[20] - z[0]) == pytest.approx(1.0, abs=1e-6)
        assert coordinates.unpack(coordinates.start)["p"] == pytest.approx(law.typical)


# ---------------------------------------------------------------- fits


def simulated(n: int, extra: float, seed: int) -> tuple[zoo.MultiTaskData, np.ndarray]:
    rng = np.random.default_rng(seed)
    X, task = np.column_stack([np.ones(n), rng.standard_normal(n)]), np.arange(n) % 4
    mean = np.exp(1.2 + 0.4 * X[:, 1])
    y = np.where(rng.random(n) < extra, 0.0, rng.poisson(mean))
    return zoo.MultiTaskData.from_arrays(X, y, task, t=rng.uniform(size=n)), (1.0 - extra) * mean


def test_laplace_learns_the_probability():
    """A third of structural zeros among 400 counts of mean 3 to 4: their share has a standard error of 0.025."""
    data, mean = simulated(400, 0.35, 1)
    factory = zoo.VaryingCoefficientGP(likelihood="zero_inflated_poisson")
    assert factory.default_method(data) == "laplace"
    fit = factory.fit(data, draws=50, chains=2, random_seed=1, progress=False)
    assert fit.idata["sample_stats"]["converged"].all()
    assert abs(float(fit.posterior["extra_zeros"].mean()) - 0.35) < 0.1
    predicted = fit.predict(data.X[:50], data.task[:50], data.t[:50], random_seed=1)["mean"]
    assert np.corrcoef(predicted, mean[:50])[0, 1] > 0.8
    assert abs(np.mean(predicted.to_numpy() / mean[:50]) - 1.0) < 0.3


@pytest.mark.statistical
@pytest.mark.parametrize(
    "word",
    [
        "zero_inflated_poisson",
        pytest.param("zero_inflated_negative_binomial", marks=pytest.mark.scheduled),
    ],
)
def test_nuts_learns_the_probability(word):
    """Null: the posterior is right. Six standard deviations from the truth are a false alarm in 1e-8."""
    data = dataclasses.replace(simulated(400, 0.35, 2)[0], t=None)
    likelihood = {
        "zero_inflated_poisson": zoo.ZeroInflatedPoisson(extra_zeros=Beta(1.0, 1.0)),
        "zero_inflated_negative_binomial": zoo.ZeroInflatedNegativeBinomial(dispersion=LogNormal(3.0, 1.0)),
    }[word]
    fit = zoo.NIWLinear(likelihood=likelihood).fit(
        data, draws=300, tune=500, chains=2, random_seed=1, progress=False
    )
    assert fit.method == "nuts"
    extra = fit.posterior["extra_zeros"].to_numpy()
    assert np.all((extra > 0.0) & (extra < 1.0))
    assert abs(extra.mean() - 0.35) < 6.0 * extra.std()
    assert fit.predict(data.X[:4], ["a new one"] * 4, new_task=True, random_seed=1)["mean"].notnull().all()


def test_every_task_has_its_own():
    data, _ = simulated(80, 0.35, 3)
    likelihood = zoo.ZeroInflatedPoisson(per_task=("extra_zeros",))
    model = zoo.NIWLinear(likelihood=likelihood).build(data)
    assert model.named_vars_to_dims["extra_zeros"] == ("task",)
    factory = zoo.IndependentTasks(likelihood=likelihood)
    assert factory.from_spec(factory.to_spec()) == factory
