"""The joint draw of very many shared coefficients, against dense algebra.

Null of the tests of draws: they come from the normal law whose precision is written down here row by row. Means and
variances are compared along fixed directions, at a two-sided level of 1e-6 each, Bonferroni over all of them, so that
a run fails by chance once in 10^5.
"""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from scipy.sparse import csr_array

from zoo.inference.gibbs import many_shared
from zoo.inference.gibbs.many_shared import ManySums, SharedRows, draw_by_steps
from zoo.inference.gibbs.own_mean import MeanLaw
from zoo.inference.gibbs.population_lanes import from_lanes, to_lanes
from zoo.inference.gibbs.population_steps import LANES, Tasks
from zoo.inference.gibbs.shared_sums import SharedSums
from zoo.inference.gibbs.task_rows import Rows
from zoo.inference.gibbs.task_sums import task_sums

T, D, G, N, PI, SIZE, LEVEL = 7, 2, 12, 60, 0.7, 20_000, 1e-5
LAW = MeanLaw(PI, np.zeros(D))
BLOCKS = -(-T // LANES)


@pytest.fixture(scope="module")
def problem():
    """Rows of tasks and levels, with a feature of each level that is now and then 0, and one that all rows have."""
    rng = np.random.default_rng(5)
    task = np.sort(rng.integers(0, T - 1, N))  # the last task has no rows
    level, slope = rng.integers(0, G, N), rng.standard_normal(N)
    slope[::7] = 0.0
    dense = np.zeros((N, 2 * G + 1))
    dense[np.arange(N), level] = 1.0
    dense[np.arange(N), G + level] = slope
    dense[:, -1] = rng.standard_normal(N)
    A = rng.standard_normal((D, D))
    return {
        "inputs": np.column_stack([np.ones(N), rng.standard_normal(N)]),
        "task": task,
        "dense": dense,
        "w": rng.gamma(2.0, size=N),
        "v": rng.standard_normal(N),
        "P": A @ A.T + np.eye(D),
        "sd": rng.uniform(0.3, 2.0, 2 * G + 1),
        "noise": rng.gamma(3.0, size=T),
    }


def precision_and_linear(p):
    """Of (mu, beta, w_0, ..., w_T), from what each row and each law adds."""
    S = p["dense"].shape[1]
    size = D + S + T * D
    Q, h = np.zeros((size, size)), np.zeros(size)
    Q[:D, :D] += PI * p["P"]
    Q[D : D + S, D : D + S] += np.diag(p["sd"] ** -2.0)
    for t in range(T):
        apart = np.zeros((D, size))
        apart[:, :D], apart[:, D + S + t * D : D + S + (t + 1) * D] = -np.eye(D), np.eye(D)
        Q += apart.T @ p["P"] @ apart
    for n in range(N):
        t, a = p["task"][n], np.zeros(size)
        a[D : D + S] = p["dense"][n]
        a[D + S + t * D : D + S + (t + 1) * D] = p["inputs"][n]
        Q += p["noise"][t] * p["w"][n] * np.outer(a, a)
        h += p["noise"][t] * p["v"][n] * a
    return Q, h


def lanes(values):
    padded = np.zeros((BLOCKS * LANES, *values.shape[1:]))
    padded[:T] = values
    return to_lanes(padded)


def parts(p):
    """What the compiled function takes of the rows."""
    sizes = np.bincount(p["task"], minlength=T)
    rows = Rows.of(p["inputs"], np.arange(N), np.arange(N), sizes, None)
    side = SharedRows.of(csr_array(p["dense"]), np.arange(N))
    gram = np.zeros((T, D, D))
    np.add.at(gram, p["task"], p["w"][:, None, None] * p["inputs"][:, :, None] * p["inputs"][:, None, :])
    noise = np.zeros(BLOCKS * LANES)
    noise[:T] = p["noise"]
    return lanes(gram), rows, side, noise.reshape(BLOCKS, LANES)


def drawn(p, rng):
    """One draw of (mu, beta, w)."""
    gram, rows, side, noise = parts(p)
    W, mu, beta = np.zeros((BLOCKS, D, LANES)), np.zeros(D), np.zeros(p["dense"].shape[1])
    steps = draw_by_steps(rng, gram, rows, side, p["w"], p["v"], W, mu, beta, p["sd"], p["P"], noise, LAW, T)
    assert steps > 0
    return np.concatenate([mu, beta, from_lanes(W)[:T].ravel()])


def test_the_product_is_that_of_the_reduced_precision(problem):
    Q, _ = precision_and_linear(problem)
    first = D + problem["dense"].shape[1]
    reduced = Q[:first, :first] - Q[:first, first:] @ np.linalg.solve(Q[first:, first:], Q[first:, :first])
    gram, rows, side, noise = parts(problem)
    grams = from_lanes(gram)[:T] if gram.ndim == 3 else np.moveaxis(gram, 3, 1).reshape(-1, D, D)[:T]
    factors = np.linalg.cholesky(problem["noise"][:, None, None] * grams + problem["P"])
    prior = problem["sd"] ** -2.0
    for vector in np.eye(first):
        of_mu, of_beta = np.empty(D), np.empty(first - D)
        known = (rows, side, problem["w"], factors, noise, prior, problem["P"], LAW)
        many_shared._product(*known, vector[:D].copy(), vector[D:].copy(), np.empty(N), of_mu, of_beta)
        np.testing.assert_allclose(np.concatenate([of_mu, of_beta]), reduced @ vector, atol=1e-10)


def test_draws_have_mean_and_covariance_of_the_joint_law(problem):
    Q, h = precision_and_linear(problem)
    covariance = np.linalg.inv(Q)
    rng = np.random.default_rng(8)
    draws = np.stack([drawn(problem, rng) for _ in range(SIZE)])
    directions = np.concatenate([np.eye(len(h)), rng.standard_normal((200, len(h)))])
    sd = np.sqrt(np.einsum("ki,ij,kj->k", directions, covariance, directions))
    z = ((draws - covariance @ h) @ directions.T) / sd
    level = LEVEL / (2 * len(directions))
    assert np.abs(np.sqrt(SIZE) * z.mean(axis=0)).max() < stats.norm.isf(level / 2)
    squares = SIZE * np.mean(z**2, axis=0)
    assert squares.max() < stats.chi2.isf(level / 2, SIZE)
    assert squares.min() > stats.chi2.ppf(level / 2, SIZE)


def test_an_end_without_convergence_is_an_error_that_changes_nothing(problem):
    gram, rows, side, noise = parts(problem)
    W, mu, beta = np.ones((BLOCKS, D, LANES)), np.ones(D), np.ones(problem["dense"].shape[1])
    v = np.full(N, np.nan)
    with pytest.raises(np.linalg.LinAlgError, match="conjugate gradients"):
        draw_by_steps(
            np.random.default_rng(1), gram, rows, side, problem["w"], v, W, mu, beta, problem["sd"], problem["P"],
            noise, LAW, T,
        )  # fmt: skip
    assert (W == 1.0).all() and (mu == 1.0).all() and (beta == 1.0).all()


@pytest.mark.parametrize("weights", [False, True], ids=["no weights", "weights"])
def test_sums_less_the_shared_part_are_those_of_dense_columns(weights):
    """Tasks without rows, with one row, with equal columns, and in other units."""
    rng = np.random.default_rng(6)
    tasks, features, rows = 30, 3, 300
    X, task = rng.standard_normal((rows, features)), rng.integers(0, tasks - 1, rows)
    task[np.flatnonzero(task == 6)[1:]] = 5
    X[task == 0, 2] = X[task == 0, 1]
    X[task == 2] *= 1e6
    y, shared, beta = (
        rng.standard_normal(rows),
        np.eye(40)[rng.integers(0, 40, rows)],
        rng.standard_normal(40),
    )
    weight = rng.gamma(2.0, size=rows) if weights else None

    def in_lanes():
        sums = task_sums(X, np.arange(rows), y, task, tasks, weight, padded=-(-tasks // LANES) * LANES)
        return Tasks(to_lanes(sums.S), to_lanes(sums.centre), to_lanes(sums.linear), sums.sse, sums.size)

    found, wanted = in_lanes(), in_lanes()
    ManySums.of(found, X, csr_array(shared), y, task, weight).put(found, beta)
    SharedSums.of(wanted, X, shared, y, task, weight).put(wanted, beta)
    np.testing.assert_allclose(found.linear, wanted.linear, rtol=1e-9, atol=1e-6)
    np.testing.assert_allclose(found.centre, wanted.centre, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(found.sse, wanted.sse, rtol=1e-8, atol=1e-9)
