r"""Gaussian conditionals of :mod:`zoo.latent.task_weights` where there are more features than rows.

The coefficients u (D, T) are N(0, B (x) Q) with :math:`B = \mathrm{diag}(d) + W W'` and :math:`Q = R R'`, and the rows
say :math:`\sum_n -\omega_n f_n^2 / 2 + \nu_n f_n` with :math:`f_n = u_{t(n)}' x_n`. Both classes below are this one
law, by its cheaper sides, and have the methods of :class:`~zoo.latent.task_weights.WeightConditional`.

:class:`DualConditional` works with the n function values. Their covariance is
:math:`K_{ij} = B_{t(i) t(j)} x_i' Q x_j`, and that of :math:`u_l` with :math:`f_i` is :math:`B_{l t(i)} Q x_i`. With
:math:`\alpha` of :mod:`zoo.latent.function_conditional` the mean of the coefficients is therefore
:math:`E u_l = \sum_i B_{l t(i)} Q x_i \alpha_i`. A draw takes u from the prior and puts it right by the rows
(Matheron's rule): with :math:`f^0 = f(u^0)`, white noise :math:`\epsilon`, :math:`s = \sqrt\omega` and
:math:`G = I + \mathrm{diag}(s) K \mathrm{diag}(s)`, it is

.. math:: u_l = u^0_l + \sum_i B_{l t(i)} Q x_i \big( \alpha_i - s_i (G^{-1} (s f^0 + \epsilon))_i \big),

whose mean and covariance are those of the posterior. It takes O(n^3 + n^2 D) for the law and O((n + T) D) for a draw.

:class:`SpanConditional` is for inputs that several tasks share. In white coordinates, :math:`u = R a`, the rows see
:math:`V'a_t` alone, where the r columns of V are an orthonormal basis of the span of the rows of XR. The columns of a
are N(0, B (x) I), and I is the same in every rotation. So :math:`h = V'a` and :math:`(I - V V') a` are independent a
priori, h has the prior N(0, B (x) I_r), and only h meets the rows: the posterior of h is that of ``WeightConditional``
with the inputs XRV, and :math:`(I - V V') a` keeps its prior. This holds since the prior is isotropic given R; it would
not do for a gradient in R. It takes O(T r^3), as many tasks with r inputs do that all of them share.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from scipy import sparse

from zoo.inference.row_span import Span
from zoo.latent.function_conditional import FunctionConditional
from zoo.latent.task_weights import Gradient, Loadings, WeightConditional, WeightSums

__all__ = ["DualConditional", "DualRows", "SpanConditional", "white_rows"]

# Numbers in the prior draws of one block of draws.
_BLOCK = 4_000_000


def _white_prior(loadings: Loadings, D: int, size: int, rng: np.random.Generator) -> np.ndarray:
    """Draws (size, D, T) of the coefficients in white features, from their prior."""
    T, r = loadings.W.shape
    own = rng.standard_normal((size, D, T)) * np.sqrt(loadings.d)
    return np.asarray(own + rng.standard_normal((size, D, r)) @ loadings.W.T)


def _blocks(size: int, numbers: int) -> list[tuple[int, int]]:
    """Ranges of draws, each of which has ``numbers`` numbers."""
    step = max(1, _BLOCK // max(numbers, 1))
    return [(a, min(a + step, size)) for a in range(0, size, step)]


def _tasks(loadings: Loadings) -> np.ndarray:
    return np.diag(loadings.d) + loadings.W @ loadings.W.T


def _out(R: np.ndarray | None, white: np.ndarray) -> np.ndarray:
    """From white features to those of the rows."""
    return white if R is None else R @ white


# ---------------------------------------------------------------- the dual


class DualRows(NamedTuple):
    """Distinct rows: their features X (n, D), their tasks (n,), and which tasks these are as a sparse (n, T) matrix."""

    X: np.ndarray
    task: np.ndarray
    member: sparse.csr_matrix

    @classmethod
    def of(cls, X: np.ndarray, task: np.ndarray, n_tasks: int) -> DualRows:
        """The rows with their members."""
        n = len(task)
        return cls(X, task, sparse.csr_matrix((np.ones(n), (np.arange(n), task)), shape=(n, n_tasks)))

    def by_task(self, alpha: np.ndarray, X: np.ndarray) -> np.ndarray:
        """``sum_{i in t} X_i alpha_i`` for each task: (size, D, T) of alpha (size, n)."""
        result = np.zeros((len(alpha), X.shape[1], self.member.shape[1]))
        for t in np.unique(self.task):
            at = self.task == t
            result[:, :, t] = alpha[:, at] @ X[at]
        return result

    def functions(self, white: np.ndarray, X: np.ndarray) -> np.ndarray:
        """Function values (size, n) of coefficients (size, D, T)."""
        result = np.empty((len(white), len(self.task)))
        for t in np.unique(self.task):
            at = self.task == t
            result[:, at] = white[:, :, t] @ X[at].T
        return result


@dataclass(frozen=True, eq=False)
class DualConditional:
    """Law of the coefficients given the rows, by the function values there; make it with :meth:`of`."""

    rows: DualRows
    loadings: Loadings
    X: np.ndarray
    """The rows in white features, X R, (n, D)."""
    gram: np.ndarray
    """``X Q X'``, (n, n)."""
    B: np.ndarray
    law: FunctionConditional

    @classmethod
    def of(
        cls,
        rows: DualRows,
        loadings: Loadings,
        omega: np.ndarray,
        nu: np.ndarray,
        white: tuple[np.ndarray, np.ndarray] | None = None,
    ) -> DualConditional:
        """The law given weights and linear terms (n,) of the rows; ``white`` are X R and its Gram matrix, if known."""
        X, gram = white_rows(rows.X, loadings.R) if white is None else white
        B = _tasks(loadings)
        law = FunctionConditional.of(B[np.ix_(rows.task, rows.task)] * gram, omega, nu)
        return cls(rows, loadings, X, gram, B, law)

    # ---------------------------------------------------------------- moments

    @property
    def log_evidence(self) -> float:
        """Log Z."""
        return self.law.log_evidence

    @property
    def half_log_det(self) -> float:
        """Half the log determinant that the prior's volume costs."""
        return self.law.half_log_det

    def dof(self) -> float:
        """Trace of the matrix that maps working responses to fits."""
        return self.law.dof()

    def natural(self) -> tuple[np.ndarray, np.ndarray]:
        """Two vectors that are linear in the mean functions and whose product is their squared norm."""
        return self.law.natural()

    def norm(self) -> float:
        """Squared norm of the mean."""
        return self.law.norm()

    @cached_property
    def functions(self) -> np.ndarray:
        """Mean of the function values, (n,)."""
        return self.law.mean

    @cached_property
    def mean(self) -> np.ndarray:
        """Posterior mean of the coefficients, (D, T)."""
        white = self.rows.by_task(self.law.alpha[None], self.X)[0] @ self.B
        return _out(self.loadings.R, white)

    def predict(self, X: np.ndarray, task: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at rows of known tasks."""
        white = X if self.loadings.R is None else X @ self.loadings.R
        cross = self.B[np.ix_(task, self.rows.task)] * (white @ self.X.T)
        return self.law.predict(cross, np.diag(self.B)[task] * np.sum(white**2, axis=1))

    def draw(self, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        """Draws of the coefficients, (size, D, T)."""
        D, T = self.X.shape[1], len(self.B)
        result = np.empty((size, D, T))
        for a, b in _blocks(size, D * T):
            white = _white_prior(self.loadings, D, b - a, rng)
            alpha = self.law.corrected(self.rows.functions(white, self.X), rng)
            white += self.rows.by_task(alpha, self.X) @ self.B
            result[a:b] = _out(self.loadings.R, white)
        return result

    # ---------------------------------------------------------------- derivatives

    def gradient(self, of_root: bool = True) -> Gradient:
        r"""Derivatives of log Z in d, W and R, by the chain rule from that in K.

        With :math:`\Gamma = \partial \log Z / \partial K`, symmetric, and :math:`(M)_{tq}` the sum of
        :math:`\Gamma \circ X Q X'` over rows i of t and j of q: :math:`\partial_d = \mathrm{diag} M`,
        :math:`\partial_W = 2 M W` and :math:`\partial_R = 2 X' (\Gamma \circ B_{t(i) t(j)}) X R`.
        """
        by_K, at = self.law.gradient(), self.rows.member
        M = np.asarray(at.T @ (at.T @ (by_K * self.gram)).T)
        D = self.X.shape[1]
        by_R = np.zeros((D, D))
        if of_root:
            inside = by_K * self.B[np.ix_(self.rows.task, self.rows.task)]
            by_R = 2.0 * self.rows.X.T @ (inside @ self.X)
        return Gradient(np.diag(M).copy(), 2.0 * M @ self.loadings.W, by_R)


def white_rows(X: np.ndarray, R: np.ndarray | None) -> tuple[np.ndarray, np.ndarray]:
    """``X R`` (n, D) and its Gram matrix (n, n)."""
    white = X if R is None else X @ R
    return white, white @ white.T


# ---------------------------------------------------------------- the span of shared inputs


@dataclass(frozen=True, eq=False)
class SpanConditional:
    """Law of the coefficients given the rows, by the span of the inputs; make it with :meth:`of`."""

    span: Span
    loadings: Loadings
    inside: WeightConditional

    @classmethod
    def of(cls, span: Span, sums: WeightSums, loadings: Loadings) -> SpanConditional:
        """The law given sums of rows over the inputs of the span."""
        return cls(span, loadings, WeightConditional.of(sums, loadings._replace(R=None)))

    @property
    def log_evidence(self) -> float:
        """Log Z."""
        return self.inside.log_evidence

    @property
    def half_log_det(self) -> float:
        """Half the log determinant that the prior's volume costs."""
        return self.inside.half_log_det

    def dof(self) -> float:
        """Trace of the matrix that maps working responses to fits."""
        return self.inside.dof()

    def natural(self) -> tuple[np.ndarray, np.ndarray]:
        """Two vectors that are linear in the mean functions and whose product is their squared norm."""
        return self.inside.natural()

    def norm(self) -> float:
        """Squared norm of the mean."""
        return self.inside.norm()

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean of the coefficients, (D, T)."""
        return _out(self.loadings.R, self.span.V @ self.inside.mean)

    def predict(self, X: np.ndarray, task: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance (m,) of f at rows of known tasks."""
        white = X if self.loadings.R is None else X @ self.loadings.R
        seen = white @ self.span.V
        left = np.maximum(np.sum(white**2, axis=1) - np.sum(seen**2, axis=1), 0.0)
        mean, variance = np.empty(len(task)), np.diag(_tasks(self.loadings))[task] * left
        for t in np.unique(task):
            at = task == t
            mean[at] = seen[at] @ self.inside.mean[:, t]
            variance[at] += np.sum((seen[at] @ self.inside.covariance[t]) * seen[at], axis=1)
        return mean, np.maximum(variance, 0.0)

    def draw(self, rng: np.random.Generator, size: int = 1) -> np.ndarray:
        """Draws of the coefficients, (size, D, T)."""
        D, T = len(self.span.V), len(self.loadings.d)
        result = np.empty((size, D, T))
        for a, b in _blocks(size, D * T):
            inside = self.inside.draw(rng, b - a)
            white = self.span.lifted(inside, _white_prior(self.loadings, D, b - a, rng))
            result[a:b] = _out(self.loadings.R, white)
        return result

    def gradient(self, of_root: bool = True) -> Gradient:
        """Derivatives of log Z in d and W. There is none in R here."""
        if of_root:
            raise ValueError("R is learned, whose derivative the span does not have. Use DualConditional.")
        D = len(self.span.V)
        return self.inside.gradient(of_root=False)._replace(R=np.zeros((D, D)))
