"""Coefficients of tasks given a population: against the closed form, by inverses of whole matrices."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.inference.gibbs.known_tasks import Draws, coefficient_draws, function_moments

D, K, N = 3, 4, 5


@pytest.fixture(scope="module")
def case():
    """Tasks with many rows, two rows and none; draws of a population with a noise for each task."""
    rng = np.random.default_rng(5)
    X = [rng.standard_normal((size, D)) for size in (9, 2, 0, 6)]
    y = [rng.standard_normal(len(part)) for part in X]
    A = rng.standard_normal((N, D, D))
    cov = A @ A.transpose(0, 2, 1) + 0.1 * np.eye(D)
    mean, noise = rng.standard_normal((N, D)), rng.uniform(0.3, 2.0, (N, K))
    S = np.stack([x.T @ x for x in X])
    linear = np.stack([x.T @ z for x, z in zip(X, y, strict=True)])
    return X, y, S, linear, mean, cov, noise


def exact(case, s, t):
    """Mean and covariance by Bayes' rule for y ~ N(X mean, X C X' + noise^2 I)."""
    X, y, _, _, mean, cov, noise = case
    gain = cov[s] @ X[t].T @ np.linalg.inv(X[t] @ cov[s] @ X[t].T + noise[s, t] ** 2 * np.eye(len(X[t])))
    return mean[s] + gain @ (y[t] - X[t] @ mean[s]), cov[s] - gain @ X[t] @ cov[s]


def test_moments_of_functions_in_closed_form(case):
    _, _, S, linear, mean, cov, noise = case
    x = np.random.default_rng(1).standard_normal((7, D))
    task = np.array([3, 0, 1, 1, 2, 0, 3])
    found = function_moments(S, linear[None], Draws.of(mean, cov, noise, K), x, task)
    for s in range(N):
        for n, t in enumerate(task):
            centre, spread = exact(case, s, t)
            assert found[0][s, n] == pytest.approx(x[n] @ centre, rel=1e-10)
            assert found[1][s, n] == pytest.approx(x[n] @ spread @ x[n], rel=1e-10)


def test_draws_have_that_law(case):
    # 40,000 draws of each: means and covariances within five standard errors.
    _, _, S, linear, mean, cov, noise = case
    size = 40_000
    many = Draws.of(*(np.repeat(part[:1], size, axis=0) for part in (mean, cov, noise)), K)
    drawn = coefficient_draws(S, linear[None], many, np.random.default_rng(2))
    for t in range(K):
        centre, spread = exact(case, 0, t)
        white = np.linalg.solve(np.linalg.cholesky(spread), drawn[:, :, t].T - centre[:, None])
        assert np.all(np.abs(white.mean(axis=1)) < 5.0 / np.sqrt(size))
        assert np.all(np.abs(white @ white.T / size - np.eye(D)) < 5.0 * np.sqrt(2.0 / size))


def test_each_draw_may_have_responses_of_its_own(case):
    _, _, S, linear, mean, cov, noise = case
    draws = Draws.of(mean, cov, noise, K)
    shifted = linear + np.arange(N)[:, None, None]
    together = function_moments(S, shifted, draws, np.eye(D), np.array([0, 1, 3]))[0]
    for s in range(N):
        alone = function_moments(S, shifted[s : s + 1], draws, np.eye(D), np.array([0, 1, 3]))[0]
        np.testing.assert_array_equal(together[s], alone[s])


def test_a_covariance_that_is_nearly_singular(case):
    X, y, S, linear, mean, _, noise = case
    thin = np.array([[1.0, 1.0, 0.0], [1.0, 1.0 + 1e-13, 0.0], [0.0, 0.0, 1.0]])
    found = function_moments(
        S, linear[None], Draws.of(mean[:1], thin[None], noise[:1], K), np.eye(D), np.zeros(D, dtype=int)
    )
    # As a regression on the sum of the first two features.
    Z = np.column_stack([X[0][:, 0] + X[0][:, 1], X[0][:, 2]])
    gap = y[0] - X[0] @ mean[0]
    w = np.linalg.solve(Z.T @ Z + noise[0, 0] ** 2 * np.eye(2), Z.T @ gap)
    np.testing.assert_allclose(found[0][0], mean[0] + np.array([w[0], w[0], w[1]]), atol=1e-5)
