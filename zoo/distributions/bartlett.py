r"""Bartlett's decomposition of an inverse-Wishart law, on which its draws and its non-centred form rest."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.distributions.parameters import multigammaln, require

__all__ = ["CONDITION", "bartlett_factor", "covariance_logp", "scaled_inverse", "triangle", "valid"]

CONDITION = "nu > p - 1 (that is delta > 0), scale positive definite"


def valid(nu: Any, scale_chol: Any) -> Any:
    """Whether the parameters are allowed; a scale that is not positive definite has a factor of NaN."""
    return pt.all(nu > scale_chol.shape[-1] - 1) & pt.all(pt.diagonal(scale_chol, axis1=-2, axis2=-1) > 0)


def bartlett_factor(nu: Any, scale_chol: Any, batch: tuple[Any, ...], rng: Any) -> tuple[Any, Any]:
    r"""The next generator, and draws of the Cholesky factor of an inverse-Wishart matrix.

    For lower triangular :math:`B` with :math:`B_{ii}^2 \sim \chi^2_{\nu - p + 1 + i}` (i from 0) and standard normal
    entries below, :math:`B' B` is Wishart(nu, I): Bartlett's decomposition with rows and columns reversed. So
    :math:`L B^{-1}`, which is lower triangular again, is the factor of an IW(nu, L L') matrix. Its degrees
    of freedom depend on :math:`\delta = \nu - p + 1` alone, and its leading block on the leading block of
    :math:`B`: the consistency under subsetting of Dawid's parametrisation.
    """
    p = scale_chol.shape[-1]
    degrees = require(nu, valid(nu, scale_chol), message=CONDITION)[..., None] - p + 1 + pt.arange(p)
    next_rng, chi2 = pm.ChiSquared.dist(degrees, size=(*batch, p), rng=rng).owner.outputs
    next_rng, normals = pm.Normal.dist(0.0, 1.0, size=(*batch, p * (p - 1) // 2), rng=next_rng).owner.outputs
    # The product with the mask of tril is contiguous in memory, which compiled products with it ask for.
    return next_rng, pt.tril(scaled_inverse(triangle(pt.sqrt(chi2), normals), scale_chol))


def triangle(diagonal: Any, below: Any) -> Any:
    """Lower triangular matrices from their diagonals and the entries below, row by row."""
    p = diagonal.shape[-1]
    matrix = pt.zeros((*diagonal.shape, p))[..., pt.arange(p), pt.arange(p)].set(diagonal)
    rows, columns = pt.tril_indices(p, k=-1)
    return matrix[..., rows, columns].set(below)


def scaled_inverse(B: Any, scale_chol: Any) -> Any:
    """``L B^-1`` for lower triangular ``L`` and ``B``."""
    return pt.linalg.solve_triangular(B, scale_chol.mT, lower=True, trans=1, b_ndim=2).mT


def covariance_logp(log_diagonal: Any, whitened: Any, nu: Any, scale_chol: Any) -> Any:
    r"""Log density of the covariance :math:`F F'` under IW(nu, L L').

    Parameters
    ----------
    log_diagonal : (..., p)
        Logs of the diagonal of :math:`F`.
    whitened : (..., p, p)
        :math:`F^{-1} L`.
    nu : (...)
    scale_chol : (..., p, p)
        :math:`L`.
    """
    p = scale_chol.shape[-1]
    return (
        nu * pt.sum(pt.log(pt.diagonal(scale_chol, axis1=-2, axis2=-1)), axis=-1)
        - (nu + p + 1) * pt.sum(log_diagonal, axis=-1)
        - 0.5 * pt.sum(whitened**2, axis=(-2, -1))
        - 0.5 * nu * p * np.log(2.0)
        - multigammaln(0.5 * nu, p)
    )
