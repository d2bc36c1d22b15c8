"""Coordinates for EM: of the coefficients that rows see, and of a population without bounds."""

from __future__ import annotations

import numpy as np
from scipy.linalg import blas, lapack, qr, solve_triangular

from zoo.inference.em.parts import (
    SMALLEST,
    NoisePenalty,
    Penalty,
    Population,
    Prior,
    cholesky_factor,
    log_diagonal,
    mirror,
)

__all__ = ["LogCholesky", "Span", "merge_equal"]

# Largest condition number of the inputs with functions as coordinates: the penalty has an inverse of its square.
_CONDITION = 1e5


class Span:
    """The part of the coefficients' space that rows see (theorem 5.3), and coordinates u in it.

    Coefficients are w = G v, where the scale of v is a multiple of I. In weights u = V'v for an orthonormal basis V of
    the used inputs; where these are independent of each other, functions may be the coordinates: u = F v.
    """

    def __init__(self, inputs: np.ndarray, tau: float, scale: np.ndarray | None):
        self.tau, self.psi = float(tau), float(tau) if scale is None else 1.0
        self.G = None if scale is None else cholesky_factor(scale, "scale")
        self.inputs = inputs if self.G is None else inputs @ self.G
        n, self.r = inputs.shape
        Q, R, _ = qr(self.inputs.T, mode="economic", pivoting=True)
        diagonal = np.abs(np.diag(R))
        self.q = max(1, int((diagonal > max(n, self.r) * np.finfo(float).eps * diagonal[0]).sum()))
        self.V = Q[:, : self.q]
        self.features = np.asfortranarray(self.inputs @ self.V)
        self.invertible = n == self.q and lapack.dtrcon(R[:, :n], norm="1", uplo="U")[0] * _CONDITION > 1.0
        self.log_features = float(np.log(diagonal[: self.q]).sum()) if self.invertible else 0.0
        self.as_functions = False

    def prior(self, pi: float, noise: NoisePenalty) -> Prior:
        """The penalty of u; its constant stands for the rest of w, and for the change of variables."""
        rest = self.r - self.q
        log_det = rest * np.log(self.psi / self.tau)
        if self.G is not None:
            log_det += 2.0 * log_diagonal(self.G)
        scale: float | np.ndarray = self.psi
        if self.as_functions:
            log_det -= 2.0 * self.log_features
            scale = np.asfortranarray(self.psi * self.features @ self.features.T)
        return Prior(pi, self.tau, scale, -0.5 * self.tau * (log_det + rest), noise)

    def enter(self, mean: np.ndarray, cov: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and covariance of u from those of w."""
        to_u = self.inputs if self.as_functions else self.V.T
        if self.G is not None:
            to_u = solve_triangular(self.G, to_u.T, lower=True, trans="T").T
        cov = np.asfortranarray(to_u @ cov @ to_u.T)
        return to_u @ mean, (cov + cov.T) / 2.0

    def leave(
        self, mean: np.ndarray, cov: np.ndarray, points: np.ndarray
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Mean, covariance and coefficients of w from those of u."""
        to_w = np.linalg.solve(self.features.T, self.V.T).T if self.as_functions else self.V
        cov = to_w @ cov @ to_w.T
        if self.q < self.r:
            cov += (self.psi / self.tau) * (np.eye(self.r) - self.V @ self.V.T)
        if self.G is not None:
            to_w, cov = self.G @ to_w, self.G @ cov @ self.G.T
        return to_w @ mean, (cov + cov.T) / 2.0, to_w @ points


def merge_equal(inputs: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Distinct inputs and the number of each row's. Equal to 1e-12 of the largest entry counts as equal.

    Equal rows are neighbours once sorted by their product with a random direction.
    """
    tolerance = 1e-12 * np.abs(inputs).max()
    direction = np.random.default_rng(0).standard_normal(inputs.shape[1])
    order = np.argsort(inputs @ direction, kind="stable")
    ranked = inputs[order]
    new = np.ones(len(inputs), dtype=bool)
    new[1:] = (np.abs(np.diff(ranked, axis=0)) > tolerance).any(axis=1)
    number = np.empty(len(inputs), dtype=np.intp)
    number[order] = np.cumsum(new) - 1
    return ranked[new], number


class LogCholesky:
    """Unconstrained coordinates of a population: mean, Cholesky factor with its diagonal in logarithms, log variance.

    The metric is near the Fisher information of the complete data, so that a unit weighs the same in each block.
    """

    def __init__(self, q: int, prior: Penalty, counts: np.ndarray, by_task: bool):
        self.q, self.prior, self.counts, self.by_task = q, prior, counts, by_task
        self.lower = np.tril_indices(q)

    def pack(self, population: Population) -> np.ndarray:
        """Vector of a population."""
        z = population.root.copy()
        np.fill_diagonal(z, np.log(np.diag(z)))
        return np.concatenate([population.mean, z[self.lower], np.log(np.atleast_1d(population.variance))])

    def unpack(self, x: np.ndarray) -> Population:
        """Population of a vector."""
        mean, z, variance = np.split(x, [self.q, self.q + len(self.lower[0])])
        root = np.zeros((self.q, self.q), order="F")
        root[self.lower] = z
        scales = np.exp(np.diag(root))
        variance = np.maximum(np.exp(variance), self.prior.noise.floor**2)
        sizes = np.concatenate([scales, variance])
        if not (np.isfinite(x).all() and sizes.min() > SMALLEST and sizes.max() < 1.0 / SMALLEST):
            raise FloatingPointError("an extrapolation left the range of float64")
        np.fill_diagonal(root, scales)
        cov = blas.dsyrk(1.0, root, lower=1)
        mirror(cov)
        return Population(mean, cov, root, variance if self.by_task else variance[0])

    def metric(self, population: Population) -> np.ndarray:
        """Weights of the vector's changes."""
        T, sd = len(self.counts), np.sqrt(np.diag(population.cov))
        weight = T + self.prior.tau
        z = np.sqrt(weight) / np.repeat(sd[:, None], self.q, axis=1)
        np.fill_diagonal(z, np.sqrt(2.0 * weight))
        noise = np.sqrt((self.counts if self.by_task else self.counts.sum(keepdims=True)) / 2.0)
        return np.concatenate([np.sqrt(T + self.prior.pi) / sd, z[self.lower], noise])
