r"""Laplace's evidence of latent functions under Vecchia's approximation, for responses of any smooth kind.

.. math:: f = T \xi = L c + \Phi S^{1/2} \omega, \quad \xi = (c, \omega) \sim N(0, I)

with L of :mod:`zoo.latent.vecchia_factor` and fixed features :math:`\Phi`, which all rows share, with weights of
variances S. With :math:`K = TT'`, and the information :math:`W = R^2` of the responses at the mode,

.. math:: \log q(y) = \log p(y | T \hat\xi) - \tfrac12 \hat\xi'\hat\xi - \tfrac12 \log \det A, \quad A = I + RKR .

A product with A takes two products with the sparse factor. Newton's steps, the movement of the mode and posterior draws
are solved by conjugate gradients, the determinant by quadrature (:mod:`zoo.latent.krylov`), both preconditioned by the
law of :math:`R f` with noise added (:class:`zoo.latent.vecchia_coordinates.Preconditioner`). For the determinant, which
is that of :math:`CAC'` less that of :math:`CC'`, any fixed C serves, so it needs no derivative. Few latents are served
by dense algebra: by the same formulas with the unit vectors for those of Lanczos, and :math:`A^{-1}` for M.

With s the derivative of the evidence in f through W, and :math:`e = (K^{-1} + W)^{-1} s`, the movement of the mode adds
:math:`e'(dg - d(K^{-1}) \hat f)`, g the slope of the log density. Of vectors X = C'V and weights M of
:mod:`zoo.latent.krylov`

.. math:: \sum_{ab} M_{ab}\, x_a' dA\, x_b = \sum_{ab} M_{ab} \big( 2 x_a' dR\, K R x_b + x_a' R\, dK\, R x_b \big),

.. math:: dK = -B^{-1} dB\, LL' - LL' dB' B^{-T} + B^{-1} dD\, B^{-T} + \Phi\, dS\, \Phi' .

References
----------
Kündig, P. and Sigrist, F. (2025). Iterative methods for Vecchia-Laplace approximations for latent Gaussian process
models. JASA 120. arXiv 2310.12000. Its preconditioners are others: where rows say much, the prior's needs hundreds of
steps, and that of the rows with their noise few.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg import cho_solve, solve_triangular

from zoo.inference.responses import Density, Responses
from zoo.latent.krylov import log_quadrature
from zoo.latent.lower_factor import lower_factor
from zoo.latent.mode_movement import second_derivative
from zoo.latent.newton import climb
from zoo.latent.vecchia import Rows, in_blocks
from zoo.latent.vecchia_coordinates import Latents, Preconditioner
from zoo.latent.vecchia_factor import add_pulls, factor_of, pulled_slopes

__all__ = ["LatentEvidence", "LatentMode", "latent_evidence", "latent_mode", "posterior_root"]

# Where the steps of Newton's method end, by dense algebra and by conjugate gradients: the square of the distance to the
# mode as a share of the log density. And the residuals of draws.
_TOLERANCE_DENSE, _TOLERANCE, _RESIDUAL = 1e-18, 1e-15, 1e-6
# The least information of a row, for what is divided by it.
_LEAST = 1e-30
# The change at which Lanczos' steps end, as a share of the sum of a block of probes; and the columns of a block.
_QUADRATURE, _COLUMNS = 1e-9, 8


class LatentMode(NamedTuple):
    """The mode: coordinates (N + p,), f (N,), the density of the latents there, and whether it was reached."""

    latents: Latents
    coordinates: np.ndarray
    f: np.ndarray
    density: Density
    converged: bool

    @property
    def near(self) -> np.ndarray:
        """The part of f (N,) that has neighbours."""
        return self.latents.factor.times(self.coordinates[: self.latents.n, None])[:, 0]

    @property
    def weights(self) -> np.ndarray:
        """The weights (p,) of the fixed features."""
        return self.latents.root * self.coordinates[self.latents.n :]


class LatentEvidence(NamedTuple):
    """Log evidence; its derivatives in theta (Q,), in the logarithms of the variances (p,), and in the parameters of
    the responses.

    The derivatives are empty where they were not asked for.
    """

    value: float
    slopes: np.ndarray
    variance_slopes: np.ndarray
    parameter_slopes: np.ndarray


class _Pulls:
    """Derivatives in b (N, m), d (N,), the information (N,) and the logarithms of variances (p,), to be summed."""

    def __init__(self, latents: Latents):
        self.b = np.zeros(latents.factor.b.shape)
        self.d, self.W, self.variances = np.zeros(latents.n), np.zeros(latents.n), np.zeros(len(latents.root))

    def add(self, other: _Pulls) -> None:
        for name in ("b", "d", "W", "variances"):
            getattr(self, name).__iadd__(getattr(other, name))


def latent_mode(
    rows: Rows,
    responses: Responses,
    theta: np.ndarray,
    parameters: np.ndarray,
    neighbours: np.ndarray,
    features: np.ndarray,
    log_variances: np.ndarray,
    preconditioner: Preconditioner | None,
    start: np.ndarray | None = None,
    threads: int = 1,
) -> LatentMode:
    """The mode of the functions, by Newton's method.

    Parameters
    ----------
    rows : Rows
        The latents in their order; their y is not looked at.
    responses : Responses
        Those of the latents.
    theta : (Q,) array
        Logarithms of the parameters of the covariance.
    parameters : (k,) array
        What the responses have learned, in free coordinates.
    neighbours : (N, m) int
        Of every latent those before it that it is conditioned on, -1 behind the last of them.
    features : (N, p) array
        Fixed features; p may be 0.
    log_variances : (p,) array
        Logarithms of the prior variances of their weights.
    preconditioner : Preconditioner, optional
        As :func:`zoo.latent.vecchia_coordinates.preconditioner_of` gives it, at this theta or near it. Left out: by
        dense algebra.
    start : (N + p,) array, optional
        Coordinates to start from, where these are better than 0.
    threads : int

    Raises
    ------
    numpy.linalg.LinAlgError
        A covariance matrix is singular to rounding.
    """
    factor = factor_of(rows, theta, neighbours, threads)
    latents = Latents(factor, features, np.exp(0.5 * log_variances), preconditioner)
    tolerance = _TOLERANCE_DENSE if preconditioner is None else _TOLERANCE
    found = climb(latents, responses, parameters, latents.size, start, tolerance=tolerance)
    return LatentMode(latents, found.coordinates, found.f, found.density, found.converged)


def latent_evidence(
    rows: Rows,
    responses: Responses,
    theta: np.ndarray,
    parameters: np.ndarray,
    mode: LatentMode,
    probes: np.ndarray | None,
    threads: int = 1,
    gradient: bool = True,
) -> LatentEvidence:
    """Laplace's evidence and its derivatives.

    Parameters
    ----------
    rows, responses, theta, parameters
        As for :func:`latent_mode`.
    mode : LatentMode
        What that gave.
    probes : (N, l) array, optional
        Independent signs, for the determinant and its derivatives, where the mode has a preconditioner.
    threads : int
    gradient : bool
        Whether derivatives are computed.

    Raises
    ------
    numpy.linalg.LinAlgError
        A matrix is singular to rounding.
    """
    latents, W = mode.latents, mode.density.information
    log_det, pulls = _determinant(latents, W, probes, threads, gradient)
    value = mode.density.value - 0.5 * float(mode.coordinates @ mode.coordinates) - 0.5 * log_det
    if not gradient:
        return LatentEvidence(value, np.zeros(0), np.zeros(0), np.zeros(0))
    moved = None
    s = pulls.W * mode.density.information_slope
    if np.any(s):
        second = second_derivative(responses, mode.density, mode.f, parameters)
        second = W if second is None else second
        moved = latents.solve(latents.transposed(s[:, None]), second)[0][:, 0]
    _add_mode(pulls, mode, moved)
    inner = []
    shift = None if moved is None else latents.function(moved)
    for explicit, slope, information in responses.parameter_slopes(mode.f, parameters):
        total = explicit + float(pulls.W @ information)
        inner.append(total if shift is None else total + float(shift @ slope))
    slopes = pulled_slopes(rows, theta, latents.factor.neighbours, pulls.b, pulls.d, threads)
    return LatentEvidence(value, slopes, pulls.variances, np.array(inner))


def _determinant(
    latents: Latents, W: np.ndarray, probes: np.ndarray | None, threads: int, gradient: bool
) -> tuple[float, _Pulls]:
    """Log determinant of A, and the derivatives of minus a half of it."""
    pulls, R = _Pulls(latents), np.sqrt(np.maximum(W, _LEAST))
    C = latents.preconditioner
    if probes is None or C is None:
        assert latents.matrix is not None
        half = R[:, None] * latents.matrix
        factor = lower_factor(half @ half.T + np.eye(latents.n), "a matrix of latent functions")
        if gradient:
            inverse = cho_solve((factor, True), np.eye(latents.n), check_finite=False)
            _add_determinant(pulls, latents, R, np.eye(latents.n), -0.5 * inverse)
        return 2.0 * float(np.sum(np.log(np.diag(factor)))), pulls
    count = probes.shape[1]

    def work(start: int, end: int) -> tuple[float, _Pulls | None]:
        found = log_quadrature(
            lambda columns: latents.conditioned(columns, R),
            np.ascontiguousarray(probes[:, start:end]),
            _QUADRATURE,
        )
        if not gradient:
            return float(found.value.sum()), None
        own = _Pulls(latents)
        for s in range(end - start):
            vectors = C.transposed(np.ascontiguousarray(found.basis[:, :, s].T))
            _add_determinant(own, latents, R, vectors, (-0.5 / count) * found.weight[s])
        return float(found.value.sum()), own

    parts = in_blocks(count, work, threads, _COLUMNS)
    for _, own in parts:
        if own is not None:
            pulls.add(own)
    return C.log_det + sum(part[0] for part in parts) / count, pulls


def _add_determinant(pulls: _Pulls, latents: Latents, R: np.ndarray, X: np.ndarray, M: np.ndarray) -> None:
    """Add the derivatives of ``sum(M * X'AX)`` for vectors X (N, J) and a symmetric M (J, J)."""
    factor = latents.factor
    informed = R[:, None] * X
    back = factor.transposed(informed)
    near = factor.times(factor.sd[:, None] * back)
    weighted = back @ M
    add_pulls(factor.neighbours, weighted, near, 2.0, pulls.b)
    pulls.d += np.einsum("ij,ij->i", weighted, back)
    if len(latents.root):
        own = latents.root[:, None] * (latents.features.T @ informed)
        pulls.variances += np.einsum("ij,ij->i", own @ M, own)
        near += latents.features @ (latents.root[:, None] * own)
    pulls.W += np.einsum("ij,ij->i", X @ M, near) / R


def _add_mode(pulls: _Pulls, mode: LatentMode, moved: np.ndarray | None) -> None:
    """Add the derivatives of the log prior density of the mode's f, and of the movement of the mode.

    With xi the mode and e its movement in coordinates, these are that of ``-|xi|^2 / 2 - e'xi``, both at fixed
    functions with neighbours and fixed weights.
    """
    latents = mode.latents
    factor, n = latents.factor, latents.n
    c, omega = mode.coordinates[:n], mode.coordinates[n:]
    one = c / factor.sd
    near = factor.times(c[:, None])
    add_pulls(factor.neighbours, one[:, None], near, 1.0, pulls.b)
    pulls.d += 0.5 * one**2
    pulls.variances += 0.5 * omega**2
    if moved is None:
        return
    e = moved[:n] / factor.sd
    add_pulls(factor.neighbours, one[:, None], factor.times(moved[:n, None]), 1.0, pulls.b)
    add_pulls(factor.neighbours, e[:, None], near, 1.0, pulls.b)
    pulls.d += one * e
    pulls.variances += omega * moved[n:]


def posterior_root(
    mode: LatentMode, draws: int | None, seed: tuple[int, ...] = (), threads: int = 1
) -> tuple[np.ndarray, np.ndarray, bool]:
    r"""A root of the posterior covariance: of the functions with neighbours (N, S), and of the weights (p, S).

    Parameters
    ----------
    mode : LatentMode
    draws : int, optional
        Make S draws less their mean, :math:`\xi - T'R A^{-1} (RT\xi + \epsilon)` of standard normal :math:`\xi` and
        :math:`\epsilon`; the sum of their squares over S has the covariance for its mean. Left out: the exact root,
        of dense algebra, with S = N + p.
    seed : tuple of int
        What the draws start from.
    threads : int

    Returns
    -------
    near, weights : (N, S) and (p, S) array
    reached : bool
        Whether all systems were solved.
    """
    latents, W = mode.latents, mode.density.information
    size, n = latents.size, latents.n
    if draws is None:
        factor = latents.dense_factor(W)
        columns = solve_triangular(factor, np.eye(size), lower=True, trans=1, check_finite=False)
        return latents.factor.times(columns[:n]), latents.root[:, None] * columns[n:], True
    near, weights, R = np.empty((n, draws)), np.empty((len(latents.root), draws)), np.sqrt(W)

    def work(start: int, end: int) -> bool:
        # A generator of its own for each block: the same draws whatever the threads.
        rng = np.random.default_rng([*seed, start])
        white = rng.standard_normal((size, end - start))
        right = R[:, None] * latents.times(white) + rng.standard_normal((n, end - start))
        inner, reached = latents.solve_rows(right, R, _RESIDUAL)
        white -= latents.transposed(R[:, None] * inner)
        white /= np.sqrt(draws)
        near[:, start:end] = latents.factor.times(white[:n])
        weights[:, start:end] = latents.root[:, None] * white[n:]
        return reached

    reached = all(in_blocks(draws, work, threads, _COLUMNS))
    return near, weights, reached
