"""Log prior densities of named variables that models make of auxiliary ones, up to constants, as PyTensor graphs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

from zoo.distributions.inverse_wishart import InverseWishart
from zoo.distributions.matrix_normal import MatrixNormal
from zoo.inference.gibbs.matrix_normal import CovariancePrior

__all__ = [
    "coefficients_density",
    "covariance_density",
    "half_t_density",
    "low_rank_density",
    "multi_laplace_densities",
    "scale_density",
    "standard_normal_density",
]


def covariance_density(value: Any, prior: CovariancePrior, scale: Any = 1.0) -> Any:
    """Of a matrix whose product with ``scale`` is inverse-Wishart."""
    size = value.shape[-1] if prior.scale is None else len(prior.scale)
    chol = pt.eye(size) if prior.scale is None else np.linalg.cholesky(prior.scale)
    return pm.logp(InverseWishart.dist(nu=prior.nu, scale_chol=chol), scale * value)


def half_t_density(value: Any, nu: float, sd: float) -> Any:
    r"""Of a covariance with learned scales, ``C | g ~ IW(nu, diag(g^2))`` and ``g_d ~ N(0, sd^2)``.

    With :math:`\kappa = g^2`, :math:`\int \kappa^{(\nu - 1) / 2} e^{-\frac12 \kappa (P_{dd} + sd^{-2})} d\kappa` for
    each feature leaves :math:`|C|^{-(\nu + D + 1) / 2} \prod_d (P_{dd} + sd^{-2})^{-(\nu + 1) / 2}`, where P is the
    inverse of C.
    """
    precision = pt.diagonal(pt.linalg.inv(value))
    size = value.shape[-1]
    return -0.5 * (nu + size + 1.0) * pt.linalg.slogdet(value)[1] - 0.5 * (nu + 1.0) * pt.sum(
        pt.log(precision + sd**-2.0)
    )


def scale_density(value: Any, n_features: int, n_tasks: int) -> Any:
    r"""Of the factor s moved between two covariances: :math:`(D (D + 1) / 2 - 1 - T (T + 1) / 2) \log s`.

    With :math:`\Omega = s F`, F of trace D, and :math:`R = R' / s`, volumes are :math:`d\Omega = s^{D (D + 1) / 2 - 1}
    ds\, dF` and :math:`dR = s^{-T (T + 1) / 2} dR'`. The laws of Omega and R count with F and R'.
    """
    power = n_features * (n_features + 1) / 2.0 - 1.0 - n_tasks * (n_tasks + 1) / 2.0
    return power * pt.log(value)


def coefficients_density(value: Any, row_cov: Any, col_cov: Any, mean: Any = 0.0) -> Any:
    """Of matrix-normal coefficients."""
    return pm.logp(MatrixNormal.dist(mean, row_cov=row_cov, col_cov=col_cov), value)


def low_rank_density(value: Any, row_cov: Any, own: Any, W: Any) -> Any:
    r"""Of matrix-normal coefficients (D, T) whose columns have the covariance :math:`B = \mathrm{diag}(d) + W W'`.

    With :math:`M = I + W' d^{-1} W`, :math:`\log |B| = \sum_t \log d_t + \log |M|`, and for V the coefficients times
    the inverse root of the row covariance, :math:`tr\, V B^{-1} V' = tr\, V d^{-1} V' - tr\, H M^{-1} H'` with
    :math:`H = V d^{-1} W`: no matrix of T x T.
    """
    D, T = value.shape
    root = pt.linalg.cholesky(row_cov)
    V = pt.linalg.solve_triangular(root, value, lower=True)
    inner = pt.linalg.cholesky(pt.eye(W.shape[1]) + W.T @ (W / own[:, None]))
    H = pt.linalg.solve_triangular(inner, ((V / own) @ W).T, lower=True)
    square = pt.sum(V**2 / own) - pt.sum(H**2)
    half_log_det = pt.sum(pt.log(pt.diagonal(inner))) + 0.5 * pt.sum(pt.log(own))
    volume = D * half_log_det + T * pt.sum(pt.log(pt.diagonal(root))) + 0.5 * D * T * np.log(2.0 * np.pi)
    return -0.5 * square - volume


def standard_normal_density(value: Any, sd: Any) -> Any:
    """Of independent normal variables, mean 0."""
    return pt.sum(-0.5 * (value / sd) ** 2 - pt.log(sd) + pt.zeros_like(value))


def multi_laplace_densities(kappa: Any, scale: Any, C: Any) -> tuple[Any, Any]:
    r"""Of the groups (D, T) of a multi-Laplace law on the orthant, and of their scales r (D,) given them.

    The law is :math:`C^T \exp(-C \lVert \kappa_i \rVert)`. With :math:`q_i = C^2 r_i^2` chi-square of T + 1 degrees
    of freedom and :math:`\kappa_i` half-normal of scale :math:`r_i` given it, the density of r given kappa is
    that of both over that of kappa: :math:`C^{T + 1} r^T e^{-C^2 r^2 / 2} \cdot r^{-T} e^{-\lVert \kappa
    \rVert^2 / (2 r^2)}` over :math:`C^T e^{-C \lVert \kappa \rVert}`.
    """
    norm = pt.sqrt(pt.sum(kappa**2, axis=1))
    D, T = kappa.shape
    own = D * T * pt.log(C) - C * pt.sum(norm)
    if scale is None:
        return own, None
    given = D * pt.log(C) + pt.sum(-0.5 * (C * scale) ** 2 - 0.5 * (norm / scale) ** 2 + C * norm)
    return own, given
