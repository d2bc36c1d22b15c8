"""The metric Q of the features, from coefficients that were learned before."""

from __future__ import annotations

from typing import Any

import numpy as np

from zoo.support.checks import finite_matrix, not_negative

__all__ = ["pca_metric"]


def pca_metric(coefficients: Any, energy: float = 0.9, floor: float = 0.0) -> np.ndarray:
    r"""Metric Q of kernel (25) by principal components of the tasks' coefficients (evgeniou2005 section 4, step 2).

    With the eigenvalues :math:`e_1 \ge e_2 \ge \dots` and eigenvectors V of the empirical covariance of the
    :math:`u_l`, and k the least number of components that hold ``energy`` of the sum of the eigenvalues,

    .. math:: Q \propto V_k \operatorname{diag}(e_1, \dots, e_k) V_k^\top + \text{floor} \cdot \bar e I, \qquad
        \operatorname{tr} Q = D

    with :math:`\bar e` the mean of all D eigenvalues. The trace is that of the identity: so the weight of the loss
    and lambda mean the same as without Q.

    Parameters
    ----------
    coefficients : (D, T) array_like or xarray.DataArray with dims ``feature`` and ``task``
        Estimated :math:`u_l` of two tasks or more. Chains and draws of a DataArray are averaged.
    energy : float
        Part of the sum of the eigenvalues that is kept, above 0 and at most 1. The paper's is 0.9.
    floor : float
        0: Q has rank k, and no coefficients outside these directions are learned, as in the paper. Above 0, Q has an
        inverse.

    Returns
    -------
    (D, D) numpy.ndarray

    Raises
    ------
    ValueError
        Names the argument.

    Notes
    -----
    The text speaks of eigenvalues of the empirical correlation matrix, and of the covariance of the components. The
    covariance is used for both here: correlations would give a feature that hardly matters the same share as one
    that does, and (25) measures :math:`u_l` in the features' own units.
    """
    if isinstance(energy, bool) or not 0.0 < energy <= 1.0:
        raise ValueError(f"energy is {energy!r}. Give a number above 0, at most 1.")
    not_negative(floor, "floor")
    if hasattr(coefficients, "dims"):
        dims = set(coefficients.dims)
        if not {"feature", "task"} <= dims:
            raise ValueError(
                f"coefficients has dims {tuple(coefficients.dims)}. "
                "Name those of the features and the tasks 'feature' and 'task'."
            )
        coefficients = coefficients.mean(sorted(dims - {"feature", "task"})).transpose("feature", "task")
    U = finite_matrix(coefficients, "coefficients", None)
    if U.shape[1] < 2:
        raise ValueError("coefficients has one task. A covariance needs two columns or more.")
    values, vectors = np.linalg.eigh(np.atleast_2d(np.cov(U)))
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    total = values.sum()
    if total <= 1e-30 * max(1.0, float(np.sum(U**2))):
        raise ValueError(
            "coefficients are the same in every task. There is no covariance to take a metric from."
        )
    share = np.cumsum(values) / total
    # Rounding must not ask for a component more.
    k = int(np.searchsorted(share, energy * (1.0 - 1e-12))) + 1
    Q = (vectors[:, :k] * values[:k]) @ vectors[:, :k].T + floor * total / len(U) * np.eye(len(U))
    Q *= len(U) / np.trace(Q)
    return (Q + Q.T) / 2.0
