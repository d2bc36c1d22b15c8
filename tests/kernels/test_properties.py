"""Every task kernel is a covariance: over random tasks, inputs and parameters."""

from __future__ import annotations

import hypothesis
import numpy as np
import pymc as pm
import pytest
from hypothesis import strategies as st

from zoo.kernels import (
    ICM,
    LMC,
    Clustered,
    FeatureMap,
    GraphLaplacian,
    MeanRegularised,
    TaskPrecision,
    Tree,
    kernel_diagonal,
    kernel_matrix,
)

cov = pm.gp.cov


def base_of(rng, n_features):
    choices = [None, cov.ExpQuad(n_features, ls=rng.uniform(0.1, 5.0)), cov.Constant(rng.uniform(0.1, 5.0))]
    return choices[rng.integers(len(choices))]


def mean(rng, T, D):
    return MeanRegularised(D + 1, T, 10.0 ** rng.uniform(-6, 0), base=base_of(rng, D))


def precision(rng, T, D):
    root = rng.standard_normal((T, T + 2))
    return TaskPrecision(D + 1, root @ root.T, base=base_of(rng, D))


def hard_clusters(rng, T, D):
    return Clustered(D + 1, rng.integers(0, 3, T), 10.0 ** rng.uniform(-3, 3), base=base_of(rng, D))


def soft_clusters(rng, T, D):
    return Clustered(
        D + 1, rng.gamma(0.5, size=(T, 3)) + 1e-6, 10.0 ** rng.uniform(-3, 3), base=base_of(rng, D)
    )


def graph(rng, T, D):
    A = np.triu(rng.random((T, T)) * (rng.random((T, T)) < rng.random()), 1)
    regularisation = rng.choice([0.0, 0.01, 1.0])
    return GraphLaplacian(
        D + 1, A + A.T, regularisation, normalised=bool(rng.integers(2)), base=base_of(rng, D)
    )


def tree(rng, T, D):
    parent = [-1, *(int(rng.integers(0, i)) for i in range(1, T + 2))]
    return Tree(D + 1, parent, rng.gamma(1.0, size=len(parent)), base=base_of(rng, D))


def feature_map(rng, T, D):
    B = rng.standard_normal((T, 3, D))
    if rng.integers(2):
        return FeatureMap(D + 1, B, degree=int(rng.integers(1, 4)))
    return FeatureMap(D + 1, B, kernel=cov.Matern32(3, ls=rng.uniform(0.1, 5.0)))


def coregionalised(rng, T, D):
    return LMC(
        D + 1,
        [
            ICM(D + 1, rng.standard_normal((T, 2)), rng.gamma(1.0, size=T), base=base_of(rng, D))
            for _ in range(2)
        ],
    )


FAMILIES = (mean, precision, hard_clusters, soft_clusters, graph, tree, feature_map, coregionalised)


@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.__name__)
@hypothesis.settings(max_examples=8, deadline=None, derandomize=True, database=None)
@hypothesis.given(
    seed=st.integers(0, 2**32 - 1),
    n_tasks=st.integers(1, 7),
    n_features=st.integers(1, 4),
    n_rows=st.integers(1, 25),
)
def test_positive_semi_definite(family, seed, n_tasks, n_features, n_rows):
    rng = np.random.default_rng(seed)
    kernel = family(rng, n_tasks, n_features)
    X = np.column_stack([rng.standard_normal((n_rows, n_features)), rng.integers(0, kernel.n_tasks, n_rows)])
    K = kernel_matrix(kernel, X)
    size = np.abs(K).max(initial=1e-300)
    np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-10 * size)
    assert np.linalg.eigvalsh(K)[0] > -1e-8 * n_rows * size
    np.testing.assert_allclose(kernel_diagonal(kernel, X), np.diag(K), rtol=0, atol=1e-9 * size)
