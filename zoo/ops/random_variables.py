r"""Auxiliary variables of augmented likelihoods as PyTensor's ``RandomVariable`` operations, with
compiled draws.

Each draws one number, or one pair, from parameters that are numbers; PyTensor broadcasts them. The
draws are those of the Gibbs samplers: :func:`zoo.inference.gibbs.polya_gamma.polya_gamma`, and the roots
of Michael, Schucany & Haas (1976) without cancellation.

::

    omega = zoo.ops.polya_gamma(1.0, f)
    pm.draw(omega)
"""

from __future__ import annotations

import math
from inspect import getsource
from typing import Any
from zlib import crc32

import numpy as np
from pymc.pytensorf import normalize_rng_param
from pytensor.tensor.random.op import RandomVariable

from zoo.inference.compiled import ensure_compile_folder, njit
from zoo.inference.gibbs import polya_gamma as _polya_gamma_module
from zoo.inference.gibbs.polya_gamma import polya_gamma as _draw_polya_gamma

__all__ = [
    "EpsilonLambdaOmegaRV",
    "HingeLambdaRV",
    "InverseGaussianRV",
    "PolyaGammaRV",
    "epsilon_lambda_omega",
    "hinge_lambda",
    "inverse_gaussian",
    "polya_gamma",
]

_TINY = float(np.finfo(np.float64).tiny)


# -------------------------------------------------------------------- one draw


@njit(cache=True, nogil=True, error_model="numpy")
def draw_inverse_gaussian(rng, mu, lam):
    r"""Mean ``mu`` (``inf`` is allowed) and shape ``lam``; see
    :mod:`zoo.distributions.inverse_gaussian`.
    """
    z = rng.standard_normal()
    z2 = max(z * z, _TINY)
    u = rng.random()
    a = mu * z2 / lam
    h = 1.0 + 0.5 * (a + math.sqrt(a * (a + 4.0)))
    if not h < math.inf:
        return lam / z2
    return mu / h if u * (1.0 + h) <= h else mu * h


@njit(cache=True, nogil=True, error_model="numpy")
def draw_polya_gamma(rng, h, z):
    r"""PG(h, z), with any h above 0."""
    return _draw_polya_gamma(rng, h, z)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_hinge_lambda(rng, f, y, C, margin):
    r""":math:`1/\lambda` is inverse Gaussian with mean :math:`1 / (C |m - y f|)` and shape 1,
    li2014 eq (10).
    """
    slack = C * abs(margin - y * f)
    return 1.0 / draw_inverse_gaussian(rng, 1.0 / slack if slack > 0.0 else math.inf, 1.0)


@njit(cache=True, nogil=True, error_model="numpy")
def draw_epsilon_lambda_omega(rng, f, y, C, epsilon):
    r""":math:`(\lambda, \omega)`, li2014 eq (15): the variables of two hinges, above the tube and
    below.
    """
    pair = np.empty(2)
    pair[0] = draw_hinge_lambda(rng, f - y, 1.0, C, -epsilon)
    pair[1] = draw_hinge_lambda(rng, y - f, 1.0, C, -epsilon)
    return pair


# -------------------------------------------------------------------- operations


class _CompiledRV(RandomVariable):
    """A random variable of which ``one`` gives one draw, compiled."""

    dtype = "floatX"
    one: Any = None

    @classmethod
    def rng_fn(cls, rng: np.random.Generator, *arguments: Any) -> np.ndarray:
        """Draws without PyTensor's compiler: the same numbers from the same generator."""
        *parameters, size = arguments
        given = [np.asarray(p, dtype=np.float64) for p in parameters]
        shape = np.broadcast_shapes(*(p.shape for p in given)) if size is None else tuple(size)
        columns = [np.broadcast_to(p, shape).ravel() for p in given]
        draws = [cls.one(rng, *row) for row in zip(*columns, strict=True)]
        found = np.array(draws, dtype=np.float64)
        return found.reshape((*shape, *found.shape[1:])) if draws else np.empty((*shape, *cls._core()))

    @classmethod
    def _core(cls) -> tuple[int, ...]:
        return ()


class InverseGaussianRV(_CompiledRV):
    """Inverse Gaussian draws: mean, which may be infinite, and shape."""

    name = "inverse_gaussian"
    signature = "(),()->()"
    _print_name = ("InverseGaussian", "\\operatorname{InverseGaussian}")
    one = staticmethod(draw_inverse_gaussian)


class PolyaGammaRV(_CompiledRV):
    """Pólya-Gamma draws PG(h, z)."""

    name = "polya_gamma"
    signature = "(),()->()"
    _print_name = ("PolyaGamma", "\\operatorname{PolyaGamma}")
    one = staticmethod(draw_polya_gamma)


class HingeLambdaRV(_CompiledRV):
    """The auxiliary variable of the hinge given f, y, C and margin."""

    name = "hinge_lambda"
    signature = "(),(),(),()->()"
    _print_name = ("HingeLambda", "\\operatorname{HingeLambda}")
    one = staticmethod(draw_hinge_lambda)


class EpsilonLambdaOmegaRV(_CompiledRV):
    """Both auxiliary variables of the epsilon-insensitive loss given f, y, C and epsilon, as the
    last dimension.
    """

    name = "epsilon_lambda_omega"
    signature = "(),(),(),()->(p)"
    _print_name = ("EpsilonLambdaOmega", "\\operatorname{EpsilonLambdaOmega}")
    one = staticmethod(draw_epsilon_lambda_omega)

    @classmethod
    def _core(cls) -> tuple[int, ...]:
        return (2,)

    def _supp_shape_from_params(self, dist_params: Any, param_shapes: Any = None) -> tuple[int, ...]:
        return (2,)


def _drawn(op: RandomVariable, parameters: tuple[Any, ...], size: Any, rng: Any) -> Any:
    return op(*parameters, size=size, rng=normalize_rng_param(rng), return_next_rng=True)[1]


def inverse_gaussian(mu: Any, lam: Any = 1.0, *, size: Any = None, rng: Any = None) -> Any:
    """Draws of the inverse Gaussian law.

    Parameters
    ----------
    mu, lam : tensor_like
        Mean, which may be infinite, and shape, both above 0.
    size : tuple of int, optional
        Shape of the draws; by default that of the parameters.
    rng : optional
        A shared generator of PyTensor.
    """
    return _drawn(InverseGaussianRV(), (mu, lam), size, rng)


def polya_gamma(h: Any, z: Any, *, size: Any = None, rng: Any = None) -> Any:
    """Draws of PG(h, z) (Polson, Scott & Windle 2013), which make a logistic likelihood normal in
    z.

    Parameters
    ----------
    h, z : tensor_like
        Number of trials, any number above 0; and log odds.
    size, rng : optional
        As in :func:`inverse_gaussian`.
    """
    return _drawn(PolyaGammaRV(), (h, z), size, rng)


def hinge_lambda(
    f: Any, y: Any, C: Any = 1.0, margin: Any = 1.0, *, size: Any = None, rng: Any = None
) -> Any:
    r"""Draws of the auxiliary variable of the hinge given the rest (li2014 eq 10).

    Parameters
    ----------
    f, y, C, margin : tensor_like
        As in :func:`zoo.ops.augmented_hinge_logp`.
    size, rng : optional
        As in :func:`inverse_gaussian`.
    """
    return _drawn(HingeLambdaRV(), (f, y, C, margin), size, rng)


def epsilon_lambda_omega(
    f: Any, y: Any, C: Any = 1.0, epsilon: Any = 0.001, *, size: Any = None, rng: Any = None
) -> Any:
    r"""Draws of both auxiliary variables of the epsilon-insensitive loss, as the last dimension
    (li2014 eq 15).

    Parameters
    ----------
    f, y, C, epsilon : tensor_like
        As in :func:`zoo.ops.augmented_epsilon_insensitive_logp`.
    size, rng : optional
        As in :func:`inverse_gaussian`.
    """
    return _drawn(EpsilonLambdaOmegaRV(), (f, y, C, epsilon), size, rng)


def _register() -> None:
    ensure_compile_folder()
    from pytensor.link.numba.dispatch.random import numba_core_rv_funcify

    # The compiled code holds that of the draws: a file on disk must not outlive a change of it.
    version = crc32((_polya_gamma_module.__name__ + getsource(_polya_gamma_module)).encode())

    @numba_core_rv_funcify.register(_CompiledRV)
    def _core(op: _CompiledRV, node: Any) -> Any:
        return op.one, crc32(getsource(type(op).one.py_func).encode(), version)


_register()
