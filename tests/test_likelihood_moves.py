"""Moves under the likelihood: modes, derivatives, when they are taken. Their laws: tests/statistical/test_kernels.py."""

from dataclasses import replace

import numpy as np
import pytest
from scipy.optimize import minimize
from scipy.special import expit

import zoo
from zoo.inference.augmentation import Augmentation
from zoo.inference.augmented_discrete_responses import (
    LogisticParameters,
    has_a_rare_label,
    logistic_draw,
    logistic_log_density,
    logistic_slopes,
)
from zoo.inference.likelihood_moves import Block, Likelihood, Prior, mode_of_block

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
    block = Block.of(X, np.arange(len(y)), STARTS, offset)
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
    block = Block.of(X, np.arange(len(y)), np.array([0, len(y)]), np.full(len(y), 30.0))
    block.point[:] = 0.0
    prior = Prior(np.zeros((1, 3)), np.ones(1), 0.01 * np.eye(3))
    mode_of_block(Likelihood(LOGISTIC, y, weight, TASK, LogisticParameters()), block, prior, 0, 1, 100)
    f = 30.0 + X @ block.point[0]
    gradient = X.T @ (weight * y * expit(-y * f)) - 0.01 * block.point[0]
    assert np.abs(gradient).max() < 0.1


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
        kernel = factory.gibbs_kernel(factory.prepare(data), data.y, **options)
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
    kernel = factory.gibbs_kernel(factory.prepare(data), data.y)
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
