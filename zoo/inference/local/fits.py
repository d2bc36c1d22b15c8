r"""Local coefficients in closed form or by Newton's method, and the choice of bandwidth and penalty.

At a place :math:`t_0` the coefficients minimise

.. math::

    \sum_n k_h(t_n - t_0) (y_n - x_n' w)^2 + \lambda |w|^2
    \quad\text{or}\quad
    \sum_n k_h(t_n - t_0) \log(1 + e^{-y_n x_n' w}) + \tfrac{\lambda}{2} |w|^2

with the features, for local linear fits, followed by their products with :math:`(t_n - t_0) / h`.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import joblib
import numpy as np
from scipy.linalg import LinAlgError, cholesky, solve_triangular
from scipy.spatial import cKDTree
from scipy.special import expit
from threadpoolctl import threadpool_limits

from zoo.inference.local.compiled_fits import ridge_values
from zoo.inference.local.windows import CUT, Window, widths, windows

__all__ = ["LocalFit", "LocalRegressions", "cross_validation"]

# Features up to which one thread is fastest.
_SMALL = 64
# Rows of a fit up to which a place looks at all of them, and places that one thread takes at a time.
_MOST_ROWS, _PLACES = 30_000, 512
_NEWTON_STEPS, _HALVINGS, _TOLERANCE = 50, 30, 1e-9


class LocalFit(NamedTuple):
    """The coefficients at one place, and the lower Cholesky factor of H.

    H is half the Hessian of the squared loss with its penalty, or the Hessian of the logistic one.
    """

    mean: np.ndarray
    factor: np.ndarray

    def spread(self, X: np.ndarray) -> np.ndarray:
        r""":math:`x' H^{-1} x` of each row of X, whose further entries are 0, (n,)."""
        padded = np.zeros((len(self.mean), len(X)))
        padded[: X.shape[1]] = X.T
        return np.sum(solve_triangular(self.factor, padded, lower=True, check_finite=False) ** 2, axis=0)

    def covariance(self) -> np.ndarray:
        r""":math:`H^{-1}`."""
        half = solve_triangular(self.factor, np.eye(len(self.mean)), lower=True, check_finite=False)
        return half.T @ half


@dataclass(frozen=True, eq=False)
class LocalRegressions:
    """Rows, and the local fits to them.

    Parameters
    ----------
    X : (N, M) array
        Features.
    y : (N,) array
        Responses, or labels -1/+1.
    z : (N, P) array
        Places.
    labels : bool
        Whether the loss is logistic.
    kernel : str
        Of :data:`zoo.inference.local.windows.KERNELS`.
    degree : {0, 1}
        1 for local linear fits.
    weight : (N,) array, optional
        Weights of the rows, above 0: the loss of a row counts so many times. They multiply those of the windows.
    """

    X: np.ndarray
    y: np.ndarray
    z: np.ndarray
    labels: bool
    kernel: str
    degree: int
    weight: np.ndarray | None = None

    @cached_property
    def tree(self) -> cKDTree:
        """Of the places of the rows."""
        return cKDTree(self.z)

    @property
    def least(self) -> int:
        """Rows that a window is widened to where it would be empty."""
        return max(2 * self.X.shape[1], 50)

    def threads(self) -> Any:
        """A context in which linear algebra of this size is fastest."""
        return threadpool_limits(1) if self.X.shape[1] <= _SMALL else nullcontext()

    def take(self, rows: np.ndarray) -> LocalRegressions:
        """The same of some rows."""
        return LocalRegressions(
            self.X[rows],
            self.y[rows],
            self.z[rows],
            self.labels,
            self.kernel,
            self.degree,
            None if self.weight is None else self.weight[rows],
        )

    def windows(self, centres: np.ndarray, bandwidth: float) -> Iterator[Window]:
        """The window at each centre."""
        return windows(self.tree, centres, bandwidth, self.kernel, self.least)

    def fits(
        self, centres: np.ndarray, bandwidth: float, lams: Sequence[float]
    ) -> Iterator[tuple[LocalFit, ...]]:
        """The fits at each centre (m, P), one per penalty."""
        for window in self.windows(centres, bandwidth):
            X, y, weight = self.X[window.rows], self.y[window.rows], window.weight
            if self.weight is not None:
                weight = weight * self.weight[window.rows]
            if self.degree:
                X = np.column_stack([X, *(X * column[:, None] for column in window.offset.T)])
            if self.labels:
                yield _logistic(X, y, weight, lams)
            else:
                yield _ridge(X, y, weight, lams)

    def at_rows(
        self, X: np.ndarray, z: np.ndarray, bandwidth: float, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        r"""Value of the function and :math:`x' H^{-1} x` of each row, (n,); rows at one place share a fit."""
        centres, position = np.unique(z, axis=0, return_inverse=True)
        size = X.shape[1] * (1 + self.degree * z.shape[1])
        if not self.labels and len(self.y) <= _MOST_ROWS and size <= _SMALL:
            return self._ridge_at_rows(X, centres, position.ravel(), bandwidth, lam)
        members = _members(position.ravel(), len(centres))
        value, spread = np.empty(len(X)), np.empty(len(X))
        with self.threads():
            for rows, (fit,) in zip(members, self.fits(centres, bandwidth, [lam]), strict=True):
                value[rows] = X[rows] @ fit.mean[: X.shape[1]]
                spread[rows] = fit.spread(X[rows])
        return value, spread

    def _ridge_at_rows(
        self, X: np.ndarray, centres: np.ndarray, position: np.ndarray, bandwidth: float, lam: float
    ) -> tuple[np.ndarray, np.ndarray]:
        """The same of squared losses, compiled; threads share the places."""
        order = np.argsort(position, kind="stable")
        starts = np.concatenate([[0], np.cumsum(np.bincount(position, minlength=len(centres)))])
        width = widths(self.tree, centres, bandwidth, self.kernel, self.least)
        fitted = [np.ascontiguousarray(part.T, dtype=np.float64) for part in (self.X, self.y, self.z)]
        weight = np.ones(len(self.y)) if self.weight is None else self.weight
        asked = np.ascontiguousarray(X[order], dtype=np.float64)
        value, spread = np.empty((2, len(X)))

        def some(part: slice) -> float:
            about = (self.kernel == "gaussian", CUT[self.kernel], self.degree, float(lam))
            first, last = starts[part.start], starts[part.stop]
            return float(
                ridge_values(
                    *fitted, weight, centres[part], width[part], *about, starts[part.start : part.stop + 1] - first,
                    asked[first:last], value[first:last], spread[first:last],
                )
            )  # fmt: skip

        parts = [slice(i, min(i + _PLACES, len(centres))) for i in range(0, len(centres), _PLACES)]
        try:
            with ThreadPoolExecutor(joblib.cpu_count()) as pool:
                least = min(pool.map(some, parts)) if len(parts) > 1 else some(parts[0])
        except ZeroDivisionError:  # nothing at all is left of a diagonal entry
            least = 0.0
        if least <= 0.0:
            raise _too_small(lam)
        result = np.empty((2, len(X)))
        result[0, order], result[1, order] = value, spread
        return result[0], result[1]

    def noise_variance(self, bandwidth: float, lam: float, rows: np.ndarray) -> float:
        r"""Mean of :math:`e_n^2 / (1 - h_n)` over rows, with the residual e and leverage h at the row's place.

        The term is the squared leave-one-out residual :math:`e_n / (1 - h_n)` over :math:`1 + x' H_{-n}^{-1} x`, the
        predictive variance of that row in units of the noise variance. The mean is by the weights of the rows.
        """
        value, leverage = self.at_rows(self.X[rows], self.z[rows], bandwidth, lam)
        left = np.maximum(1.0 - leverage, 1e-10)
        weight = None if self.weight is None else self.weight[rows]
        return float(np.average((self.y[rows] - value) ** 2 / left, weights=weight))


def cross_validation(
    rows: LocalRegressions,
    bandwidths: Sequence[float],
    lams: Sequence[float],
    n_folds: int,
    max_rows: int,
    rng: np.random.Generator,
) -> np.ndarray:
    """Mean held-out loss, (bandwidth, lam): squared, or minus the log probability of labels.

    Rows are dealt to folds at random; at most ``max_rows`` of them, chosen at random, are predicted, each from all
    rows of the other folds. The mean is by their weights.
    """
    h = np.ones(len(rows.y)) if rows.weight is None else rows.weight
    N, M = rows.X.shape
    fold = rng.permutation(N) % n_folds
    scored = np.zeros(N, dtype=bool)
    scored[rng.permutation(N)[:max_rows]] = True
    total = np.zeros((len(bandwidths), len(lams)))
    for k in range(n_folds):
        held = np.flatnonzero((fold == k) & scored)
        if not len(held):
            continue
        train = rows.take(np.flatnonzero(fold != k))
        centres, position = np.unique(rows.z[held], axis=0, return_inverse=True)
        members = _members(position.ravel(), len(centres))
        with rows.threads():
            for i, bandwidth in enumerate(bandwidths):
                for m, fits in zip(members, train.fits(centres, bandwidth, lams), strict=True):
                    X, y = rows.X[held[m]], rows.y[held[m]]
                    for j, fit in enumerate(fits):
                        f = X @ fit.mean[:M]
                        loss = np.logaddexp(0.0, -y * f) if rows.labels else (y - f) ** 2
                        total[i, j] += h[held[m]] @ loss
    return total / h[scored].sum()


def _members(position: np.ndarray, size: int) -> list[np.ndarray]:
    """Rows at each of ``size`` places."""
    order = np.argsort(position, kind="stable")
    return np.split(order, np.cumsum(np.bincount(position, minlength=size))[:-1])


def _ridge(X: np.ndarray, y: np.ndarray, weight: np.ndarray, lams: Sequence[float]) -> tuple[LocalFit, ...]:
    weighted = X * weight[:, None]
    H, b = weighted.T @ X, weighted.T @ y
    result = []
    for lam in lams:
        L = _factor(H, lam)
        result.append(LocalFit(_solve(L, b), L))
    return tuple(result)


def _logistic(
    X: np.ndarray, y: np.ndarray, weight: np.ndarray, lams: Sequence[float]
) -> tuple[LocalFit, ...]:
    """Newton's method with step halving; each penalty starts where the larger one before it ended."""
    result: dict[int, LocalFit] = {}
    w = np.zeros(X.shape[1])
    for j in np.argsort(lams)[::-1]:
        fit = _logistic_mode(X, y, weight, lams[j], w)
        w = fit.mean
        result[int(j)] = fit
    return tuple(result[j] for j in range(len(lams)))


def _logistic_mode(X: np.ndarray, y: np.ndarray, weight: np.ndarray, lam: float, w: np.ndarray) -> LocalFit:
    def objective(w: np.ndarray, f: np.ndarray) -> float:
        return float(np.sum(weight * np.logaddexp(0.0, -y * f)) + 0.5 * lam * np.sum(w**2))

    f = X @ w
    value = objective(w, f)
    for _ in range(_NEWTON_STEPS):
        p = expit(-y * f)  # of the other label
        gradient = lam * w - X.T @ (weight * y * p)
        L = _factor((X * (weight * p * (1.0 - p))[:, None]).T @ X, lam)
        step = _solve(L, gradient)
        # Half the decrease that Newton's model promises, in units of the objective.
        if gradient @ step <= _TOLERANCE**2 * max(1.0, value):
            return LocalFit(w, L)
        change = X @ step
        size = 1.0
        for _ in range(_HALVINGS):
            trial = objective(w - size * step, f - size * change)
            if trial <= value:
                break
            size *= 0.5
        else:  # rounding alone is left
            return LocalFit(w, L)
        w, f, value = w - size * step, f - size * change, trial
    return LocalFit(w, L)


def _factor(H: np.ndarray, lam: float) -> np.ndarray:
    penalised = H.copy()
    penalised.flat[:: len(H) + 1] += lam
    try:
        return cholesky(penalised, lower=True, check_finite=False)
    except LinAlgError:
        raise _too_small(lam) from None


def _too_small(lam: float) -> ValueError:
    return ValueError(
        f"ridge is {lam:g}, too small for features that are nearly collinear near some place. Give a larger one."
    )


def _solve(L: np.ndarray, b: np.ndarray) -> np.ndarray:
    half = solve_triangular(L, b, lower=True, check_finite=False)
    return solve_triangular(L, half, lower=True, trans="T", check_finite=False)
