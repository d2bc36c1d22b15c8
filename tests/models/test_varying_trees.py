"""Varying coefficients of tasks in a tree: the kernel is that of the hierarchical model."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy import stats

import zoo
from tests.models.varying import BARE, DRAWS, TREE, Component, Varying, log_evidence, on_tree, values_of
from zoo.kernels import GraphLaplacian, MeanRegularised, TaskTree, Tree
from zoo.likelihoods import Gaussian

# ---------------------------------------------------------------- trees


def hierarchy(parent: np.ndarray, sigma: np.ndarray) -> np.ndarray:
    """Covariance of u_j = u_pa(j) + sigma_j eps_j, marginalised node by node, parents first."""
    cov = np.zeros((len(parent), len(parent)))
    for j in range(len(parent)):
        above = parent[j]
        if above >= 0:
            cov[j, :j] = cov[:j, j] = cov[above, :j]
            cov[j, j] = cov[above, above]
        cov[j, j] += sigma[j] ** 2
    return cov


def test_tree_kernel_is_the_hierarchical_model_both_ways():
    parent, sigma = np.array(TREE.parent), np.random.default_rng(2).uniform(0.3, 1.5, TREE.n_nodes)
    expected = hierarchy(parent, sigma)
    A = np.zeros((len(parent), len(parent)))  # the paper's: A_{pa(j), j} = 1
    A[parent[1:], np.arange(1, len(parent))] = 1.0
    back = np.linalg.inv(np.eye(len(parent)) - A)
    assert_allclose(back.T @ np.diag(sigma**2) @ back, expected, atol=1e-12)
    printed = back @ np.diag(sigma**2) @ back.T  # as the paper prints it
    assert np.abs(printed - expected).max() > 0.3
    tree = TREE.kernel(sigma=sigma, tasks=TREE.names)
    assert_allclose(tree.task_covariance().to_numpy(), expected, atol=1e-12)
    # By simulation: 1e5 draws of each node, 28 covariances, 4.5 standard errors, false alarm 2e-4.
    rng, n = np.random.default_rng(3), 100_000
    u = np.zeros((n, len(parent)))
    for j in range(len(parent)):
        u[:, j] = (u[:, parent[j]] if parent[j] >= 0 else 0.0) + sigma[j] * rng.standard_normal(n)
    error = np.sqrt((expected**2 + np.outer(np.diag(expected), np.diag(expected))) / n)
    assert np.abs((u.T @ u / n - expected) / error).max() < 4.5


def test_tree_predictions_and_coefficients_are_the_hierarchical_model():
    """Steps of every node as weights of their own, with fixed standard deviations: posterior by their precision."""
    data = on_tree()
    sigma = np.array([0.7, 0.5, 0.9, 0.3, 0.4, 0.6, 0.2, 0.35])
    parent, tasks = np.array(TREE.parent), TREE.for_tasks(data.task_names)
    kernel = Tree(parent=parent, sigma=sigma, tasks=tasks, task_names=data.task_names)
    factory = Varying(
        task_kernel=Component(kernel=kernel, lengthscale="fixed", amplitude=1.0),
        likelihood=Gaussian(noise=0.4),
        **BARE,
    )
    fit = factory.fit(data, "exact", **{**DRAWS, "draws": 4000})
    steps = np.zeros((data.n_rows, len(parent), 2))
    above = np.array([[j in TREE._up(i) for j in range(len(parent))] for i in tasks])
    steps = (above[data.task][:, :, None] * data.X[:, None, :]).reshape(data.n_rows, -1)
    precision = np.diag(np.repeat(sigma**-2.0, 2)) + steps.T @ steps / 0.16
    cov = np.linalg.inv(precision)
    mean = cov @ steps.T @ data.y / 0.16
    predicted = fit.predict(data)
    assert_allclose(predicted["mean"], steps @ mean, atol=1e-8)
    assert_allclose(predicted["sd"] ** 2, np.einsum("ni,ij,nj->n", steps, cov, steps) + 0.16, atol=1e-8)
    table = fit.coefficients()
    by_task = np.einsum("tj,jd->dt", above, mean.reshape(-1, 2))
    assert_allclose(table["mean"], by_task, atol=1e-8)
    assert tuple(table["task"].to_numpy()) == data.task_names
    root = np.kron(above, np.eye(2))  # (task feature)
    sd = np.sqrt(np.diag(root @ cov @ root.T)).reshape(-1, 2).T
    assert_allclose(table["sd"], sd, atol=1e-8)
    assert_allclose(fit.coefficients(task=["d", "a"])["mean"], by_task[:, [3, 0]], atol=1e-8)
    # The draws of the posterior have these moments: 10 means and sds of 4,000 draws, 4.5 standard errors.
    draws = fit.posterior["coefficients"].transpose("chain", "draw", "feature", "task").to_numpy()[0]
    assert np.abs((draws.mean(axis=0) - by_task) / sd).max() < 4.5 / np.sqrt(4000)
    assert np.abs(draws.std(axis=0) / sd - 1.0).max() < 4.5 / np.sqrt(8000)


def test_steps_of_levels_have_maximal_evidence():
    data = on_tree()
    fit = Varying(task_kernel=TREE, **BARE).fit(data, "exact", **DRAWS)
    v = values_of(fit)
    assert list(fit.posterior["level"].to_numpy()) == ["level 0", "level 1", "level 2"]
    depth, parent, tasks = np.array(TREE.depth), np.array(TREE.parent), TREE.for_tasks(data.task_names)

    def evidence(level_sigma, noise):
        B = hierarchy(parent, level_sigma[depth])[np.ix_(tasks, tasks)]
        K = B[np.ix_(data.task, data.task)] * (data.X @ data.X.T)
        return stats.multivariate_normal(cov=K + noise**2 * np.eye(data.n_rows)).logpdf(data.y)

    best = evidence(v["level_sigma"], float(v["noise"]))
    assert log_evidence(fit) == pytest.approx(best, abs=1e-8)
    for factor in (0.9, 1.1):
        for i in range(3):
            changed = v["level_sigma"] * np.where(np.arange(3) == i, factor, 1.0)
            assert evidence(changed, float(v["noise"])) < best + 1e-4
        assert evidence(v["level_sigma"], float(v["noise"]) * factor) < best
    # The data were made with far steps at the middle level.
    assert v["level_sigma"][1] > v["level_sigma"][2]


def test_other_kernels_of_tasks():
    """A graph and a mean: with numbers by weights, with learned parameters by the plain kernel; both dense formulas."""
    data = on_tree()
    graph = GraphLaplacian(None, np.ones((5, 5)) - np.eye(5), regularisation=0.3)
    for kernel, lengthscale in (
        (graph, "fixed"),
        (graph, "learned"),
        (MeanRegularised(None, 5, lam=0.4), "learned"),
    ):
        component = Component(kernel=kernel, lengthscale=lengthscale)
        fit = Varying(task_kernel=component, **BARE).fit(data, "exact", **DRAWS)
        v = values_of(fit)
        part = fit.factory.kernel_of(fit.factory.design(data)).parts[0]
        B = zoo.kernels.evaluate.fixed_number(part._kernel(v).task_matrix())
        K = v["amplitude"] ** 2 * B[np.ix_(data.task, data.task)] * (data.X @ data.X.T)
        expected = stats.multivariate_normal(cov=K + v["noise"] ** 2 * np.eye(data.n_rows)).logpdf(data.y)
        assert log_evidence(fit) == pytest.approx(expected, abs=1e-7)


# ---------------------------------------------------------------- bad input


def test_trees_are_trees():
    with pytest.raises(ValueError, match="cycle"):
        TaskTree.from_parents({"a": "b", "b": "a", "c": "a"})
    with pytest.raises(ValueError, match="one root"):
        TaskTree.from_parents({"a": "r", "b": "s"})
    with pytest.raises(ValueError, match="cycle"):
        Tree(parent=[-1, 2, 1])
    with pytest.raises(ValueError, match="one root"):
        Tree(parent=[-1, -1, 0])
