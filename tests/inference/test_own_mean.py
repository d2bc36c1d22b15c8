"""The draw of a mean with a prior of its own, where tasks differ so little that float64 hides what they say."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from zoo.inference.gibbs.own_mean import draw_mean
from zoo.inference.gibbs.population_lanes import to_lanes
from zoo.inference.gibbs.population_steps import LANES, Space, Tasks
from zoo.inference.gibbs.triangular import factorise


def exact_law(S, linear, P, own):
    """Mean and covariance (2, 2) of the mean of two coefficients, in rational numbers: y = X mu + X e_t + noise."""

    def times(A, B):
        return [[sum(A[i][k] * B[k][j] for k in range(2)) for j in range(2)] for i in range(2)]

    def inverse(A):
        det = A[0][0] * A[1][1] - A[0][1] * A[1][0]
        return [[A[1][1] / det, -A[0][1] / det], [-A[1][0] / det, A[0][0] / det]]

    def rational(A):
        return [[Fraction(float(a)) for a in row] for row in A]

    P = rational(P)
    precision, pull = rational(np.diag(own)), [Fraction(0)] * 2
    for of_task, r in zip(S, linear, strict=True):
        of_task = rational(of_task)
        shrunken = times(P, inverse([[of_task[i][j] + P[i][j] for j in range(2)] for i in range(2)]))
        seen = times(shrunken, of_task)
        precision = [[precision[i][j] + seen[i][j] for j in range(2)] for i in range(2)]
        pull = [pull[i] + sum(shrunken[i][j] * Fraction(float(r[j])) for j in range(2)) for i in range(2)]
    cov = inverse(precision)
    mean = [sum(cov[i][j] * pull[j] for j in range(2)) for i in range(2)]
    return np.array(mean, dtype=float), np.array(cov, dtype=float)


@pytest.mark.parametrize("spread", [1.0, 1e-4, 1e-6])
def test_the_mean_has_its_law_whatever_the_spread_of_tasks(spread):
    """Null: exact draws. Four z-scores of 6,000 draws beyond 5: false alarms in 2 of a million runs."""
    rng, n_tasks = np.random.default_rng(11), 2 * LANES
    rows = [rng.normal(size=(5, 2)) for _ in range(n_tasks)]
    S = np.stack([X.T @ X for X in rows])
    linear = np.stack([X.T @ (X @ [1.0, -2.0] + rng.normal(size=5)) for X in rows])
    # The sds over tasks are ``spread`` and a third of it, and nearly the same coefficient varies in both.
    L = spread * np.array([[1.0, 0.0], [0.33, 1e-3]])
    P = np.linalg.inv(L @ L.T)
    own = np.array([0.01, 0.02])
    mean, cov = exact_law(S, linear, P, own)
    tasks = Tasks(
        to_lanes(S), np.zeros((2, 2, LANES)), to_lanes(linear), np.zeros(n_tasks), np.full(n_tasks, 5.0)
    )
    space = Space(np.zeros((2, 2, LANES)), np.zeros((2, LANES)), np.zeros((2, 2)))
    draws = np.zeros((6_000, 2))
    for draw in draws:
        draw_mean(rng, tasks, space, draw, P, own, np.ones((2, LANES)))
    root = np.linalg.cholesky(cov)
    standard = np.linalg.solve(root, (draws - mean).T)
    assert np.all(np.abs(standard.mean(axis=1)) * np.sqrt(6_000) < 5.0)
    assert np.all(np.abs(standard.var(axis=1) - 1.0) * np.sqrt(6_000 / 2) < 5.0)


def test_a_negative_diagonal_has_no_factor():
    matrix = np.array([[2.0, 0.5], [0.5, -1.0]])
    with np.errstate(invalid="ignore"):
        assert factorise(matrix) == -1.0
