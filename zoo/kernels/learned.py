"""The kernel that a fit learned, as a covariance function of PyMC and for scikit-learn.

Yu, Tresp & Schwaighofer (2005), eqs (18) and (19): with X0 the inputs of the fit and ``C_alpha = F F'`` the
covariance of the weights of ``f(x) = sum_i alpha_i kappa(x_i, x)``::

    K(x, x') = w kappa(x, X0) F F' kappa(X0, x') + w_base kappa(x, x')
               + w_residual [kappa(x, x') - kappa(x, X0) M M' kappa(X0, x')],      M M' = kappa(X0, X0)^+.

Eq. (18) is ``w = 1`` alone, and eq. (19) has ``w = m / (tau + m)``, ``w_base = tau / (tau + m)``, m the number of
tasks. The last term, which the paper does not have, is what X0 leaves open of the base kernel: it is zero at X0.
K is positive semi-definite by construction: each of the three terms is.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.gp import cov

from zoo.data.columns import require_same_rows
from zoo.kernels.basis import half_inverse_of
from zoo.kernels.description import describe, restore
from zoo.kernels.evaluate import kernel_diagonal, kernel_matrix
from zoo.support.checks import finite_inputs, finite_matrix, finite_vector, is_sparse
from zoo.support.files import require_new, staged_file
from zoo.support.frames import read_column, read_table
from zoo.support.words import counted

__all__ = ["LearnedKernel", "LearnedMean"]

_VERSION = 1
_PARTS = ("inputs_data", "inputs_indices", "inputs_indptr", "inputs_shape")


class LearnedKernel(cov.Covariance):
    r"""The kernel that a fit learned, eqs (18) and (19) of Yu, Tresp & Schwaighofer (2005).

    In PyMC it is a covariance like any other: ``pm.gp.Marginal(cov_func=learned + pm.gp.cov.WhiteNoise(0.1))``. In
    scikit-learn: ``SVC(kernel=learned.kernel_matrix)``, or ``KernelRidge(kernel="precomputed")`` on its matrix.

    Parameters
    ----------
    base : pm.gp.cov.Covariance
        Base kernel kappa; its parameters are numbers.
    inputs : (n, D) array_like or scipy.sparse matrix
        X0, the inputs of the fit. With sparse ones there are numbers (``kernel_matrix``), but no PyMC graph.
    half : (n, r) array_like
        F, with ``F F'`` the learned covariance ``C_alpha``.
    weight, base_weight, residual_weight : float
        Weights of the learned part, of the base kernel, and of what X0 leaves open of it; 0 or above.
    mean : (n,) array_like, optional
        Weights ``mu_alpha`` of the learned mean ``mu(x) = sum_i mean_i kappa(x_i, x)``; see ``mean_function``.
    """

    def __init__(
        self,
        base: Any,
        *,
        inputs: Any,
        half: Any,
        weight: float = 1.0,
        base_weight: float = 0.0,
        residual_weight: float = 0.0,
        mean: Any = None,
    ):
        if not isinstance(base, cov.BaseCovariance):
            raise TypeError(f"base is a {type(base).__name__}. Give a covariance of pm.gp.cov.")
        require_same_rows(
            inputs=read_table(inputs, "inputs"), half=read_table(half, "half"), mean=read_column(mean, "mean")
        )
        self.base = base
        self.inputs = finite_inputs(inputs, "inputs", None)
        n, input_dim = self.inputs.shape
        if getattr(base, "input_dim", input_dim) != input_dim:
            raise ValueError(
                f"inputs has {counted(input_dim, 'column')}, but base has input_dim {base.input_dim}. Make them equal."
            )
        super().__init__(input_dim, getattr(base, "active_dims", None))
        self.half = finite_matrix(half, "half", None)
        if len(self.half) != n:
            raise ValueError(
                f"half has {counted(len(self.half), 'row')} and inputs has {n}. Give one row per input."
            )
        self.mean = None if mean is None else finite_vector(mean, "mean", n)
        self.weight = _weight(weight, "weight")
        self.base_weight = _weight(base_weight, "base_weight")
        self.residual_weight = _weight(residual_weight, "residual_weight")
        self._half_inverse = None
        if self.residual_weight:
            self._half_inverse = half_inverse_of(kernel_matrix(base, self.inputs), argument="base")[1]

    def __repr__(self) -> str:
        n, r = self.half.shape
        return f"LearnedKernel({type(self.base).__name__}, {n} inputs, rank {r})"

    # ---------------------------------------------------------------- PyMC

    def full(self, X: Any, Xs: Any = None) -> Any:
        """Covariance of the rows of ``X`` (and ``Xs``) as a PyTensor variable, (n, m)."""
        x = self._cross(X)
        y = x if Xs is None else self._cross(Xs)
        K = self.weight * pt.dot(pt.dot(x, self.half), pt.dot(y, self.half).T)
        if self.base_weight + self.residual_weight:
            K = K + (self.base_weight + self.residual_weight) * self.base(X, Xs)
        if self._half_inverse is not None:
            K = K - self.residual_weight * pt.dot(
                pt.dot(x, self._half_inverse), pt.dot(y, self._half_inverse).T
            )
        return K

    def diag(self, X: Any) -> Any:
        """Variance of the rows of ``X`` as a PyTensor variable, (n,)."""
        x = self._cross(X)
        variance = self.weight * pt.square(pt.dot(x, self.half)).sum(axis=1)
        if self.base_weight:
            variance = variance + self.base_weight * self.base(X, diag=True)
        if self._half_inverse is not None:
            left = self.base(X, diag=True) - pt.square(pt.dot(x, self._half_inverse)).sum(axis=1)
            variance = variance + self.residual_weight * pt.maximum(left, 0.0)
        return variance

    def _cross(self, X: Any) -> Any:
        """kappa(X, X0), (n, n0)."""
        if is_sparse(self.inputs) or is_sparse(X):
            raise ValueError(
                "inputs or X are sparse, and PyMC's graphs take dense ones. Call `kernel_matrix` for numbers, or make "
                "the kernel with inputs.toarray()."
            )
        return self.base(X, self.inputs)

    @property
    def mean_function(self) -> LearnedMean:
        """The learned mean, for ``pm.gp.Marginal(mean_func=..., cov_func=...)``; zero where ``mean`` is None."""
        return LearnedMean(self)

    # ---------------------------------------------------------------- numbers

    def kernel_matrix(self, X: Any, Y: Any = None) -> np.ndarray:
        """Numbers K(x_i, y_j), (n, m), of dense or sparse inputs; ``Y`` left out: ``X``."""
        x = kernel_matrix(self.base, X, self.inputs)
        y = x if Y is None else kernel_matrix(self.base, Y, self.inputs)
        K = self.weight * (x @ self.half) @ (y @ self.half).T
        if self.base_weight + self.residual_weight:
            K += (self.base_weight + self.residual_weight) * kernel_matrix(self.base, X, Y)
        if self._half_inverse is not None:
            K -= self.residual_weight * (x @ self._half_inverse) @ (y @ self._half_inverse).T
        return K

    def kernel_diagonal(self, X: Any) -> np.ndarray:
        """Numbers K(x_i, x_i), (n,), of dense or sparse inputs."""
        x = kernel_matrix(self.base, X, self.inputs)
        variance = self.weight * np.sum((x @ self.half) ** 2, axis=1)
        if self.base_weight + self.residual_weight:
            base = kernel_diagonal(self.base, X)
            variance += self.base_weight * base
            if self._half_inverse is not None:
                left = base - np.sum((x @ self._half_inverse) ** 2, axis=1)
                variance += self.residual_weight * np.clip(left, 0.0, None)
        return variance

    def mean_values(self, X: Any) -> np.ndarray:
        """Numbers of the learned mean, (n,), of dense or sparse inputs."""
        cross = kernel_matrix(self.base, X, self.inputs)
        return np.zeros(len(cross)) if self.mean is None else cross @ self.mean

    # ---------------------------------------------------------------- files

    def save(self, path: str | os.PathLike[str], overwrite: bool = False) -> Path:
        """Write the kernel to one file (NumPy's npz), under a temporary name first. Nothing is pickled.

        Parameters
        ----------
        path : path
        overwrite : bool
            Whether a file that stands there may be replaced.

        Raises
        ------
        FileExistsError
            There is such a file, and ``overwrite`` is False.
        TypeError
            The base kernel is of a class of your own, or has random parameters.
        """
        require_new(path, overwrite)
        weights = np.array([self.weight, self.base_weight, self.residual_weight])
        parts = {"half": self.half, "weights": weights, **_inputs_to_arrays(self.inputs)}
        if self.mean is not None:
            parts["mean"] = self.mean
        header = json.dumps({"zoo_learned_kernel": _VERSION, "base": describe(self.base, "base")})
        with staged_file(path) as temporary, temporary.open("wb") as file:
            np.savez_compressed(file, allow_pickle=False, header=np.array(header), **parts)
        return Path(path)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> LearnedKernel:
        """Read a kernel that :meth:`save` wrote. Nothing in the file is executed.

        Raises
        ------
        FileNotFoundError
            There is no such file.
        ValueError
            The file is damaged, or no learned kernel, or of another version.
        """
        source = Path(path)
        if not source.is_file():
            raise FileNotFoundError(f"path {str(source)!r} is no file. Give the file that save wrote.")
        try:
            with source.open("rb") as opened, np.load(opened, allow_pickle=False) as file:
                parts = {name: file[name] for name in file.files}
            header = json.loads(str(parts["header"]))
            version = header["zoo_learned_kernel"]
        except (
            Exception
        ) as error:  # zipfile, zlib, NumPy and json each raise their own kinds on a damaged file
            raise ValueError(
                f"path {str(source)!r} cannot be read as a learned kernel ({type(error).__name__}). "
                "It is damaged, or no file of LearnedKernel.save."
            ) from error
        if version != _VERSION:
            raise ValueError(
                f"path {str(source)!r} has version {version}, this zoo reads {_VERSION}. Save the kernel again."
            )
        weight, base_weight, residual_weight = (float(w) for w in parts["weights"])
        return cls(
            restore(header["base"]),
            inputs=_inputs_from_arrays(parts),
            half=parts["half"],
            weight=weight,
            base_weight=base_weight,
            residual_weight=residual_weight,
            mean=parts.get("mean"),
        )


class LearnedMean(pm.gp.mean.Mean):
    """The learned mean ``mu(x) = sum_i mean_i kappa(x_i, x)``, beside eq. (17) of Yu, Tresp & Schwaighofer (2005)."""

    def __init__(self, kernel: LearnedKernel):
        self.kernel = kernel

    def __call__(self, X: Any) -> Any:
        """Mean of the rows of ``X`` as a PyTensor variable, (n,)."""
        mean = np.zeros(len(self.kernel.half)) if self.kernel.mean is None else self.kernel.mean
        return pt.dot(self.kernel._cross(X), mean)


def _weight(value: Any, argument: str) -> float:
    number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not (number and np.isfinite(value) and value >= 0):
        raise ValueError(f"{argument} is {value!r}. Give a finite number of 0 or above.")
    return float(value)


def _inputs_to_arrays(inputs: Any) -> dict[str, np.ndarray]:
    if not is_sparse(inputs):
        return {"inputs": inputs}
    return dict(
        zip(_PARTS, (inputs.data, inputs.indices, inputs.indptr, np.array(inputs.shape)), strict=True)
    )


def _inputs_from_arrays(parts: dict[str, np.ndarray]) -> Any:
    if "inputs" in parts:
        return parts["inputs"]
    from scipy.sparse import csr_matrix

    data, indices, indptr, shape = (parts[name] for name in _PARTS)
    return csr_matrix((data, indices, indptr), shape=tuple(shape))
