"""These tests check the moves under the likelihood: modes, derivatives, posteriors of two numbers, and when moves run.

The null of the tests against quadrature is that averages over a chain are those of the posterior. Each is compared
at abs(z) < 6 with 50 batches, which chance exceeds with probability 3e-7; there are twenty comparisons. The
posteriors of whole models are tested in tests/statistical.
"""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import zoo
from zoo.data.units import Units
from zoo.inference.augmentation import Augmentation
from zoo.inference.gibbs.augmented_discrete_responses import (
    LogisticParameters,
    has_a_rare_label,
    logistic_draw,
    logistic_log_density,
    logistic_slopes,
)
from zoo.inference.gibbs.likelihood_moves import Block, Likelihood, LikelihoodMoves, Prior, mode_of_block
from zoo.inference.gibbs.likelihood_populations import population_moves, task_scales
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.task_rows import Rows

LOGISTIC = Augmentation(
    logistic_draw, LogisticParameters(), log_density=logistic_log_density, slopes=logistic_slopes
)
SIZES = [70, 3, 40]
STARTS = np.concatenate([[0], np.cumsum(SIZES)])
TASK = np.repeat(np.arange(3), SIZES)


def rare_rows(D=3, share=0.04, seed=0):
    """Sorted rows of three tasks, with an intercept, offsets and weights."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((len(TASK), D))
    X[:, 0] = 1.0
    y = np.where(rng.random(len(TASK)) < share, 1.0, -1.0)
    y[[5, 80]] = 1.0
    return X, y, rng.gamma(2.0, 0.5, len(TASK)), rng.standard_normal(len(TASK))


def test_slopes_are_derivatives():
    f = np.array([-40.0, -3.0, -0.2, 0.0, 0.3, 5.0, 800.0, -800.0])
    for sign in (-1.0, 1.0):
        y, weight, task = np.full(8, sign), np.linspace(0.5, 2.0, 8), np.zeros(8, dtype=int)
        slope, curvature = np.empty(8), np.empty(8)
        logistic_slopes(f, y, weight, task, LogisticParameters(), slope, curvature)
        assert slope == pytest.approx(weight * y * expit(-y * f), rel=1e-13)
        assert curvature == pytest.approx(weight * expit(f) * expit(-f), rel=1e-13)


def test_modes_against_scipy():
    X, y, weight, offset = rare_rows()
    rng = np.random.default_rng(1)
    L = rng.standard_normal((3, 3))
    prior = Prior(rng.standard_normal((3, 3)), np.array([0.7, 1.0, 2.5]), L @ L.T + 0.2 * np.eye(3))
    block = Block.of(Rows(X, np.arange(len(y)), STARTS, offset))
    block.point[:] = prior.mean
    mode_of_block(Likelihood(LOGISTIC, y, weight, TASK, LogisticParameters()), block, prior, 0, 3, 50)
    for t in range(3):
        own = TASK == t
        A = prior.scale[t] * prior.matrix

        def loss(b, own=own, A=A, m=prior.mean[t]):
            f = offset[own] + X[own] @ b
            return weight[own] @ np.logaddexp(0.0, -y[own] * f) + 0.5 * (b - m) @ A @ (b - m)

        found = minimize(loss, np.zeros(3), method="BFGS", options={"gtol": 1e-9})
        # Newton's method ends with a step that moves no row by more than 0.3: its own error is of second order.
        assert loss(block.point[t]) - found.fun < 1e-3
        f = offset[own] + X[own] @ found.x
        h = weight[own] * expit(f) * expit(-f)
        exact = (X[own] * h[:, None]).T @ X[own] + A
        factor = np.tril(block.factor[t])
        assert factor @ factor.T == pytest.approx(exact, rel=0.35, abs=0.35)


def test_a_mode_far_from_the_start():
    X, y, weight, _ = rare_rows()
    block = Block.of(Rows(X, np.arange(len(y)), np.array([0, len(y)]), np.full(len(y), 30.0)))
    block.point[:] = 0.0
    prior = Prior(np.zeros((1, 3)), np.ones(1), 0.01 * np.eye(3))
    mode_of_block(Likelihood(LOGISTIC, y, weight, TASK, LogisticParameters()), block, prior, 0, 1, 100)
    f = 30.0 + X @ block.point[0]
    gradient = X.T @ (weight * y * expit(-y * f)) - 0.01 * block.point[0]
    assert np.abs(gradient).max() < 0.1


# Two tasks with one feature: few rows, so that the law is far from normal.
INPUT = np.array([1.0, 1.0, 1.0, 1.5, 2.0, 0.5])
LABEL = np.array([-1.0, -1.0, 1.0, -1.0, -1.0, -1.0])
OF_TASK = np.array([0, 0, 0, 1, 1, 1])
WEIGHT = np.array([1.0, 2.0, 0.7, 1.0, 1.5, 1.0])
OFFSET = np.array([0.3, 0.0, -0.5, 0.0, 0.2, 0.0])


def small_moves():
    rows = (INPUT[:, None].copy(), np.arange(6), np.array([0, 3, 6]), OFFSET.copy())
    moves = LikelihoodMoves(LOGISTIC, LogisticParameters(), Rows(*rows), LABEL, WEIGHT, OF_TASK)
    return moves, lambda W: OFFSET + INPUT * W[OF_TASK, 0]


def grid_log_likelihood(grid, t):
    own = OF_TASK == t
    f = OFFSET[own, None] + INPUT[own, None] * grid
    return -WEIGHT[own] @ np.logaddexp(0.0, -LABEL[own, None] * f)


def assert_averages(chain, expected):
    batches = np.array(chain).reshape(50, -1, len(expected)).mean(axis=1)
    z = (batches.mean(axis=0) - expected) / (batches.std(axis=0, ddof=1) / np.sqrt(50))
    assert np.abs(z).max() < 6.0, z


def grid_moments(log_density, grid):
    """Averages of both coefficients, their squares and product, of a log density on a grid (G, G)."""
    p = np.exp(log_density - log_density.max())
    p /= p.sum()
    a, b = np.meshgrid(grid, grid, indexing="ij")
    return [np.sum(p * value) for value in (a, b, a * a, b * b, a * b)]


GRID = np.linspace(-25.0, 15.0, 401)


@pytest.mark.parametrize("which", ["population", "matrix normal", "together"])
def test_a_proposal_does_not_depend_on_what_it_replaces(which, monkeypatch):
    """The same random numbers make the same proposal, wherever the chain is."""
    P, found = np.array([[0.5, -0.2], [-0.2, 0.4]]), []
    for start in (-6.0, 0.0, 4.0):
        moves, values = small_moves()
        rng, mu = np.random.default_rng(1), np.array([-1.0])
        W = np.array([[start], [start - 1.0]])
        if which == "together":
            mu = np.array([start])
            moves.together(rng, W, mu, 0.5, P[:1, :1], values(W))
            found.append(moves.all.point.copy())
            continue
        monkeypatch.setattr(LikelihoodMoves, "together", lambda self, rng, W, shared, *rest: 0.0 * shared)
        if which == "population":
            moves.population(rng, W, mu, P[:1, :1], MeanLaw(0.5, np.zeros(1)), values(W))
            found.append(moves.tasks.point.copy())
        else:
            W[1] = -2.0
            moves.matrix_normal(rng, W, P, np.array([[0.7]]), values(W))
            found.append(moves.tasks.point[0].copy())
    assert found[1] == pytest.approx(found[0], abs=1e-9)
    assert found[2] == pytest.approx(found[0], abs=1e-9)


@pytest.mark.parametrize("regression", [False, True])
def test_tasks_and_mean_against_quadrature(regression):
    pi, P = 0.5, np.array([[0.3]])
    prior = np.linalg.inv((np.eye(2) + 1.0 / pi) / P[0, 0])  # of both coefficients, the mean integrated out
    a, b = GRID[:, None], GRID[None, :]
    quadratic = prior[0, 0] * a * a + 2.0 * prior[0, 1] * a * b + prior[1, 1] * b * b
    law = grid_log_likelihood(GRID, 0)[:, None] + grid_log_likelihood(GRID, 1)[None, :] - 0.5 * quadratic
    moves, values = small_moves()
    W, mu, rng, chain = np.zeros((2, 1)), np.zeros(1), np.random.default_rng(2), []
    f = values(W)
    for _ in range(20_000):
        moves.population(rng, W, mu, P, MeanLaw(pi, np.zeros(1)), f)
        if regression:  # of one feature: its mean
            population_moves(rng, moves, W, mu, P, MeanLaw(pi, np.zeros(1)), f)
        chain.append([*W[:, 0], *W[:, 0] ** 2, W[0, 0] * W[1, 0]])
    assert f == pytest.approx(values(W), abs=1e-9)
    assert_averages(chain, grid_moments(law, GRID))


@pytest.mark.parametrize("scales", [False, True])
def test_matrix_normal_against_quadrature(scales):
    """With the scales of tasks the diagonal of their precision moves too."""
    P, O = np.array([[0.5, -0.2], [-0.2, 0.4]]), np.array([[0.7]])
    a, b = GRID[:, None], GRID[None, :]
    likelihood = grid_log_likelihood(GRID, 0)[:, None] + grid_log_likelihood(GRID, 1)[None, :]
    nu, log_scale = 9.0, np.linspace(-2.5, 2.5, 41)
    if not scales:
        quadratic = O[0, 0] * (P[0, 0] * a * a + 2.0 * P[0, 1] * a * b + P[1, 1] * b * b)
        expected = grid_moments(likelihood - 0.5 * quadratic, GRID)
    else:
        # With W = diag(e^u) V and P / (e^u_s e^u_t): V keeps its normal law, u has the law of the scales.
        total, expected = 0.0, np.zeros(5)
        log_likelihood = [np.exp(grid_log_likelihood(GRID, t)) for t in range(2)]
        base = np.exp(-0.5 * O[0, 0] * (P[0, 0] * a * a + 2.0 * P[0, 1] * a * b + P[1, 1] * b * b))
        for i in log_scale:
            for j in log_scale:
                law = np.exp(-nu * (i + j) - 0.5 * (P[0, 0] * np.exp(-2 * i) + P[1, 1] * np.exp(-2 * j)))
                first = np.interp(np.exp(i) * GRID, GRID, log_likelihood[0])
                second = np.interp(np.exp(j) * GRID, GRID, log_likelihood[1])
                weighted = law * base * first[:, None] * second[None, :]
                total += weighted.sum()
                A, B = np.exp(i) * a, np.exp(j) * b
                expected += [np.sum(weighted * v) for v in (A, B, A * A, B * B, A * B)]
        expected = expected / total
    moves, values = small_moves()
    H, rng, chain = np.zeros((2, 1)), np.random.default_rng(3), []
    f = values(H)
    for _ in range(20_000):
        moves.matrix_normal(rng, H, P, O, f)
        if scales:
            task_scales(rng, moves, H, P, nu, np.empty((0, 0)), f)
        chain.append([*H[:, 0], *H[:, 0] ** 2, H[0, 0] * H[1, 0]])
    assert f == pytest.approx(values(H), abs=1e-9)
    assert_averages(chain, expected)


def test_rare_counts_weights():
    y = np.where(np.arange(20) == 0, 1.0, -1.0)
    assert has_a_rare_label(y, np.ones(20)) and has_a_rare_label(-y, np.ones(20))
    assert not has_a_rare_label(y, np.where(y > 0, 5.0, 1.0))


@pytest.mark.parametrize("model", ["NIWLinear", "MaxMargin"])
def test_when_the_moves_are_taken(model):
    X, y, _, _ = rare_rows()
    factory = getattr(zoo, model)(likelihood="logistic")
    data = zoo.MultiTaskData.from_arrays(X, y, TASK)

    def taken(data, **options):
        kernel = factory.gibbs_kernel(factory.design(data), data.y, **options)
        return kernel.initialise(np.random.default_rng(0))["moves"] is not None

    assert taken(data)
    assert not taken(data, group_moves=False)
    balanced = replace(data, y=np.where(np.arange(len(y)) % 2, 1.0, -1.0))
    assert not taken(balanced)
    assert taken(balanced, likelihood_moves=True)


@pytest.mark.parametrize("model", ["NIWLinear", "MaxMargin"])
def test_function_values_follow_the_moves(model):
    """The values that the moves carry along are those of the coefficients that they leave."""
    X, y, _, _ = rare_rows(D=4)
    factory = getattr(zoo, model)(likelihood="logistic")
    data = zoo.MultiTaskData.from_arrays(X, y, TASK)
    data = replace(data, units=Units.of_size(4))  # the sampler's coefficients are then those of X
    kernel = factory.gibbs_kernel(factory.design(data), data.y)
    state, seen = kernel.initialise(np.random.default_rng(0)), []
    draw = kernel.augmentation.draw

    def watched(rng, f, *rest):
        seen.append((f.copy(), kernel.record(state)["coefficients"]))
        draw(rng, f, *rest)

    object.__setattr__(kernel, "augmentation", kernel.augmentation._replace(draw=watched))
    for _ in range(20):
        kernel.sweep(np.random.default_rng(len(seen)), state)
    for f, coefficients in seen:
        assert f == pytest.approx(np.einsum("nd,dn->n", X, coefficients[:, TASK]), abs=1e-8)
    assert len({values[0][0] for values in seen}) > 5
