r"""Learned scales of a block, moved together with its coefficients: both parametrisations in turn.

A scale :math:`\tau` that only sets the spread of coefficients, :math:`\theta_j \sim N(m_j, \tau^2)`, moves slowly
where it is drawn given these: they say what it is to a part in :math:`\sqrt n`, whatever the data say. The other
parametrisation holds :math:`\eta_j = (\theta_j - m_j) / \tau` in place of the coefficients, and moves slowly where the
data say much of each. Drawing the scale once in each, one right after the other, is at least as good as the better of
the two, and often much better than both (Yu & Meng 2011).

Given the :math:`\eta` a factor r for the scale takes the block b to :math:`b + (r - 1) d`, where d is
:math:`\theta - m` and 0 elsewhere. With :math:`p = J d` and the weights of the sweep, under which the log density of a
row is :math:`-w e^2 / 2 + v e` with :math:`e = J b + c` and :math:`u = v - w c`, the rows add

.. math:: g(r) = (r - 1) \sum_n p_n (u_n - w_n (J b)_n) - \tfrac12 (r - 1)^2 \sum_n w_n p_n^2 ,

where the sums leave out the priors of these coefficients: their density falls by :math:`r^{-n}`, which the Jacobian of
the map makes up for. What is left is the prior of :math:`\tau`. One slice-sampling step in :math:`\log r` then costs
two sums over the rows and a few numbers.

In a sweep under the likelihood (:mod:`zoo.steps.likelihood_moves`) w and v are those of parabolas in place of observed
rows. The slice-sampling step then keeps the law that has these for rows. It is a proposal, which is taken with the
probability :math:`\min(1, e^{\Delta - g})`, where :math:`\Delta` is what the log likelihood gains, and g that of the
observed rows alone (Metropolis and Hastings: the step is reversible, and all else is the same in both laws).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pymc as pm
from pymc.distributions.transforms import LogTransform
from pytensor.tensor.elemwise import DimShuffle
from pytensor.tensor.random import basic as rb

from zoo.inference.gibbs.slice_move import slice_of
from zoo.steps.affine import reads
from zoo.steps.block_normal import add_products
from zoo.steps.point import PointFunction
from zoo.steps.state import State

__all__ = ["Interweaving", "InterwovenScale", "interwoven_scales"]

Point = dict[str, np.ndarray]

# Of the first interval for the logarithm of a factor.
_WIDTH = 0.5


class InterwovenScale(NamedTuple):
    """A scale that interweaving moves.

    Parameters
    ----------
    name : str
    value_name : str
        Of its logarithm, which a point holds.
    children : tuple of int
        Which variables of the block it is the scale of.
    residuals : PointFunction
        These less their means.
    log_prior : PointFunction
        Log density of its logarithm.
    """

    name: str
    value_name: str
    children: tuple[int, ...]
    residuals: PointFunction
    log_prior: PointFunction


def interwoven_scales(model: pm.Model, block: Sequence[Any], options: Any = None) -> list[InterwovenScale]:
    """The free variables of which it is proved that they only set the spread of variables of the block.

    Such a one is a single positive number, which PyMC moves by its logarithm; it stands as it is for the standard
    deviation of normal variables of the block, whose means read neither it nor each other; and nothing else reads it.
    """
    found = []
    for rv in model.free_RVs:
        if rv in block or rv.type.ndim or not isinstance(model.rvs_to_transforms[rv], LogTransform):
            continue
        children = tuple(i for i, child in enumerate(block) if _scale_of(child) is rv)
        if children and _sets_spread_alone(model, rv, [block[i] for i in children]):
            residuals = [block[i] - block[i].owner.inputs[2] for i in children]
            parts = (PointFunction(model, g, options=options) for g in (residuals, [model.logp(vars=[rv])]))
            found.append(InterwovenScale(str(rv.name), str(model.rvs_to_values[rv].name), children, *parts))
    return found


def _scale_of(rv: Any) -> Any:
    """What stands for the standard deviation of a normal variable, without dimensions that broadcast it; else None."""
    if not isinstance(rv.owner.op, rb.NormalRV):
        return None
    scale = rv.owner.inputs[3]
    while scale.owner is not None and isinstance(scale.owner.op, DimShuffle):
        scale = scale.owner.inputs[0]
    return scale


def _sets_spread_alone(model: pm.Model, scale: Any, children: list[Any]) -> bool:
    known = model.basic_RVs
    for rv in known:
        if rv.owner is None or rv is scale:
            continue
        inputs = list(rv.owner.inputs)
        if rv in children:
            mean = reads([inputs[2]], known)
            if scale in mean or mean & set(children):
                return False
        elif scale in reads(inputs, known):
            return False
    return scale not in reads(list(model.potentials), known)


class Interweaving:
    """Moves scales with their coefficients, after a draw of the block.

    Parameters
    ----------
    scales : list of InterwovenScale
    starts : (k + 1,) array
        Where each variable of the block starts in it.
    spans : list of (int, int)
        Rows of each term, of which the first k are the priors of these variables.
    """

    def __init__(self, scales: list[InterwovenScale], starts: np.ndarray, spans: list[tuple[int, int]]):
        self.scales, self._starts, self._spans = scales, starts, spans

    def move(
        self,
        rng: np.random.Generator,
        point: Point,
        state: State,
        weights: tuple[np.ndarray, np.ndarray],
        corrected: bool,
    ) -> Point:
        """The point after one step of every scale.

        Parameters
        ----------
        rng : numpy.random.Generator
        point : dict
            Holds the block of ``state``.
        state : State
            Of the sweep; changed in place.
        weights : tuple of (n,) arrays
            w and v, in place of the rows: of the auxiliary variables of the sweep, or of parabolas. Changed in place,
            where they are those of priors.
        corrected : bool
            Whether they are those of parabolas, so that Metropolis and Hastings have the last word.
        """
        rows, (w, v) = state.rows, weights
        for scale in self.scales:
            d, own = np.zeros(len(state.block)), [slice(*self._spans[i]) for i in scale.children]
            for i, part in zip(scale.children, scale.residuals(point), strict=True):
                d[self._starts[i] : self._starts[i + 1]] = np.ravel(part)
            p, slope = np.zeros(len(w)), v - w * state.e
            add_products(rows.indptr, rows.indices, state.data, d, rows.every, p)
            for part in own:
                p[part] = 0.0
            s = _step(rng, scale, point, float(p @ slope), float((w * p) @ p))
            if corrected and not _taken(rng, state, w, slope, np.expm1(s) * p):
                continue
            state.set_block(state.block + np.expm1(s) * d)
            point = {
                **point, **rows.point_of(state.block), scale.value_name: np.asarray(point[scale.value_name] + s)
            }  # fmt: skip
            for part in own:
                w[part] *= np.exp(-2.0 * s)
        return point


def _taken(
    rng: np.random.Generator, state: State, w: np.ndarray, slope: np.ndarray, change: np.ndarray
) -> bool:
    """Whether Metropolis and Hastings take a move of the predictors by ``change`` (n,), which keeps the law that
    has parabolas for rows, of curvature ``w`` and with the ``slope`` now.
    """
    first = state.rows.n_prior
    new = state.log_densities(state.e + change)
    gain = float(new.sum() - state.densities.sum())
    change, w, slope = change[first:], w[first:], slope[first:]
    gain -= float(change @ slope - 0.5 * (w * change) @ change)
    return bool(-rng.standard_exponential() < gain)


def _step(
    rng: np.random.Generator, scale: InterwovenScale, point: Point, slope: float, curvature: float
) -> float:
    """The logarithm of the factor of a scale, by one slice-sampling step, given the two sums of the formula above."""
    name, start = scale.value_name, float(point[scale.value_name])

    def log_density(s: float) -> float:
        growth = np.expm1(s)
        [prior] = scale.log_prior({**point, name: np.asarray(start + s)})
        return float(growth * slope - 0.5 * growth * growth * curvature + prior)

    return slice_of(rng, log_density, _WIDTH)
