r"""Multi-Laplace law on groups of parameters, its scale mixture for NUTS and the proximal step of its mode."""

from __future__ import annotations

from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pymc.distributions.dist_math import check_parameters
from pymc.distributions.distribution import Continuous, SymbolicRandomVariable, _support_point
from pymc.distributions.shape_utils import (
    convert_dims,
    convert_shape,
    maybe_resize,
    shape_from_dims,
)
from pymc.distributions.transforms import _default_transform
from pymc.logprob.abstract import _logprob
from pymc.logprob.transforms import LogTransform
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.utils import normalize_size_param
from scipy.special import gammaln

from zoo.distributions.parameters import as_float64, exactly_one, require, require_or_nan
from zoo.distributions.shapes import draw_size, fixed_core, full_batch, match_draw, static_lengths

__all__ = ["LogVector", "MultiLaplace", "multi_laplace_mixture", "prox_group_norm"]

_CONDITION = "C > 0, finite"


class LogVector(LogTransform):
    """Elementwise log of a vector, with one Jacobian a vector: PyMC refuses a univariate transform there."""

    ndim_supp = 1

    def log_jac_det(self, value, *inputs):
        """Sum of the unconstrained values over the last axis."""
        return pt.sum(value, axis=-1)


class MultiLaplaceRV(SymbolicRandomVariable):
    """Draws as a gamma radius times a uniform direction."""

    name = "multi_laplace"
    extended_signature = "[rng],[size],()->[rng],(t)"
    _print_name = ("MultiLaplace", "\\operatorname{MultiLaplace}")

    def __init__(self, *args, T, positive, **kwargs):
        self.T, self.positive = T, positive
        super().__init__(*args, **kwargs)

    def rebuild_rv(self, *args, **kwargs):
        """The same law with other inputs."""
        return self.rv_op(*args, T=self.T, positive=self.positive, **kwargs)

    @classmethod
    def rv_op(cls, C, *, T, positive, size=None, rng=None):
        """Graph of a draw: the radius is Gamma(T, rate C)."""
        rng, size, C = normalize_rng_param(rng), normalize_size_param(size), pt.as_tensor(C)
        size = draw_size(size, (C,), (0,))
        rate = require(C, C > 0, C < np.inf, message=_CONDITION)
        next_rng, radius = pm.Gamma.dist(T, rate, size=tuple(size), rng=rng).owner.outputs
        next_rng, normal = pm.Normal.dist(0.0, 1.0, size=(*size, T), rng=next_rng).owner.outputs
        direction = (pt.abs(normal) if positive else normal) / _norm(normal)[..., None]
        outputs = [next_rng, radius[..., None] * direction]
        return cls(inputs=[rng, size, C], outputs=outputs, T=T, positive=positive)(rng, size, C)


class MultiLaplace(Continuous):
    r"""Multi-Laplace distribution: a whole group of T values shrinks to zero together.

    .. math::

        f(\kappa \mid C) = \frac{C^T \Gamma(T/2)}{2 \pi^{T/2} \Gamma(T)} \exp\{-C \lVert \kappa \rVert_2\},
            \quad \text{times } 2^T \text{ on the positive orthant}

    ========  ==================================================  ==============================
    \         ``positive=True``                                   ``positive=False``
    ========  ==================================================  ==============================
    Support   :math:`\kappa \in [0, \infty)^T`                    :math:`\kappa \in \mathbb{R}^T`
    Mean      :math:`\mu = T \Gamma(T/2) / \{\sqrt{\pi}\,         0
              \Gamma((T+1)/2)\, C\}` each
    Variance  :math:`(T + 1) / C^2 - \mu^2` each                  :math:`(T + 1) / C^2` each
    ========  ==================================================  ==============================

    For T = 1 it is the exponential or the Laplace law with rate C. The prior of srijith2014 eqs (7) and (8), with
    the normaliser corrected: the printed :math:`C^{T/2}` is wrong, which matters as soon as C is learned.

    Parameters
    ----------
    C : tensor_like of float
        Rate, above 0 and finite; any batch shape.
    T : int, optional
        Length of a group. By default that of the last of ``shape`` or ``dims``; it is fixed from then on, also
        where the length of the dim is changed later.
    positive : bool, default True
        Whether the law lives on the positive orthant. If so, the sampler works on :math:`\log \kappa`.

    Raises
    ------
    ValueError
        For a T below 1, a ``positive`` that is no bool, and shapes that do not fit (C, the group, ``shape``).
    ParameterValueError
        For another C, in draws and in the log density.

    Notes
    -----
    The density has a kink at :math:`\kappa = 0`: the gradient :math:`-C \kappa / \lVert \kappa \rVert` has no limit
    there, and every vector of norm C or less is a subgradient. At exactly zero the gradient returned is 0, the
    shortest of them, and never NaN. On the log scale zero is infinitely far away. Where the mode
    may be at zero, take proximal steps (:func:`prox_group_norm`) rather than gradient ones. Sampling is often easier
    with :func:`multi_laplace_mixture`.

    Examples
    --------
    >>> import pymc as pm
    >>> from zoo.distributions.multi_laplace import MultiLaplace
    >>> with pm.Model(coords={"feature": range(3), "task": ["a", "b"]}):
    ...     kappa = MultiLaplace("kappa", 1.5, dims=("feature", "task"))
    """

    rv_type = MultiLaplaceRV
    rv_op = MultiLaplaceRV.rv_op

    @classmethod
    def dist(cls, C, T=None, positive=True, **kwargs):
        """Unregistered variable."""
        (T,) = static_lengths(kwargs.get("shape"), T=T)
        _check_flag(positive)
        C = as_float64(C, "C")
        match_draw(kwargs, C, (T,), "MultiLaplace draw")
        return super().dist([C], T=T, positive=bool(positive), **kwargs)


# PyMC hands the methods `logp` and `support_point` no op, which holds T and the flag: hence functions.
@_support_point.register(MultiLaplaceRV)
def _multi_laplace_support_point(op, rv, rng, size, C):
    factor = op.T * np.exp(gammaln(op.T / 2) - gammaln((op.T + 1) / 2)) / np.sqrt(np.pi)
    mean = (factor / C if op.positive else pt.zeros_like(C))[..., None]
    return full_batch(pt.repeat(mean, op.T, axis=-1), size, 1)


@_logprob.register(MultiLaplaceRV)
def _multi_laplace_logp(op, values, rng, size, C, **kwargs):
    value = fixed_core(as_float64(values[0], "value"), (op.T,), "MultiLaplace draw")
    constant = gammaln(op.T / 2) - gammaln(op.T) - np.log(2) - op.T / 2 * np.log(np.pi)
    density = constant + op.T * pt.log(C) - C * _norm(value)
    if op.positive:
        density = pt.switch(pt.all(value >= 0, axis=-1), density + op.T * np.log(2), -np.inf)
    return maybe_resize(check_parameters(density, C > 0, C < np.inf, msg=_CONDITION), size)


@_default_transform.register(MultiLaplaceRV)
def _multi_laplace_transform(op, rv):
    return LogVector() if op.positive else None


def _norm(x: Any) -> Any:
    """Euclidean norm over the last axis, with gradient 0 instead of NaN at zero."""
    square = pt.sum(x * x, axis=-1)
    return pt.switch(square > 0, pt.sqrt(pt.switch(square > 0, square, 1.0)), 0.0)


def _check_flag(positive: Any) -> None:
    if not isinstance(positive, bool | np.bool_):
        raise ValueError(f"positive is {positive!r}. Give True or False.")


def multi_laplace_mixture(
    name: str, C: Any, *, dims: Any = None, shape: Any = None, positive: bool = True
) -> Any:
    r"""Multi-Laplace groups for NUTS, built from independent variables.

    With :math:`\kappa_i \mid s_i \sim N(0, s_i I)`, truncated to the orthant if ``positive``, and
    :math:`s_i \sim \mathrm{Gamma}((T + 1) / 2, \text{rate } C^2 / 2)`, the law of :math:`\kappa_i` is
    :class:`MultiLaplace`: given :math:`s_i` the truncation costs the factor :math:`2^T` whatever :math:`s_i` is.
    Since :math:`C^2 s_i` is chi-square with T + 1 degrees of freedom,

    .. math:: \kappa_i = \sqrt{q_i}\, z_i / C, \quad q_i \sim \chi^2_{T + 1}, \quad z_i \sim N(0, I)

    with :math:`|z_i|` for :math:`z_i` if ``positive``: the density of q and z has no kink, and does not depend on C.
    Adds to the PyMC model on the context stack the auxiliary variables ``_{name}_scale`` (q) and ``_{name}_normal``
    (z, or its absolute value), and :math:`\kappa` as the deterministic ``name``.

    Parameters
    ----------
    name : str
    C : tensor_like of float
        Rate, above 0 and finite; may be a random variable. Broadcasts with all but the last of ``dims``.
    dims : str or tuple of str, optional
        Dims of the result, such as ``("feature", "task")``; the last is the group.
    shape : int or tuple of int, optional
        Shape of the result, in place of ``dims``.
    positive : bool, default True
        Whether the values are positive.

    Returns
    -------
    TensorVariable
        The deterministic ``name``.

    Raises
    ------
    ValueError
        Unless exactly one of ``dims`` and ``shape`` is given, and the shape of C fits it.
    ParameterValueError
        For another C, wherever the result is evaluated. If C is random the result is NaN there instead, which a
        sampler rejects.
    """
    exactly_one(dims=dims, shape=shape)
    _check_flag(positive)
    dims, shape = convert_dims(dims), convert_shape(shape)
    lengths = shape if dims is None else shape_from_dims(dims, pm.modelcontext(None))
    (T,) = static_lengths(lengths, T=None)
    C = as_float64(C, "C")
    match_draw({"shape": lengths}, C, (T,), "multi_laplace_mixture draw")
    each = {"shape": shape} if dims is None else {"dims": dims}
    group = {"shape": shape[:-1]} if dims is None else {"dims": dims[:-1]}
    scale = pm.ChiSquared(f"_{name}_scale", T + 1.0, **group)
    normal = (pm.HalfNormal if positive else pm.Normal)(f"_{name}_normal", sigma=1.0, **each)
    rate = require_or_nan(C, (C > 0) & (C < np.inf), message=_CONDITION)
    return pm.Deterministic(name, (pt.sqrt(scale) / rate)[..., None] * normal, dims=dims)


def prox_group_norm(v: Any, threshold: Any, positive: bool = True) -> np.ndarray:
    r"""Proximal operator of the group norm, over the last axis, with exact zeros.

    .. math:: \arg\min_x \tfrac12 \lVert x - v \rVert^2 + t \lVert x \rVert_2 \quad \text{(subject to } x \ge 0)

    Without the constraint, :math:`x = v (1 - t / \lVert v \rVert)_+`: where :math:`x \ne 0` the gradient is
    :math:`x - v + t x / \lVert x \rVert = 0`, so x is a multiple of v with
    :math:`\lVert x \rVert = \lVert v \rVert - t`; and zero is the minimiser if and only if v is a subgradient of the
    norm term there, :math:`\lVert v \rVert \le t`. With the constraint, both terms increase in :math:`x_i \ge 0`
    wherever :math:`v_i \le 0`, so these :math:`x_i` are zero; the others solve the problem without the constraint,
    whose answer is positive already. Hence v is replaced by its positive part :math:`v_+` first. It is the step for
    the group norm of srijith2014 eq (11), where a subgradient finds no exact zeros.

    Parameters
    ----------
    v : (..., T) array_like of float
    threshold : (...) array_like of float
        t, 0 or more (``inf`` gives zeros); broadcasts with all but the last axis of v.
    positive : bool, default True
        Whether x is constrained to the positive orthant.

    Returns
    -------
    (..., T) numpy.ndarray of float64

    Raises
    ------
    ValueError
        For a v with no axis or that is not finite, for a negative threshold, and for shapes that do not broadcast.
    """
    _check_flag(positive)
    v, t = np.asarray(v, dtype=np.float64), np.asarray(threshold, dtype=np.float64)
    if v.ndim == 0 or not np.isfinite(v).all():
        raise ValueError("v is a scalar or holds NaN or infinity. Give finite vectors along the last axis.")
    if not (t >= 0).all():
        raise ValueError(f"threshold is {threshold!r}. Give 0 or more.")
    try:
        t = np.broadcast_to(t, v.shape[:-1])[..., None]
    except ValueError:
        raise ValueError(
            f"threshold has shape {t.shape}, but v has shape {v.shape}. Give one threshold, or one per vector."
        ) from None
    v = np.maximum(v, 0.0) if positive else v
    # Squares of very small or very large entries would underflow or overflow; hypot does not.
    norm = np.hypot.reduce(np.abs(v), axis=-1, keepdims=True)
    return v * (1.0 - np.divide(t, norm, out=np.ones_like(norm), where=norm > t))
