r"""Observed variables and priors as terms that are Gaussian in a block, given augmentation
variables.

A term has a predictor e for each of its rows, and :math:`\log p = -w e^2/2 + v e` up to a constant,
where w and v are known or drawn. Priors are such terms too: of x ~ N(m, s) the predictor is x - m,
with w = 1/s^2 and v = 0.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.graph.basic import Constant
from pytensor.tensor.elemwise import DimShuffle, Elemwise
from pytensor.tensor.random import basic as rb

from zoo.distributions.epsilon_insensitive import EpsilonInsensitivePseudoLikelihoodRV
from zoo.distributions.hinge import HingePseudoLikelihoodRV
from zoo.distributions.matrix_normal import MatrixNormalRV

__all__ = ["Term", "is_normal", "observed_term", "prior_term"]


class Term(NamedTuple):
    """One observed variable, or the prior of one variable of the block.

    Parameters
    ----------
    rv : variable
        The random variable.
    law : str
        What it is, in words for tables.
    kind : str
        How w and v come about, a name of :mod:`zoo.steps.augmentations`.
    predictor : tensor variable
        e, before :func:`finish`.
    parameters : tuple of tensor variables
        What ``kind`` needs beside e, each to be broadcast to the rows.
    y : tensor variable, optional
        What was observed.
    finish : callable, optional
        A linear map of e, by matrices without the block: e becomes white.
    scales : tuple of tensor variables
        What ``finish`` reads.
    """

    rv: Any
    law: str
    kind: str
    predictor: Any
    parameters: tuple[Any, ...] = ()
    y: Any = None
    finish: Callable[[Any], Any] | None = None
    scales: tuple[Any, ...] = ()

    def finished(self, graph: Any) -> Any:
        """The predictor, or its linear part, made white."""
        return graph if self.finish is None else self.finish(graph)


_NORMAL = (rb.NormalRV, rb.MvNormalRV, pm.MatrixNormal.rv_type, MatrixNormalRV)


# What they are told of is a mean, and no probability that must be recognised.
_BY_MEAN = (
    *(rb.NormalRV, rb.StudentTRV, rb.LaplaceRV, pm.AsymmetricLaplace.rv_type),
    *(HingePseudoLikelihoodRV, EpsilonInsensitivePseudoLikelihoodRV),
)


def _as_float64(graphs: Sequence[Any]) -> list[Any]:
    """Numbers such as 5.0 are single precision in PyTensor's graphs, and the square of their
    inverse is not exact.
    """
    return [x if x.type.dtype == "float64" else pt.cast(x, "float64") for x in graphs]


def is_normal(rv: Any) -> bool:
    """Whether a free variable has a normal law of its own."""
    return rv.owner is not None and type(rv.owner.op) in _NORMAL


def prior_term(rv: Any) -> Term:
    """The prior of a variable of the block."""
    _, _, mean, *given = rv.owner.inputs
    op, scales = rv.owner.op, _as_float64(given)
    if isinstance(op, rb.NormalRV):
        return Term(rv, "normal", "known", rv - mean, (1.0 / pt.sqr(scales[0]), pt.zeros(())))
    one = (pt.ones(()), pt.zeros(()))
    if isinstance(op, rb.MvNormalRV):
        factor = pt.linalg.cholesky(scales[0])
        return Term(
            rv,
            "multivariate normal",
            "known",
            rv - mean,
            one,
            None,
            lambda e: _solve(factor, e),
            tuple(scales),
        )
    rows, columns = scales

    def white(e: Any) -> Any:
        half = pt.linalg.solve_triangular(rows, e, lower=True)
        return pt.linalg.solve_triangular(columns, half.mT, lower=True).mT

    return Term(rv, "matrix normal", "known", rv - mean, one, None, white, tuple(scales))


def _solve(factor: Any, e: Any) -> Any:
    if factor.type.ndim == e.type.ndim == 2:  # one call for all rows, some times as fast
        return pt.linalg.solve_triangular(factor, e.mT, lower=True, b_ndim=2).mT
    return pt.linalg.solve_triangular(factor, e, lower=True, b_ndim=1)


def observed_term(rv: Any, y: Any, depends: Callable[[Any], bool]) -> Term | None:
    """The term of an observed variable, or None where it has no augmentation.

    Parameters
    ----------
    rv : variable
        Observed.
    y : variable
        What was observed.
    depends : callable
        Whether a graph reads the block.
    """
    if rv.owner is None:
        return None
    op, inputs = rv.owner.op, rv.owner.inputs[2:]
    if isinstance(op, _BY_MEAN):
        inputs, y = _as_float64(inputs), _as_float64([y])[0]
    if isinstance(op, rb.NormalRV):
        mean, sd = inputs
        precision = 1.0 / pt.sqr(sd)
        return Term(rv, "normal", "known", mean, (precision, precision * y), y)
    if isinstance(op, rb.StudentTRV):
        degrees, mean, sd = inputs
        return Term(rv, "Student-t", "student_t", mean, (y, degrees, sd), y)
    if isinstance(op, rb.LaplaceRV):
        mean, scale = inputs
        return Term(rv, "Laplace", "laplace", mean, (y, 1.0 / scale, pt.zeros(())), y)
    if isinstance(op, pm.AsymmetricLaplace.rv_type):
        rate, kappa, mean = inputs
        # log p = -rate (kappa r+ + r- / kappa) = -rate (kappa + 1/kappa)/2 |r| - rate (kappa - 1/kappa)/2 r.
        even, odd = 0.5 * rate * (kappa + 1.0 / kappa), 0.5 * rate * (kappa - 1.0 / kappa)
        return Term(rv, "asymmetric Laplace", "laplace", mean, (y, even, odd), y)
    if isinstance(op, HingePseudoLikelihoodRV):
        f, C, margin = inputs
        return Term(rv, "hinge", "hinge", f, (y, C, margin), y)
    if isinstance(op, EpsilonInsensitivePseudoLikelihoodRV):
        f, C, epsilon = inputs
        return Term(rv, "epsilon-insensitive", "tube", f, (y, C, epsilon), y)
    return _counted(rv, op, inputs, y, depends)


def _counted(rv: Any, op: Any, inputs: list[Any], y: Any, depends: Callable[[Any], bool]) -> Term | None:
    """Labels and counts by their logits, with Polya-Gamma variables."""
    y = _as_float64([y])[0]
    if isinstance(op, rb.BernoulliRV):
        [p] = inputs
        f = _logit(p)
        if f is not None:
            return Term(rv, "Bernoulli, logit", "polya_gamma", f, (pt.ones(()), y - 0.5), y)
        f = _probit(p)
        if f is not None and depends(f):
            return Term(rv, "Bernoulli, probit", "probit", f, (2.0 * y - 1.0,), y)
    if isinstance(op, rb.BinomialRV):
        (n,), p = _as_float64(inputs[:1]), inputs[1]
        f = _logit(p)
        if f is not None:
            return Term(rv, "binomial, logit", "polya_gamma", f, (n, y - 0.5 * n), y)
    if isinstance(op, rb.NegBinomialRV):
        (n,), p = _as_float64(inputs[:1]), inputs[1]
        f = _logit(p)
        # p^n (1 - p)^y, where f is the logit of p: of "no more counts".
        if f is not None:
            return Term(rv, "negative binomial", "polya_gamma", f, (n + y, 0.5 * (n - y)), y)
    return None


def _scalar_op(variable: Any) -> Any:
    owner = variable.owner
    return type(owner.op.scalar_op) if owner is not None and isinstance(owner.op, Elemwise) else None


def _without_views(variable: Any) -> Any:
    """What a ``Deterministic`` or an identity shows."""
    while variable.owner is not None and (
        type(variable.owner.op).__name__ == "ViewOp" or _scalar_op(variable) is ps.Identity
    ):
        variable = variable.owner.inputs[0]
    return variable


def _logit(p: Any) -> Any:
    """F where p is ``sigmoid(f)``, perhaps with entries moved; else None."""
    p = _without_views(p)
    if _scalar_op(p) is ps.Sigmoid:
        return p.owner.inputs[0]
    if p.owner is not None and isinstance(p.owner.op, DimShuffle):
        below = _logit(p.owner.inputs[0])
        return None if below is None else p.owner.op(below)
    return None


def _probit(p: Any) -> Any:
    """F where p is ``invprobit(f)``, which is ``0.5 erfc(-f / sqrt(2))``; else None."""
    p = _without_views(p)
    if _scalar_op(p) is not ps.Mul:
        return None
    pair = list(p.owner.inputs)
    halves = [x for x in pair if _is_half(x)]
    others = [x for x in pair if _scalar_op(x) is ps.Erfc]
    if len(pair) != 2 or len(halves) != 1 or len(others) != 1:
        return None
    return -math.sqrt(2.0) * others[0].owner.inputs[0]


def _is_half(x: Any) -> bool:
    while x.owner is not None and isinstance(x.owner.op, DimShuffle):
        x = x.owner.inputs[0]
    return isinstance(x, Constant) and bool(np.all(np.asarray(x.data) == 0.5))
