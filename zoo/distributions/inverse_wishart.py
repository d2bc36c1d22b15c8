r"""Non-centred inverse-Wishart covariances for NUTS."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt

__all__ = ["noncentred_inverse_wishart"]


def noncentred_inverse_wishart(name: str, nu: float, dims: tuple[str, str]) -> Any:
    r"""Factor ``L`` of a covariance ``L L' ~ IW(nu, I)``, built from independent variables.

    With ``A`` lower triangular, :math:`A_{ii}^2 \sim \chi^2_{\nu - i}` (i from 0) and standard normal entries
    below the diagonal, ``A A'`` is Wishart(nu, I) (Bartlett), so :math:`L = A^{-\top}` gives the
    inverse-Wishart law (textbook parametrisation) without a Jacobian: the sampler's variables are a priori
    independent. Adds to the PyMC model on the context stack the auxiliary variables ``_{name}_chi2`` and
    ``_{name}_normal`` and the covariance itself as the deterministic ``name``.

    Parameters
    ----------
    name : str
    nu : float
        Degrees of freedom, above ``n - 1``.
    dims : (str, str)
        Dims of the covariance; both have the coords of the same n names.

    Returns
    -------
    (n, n) TensorVariable
        Upper triangular ``L``.
    """
    model = pm.modelcontext(None)
    n = len(model.coords[dims[0]])
    chi2 = pm.ChiSquared(f"_{name}_chi2", nu - np.arange(n), dims=dims[0])
    A = pt.diag(pt.sqrt(chi2))
    if n > 1:
        below = np.tril_indices(n, -1)
        A = pt.set_subtensor(A[below], pm.Normal(f"_{name}_normal", shape=len(below[0])))
    L = pt.linalg.solve_triangular(A, pt.eye(n), lower=True).T
    pm.Deterministic(name, L @ L.T, dims=dims)
    return L
