"""Covariances of tasks in a tree, in closed form and by the hierarchical model."""

from __future__ import annotations

import numpy as np

from tests.kernels.task_kernels import PARENT, evaluated
from zoo.kernels import Tree

RNG = np.random.default_rng(15)


def test_tree_in_closed_form():
    """(I - A')^-1 S (I - A)^-1 with A[pa(l), l] = 1: bussas2015, corrected."""
    sigma = RNG.random(7) + 0.5
    A = np.zeros((7, 7))
    for node, parent in enumerate(PARENT):
        if parent >= 0:
            A[parent, node] = 1.0
    G = np.linalg.inv(np.eye(7) - A.T) @ np.diag(sigma**2) @ np.linalg.inv(np.eye(7) - A)
    leaves = [3, 4, 5, 6]
    np.testing.assert_allclose(
        Tree(3, PARENT, sigma, tasks="leaves").task_covariance(), G[np.ix_(leaves, leaves)], rtol=1e-12
    )
    every = Tree(3, PARENT, sigma)
    np.testing.assert_allclose(every.task_covariance(), G, rtol=1e-12)
    d, W = every.loadings()
    np.testing.assert_allclose(np.diag(evaluated(d)) + evaluated(W) @ evaluated(W).T, G, rtol=1e-12)
    by_level = Tree(3, PARENT, level_sigma=[0.2, 0.5, 1.1])
    assert by_level.depth.tolist() == [0, 1, 1, 2, 2, 2, 2]
    per_node = Tree(3, PARENT, sigma=np.array([0.2, 0.5, 1.1])[by_level.depth])
    np.testing.assert_allclose(by_level.task_covariance(), per_node.task_covariance(), rtol=1e-12)


def test_tree_is_the_covariance_of_the_hierarchical_model():
    rng, draws = np.random.default_rng(9), 20_000
    sigma = np.array([0.5, 1.0, 0.7, 0.3, 1.2, 0.8, 1.5])
    u = np.zeros((7, draws))
    for node, parent in enumerate(PARENT):
        u[node] = (u[parent] if parent >= 0 else 0.0) + sigma[node] * rng.standard_normal(draws)
    B = Tree(3, PARENT, sigma).task_covariance().to_numpy()
    # Of a normal sample the variance of a second moment is (B_ij^2 + B_ii B_jj) / draws.
    error = np.sqrt((B**2 + np.outer(np.diag(B), np.diag(B))) / draws)
    assert np.all(np.abs(u @ u.T / draws - B) < 4.5 * error)
