"""Covariances on (x, task): the contract of each, the propositions of evgeniou2005, and what is refused."""

from __future__ import annotations

import logging
import re
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr
from pytensor.graph.replace import vectorize_graph

from zoo.kernels import (
    ICM,
    LMC,
    Clustered,
    FeatureMap,
    GraphLaplacian,
    MeanRegularised,
    TaskKernel,
    TaskPrecision,
    Tree,
    describe,
    kernel_diagonal,
    kernel_matrix,
    kernel_parameters,
    linear_form,
    restore,
    with_parameters,
)
from zoo.testing import KernelTestCase

cov = pm.gp.cov
RNG = np.random.default_rng(0)
T, D = 4, 2
X = np.column_stack([RNG.standard_normal((11, D)), RNG.permutation(np.arange(11) % T)])
TASK = X[:, -1].astype(int)
Q = np.array([[2.0, 0.3], [0.3, 0.5]])
PARENT = [-1, 0, 0, 1, 1, 2, 2]
MAPS = RNG.standard_normal((T, 3, D))
WIDE_MAPS = RNG.standard_normal((T, 9, D))
PRECISION = np.eye(T) + 0.2
# Tasks 0 and 1 are neighbours, 2 and 3 are: two components.
PAIRS = np.array([[0, 1, 0, 0], [1, 0, 0, 0], [0, 0, 0, 0.4], [0, 0, 0.4, 0]])
CHAIN = np.diag([1.0, 0.3, 0.7], 1) + np.diag([1.0, 0.3, 0.7], -1)
SOFT = RNG.random((T, 3))


def loop(kernel, B, k):
    """The formula itself, pair by pair."""
    return np.array(
        [
            [B[a, b] * k(x, t) for t, b in zip(X[:, :-1], TASK, strict=True)]
            for x, a in zip(X[:, :-1], TASK, strict=True)
        ]
    )


def evaluated(value):
    return value.eval(mode="FAST_COMPILE")


# ---------------------------------------------------------------- the contract


class TestMeanRegularised(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, task_names=list("abcd"))


class TestMeanRegularisedWithMetric(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=1.0, Q=Q)


class TestMeanRegularisedWithSingularMetric(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, Q=np.ones((D, D)))


class TestMeanRegularisedWithBase(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, base=cov.Matern52(D, ls=[0.7, 1.3]) * 2.0)


class TestIntercepts(KernelTestCase):
    def make_kernel(self):
        return MeanRegularised(D + 1, T, lam=0.3, base=cov.Constant(0.5))


class TestTaskPrecision(KernelTestCase):
    def make_kernel(self):
        return TaskPrecision(D + 1, PRECISION)


class TestHardClusters(KernelTestCase):
    def make_kernel(self):
        return Clustered(D + 1, ["north", "south", "north", "west"], rho=0.7)


class TestSoftClusters(KernelTestCase):
    def make_kernel(self):
        return Clustered(D + 1, SOFT, rho=0.7)


class TestGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, CHAIN)


class TestGraphOfTwoComponents(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, PAIRS)


class TestRegularisedGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, PAIRS, regularisation=0.2)


class TestNormalisedGraph(KernelTestCase):
    def make_kernel(self):
        return GraphLaplacian(D + 1, CHAIN, normalised=True)


class TestTree(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, sigma=np.linspace(0.5, 1.5, 7), tasks="leaves")


class TestTreeByLevel(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, level_sigma=[0.3, 0.5, 1.0])


class TestTreeOfInnerNodes(KernelTestCase):
    def make_kernel(self):
        return Tree(D + 1, PARENT, sigma=0.8, tasks=[1, 3, 6])


class TestFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, WIDE_MAPS)


class TestFeatureMapOfFewFeatures(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS)


class TestPolynomialFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS, degree=3)


class TestGaussianFeatureMap(KernelTestCase):
    def make_kernel(self):
        return FeatureMap(D + 1, MAPS, kernel=cov.ExpQuad(3, ls=2.0))


class TestDomains(KernelTestCase):
    def make_kernel(self):
        return FeatureMap.from_domains([1, 3, 2], [np.ones((2, 1)), np.eye(2, 3), -np.eye(2)])


class TestICM(KernelTestCase):
    def make_kernel(self):
        return ICM(D + 1, MAPS[:, :2, 0], kappa=[0.1, 0.0, 0.3, 1.0])


class TestICMWithBase(KernelTestCase):
    def make_kernel(self):
        return ICM(D + 1, MAPS[:, 0, 0], base=cov.ExpQuad(D, ls=0.7))


class TestLMC(KernelTestCase):
    def make_kernel(self):
        rough = ICM(D + 1, MAPS[:, :1, 1], kappa=0.2, base=cov.Matern32(D, ls=0.7))
        return LMC(D + 1, [TestICMWithBase().make_kernel(), rough])


class TestActiveColumns(KernelTestCase):
    """The task stands in the second column of four."""

    def make_kernel(self):
        return MeanRegularised(4, T, lam=0.3, active_dims=[3, 0, 1])


class _Decay(TaskKernel):
    """What a user writes: tasks in a row, less alike the further apart."""

    parameters = {"rate": "positive"}

    def __init__(self, input_dim, n_tasks, rate=1.0, **arguments):
        super().__init__(input_dim, n_tasks, **arguments)
        self.rate = rate

    def task_matrix(self):
        steps = np.abs(np.subtract.outer(np.arange(self.n_tasks), np.arange(self.n_tasks)))
        return pt.exp(-self.rate * steps)


class TestOwnKernel(KernelTestCase):
    def make_kernel(self):
        return _Decay(D + 1, T, rate=0.4, base=cov.ExpQuad(D, ls=1.0))


# ---------------------------------------------------------------- formulas


def test_the_formulas_pair_by_pair():
    lam = 0.3
    same = np.eye(T)
    mean = (1 - lam) + lam * T * same
    np.testing.assert_allclose(
        kernel_matrix(MeanRegularised(3, T, lam), X), loop(0, mean, lambda x, t: x @ t)
    )
    metric = MeanRegularised(3, T, lam, Q=Q)
    np.testing.assert_allclose(kernel_matrix(metric, X), loop(0, mean, lambda x, t: x @ Q @ t))
    rbf = MeanRegularised(3, T, lam, base=cov.ExpQuad(2, ls=np.float64(0.7)))
    gauss = loop(0, mean, lambda x, t: np.exp(-np.sum((x - t) ** 2) / (2 * 0.7**2)))
    np.testing.assert_allclose(kernel_matrix(rbf, X), gauss, rtol=1e-10)
    inverse = np.linalg.inv(PRECISION)
    np.testing.assert_allclose(
        kernel_matrix(TaskPrecision(3, PRECISION), X), loop(0, inverse, lambda x, t: x @ t)
    )
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.0, 0.3, 1.0])
    rank = W @ W.T + np.diag(kappa)
    np.testing.assert_allclose(
        kernel_matrix(ICM(3, W, kappa), X), loop(0, rank, lambda x, t: x @ t), atol=1e-12
    )


@pytest.mark.parametrize("degree", [1, 2, 3])
def test_feature_maps_pair_by_pair(degree):
    z = np.einsum("npd,nd->np", MAPS[TASK], X[:, :-1])
    K = (z @ z.T) ** degree
    np.testing.assert_allclose(
        kernel_matrix(FeatureMap(3, MAPS, degree=degree), X), K, rtol=1e-10, atol=1e-12
    )


def test_gaussian_of_mapped_features():
    z = np.einsum("npd,nd->np", MAPS[TASK], X[:, :-1])
    squared = ((z[:, None] - z[None]) ** 2).sum(axis=2)
    beta = 0.3
    kernel = FeatureMap(3, MAPS, kernel=cov.ExpQuad(3, ls=np.sqrt(1 / (2 * beta))))
    np.testing.assert_allclose(kernel_matrix(kernel, X), np.exp(-beta * squared), rtol=1e-10, atol=1e-12)


def test_tasks_with_domains_of_their_own():
    maps = [RNG.standard_normal((2, d)) for d in (1, 3, 2)]
    kernel = FeatureMap.from_domains([1, 3, 2], maps)
    own = [RNG.standard_normal(d) for d in (1, 3, 2)]
    rows = []
    for task, x in enumerate(own):
        row = RNG.standard_normal(7)  # what the other domains' columns hold does not matter
        row[[0, 1, 4][task] : [1, 4, 6][task]], row[-1] = x, task
        rows.append(row)
    z = np.array([D_l @ x for D_l, x in zip(maps, own, strict=True)])
    np.testing.assert_allclose(kernel_matrix(kernel, np.array(rows)), z @ z.T, rtol=1e-10)


def test_lmc_is_the_sum_of_its_parts():
    parts = [TestICM().make_kernel(), TestICMWithBase().make_kernel()]
    both = LMC(3, parts)
    np.testing.assert_allclose(kernel_matrix(both, X), sum(kernel_matrix(p, X) for p in parts), rtol=1e-12)
    np.testing.assert_allclose(both.task_covariance(), sum(p.task_covariance().to_numpy() for p in parts))
    assert kernel_matrix(both + parts[0], X).shape == (11, 11)
    assert repr(both) == "LMC(4 tasks, 2 parts)"


def test_feature_map_task_covariance_is_the_covariance_of_the_coefficients():
    B = FeatureMap(3, MAPS).task_covariance()
    expected = np.einsum("lpd,qpd->lq", MAPS, MAPS) / D
    np.testing.assert_allclose(B, expected, rtol=1e-12)


# ---------------------------------------------------------------- evgeniou2005


def test_proposition_1_for_any_positive_definite_matrix():
    """min R(u) and min S(w) agree, square loss, with E random and B = T'E^-1."""
    rng = np.random.default_rng(5)
    dn, gamma, n = T * D, 0.3, len(X)
    root = rng.standard_normal((dn, dn + 3))
    E = root @ root.T
    B = (root.T @ np.linalg.inv(E)).reshape(dn + 3, T, D).transpose(1, 0, 2)
    y = rng.standard_normal(n)
    Z = np.zeros((n, T, D))
    Z[np.arange(n), TASK] = X[:, :-1]
    Z = Z.reshape(n, dn)
    # R(u) = |y - Zu|^2 / n + gamma u'Eu, and S by eq (15), corrected: (K + gamma n I) c = y.
    u = np.linalg.solve(Z.T @ Z / n + gamma * E, Z.T @ y / n)
    R = np.mean((y - Z @ u) ** 2) + gamma * u @ E @ u
    kernel = FeatureMap(3, B)
    K = kernel_matrix(kernel, X)
    c = np.linalg.solve(K + gamma * n * np.eye(n), y)
    S = np.mean((y - K @ c) ** 2) + gamma * c @ K @ c
    np.testing.assert_allclose(S, R, rtol=1e-8)
    np.testing.assert_allclose(K @ c, Z @ u, rtol=1e-8, atol=1e-8)
    J = kernel.regulariser()
    np.testing.assert_allclose(J.matrix.to_numpy().reshape(dn, dn), E, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(J(u.reshape(T, D).T), u @ E @ u, rtol=1e-8)


def test_mean_regularised_is_ridge_on_augmented_features():
    lam, gamma, n = 0.3, 0.2, len(X)
    y = np.random.default_rng(6).standard_normal(n)
    own = np.zeros((n, T, D))
    own[np.arange(n), TASK] = np.sqrt(lam * T) * X[:, :-1]
    Phi = np.column_stack([np.sqrt(1 - lam) * X[:, :-1], own.reshape(n, -1)])
    w = np.linalg.solve(Phi.T @ Phi + gamma * np.eye(Phi.shape[1]), Phi.T @ y)
    K = kernel_matrix(MeanRegularised(3, T, lam), X)
    np.testing.assert_allclose(K @ np.linalg.solve(K + gamma * np.eye(n), y), Phi @ w, rtol=1e-8)


@pytest.mark.parametrize("lam", [1e-4, 0.3, 1.0])
def test_regulariser_23_and_24(lam):
    u = RNG.standard_normal((D, T))
    J = MeanRegularised(3, T, lam).regulariser()
    squares, spread = np.sum(u**2), np.sum((u - u.mean(axis=1, keepdims=True)) ** 2)
    np.testing.assert_allclose(J(u), (squares + (1 - lam) / lam * spread) / T, rtol=1e-9)
    if lam < 1.0:
        # Eq (24): a minimum over u_0, where 1/(lam T) sum (u_0 - u_l) + u_0/(1 - lam) = 0.
        u0 = u.sum(axis=1) / (lam * T) / (1 / lam + 1 / (1 - lam))
        pulled = np.sum((u - u0[:, None]) ** 2) / (lam * T) + np.sum(u0**2) / (1 - lam)
        np.testing.assert_allclose(J(u), pulled, rtol=1e-9)


def test_metric_in_the_regulariser():
    u = RNG.standard_normal((D, T))
    J = MeanRegularised(3, T, 0.4, Q=Q).regulariser()
    G = MeanRegularised(3, T, 0.4).regulariser().matrix.to_numpy()
    np.testing.assert_allclose(J(u), np.sum(G * (u.T @ np.linalg.solve(Q, u))), rtol=1e-10)


@pytest.mark.parametrize("lam", [0.1, 0.5, 0.9])
def test_one_cluster_is_mean_regularised(lam):
    """The corrected constant: rho = lam T / (1 - lam), and the factor lam T between the kernels."""
    rho = lam * T / (1 - lam)
    one = Clustered(3, ["all"] * T, rho).task_covariance()
    mean = MeanRegularised(3, T, lam).task_covariance()
    np.testing.assert_allclose(lam * T * one, mean, rtol=1e-12)
    # As below eq (26): memberships 1/(lam T) and rho = 1/(1 - lam) give kernel (22) itself.
    soft = Clustered(3, np.full((T, 1), 1 / (lam * T)), 1 / (1 - lam)).task_covariance()
    np.testing.assert_allclose(soft, mean, rtol=1e-10)


def test_soft_clusters_with_whole_memberships_are_hard():
    hard = Clustered(3, [0, 1, 0, 2], 0.7).task_covariance()
    soft = Clustered(3, np.eye(3)[[0, 1, 0, 2]], 0.7).task_covariance()
    np.testing.assert_allclose(soft, hard, rtol=1e-12)
    np.testing.assert_allclose(hard, np.eye(T) + np.equal.outer([0, 1, 0, 2], [0, 1, 0, 2]) / 0.7)


def test_soft_clusters_are_the_minimum_of_eq_26():
    rho, u = 0.7, RNG.standard_normal((D, T))
    G = np.diag(SOFT.sum(axis=1)) - sum(
        np.outer(SOFT[:, k], SOFT[:, k]) / (rho + SOFT[:, k].sum()) for k in range(3)
    )
    kernel = Clustered(3, SOFT, rho)
    np.testing.assert_allclose(kernel.task_covariance(), np.linalg.inv(G), rtol=1e-10)
    centres = u @ SOFT / (SOFT.sum(axis=0) + rho)
    J = sum(
        np.sum(SOFT[:, k] * np.sum((u - centres[:, [k]]) ** 2, axis=0)) + rho * np.sum(centres[:, k] ** 2)
        for k in range(3)
    )
    np.testing.assert_allclose(kernel.regulariser()(u), J, rtol=1e-10)


def test_graph_laplacian_is_the_pseudo_inverse():
    for A in (CHAIN, PAIRS, np.zeros((T, T))):
        L = np.diag(A.sum(axis=0)) - A
        B = GraphLaplacian(3, A).task_covariance()
        np.testing.assert_allclose(B, np.linalg.pinv(L, rcond=1e-10, hermitian=True), rtol=1e-9, atol=1e-12)
        ridge = GraphLaplacian(3, A, regularisation=0.2).task_covariance()
        np.testing.assert_allclose(ridge, np.linalg.inv(L + 0.2 * np.eye(T)), rtol=1e-9, atol=1e-12)


def test_normalised_laplacian():
    A = CHAIN.copy()
    A[3], A[:, 3] = 0.0, 0.0  # the last task has no neighbour
    degree = A.sum(axis=0)
    inverse = np.where(degree > 0, 1 / np.sqrt(np.where(degree > 0, degree, 1.0)), 0.0)
    L = np.outer(inverse, inverse) * (np.diag(degree) - A)
    kernel = GraphLaplacian(3, A, normalised=True)
    np.testing.assert_allclose(
        kernel.task_covariance(), np.linalg.pinv(L, rcond=1e-10, hermitian=True), rtol=1e-9, atol=1e-12
    )


def test_two_components_are_independent_blocks(caplog):
    with caplog.at_level(logging.INFO, logger="zoo"):
        kernel = GraphLaplacian(3, PAIRS)
    assert kernel.n_components == 2
    assert "2 connected components" in caplog.text
    assert "regularisation" in caplog.text
    K = kernel_matrix(kernel, X)
    apart = (TASK[:, None] < 2) != (TASK < 2)
    assert np.all(K[apart] == 0.0)
    # Functions sum to 0 over a component: the kernel of the pair alone.
    np.testing.assert_allclose(kernel.task_covariance()[:2, :2], [[0.25, -0.25], [-0.25, 0.25]], atol=1e-14)
    J = kernel.regulariser()
    assert J(np.ones((D, T))) == np.inf
    u = RNG.standard_normal((D, T))
    u -= (u @ (PAIRS > 0) + u) / 2
    np.testing.assert_allclose(
        J(u), np.sum((u[:, 0] - u[:, 1]) ** 2) + 0.4 * np.sum((u[:, 2] - u[:, 3]) ** 2)
    )
    caplog.clear()
    with caplog.at_level(logging.INFO, logger="zoo"):
        alone = GraphLaplacian(3, np.zeros((2, 2)))
        GraphLaplacian(3, PAIRS, regularisation=0.1)
        GraphLaplacian(3, CHAIN)
    assert caplog.text.count("components") == 1
    assert "Task 'task 0' has no neighbour" in caplog.text
    assert not alone.task_covariance().any()


def test_graph_of_an_object():
    names = ["a", "b", "c", "d"]
    graph = SimpleNamespace(adjacency=xr.DataArray(CHAIN + np.eye(T)), task_names=names)
    kernel = GraphLaplacian(3, graph)
    assert kernel.task_names == ("a", "b", "c", "d")
    assert describe(kernel) == describe(GraphLaplacian(3, CHAIN, task_names=names))


def test_gradient_in_the_weights_of_edges():
    """Differentiable where the smallest eigenvalue is repeated, as in PAIRS, given the support."""
    for A, support in ((CHAIN, None), (PAIRS, PAIRS > 0)):
        edges = np.argwhere(np.triu(A) > 0)
        w = pt.vector("w")
        adjacency = pt.zeros((T, T))[edges[:, 0], edges[:, 1]].set(w)
        kernel = GraphLaplacian(3, adjacency + adjacency.T, support=support, n_tasks=T)
        assert kernel.n_components == (1 if support is None else 2)
        total = pt.sum(kernel(X) * RNG.standard_normal((11, 11)))
        function = pytensor.function([w], [total, pt.grad(total, w)], mode="FAST_COMPILE")
        value = A[edges[:, 0], edges[:, 1]]
        slope = function(value)[1]
        for i in range(len(value)):
            step = 1e-6 * np.eye(len(value))[i]
            found = (function(value + step)[0] - function(value - step)[0]) / 2e-6
            np.testing.assert_allclose(slope[i], found, rtol=1e-6, atol=1e-6)
        K = pytensor.function([w], kernel(X), mode="FAST_COMPILE")(value)
        np.testing.assert_allclose(K, kernel_matrix(GraphLaplacian(3, A), X), rtol=1e-10, atol=1e-12)


# ---------------------------------------------------------------- trees


def test_without_input_dim_any_number_of_features_is_taken():
    adjacency = np.ones((3, 3)) - np.eye(3)
    kernels = [
        GraphLaplacian(adjacency=adjacency, regularisation=0.5),
        Tree(parent=[-1, 0, 0], sigma=1.0),
        MeanRegularised(n_tasks=3, lam=0.4),
        Clustered(clusters=[0, 0, 1]),
        ICM(W=np.ones((3, 1))),
        TaskPrecision(precision=np.eye(3)),
    ]
    for kernel in kernels:
        B = kernel.task_covariance().to_numpy()
        for width in (1, 4):
            x, task = RNG.random((5, width)), RNG.integers(0, 3, 5)
            K = kernel_matrix(kernel, np.column_stack([x, task]))
            np.testing.assert_allclose(K, B[np.ix_(task, task)] * (x @ x.T), rtol=1e-12)
        assert describe(restore(describe(kernel))) == describe(kernel)
    based = Tree(parent=[-1, 0, 0], base=cov.ExpQuad(2, ls=1.0))
    assert based.input_dim == 3
    assert (kernels[0] + GraphLaplacian(adjacency=adjacency)).input_dim == kernels[0].input_dim
    with pytest.raises(TypeError, match="adjacency is missing"):
        GraphLaplacian(3)


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


# ---------------------------------------------------------------- other libraries


def test_pymc_coregion_is_icm():
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.2, 0.3, 1.0])
    theirs = cov.Coregion(3, W=W, kappa=kappa, active_dims=[2]) * cov.ExpQuad(3, ls=0.7, active_dims=[0, 1])
    ours = ICM(3, W, kappa, base=cov.ExpQuad(2, ls=0.7))
    np.testing.assert_allclose(kernel_matrix(ours, X), kernel_matrix(theirs, X), rtol=1e-12)


@pytest.mark.filterwarnings("default")  # of PyTorch about its sparse tensors
def test_gpytorch():
    gpytorch = pytest.importorskip("gpytorch")
    torch = pytest.importorskip("torch")
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.2, 0.3, 1.0])
    index = gpytorch.kernels.IndexKernel(num_tasks=T, rank=2).double()
    index.covar_factor.data = torch.tensor(W)
    index.var = torch.tensor(kappa)
    theirs = index(torch.tensor(TASK)[:, None]).to_dense().detach().numpy()
    x = X[:, :-1]
    np.testing.assert_allclose(kernel_matrix(ICM(3, W, kappa), X), theirs * (x @ x.T), rtol=1e-6, atol=1e-8)
    multi = gpytorch.kernels.MultitaskKernel(gpytorch.kernels.RBFKernel(), num_tasks=T, rank=2).double()
    multi.data_covar_module.lengthscale = 0.7
    multi.task_covar_module.covar_factor.data = torch.tensor(W)
    multi.task_covar_module.var = torch.tensor(kappa)
    theirs = multi(torch.tensor(x)).to_dense().detach().numpy()
    every = np.column_stack([np.repeat(x, T, axis=0), np.tile(np.arange(T), len(x))])
    ours = kernel_matrix(ICM(3, W, kappa, base=cov.ExpQuad(2, ls=0.7)), every)
    np.testing.assert_allclose(ours, theirs, rtol=1e-6, atol=1e-8)


# ---------------------------------------------------------------- in PyMC


def test_hand_written_model_with_a_random_parameter():
    y = RNG.standard_normal(11)
    with pm.Model() as model:
        lam = pm.Beta("lam", 2.0, 2.0)
        rho = pm.Gamma("rho", 2.0, 1.0)
        kernel = MeanRegularised(3, T, lam) + Clustered(3, [0, 0, 1, 1], rho, base=cov.ExpQuad(2, ls=1.0))
        gp = pm.gp.Marginal(cov_func=kernel)
        gp.marginal_likelihood("y", X=pm.Data("X", X), y=y, sigma=0.3)
    point = model.initial_point()
    assert np.isfinite(model.compile_logp(mode="FAST_COMPILE")(point))
    assert np.all(np.isfinite(model.compile_dlogp(mode="FAST_COMPILE")(point)))
    with model:
        f = gp.conditional("f", X[:3])
    assert np.all(np.isfinite(pm.draw(f, mode="FAST_COMPILE", random_seed=1)))


def test_default_backend_never_reads_beyond_the_matrix():
    """Compiled by Numba, which checks no index: a wrong task raises and is not read."""
    inputs = pt.matrix("inputs")
    kernel = MeanRegularised(3, T, 0.3)
    function = pytensor.function([inputs], kernel(inputs))
    np.testing.assert_allclose(function(X), kernel_matrix(kernel, X), rtol=1e-12)
    for wrong in (-1.0, 4.0, 1e9, -1e9, 0.5, np.nan, np.inf):
        bad = X.copy()
        bad[3, 2] = wrong
        with pytest.raises(ValueError, match=r"does not have\. Give whole numbers 0 \.\. 3"):
            function(bad)
    with pytest.raises(ValueError, match="has not the 3 or 4 columns"):
        function(np.zeros((2, 2)))


def test_shared_inputs_are_checked_now_and_when_they_change():
    kernel = MeanRegularised(3, T, 0.3)
    with pm.Model():
        data = pm.Data("X", X)
        bad = pm.Data("bad", X + 0.5)
    with pytest.raises(ValueError, match=r"X has task \d\.5 in row 0"):
        kernel(bad)
    function = pytensor.function([], kernel(data), mode="FAST_COMPILE")
    np.testing.assert_allclose(function(), kernel_matrix(kernel, X), rtol=1e-12)
    data.set_value(X + 1)
    with pytest.raises(ValueError, match="has a task that the kernel MeanRegularised does not have"):
        function()


def test_graphs_of_known_inputs_hold_no_check():
    K = MeanRegularised(3, T, 0.3)(pt.as_tensor_variable(X))
    ops = {
        type(node.op).__name__ for node in pytensor.graph.FunctionGraph(outputs=[K], clone=True).apply_nodes
    }
    assert "CheckAndRaise" not in ops


def test_it_vectorizes_over_inputs():
    inputs, batch = pt.matrix("inputs"), pt.tensor3("batch")
    K = vectorize_graph(MeanRegularised(3, T, 0.3)(inputs), {inputs: batch})
    found = pytensor.function([batch], K, mode="FAST_COMPILE")(np.stack([X, X[::-1]]))
    expected = kernel_matrix(MeanRegularised(3, T, 0.3), X)
    np.testing.assert_allclose(found, [expected, expected[::-1, ::-1]], rtol=1e-12)


def test_input_dim_may_count_the_features():
    counted = MeanRegularised(2, T, 0.3)
    expected = kernel_matrix(MeanRegularised(3, T, 0.3), X)
    assert np.array_equal(kernel_matrix(counted, X), expected)
    assert np.array_equal(evaluated(counted(X.astype(object).astype(float).tolist())), expected)
    base = MeanRegularised(2, T, 0.3, base=cov.ExpQuad(2, ls=1.0))
    assert kernel_matrix(base, X).shape == (11, 11)
    with pytest.raises(ValueError, match="X has 2 columns, and the kernel MeanRegularised takes 3"):
        base(X[:, 1:])
    with pytest.raises(ValueError, match=r"X has 5 columns, and the kernel MeanRegularised takes 2 or 3\."):
        counted(np.zeros((3, 5)))
    with pytest.raises(ValueError, match=r"X has 1 dimension\(s\)"):
        counted(X[0])


def test_white_noise_as_a_base_belongs_to_the_inputs():
    kernel = MeanRegularised(3, T, 0.5, base=cov.WhiteNoise(2.0))
    np.testing.assert_allclose(kernel_matrix(kernel, X), 4.0 * 2.5 * np.eye(11))
    assert not kernel_matrix(kernel, X, X).any()
    np.testing.assert_allclose(kernel_diagonal(kernel, X), 10.0)


# ---------------------------------------------------------------- parameters and descriptions


def test_parameters_are_listed_and_replaced():
    rough = ICM(3, MAPS[:, 0, 0], base=cov.Matern32(2, ls=[1.0, 2.0]))
    smooth = MeanRegularised(3, T, 0.3, base=cov.RatQuad(2, alpha=0.7, ls=3.0))
    kernel = 0.5 * rough + 2.0 * smooth + cov.WhiteNoise(0.1) + GraphLaplacian(3, CHAIN) + 1.5
    description = describe(kernel)
    found = kernel_parameters(description)
    kinds = {name: parameter.kind for name, parameter in found.items()}
    assert kinds == {
        "scale_1": "positive",
        "W": "real",
        "ls_1": "positive",
        "scale_2": "positive",
        "lam": "unit",
        "alpha": "positive",
        "ls_2": "positive",
        "sigma": "positive",
        "c": "positive",
    }
    assert found["lam"].value == 0.3
    assert np.array_equal(found["ls_1"].value, [1.0, 2.0])
    assert "adjacency" in kernel_parameters(description, fixed=True)
    changed = with_parameters(description, {"lam": 0.6, "scale_2": 7.0, "ls_2": 1.1})
    expected = describe(
        0.5 * rough
        + 7.0 * MeanRegularised(3, T, 0.6, base=cov.RatQuad(2, alpha=0.7, ls=1.1))
        + cov.WhiteNoise(0.1)
        + GraphLaplacian(3, CHAIN)
        + 1.5
    )
    assert describe(changed) == expected
    with pytest.raises(ValueError, match="values: 'ls' is unknown"):
        with_parameters(description, {"ls": 1.0})


def test_replaced_parameters_are_double_and_may_be_random():
    description = describe(MeanRegularised(3, T, 0.5, base=cov.ExpQuad(2, ls=3.0)))
    squared = ((X[:, None, :-1] - X[None, :, :-1]) ** 2).sum(axis=2)
    expected = (0.5 + 2.0 * np.equal.outer(TASK, TASK)) * np.exp(-squared / 18.0)
    # Of ls=3.0 PyTensor makes single precision, good for seven digits.
    np.testing.assert_allclose(kernel_matrix(with_parameters(description, {}), X), expected, rtol=1e-13)
    lam = pt.scalar("lam")
    kernel = with_parameters(description, {"lam": lam})
    assert kernel.lam is lam
    with pytest.raises(TypeError, match="lam is random or symbolic"):
        describe(kernel)
    with pytest.raises(TypeError, match="MeanRegularised has a parameter that is random or symbolic"):
        kernel.task_covariance()
    graph = describe(GraphLaplacian(3, CHAIN))
    A = pt.matrix("A", shape=(T, T))
    assert with_parameters(graph, {"adjacency": A}).adjacency is A


def test_equal_kernels_have_equal_descriptions():
    assert describe(Clustered(3, ["b", "a", "b"])) == describe(Clustered(3, [7, 1, 7], rho=1))
    assert describe(MeanRegularised(3, T, 0.3, active_dims=[0, 1, 2])) == describe(MeanRegularised(3, T, 0.3))
    assert describe(Tree(3, PARENT)) == describe(Tree(3, np.array(PARENT, dtype=float), sigma=1.0))
    assert describe(MeanRegularised(3, T, 0.3)) != describe(MeanRegularised(3, T, 0.4))
    assert describe(ICM(3, [1.0, 2.0])) == ("ICM", ("input_dim", 3), ("W", (1.0, 2.0)))


def test_a_class_of_the_same_name_is_refused():
    def define():
        class Twin(TaskKernel):
            def task_matrix(self):
                return pt.eye(self.n_tasks)

        return Twin

    first, second = define(), define()
    assert type(restore(describe(second(3, T)))) is second
    with pytest.raises(TypeError, match="another class has that name"):
        describe(first(3, T))
    impostor = type("Tree", (TaskKernel,), {"task_matrix": lambda self: pt.eye(self.n_tasks)})
    with pytest.raises(TypeError, match="another class has that name"):
        describe(impostor(3, T))
    assert type(restore(describe(Tree(3, PARENT)))) is Tree


@pytest.mark.parametrize(
    "description",
    [
        ("MeanRegularised", ("input_dim", 3), ("n_tasks", 2), ("theta", 1.0)),
        ("MeanRegularised", ("input_dim", 3), ("n_tasks", 2), ("lam", 2.0)),
        ("MeanRegularised", ("input_dim", 3)),
        ("Unheard", ("input_dim", 3)),
    ],
)
def test_wrong_descriptions(description):
    with pytest.raises(ValueError, match=r"describes no covariance .*zoo\.kernels\.describe"):
        restore(description)


# ---------------------------------------------------------------- linear forms


def test_linear_forms_of_sums_and_multiples():
    graph, mean = GraphLaplacian(3, CHAIN), MeanRegularised(3, T, 0.3)
    clusters = Clustered(3, [0, 0, 1, 1], 0.5)
    form = linear_form(2.0 * mean + cov.Constant(3.0) * clusters * 0.5, 2)
    B = 2.0 * mean.task_covariance() + 1.5 * clusters.task_covariance()
    np.testing.assert_allclose(evaluated(form.task_matrix), B, rtol=1e-6)
    d, W = (evaluated(part) for part in form.loadings)
    assert W.shape == (T, 3)
    np.testing.assert_allclose(np.diag(d) + W @ W.T, B, rtol=1e-6)
    assert linear_form(graph + mean, 2).loadings is None
    shared = MeanRegularised(3, T, 0.3, Q=Q) + ICM(3, MAPS[:, 0, 0], Q=Q.copy())
    assert np.array_equal(evaluated(linear_form(shared, 2).Q), Q)
    assert linear_form(mean + MeanRegularised(3, T, 0.3, Q=Q), 2) is None
    assert linear_form(MeanRegularised(3, T, 0.3, Q=2 * Q) + MeanRegularised(3, T, 0.3, Q=Q), 2) is None


def test_pymc_coregion_of_a_linear_kernel_is_linear():
    W, kappa = MAPS[:, :2, 0], np.array([0.1, 0.2, 0.3, 1.0])
    coregion = cov.Coregion(3, W=W, kappa=kappa, active_dims=[2])
    form = linear_form(2.0 * cov.Linear(3, c=0.0, active_dims=[0, 1]) * coregion, 2)
    np.testing.assert_allclose(evaluated(form.task_matrix), 2 * (W @ W.T + np.diag(kappa)), rtol=1e-7)
    assert form.loadings[1].eval(mode="FAST_COMPILE").shape == (T, 2)
    assert linear_form(cov.Linear(3, c=1.0, active_dims=[0, 1]) * coregion, 2) is None


@pytest.mark.parametrize(
    "kernel",
    [
        MeanRegularised(3, T, base=cov.ExpQuad(2, ls=1.0)),
        FeatureMap(3, MAPS),
        MeanRegularised(3, T) * MeanRegularised(3, T),
        MeanRegularised(3, T) + cov.Constant(1.0),
        MeanRegularised(3, T) + 2.0,
        MeanRegularised(3, T) * np.ones((11, 11)),
        MeanRegularised(4, T, active_dims=[0, 1, 3]),
        cov.ExpQuad(3, ls=1.0),
        cov.Constant(1.0),
    ],
    ids=lambda kernel: type(kernel).__name__,
)
def test_no_linear_form(kernel):
    assert linear_form(kernel, 3 if getattr(kernel, "input_dim", 3) == 4 else 2) is None


# ---------------------------------------------------------------- the page


def test_the_page_runs_and_every_picture_is_there():
    docs = Path(__file__).resolve().parents[2] / "docs"
    page = (docs / "kernels.md").read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in re.findall(r"^```python\n(.*?)^```$", page, re.DOTALL | re.MULTILINE):
        if "pm.sample(" not in block:
            exec(compile(block, "kernels.md", "exec", dont_inherit=True), namespace)
    pictures = re.findall(r"\]\(kernels/(\w+)\.png\)", page)
    assert len(pictures) == 11
    for name in pictures:
        assert namespace[name].n_tasks == 6
        assert (docs / "kernels" / f"{name}.png").is_file()
    case = namespace["TestInARow"]()
    for name in [name for name in dir(case) if name.startswith("test_")]:
        if "pickle" not in name:  # classes of no module have no pickles
            getattr(case, name)()


# ---------------------------------------------------------------- the rest


def test_regulariser_object():
    J = MeanRegularised(3, T, 0.3, task_names=list("abcd")).regulariser()
    assert J.matrix.coords["task"].to_numpy().tolist() == list("abcd")
    assert "eq 23, corrected" in repr(J)
    with pytest.raises(ValueError, match=r"coefficients has shape \(4, 2\)\. Give \(D, T\) = \(D, 4\)"):
        J(np.ones((T, D)))
    curved = MeanRegularised(3, T, 0.3, base=cov.ExpQuad(2, ls=1.0)).regulariser()
    with pytest.raises(TypeError, match="not linear in x"):
        curved(np.ones((D, T)))
    singular = MeanRegularised(3, T, 0.3, Q=np.ones((2, 2))).regulariser()
    assert singular(np.array([[1.0] * T, [-1.0] * T])) == np.inf
    np.testing.assert_allclose(singular(np.ones((2, T))), 1.0, rtol=1e-10)
    maps = FeatureMap(3, np.stack([MAPS[0]] * T)).regulariser()  # all tasks are the same task
    assert maps(RNG.standard_normal((D, T))) == np.inf
    assert np.isfinite(maps(np.ones((D, T))))
    with pytest.raises(ValueError, match=r"\(2, 4\)"):
        maps(np.ones((T, D)))


def test_repr():
    assert repr(MeanRegularised(3, T, 0.25)) == "MeanRegularised(4 tasks, lam=0.25)"
    assert repr(Tree(3, PARENT)) == "Tree(7 tasks, sigma=1)"
    assert repr(ICM(3, pt.matrix("W", shape=(T, 2)), kappa=pt.scalar())) == "ICM(4 tasks)"


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: MeanRegularised(3, T, 0.0),
            r"lam is 0\. Give a number above 0 and at most 1: .*one function",
        ),
        (lambda: MeanRegularised(3, T, 1.1), r"lam is 1\.1"),
        (lambda: MeanRegularised(3, T, np.nan), r"lam is nan"),
        (lambda: MeanRegularised(3, T, [0.1, 0.2]), r"lam has 1 dimension"),
        (lambda: MeanRegularised(3, 0), r"n_tasks is 0"),
        (lambda: MeanRegularised(3, T, task_names=["a"]), r"task_names has 1 name for 4 tasks"),
        (lambda: MeanRegularised(3, T, task_names=["a", "b", "a", "c"]), r"task_names holds 'a' twice"),
        (lambda: MeanRegularised(3, T, Q=[[1, 2], [0, 1]]), r"Q is not symmetric: 2 and 0 between 0 and 1"),
        (lambda: MeanRegularised(3, T, Q=[[1, 2], [2, 1]]), r"Q is not positive semi-definite"),
        (lambda: MeanRegularised(3, T, Q=np.eye(4)), r"Q is of 4 features, and the inputs have 2"),
        (lambda: MeanRegularised(3, T, Q=np.eye(2), base=cov.Constant(1.0)), r"Q is of the linear kernel"),
        (lambda: MeanRegularised(3, T, base=cov.ExpQuad(5, ls=1.0)), r"base is of 5 features"),
        (lambda: TaskPrecision(3, [[1, 2], [2, 1]]), r"precision is not positive definite"),
        (lambda: TaskPrecision(3, np.ones((2, 2))), r"precision is not positive definite"),
        (lambda: TaskPrecision(3, np.ones((2, 3))), r"precision has shape \(2, 3\)\. Give a square"),
        (lambda: TaskPrecision(3, [1.0, 2.0]), r"precision has 1 dimension"),
        (lambda: TaskPrecision(3, pt.matrix()), r"precision is a tensor of unknown length\. Say n_tasks"),
        (lambda: Clustered(3, [0, 1], rho=0.0), r"rho is 0\.0\. Give a finite number above 0"),
        (
            lambda: Clustered(3, [[1, 0], [0, 0]], task_names=["a", "b"]),
            r"gives task 'b' no membership above 0",
        ),
        (lambda: Clustered(3, [[1, 0], [0, -1]]), r"clusters\[1, 1\] is -1\.0"),
        (lambda: Clustered(3, ["a", None]), r"clusters is empty or leaves a task without a label"),
        (lambda: Clustered(3, np.zeros((2, 2, 2))), r"clusters has 3 dimension"),
        (lambda: Clustered(3, [0, 1], n_tasks=3), r"clusters is of 2 tasks and n_tasks is 3"),
        (
            lambda: GraphLaplacian(3, [[0, 1], [0.5, 0]], task_names=["a", "b"]),
            r"1 and 0\.5 between 'a' and 'b'",
        ),
        (lambda: GraphLaplacian(3, [[0, 2], [2, 0]]), r"adjacency is 2 between 'task 0' and 'task 1'"),
        (lambda: GraphLaplacian(3, [[0, -1], [-1, 0]]), r"adjacency is -1 between .* divide by the largest"),
        (lambda: GraphLaplacian(3, PAIRS, regularisation=-1.0), r"regularisation is -1\.0"),
        (lambda: GraphLaplacian(3, PAIRS, support=[[1]]), r"support is not a symmetric \(4, 4\)"),
        (lambda: GraphLaplacian(3, [["a"]]), r"adjacency is \[\['a'\]\]\. Give numbers"),
        (lambda: Tree(3, [1, 2, 0]), r"parent leads from node 0 back to it"),
        (lambda: Tree(3, [-1, 2, 1]), r"parent leads from node 1 back to it"),
        (lambda: Tree(3, [-1, -1, 0]), r"parent is -1 for node 0 and for node 1"),
        (lambda: Tree(3, [-1, 0, 7]), r"parent of node 2 is 7, outside 0 \.\. 2"),
        (lambda: Tree(3, [-1, 0, -2]), r"parent of node 2 is -2"),
        (lambda: Tree(3, [-1, 0.5]), r"parent is \[-1, 0\.5\]"),
        (lambda: Tree(3, PARENT, sigma=[1.0, 2.0]), r"sigma has 2 entries, and the tree 7 nodes"),
        (
            lambda: Tree(3, PARENT, level_sigma=[1.0, 2.0]),
            r"level_sigma has 2 entries, and the tree 3 levels",
        ),
        (lambda: Tree(3, PARENT, sigma=-1.0), r"sigma is -1\.0"),
        (lambda: Tree(3, PARENT, sigma=1.0, level_sigma=[1, 1, 1]), r"sigma and level_sigma are both given"),
        (lambda: Tree(3, PARENT, tasks=[3, 9]), r"tasks holds node 9, outside 0 \.\. 6"),
        (lambda: Tree(3, PARENT, tasks=[3, 3]), r"tasks holds node 3 twice"),
        (lambda: Tree(3, PARENT, tasks=[]), r"tasks is \[\]"),
        (lambda: FeatureMap(3, np.ones((2, 3))), r"B has 2 dimension"),
        (lambda: FeatureMap(3, np.ones((2, 3, 5))), r"B is of 5 features, and the inputs have 2"),
        (lambda: FeatureMap(3, MAPS, degree=0), r"degree is 0"),
        (
            lambda: FeatureMap(3, MAPS, degree=2, kernel=cov.ExpQuad(3, ls=1.0)),
            r"degree is of the polynomial",
        ),
        (
            lambda: FeatureMap(3, MAPS, kernel=cov.ExpQuad(2, ls=1.0)),
            r"kernel has input_dim 2, and B maps to 3",
        ),
        (
            lambda: FeatureMap.from_domains([1, 2], [np.ones((2, 1))]),
            r"maps has 1 matrices, and dims 2 tasks",
        ),
        (lambda: FeatureMap.from_domains([1, 2], [np.ones((2, 1))] * 2), r"maps\[1\] has shape \(2, 1\)"),
        (lambda: ICM(3, MAPS[:, 0], kappa=[1.0]), r"kappa has 1 entry, and W 4 rows"),
        (lambda: ICM(3, MAPS[:, 0], kappa=-1.0), r"kappa is -1\.0"),
        (lambda: LMC(3, []), r"parts is empty"),
        (lambda: LMC(4, [ICM(3, [1.0, 2.0])]), r"parts\[0\] has input_dim 3, not 4"),
        (lambda: LMC(3, [ICM(3, [1.0, 2.0]), ICM(3, [1.0])]), r"parts\[1\] has other tasks"),
    ],
)
def test_bad_arguments(make, message):
    with pytest.raises((ValueError, TypeError), match=message):
        make()


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: MeanRegularised(3, T, "much"), r"lam is 'much'\. Give numbers"),
        (lambda: MeanRegularised(3, T, base="rbf"), r"base is a str"),
        (lambda: FeatureMap(3, MAPS, kernel=2.0), r"kernel is a float"),
        (lambda: LMC(3, [cov.ExpQuad(3, ls=1.0)]), r"parts\[0\] is a ExpQuad"),
        (lambda: FeatureMap(3, MAPS, degree=2).regulariser(), r"Use degree=1"),
        (lambda: FeatureMap(3, pt.tensor3(), n_tasks=2).regulariser(), r"B is random"),
        (lambda: MeanRegularised(3, T, Q=pt.matrix()).regulariser(), r"Q is random"),
    ],
)
def test_wrong_types(make, message):
    with pytest.raises(TypeError, match=message):
        make()


def test_bad_inputs():
    from scipy.sparse import csr_matrix

    kernel = MeanRegularised(3, T, 0.3)
    with pytest.raises(ValueError, match=r"X is sparse.*toarray"):
        kernel(csr_matrix(X))
    with pytest.raises(ValueError, match="X has task 4 in row 0, and the kernel MeanRegularised has 4 tasks"):
        kernel(X, np.array([[0.0, 0.0, 4.0]]))
    with pytest.raises(NotImplementedError, match="Override task_matrix"):
        TaskKernel(3, T).task_matrix()


class TwiceTheMean(MeanRegularised):
    """A subclass that says its matrix alone."""

    def task_matrix(self):
        return 2.0 * super().task_matrix()


@pytest.mark.parametrize("cls", [MeanRegularised, TwiceTheMean])
def test_entries_are_those_of_the_matrix(cls):
    kernel = cls(D, T, lam=0.3)
    B, X = kernel.task_matrix().eval(), np.column_stack([RNG.standard_normal((7, D)), RNG.integers(0, T, 7)])
    Y = np.column_stack([RNG.standard_normal((5, D)), RNG.integers(0, T, 5)])
    for given in (X, Y):
        entries = B[np.ix_(X[:, -1].astype(int), given[:, -1].astype(int))]
        np.testing.assert_allclose(
            kernel_matrix(kernel, X, given), entries * (X[:, :-1] @ given[:, :-1].T), rtol=1e-12
        )
    own = B.diagonal()[X[:, -1].astype(int)]
    np.testing.assert_allclose(kernel_diagonal(kernel, X), own * np.sum(X[:, :-1] ** 2, axis=1), rtol=1e-12)


def test_a_kernel_of_many_tasks_makes_no_matrix_of_them(monkeypatch):
    kernel = MeanRegularised(D, 100_000, lam=0.3)  # whose matrix would take 80 GB
    X = np.array([[1.0, 2.0, 99_999.0], [1.0, 0.0, 3.0]])
    np.testing.assert_allclose(kernel_matrix(kernel, X), [[5.0 * 30_000.7, 0.7], [0.7, 30_000.7]])
