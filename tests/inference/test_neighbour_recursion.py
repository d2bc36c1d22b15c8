"""Rows made of rows before them, against a dense triangular system."""

from __future__ import annotations

import numpy as np

from zoo.inference.neighbour_recursion import recursion, recursion_adjoint


def small() -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Weights, neighbours, order, and the weights as a dense matrix."""
    rng = np.random.default_rng(0)
    n, m = 12, 3
    order = rng.permutation(n)
    before, weights, dense = np.full((n, m), -1), rng.normal(size=(n, m)), np.zeros((n, n))
    for k, i in enumerate(order):
        found = rng.permutation(order[:k])[:m]
        before[i, : len(found)] = found
        dense[i, found] = weights[i, : len(found)]
    return weights, before, order, dense


def test_rows_solve_the_triangular_system():
    weights, before, order, dense = small()
    shift, out = np.random.default_rng(1).normal(size=12), np.empty(12)
    recursion(shift, weights, before, order, out)
    np.testing.assert_allclose(out, np.linalg.solve(np.eye(12) - dense, shift), rtol=1e-12)


def test_the_adjoint_solves_the_transposed_system():
    weights, before, order, dense = small()
    shift, g = np.random.default_rng(2).normal(size=(2, 12))
    f = np.linalg.solve(np.eye(12) - dense, shift)
    slope, in_weights = g.copy(), np.zeros_like(weights)
    recursion_adjoint(f, weights, before, order, slope, in_weights)
    expected = np.linalg.solve((np.eye(12) - dense).T, g)
    np.testing.assert_allclose(slope, expected, rtol=1e-12)
    for i in range(12):
        for j in range(3):
            by_hand = expected[i] * f[before[i, j]] if before[i, j] >= 0 else 0.0
            assert np.isclose(in_weights[i, j], by_hand, rtol=1e-12)
