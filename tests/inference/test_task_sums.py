"""Sums over the rows of each task, against a loop over tasks."""

from __future__ import annotations

import numpy as np
import pytest

from zoo.inference.gibbs.population_lanes import from_lanes, to_lanes
from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.gibbs.shared_sums import SharedSums
from zoo.inference.gibbs.task_sums import task_sums

T, D, N = 30, 4, 240


@pytest.fixture(scope="module", params=[False, True], ids=["no weights", "weights"])
def rows(request):
    """Tasks with few rows, without rows, with columns that are equal or nearly so, and in other units."""
    rng = np.random.default_rng(3)
    inputs = rng.standard_normal((N, D))
    task = rng.integers(0, T - 1, N)  # the last one has no rows
    task[task == 5], task[np.flatnonzero(task == 6)[2:]] = 4, 4
    inputs[task == 0, 2] = inputs[task == 0, 1]
    inputs[task == 1, 2] = inputs[task == 1, 1] + 1e-7 * rng.standard_normal(int(np.sum(task == 1)))
    inputs[task == 2] *= 1e6
    inputs[task == 3] = 0.0
    row = rng.permutation(N)
    task = task[row]
    y = inputs[row] @ np.arange(1.0, D + 1.0) + rng.standard_normal(N)
    return inputs, row, y, task, T, rng.gamma(2.0, size=N) if request.param else None


def test_sums_are_those_of_a_loop_over_tasks(rows):
    inputs, row, y, task, _, weight = rows
    found = task_sums(*rows, padded=T + 2)
    assert found.S.shape == (T + 2, D, D)
    assert not found.S[T:].any() and not found.linear[T:].any() and not found.centre[T:].any()
    for t in range(T):
        at = np.flatnonzero(task == t)
        root = np.ones(len(at)) if weight is None else np.sqrt(weight[at])
        X, z = root[:, None] * inputs[row[at]], root * y[at]
        np.testing.assert_allclose(found.S[t], X.T @ X, rtol=1e-12, atol=1e-12)
        np.testing.assert_allclose(found.linear[t], X.T @ z, rtol=1e-12, atol=1e-10)
        assert found.size[t] == pytest.approx(np.sum(root**2))
        smallest = np.linalg.lstsq(X, z, rcond=None)[0] if len(at) else np.zeros(D)
        assert found.sse[t] == pytest.approx(np.sum((z - X @ smallest) ** 2), rel=1e-9, abs=1e-18 * (z @ z))
        # Of columns that are nearly equal, coefficients have few digits: what they predict has all.
        np.testing.assert_allclose(X @ found.centre[t], X @ smallest, rtol=1e-8, atol=1e-8)
        np.testing.assert_allclose(
            found.centre[t], smallest, rtol=1e-2 if t == 1 else 1e-8, atol=1e-8 * np.abs(smallest).max()
        )


def test_the_squared_error_around_least_squares_is_that_of_the_rows(rows):
    inputs, row, y, task, _, weight = rows
    found = task_sums(*rows)
    w = np.random.default_rng(1).standard_normal(D)
    h = np.ones(N) if weight is None else weight
    direct = np.bincount(task, h * (y - inputs[row] @ w) ** 2, minlength=T)
    apart = w - found.centre
    # The coefficients of task 1 are large and have few digits, by its columns that are nearly equal.
    tolerance = np.where(np.arange(T) == 1, 1e-4, 1e-9)
    around = found.sse + np.einsum("ti,tij,tj->t", apart, found.S, apart)
    assert np.all(np.abs(around - direct) <= tolerance * direct)


def test_sums_less_a_shared_part_are_those_of_responses_less_it(rows):
    inputs, row, y, task, _, weight = rows
    rng = np.random.default_rng(4)
    shared, beta = rng.standard_normal((N, 6)), np.array([0.7, -2.0, 1.0, 0.4, -0.3, 2.0])
    shared[:, 1] = rng.standard_normal(T)[task]  # stands still within tasks
    shared[:, 2:] = np.eye(4)[rng.integers(0, 4, N)]  # levels, of which a task has some

    def in_lanes(response):
        sums = task_sums(inputs, row, response, task, T, weight, padded=-(-T // LANES) * LANES)
        return Tasks(to_lanes(sums.S), to_lanes(sums.centre), to_lanes(sums.linear), sums.sse, sums.size)

    tasks, wanted = in_lanes(y), in_lanes(y - shared @ beta)
    SharedSums.of(tasks, inputs[row], shared, y, task, weight).put(tasks, beta)
    np.testing.assert_allclose(tasks.linear, wanted.linear, rtol=1e-9, atol=1e-6)
    others = np.arange(T) != 1  # whose columns are nearly equal
    np.testing.assert_allclose(
        from_lanes(tasks.centre)[:T][others], from_lanes(wanted.centre)[:T][others], rtol=1e-7, atol=1e-7
    )
    np.testing.assert_allclose(tasks.sse[others], wanted.sse[others], rtol=1e-8, atol=1e-9)
