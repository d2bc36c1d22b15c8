r"""Latent Gaussian functions and responses of any kind: the mode, Laplace's evidence, and its derivatives.

The function f (n,) at the rows of the data has the prior N(0, K). Given responses, its posterior is approximated by a
normal law at its mode :math:`\hat f`, with precision :math:`K^{-1} + W`; for Gaussian noise that is exact. With
:math:`a = \nabla \log p(y|\hat f)`

.. math::

    \log q(y) = \log p(y|\hat f) - \tfrac12 a'\hat f - \tfrac12 \log|I + W^{1/2} K W^{1/2}|

(Rasmussen & Williams 2006, eq 3.32). W is minus the second derivative, or, where the log density is not concave, the
expected information. The derivative with respect to K is the matrix

.. math::

    S = \tfrac12 a a' - \tfrac12 R + \tfrac12 (u a' + a u'), \quad R = (W^{-1} + K)^{-1}, \quad u = (I - R K) s,
    \quad s_n = -\tfrac12 \Sigma_{nn}\, \partial W_n / \partial f_n

(their section 5.5.1; the last term is the movement of the mode, which :mod:`zoo.latent.mode_movement` has where W is
the expected information), and :math:`\Sigma = (K^{-1} + W)^{-1}`. Both forms of
K here say what R does to a vector and what S does to the parts that K is made of, so that no matrix (n, n) is formed
for the second:

``Dense``
    K itself.
``LowRank``
    :math:`K = A' K_{uu} A + \Lambda` with :math:`A = K_{uu}^{-1} K_{uf}` and a diagonal :math:`\Lambda`: inducing
    points.
    :math:`R = D - D V' M^{-1} V D`, :math:`V = L^{-1} K_{uf}`, :math:`D = W / (1 + \Lambda W)`, :math:`M = I + V D V'`.
"""

from __future__ import annotations

from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from zoo.inference.responses import Density, NormalResponses, Responses
from zoo.latent.function_conditional import JITTER
from zoo.latent.lower_factor import lower_factor
from zoo.latent.mode_movement import second_derivative, solve_near
from zoo.latent.newton import Step, climb

__all__ = ["Dense", "Evidence", "LowRank", "Mode", "evidence", "find_mode"]


class Dense:
    """A covariance matrix (n, n)."""

    def __init__(self, K: np.ndarray):
        self.K = K

    def times(self, b: np.ndarray) -> np.ndarray:
        """The product K b."""
        return self.K @ b

    def squared_norm(self, mode: Mode) -> float:
        """The square ``f' K^-1 f``."""
        return float(mode.a @ mode.f)

    def with_information(self, W: np.ndarray) -> _DenseSolver:
        """What follows from the information W (n,), 0 or above."""
        return _DenseSolver(self.K, W)

    @staticmethod
    def slopes(mode: Mode, u: np.ndarray | None) -> dict[str, np.ndarray]:
        """S, the derivative in K."""
        S = np.outer(0.5 * mode.a if u is None else 0.5 * mode.a + u, mode.a)
        if u is not None:
            S = 0.5 * (S + S.T)
        S -= 0.5 * mode.solver.R_matrix
        return {"K": S}


class _DenseSolver:
    def __init__(self, K: np.ndarray, W: np.ndarray):
        self.K, self.root = K, np.sqrt(W)
        B = self.root[:, None] * K * self.root
        B[np.diag_indices_from(B)] += 1.0
        self.factor = lower_factor(B, "a covariance")
        self.log_det = 2.0 * float(np.sum(np.log(np.diag(self.factor))))

    def R(self, b: np.ndarray) -> np.ndarray:
        return self.root * cho_solve((self.factor, True), self.root * b, check_finite=False)

    @cached_property
    def R_matrix(self) -> np.ndarray:
        inverse = lapack.dpotri(self.factor, lower=1)[0]
        inverse = np.tril(inverse) + np.tril(inverse, -1).T
        return np.asarray(self.root[:, None] * inverse * self.root)

    def R_diagonal(self) -> np.ndarray:
        return np.diag(self.R_matrix).copy()

    def variance(self) -> np.ndarray:
        """Both ``K - K R K`` and ``(1 - R / W) / W``: a row that says much keeps its digits in the second alone."""
        W, kept = self.root**2, self.R_diagonal()
        strong = kept < 0.5 * W
        result = np.empty(len(W))
        result[strong] = (1.0 - kept[strong] / W[strong]) / W[strong]
        weak = np.flatnonzero(~strong)
        half = solve_triangular(
            self.factor, self.root[:, None] * self.K[:, weak], lower=True, check_finite=False
        )
        result[weak] = np.diag(self.K)[weak] - np.einsum("ij,ij->j", half, half)
        return result

    def reduction(self, cross: np.ndarray) -> np.ndarray:
        """``diag(C R C')`` of covariances C (m, n) with other places."""
        half = solve_triangular(self.factor, (cross * self.root).T, lower=True, check_finite=False)
        return np.asarray(np.einsum("ij,ij->j", half, half))


class LowRank:
    """The covariance that inducing points leave: ``Q + diag(residual)``.

    Parameters
    ----------
    Kuu : (m, m) array
        Covariance of the function at the inducing points.
    Kuf : (m, n) array
        Its covariance with the function at the rows.
    diagonal : (n,) array
        Variance of the function at the rows.
    residual : bool
        Whether the rows keep their own variance, ``diagonal - diag Q`` (FITC, Snelson & Ghahramani 2005), or none
        (VFE).
    """

    def __init__(self, Kuu: np.ndarray, Kuf: np.ndarray, diagonal: np.ndarray, residual: bool):
        jitter = JITTER * float(np.mean(np.diag(Kuu)))
        self.factor = lower_factor(Kuu + jitter * np.eye(len(Kuu)), "a covariance")
        self.V = solve_triangular(self.factor, Kuf, lower=True, check_finite=False)
        self.lost = np.maximum(diagonal - np.einsum("ij,ij->j", self.V, self.V), 0.0)
        self.residual = residual
        self.own = self.lost if residual else np.zeros(len(diagonal))

    def times(self, b: np.ndarray) -> np.ndarray:
        """The product K b."""
        return self.V.T @ (self.V @ b) + self.own * b

    def with_information(self, W: np.ndarray) -> _LowRankSolver:
        """What follows from the information W (n,), 0 or above."""
        return _LowRankSolver(self.V, self.own, W)

    def whitened(self, mode: Mode) -> np.ndarray:
        r"""The function at the inducing points at the mode, times :math:`L^{-1}` (m,).

        It is V a; but where rows say much, a holds residuals over their small variance, which cancel in that product.
        At the mode :math:`(K + W^{-1}) a = f + W^{-1} \nabla \log p`, and :math:`V R = M^{-1} V D`.
        """
        known = mode.density.information * mode.f + mode.density.slope
        sums = self.V @ (known / (1.0 + self.own * mode.density.information))
        return np.asarray(cho_solve((mode.solver.factor, True), sums, check_finite=False))

    def squared_norm(self, mode: Mode) -> float:
        """The square ``f' K^-1 f``, as a sum of squares: wrong digits make the evidence smaller, and never larger."""
        white = self.whitened(mode)
        return float(white @ white + self.own @ mode.a**2)

    def slopes(
        self, mode: Mode, u: np.ndarray | None, extra: np.ndarray | float = 0.0
    ) -> dict[str, np.ndarray]:
        """Derivatives in ``Kuu``, ``Kuf`` and ``diagonal``; ``extra`` is that in the variance that Q loses."""
        a, solver, Va = mode.a, mode.solver, self.whitened(mode)
        VS = np.outer(0.5 * Va, a) - 0.5 * solver.VR()
        diagonal = 0.5 * a * a - 0.5 * solver.R_diagonal()
        if u is not None:
            Vu = self.V @ u
            VS += 0.5 * (np.outer(Vu, a) + np.outer(Va, u))
            diagonal = diagonal + u * a
        lost = diagonal * float(self.residual) + extra
        half = solve_triangular(
            self.factor, VS - self.V * lost, lower=True, trans=1, check_finite=False
        )  # A (S - diag lost)
        A = solve_triangular(self.factor, self.V, lower=True, trans=1, check_finite=False)
        return {"Kuf": 2.0 * half, "Kuu": -half @ A.T, "diagonal": lost}


class _LowRankSolver:
    def __init__(self, V: np.ndarray, own: np.ndarray, W: np.ndarray):
        self.V, self.own, self.W = V, own, W
        self.D = W / (1.0 + own * W)
        self.VD = V * self.D
        M = self.VD @ V.T
        M[np.diag_indices_from(M)] += 1.0
        self.factor = lower_factor(M, "a covariance")
        self.log_det = 2.0 * float(np.sum(np.log(np.diag(self.factor)))) + float(np.sum(np.log1p(own * W)))
        self._half = solve_triangular(self.factor, V, lower=True, check_finite=False)

    def R(self, b: np.ndarray) -> np.ndarray:
        return self.D * b - self.VD.T @ cho_solve((self.factor, True), self.VD @ b, check_finite=False)

    def VR(self) -> np.ndarray:
        """``V R = M^{-1} V D``."""
        return np.asarray(cho_solve((self.factor, True), self.VD, check_finite=False))

    @property
    def _shared_variance(self) -> np.ndarray:
        return np.asarray(np.einsum("ij,ij->j", self._half, self._half))

    def R_diagonal(self) -> np.ndarray:
        return self.D - self.D**2 * self._shared_variance

    def variance(self) -> np.ndarray:
        kept = 1.0 / (1.0 + self.own * self.W)
        return kept**2 * self._shared_variance + self.own * kept


# ---------------------------------------------------------------- the mode


class Mode(NamedTuple):
    """The mode: f and a = K^-1 f there (n,), the density, and the covariance with the information added."""

    f: np.ndarray
    a: np.ndarray
    density: Density
    solver: Any
    converged: bool


class _Function:
    """F in the coordinates ``a = K^-1 f``."""

    def __init__(self, K: Dense | LowRank):
        self.K = K

    def function(self, c: np.ndarray) -> np.ndarray:
        return self.K.times(c)

    def penalty(self, c: np.ndarray, f: np.ndarray) -> float:
        return 0.5 * float(c @ f)

    def step(self, c: np.ndarray, density: Density, W: np.ndarray) -> Step:
        left = density.slope - c  # 0 at the mode, so that rounding in the step vanishes there too
        step = left - self.K.with_information(W).R(self.K.times(left))
        f_step = self.K.times(step)
        return Step(step, f_step, float(left @ f_step))


def find_mode(
    K: Dense | LowRank, responses: Responses, parameters: np.ndarray, start: np.ndarray | None = None
) -> Mode:
    r"""Newton's method (:mod:`zoo.latent.newton`) in ``a = K^-1 f`` (Rasmussen & Williams 2006, algorithm 3.1).

    A step of a is :math:`(I - R K)(\nabla \log p(y|f) - a)`: the new a itself would be a difference of numbers of the
    size of W f, which has no digits where a row says much. For normal responses one step from 0 is all, ``a = R y``.

    Parameters
    ----------
    start : (n,) array, optional
        ``a`` to start from, where that is better than 0.
    """
    if isinstance(responses, NormalResponses):
        solver = K.with_information(responses.information(parameters))
        a = solver.R(responses.y)
        f, density = responses.at_mode(a, K.times(a), parameters)
        return Mode(f, a, density, solver, True)
    found = climb(_Function(K), responses, parameters, responses.size, start)
    return Mode(
        found.f,
        found.coordinates,
        found.density,
        K.with_information(found.density.information),
        found.converged,
    )


# ---------------------------------------------------------------- the evidence


class Evidence(NamedTuple):
    """Log evidence; its derivatives in the parts of K by name, and in the parameters of the responses."""

    value: float
    slopes: dict[str, np.ndarray]
    parameter_slopes: np.ndarray
    mode: Mode


def evidence(
    K: Dense | LowRank, responses: Responses, parameters: np.ndarray, start: np.ndarray | None = None
) -> Evidence:
    """Laplace's evidence, or the exact one of Gaussian noise, with its derivatives.

    For a ``LowRank`` covariance without residual the value is the variational bound of Titsias (2009), for Gaussian
    noise: half the information times the variance lost is taken off.
    """
    mode = find_mode(K, responses, parameters, start)
    f, density, solver = mode.f, mode.density, mode.solver
    W = density.information
    value = density.value - 0.5 * K.squared_norm(mode) - 0.5 * solver.log_det
    moving = bool(np.any(density.information_slope))
    variance = solver.variance()
    u = s = None
    if moving:
        s = -0.5 * variance * density.information_slope
        second = second_derivative(responses, density, f, parameters)
        u = s - solver.R(K.times(s))
        if second is not None:
            u = solve_near(lambda b: b + second * K.times(b), lambda b: b - solver.R(K.times(b)), s)
    bound = isinstance(K, LowRank) and not K.residual
    if isinstance(K, LowRank):
        lost = -0.5 * W if bound else np.zeros(len(W))
        slopes = K.slopes(mode, u, lost)
        value += float(lost @ K.lost)
    else:
        slopes = K.slopes(mode, u)
    inner = []
    for explicit, slope, information in responses.parameter_slopes(f, parameters):
        total = explicit - 0.5 * float(variance @ information)
        if bound:
            total -= 0.5 * float(information @ K.lost)  # type: ignore[union-attr]
        if u is not None:
            total += float(u @ K.times(slope))
        inner.append(total)
    return Evidence(value, slopes, np.array(inner), mode)
