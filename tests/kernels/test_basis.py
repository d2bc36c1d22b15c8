"""Features of a kernel at the data: they reproduce it, also where it is singular."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.sparse import csr_matrix, random_array, vstack

from zoo.kernels import Basis, basis, kernel_diagonal, kernel_matrix

cov = pm.gp.cov
RNG = np.random.default_rng(3)
X = RNG.standard_normal((30, 3))
NEW = RNG.standard_normal((6, 3))
KERNELS = {
    "linear": cov.Linear(3, c=0.0),  # rank 3 of 30
    "squared_exponential": cov.ExpQuad(3, ls=1.0),
    "smooth": cov.ExpQuad(3, ls=20.0),  # singular to rounding
    "noisy": cov.Matern52(3, ls=1.0) + cov.WhiteNoise(0.1),
}


@pytest.mark.parametrize("name", sorted(KERNELS))
def test_features_reproduce_the_kernel(name):
    k = KERNELS[name]
    made = Basis.of(k, X)
    kappa = kernel_matrix(k, X)
    size = np.abs(kappa).max()
    np.testing.assert_allclose(made.values @ made.values.T, kappa, atol=1e-8 * size)
    pseudo_inverse = made.half_inverse @ made.half_inverse.T
    np.testing.assert_allclose(kappa @ pseudo_inverse @ kappa, kappa, atol=1e-8 * size)
    if name != "noisy":
        np.testing.assert_allclose(made.features(X), made.values, atol=1e-8 * np.sqrt(size))
        assert made.residual(X).max() < 1e-8 * size
    assert made.values.shape == (30, made.rank)
    assert np.all(np.diff(made.eigenvalues) <= 0.0)


def test_features_at_new_inputs_are_the_formula():
    k = KERNELS["squared_exponential"]
    made = Basis.of(k, X)
    cross, kappa = kernel_matrix(k, NEW, X), kernel_matrix(k, X)
    explained = cross @ np.linalg.solve(kappa, cross.T)
    np.testing.assert_allclose(made.features(NEW) @ made.features(NEW).T, explained, atol=1e-8)
    np.testing.assert_allclose(made.residual(NEW), kernel_diagonal(k, NEW) - np.diag(explained), atol=1e-8)


def test_rank_is_that_of_the_kernel():
    assert Basis.of(KERNELS["linear"], X).rank == 3
    made = Basis.of(KERNELS["linear"], X)
    np.testing.assert_allclose(made.residual(NEW), 0.0, atol=1e-12)  # three features span the plane
    assert Basis.of(KERNELS["smooth"], X).rank < 30
    assert Basis.of(KERNELS["smooth"], X, tolerance=1e-3).rank < Basis.of(KERNELS["smooth"], X).rank
    assert repr(made) == "Basis(Linear, 30 distinct inputs, rank 3)"


def test_duplicates_are_kept_once_in_order():
    given = X[[4, 2, 4, 0, 2, 4]]
    made = Basis.of(KERNELS["squared_exponential"], given)
    assert np.array_equal(made.inputs, X[[4, 2, 0]])
    assert made.position.tolist() == [0, 1, 0, 2, 1, 0]
    expected = kernel_matrix(KERNELS["squared_exponential"], given)
    np.testing.assert_allclose(made.values @ made.values.T, expected, atol=1e-10)
    zeros = Basis.of(KERNELS["squared_exponential"], [[0.0, 1.0, 0.0], [-0.0, 1.0, 0.0]])
    assert zeros.inputs.shape == (1, 3)


def test_sparse_equals_dense():
    once = csr_matrix(random_array((9, 20), density=0.3, rng=1))
    given = vstack([once, once[[3, 3, 7]]], format="csr")
    new = csr_matrix(random_array((4, 20), density=0.3, rng=2))
    k = cov.ExpQuad(20, ls=1.0)
    one, two = Basis.of(k, given), Basis.of(k, given.toarray())
    assert one.inputs.shape == (9, 20)
    assert np.array_equal(one.inputs.toarray(), two.inputs)
    assert np.array_equal(one.position, two.position)
    np.testing.assert_allclose(one.values, two.values, atol=1e-12)
    np.testing.assert_allclose(one.features(new), two.features(new.toarray()), atol=1e-12)
    np.testing.assert_allclose(one.residual(new), two.residual(new.toarray()), atol=1e-12)


def test_signs_are_fixed():
    half = Basis.of(KERNELS["squared_exponential"], X).half_inverse
    assert np.all(half[np.abs(half).argmax(axis=0), np.arange(half.shape[1])] > 0.0)


class _Negative(cov.Covariance):
    def full(self, X, Xs=None):
        other = X if Xs is None else Xs
        return pt.exp(0.5 * ((X[:, None] - other[None]) ** 2).sum(axis=-1))


class _Lopsided(cov.Covariance):
    def full(self, X, Xs=None):
        return X[:, :1] + 2.0 * (X if Xs is None else Xs)[:, :1].T


@pytest.mark.parametrize(
    ("kernel", "message"),
    [
        (_Negative(3), r"not positive semi-definite at the data: smallest eigenvalue -\d"),
        (_Lopsided(3), "not symmetric"),
        (cov.Linear(3, c=0.0) * 0.0, "is zero at the data"),
        (cov.Linear(3, c=0.0) * np.inf, "not finite"),
    ],
)
@pytest.mark.filterwarnings("ignore:invalid value:RuntimeWarning")
def test_kernels_that_are_none_are_refused(kernel, message):
    with pytest.raises(ValueError, match=f"base_kernel is {message}" if "zero" not in message else message):
        Basis.of(kernel, X)


def test_too_many_inputs_are_refused(monkeypatch):
    monkeypatch.setattr(basis, "MAX_INPUTS", 20)
    with pytest.raises(ValueError, match="30 distinct rows, and a base kernel takes at most 20"):
        Basis.of(KERNELS["linear"], X)
    assert Basis.of(KERNELS["linear"], X[np.arange(30) % 20]).inputs.shape == (20, 3)
