"""Features of a covariance function at the data: ``kappa = Phi Phi'``.

With X0 the distinct inputs and ``kappa = kappa(X0, X0) = U diag(d) U'``, the features of an input are::

    phi(x) = kappa(x, X0) U diag(d)^(-1/2),      Phi = U diag(d)^(1/2)  at X0 itself,

so that ``f(x) = phi(x)' w`` spans the functions ``sum_i alpha_i kappa(x_i, x)`` of Yu, Tresp & Schwaighofer (2005),
eq. (17), with ``alpha = U diag(d)^(-1/2) w``. Of kappa(x, x') the features leave the residual
``kappa(x, x') - phi(x)' phi(x')``, which is zero at X0.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.kernels.evaluate import kernel_diagonal, kernel_matrix
from zoo.support.checks import finite_inputs, is_sparse

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = ["MAX_INPUTS", "Basis", "distinct_rows", "half_inverse_of"]

MAX_INPUTS = 6_000
"""Distinct inputs that :class:`Basis` takes at most. Time grows with their cube, memory with their square."""

_NEGATIVE = 1e-8


@dataclass(frozen=True, eq=False)
class Basis:
    """Features ``phi`` of a covariance function at given inputs. Make it with :meth:`of`.

    Eigenvalues of kappa(X0, X0) below ``tolerance`` times the largest are dropped: a kernel that is singular at the
    data (a linear one with fewer features than rows, say) has as many features as its rank.

    White noise in the covariance belongs to the inputs given: handed to :meth:`features` again, an input counts as
    another one, without it.

    Parameters
    ----------
    covariance : pm.gp.cov.Covariance
        kappa.
    inputs : (n, D) array or csr_matrix
        Distinct inputs X0, in the order of their first appearance.
    position : (n_given,) int
        Row of ``inputs`` that each given input is.
    eigenvalues : (r,) array
        The kept ``d``, largest first.
    half_inverse : (n, r) array
        ``U diag(d)^(-1/2)``, a square root of kappa's pseudo-inverse; each column's largest entry is positive.
    """

    covariance: Any
    inputs: Any
    position: np.ndarray
    eigenvalues: np.ndarray
    half_inverse: np.ndarray

    @classmethod
    def of(cls, covariance: Any, inputs: Any, tolerance: float = 1e-10) -> Basis:
        """The features of ``covariance`` at ``inputs``, dense or sparse (n_given, D).

        Raises
        ------
        ValueError
            There are more than :data:`MAX_INPUTS` distinct inputs; the covariance is not finite, not symmetric or not
            positive semi-definite there.
        """
        rows, position = distinct_rows(finite_inputs(inputs, "inputs", None))
        n = rows.shape[0]
        if n > MAX_INPUTS:
            raise ValueError(
                f"inputs has {n:,} distinct rows, and a base kernel takes at most {MAX_INPUTS:,}: its time grows with "
                "their cube. Use NIWLinear, or fewer rows."
            )
        eigenvalues, half_inverse = half_inverse_of(kernel_matrix(covariance, rows), tolerance)
        return cls(covariance, rows, position, eigenvalues, half_inverse)

    @property
    def rank(self) -> int:
        """Number of features, ``r``."""
        return len(self.eigenvalues)

    @property
    def values(self) -> np.ndarray:
        """Features of the given inputs, (n_given, r), at which ``values @ values.T`` is kappa."""
        return (self.half_inverse * self.eigenvalues)[self.position]

    def features(self, X: Any) -> np.ndarray:
        """Features of any inputs (m, D), dense or sparse: (m, r)."""
        return kernel_matrix(self.covariance, X, self.inputs) @ self.half_inverse

    def residual(self, X: Any) -> np.ndarray:
        """What the features leave of the variance, ``kappa(x, x) - |phi(x)|^2``, never below 0: (m,)."""
        explained = np.sum(self.features(X) ** 2, axis=1)
        return np.clip(kernel_diagonal(self.covariance, X) - explained, 0.0, None)

    def __repr__(self) -> str:
        return f"Basis({type(self.covariance).__name__}, {self.inputs.shape[0]} distinct inputs, rank {self.rank})"


def half_inverse_of(
    kappa: np.ndarray, tolerance: float = 1e-10, argument: str = "base_kernel"
) -> tuple[np.ndarray, np.ndarray]:
    """Kept eigenvalues d (r,), largest first, and ``M = U diag(d)^(-1/2)``, (n, r), of a covariance matrix.

    ``M M'`` is the pseudo-inverse of kappa. Eigenvalues below ``tolerance`` times the largest are dropped.
    """
    largest_entry = np.abs(kappa).max()
    if not np.isfinite(largest_entry):
        raise ValueError(
            f"{argument} is not finite at the data. Scale the features, or choose another kernel."
        )
    if np.abs(kappa - kappa.T).max() > 1e-8 * largest_entry:
        raise ValueError(
            f"{argument} is not symmetric at the data: k(x, y) must be k(y, x). Mend the covariance."
        )
    d, U = np.linalg.eigh((kappa + kappa.T) / 2)
    if d[0] < -_NEGATIVE * np.abs(d).max():
        raise ValueError(
            f"{argument} is not positive semi-definite at the data: smallest eigenvalue {d[0]:.3g}, largest "
            f"{d[-1]:.3g}. Choose a kernel that is, or add pm.gp.cov.WhiteNoise to it."
        )
    if d[-1] <= 0.0:
        raise ValueError(f"{argument} is zero at the data. Choose another kernel, or check the features.")
    kept = np.flatnonzero(d > tolerance * d[-1])[::-1]
    d, U = d[kept], U[:, kept]
    sign = np.sign(U[np.abs(U).argmax(axis=0), np.arange(len(d))])
    return d, U * (sign / np.sqrt(d))


def distinct_rows(inputs: Any) -> tuple[Any, np.ndarray]:
    """Distinct rows in the order of first appearance, and which of them each row is."""
    if is_sparse(inputs):
        first, position = _distinct_sparse(inputs)
    else:
        _, index, inverse = np.unique(inputs + 0.0, axis=0, return_index=True, return_inverse=True)
        order = np.argsort(index)
        first, position = index[order], np.argsort(order)[inverse.ravel()]
    return inputs[first], position


def _distinct_sparse(inputs: csr_matrix) -> tuple[np.ndarray, np.ndarray]:
    seen: dict[tuple[bytes, bytes], int] = {}
    first: list[int] = []
    position = np.empty(inputs.shape[0], dtype=np.int64)
    for i in range(inputs.shape[0]):
        entries = slice(inputs.indptr[i], inputs.indptr[i + 1])
        key = (inputs.indices[entries].tobytes(), inputs.data[entries].tobytes())
        position[i] = seen.setdefault(key, len(first))
        if position[i] == len(first):
            first.append(i)
    return np.array(first), position
