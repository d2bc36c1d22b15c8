r"""The block of a model with normal responses integrated out, and drawn afterwards.

With a block b and other variables :math:`\theta`,

.. math:: \log p(y \mid \theta) = \log p(y \mid b, \theta) + \log p(b \mid \theta) - \log p(b \mid y, \theta)

at any b, and b = 0 is taken. The last term is normal, with the precision :math:`Q = J' W J` of all
rows.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
import xarray as xr
from pytensor.graph.replace import graph_replace, vectorize_graph
from pytensor.graph.traversal import ancestors

from zoo.steps.affine import reads
from zoo.steps.gibbs import augmented_step
from zoo.steps.plan import Plan, make_plan
from zoo.steps.point import PointFunction
from zoo.support.seeds import integer_seed

__all__ = ["draw_marginalised", "marginalise"]

_MOST = 1000


def marginalise(model: pm.Model | None = None, vars: Sequence[Any] | None = None) -> pm.Model:
    """The same model without its Gaussian block, which is integrated out.

    NUTS on what is left sees no funnel and few variables. :func:`draw_marginalised` draws the block
    afterwards.

    ::

        small = zoo.marginalise(model)
        idata = zoo.draw_marginalised(model, pm.sample(model=small))

    Parameters
    ----------
    model : pm.Model, optional
        By default that on the context stack.
    vars : sequence of variables or names, optional
        The block, as in :func:`zoo.augmented_step`.

    Returns
    -------
    pm.Model
        Its potential ``block_integrated_out`` makes the joint density that of y and the variables
        left. Deterministic variables that read the block are left out. ``pm.set_data`` changes the
        data of one model alone: those of ``model`` count for :func:`draw_marginalised`.

    Raises
    ------
    ValueError
        Where the block enters an observed variable that is not normal, where it has more than a
        thousand entries, or as :func:`zoo.augmented_step` does.
    """
    model = pm.modelcontext(model)
    plan = make_plan(model, vars)
    other = [term for term in plan.terms if term.kind != "known"]
    if other:
        raise ValueError(
            f"the block enters {str(other[0].rv.name)!r} ({other[0].law}), and only normal responses can be "
            "integrated over in closed form. Take zoo.augmented_step."
        )
    start = model.initial_point(0)
    shapes = [np.shape(start[str(model.rvs_to_values[rv].name)]) for rv in plan.block]
    size = sum(math.prod(shape) for shape in shapes)
    if size > _MOST:
        raise ValueError(
            f"the block has {size:,} entries, more than the {_MOST:,} whose dense precision can be differentiated. "
            "Take zoo.augmented_step."
        )
    # A free variable whose value is given would be a constant of the density: deterministic ones would show it.
    given = {rv: np.zeros(shape) for rv, shape in zip(plan.block, shapes, strict=True)}
    small = pm.do(model, {str(rv.name): value for rv, value in given.items()})
    _drop(small, [v.name for v in model.deterministics if reads([v], plan.block)], plan)
    term = _correction(model, plan, shapes)
    rvs = {rv: small[str(rv.name)] for rv in model.free_RVs if rv not in plan.block}
    rvs |= {rv: pt.as_tensor(value) for rv, value in given.items()}
    # Data and lengths of dims too are those of the new model: pm.set_data would else change a part of the density.
    rvs |= {data: small[str(data.name)] for data in model.data_vars}
    rvs |= {length: small.dim_lengths[dim] for dim, length in model.dim_lengths.items()}
    with small:
        pm.Potential("block_integrated_out", graph_replace([term], rvs, strict=False)[0])
    return small


def _drop(small: pm.Model, names: list[Any], plan: Plan) -> None:
    """Forget named variables that would show the block at zero."""
    for name in [*names, *(str(rv.name) for rv in plan.block)]:
        variable = small.named_vars.pop(name)
        small.named_vars_to_dims.pop(name, None)
        for kept in (small.deterministics, small.data_vars):
            if variable in kept:
                kept.remove(variable)


def _correction(model: pm.Model, plan: Plan, shapes: list[tuple[int, ...]]) -> Any:
    """``log p(b = 0 | theta) - log p(b = 0 | y, theta)``."""
    size = sum(math.prod(shape) for shape in shapes)
    zeros = {rv: pt.zeros(shape) for rv, shape in zip(plan.block, shapes, strict=True)}
    unit, first, directions = np.eye(size), 0, {}
    for d, shape in zip(plan.directions, shapes, strict=True):
        last = first + math.prod(shape)
        directions[d] = pt.constant(unit[:, first:last].reshape(size, *shape))
        first = last
    precision, linear = pt.zeros((size, size)), pt.zeros(size)
    for term, part in zip(plan.terms, plan.linear, strict=True):
        rows = _shape(model, term)
        n: Any = math.prod(rows)
        columns = vectorize_graph(term.finished(part), directions)
        padded = columns.reshape((size, *[1] * (len(rows) - columns.type.ndim + 1), *columns.shape[1:]))
        columns = pt.broadcast_to(padded, (size, *rows)).reshape((size, n))
        offset = graph_replace([term.finished(term.predictor)], zeros, strict=False)[0]
        w, v, c = (pt.broadcast_to(x, rows).reshape((n,)) for x in (*term.parameters, offset))
        precision = precision + (columns * w) @ columns.T
        linear = linear + columns @ (v - w * c)
    factor = pt.linalg.cholesky(precision)
    half = pt.linalg.solve_triangular(factor, linear, lower=True)
    log_normal = pt.log(pt.diag(factor)).sum() - 0.5 * pt.sum(half**2) - 0.5 * size * math.log(2.0 * math.pi)
    prior = sum(pm.logp(rv, zeros[rv]).sum() for rv in plan.block)
    return graph_replace([prior], zeros, strict=False)[0] - log_normal


def _shape(model: pm.Model, term: Any) -> tuple[Any, ...]:
    """Lengths of the dims of a term; those of a response that is pm.Data may change, and are variables."""
    graph = model.rvs_to_values[term.rv].shape
    if term.y is not None and set(ancestors([term.y])) & set(model.data_vars):
        return tuple(term.y.shape[i] for i in range(term.y.type.ndim))
    return tuple(int(n) for n in PointFunction(model, [graph], compiled=False)(model.initial_point(0))[0])


def draw_marginalised(
    model: pm.Model, idata: xr.DataTree, vars: Sequence[Any] | None = None, *, random_seed: Any = None
) -> xr.DataTree:
    """Draw the block that :func:`marginalise` has integrated out: one exact draw for each of the
    posterior.

    Parameters
    ----------
    model : pm.Model
        The model with the block.
    idata : xarray.DataTree
        Draws from the model without it.
    vars : optional
        As they were given to :func:`marginalise`.
    random_seed : int, optional

    Returns
    -------
    xarray.DataTree
        A copy, with the block and all deterministic variables in ``posterior``.

    Raises
    ------
    ValueError
        Where the posterior lacks a free variable outside of the block.
    """
    step = augmented_step(model, vars, rng=integer_seed(random_seed))
    posterior = idata["posterior"].to_dataset()
    own = {str(v.name) for v in step.vars}
    others = [rv for rv in model.free_RVs if str(model.rvs_to_values[rv].name) not in own]
    lacking = [str(rv.name) for rv in others if rv.name not in posterior]
    if lacking:
        raise ValueError(f"the posterior has no {lacking[0]!r}. Hand over draws of zoo.marginalise(model).")
    forward = _forward(model, others)
    n_chains, n_draws = posterior.sizes["chain"], posterior.sizes["draw"]
    start = model.initial_point(0)
    found: dict[str, list[np.ndarray]] = {name: [] for name in sorted(own)}
    for c in range(n_chains):
        for i in range(n_draws):
            values = [posterior[str(rv.name)].values[c, i] for rv in others]
            point, _ = step.step({**start, **forward(values)})
            for name, draws in found.items():
                draws.append(point[name])
    for rv in model.free_RVs:
        if str(rv.name) in own:
            array = np.stack(found[str(rv.name)]).reshape(n_chains, n_draws, *np.shape(start[str(rv.name)]))
            dims = model.named_vars_to_dims.get(rv.name) or [
                f"{rv.name}_dim_{i}" for i in range(array.ndim - 2)
            ]
            posterior[str(rv.name)] = (("chain", "draw", *dims), array)
            coords = {d: list(model.coords[d]) for d in dims if model.coords.get(d) is not None}
            posterior = posterior.assign_coords(coords)
    missing = [str(v.name) for v in model.deterministics if v.name not in posterior]
    if missing:
        posterior = pm.compute_deterministics(
            posterior, model=model, var_names=missing, extend_dataset=True, progressbar=False
        )
    result = idata.copy()
    result["posterior"] = xr.DataTree(posterior)
    return result


def _forward(model: pm.Model, rvs: list[Any]) -> Any:
    """From values of random variables to those of the sampler, by name."""
    inputs, outputs, names = [], [], []
    for rv in rvs:
        value, transform = rv.type(), model.rvs_to_transforms[rv]
        inputs.append(value)
        outputs.append(value if transform is None else transform.forward(value, *rv.owner.inputs))
        names.append(str(model.rvs_to_values[rv].name))
    outputs = model.replace_rvs_by_values(outputs)
    function = pm.pytensorf.compile([*inputs, *model.value_vars], outputs, on_unused_input="ignore")
    start = model.initial_point(0)
    kept = [start[str(v.name)] for v in model.value_vars]
    return lambda values: dict(zip(names, function(*values, *kept), strict=True))
