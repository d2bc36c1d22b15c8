r"""Functions that are sums of fixed features with independent normal weights, and responses of any kind.

.. math:: f = \Phi w, \quad w_j \sim N(0, v_j)

Only the variances v depend on hyper-parameters, so the features need no second pass: for Gaussian noise the sums
:math:`\Phi'\Phi` and :math:`\Phi'y` say all, and are taken over rows in blocks. With :math:`P = \Phi'W\Phi + V^{-1}`
and :math:`\hat w` the mode,

.. math::

    \log q(y) = \log p(y|\Phi\hat w) - \tfrac12 \hat w'V^{-1}\hat w - \tfrac12 \log|I + V^{1/2}\Phi'W\Phi V^{1/2}|,
    \quad \frac{\partial \log q}{\partial \log v_j} = \tfrac12 \Big(\frac{\hat w_j^2 + (P^{-1})_{jj}}{v_j} - 1\Big)
        + \frac{(P^{-1} \Phi's)_j \hat w_j}{v_j}

with s as in :mod:`zoo.latent.latent_gaussian`, of which this is the view in weights. Where the information W of a
row is one number (Gaussian and Student-t noise) s is 0 and :math:`\Phi'W\Phi` is a multiple of the sums, and its
factor the scale of L-BFGS (:func:`zoo.latent.newton.approach`), which takes a product with :math:`\Phi` and one with
:math:`\Phi'` a step. Elsewhere, and where that does not reach the mode, every step of Newton's method sums
:math:`\Phi'W\Phi` over the rows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_solve, lapack, solve_triangular

from zoo.inference.responses import Density, Responses
from zoo.latent.lower_factor import lower_factor
from zoo.latent.mode_movement import second_derivative, solve_near
from zoo.latent.newton import Step, approach, climb

__all__ = [
    "BasisConditional",
    "BasisEvidence",
    "BasisMode",
    "BasisRegression",
    "BasisSums",
    "Gram",
    "basis_evidence",
]

# Numbers of a block of features, and of all that are kept in memory where they are passed over again.
_BLOCK, _KEPT = 8_000_000, 120_000_000
# Steps with one factor after L-BFGS, before those that sum over the rows for a factor each; and the tolerance of all,
# less strict than elsewhere: the search has no use for more, and they would take a quarter longer on 17,290 sales.
_CHEAP, _TOLERANCE = 10, 1e-14
# What rounding may take from the evidence of Gaussian noise, in nats per row, before the rows are passed over again.
_SMALL_LOSS = 1e-9


class Gram(NamedTuple):
    """Sums over rows by their weights: of products of features (p, p), of features times responses (p,), of squares;
    and of the weights.
    """

    G: np.ndarray
    h: np.ndarray
    yy: float
    n: float

    def __add__(self, other: Any) -> Gram:
        return Gram(self.G + other.G, self.h + other.h, self.yy + other.yy, self.n + other.n)


class BasisSums:
    """Rows with their features, in blocks.

    Parameters
    ----------
    features : callable
        ``features(rows)``, the features (k, p) of a slice of rows.
    n_rows, n_weights : int
    """

    def __init__(self, features: Callable[[slice], np.ndarray], n_rows: int, n_weights: int):
        self.n_rows, self.n_weights = n_rows, n_weights
        self._features = features
        self._kept: dict[int, np.ndarray] = {}
        self._gram: np.ndarray | None = None

    def blocks(self, keep: bool = True) -> Iterator[tuple[slice, np.ndarray]]:
        """Slices of rows and their features, computed again each time where there are too many to keep."""
        step = max(1, _BLOCK // self.n_weights)
        keep = keep and self.n_rows * self.n_weights <= _KEPT
        for start in range(0, self.n_rows, step):
            rows = slice(start, min(start + step, self.n_rows))
            block = self._kept.get(start)
            if block is None:
                block = self._features(rows)
                if keep:
                    self._kept[start] = block
            yield rows, block

    def times(self, w: np.ndarray) -> np.ndarray:
        """The function ``Phi w`` at every row."""
        f = np.empty(self.n_rows)
        for rows, block in self.blocks():
            f[rows] = block @ w
        return f

    def transposed(self, b: np.ndarray) -> np.ndarray:
        """The sums ``Phi' b``."""
        total = np.zeros(self.n_weights)
        for rows, block in self.blocks():
            total += block.T @ b[rows]
        return total

    def gram(self, W: np.ndarray) -> np.ndarray:
        """The sums ``Phi' W Phi``; for a constant W from those of the first pass."""
        if np.ptp(W) > 0.0:
            return self._sums(np.sqrt(W))
        if self._gram is None:
            self._gram = self._sums(np.ones(self.n_rows))
        return W[0] * self._gram

    def _sums(self, root: np.ndarray) -> np.ndarray:
        total = np.zeros((self.n_weights, self.n_weights), order="F")
        for rows, block in self.blocks():
            scaled = block * root[rows, None]
            total += scaled.T @ scaled
        return total

    def variance(self, half: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
        """Posterior variance of f at every row, with ``half`` the map of features to a root of their covariance."""
        result = np.empty(self.n_rows)
        for rows, block in self.blocks():
            result[rows] = np.sum(half(block.T) ** 2, axis=0)
        return result


class BasisRegression(BasisSums):
    """The same with their responses."""

    def __init__(
        self, features: Callable[[slice], np.ndarray], n_rows: int, n_weights: int, responses: Responses
    ):
        super().__init__(features, n_rows, n_weights)
        self.responses = responses
        self.constant_information = bool(responses.constant_information)  # type: ignore[attr-defined]


class BasisMode(NamedTuple):
    """The mode w (p,); the lower factor of ``I + V^{1/2} Phi'W Phi V^{1/2}``; and the roots of the prior variances."""

    w: np.ndarray
    factor: np.ndarray
    root: np.ndarray
    f: np.ndarray | None
    density: Density | None
    converged: bool

    def half(self, columns: np.ndarray) -> np.ndarray:
        """For features (p, m): a matrix whose columns' squares are the posterior variances of their functions."""
        return np.asarray(
            solve_triangular(self.factor, self.root[:, None] * columns, lower=True, check_finite=False)
        )

    def draws(self, rng: np.random.Generator, n: int) -> np.ndarray:
        """Draws of the weights, (n, p)."""
        return self.w + self.spread(rng.standard_normal((len(self.w), n))).T

    def spread(self, white: np.ndarray) -> np.ndarray:
        """Standard normal numbers (p, n) as weights less their mode; they are overwritten."""
        half = solve_triangular(self.factor, white, lower=True, trans=1, check_finite=False, overwrite_b=True)
        return np.asarray(self.root[:, None] * half)


@dataclass(frozen=True, eq=False)
class BasisConditional:
    r"""Law of the weights given rows that say :math:`\sum_n -\omega_n f_n^2 / 2 + \nu_n f_n`.

    With :math:`G = \Phi'\Omega\Phi`, :math:`h = \Phi'\nu` and :math:`B = I + V^{1/2} G V^{1/2}`, it is normal with mean
    :math:`V^{1/2} B^{-1} V^{1/2} h` and covariance :math:`V^{1/2} B^{-1} V^{1/2}`, and
    :math:`\log Z = \tfrac12 h' \hat w - \tfrac12 \log |B|`.
    """

    mode: BasisMode
    h: np.ndarray

    @classmethod
    def of(
        cls, G: np.ndarray, h: np.ndarray, log_variances: np.ndarray, scale: float = 1.0
    ) -> BasisConditional:
        """The law with the sums ``scale * G`` (p, p) and ``scale * h`` (p,), and prior variances (p,)."""
        root, h = np.exp(0.5 * log_variances), scale * h
        factor = _factor(G, root, scale)
        w = root * cho_solve((factor, True), root * h, check_finite=False)
        return cls(BasisMode(w, factor, root, None, None, True), h)

    @property
    def mean(self) -> np.ndarray:
        """Posterior mean, (p,)."""
        return self.mode.w

    @property
    def half_log_det(self) -> float:
        """Half the log determinant of B."""
        return float(np.sum(np.log(np.diag(self.mode.factor))))

    @property
    def log_evidence(self) -> float:
        """Log Z."""
        return float(0.5 * self.h @ self.mode.w) - self.half_log_det

    def norm(self) -> float:
        """The mean's square by the prior precision."""
        return float(np.sum((self.mode.w / self.mode.root) ** 2))

    def draws(self, rng: np.random.Generator, size: int) -> np.ndarray:
        """Independent draws (size, p)."""
        return self.mode.draws(rng, size)


class BasisEvidence(NamedTuple):
    """Log evidence; its derivatives in the logarithms of the variances (p,) and in the parameters of the responses."""

    value: float
    variance_slopes: np.ndarray
    parameter_slopes: np.ndarray
    mode: BasisMode


def gaussian_evidence(
    gram: Gram,
    log_variances: np.ndarray,
    log_noise: float,
    residual: Callable[[np.ndarray], np.ndarray] | None = None,
) -> BasisEvidence:
    """The exact evidence of Gaussian noise from the sums alone; the parameter's slope is that in log sigma.

    Parameters
    ----------
    residual : callable, optional
        ``residual(w)``, the rows' ``y - Phi w`` times the roots of their weights, for a pass over
        the rows where the noise is so small that the sum of their squares, as a difference of the
        sums, has no digits.
    """
    root, variance = np.exp(0.5 * log_variances), np.exp(2.0 * log_noise)
    factor = _factor(gram.G, root, 1.0 / variance)
    h = root * gram.h / variance
    white = cho_solve((factor, True), h, check_finite=False)
    w = root * white
    penalty = float(white @ white)
    if residual is not None and np.finfo(np.float64).eps * gram.yy > _SMALL_LOSS * gram.n * variance:
        left = residual(w)
        squares = float(left @ left) / variance
    else:
        # With G w = h - sigma^2 V^-1 w.
        squares = (gram.yy - float(w @ gram.h)) / variance - penalty
    value = -0.5 * (squares + penalty) - np.sum(np.log(np.diag(factor)))
    value -= gram.n * (log_noise + 0.5 * np.log(2.0 * np.pi))
    shrunk = _inverse_diagonal(factor)
    slopes = 0.5 * (white**2 + shrunk - 1.0)
    noise = squares - gram.n + (len(w) - float(np.sum(shrunk)))
    return BasisEvidence(
        float(value), slopes, np.array([noise]), BasisMode(w, factor, root, None, None, True)
    )


def basis_evidence(
    rows: BasisRegression, log_variances: np.ndarray, parameters: np.ndarray, start: np.ndarray | None = None
) -> BasisEvidence:
    """Laplace's evidence with its derivatives.

    Parameters
    ----------
    log_variances : (p,) array
        Logarithms of the prior variances of the weights.
    parameters : array
        Those of the responses.
    start : (p,) array, optional
        Weights to start from, where these are better than 0.
    """
    mode = _find_mode(rows, np.exp(0.5 * log_variances), parameters, start)
    density, white = mode.density, mode.w / mode.root
    assert density is not None and mode.f is not None
    value = density.value - 0.5 * float(white @ white) - float(np.sum(np.log(np.diag(mode.factor))))
    shrunk = _inverse_diagonal(mode.factor)
    slopes = 0.5 * (white**2 + shrunk - 1.0)
    if rows.constant_information:
        # Only the sum of the variances counts then, and W times it is the number of weights that the data determine.
        determined = len(white) - float(np.sum(shrunk))
        variance = np.full(rows.n_rows, determined / float(np.sum(density.information)))
    else:
        variance = rows.variance(mode.half)
    moved = None
    if np.any(density.information_slope):
        s = rows.transposed(-0.5 * variance * density.information_slope)
        moved = _movement(rows, mode, parameters, mode.root * s)
        slopes = slopes + moved * white
    inner = []
    for explicit, slope, information in rows.responses.parameter_slopes(mode.f, parameters):
        total = explicit - 0.5 * float(variance @ information)
        if moved is not None:
            total += float((mode.root * moved) @ rows.transposed(slope))
        inner.append(total)
    return BasisEvidence(value, slopes, np.array(inner), mode)


def _movement(
    rows: BasisRegression, mode: BasisMode, parameters: np.ndarray, change: np.ndarray
) -> np.ndarray:
    """How a change (p,) of the gradient in whitened weights moves the mode."""
    density, root = mode.density, mode.root
    assert density is not None and mode.f is not None

    def near(c: np.ndarray) -> np.ndarray:
        return np.asarray(cho_solve((mode.factor, True), c, check_finite=False))

    second = second_derivative(rows.responses, density, mode.f, parameters)
    if second is None:
        return near(change)
    return solve_near(lambda c: c + root * rows.transposed(second * rows.times(root * c)), near, change)


class _Weights:
    """F in whitened weights."""

    def __init__(self, rows: BasisRegression, root: np.ndarray):
        self.rows, self.root = rows, root
        self._constant: tuple[float, np.ndarray] | None = None

    def function(self, c: np.ndarray) -> np.ndarray:
        return self.rows.times(self.root * c)

    def penalty(self, c: np.ndarray, f: np.ndarray) -> float:
        return 0.5 * float(c @ c)

    def gradient(self, c: np.ndarray, density: Density) -> np.ndarray:
        return self.root * self.rows.transposed(density.slope) - c

    def step(self, c: np.ndarray, density: Density, W: np.ndarray) -> Step:
        gradient = self.gradient(c, density)
        step = cho_solve((self.factor(W), True), gradient, check_finite=False)
        return Step(step, self.function(step), float(gradient @ step))

    def factor(self, W: np.ndarray) -> np.ndarray:
        """Lower factor of ``I + V^{1/2} Phi'W Phi V^{1/2}``; that of a constant W is kept."""
        constant = self.rows.constant_information and np.ptp(W) == 0.0
        if constant and self._constant is not None and self._constant[0] == W[0]:
            return self._constant[1]
        factor = _factor(self.rows.gram(W), self.root, 1.0)
        if constant:
            self._constant = (float(W[0]), factor)
        return factor


def _find_mode(
    rows: BasisRegression, root: np.ndarray, parameters: np.ndarray, start: np.ndarray | None
) -> BasisMode:
    """Newton's method in whitened weights, after L-BFGS where the information is a constant."""
    weights, responses = _Weights(rows, root), rows.responses
    white, cheap = None if start is None else start / root, 0
    if rows.constant_information:
        cheap = _CHEAP
        factor = weights.factor(responses.density(np.zeros(rows.n_rows), parameters).information)
        white = approach(
            weights, responses, parameters, factor, np.zeros(len(root)) if white is None else white
        )
    found = climb(weights, responses, parameters, len(root), white, cheap, _TOLERANCE)
    factor = weights.factor(found.density.information)
    return BasisMode(root * found.coordinates, factor, root, found.f, found.density, found.converged)


def _factor(G: np.ndarray, root: np.ndarray, scale: float) -> np.ndarray:
    """Lower factor of ``I + scale V^{1/2} G V^{1/2}``."""
    B = np.asfortranarray(G * (scale * root[:, None]))
    B *= root
    B[np.diag_indices_from(B)] += 1.0
    return lower_factor(B, "the precision of the weights")


def _inverse_diagonal(factor: np.ndarray) -> np.ndarray:
    """The diagonal of the inverse of ``L L'``: sums of squares of the columns of the inverse of L."""
    inverse = lapack.dtrtri(factor, lower=1)[0]
    return np.asarray(np.einsum("ij,ij->j", inverse, inverse))
