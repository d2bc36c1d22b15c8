"""Shears and scales of group moves: what they solve, and what they see of the tasks."""

from __future__ import annotations

import numpy as np
import pytest

import zoo
from zoo.inference.gibbs import normal_inverse_wishart
from zoo.inference.gibbs.group_moves import _solve_positive, feature_moves
from zoo.inference.gibbs.population_lanes import from_lanes, population_group_moves


@pytest.mark.parametrize("n", [1, 5, 40])
def test_solves_as_lapack_does(n):
    rng = np.random.default_rng(n)
    root, b = rng.standard_normal((n, 2 * n)), rng.standard_normal(n)
    A = root @ root.T + 0.1 * np.eye(n)
    np.testing.assert_allclose(_solve_positive(A.copy(), b), np.linalg.solve(A, b), rtol=1e-9)


def test_a_matrix_that_is_not_positive_goes_to_the_general_solve():
    A, b = np.array([[2.0, 3.0, 0.5], [3.0, 1.0, 0.2], [0.5, 0.2, 1.5]]), np.array([1.0, -2.0, 0.3])
    np.testing.assert_allclose(_solve_positive(A.copy(), b), np.linalg.solve(A, b), rtol=1e-12)


def test_moves_of_a_population_see_each_task_with_its_own_noise():
    """They are those of the sums over rows divided by the noise variances, and of a mean without rows."""
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) % 10
    )
    kernel = zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))).gibbs_kernel(
        data, data.y, group_moves=True
    )
    state = kernel.initialise(rng)
    state["inverse_noise"][:] = rng.uniform(0.1, 10.0, state["inverse_noise"].shape)
    T, scale = data.n_tasks, state["inverse_noise"].ravel()[:10]
    S, r, H = (
        np.concatenate([a, np.zeros((1, *a.shape[1:]))])
        for a in (
            scale[:, None, None] * from_lanes(state["tasks"].S)[:T],
            scale[:, None] * from_lanes(state["tasks"].linear)[:T],
            from_lanes(state["W"])[:T],
        )
    )
    H[T] = state["mu"]
    P = state["P"].copy()
    feature_moves(np.random.default_rng(1), S, r, np.ones(T + 1), H, P, kernel.nu)
    population_group_moves(
        np.random.default_rng(1), state["whole"], state["W"], state["mu"], state["P"],
        state["inverse_noise"], kernel.nu, T,
    )  # fmt: skip
    np.testing.assert_allclose(from_lanes(state["W"])[:T], H[:T], rtol=1e-9)
    np.testing.assert_allclose(state["mu"], H[T], rtol=1e-9)
    np.testing.assert_allclose(state["P"], P, rtol=1e-9)


def test_step_0_reads_the_covariance_that_group_moves_leave(monkeypatch):
    """Group moves change the precision, and the moves of the same sweep after them read its inverse."""
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) % 10
    )
    kernel = zoo.NIWLinear().gibbs_kernel(data, data.y, loose=1, sweep_shares=(1.0, 1.0))
    seen = []

    def moves(rng, tasks, space, W, mu, P, C, *rest):
        seen.append(P @ C)

    monkeypatch.setattr(normal_inverse_wishart, "collapsed_moves", moves)
    state = kernel.initialise(rng)
    for _ in range(3):
        before = state["P"].copy()
        kernel.sweep(rng, state)
        assert not np.allclose(state["P"], before)
    np.testing.assert_allclose(seen, np.broadcast_to(np.eye(3), (3, 3, 3)), atol=1e-9)


@pytest.mark.parametrize("loose", [0, 1])
def test_the_noise_reads_the_covariance_that_other_moves_leave(monkeypatch, loose):
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) % 12
    )
    kernel = zoo.NIWLinear().gibbs_kernel(data, data.y, loose=loose, sweep_shares=(1.0, 1.0))
    state, seen = kernel.initialise(rng), []

    def draw(rng, roots, tasks, mu, C, *rest):
        seen.append(state["P"] @ C)

    monkeypatch.setattr(normal_inverse_wishart, "collapsed_noise", draw)
    for _ in range(3):
        kernel.sweep(rng, state)
    np.testing.assert_allclose(seen, np.broadcast_to(np.eye(3), (3, 3, 3)), atol=1e-9)


def test_moves_without_scales_see_none_of_them(monkeypatch):
    """What integrates the scales out may not depend on them, in any width or choice: it sees scales of 1."""
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.standard_normal((40, 3)), rng.standard_normal(40), np.arange(40) % 10
    )
    kernel = zoo.NIWLinear(covariance_prior="half_t", scale_matrix=1.0).gibbs_kernel(data, data.y, loose=2)
    original, seen, known = normal_inverse_wishart.moves_without_scales, [], []

    def moves(*arguments):
        seen.append(arguments[-1] * kernel.scale_sd**2)
        known.append(from_lanes(state["tasks"].S)[:10])
        original(*arguments)

    monkeypatch.setattr(normal_inverse_wishart, "moves_without_scales", moves)
    state = kernel.initialise(rng)
    first = from_lanes(state["tasks"].S)[:10]
    for _ in range(3):
        kernel.sweep(rng, state)
        assert np.ptp(state["scales"]) > 0.1
    np.testing.assert_allclose(seen, np.ones((3, 3)), rtol=1e-12)
    np.testing.assert_allclose(known, np.broadcast_to(first, (3, *first.shape)), rtol=1e-12)


def test_many_small_tasks_beside_a_large_one_get_group_moves():
    """The mean number of rows hid them: of 31 tasks of a logistic hierarchy R-hat was 1.13, and is 1.01."""
    rng = np.random.default_rng(0)
    for sizes, moves in (([2000, *[3] * 30], True), ([2000] * 16 + [3] * 15, None)):
        task = np.repeat(np.arange(31), sizes)
        y = np.where(rng.standard_normal(len(task)) > 0.0, 1.0, -1.0)
        data = zoo.MultiTaskData.from_arrays(rng.standard_normal((len(task), 5)), y, task)
        assert zoo.NIWLinear(likelihood="logistic").gibbs_kernel(data, y).group_moves is moves
