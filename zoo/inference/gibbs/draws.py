"""Random variates for compiled samplers (Numba, with an explicit ``numpy.random.Generator``)."""

from __future__ import annotations

import numpy as np

from zoo.inference.compiled import njit

__all__ = ["inverse_gaussians", "wishart", "wishart_factor"]


_BLOCK = (
    512  # draws at a time: three short arrays stay in the fastest cache, and the arithmetic runs in vectors
)
_TINY = np.finfo(np.float64).tiny


@njit(cache=True, nogil=True, error_model="numpy")
def inverse_gaussians(rng, mean, out):
    r"""Fill ``out`` with draws from the inverse Gaussian laws of these means and shape 1.

    The roots of :func:`zoo.distributions.inverse_gaussian.inverse_gaussian_draws`: with :math:`z \sim N(0, 1)`,
    :math:`a = \mu z^2` and :math:`h = 1 + a/2 + \sqrt{a (a + 4)} / 2`, the draw is :math:`\mu / h` with probability
    :math:`h / (1 + h)`, else :math:`\mu h`, and :math:`1 / z^2` in the limit of an infinite mean.

    Parameters
    ----------
    mean : (n,) float64
        Positive; ``inf`` is allowed.
    out : (n,) float64
        May be ``mean`` itself.
    """
    squares, uniforms = np.empty(_BLOCK), np.empty(_BLOCK)
    for start in range(0, len(mean), _BLOCK):
        mu, draws = mean[start : start + _BLOCK], out[start : start + _BLOCK]
        z2, u = squares[: len(mu)], uniforms[: len(mu)]
        for i in range(len(mu)):
            z = rng.standard_normal()
            z2[i] = max(z * z, _TINY)
        for i in range(len(mu)):
            u[i] = rng.random()
        # Two loops without branches, which the compiler turns into vector instructions.
        for i in range(len(mu)):
            a = mu[i] * z2[i]
            h = 1.0 + 0.5 * (a + np.sqrt(a * (a + 4.0)))
            root = 1.0 / h
            u[i] = root if u[i] * (1.0 + root) <= 1.0 else h
        for i in range(len(mu)):
            draws[i] = mu[i] * u[i] if u[i] > 0.0 else 1.0 / z2[i]


@njit(cache=True, nogil=True)
def wishart_factor(rng, degrees, scale_inverse):
    """Matrix ``B`` with ``B B' ~ Wishart(degrees, scale_inverse^-1)``, by Bartlett's decomposition.

    Parameters
    ----------
    degrees : float
        Above ``n - 1``.
    scale_inverse : (n, n) float64
        Inverse of the Wishart's scale; the scale matrix of the inverse-Wishart law of ``(B B')^-1``.
    """
    n = scale_inverse.shape[0]
    bartlett = np.zeros((n, n))
    for i in range(n):
        bartlett[i, i] = np.sqrt(rng.chisquare(degrees - i))
        for j in range(i):
            bartlett[i, j] = rng.standard_normal()
    factor = np.linalg.cholesky(scale_inverse)
    # L' X = bartlett, from the last row up; whole rows at a time.
    for i in range(n - 1, -1, -1):
        for j in range(i + 1, n):
            weight = factor[j, i]
            for k in range(n):
                bartlett[i, k] -= weight * bartlett[j, k]
        for k in range(n):
            bartlett[i, k] /= factor[i, i]
    return bartlett


@njit(cache=True, nogil=True)
def wishart(rng, degrees, scale_inverse):
    """Draw from ``Wishart(degrees, scale_inverse^-1)``: the inverse of an inverse-Wishart draw."""
    factor = wishart_factor(rng, degrees, scale_inverse)
    return factor @ np.ascontiguousarray(factor.T)
