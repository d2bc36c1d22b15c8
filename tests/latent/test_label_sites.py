"""Expectation propagation and the variational bound for labels, against quadrature and importance sampling.

Importance sampling has a fixed seed; its bounds are six standard errors: one fresh seed in 1e8 fails.
"""

from itertools import pairwise

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.integrate import quad
from scipy.special import expit, log_expit, logsumexp

from zoo.latent.label_sites import expectation_propagation, sites_of, tilted_moments, variational_bound
from zoo.latent.latent_gaussian import Dense

METHODS = [expectation_propagation, variational_bound]


def smooth(n, amplitude=2.0, seed=0):
    """A covariance of points on a line, and labels of a function with it."""
    rng = np.random.default_rng(seed)
    t = np.sort(rng.uniform(-3.0, 3.0, n))
    K = amplitude**2 * np.exp(-0.5 * (t[:, None] - t) ** 2)
    f = np.linalg.cholesky(K + 1e-9 * amplitude**2 * np.eye(n)) @ rng.standard_normal(n)
    return K, np.where(rng.random(n) < expit(f), 1.0, -1.0)


@pytest.mark.parametrize(
    "mean, sd, weight, y",
    [
        (0, 1, 1, 1),
        (-3, 0.5, 1, 1),
        (-50, 100, 1, 1),
        (10, 1e3, 1, -1),
        (0, 1e-3, 2.5, 1),
        (-5, 3, 40, 1),
        (2, 1e4, 0.3, -1),
    ],
)
def test_moments_of_a_cavity_times_a_label_are_those_of_quadrature(mean, sd, weight, y):
    def density(f):
        return np.exp(weight * log_expit(y * f) - 0.5 * ((f - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi))

    reach = 12.0 * sd
    ends = sorted(
        {mean - reach, mean + reach, *(p for p in (-30, -5, 0, 5, 30, mean) if abs(p - mean) < reach)}
    )

    def integral(function):
        return sum(quad(function, a, b, limit=400, epsabs=0.0, epsrel=1e-12)[0] for a, b in pairwise(ends))

    total = integral(density)
    first = integral(lambda f: f * density(f)) / total
    second = integral(lambda f: (f - first) ** 2 * density(f)) / total
    found = tilted_moments(*(np.array([float(v)]) for v in (y, weight, mean, 1.0 / sd**2)))
    assert found[0][0] == pytest.approx(np.log(total), abs=1e-6)
    assert found[1][0] == pytest.approx(first, abs=1e-6 * np.sqrt(second))
    assert found[2][0] == pytest.approx(second, rel=1e-6)


def test_of_one_row_expectation_propagation_is_exact():
    """The cavity of a single row is the prior."""
    for sd, y, weight in ((0.5, 1.0, 1.0), (5.0, -1.0, 1.0), (3.0, 1.0, 4.0)):
        found = expectation_propagation(Dense(np.array([[sd**2]])), np.array([y]), np.array([weight]))
        one = np.ones(1)
        log_total, mean, variance = tilted_moments(y * one, weight * one, 0.0 * one, one / sd**2)
        assert found.value == pytest.approx(log_total[0], abs=1e-8)
        assert found.mode.f[0] == pytest.approx(mean[0], abs=1e-7)
        assert found.mode.solver.variance()[0] == pytest.approx(variance[0], rel=1e-7)


def test_of_two_rows_both_are_near_the_truth():
    """Two-dimensional quadrature; the error of expectation propagation is a tenth of that of the bound."""
    K, y, weight = np.array([[9.0, 6.0], [6.0, 9.0]]), np.array([1.0, -1.0]), np.array([1.0, 2.0])
    nodes, w = np.polynomial.hermite_e.hermegauss(120)
    w = w / w.sum()
    L = np.linalg.cholesky(K)
    f = L @ np.stack([np.repeat(nodes, 120), np.tile(nodes, 120)])
    density = np.outer(w, w).ravel() * np.exp(weight @ log_expit(y[:, None] * f))
    total = density.sum()
    mean = f @ density / total
    ep, bound = (method(Dense(K), y, weight) for method in METHODS)
    assert bound.value < np.log(total)
    assert abs(ep.value - np.log(total)) < 0.1 * (np.log(total) - bound.value) < 0.02
    assert_allclose(ep.mode.f, mean, atol=0.01)
    assert_allclose(bound.mode.f, mean, atol=0.1)


def test_evidence_and_probabilities_against_importance_sampling():
    """The posterior of 25 rows, by draws from expectation propagation with 1.3 times its variance."""
    n = 25
    K, y = smooth(n, amplitude=2.0)
    K = K + 0.05 * np.eye(n)
    ep, bound = (method(Dense(K), y) for method in METHODS)
    rng, S = np.random.default_rng(1), 200_000
    V = 1.3 * (K - K @ ep.mode.solver.R_matrix @ K)
    L = np.linalg.cholesky(V)
    z = rng.standard_normal((S, n))
    f = ep.mode.f + z @ L.T
    prior = np.linalg.cholesky(K)
    log_prior = -0.5 * np.sum(np.linalg.solve(prior, f.T) ** 2, axis=0) - np.log(np.diag(prior)).sum()
    log_draw = -0.5 * np.sum(z**2, axis=1) - np.log(np.diag(L)).sum()
    logs = log_expit(y * f).sum(axis=1) + log_prior - log_draw
    evidence = logsumexp(logs) - np.log(S)
    share = np.exp(logs - logsumexp(logs))
    assert 1.0 / np.sum(share**2) > 2_000  # effective draws
    error = np.sqrt(np.sum((share - 1.0 / S) ** 2))
    assert abs(ep.value - evidence) < 6.0 * error + 0.01
    assert evidence - 0.3 < bound.value < evidence + 6.0 * error
    mean = share @ f
    spread = np.sqrt(np.sum(share[:, None] ** 2 * (f - mean) ** 2, axis=0))
    sd = np.sqrt(np.diag(V) / 1.3)
    assert np.all(np.abs(ep.mode.f - mean) < 6.0 * spread + 0.02 * sd)
    assert np.all(np.abs(bound.mode.f - mean) < 6.0 * spread + 0.1 * sd)


@pytest.mark.parametrize("method", METHODS)
def test_the_slope_is_that_of_differences(method):
    K, y = smooth(25)
    rng = np.random.default_rng(2)
    A, weight = rng.standard_normal((25, 25)), rng.uniform(0.3, 2.0, 25)
    A = A @ A.T / 25.0
    ahead, behind = (method(Dense(K + step * A), y, weight).value for step in (1e-4, -1e-4))
    slope = float(np.sum(method(Dense(K), y, weight).slopes["K"] * A))
    assert slope == pytest.approx((ahead - behind) / 2e-4, abs=1e-6)


@pytest.mark.parametrize("method", METHODS)
def test_a_second_search_ends_where_the_first_did(method):
    K, y = smooth(30)
    first = method(Dense(K), y)
    second = method(Dense(1.1 * K), y, start=sites_of(first.mode))
    fresh = method(Dense(1.1 * K), y)
    assert second.value == pytest.approx(fresh.value, abs=1e-9)
    assert_allclose(second.mode.f, fresh.mode.f, atol=1e-6)


@pytest.mark.parametrize("method", METHODS)
@pytest.mark.parametrize("amplitude", [1e-4, 1.0, 30.0, 1e3])
@pytest.mark.parametrize("kind", ["one class", "separable", "duplicates", "noise"])
def test_hostile_labels_come_to_rest(method, amplitude, kind):
    n = 30
    t = np.repeat(np.linspace(-2.0, 2.0, n // 3), 3) if kind == "duplicates" else np.linspace(-2.0, 2.0, n)
    K = amplitude**2 * np.exp(-0.5 * (t[:, None] - t) ** 2)
    y = np.where(np.random.default_rng(0).random(n) < 0.5, 1.0, -1.0)
    if kind in ("one class", "separable"):
        y = np.ones(n) if kind == "one class" else np.sign(t - 0.1)
    found = method(Dense(K), y)
    # The bound of a function that is a thousand times as large as the bend of a label climbs slowly, and says so.
    assert found.mode.converged or (method is variational_bound and amplitude == 1e3)
    assert np.isfinite(found.value) and np.all(np.isfinite(found.slopes["K"]))
    assert np.all(found.mode.density.information >= 0.0)
    if kind == "one class":
        assert np.all(found.mode.f > 0.0)


@pytest.mark.parametrize("method", METHODS)
def test_a_weight_is_as_many_rows(method):
    """A row of weight 3 is one of three rows in the same place: for the bound exactly, and nearly for the other."""
    K, y = smooth(8)
    K = K + 0.1 * np.eye(8)
    weight = np.array([3.0, *np.ones(7)])
    rows = np.array([0, 0, *range(8)])
    one = method(Dense(K), y, weight)
    many = method(Dense(K[np.ix_(rows, rows)]), y[rows])
    tolerance = 1e-6 if method is variational_bound else 0.02
    assert one.value == pytest.approx(many.value, abs=tolerance)
    assert_allclose(one.mode.f[1:], many.mode.f[3:], atol=tolerance)
