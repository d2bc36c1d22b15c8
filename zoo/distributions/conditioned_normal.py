r"""Standard normal variables that a sampler sees given normal responses: (V5) of docs/varying-coefficients.md.

Of :math:`z \sim N(0, I)` and responses :math:`y = A z + \sigma e` the posterior given everything else is normal,

.. math::

    z | y, A, \sigma \sim N(m, B^{-1}), \quad B = I + A'A / \sigma^2, \quad m = B^{-1} A'y / \sigma^2,

and :math:`u = C'(z - m)` with :math:`C C' = B` is standard normal, whatever A and sigma are. A sampler of u and of what
A and sigma are made of has no funnel between the two, which it has between z and a small sigma. The law of z remains
:math:`N(0, I)`: the responses enter the map to u and its Jacobian :math:`|C|^{-1}`, and no density. So the posterior
is exact also where y has another law than the map supposes.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.logprob.transforms import Transform

__all__ = ["conditioned_normal"]

# Of the mean of the diagonal of A'A, what is added to the variance of the noise: of a matrix with a larger condition
# number than one over this the factor has no digits. The map may be of any sigma.
_FLOOR = 1e-10


def conditioned_normal(name: str, gram: Any, moment: Any, noise: Any, dims: str) -> Any:
    """Standard normal variables (p,), sampled given normal responses.

    Parameters
    ----------
    name, dims : str
        Of the variable in the PyMC model on the context stack.
    gram : TensorVariable
        (p, p) ``A'A``.
    moment : TensorVariable
        (p,) ``A'y``.
    noise : TensorVariable
        Standard deviation sigma of the responses.
    """
    precision = 1.0 / (pt.square(noise) + _FLOOR * pt.mean(pt.diagonal(gram)))
    root = pt.linalg.cholesky(pt.eye(moment.shape[0]) + precision * gram)
    half = pt.linalg.solve_triangular(root, precision * moment, lower=True, b_ndim=1)
    mean = pt.linalg.solve_triangular(root.T, half, lower=False, b_ndim=1)
    return pm.CustomDist(
        name, mean, root, logp=_logp, random=_random, support_point=_support_point, signature="(p),(p,p)->(p)",
        transform=ConditionedTransform(), class_name="StandardNormal", dims=dims,
        dtype="float64",
    )  # fmt: skip


def _logp(z, mean, root):
    return -0.5 * pt.sum(pt.square(z) + np.log(2.0 * np.pi), axis=-1)


def _random(mean, root, rng=None, size=None):
    return rng.standard_normal(mean.shape if size is None else (*size, mean.shape[-1]))


def _support_point(rv, size, mean, root):
    return mean  # where u is 0: elsewhere a small sigma puts the start far out


class ConditionedTransform(Transform):
    """``z = m + C'^{-1} u``."""

    name = "conditioned"
    ndim_supp = 1

    def forward(self, value, *inputs):
        """The u of a z."""
        mean, root = inputs[-2:]
        return pt.dot(root.T, value - mean)

    def backward(self, value, *inputs):
        """The z of a u."""
        mean, root = inputs[-2:]
        return mean + pt.linalg.solve_triangular(root.T, value, lower=False, b_ndim=1)

    def log_jac_det(self, value, *inputs):
        """Log determinant of the derivative of ``backward``."""
        return -pt.sum(pt.log(pt.diagonal(inputs[-1])))
