"""Covariances as numbers: against PyMC's own graphs and written-out formulas, dense and sparse."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.sparse import csr_array, csr_matrix, random_array

from zoo.kernels import kernel_diagonal, kernel_matrix

cov = pm.gp.cov
RNG = np.random.default_rng(1)
X = np.column_stack([[0.0, 2.0, 1.0, 0.0, 1.0], RNG.standard_normal((5, 2))])
Y = np.column_stack([[1.0, 0.0, 0.0, 2.0], RNG.standard_normal((4, 2))])
SPARSE = csr_matrix(random_array((7, 12), density=0.3, rng=2))
OTHER = csr_matrix(random_array((4, 12), density=0.3, rng=3))

DENSE = {
    "constant": lambda: cov.Constant(2.0) + cov.Linear(3, c=0.0),
    "exp_quad": lambda: cov.ExpQuad(3, ls=[1.0, 2.0, 3.0]),
    "active": lambda: cov.Matern52(3, ls=0.7, active_dims=[0, 2]),
    "periodic": lambda: cov.Periodic(3, period=2.0, ls=1.5),
    "power": lambda: 0.5 * cov.Linear(3, c=[1.0, 0.0, 2.0]) ** 2,
    "noise": lambda: cov.Matern32(3, ls=1.0) * 2.0 + cov.WhiteNoise(0.3),
    "kronecker": lambda: cov.Kron([cov.ExpQuad(1, ls=1.0), cov.Matern52(2, ls=2.0)]),
    "coregion": lambda: cov.Linear(3, c=0.0) * cov.Coregion(3, B=np.diag([1.0, 2.0, 3.0]), active_dims=[0]),
    "warped": lambda: cov.WarpedInput(3, cov.ExpQuad(3, ls=1.0), lambda x: x**2),
}
WIDE = {
    "linear": lambda: cov.Linear(12, c=0.0),
    "centred": lambda: cov.Linear(12, c=np.arange(12.0)),
    "polynomial": lambda: cov.Polynomial(12, c=0.5, d=3, offset=1.0),
    "constant": lambda: cov.Constant(2.0) + cov.Linear(12, c=0.0) * 3.0,
    "exp_quad": lambda: cov.ExpQuad(12, ls=0.8),
    "lengthscales": lambda: cov.ExpQuad(12, ls=np.linspace(0.5, 2.0, 12)),
    "matern52": lambda: cov.Matern52(12, ls=0.8) * cov.Linear(12, c=0.0),
    "matern32": lambda: cov.Matern32(12, ls=1.3) * np.array([[2.0]]),
    "rational": lambda: cov.RatQuad(12, alpha=2.0, ls=1.3),
    "active": lambda: (
        cov.ExpQuad(12, ls=0.8, active_dims=[1, 4, 7]) + cov.Linear(12, c=1.0, active_dims=[2, 3])
    ),
    "noise": lambda: cov.ExpQuad(12, ls=0.8) ** 2 + cov.WhiteNoise(0.5),
}


@pytest.mark.parametrize("name", sorted(DENSE))
def test_dense_numbers_are_those_of_pymc(name):
    k = DENSE[name]()
    np.testing.assert_allclose(kernel_matrix(k, X), k(X).eval(mode="FAST_COMPILE"), rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(
        kernel_matrix(k, X, Y), k(X, Y).eval(mode="FAST_COMPILE"), rtol=1e-12, atol=1e-14
    )
    if name not in ("kronecker", "warped"):  # PyMC's own diag of these fails
        np.testing.assert_allclose(
            kernel_diagonal(k, X), k(X, diag=True).eval(mode="FAST_COMPILE"), rtol=1e-12, atol=1e-14
        )


def test_dense_numbers_are_the_formulas():
    squared = ((X[:, None] - Y[None]) ** 2).sum(axis=-1) / 4.0
    np.testing.assert_allclose(kernel_matrix(cov.ExpQuad(3, ls=2.0), X, Y), np.exp(-squared / 2))
    np.testing.assert_allclose(kernel_matrix(cov.Linear(3, c=1.0), X, Y), (X - 1) @ (Y - 1).T)
    np.testing.assert_allclose(kernel_diagonal(cov.Linear(3, c=1.0), X), ((X - 1) ** 2).sum(axis=1))
    assert np.array_equal(kernel_matrix(cov.Constant(3.0), X, Y), np.full((5, 4), 3.0))


@pytest.mark.parametrize("name", sorted(WIDE))
def test_sparse_equals_dense(name, monkeypatch):
    k = WIDE[name]()
    dense, other = SPARSE.toarray(), OTHER.toarray()
    expected = [kernel_matrix(k, dense), kernel_matrix(k, dense, other), kernel_diagonal(k, dense)]
    made_dense, toarray = [], csr_matrix.toarray
    monkeypatch.setattr(
        csr_matrix, "toarray", lambda m, *a, **k: made_dense.append(m.shape[1]) or toarray(m, *a, **k)
    )
    found = [kernel_matrix(k, SPARSE), kernel_matrix(k, SPARSE, OTHER), kernel_diagonal(k, SPARSE)]
    assert max(made_dense, default=0) < 12  # products only
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-12, atol=1e-12)


def test_one_sparse_side_is_enough():
    k = cov.Linear(12, c=0.0)
    expected = (SPARSE @ OTHER.T).toarray()
    np.testing.assert_allclose(kernel_matrix(k, SPARSE, OTHER.toarray()), expected, atol=1e-15)
    np.testing.assert_allclose(kernel_matrix(k, csr_array(SPARSE).tocoo(), OTHER), expected, atol=1e-15)


class _Own(cov.Covariance):
    def full(self, X, Xs=None):
        return (X[:, None] * (X if Xs is None else Xs)[None]).sum(axis=-1)


@pytest.mark.parametrize("k", [cov.Periodic(12, period=1.0, ls=1.0), _Own(12) + cov.Linear(12, c=0.0)])
def test_no_sparse_form_is_refused_by_name(k):
    with pytest.raises(ValueError, match=r"covariance (Periodic|_Own) has no sparse form. Give X.toarray"):
        kernel_matrix(k, SPARSE)


def test_an_array_as_factor_has_no_sparse_form():
    with pytest.raises(ValueError, match=r"factor or parameter of shape \(7, 7\)"):
        kernel_matrix(cov.Linear(12, c=0.0) * np.eye(7), SPARSE)


@pytest.mark.parametrize("inputs", [X, csr_matrix(X)])
def test_parameters_without_a_value_are_refused(inputs):
    k = cov.ExpQuad(3, ls=pm.HalfNormal.dist())
    with pytest.raises(TypeError, match="random or symbolic"):
        kernel_matrix(k + cov.Linear(3, c=0.0), inputs)
    with pytest.raises(TypeError, match="is a str"):
        kernel_matrix("linear", inputs)


def test_wrong_shapes_are_refused():
    with pytest.raises(ValueError, match="X has 3 columns, but the covariance ExpQuad has input_dim 4"):
        kernel_matrix(cov.ExpQuad(4, ls=1.0), X)
    with pytest.raises(ValueError, match="Y has 2 columns and X has 3"):
        kernel_matrix(cov.ExpQuad(3, ls=1.0), X, Y[:, :2])
    with pytest.raises(ValueError, match="X is nan in row 1, column 2"):
        kernel_matrix(cov.ExpQuad(3, ls=1.0), np.where(np.arange(15).reshape(5, 3) == 5, np.nan, X))
