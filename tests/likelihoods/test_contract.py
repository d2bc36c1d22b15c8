"""The contract of every registered likelihood, of one with parameters given, and of wrong ones."""

import numpy as np
import pymc as pm
import pytest

import zoo
from zoo.likelihoods import Beta, Gamma, InverseGammaOfSquare, LogNormal
from zoo.likelihoods.resolve import likelihoods, resolve
from zoo.testing import LikelihoodTestCase

CASES = [
    *likelihoods(),
    zoo.Gaussian(noise=0.3, per_task=()),
    zoo.StudentT(noise=LogNormal(0.0, 0.5), degrees=3.0),
    zoo.EpsilonInsensitive(C="learned", epsilon=0.2),
    zoo.EpsilonInsensitive(C=2.0, epsilon=0.2),
    zoo.NormalisedHinge(C=1.5, margin=0.5),
    zoo.NegativeBinomial(dispersion=Gamma(2.0, 1.0)),
    zoo.Ordinal(grades=2),
    zoo.Ordinal(grades=4, width=(0.5, 1.5)),
    zoo.Ordinal(grades=(0, 1, 2), width=Gamma(2.0, 1.0)),
    zoo.ZeroInflatedPoisson(extra_zeros=Beta(2.0, 3.0)),
    zoo.ZeroInflatedNegativeBinomial(extra_zeros=0.25, dispersion=1.5),
]
TESTS = [name for name in dir(LikelihoodTestCase) if name.startswith("test_")]


def case_of(likelihood):
    case = LikelihoodTestCase()
    case.make_likelihood = lambda: resolve(likelihood)
    return case


@pytest.mark.parametrize("test", TESTS)
@pytest.mark.parametrize("likelihood", CASES, ids=str)
def test_contract(likelihood, test):
    if likelihood == "epsilon_insensitive" or (
        isinstance(likelihood, zoo.EpsilonInsensitive) and not likelihood.learned
    ):
        if test == "test_the_density_is_one_of_y":
            pytest.skip("the pseudo-likelihood is a density up to a constant")
        if test == "test_draws_follow_the_density":
            pytest.skip("the same")
    getattr(case_of(likelihood), test)()


class Shifted(zoo.Gaussian):
    """Draws have another mean than the density."""

    word = "shifted"

    def term(self, f, y, weight=None, **parameters):
        noise = parameters["noise"]
        return pm.CustomDist(
            "y",
            f,
            noise,
            logp=lambda y, f, s: pm.logp(pm.Normal.dist(f, s), y),
            dist=lambda f, s, size: pm.Normal.dist(f + 0.2, s, size=size),
            observed=y,
        )


class Unnormalised(zoo.Likelihood):
    """A constant is missing, and the weight is left out."""

    def log_density(self, f, y):
        return -0.5 * (y - f) ** 2

    def random(self, f, size):
        return pm.Normal.dist(f, 1.0, size=size)

    def term(self, f, y, weight=None, **parameters):
        return super().term(f, y, None)


@pytest.mark.parametrize(
    ("wrong", "test"),
    [
        (Shifted(), "test_draws_follow_the_density"),
        (Unnormalised(), "test_the_density_is_one_of_y"),
        (Unnormalised(), "test_a_weight_counts_rows"),
    ],
    ids=["shifted draws", "no constant", "no weight"],
)
def test_the_contract_sees_mistakes(wrong, test):
    with pytest.raises(AssertionError):
        getattr(case_of(wrong), test)()


@pytest.mark.parametrize(
    "law",
    [LogNormal(0.3, 0.7), Gamma(2.0, 3.0), InverseGammaOfSquare(3.0, 2.0), Beta(2.0, 3.0)],
    ids=repr,
)
def test_a_law_is_one(law):
    """Its density integrates to 1, is that of the variable, and its draws follow it (false alarm 1e-7)."""
    x = np.exp(np.linspace(-12.0, 8.0, 200_001))
    mass = np.exp(law.log_density(x)) * x
    weights = np.gradient(np.log(x))
    assert np.sum(mass * weights) == pytest.approx(1.0, abs=1e-6)
    n = 4000
    draws = np.sort(law.random((n,), np.random.default_rng(1)))
    cdf = np.interp(draws, x, np.cumsum(mass * weights))
    assert np.max(np.abs(cdf - (np.arange(n) + 0.5) / n)) < np.sqrt(np.log(2e7) / (2 * n))
    with pm.Model():
        law.variable("x")
        seen = np.sort(np.asarray(pm.draw(pm.modelcontext(None)["x"], n, random_seed=1)))
    cdf = np.interp(seen, x, np.cumsum(mass * weights))
    assert np.max(np.abs(cdf - (np.arange(n) + 0.5) / n)) < np.sqrt(np.log(2e7) / (2 * n))


def test_parameters_are_checked():
    with pytest.raises(ValueError, match="C of Hinge cannot be learned"):
        zoo.Hinge(C="learned")
    with pytest.raises(ValueError, match="per_task names 'noise', which is no learned parameter"):
        zoo.Gaussian(noise=0.5, per_task=("noise",))
    with pytest.raises(ValueError, match="noise is -1"):
        zoo.Gaussian(noise=-1.0)
    with pytest.raises(TypeError, match="noise of Gaussian is None"):
        zoo.Gaussian(noise=None)
    with pytest.raises(ValueError, match="'gauss' is unknown"):
        resolve("gauss")
    for name, kind in (("C", zoo.Hinge), ("margin", zoo.Hinge), ("C", zoo.EpsilonInsensitive)):
        for value in (0, -1.0, np.nan, "big"):
            with pytest.raises(ValueError, match=name):
                kind(**{name: value})
    with pytest.raises(ValueError, match="epsilon"):
        zoo.EpsilonInsensitive(epsilon=-0.1)
    assert repr(zoo.Hinge(C=2)) == "Hinge(C=2.0)"


def test_a_probability_lies_between_0_and_1():
    for value in (0.0, 1.0, 1.5, -0.1, np.nan):
        with pytest.raises(ValueError, match="extra_zeros is"):
            zoo.ZeroInflatedPoisson(extra_zeros=value)
    with pytest.raises(TypeError, match=r"extra_zeros .* is None. Give a number between 0 and 1"):
        zoo.ZeroInflatedPoisson(extra_zeros=None)
    with pytest.raises(ValueError, match=r"extra_zeros of .* has the prior LogNormal.*zoo.likelihoods.Beta"):
        zoo.ZeroInflatedPoisson(extra_zeros=LogNormal(0.0, 1.0))
    # Numbers between 0 and 1 are above 0, so that it may be a prior of the noise; only NUTS knows it.
    assert list(zoo.NIWLinear(likelihood=zoo.Gaussian(noise=Beta(1.0, 1.0))).methods) == ["nuts"]
    with pytest.raises(ValueError, match="a is -1"):
        Beta(-1.0, 1.0)
    assert Beta(1, 3).typical == 0.25
    np.testing.assert_array_equal(Beta(2.0, 2.0).log_density([0.0, 1.0, 1.5]), -np.inf)


def test_a_factory_of_each_spec_is_the_same():
    for likelihood in CASES:
        factory = zoo.NIWLinear(likelihood=likelihood)
        assert zoo.NIWLinear.from_spec(factory.to_spec()) == factory
