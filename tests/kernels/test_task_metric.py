"""The paper's PCA of the tasks' coefficients: what is kept, scale, bad input."""

import numpy as np
import pytest
import xarray as xr

from zoo.kernels.task_metric import pca_metric

# Tasks that differ in directions e_1 .. e_3 with variances 6, 3, 1.
SIGNS = np.array([[s, t, r, 0.0] for s in (-1, 1) for t in (-1, 1) for r in (-1, 1)]).T
U = np.sqrt([[6.0], [3.0], [1.0], [0.0]]) * SIGNS + np.arange(4.0)[:, None]


@pytest.mark.parametrize(
    ("energy", "kept"),
    [(0.5, [6]), (0.6, [6]), (0.61, [6, 3]), (0.9, [6, 3]), (0.91, [6, 3, 1]), (1.0, [6, 3, 1])],
)
def test_keeps_the_energy(energy, kept):
    expected = np.array([*kept, *[0.0] * (4 - len(kept))])
    np.testing.assert_allclose(pca_metric(U, energy), np.diag(expected * 4 / expected.sum()), atol=1e-12)


def test_whole_energy_is_the_covariance():
    W = np.random.default_rng(1).normal(size=(5, 30)) * np.arange(1.0, 6.0)[:, None]
    S = np.cov(W)
    np.testing.assert_allclose(pca_metric(W, 1.0), 5 * S / np.trace(S), atol=1e-12)
    Q = pca_metric(W, 0.9)
    values = np.linalg.eigvalsh(Q)[::-1]
    k = int((values > 1e-10).sum())
    e = np.linalg.eigvalsh(S)[::-1]
    assert e[:k].sum() >= 0.9 * e.sum() > e[: k - 1].sum() and np.trace(Q) == pytest.approx(5)
    np.testing.assert_array_equal(Q, Q.T)
    # The scale of the coefficients, and what all tasks share, do not matter.
    np.testing.assert_allclose(pca_metric(3.0 * W + 7.0, 0.9), Q, atol=1e-12)


def test_floor_makes_it_invertible():
    Q = pca_metric(U, 0.9, floor=0.1)
    values = np.linalg.eigvalsh(Q)
    # Mean eigenvalue 10 / 4: 0.25 is added to 6, 3, 0, 0.
    np.testing.assert_allclose(values, np.array([0.25, 0.25, 3.25, 6.25]) * 4 / 10, atol=1e-12)


def test_data_array():
    draws = xr.DataArray(np.stack([U + 1, U - 1])[None], dims=("chain", "draw", "feature", "task"))
    np.testing.assert_allclose(pca_metric(draws), pca_metric(U), atol=1e-12)
    np.testing.assert_allclose(pca_metric(draws.transpose("task", ...)), pca_metric(U), atol=1e-12)


@pytest.mark.parametrize(
    ("arguments", "match"),
    [
        ((U, 0.0), "energy is 0.0"),
        ((U, 1.1), "energy is 1.1"),
        ((U, 0.9, -1.0), "floor is -1.0"),
        ((U[:, :1],), "coefficients has one task"),
        ((np.ones((3, 4)),), "the same in every task"),
        ((np.full((3, 4), np.nan),), "coefficients is nan"),
        ((xr.DataArray(U, dims=("x", "task")),), "dims .*'x', 'task'"),
    ],
)
def test_bad_input(arguments, match):
    with pytest.raises(ValueError, match=match):
        pca_metric(*arguments)
