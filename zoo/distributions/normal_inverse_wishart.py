r"""Normal-inverse-Wishart law of a mean and a covariance, non-centred by construction."""

from __future__ import annotations

from typing import Any

import pymc as pm
import pytensor.tensor as pt

from zoo.distributions.inverse_wishart import InverseWishart, inverse_wishart_parameters
from zoo.distributions.inverse_wishart_cholesky import InverseWishartCholesky
from zoo.distributions.parameters import as_float64, require
from zoo.distributions.shapes import same_length

__all__ = ["NormalInverseWishart"]


class NormalInverseWishart:
    r"""Joint distribution of a mean vector and a covariance matrix (yu2005 section 3.1).

    .. math::

        C \sim \mathrm{IW}(\nu, S), \qquad \mu \mid C \sim N(\mu_0, C / \pi)

    ==============  ==================================================================================
    Support         :math:`\mu \in \mathbb{R}^p`, :math:`C\,(p \times p)` positive definite
    Mean            :math:`\mu_0` and :math:`S / (\nu - p - 1)`
    Marginal        :math:`\mu` is Student-t with :math:`\delta = \nu - p + 1` degrees of freedom,
                    location :math:`\mu_0` and scale matrix :math:`S / (\pi \delta)`
    ==============  ==================================================================================

    Called in a model, it adds the covariance ``{name}_cov`` and the mean ``{name}_mean``, built from independent
    auxiliary variables with a leading underscore, and returns the mean and the Cholesky factor of the covariance.

    Parameters
    ----------
    name : str
        Prefix of the variables.
    mu0 : (p,) tensor_like of float
        Location of the mean; a number is repeated.
    pi : tensor_like of float
        How many observations the prior of the mean is worth, above 0 (the paper's pi).
    nu, delta, scale, scale_chol
        As in :class:`~zoo.distributions.InverseWishart`. yu2005 theorem 5.1 needs ``delta``; the paper's tau is
        :math:`\nu = \tau - p - 2` of a maximum a posteriori estimate, and tau = 1 is no prior that can be sampled.
    dims : (str, str), optional
        Dims of the covariance; the mean has the first.

    Returns
    -------
    mean : (p,) TensorVariable
    chol : (p, p) TensorVariable
        Lower Cholesky factor of the covariance.

    Examples
    --------
    .. code-block:: python

        coords = {"feature": ["a", "b"], "feature_bis": ["a", "b"], "task": range(30)}
        with pm.Model(coords=coords):
            mean, chol = zoo.distributions.NormalInverseWishart(
                "population", mu0=0, pi=1, delta=2, scale=np.eye(2), dims=("feature", "feature_bis")
            )
            w = pm.MvNormal("w", mu=mean, chol=chol, dims=("task", "feature"))
    """

    def __new__(cls, name, mu0=0.0, pi=1.0, nu=None, scale=None, *, delta=None, scale_chol=None, dims=None):
        """Add the variables to the model on the context stack."""
        mu0, pi, nu, scale_chol = _parameters(mu0, pi, nu, delta, scale, scale_chol)
        if dims is not None and len(dims) != 2:
            raise ValueError(
                f"dims has {len(dims)} names. Give the two of the covariance; the mean has the first."
            )
        chol = InverseWishartCholesky(f"_{name}_chol", nu, scale_chol=scale_chol, dims=dims)
        white = pm.Normal(f"_{name}_white", shape=None if dims else mu0.shape, dims=dims and dims[0])
        pm.Deterministic(f"{name}_cov", chol @ chol.mT, dims=dims)
        mean = pm.Deterministic(f"{name}_mean", mu0 + chol @ white / pt.sqrt(pi), dims=dims and dims[0])
        return mean, chol

    @classmethod
    def dist(cls, mu0=0.0, pi=1.0, nu=None, scale=None, *, delta=None, scale_chol=None):
        """Unregistered mean and covariance, which share their randomness."""
        mu0, pi, nu, scale_chol = _parameters(mu0, pi, nu, delta, scale, scale_chol)
        chol = InverseWishartCholesky.dist(nu, scale_chol=scale_chol)
        white = pm.Normal.dist(size=mu0.shape)
        return mu0 + chol @ white / pt.sqrt(pi), chol @ chol.mT

    @classmethod
    def logp(cls, mean, cov, mu0=0.0, pi=1.0, nu=None, scale=None, *, delta=None, scale_chol=None):
        """Joint log density at a mean (p,) and a covariance (p, p)."""
        mu0, pi, nu, scale_chol = _parameters(mu0, pi, nu, delta, scale, scale_chol)
        chol = pt.linalg.cholesky(as_float64(cov, "cov"))
        return pm.logp(InverseWishart.dist(nu, scale_chol=scale_chol), cov) + pm.logp(
            pm.MvNormal.dist(mu0, chol=chol / pt.sqrt(pi)), as_float64(mean, "mean")
        )


def _parameters(mu0: Any, pi: Any, nu: Any, delta: Any, scale: Any, scale_chol: Any) -> tuple[Any, ...]:
    nu, scale_chol = inverse_wishart_parameters(nu, delta, scale, scale_chol)
    mu0, pi = as_float64(mu0, "mu0"), as_float64(pi, "pi")
    if mu0.type.ndim:
        same_length("mu0", mu0.type.shape[-1], "the scale", scale_chol.type.shape[-1])
    else:
        mu0 = pt.repeat(mu0, scale_chol.shape[-1])
    return mu0, require(pi, pi > 0, message="pi > 0"), nu, scale_chol
