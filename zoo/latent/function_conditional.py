r"""Gaussian conditionals of function values with a given covariance matrix.

With :math:`f \sim N(0, K)` and rows that say :math:`\sum_i -\omega_i f_i^2 / 2 + \nu_i f_i`, with
:math:`s = \sqrt\omega` and :math:`G = I + \mathrm{diag}(s) K \mathrm{diag}(s)` (Rasmussen & Williams 2006, eq 3.26),

.. math::

    f \sim N(K \alpha, K - K s G^{-1} s K), \quad \alpha = \nu - s G^{-1} s K \nu, \quad
    \log Z = \tfrac12 \nu' K \alpha - \tfrac12 \log |G| .

K may be singular and omega zero. :class:`AlignedConditional` is the same where every task has all inputs and one noise:
eigenvalues of the two factors of :math:`B \otimes k` instead of one factorisation (the "n + 1 systems" of section 5.2
of Evgeniou, Micchelli & Pontil 2005, for any B).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.linalg import cho_solve, cholesky, solve_triangular

__all__ = ["JITTER", "AlignedConditional", "FunctionConditional", "covariance_root"]

# Of the mean variance: what a covariance matrix is given on its diagonal where a singular one may need a root.
JITTER = 1e-10


def covariance_root(K: np.ndarray) -> np.ndarray:
    """A matrix L with ``L L'`` the covariance matrix, up to rounding; K may be singular."""
    try:
        return np.asarray(cholesky(K + JITTER * np.mean(np.diag(K)) * np.eye(len(K)), lower=True))
    except np.linalg.LinAlgError:
        d, U = np.linalg.eigh((K + K.T) / 2.0)
        return np.asarray(U * np.sqrt(np.maximum(d, 0.0)))


@dataclass(frozen=True, eq=False)
class FunctionConditional:
    """Law of function values (n,) given the rows; make it with :meth:`of`."""

    K: np.ndarray
    s: np.ndarray
    nu: np.ndarray
    factor: np.ndarray
    """Lower Cholesky factor of G."""

    @classmethod
    def of(cls, K: np.ndarray, omega: np.ndarray, nu: np.ndarray) -> FunctionConditional:
        """The law given weights ``omega`` (n,), 0 or more, and linear terms ``nu`` (n,)."""
        s = np.sqrt(omega)
        G = s[:, None] * K * s
        G[np.diag_indices_from(G)] += 1.0
        return cls(K, s, nu, cholesky(G, lower=True, overwrite_a=True, check_finite=False))

    @cached_property
    def alpha(self) -> np.ndarray:
        """Weights of the covariance functions in the mean, (n,).

        Where omega is above 0 it is ``s G^-1 (nu / s)``: the same, and no difference of large numbers if it is large.
        """
        seen = self.s > 0.0
        scaled = np.divide(self.nu, self.s, out=np.zeros_like(self.nu), where=seen)
        unseen = np.where(seen, 0.0, self.nu)
        if unseen.any():
            scaled = scaled - self.s * (self.K @ unseen)
        return np.asarray(unseen + self.s * cho_solve((self.factor, True), scaled))

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean, (n,)."""
        return np.asarray(self.K @ self.alpha)

    @cached_property
    def log_evidence(self) -> float:
        """Log Z."""
        return float(0.5 * self.nu @ self.mean) - self.half_log_det

    @cached_property
    def half_log_det(self) -> float:
        """Half the log determinant of G."""
        return float(np.log(np.diag(self.factor)).sum())

    def natural(self) -> tuple[np.ndarray, np.ndarray]:
        """Two vectors that are linear in the mean functions and whose product is their squared norm."""
        return self.alpha, self.mean

    def norm(self) -> float:
        """Squared norm of the mean in the kernel's space, ``alpha' K alpha``."""
        return float(self.alpha @ self.mean)

    def dof(self) -> float:
        """Trace of the matrix that maps working responses to fits."""
        inverse = solve_triangular(self.factor, np.eye(len(self.s)), lower=True)
        return float(len(self.s) - np.sum(inverse**2))

    def predict(self, cross: np.ndarray, diagonal: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) at inputs with covariances ``cross`` (m, n) and prior variances (m,)."""
        half = solve_triangular(self.factor, self.s[:, None] * cross.T, lower=True, check_finite=False)
        return cross @ self.alpha, np.maximum(diagonal - np.sum(half**2, axis=0), 0.0)

    def corrected(self, prior: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Weights (size, n) of the covariance functions that turn draws (size, n) of the prior into the posterior's.

        ``prior + weights @ K`` are draws of the function values; with the covariance of any other variable and f in the
        place of K they are draws of that variable, if it was drawn from the prior together with f.
        """
        noise = rng.standard_normal(prior.shape)
        miss = cho_solve((self.factor, True), (self.s * prior + noise).T).T
        return np.asarray(self.alpha - self.s * miss)

    def draw(self, rng: np.random.Generator, root: np.ndarray, size: int = 1) -> np.ndarray:
        """Draws (size, n): prior draws by a ``root`` of K, put right by the rows."""
        prior = root @ rng.standard_normal((root.shape[1], size))
        noise = rng.standard_normal((len(self.s), size))
        miss = cho_solve((self.factor, True), self.s[:, None] * prior + noise)
        return np.asarray((self.mean[:, None] + prior - self.K @ (self.s[:, None] * miss)).T)

    def gradient(self) -> np.ndarray:
        """Derivative of log Z in K, (n, n)."""
        half = solve_triangular(self.factor, np.diag(self.s), lower=True)
        return np.asarray(0.5 * (np.outer(self.alpha, self.alpha) - half.T @ half))

    def grown(
        self, cross: np.ndarray, corner: np.ndarray, omega: np.ndarray, nu: np.ndarray
    ) -> FunctionConditional:
        """The law with m more values, by extending the factor in O(n^2 m).

        ``cross`` (m, n) and ``corner`` (m, m) are their covariances with the old values and with each other.
        """
        s = np.sqrt(omega)
        below = solve_triangular(self.factor, self.s[:, None] * cross.T * s, lower=True).T
        G = s[:, None] * corner * s + np.eye(len(s)) - below @ below.T
        n, m = len(self.s), len(s)
        factor = np.zeros((n + m, n + m))
        factor[:n, :n], factor[n:, :n], factor[n:, n:] = self.factor, below, np.linalg.cholesky(G)
        K = np.block([[self.K, cross.T], [cross, corner]])
        return FunctionConditional(K, np.append(self.s, s), np.append(self.nu, nu), factor)


@dataclass(frozen=True, eq=False)
class AlignedConditional:
    r"""Law of function values (n, T), covariance :math:`B \otimes k`, given Y (n, T) with noise of one variance."""

    B: np.ndarray
    k: np.ndarray
    Y: np.ndarray
    noise: float
    """Variance."""

    @cached_property
    def _eigen(self) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        b, U = np.linalg.eigh(self.B)
        d, V = np.linalg.eigh(self.k)
        b, d = np.maximum(b, 0.0), np.maximum(d, 0.0)
        return b, U, d, V, d[:, None] * b + self.noise

    @cached_property
    def alpha(self) -> np.ndarray:
        """``(B (x) k + noise I)^-1 vec Y`` as (n, T)."""
        _, U, _, V, total = self._eigen
        return np.asarray(V @ ((V.T @ self.Y @ U) / total) @ U.T)

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean, (n, T)."""
        return np.asarray(self.k @ self.alpha @ self.B)

    @cached_property
    def log_evidence(self) -> float:
        """Log Z, which is the log marginal likelihood without ``-(n T log(2 pi noise) + |Y|^2 / noise) / 2``."""
        fit = np.sum(self.Y**2) / self.noise - np.sum(self.Y * self.alpha)
        return float(0.5 * fit) - self.half_log_det

    @cached_property
    def half_log_det(self) -> float:
        """Half the log determinant of ``I + B (x) k / noise``."""
        return float(0.5 * np.log(self._eigen[-1] / self.noise).sum())

    def dof(self) -> float:
        """Trace of the matrix that maps responses to fits."""
        return float(np.sum(1.0 - self.noise / self._eigen[-1]))

    def norm(self) -> float:
        """Squared norm of the mean in the kernel's space."""
        return float(np.sum(self.alpha * self.mean))

    def predict(
        self, weights: np.ndarray, cross: np.ndarray, diagonal: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) where rows have covariances ``weights`` (m, T) with tasks and ``cross`` (m, n)."""
        _, U, _, V, total = self._eigen
        mean = np.einsum("mn,nt,mt->m", cross, self.alpha, weights, optimize=True)
        left, right = (cross @ V) ** 2, (weights @ U) ** 2
        explained = np.einsum("mn,nt,mt->m", left, 1.0 / total, right, optimize=True)
        return mean, np.maximum(diagonal - explained, 0.0)

    def draw(self, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        """Draws (size, n, T)."""
        b, U, d, V, total = self._eigen
        prior = np.sqrt(d[:, None] * b)
        sd = np.sqrt(self.noise / total) * prior
        white = rng.standard_normal((size, *total.shape))
        return np.asarray(self.mean + V @ (sd * white) @ U.T)

    def gradient(self) -> tuple[np.ndarray, np.ndarray]:
        """Derivatives of log Z in B (T, T) and k (n, n)."""
        b, U, d, V, total = self._eigen
        a = (V.T @ self.Y @ U) / total
        by_B = a.T @ (d[:, None] * a) - np.diag(np.sum(d[:, None] / total, axis=0))
        by_k = (a * b) @ a.T - np.diag(np.sum(b / total, axis=1))
        return 0.5 * U @ by_B @ U.T, 0.5 * V @ by_k @ V.T
