"""Finite and infinite Indian buffet process by enumeration, exact sums and draws."""

from __future__ import annotations

from collections import Counter
from fractions import Fraction
from functools import cache
from itertools import combinations_with_replacement, product
from math import factorial, log

import cloudpickle
import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
from pymc.distributions.distribution import support_point
from pymc.distributions.shape_utils import change_dist_size
from pymc.logprob.utils import ParameterValueError
from scipy import stats
from scipy.special import gammaln

from zoo.distributions.indian_buffet import (
    IndianBuffet,
    ibp_draw,
    ibp_logp,
    indian_buffet_sticks,
    left_ordered_form,
)

FALSE_ALARM = 1e-5


@cache
def log_probability(D, K):
    """Compiled log probabilities of a stack of matrices under each of a vector of alpha: (matrix, alpha)."""
    value, alpha = pt.ltensor3(), pt.dvector()
    return pytensor.function([value, alpha], pm.logp(IndianBuffet.dist(alpha, D, K), value[:, None]))


def all_matrices(D, K):
    return np.array(list(product((0, 1), repeat=D * K))).reshape(-1, D, K)


def exact(Z, alpha):
    """Log probability of the finite model in rational arithmetic, with Gamma(m + a) / Gamma(D + 1 + a) a product."""
    (D, K), total = Z.shape, Fraction(1)
    a = Fraction(alpha) / K
    for m in Z.sum(axis=0).tolist():
        total *= a * factorial(D - m)
        for j in range(m, D + 1):
            total /= a + j
    return log(total.numerator) - log(total.denominator)


@pytest.mark.parametrize(("D", "K"), [(2, 2), (3, 2)])
def test_probabilities_sum_to_one(D, K):
    alphas = np.array([0.01, 0.7, 2.0, 30.0])
    np.testing.assert_allclose(
        np.exp(log_probability(D, K)(all_matrices(D, K), alphas)).sum(axis=0), 1, rtol=1e-12
    )


def test_log_probability_against_rational_arithmetic():
    Z = np.random.default_rng(1).integers(0, 2, size=(6, 7, 4)) * np.array([1, 1, 1, 0])
    alphas = np.array([1e-9, 0.3, 5.0, 1e9])
    expected = [[exact(z, alpha) for alpha in alphas] for z in Z]
    np.testing.assert_allclose(log_probability(7, 4)(Z, alphas), expected, rtol=1e-12, atol=1e-12)


def test_other_values_have_no_probability():
    Z = np.array([[[0, 1], [2, 0]], [[0, -1], [1, 0]], [[0, 1], [1, 0]]])
    assert np.isneginf(log_probability(2, 2)(Z, np.ones(1)))[:, 0].tolist() == [True, True, False]
    halves = pt.constant(np.full((2, 2), 0.5))  # an array PyMC would cast to integers
    assert pm.logp(IndianBuffet.dist(1.0, 2, 2), halves).eval() == -np.inf


@pytest.mark.compiled
def test_draws():
    # Null: the law over all 16 matrices, for two alpha. Chi-square on 20,000 draws each; false alarm 1e-5 over both.
    alphas = np.array([0.8, 5.0])
    draws = pm.draw(IndianBuffet.dist(alphas, 2, 2), 20_000, random_seed=1)
    assert draws.dtype == np.int64 and draws.shape == (20_000, 2, 2, 2)
    expected = 20_000 * np.exp(log_probability(2, 2)(all_matrices(2, 2), alphas))
    codes = draws.reshape(20_000, 2, 4) @ [8, 4, 2, 1]
    for k in range(2):
        seen = np.bincount(codes[:, k], minlength=16)
        assert stats.chisquare(seen, expected[:, k]).pvalue > FALSE_ALARM / 2


def test_support_point_is_the_mode():
    alphas = np.array([0.5, 1.9, 2.1, 9.0])
    rv = IndianBuffet.dist(alphas, 3, 2)
    best = all_matrices(3, 2)[log_probability(3, 2)(all_matrices(3, 2), alphas).argmax(axis=0)]
    assert np.array_equal(support_point(rv).eval(), best)
    assert support_point(IndianBuffet.dist(alphas, 3, 2, size=(5, 4))).eval().shape == (5, 4, 3, 2)


def test_batches_and_rebuilds():
    rv = IndianBuffet.dist(np.float32(0.7), shape=(4, 3, 2))
    assert rv.type.shape == (4, 3, 2) and rv.type.dtype == "int64"
    Z = all_matrices(3, 2)[10:14]
    np.testing.assert_allclose(
        pm.logp(rv, Z).eval(), [exact(z, float(np.float32(0.7))) for z in Z], rtol=1e-12
    )
    assert change_dist_size(rv, (7,), expand=True).type.shape == (7, 4, 3, 2)
    copy = cloudpickle.loads(cloudpickle.dumps(rv)).owner.op
    assert (copy.D, copy.K_max) == (3, 2)
    assert rv.owner.op == IndianBuffet.dist(3.0, 3, 2, size=4).owner.op
    assert rv.owner.op != IndianBuffet.dist(3.0, 2, 3, size=4).owner.op


@pytest.mark.parametrize("columns", [["110", "101", "001"], ["100", "100", "111"], []])
def test_finite_classes_tend_to_the_process(columns):
    # A class holds K! / prod K_h! matrices (zero columns are a kind too). The gap is of order 1/K.
    Z = np.array([[int(bit) for bit in column] for column in columns], dtype=int).reshape(-1, 3).T
    gaps = []
    for K in (500, 5000):
        padded = np.hstack([Z, np.zeros((3, K - Z.shape[1]), dtype=int)])
        repeats = np.array([*Counter(columns).values(), K - len(columns)])
        size = gammaln(K + 1) - gammaln(repeats + 1).sum()
        finite = log_probability(3, K)(padded[None], np.array([1.3]))[0, 0]
        gaps.append(size + finite - ibp_logp(Z, 1.3))
    assert abs(gaps[1]) < 2e-3
    np.testing.assert_allclose(gaps[0] / gaps[1], 10, rtol=0.15)


@pytest.mark.parametrize(("D", "alpha", "most"), [(2, 0.5, 12), (3, 0.3, 6), (4, 1.0, 3)])
def test_class_probabilities_sum_to_the_poisson_law(D, alpha, most):
    # All classes with at most so many columns: their sum is the distribution function of K_+.
    kinds = np.array(list(product((0, 1), repeat=D)))[1:]
    total = np.zeros(most + 1)
    for K in range(most + 1):
        for chosen in combinations_with_replacement(range(len(kinds)), K):
            total[K] += np.exp(ibp_logp(kinds[list(chosen)].T.reshape(D, K), alpha))
    law = stats.poisson(alpha * np.sum(1 / np.arange(1, D + 1)))
    np.testing.assert_allclose(total, law.pmf(np.arange(most + 1)), rtol=1e-10)
    assert D > 3 or total.sum() > 1 - 1e-5


def test_ibp_logp_by_hand_and_its_invariances():
    for K in range(4):  # one row: Poisson
        np.testing.assert_allclose(ibp_logp(np.ones((1, K)), 0.7), stats.poisson(0.7).logpmf(K), rtol=1e-12)
    rng = np.random.default_rng(2)
    Z = rng.integers(0, 2, size=(6, 9))
    expected = ibp_logp(Z, 2.0)
    assert isinstance(expected, float)
    for other in (
        rng.permutation(Z, axis=1),
        rng.permutation(Z, axis=0),
        np.hstack([np.zeros((6, 3)), Z]),
        Z.astype(bool),
        left_ordered_form(Z),
    ):
        np.testing.assert_allclose(ibp_logp(other, 2.0), expected, rtol=1e-12)


def test_left_ordered_form():
    Z = np.array([[0, 1, 0, 1, 0], [0, 0, 1, 1, 1], [0, 1, 1, 0, 0]])
    assert left_ordered_form(Z).tolist() == [[1, 1, 0, 0, 0], [1, 0, 1, 1, 0], [0, 1, 1, 0, 0]]
    tall = np.random.default_rng(3).integers(0, 2, size=(200, 30))
    form = left_ordered_form(tall)
    numbers = [int("".join(map(str, column)), 2) for column in form.T.tolist()]
    assert numbers == sorted(numbers, reverse=True)
    assert sorted(numbers) == sorted(int("".join(map(str, column)), 2) for column in tall.T.tolist())
    assert left_ordered_form(np.zeros((3, 0))).shape == (3, 0)


@pytest.mark.compiled
def test_restaurant():
    # Null: classes with their exact probabilities, and K_+ Poisson(alpha H_D). 20,000 draws; chi-square over classes
    # and over K_+, values expected less than 5 times pooled; false alarm 1e-5 over both tests.
    D, alpha, n = 3, 0.8, 20_000
    rng = np.random.default_rng(4)
    draws = [ibp_draw(alpha, D, rng) for _ in range(n)]
    assert all(Z.any(axis=0).all() and np.array_equal(Z, left_ordered_form(Z)) for Z in draws[:200])
    classes = Counter((Z.shape[1], Z.tobytes()) for Z in draws)
    kinds = {
        key: n * np.exp(ibp_logp(np.frombuffer(key[1], int).reshape(D, key[0]), alpha)) for key in classes
    }
    common = [key for key, expected in kinds.items() if expected >= 5]
    assert len(common) > 50
    law = stats.poisson(alpha * (1 + 1 / 2 + 1 / 3))
    top = int(law.isf(5 / n))
    columns = np.bincount([min(Z.shape[1], top) for Z in draws], minlength=top + 1)
    expected = n * np.append(law.pmf(np.arange(top)), law.sf(top - 1))
    assert stats.chisquare(columns, expected).pvalue > FALSE_ALARM / 2
    seen, expected = (np.array([table[key] for key in common]) for table in (classes, kinds))
    pooled = np.append(seen, n - seen.sum()), np.append(expected, n - expected.sum())
    assert stats.chisquare(*pooled).pvalue > FALSE_ALARM / 2


def test_restaurant_is_reproducible():
    one, two = (ibp_draw(3.0, 20, np.random.default_rng(5)) for _ in range(2))
    assert np.array_equal(one, two) and one.dtype == np.int64
    assert ibp_draw(1e-12, 3, np.random.default_rng(1)).shape == (3, 0)


@pytest.mark.compiled
def test_sticks():
    # Null: nu_k = pi_k / pi_(k-1) independent Beta(alpha, 1), by Kolmogorov-Smirnov; first two moments of pi_k,
    # (alpha / (alpha + 1))^k and (alpha / (alpha + 2))^k, by z-scores. 20,000 draws; false alarm 1e-5 over the 4 + 8
    # comparisons.
    alpha, n, level = 1.5, 20_000, FALSE_ALARM / 12
    with pm.Model() as model:
        pi = indian_buffet_sticks("pi", alpha, K_max=4)
    assert [v.name for v in model.free_RVs] == ["_pi_sticks"]
    draws = pm.draw(pi, n, random_seed=6)
    assert (np.diff(draws, axis=1) < 0).all() and (draws > 0).all() and (draws <= 1).all()
    nu = draws / np.hstack([np.ones((n, 1)), draws[:, :-1]])
    for k in range(4):
        assert stats.kstest(nu[:, k], stats.beta(alpha, 1).cdf).pvalue > level
        for power in (1, 2):
            sample = draws[:, k] ** power - (alpha / (alpha + power)) ** (k + 1)
            assert abs(sample.mean()) / sample.std() * np.sqrt(n) < stats.norm.isf(level / 2)


@pytest.mark.statistical
@pytest.mark.compiled
def test_sampling_with_dims():
    observed = np.array([[1, 1, 0, 0], [1, 0, 1, 0], [1, 0, 0, 0]])
    with pm.Model(coords={"feature": range(3), "column": range(4)}) as model:
        alpha = pm.Gamma("alpha", 2.0, 1.0)
        pi = indian_buffet_sticks("pi", alpha, dims="column")
        pm.Bernoulli("Z", p=pi, dims=("feature", "column"), observed=observed)
        IndianBuffet("finite", alpha, dims=("feature", "column"), observed=observed)
        assert (model["finite"].owner.op.D, model["finite"].owner.op.K_max) == (3, 4)
        result = pm.sample(
            20,
            tune=20,
            chains=1,
            cores=1,
            nuts_sampler="pymc",
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    weights = result["posterior"]["pi"]
    assert weights.dims == ("chain", "draw", "column")
    assert (np.diff(weights.to_numpy(), axis=-1) < 0).all()


def in_model(build):
    with pm.Model(coords={"feature": range(3), "column": range(4)}):
        return build()


@pytest.mark.parametrize(
    ("build", "message"),
    [
        (lambda: IndianBuffet.dist(1.0, 0, 2), r"D is 0\. Give a whole number of 1 or more"),
        (lambda: IndianBuffet.dist(1.0, 2, -1), r"K_max is -1\. Give a whole number of 1 or more"),
        (lambda: IndianBuffet.dist(1.0, 2), "K_max is not known"),
        (lambda: IndianBuffet.dist(1.0, 2.5, 2), r"D is 2\.5"),
        (lambda: IndianBuffet.dist(1.0, 3, 2, shape=(2, 2)), r"\(2, 2\).*\(3, 2\)"),
        (lambda: IndianBuffet.dist(np.ones(4), 3, 2, size=5), r"\(5, 3, 2\).*\(4, 3, 2\)"),
        (lambda: IndianBuffet("Z", 1.0, 2, 2, dims=("feature", "column")), r"\(3, 4\).*\(2, 2\)"),
        (lambda: IndianBuffet("Z", 1.0, 2, 2, observed=np.eye(3)), r"\(3, 3\).*\(2, 2\)"),
        (lambda: pm.logp(IndianBuffet.dist(1.0, 3, 2), np.eye(2)), r"\(2, 2\).*\(3, 2\)"),
        (lambda: indian_buffet_sticks("pi", 1.0), "exactly one of K_max, dims"),
        (lambda: indian_buffet_sticks("pi", 1.0, K_max=2, dims="column"), "exactly one of K_max, dims"),
        (lambda: indian_buffet_sticks("pi", 1.0, K_max=0), "K_max is 0"),
        (lambda: indian_buffet_sticks("pi", np.ones(2), K_max=2), r"alpha has 1 dimensions\. Give a scalar"),
        (lambda: ibp_logp([[1, 2]], 1.0), r"Z is 2 in row 0, column 1\. Give zeros and ones"),
        (lambda: ibp_logp([[np.nan]], 1.0), "Z is nan"),
        (lambda: ibp_logp([1, 0], 1.0), r"Z has shape \(2,\)"),
        (lambda: ibp_logp(np.ones((0, 2)), 1.0), r"Z has shape \(0, 2\)"),
        (lambda: ibp_logp([[1]], 0.0), "alpha is 0"),
        (lambda: ibp_logp([[1]], np.inf), "alpha is inf"),
        (lambda: left_ordered_form([["a"]]), "Z is a"),
        (lambda: ibp_draw(-1.0, 2, np.random.default_rng(1)), "alpha is -1"),
        (lambda: ibp_draw(1.0, 0, np.random.default_rng(1)), "D is 0"),
    ],
)
def test_bad_input(build, message):
    with pytest.raises(ValueError, match=message):
        in_model(build)


def test_bad_generator():
    with pytest.raises(TypeError, match="rng is 1"):
        ibp_draw(1.0, 2, 1)


def test_bad_alpha():
    alpha = pt.dscalar()
    rv = IndianBuffet.dist(alpha, 2, 2)
    draw = pytensor.function([alpha], rv)
    with pm.Model():
        sticks = pytensor.function([alpha], indian_buffet_sticks("pi", alpha, K_max=2))
        wrong = indian_buffet_sticks("wrong", -pm.HalfNormal("C"), K_max=2)
    logp = pytensor.function([alpha], pm.logp(rv, np.eye(2, dtype=int)))
    for function in (draw, logp, sticks):
        assert np.isfinite(function(1.0)).all()
        for bad in (-1.0, 0.0, np.inf, np.nan):
            with pytest.raises(ParameterValueError, match="alpha > 0, finite"):
                function(bad)
    assert np.isnan(pm.draw(wrong)).all()
