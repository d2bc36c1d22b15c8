r"""Laplace approximation of Bayesian logistic regression with a learned prior scale.

:math:`p(y \mid w) = \prod_n (1 + e^{-y_n x_n'w})^{-1}`, :math:`w \sim N(0, \tau^2 I)`, :math:`\tau \sim N^+(0, s^2)`.
For each tau of a grid the mode of w is found by Newton's method; tau maximises its prior times the Laplace
evidence, and w is drawn from the Gaussian at that mode.

With more features than rows all of it happens in the span of the rows, whose r orthonormal columns are V: the rows see
:math:`V'w` alone, its prior is :math:`N(0, \tau^2 I_r)`, and :math:`(I - V V') w`, independent of it, keeps its own.
The evidence does not change: a direction that no row sees adds :math:`-\log \tau^{-1} - \log \tau = 0`. So a Newton
step takes O(N^3), not O(D^3).
"""

from __future__ import annotations

import numpy as np
from scipy.linalg import cho_factor, cho_solve, solve_triangular
from scipy.special import expit, log_expit

from zoo.inference.row_span import row_span

__all__ = ["logistic_regression_draws"]

_GRID = np.exp(np.linspace(-5.0, 1.5, 27))


def logistic_regression_draws(
    X: np.ndarray,
    y: np.ndarray,
    n_draws: int,
    scale: float,
    rng: np.random.Generator,
    weight: np.ndarray | None = None,
) -> tuple[np.ndarray, float]:
    """Draws (n_draws, D) of the coefficients and the chosen tau.

    ``y`` is -1/+1, and ``weight`` (N,) multiplies the log density of each row.
    """
    if X.shape[1] > len(X):
        span = row_span(X)
        inside, tau = logistic_regression_draws(span.inputs, y, n_draws, scale, rng, weight)
        prior = tau * rng.standard_normal((n_draws, X.shape[1]))
        return span.lifted(inside[..., None], prior[..., None])[..., 0], tau
    w = np.zeros(X.shape[1])
    best = (-np.inf, w, np.eye(len(w)), 1.0)
    for tau in scale * _GRID:  # from strong to weak shrinkage, each mode starting from the last
        w, factor, log_joint = _mode(X, y, tau, w, weight)
        evidence = log_joint - np.log(np.diag(factor)).sum() - len(w) * np.log(tau) - 0.5 * (tau / scale) ** 2
        if evidence > best[0]:
            best = (evidence, w, factor, tau)
    _, mode, factor, tau = best
    noise = solve_triangular(factor, rng.standard_normal((len(mode), n_draws)), trans="T", lower=True)
    return mode + noise.T, float(tau)


def _mode(
    X: np.ndarray, y: np.ndarray, tau: float, w: np.ndarray, weight: np.ndarray | None = None
) -> tuple[np.ndarray, np.ndarray, float]:
    """Mode, lower Cholesky factor of the negative Hessian there, and log joint density without constants."""
    h = np.ones(len(y)) if weight is None else weight

    def log_joint(w: np.ndarray) -> float:
        return float((h * log_expit(y * (X @ w))).sum() - 0.5 * (w @ w) / tau**2)

    value = log_joint(w)
    for _ in range(100):
        p = expit(X @ w)
        gradient = X.T @ (h * ((y + 1.0) / 2.0 - p)) - w / tau**2
        hessian = (X.T * (h * p * (1.0 - p))) @ X + np.eye(len(w)) / tau**2
        factor = cho_factor(hessian, lower=True)
        step = cho_solve(factor, gradient)
        if gradient @ step < 1e-10:
            break
        size = 1.0
        while log_joint(w + size * step) < value and size > 1e-8:  # log-concave: a smaller step always helps
            size /= 2.0
        w = w + size * step
        value = log_joint(w)
    return w, np.tril(factor[0]), value
