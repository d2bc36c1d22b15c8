"""Kernels that are linear in the features, as a matrix of the tasks times a metric."""

from __future__ import annotations

import numpy as np
import pytest

from tests.kernels.task_kernels import CHAIN, MAPS, Q, T, cov, evaluated
from zoo.kernels import ICM, Clustered, FeatureMap, GraphLaplacian, MeanRegularised, linear_form


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
