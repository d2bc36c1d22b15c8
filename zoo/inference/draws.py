"""Random variates for compiled samplers (Numba, with an explicit ``numpy.random.Generator``)."""

from __future__ import annotations

import numpy as np
from numba import njit

__all__ = ["inverse_gaussian", "wishart", "wishart_factor"]


@njit(cache=True, nogil=True)
def inverse_gaussian(rng, mean):
    r"""Draw from the inverse Gaussian law with this mean and shape 1.

    With :math:`z \sim N(0, 1)` and :math:`a = \mu z^2`, the smaller root of the quadratic of Michael,
    Schucany and Haas (1976) is :math:`x = 2 \mu / (2 + a + \sqrt{a (a + 4)})`, written so that nothing
    cancels: the textbook form returns zero or less for a large mean, which the hinge reaches at every margin
    near zero. ``x`` is kept with probability :math:`\mu / (\mu + x)`, else the answer is :math:`\mu^2 / x`.
    For :math:`\mu \to \infty` the law tends to that of :math:`1 / z^2`.

    Parameters
    ----------
    mean : float
        Positive; ``inf`` is allowed.
    """
    z = rng.standard_normal()
    while z == 0.0:
        z = rng.standard_normal()
    if mean > 1e100:  # a * a would overflow; the limit is exact to rounding here
        return 1.0 / (z * z)
    a = mean * z * z
    root = 2.0 / (2.0 + a + np.sqrt(a * (a + 4.0)))
    if rng.random() * (1.0 + root) <= 1.0:
        return mean * root
    return mean / root


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
    return np.linalg.solve(np.ascontiguousarray(factor.T), bartlett)


@njit(cache=True, nogil=True)
def wishart(rng, degrees, scale_inverse):
    """Draw from ``Wishart(degrees, scale_inverse^-1)``: the inverse of an inverse-Wishart draw."""
    factor = wishart_factor(rng, degrees, scale_inverse)
    return factor @ np.ascontiguousarray(factor.T)
