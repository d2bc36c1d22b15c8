"""Tests of covariance functions of tasks, to inherit."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pymc as pm
import pytensor
import pytensor.tensor as pt

from zoo.kernels import (
    describe,
    kernel_diagonal,
    kernel_matrix,
    kernel_parameters,
    linear_form,
    restore,
    with_parameters,
)
from zoo.support.quick import QUICK

__all__ = ["KernelTestCase"]


class KernelTestCase:
    """The contract of a covariance on (x, task).

    Subclass it in a test module as ``TestMyKernel`` and say what is tested:

    >>> class TestMyKernel(KernelTestCase):
    ...     def make_kernel(self):
    ...         return MyKernel(3, n_tasks=4)

    ``make_inputs`` may be overridden where random features do not suit the kernel, or where its ``input_dim`` does not
    count the task's column.
    """

    def make_kernel(self) -> Any:
        """The kernel under test; its parameters are numbers."""
        raise NotImplementedError("override make_kernel to return the kernel under test")

    def make_inputs(self) -> np.ndarray:
        """Inputs: three rows per task, and in the kernel's last active column the task."""
        kernel, rng = self.make_kernel(), np.random.default_rng(1)
        X = rng.standard_normal((3 * kernel.n_tasks, kernel.input_dim))
        X[:, kernel.active_dims[-1]] = np.arange(len(X)) % kernel.n_tasks
        return X

    # ---------------------------------------------------------------- a covariance

    def test_it_is_a_covariance(self) -> None:
        """The matrix is symmetric and positive semi-definite, and the diagonal is its diagonal."""
        kernel, X = self.make_kernel(), self.make_inputs()
        K = kernel_matrix(kernel, X)
        assert K.shape == (len(X), len(X))
        assert np.all(np.isfinite(K))
        size = np.abs(K).max()
        np.testing.assert_allclose(K, K.T, rtol=0, atol=1e-12 * size)
        np.testing.assert_allclose(kernel_diagonal(kernel, X), np.diag(K), rtol=1e-9, atol=1e-10 * size)
        assert np.linalg.eigvalsh(K)[0] > -1e-9 * len(X) * size

    def test_cross_covariance_is_a_block(self) -> None:
        """Between two sets of inputs stands the block of the matrix of both."""
        kernel, X = self.make_kernel(), self.make_inputs()
        K = kernel_matrix(kernel, X)
        np.testing.assert_allclose(kernel_matrix(kernel, X[:4], X[2:]), K[:4, 2:], rtol=1e-9, atol=1e-10)

    def test_sums_and_products(self) -> None:
        """It adds and multiplies with PyMC's own covariances of the features."""
        kernel, X = self.make_kernel(), self.make_inputs()
        other = pm.gp.cov.ExpQuad(kernel.input_dim, ls=1.5, active_dims=kernel.active_dims[:-1])
        K, k = kernel_matrix(kernel, X), kernel_matrix(other, X)
        combined = 0.5 * kernel * other + kernel + other + 2.0
        np.testing.assert_allclose(
            kernel_matrix(combined, X), 0.5 * K * k + K + k + 2.0, rtol=1e-7, atol=1e-7
        )
        diagonal = np.diag(0.5 * K * k + K + k) + 2.0
        np.testing.assert_allclose(kernel_diagonal(combined, X), diagonal, rtol=1e-7, atol=1e-7)

    def test_slices(self) -> None:
        """With ``active_dims`` it sees these columns alone, the task's last."""
        kernel, X = self.make_kernel(), self.make_inputs()
        name, *parts = describe(kernel)
        if name == "LMC":  # each part has its own
            return
        columns = [int(i) + 2 for i in kernel.active_dims]
        dims = (("input_dim", kernel.input_dim + 2), ("active_dims", columns))
        rest = [part for part in parts if part[0] not in ("input_dim", "active_dims")]
        wider = np.column_stack([np.full((len(X), 2), 0.5), X])
        sliced = kernel_matrix(restore((name, *dims, *rest)), wider)
        np.testing.assert_allclose(sliced, kernel_matrix(kernel, X), rtol=1e-12, atol=1e-12)

    def test_unknown_tasks_are_refused(self) -> None:
        """A task that is no whole number of 0 .. T - 1 raises: in the graph's making, or when it runs."""
        kernel, X = self.make_kernel(), self.make_inputs()
        inputs = pt.matrix("inputs", dtype="float64")
        function = pytensor.function([inputs], kernel(inputs), mode=QUICK)
        np.testing.assert_allclose(function(X), kernel_matrix(kernel, X), rtol=1e-12, atol=1e-12)
        for wrong in (-1.0, float(kernel.n_tasks), 0.5, np.nan):
            bad = X.copy()
            bad[2, kernel.active_dims[-1]] = wrong
            _refused(kernel, bad, "row 2", f"{wrong:g}")
            _refused(function, bad, f"0 .. {kernel.n_tasks - 1}")

    # ---------------------------------------------------------------- its numbers

    def test_gradient(self) -> None:
        """The gradient in each parameter that may be learned is that of differences."""
        kernel, X = self.make_kernel(), self.make_inputs()
        description = describe(kernel)
        weights = np.random.default_rng(2).standard_normal((len(X), len(X)))
        for name, parameter in kernel_parameters(description).items():
            value = np.asarray(parameter.value, dtype=np.float64)
            direction = np.random.default_rng(3).standard_normal(value.shape)
            symbol = pt.tensor(name, dtype="float64", shape=value.shape)
            total = pt.sum(weights * with_parameters(description, {name: symbol})(X))
            slope = pt.sum(pt.grad(total, symbol) * direction)
            function = pytensor.function([symbol], [total, slope], mode=QUICK)
            step = 1e-5 * max(1e-3, float(np.abs(value).max()))
            difference = function(value + step * direction)[0] - function(value - step * direction)[0]
            size = np.abs(weights).sum() * np.abs(kernel_matrix(kernel, X)).max()
            np.testing.assert_allclose(
                function(value)[1], difference / (2 * step), rtol=1e-4, atol=1e-6 * size, err_msg=name
            )

    def test_task_covariance(self) -> None:
        """The matrix of the tasks has their names; a linear kernel is it, at one unit feature."""
        kernel = self.make_kernel()
        B = kernel.task_covariance()
        assert B.dims == ("task", "task_bis")
        assert tuple(B["task"].to_numpy()) == tuple(B["task_bis"].to_numpy()) == tuple(kernel.task_names)
        np.testing.assert_allclose(B, B.T, atol=1e-10 * np.abs(B).max())
        form = linear_form(kernel, kernel.input_dim - 1)
        if form is None:
            return
        np.testing.assert_allclose(_numbers(form.task_matrix), B, rtol=1e-9, atol=1e-10)
        if form.loadings is not None:
            d, W = (_numbers(part) for part in form.loadings)
            np.testing.assert_allclose(np.diag(d) + W @ W.T, B, rtol=1e-9, atol=1e-10)
        size = 1.0 if form.Q is None else _numbers(form.Q)[0, 0]
        units = _unit_inputs(kernel)[: kernel.n_tasks]
        np.testing.assert_allclose(kernel_matrix(kernel, units), size * B, rtol=1e-9, atol=1e-10)

    def test_regulariser(self) -> None:
        """J of a function's coefficients is its squared norm, ``c'Kc`` of a sum of ``c_i K(z_i, .)``."""
        kernel, X = self.make_kernel(), self.make_inputs()
        try:
            J = kernel.regulariser()
        except (AttributeError, TypeError):  # a sum, or a kernel without coefficients
            return
        assert "J(u)" in J.formula
        if J.matrix.ndim == 2:
            B, G = kernel.task_covariance().to_numpy(), J.matrix.to_numpy()
            np.testing.assert_allclose(G @ B @ G, G, rtol=1e-7, atol=1e-7 * np.abs(G).max())
        if not J.linear:
            return
        c = np.random.default_rng(4).standard_normal(len(X))
        units = kernel_matrix(kernel, _unit_inputs(kernel), X) @ c
        coefficients = units.reshape(-1, kernel.n_tasks)
        np.testing.assert_allclose(J(coefficients), c @ kernel_matrix(kernel, X) @ c, rtol=1e-6)

    # ---------------------------------------------------------------- copies

    def test_description(self) -> None:
        """A description gives the kernel back, also through JSON, and is that of an equal kernel."""
        kernel, X = self.make_kernel(), self.make_inputs()
        description = describe(kernel)
        hash(description)
        again = restore(json.loads(json.dumps(description)))
        assert describe(again) == description == describe(self.make_kernel())
        assert np.array_equal(kernel_matrix(again, X), kernel_matrix(kernel, X))
        assert tuple(again.task_names) == tuple(kernel.task_names)

    def test_pickle_and_copy(self) -> None:
        """A pickled or a copied kernel gives the same numbers."""
        kernel, X = self.make_kernel(), self.make_inputs()
        K = kernel_matrix(kernel, X)
        for again in (pickle.loads(pickle.dumps(kernel)), copy.deepcopy(kernel)):
            assert np.array_equal(kernel_matrix(again, X), K)


def _refused(call: Callable[[Any], Any], inputs: np.ndarray, *words: str) -> None:
    try:
        call(inputs)
    except ValueError as error:
        assert all(word in str(error) for word in words), str(error)
    else:
        raise AssertionError(f"no ValueError with {words}")


def _numbers(value: Any) -> np.ndarray:
    return np.asarray(pytensor.function([], value, mode=QUICK)())


def _unit_inputs(kernel: Any) -> np.ndarray:
    """Each unit vector of the active features with each task; the feature changes slowest."""
    features, T = len(kernel.active_dims) - 1, kernel.n_tasks
    X = np.zeros((features * T, kernel.input_dim))
    for i in range(features):
        X[i * T : (i + 1) * T, kernel.active_dims[i]] = 1.0
    X[:, kernel.active_dims[-1]] = np.tile(np.arange(T), features)
    return X
