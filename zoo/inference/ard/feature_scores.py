r"""How much the evidence would gain by a feature that a model has left out.

With A the covariance of the rows of a task without the feature, r their responses less their mean (srijith2014 eq 6)
and :math:`\alpha = A^{-1} r`, the log evidence has, where a multiple :math:`\epsilon` of a matrix V is added to A, the
derivative

.. math:: s = \tfrac12 (\alpha^\top V \alpha - \operatorname{tr} A^{-1} V)

at :math:`\epsilon = 0`. A linear kernel gains by a feature x the matrix :math:`V = a x x^\top`, so that

.. math:: s = \tfrac a2 \big((\alpha^\top x)^2 - x^\top A^{-1} x\big),

the derivative in its ARD parameter at zero. Any other kernel moves from its matrix without the feature towards that in
which the feature has the ARD parameter c,

.. math:: V = a (K_c(x) - K_0), \quad s = \tfrac12 \sum_{mn} (\alpha_m \alpha_n - A^{-1}_{mn})\, V_{mn},

once with a small c, which sees straight lines, and once with c = 1, a lengthscale of one standard deviation, which sees
curves too. The derivative at c = 0 alone would miss functions that are even in x. One factorisation serves any number
of features. What is the same for all of them, such as :math:`K_0`, is left out.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve, cholesky, solve_triangular

from zoo.inference.ard.correlation import CompiledCorrelation, Correlation

__all__ = ["TaskWithout"]

_BENDS = (0.05, 1.0)
# Numbers of all matrices at a time, for the memory.
_CHUNK = 2_000_000


class TaskWithout(NamedTuple):
    """The rows of one task without the feature, and numbers of the model.

    ``at`` (n,): which rows of the data they are; ``X`` (n, D): their features, zeros in the place of the feature;
    ``residual`` (n,); ``noise`` (n,): the variance of each row; ``kappa`` (D,), zero in the place of the feature;
    ``amplitude``; ``constant``: the prior variance of the task's constant.
    """

    at: np.ndarray
    X: np.ndarray
    residual: np.ndarray
    noise: np.ndarray
    kappa: np.ndarray
    amplitude: float
    constant: float

    def scores(self, kernel: Correlation, columns: np.ndarray, j: int) -> tuple[np.ndarray, np.ndarray]:
        """Of ``columns`` (B, n) at the place j: scores (B, k), for each kind of V, and products with alpha (B,)."""
        if kernel.linear:
            return self._linear(columns)
        K = self.amplitude * kernel.matrix(self.X, self.X, self.kappa)
        factor = cho_factor(K + self.constant + np.diag(self.noise), lower=True)
        alpha = cho_solve(factor, self.residual)
        G = 0.5 * self.amplitude * (np.outer(alpha, alpha) - cho_solve(factor, np.eye(len(alpha))))
        found = np.empty((len(columns), len(_BENDS)))
        size = max(1, _CHUNK // max(G.size, 1))
        for first in range(0, len(columns), size):
            part = slice(first, first + size)
            for k, bend in enumerate(_BENDS):
                found[part, k] = np.tensordot(self._matrices(kernel, columns[part], j, bend), G, 2)
        return found, columns @ alpha

    def _matrices(self, kernel: Correlation, columns: np.ndarray, j: int, bend: float) -> np.ndarray:
        if isinstance(kernel, CompiledCorrelation):
            return kernel.with_column(self.X, self.kappa, columns, bend)
        X, kappa, found = self.X.copy(), self.kappa.copy(), []
        kappa[j] = bend
        for column in columns:
            X[:, j] = column
            found.append(kernel.matrix(X, X, kappa))
        return np.array(found)

    def _linear(self, columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """By a matrix of the size of the features, by Woodbury's identity."""
        weights = np.sqrt(np.append(self.amplitude * self.kappa, self.constant))
        Z = np.column_stack([self.X, np.ones(len(self.X))]) * weights
        L = cholesky(np.eye(Z.shape[1]) + (Z.T / self.noise) @ Z, lower=True)

        def half(values: np.ndarray) -> np.ndarray:
            return np.asarray(solve_triangular(L, Z.T @ (values / self.noise).T, lower=True))

        own = half(columns)
        products = (columns / self.noise) @ self.residual - own.T @ half(self.residual)
        squares = np.einsum("bn,bn->b", columns / self.noise, columns) - np.einsum("kb,kb->b", own, own)
        return 0.5 * self.amplitude * (products**2 - squares)[:, None], products
