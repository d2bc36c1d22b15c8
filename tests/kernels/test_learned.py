"""The learned kernel: eqs (18) and (19), inside PyMC, in scikit-learn, and in a file."""

from __future__ import annotations

import numpy as np
import pymc as pm
import pytest
from scipy.sparse import csr_matrix, random_array
from scipy.stats import multivariate_normal
from sklearn.base import clone
from sklearn.kernel_ridge import KernelRidge
from sklearn.svm import SVC

from zoo.kernels import LearnedKernel, kernel_diagonal, kernel_matrix

cov = pm.gp.cov
RNG = np.random.default_rng(4)
X0 = RNG.standard_normal((6, 2))
X = RNG.standard_normal((5, 2))
Y = RNG.standard_normal((4, 2))
F = RNG.standard_normal((6, 3))
MEAN = RNG.standard_normal(6)
WEIGHTS = {"weight": 0.7, "base_weight": 0.2, "residual_weight": 0.4}


def make(base=None, **changes):
    base = cov.ExpQuad(2, ls=1.5) if base is None else base
    return LearnedKernel(base, **{"inputs": X0, "half": F, **WEIGHTS, **changes})


def rbf(A, B):
    return np.exp(-((A[:, None] - B[None]) ** 2).sum(axis=-1) / (2 * 1.5**2))


def formula(A, B, weight, base_weight=0.0, residual_weight=0.0):
    learned = rbf(A, X0) @ F @ F.T @ rbf(X0, B)
    residual = rbf(A, B) - rbf(A, X0) @ np.linalg.solve(rbf(X0, X0), rbf(X0, B))
    return weight * learned + base_weight * rbf(A, B) + residual_weight * residual


@pytest.mark.parametrize(
    "weights",
    [{"weight": 1.0}, {"weight": 0.8, "base_weight": 0.2}, WEIGHTS, {"weight": 0.0, "base_weight": 1.0}],
)
def test_numbers_and_graphs_are_the_formula(weights):
    k = LearnedKernel(cov.ExpQuad(2, ls=1.5), inputs=X0, half=F, **weights)
    for found in (
        k.kernel_matrix(X, Y),
        k.full(X, Y).eval(mode="FAST_COMPILE"),
        k(X, Y).eval(mode="FAST_COMPILE"),
        kernel_matrix(k, X, Y),
    ):
        np.testing.assert_allclose(found, formula(X, Y, **weights), rtol=1e-9, atol=1e-10)
    for found in (k.kernel_matrix(X), k.full(X).eval(mode="FAST_COMPILE")):
        np.testing.assert_allclose(found, formula(X, X, **weights), rtol=1e-9, atol=1e-10)
    for found in (
        k.kernel_diagonal(X),
        k.diag(X).eval(mode="FAST_COMPILE"),
        k(X, diag=True).eval(mode="FAST_COMPILE"),
        kernel_diagonal(k, X),
    ):
        np.testing.assert_allclose(found, np.diag(formula(X, X, **weights)), rtol=1e-9, atol=1e-10)


def test_it_is_positive_semi_definite_and_at_the_inputs_the_residual_is_zero():
    many = RNG.standard_normal((40, 2))
    assert np.linalg.eigvalsh(make().kernel_matrix(many))[0] > -1e-12
    left = make(weight=0.0, base_weight=0.0, residual_weight=1.0)
    np.testing.assert_allclose(left.kernel_matrix(X0), 0.0, atol=1e-10)
    np.testing.assert_allclose(left.kernel_diagonal(X0), 0.0, atol=1e-10)


def test_singular_base_and_repeated_inputs():
    k = LearnedKernel(cov.Linear(2, c=0.0), inputs=X0[[0, 1, 1, 2]], half=F[:4], residual_weight=1.0)
    K = k.kernel_matrix(X)
    expected = X @ X0[[0, 1, 1, 2]].T @ F[:4]  # two features span the plane: nothing is left
    np.testing.assert_allclose(K, expected @ expected.T, atol=1e-10)


def test_marginal_likelihood_in_a_gp():
    k, y = make(mean=MEAN), RNG.standard_normal(5)
    with pm.Model() as model:
        gp = pm.gp.Marginal(mean_func=k.mean_function, cov_func=k)
        gp.marginal_likelihood("y", X=X, y=y, sigma=0.3)
    found = model.compile_logp(mode="FAST_COMPILE")({})
    noise = 0.3**2 + pm.gp.util.JITTER_DEFAULT
    exact = multivariate_normal(rbf(X, X0) @ MEAN, formula(X, X, **WEIGHTS) + noise * np.eye(5)).logpdf(y)
    np.testing.assert_allclose(found, exact, rtol=1e-8)
    np.testing.assert_allclose(k.mean_values(X), rbf(X, X0) @ MEAN, rtol=1e-12)
    assert np.array_equal(make().mean_values(X), np.zeros(5))
    assert np.array_equal(make().mean_function(X).eval(mode="FAST_COMPILE"), np.zeros(5))


def test_sums_and_products():
    k = make()
    noisy = k + cov.WhiteNoise(0.5)
    np.testing.assert_allclose(
        noisy(X).eval(mode="FAST_COMPILE"), formula(X, X, **WEIGHTS) + 0.25 * np.eye(5), rtol=1e-9
    )
    np.testing.assert_allclose(noisy(X, diag=True).eval(mode="FAST_COMPILE"), k.kernel_diagonal(X) + 0.25)
    np.testing.assert_allclose(kernel_matrix(noisy, X), noisy(X).eval(mode="FAST_COMPILE"), rtol=1e-9)
    product = 2.0 * k * cov.Linear(2, c=0.0)
    np.testing.assert_allclose(
        kernel_matrix(product, X, Y), 2.0 * k.kernel_matrix(X, Y) * (X @ Y.T), rtol=1e-9
    )
    sparse = kernel_matrix(noisy * cov.Linear(2, c=0.0), csr_matrix(X))
    np.testing.assert_allclose(sparse, noisy(X).eval(mode="FAST_COMPILE") * (X @ X.T), rtol=1e-9, atol=1e-12)


def test_active_dims_of_the_base():
    k = make(cov.ExpQuad(2, ls=1.5, active_dims=[1]))
    assert k.input_dim == 2
    assert k.active_dims.tolist() == [1]
    other = make(cov.ExpQuad(2, ls=1.5, active_dims=[1]), inputs=X0 + np.array([5.0, 0.0]))
    np.testing.assert_allclose(k.full(X).eval(mode="FAST_COMPILE"), other.kernel_matrix(X), rtol=1e-9)


def test_sparse_equals_dense():
    rows = csr_matrix(random_array((6, 15), density=0.3, rng=5))
    new = csr_matrix(random_array((4, 15), density=0.3, rng=6))
    for base in (cov.Linear(15, c=0.0) + 0.5, cov.ExpQuad(15, ls=0.8)):
        sparse, dense = make(base, inputs=rows, mean=MEAN), make(base, inputs=rows.toarray(), mean=MEAN)
        for found, expected in (
            (sparse.kernel_matrix(new), dense.kernel_matrix(new.toarray())),
            (sparse.kernel_matrix(new.toarray(), new[:2]), dense.kernel_matrix(new, new[:2].toarray())),
            (sparse.kernel_diagonal(new), dense.kernel_diagonal(new.toarray())),
            (sparse.mean_values(new), dense.mean_values(new.toarray())),
        ):
            np.testing.assert_allclose(found, expected, rtol=1e-12, atol=1e-12)
        with pytest.raises(ValueError, match="Call `kernel_matrix` for numbers"):
            sparse.full(new.toarray())
        with pytest.raises(ValueError, match="Call `kernel_matrix` for numbers"):
            dense.diag(new)


def test_scikit_learn_takes_it():
    k = make()
    sign, real = np.array([-1, 1, 1, -1, 1]), np.arange(5.0)
    machine = SVC(kernel=k.kernel_matrix).fit(X, sign)
    K, cross = formula(X, X, **WEIGHTS), formula(Y, X, **WEIGHTS)
    same = SVC(kernel="precomputed").fit(K, sign)
    np.testing.assert_allclose(machine.decision_function(Y), same.decision_function(cross), rtol=1e-6)
    again = clone(machine).fit(X, sign)
    np.testing.assert_allclose(again.decision_function(Y), machine.decision_function(Y))
    ridge = KernelRidge(kernel="precomputed", alpha=0.1).fit(k.kernel_matrix(X), real)
    exact = cross @ np.linalg.solve(K + 0.1 * np.eye(5), real)
    np.testing.assert_allclose(ridge.predict(k.kernel_matrix(Y, X)), exact, rtol=1e-8)


@pytest.mark.parametrize("inputs", [X0, csr_matrix(np.where(X0 > 0, X0, 0.0))])
@pytest.mark.parametrize("mean", [None, MEAN])
def test_save_and_load(inputs, mean, tmp_path):
    base = cov.ExpQuad(2, ls=[0.3, 1.7]) * cov.Linear(2, c=0.0) + 0.1
    k = make(base, inputs=inputs, mean=mean)
    again = LearnedKernel.load(k.save(tmp_path / "kernel.npz"))
    assert [p.name for p in tmp_path.iterdir()] == ["kernel.npz"]
    assert np.array_equal(again.kernel_matrix(X, Y), k.kernel_matrix(X, Y))
    assert np.array_equal(again.mean_values(X), k.mean_values(X))
    assert repr(again) == repr(k) == "LearnedKernel(Add, 6 inputs, rank 3)"
    assert type(again.inputs) is type(k.inputs)


def test_files_that_are_none_are_refused(tmp_path):
    with pytest.raises(FileNotFoundError, match="is no file"):
        LearnedKernel.load(tmp_path / "none.npz")
    np.savez(tmp_path / "other.npz", half=F)
    with pytest.raises(ValueError, match=r"no file of LearnedKernel\.save"):
        LearnedKernel.load(tmp_path / "other.npz")
    whole = make().save(tmp_path / "kernel").read_bytes()
    (tmp_path / "half").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match="It is damaged"):
        LearnedKernel.load(tmp_path / "half")

    class Own(cov.ExpQuad):
        pass

    with pytest.raises(TypeError, match="base holds Own, which has no description"):
        make(Own(2, ls=1.0)).save(tmp_path / "own")
    assert not (tmp_path / "own").exists()


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"half": F[:5]}, "half has 5 rows and inputs has 6"),
        ({"inputs": np.ones((6, 3))}, "inputs has 3 columns, but base has input_dim 2"),
        ({"mean": MEAN[:5]}, "mean has 5 rows"),
        ({"weight": -1.0}, "weight is -1.0. Give a finite number of 0 or above"),
        ({"residual_weight": np.nan}, "residual_weight is nan"),
        ({"half": np.where(F > 1, np.inf, F)}, "half is inf"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        make(**changes)


def test_a_base_that_is_none_or_random():
    with pytest.raises(TypeError, match="base is a str"):
        make("linear")
    with pytest.raises(TypeError, match="random or symbolic"):
        make(cov.ExpQuad(2, ls=pm.HalfNormal.dist()))
