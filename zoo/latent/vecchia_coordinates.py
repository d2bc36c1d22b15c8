r"""Latent functions under Vecchia's approximation in white coordinates, and a preconditioner of their posterior.

.. math:: f = T \xi = L c + \Phi S^{1/2} \omega, \quad \xi = (c, \omega) \sim N(0, I)

with L of :mod:`zoo.latent.vecchia_factor` and fixed features :math:`\Phi`, which all rows share, with weights of
variances S. With :math:`K = TT'` and the information :math:`W = R^2` of the responses, all that Laplace's method asks
for is made of :math:`A = I + RKR`. A product with A takes two products with the sparse factor.
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_solve

from zoo.inference.responses import Density, Responses
from zoo.latent.krylov import conjugate_gradients
from zoo.latent.lower_factor import lower_factor
from zoo.latent.newton import Step
from zoo.latent.vecchia import Rows
from zoo.latent.vecchia_factor import Factor, factor_of

__all__ = ["GroupedResponses", "Latents", "Preconditioner", "preconditioner_of"]

# Residuals of the solutions by conjugate gradients.
_RESIDUAL = 1e-9
# The least information of a row for the preconditioner, which divides by it: as it is, and as a share of the largest.
_LEAST, _LEAST_SHARE = 1e-30, 1e-6


class GroupedResponses:
    """Responses of rows as those of latents, several of which may belong to one latent.

    Parameters
    ----------
    responses : Responses
        Those of the rows.
    latent : (n,) int
        The latent of each row.
    size : int
        Number of latents.
    """

    def __init__(self, responses: Responses, latent: np.ndarray, size: int):
        self.responses, self.latent, self.size = responses, latent, size

    def _sum(self, rows: np.ndarray) -> np.ndarray:
        return np.bincount(self.latent, rows, self.size)

    def density(self, f: np.ndarray, parameters: np.ndarray) -> Density:
        """See :class:`zoo.inference.responses.Responses`."""
        value, *rows = self.responses.density(f[self.latent], parameters)
        return Density(value, *(self._sum(row) for row in rows))

    def parameter_slopes(
        self, f: np.ndarray, parameters: np.ndarray
    ) -> list[tuple[float, np.ndarray, np.ndarray]]:
        """See :class:`zoo.inference.responses.Responses`."""
        found = self.responses.parameter_slopes(f[self.latent], parameters)
        return [(value, self._sum(slope), self._sum(information)) for value, slope, information in found]


class Preconditioner:
    r"""A matrix C (N, N) with :math:`C (I + RKR) C'` near the identity.

    The law of :math:`R f_c + \epsilon` under Vecchia's approximation, of the same neighbours, has the factor G; with
    :math:`Y = G^{-1} R \Phi S^{1/2}` it is :math:`C = (I + YY')^{-1/2} G^{-1}`.
    """

    def __init__(self, factor: Factor, features: np.ndarray):
        self.factor = factor
        Y = factor.solve(features)
        self.columns, size, _ = np.linalg.svd(Y, full_matrices=False)
        self.shrunk = 1.0 / np.sqrt(1.0 + size**2) - 1.0
        self.log_det = 2.0 * float(np.sum(np.log(factor.sd))) + float(np.sum(np.log1p(size**2)))
        """The log determinant of the inverse of C'C."""

    def _shrink(self, columns: np.ndarray) -> np.ndarray:
        if len(self.shrunk):
            columns += self.columns @ (self.shrunk[:, None] * (self.columns.T @ columns))
        return columns

    def times(self, columns: np.ndarray) -> np.ndarray:
        """The product ``C columns`` (N, k)."""
        return self._shrink(self.factor.solve(columns))

    def transposed(self, columns: np.ndarray) -> np.ndarray:
        """The product ``C' columns`` (N, k)."""
        return self.factor.solve_transposed(self._shrink(columns.copy()))


class Latents:
    """The functions at N latents in N + p coordinates that are independent and normal.

    Parameters
    ----------
    factor : Factor
    features : (N, p) array
        Fixed features, which all rows share.
    root : (p,) array
        Prior standard deviations of their weights.
    preconditioner : Preconditioner, optional
        Left out: the matrix T is formed, for algebra at the cost of the cube.
    """

    def __init__(
        self, factor: Factor, features: np.ndarray, root: np.ndarray, preconditioner: Preconditioner | None
    ):
        self.factor, self.features, self.root = factor, features, root
        self.n = len(factor.sd)
        self.size = self.n + len(root)
        self.preconditioner = preconditioner
        self.matrix = self.times(np.eye(self.size)) if preconditioner is None else None

    def times(self, columns: np.ndarray) -> np.ndarray:
        """The product ``T columns`` (N, k)."""
        result = self.factor.times(columns[: self.n])
        if len(self.root):
            result += self.features @ (self.root[:, None] * columns[self.n :])
        return result

    def transposed(self, columns: np.ndarray) -> np.ndarray:
        """The product ``T' columns`` (N + p, k)."""
        result = np.empty((self.size, columns.shape[1]))
        result[: self.n] = self.factor.sd[:, None] * self.factor.transposed(columns)
        result[self.n :] = self.root[:, None] * (self.features.T @ columns)
        return result

    def conditioned(self, columns: np.ndarray, R: np.ndarray) -> np.ndarray:
        """The product ``C A C' columns`` (N, k)."""
        C = self.preconditioner
        assert C is not None
        x = C.transposed(columns)
        x += R[:, None] * self.times(self.transposed(R[:, None] * x))
        return C.times(x)

    def dense_factor(self, W: np.ndarray) -> np.ndarray:
        """Lower Cholesky factor of ``I + T'WT``, where T is formed."""
        assert self.matrix is not None
        P = self.matrix.T @ (W[:, None] * self.matrix)
        P[np.diag_indices_from(P)] += 1.0
        return lower_factor(P, "a matrix of latent functions")

    def solve(
        self, right: np.ndarray, W: np.ndarray, tolerance: float = _RESIDUAL
    ) -> tuple[np.ndarray, bool]:
        r"""The solution (N + p, k) of ``(I + T'WT) x = right``, and whether it was reached.

        By :math:`(I + T'WT)^{-1} = I - T'R A^{-1} RT`, and as it stands where a W is below 0.
        """
        if self.matrix is not None:
            return cho_solve((self.dense_factor(W), True), right, check_finite=False), True
        if np.any(W < 0.0):
            return conjugate_gradients(
                lambda columns: columns + self.transposed(W[:, None] * self.times(columns)), right, tolerance
            )
        R = np.sqrt(W)
        inner, reached = self.solve_rows(R[:, None] * self.times(right), R, tolerance)
        return right - self.transposed(R[:, None] * inner), reached

    def solve_rows(self, right: np.ndarray, R: np.ndarray, tolerance: float) -> tuple[np.ndarray, bool]:
        """The solution (N, k) of ``A x = right``, and whether it was reached."""
        C = self.preconditioner
        assert C is not None
        y, reached = conjugate_gradients(
            lambda columns: self.conditioned(columns, R), C.times(right), tolerance
        )
        return C.transposed(y), reached

    # ------------------------------------------------------------ what Newton's method asks for

    def function(self, c: np.ndarray) -> np.ndarray:
        """See :class:`zoo.latent.newton.Latent`."""
        return self.times(c[:, None])[:, 0]

    def penalty(self, c: np.ndarray, f: np.ndarray) -> float:
        """See :class:`zoo.latent.newton.Latent`."""
        return 0.5 * float(c @ c)

    def step(self, c: np.ndarray, density: Density, W: np.ndarray) -> Step:
        """See :class:`zoo.latent.newton.Latent`."""
        gradient = self.transposed(density.slope[:, None])[:, 0] - c
        step = self.solve(gradient[:, None], W)[0][:, 0]
        return Step(step, self.function(step), float(gradient @ step))


def preconditioner_of(
    rows: Rows,
    theta: np.ndarray,
    neighbours: np.ndarray,
    features: np.ndarray,
    log_variances: np.ndarray,
    information: np.ndarray,
    threads: int = 1,
) -> Preconditioner:
    """The preconditioner at some hyper-parameters and an information (N,).

    Other parameters as for :func:`zoo.latent.vecchia_latent.latent_mode`.
    """
    W = np.maximum(information, max(_LEAST, _LEAST_SHARE * float(np.max(information))))
    scaled = np.sqrt(W)[:, None] * features * np.exp(0.5 * log_variances)
    return Preconditioner(factor_of(rows, theta, neighbours, threads, W), scaled)
