"""Scales of further groups with their effects integrated out: the density by dense algebra, and draws by quadrature."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from zoo.inference.gibbs import level_scales
from zoo.inference.gibbs.level_scales import Levels, draw_level_scale, log_density_of_scales
from zoo.inference.gibbs.many_shared import SharedRows
from zoo.inference.gibbs.population_steps import LANES
from zoo.inference.gibbs.task_rows import Rows

T, N, G, SPREAD, SHAPE, RATE = 3, 30, 20, 1.3, 2.0, 0.7


@pytest.fixture(scope="module")
def problem():
    """Rows of tasks, most of which are the only ones of their level; a feature beside the levels."""
    rng = np.random.default_rng(2)
    task, level = (
        np.sort(rng.integers(0, T, N)),
        rng.permutation(np.r_[np.arange(G), rng.integers(0, 5, N - G)]),
    )
    slope = rng.normal(size=N)
    feature, value = (
        np.column_stack([np.zeros(N), 1 + level]).astype(np.int32),
        np.column_stack([rng.normal(size=N), slope]),
    )
    W = np.zeros((1, 1, LANES))
    W[0, 0, :T] = rng.normal(size=T)
    return {
        "rows": Rows(
            rng.normal(size=(N, 1)), np.arange(N), np.searchsorted(task, np.arange(T + 1)), np.zeros(N)
        ),
        "side": SharedRows(feature, value),
        "task": task,
        "weight": rng.gamma(3.0, size=N),
        "y": rng.normal(size=N),
        "W": W,
        "beta": rng.normal(size=G + 1),
        "effect": np.r_[0, np.ones(G, dtype=int)],
    }


def left_of_y(p):
    """Responses less what tasks and the feature beside the levels say."""
    return p["y"] - p["rows"].inputs[:, 0] * p["W"][0, 0, p["task"]] - p["side"].value[:, 0] * p["beta"][0]


def by_dense_algebra(p, tau, noise):
    Z = np.zeros((N, G))
    Z[np.arange(N), p["side"].feature[:, 1] - 1] = p["side"].value[:, 1]
    covariance = noise**2 * np.diag(1.0 / p["weight"]) + tau**2 * Z @ Z.T
    density = stats.multivariate_normal(np.zeros(N), covariance).logpdf(left_of_y(p))
    # A weight counts the log density of its row so many times: what the normaliser of 1 / h in the variance lacks.
    density += (1.0 - p["weight"].sum() / N) * N * np.log(noise)
    prior = stats.halfnorm(scale=SPREAD).logpdf(tau) + np.log(tau)
    return density + prior + stats.invgamma(SHAPE, scale=RATE).logpdf(noise**2) + 2.0 * np.log(noise)


def sums(p):
    A, b, ones = np.empty(G + 1), np.empty(G + 1), np.ones((1, LANES))
    known = (
        p["rows"],
        p["side"],
        p["weight"],
        p["weight"] * p["y"],
        p["W"],
        p["beta"],
        p["effect"],
        1,
        ones,
        A,
        b,
    )
    size, squares = level_scales._sums_of_levels(*known)
    assert A[0] == 0.0 and b[0] == 0.0
    return Levels(A[1:], b[1:], size, squares)


def test_the_density_is_that_of_dense_algebra(problem):
    levels = sums(problem)
    points = [(0.3, 1.1), (2.0, 0.5), (1e-3, 0.9), (5.0, 0.05)]
    found = [log_density_of_scales(np.log(t), np.log(s), levels, SPREAD, SHAPE, RATE) for t, s in points]
    wanted = [by_dense_algebra(problem, t, s) for t, s in points]
    np.testing.assert_allclose(np.diff(found), np.diff(wanted), rtol=1e-9)


def test_odds_move_at_a_total_that_stands_still():
    for log_tau, log_noise, step in ((0.3, -1.0, 2.0), (-20.0, 3.0, -5.0), (4.0, -30.0, 1.0)):
        tau, noise = level_scales._shared_out(step, log_tau, log_noise)
        np.testing.assert_allclose(
            np.logaddexp(2 * tau, 2 * noise), np.logaddexp(2 * log_tau, 2 * log_noise), rtol=1e-12
        )
        assert 2 * (tau - noise) == pytest.approx(2 * (log_tau - log_noise) + step)


@pytest.mark.parametrize("learned", [True, False], ids=["noise", "no noise"])
def test_draws_are_those_of_quadrature(problem, learned):
    """Null: the chain has the law on a grid. Means and variances of log scales, each within 5 standard errors of a
    batch-means estimate: below 1e-5 in all.
    """
    p, rng, size = problem, np.random.default_rng(4), 20_000
    scale, k, beta = np.array([1.0, 0.5]), np.full((1, LANES), 1.0), p["beta"].copy()
    draws = np.empty((size, 3))
    for i in range(size):
        draw_level_scale(
            rng, p["rows"], p["side"], p["weight"], p["weight"] * p["y"], p["W"], beta, p["effect"], 1, scale, SPREAD,
            k, SHAPE if learned else 0.0, RATE,
        )  # fmt: skip
        draws[i] = np.log(scale[1]), -0.5 * np.log(k[0, 0]), beta[3]
    assert beta[0] == p["beta"][0]
    levels, grid = sums(p), np.linspace(-9.0, 3.0, 400)
    at = np.linspace(-4.0, 2.0, 300) if learned else np.zeros(1)
    density = np.array(
        [
            [log_density_of_scales(t, s, levels, SPREAD, SHAPE if learned else 0.0, RATE) for s in at]
            for t in grid
        ]
    )
    mass = np.exp(density - density.max())
    mass /= mass.sum()
    tau, noise = np.exp(grid)[:, None], np.exp(at)[None]
    # The effect given both scales is normal.
    precision = levels.A[2] / noise**2 + tau**-2
    mean = levels.b[2] / noise**2 / precision
    wanted = {
        "tau": (grid[:, None] + 0 * noise, None), "noise": (at[None] + 0 * tau, None), "effect": (mean, 1.0 / precision)
    }  # fmt: skip
    for j, (name, (centre, spread)) in enumerate(wanted.items()):
        if name == "noise" and not learned:
            continue
        m = np.sum(mass * centre)
        second = np.sum(mass * ((centre - m) ** 2 + (0.0 if spread is None else spread)))
        for values, exact in ((draws[:, j], m), ((draws[:, j] - m) ** 2, second)):
            batches = values.reshape(100, -1).mean(axis=1)
            error = batches.std(ddof=1) / 10.0
            assert abs(values.mean() - exact) < 5.0 * error, (name, values.mean(), exact, error)
