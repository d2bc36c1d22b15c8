"""Propositions of evgeniou2005: which penalty of the coefficients is equivalent to a kernel."""

from __future__ import annotations

import logging
from types import SimpleNamespace

import numpy as np
import pytensor
import pytensor.tensor as pt
import pytest
import xarray as xr

from tests.kernels.task_kernels import CHAIN, MAPS, PAIRS, SOFT, TASK, D, Q, T, X, cov
from zoo.kernels import Clustered, FeatureMap, GraphLaplacian, MeanRegularised, describe, kernel_matrix

RNG = np.random.default_rng(9)

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
