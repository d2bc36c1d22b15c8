r"""Exact draws of Bayesian linear regression with a learned prior scale.

.. math::

    y \mid w, \sigma^2 \sim N(X w, \sigma^2 I), \quad w \mid \sigma^2, \tau \sim N(0, \sigma^2 \tau^2 I), \quad
    \sigma^2 \sim IG(a, b), \quad \tau \sim N^+(0, s^2).

With singular values :math:`X = U D V'`, :math:`u = U'y`, :math:`g_i = 1 + \tau^2 d_i^2` and
:math:`Q(\tau) = |y - U u|^2 + \sum_i u_i^2 / g_i`,

.. math::

    p(\tau \mid y) \propto p(\tau)\, \prod_i g_i^{-1/2} (b + Q/2)^{-(a + N/2)}, \quad
    \sigma^2 \mid \tau, y \sim IG(a + N/2, b + Q/2), \quad
    v_i'w \mid \sigma^2, \tau, y \sim N(\tau^2 d_i u_i / g_i, \sigma^2 \tau^2 / g_i),

and what is orthogonal to V keeps its prior. Nothing is subtracted but the projection, so neither collinear features nor
a response in large units lose digits, as they would in :math:`X'X` and :math:`y'y`.
The scale is drawn by inverting its distribution function on a grid of log tau, so the draws are independent.
"""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["linear_regression_draws"]

# Below e^-12 of its scale the half-normal prior holds 5e-6 of its mass, above e^2 it holds 1e-13.
_LOG_SCALE = np.linspace(-12.0, 2.0, 2801)
# A look at every so many points of the grid finds where the density is not negligible, in logarithms.
_STRIDE, _NEGLIGIBLE = 8, 50.0


def linear_regression_draws(
    X: np.ndarray,
    y: np.ndarray,
    n_draws: int,
    scale: float,
    rng: np.random.Generator,
    weight: np.ndarray | None = None,
    *,
    noise_prior: tuple[float, float],
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Independent posterior draws.

    Parameters
    ----------
    X, y : (N, D), (N,)
    n_draws : int
    scale : float
        ``s``, the scale of the half-normal prior on tau.
    weight : (N,), optional
        Weights of the rows: the log density of a row counts so many times. X and y times their roots take the place of
        X and y then, and the sum of the weights that of N.
    noise_prior : (float, float)
        ``a`` and ``b``.

    Returns
    -------
    w, noise, tau : (n_draws, D), (n_draws,), (n_draws,)
        Coefficients, noise standard deviation, prior scale.
    """
    size = float(len(y))
    if weight is not None:
        root, size = np.sqrt(weight), float(weight.sum())
        X, y = root[:, None] * X, root * y
    U, d, V = np.linalg.svd(X, full_matrices=False)
    u = U.T @ y
    outside = y - U @ u
    left = float(outside @ outside)
    shape, rate = noise_prior[0] + size / 2.0, noise_prior[1]
    log_density = np.empty(len(_LOG_SCALE))
    _log_density(_LOG_SCALE, scale, d**2, u**2, left, shape, rate, _STRIDE, _NEGLIGIBLE, log_density)
    tau_draws = scale * np.exp(_invert(_LOG_SCALE, log_density, rng.random(n_draws)))
    column = tau_draws[:, None]
    shrunk = 1.0 + (column * d) ** 2
    residual = left + (u**2 / shrunk).sum(axis=1)
    noise = np.sqrt((rate + 0.5 * residual) / rng.gamma(shape, size=n_draws))
    prior = noise[:, None] * column * rng.standard_normal((n_draws, X.shape[1]))
    # The prior's draw, narrowed along V, about the mean.
    along = column**2 * d * u / shrunk + (prior @ V.T) * (1.0 / np.sqrt(shrunk) - 1.0)
    return prior + along @ V, noise, tau_draws


@njit(cache=True, nogil=True)
def _log_density(grid, scale, values, squares, left, shape, rate, stride, negligible, out):
    """Fill ``out`` with the log density of log tau on the grid, and with -inf where it has no mass.

    Every ``stride``-th point says where that is.
    """
    highest = -np.inf
    for first in range(0, len(grid), stride):
        out[first] = _log_density_at(grid[first], scale, values, squares, left, shape, rate)
        highest = max(highest, out[first])
    least = highest - negligible
    for first in range(0, len(grid), stride):
        last = min(first + stride, len(grid))
        near = out[first] > least or (last < len(grid) and out[last] > least)
        for i in range(first + 1, last):
            out[i] = -np.inf
            if near:
                out[i] = _log_density_at(grid[i], scale, values, squares, left, shape, rate)


@njit(cache=True, nogil=True)
def _log_density_at(x, scale, values, squares, left, shape, rate):
    """Log density at one logarithm of tau in units of ``scale``, with the Jacobian of the logarithm."""
    relative = np.exp(2.0 * x)
    residual, product, determinant = left, 1.0, 0.0
    for i in range(len(values)):
        shrunk = 1.0 + relative * scale * scale * values[i]
        residual += squares[i] / shrunk
        product *= shrunk
        if product > 1e150:  # before it overflows
            determinant += np.log(product)
            product = 1.0
    determinant += np.log(product)
    return x - 0.5 * relative - 0.5 * determinant - shape * np.log(rate + 0.5 * residual)


def _invert(grid: np.ndarray, log_density: np.ndarray, u: np.ndarray) -> np.ndarray:
    """Quantiles ``u`` of the law with this log density on an even grid, linear between its points."""
    density = np.exp(log_density - log_density.max())
    cumulative = np.concatenate([[0.0], np.cumsum((density[1:] + density[:-1]) / 2.0)])
    return np.interp(u * cumulative[-1], cumulative, grid)
