r"""Block Gibbs for any PyMC model: augmentation variables, then all coefficients in one Gaussian
draw.

The step is one exact draw of the block given everything else. The augmentation variables are drawn
anew each time and never kept, so that other steps of the same ``pm.sample`` see the likelihood
itself.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import pymc as pm
from pymc.step_methods.compound import BlockedStep, StepMethodState
from pymc.util import get_random_generator
from scipy import sparse

from zoo.steps.advice import LARGEST, Outlook, information_share, informed_share, scaled_condition
from zoo.steps.affine import reads
from zoo.steps.augmentations import DRAWS
from zoo.steps.block_normal import block_normal, subtract_products
from zoo.steps.interweaving import Interweaving, interwoven_scales
from zoo.steps.plan import Plan, make_plan
from zoo.steps.point import PointFunction
from zoo.steps.rows import Rows, find_rows, refresh_rows

__all__ = ["AugmentedGibbs", "augmented_step"]

Point = dict[str, np.ndarray]

# Numbers that a rounding may move f by, over its size, where the linear part is checked.
_ROUNDING = 1e-7


def augmented_step(
    model: pm.Model | None = None,
    vars: Sequence[Any] | None = None,
    *,
    rng: Any = None,
    interweave: bool = True,
) -> AugmentedGibbs:
    """A Gibbs step for the regression coefficients of any PyMC model, found by reading its graph.

    The block is made of free variables with normal, multivariate normal or matrix normal laws that
    enter observed variables affinely: the operations between them are read one by one, and one that
    is not affine keeps its variables out. What is observed needs an augmentation: normal,
    Student-t, Laplace and asymmetric Laplace responses, Bernoulli (logit or probit), binomial and
    negative binomial counts by their logits, and the hinge and epsilon-insensitive terms of
    :mod:`zoo.distributions`.

    ::

        with model:
            step = zoo.augmented_step()
            print(step.table())
            idata = pm.sample(step=step)

    Parameters
    ----------
    model : pm.Model, optional
        By default that on the context stack.
    vars : sequence of variables or names, optional
        Exactly what the block shall hold. By default all that can be proved; the rest is left to
        NUTS, and ``step.table()`` says why.
    rng : optional
        ``pm.sample`` seeds the step itself.
    interweave : bool
        Whether learned scales that only set the spread of variables of the block are moved with these
        as well, in the parametrisation without centring (Yu & Meng 2011): where groups have few rows,
        they mix many times faster. NUTS draws them in any case.

    Returns
    -------
    AugmentedGibbs

    Raises
    ------
    ValueError
        Where no block is found, where one of ``vars`` cannot be proved to fit (the node or the
        variable is named), and where free variables are discrete.

    Notes
    -----
    Priors of the block are read off the graph at each sweep, so that scales and correlations may be
    learned by NUTS. Missing responses of a normal law are free variables of the model, and belong
    to the block. Data that change after the step was made (``pm.set_data``) are refused: make a new
    step.
    """
    model = pm.modelcontext(model)
    plan = make_plan(model, vars)
    with model:
        values = [model.rvs_to_values[rv] for rv in plan.block]
        return AugmentedGibbs(values, plan=plan, model=model, rng=rng, interweave=interweave)


class AugmentedGibbs(BlockedStep):
    """What :func:`augmented_step` returns.

    Parameters
    ----------
    vars : list of value variables
        The block.
    plan : Plan
        Of the same model.
    model : pm.Model, optional
        By default that on the context stack.
    rng : optional
        ``pm.sample`` seeds the step itself.
    interweave : bool
        Whether scales that only set the spread of the block are moved with it
        (:mod:`zoo.steps.interweaving`).
    """

    name = "augmented_gibbs"
    _state_class = StepMethodState

    def __init__(
        self,
        vars: Any,
        *,
        plan: Plan,
        model: Any = None,
        rng: Any = None,
        blocked: bool = True,
        interweave: bool = True,
        initial_point: Point | None = None,
        compile_kwargs: dict[str, Any] | None = None,
    ):
        model = pm.modelcontext(model)
        self.vars = list(vars)
        self.blocked = blocked
        self.rng = get_random_generator(rng)
        self._table = plan.table()
        start = self._start = model.initial_point(0)
        self._outlook: Outlook | None = None
        self._names = [str(v.name) for v in self.vars]
        self._shapes = [np.shape(start[name]) for name in self._names]
        self._starts = np.concatenate([[0], np.cumsum([int(np.prod(s)) for s in self._shapes])])
        self._kinds = [term.kind for term in plan.terms]
        self._read_terms(model, plan, start, compile_kwargs)
        scales = interwoven_scales(model, plan.block, compile_kwargs) if interweave else []
        self._interweaving = Interweaving(scales, self._starts, self._spans)
        for scale in scales:
            children = " and ".join(repr(self._names[i]) for i in scale.children)
            self._table.loc[self._table["variable"] == scale.name, "why"] += (
                f"; moved with {children} as well"
            )
        if not self._consistent(start):
            raise ValueError(
                "the predictors do not move as their linear parts say, so that the Gibbs step would draw from "
                "another posterior. Please report the model; pm.sample() without this step is right."
            )

    # ------------------------------------------------------------ what a user sees

    def table(self) -> pd.DataFrame:
        """Every free variable of the model: its sampler, and why."""
        return self._table.copy()

    def __repr__(self) -> str:
        return f"AugmentedGibbs of {', '.join(self._names)}"

    def outlook(self, sweeps: int = 30) -> Outlook:
        """What is expected of this step against NUTS, after some sweeps from the initial point;
        looked at once.

        ``step.outlook().words()`` says why NUTS is expected to draw better, and is empty where it
        is not.
        """
        if self._outlook is None:
            own, self.rng = self.rng, np.random.default_rng(0)
            try:
                self._outlook = self._look(sweeps)
            finally:
                self.rng = own
        return self._outlook

    def _look(self, sweeps: int) -> Outlook:
        point = self._start
        for _ in range(sweeps):
            point = self._swept(point, None)  # scales stay where NUTS would start
        data = self._entries(point)
        w, _ = self._weights(point, data)
        J = sparse.csr_array((data, self._indices, self._indptr), shape=(len(w), int(self._starts[-1])))
        values, own, augmented, moves = self._state(point), 0.0, 0.0, False
        for i, (kind, at, shape) in enumerate(zip(self._kinds, self._places, self._row_shapes, strict=True)):
            if i >= len(self._names):  # the first terms are priors of the block
                known = [_spread(x, shape) for x in values[at]]
                first, second = information_share(kind, known[0], known[1:])
                own, augmented = own + first, augmented + second
                moves = moves or i in self._moving_terms
        if J.shape[1] > LARGEST:
            return Outlook(math.nan, own / augmented, 1.0, moves)
        precision = (J.T @ sparse.diags_array(w) @ J).toarray()
        first = int(self._row_starts[len(self._names)])
        prior = (J[:first].T @ sparse.diags_array(w[:first]) @ J[:first]).toarray()
        learned = np.repeat(self._learned, np.diff(self._starts))
        return Outlook(
            scaled_condition(precision), own / augmented, informed_share(precision, prior, learned), moves
        )

    # ------------------------------------------------------------ the step

    def setup_chain(self, rng: Any, tune: int, draws: int) -> None:
        """Seed the step, and look whether the data are those that it was made for."""
        super().setup_chain(rng, tune, draws)
        self._checked = False

    def step(self, point: Point) -> tuple[Point, list[dict[str, Any]]]:
        """Draw the augmentation variables, then the block, and move its scales with it; the rest stays."""
        if not self._checked:
            self._require_same_data(point)
        return self._swept(point, self._interweaving), [{}]

    def _swept(self, point: Point, interweaving: Interweaving | None) -> Point:
        data = self._entries(point)
        w, u = self._weights(point, data)
        try:
            drawn = self._normal.draw(self.rng, self._indptr, self._indices, data, w, u)
        except np.linalg.LinAlgError as error:
            raise ValueError(
                f"the precision of the block ({', '.join(self._names)}) is not positive definite at this point: a "
                "scale may have become infinite or not a number. Give the scales of the block a proper prior."
            ) from error
        if not np.isfinite(drawn).all():
            raise ValueError(
                f"the draw of the block ({', '.join(self._names)}) is not finite. Look at the scales of the priors "
                "and of the observed variables at this point."
            )
        new = {**point, **self._point_of(drawn)}
        if interweaving is None:
            return new
        matrix = self._indptr, self._indices, data
        return interweaving.move(self.rng, new, drawn, matrix, w, u, self._point_of)

    def _weights(self, point: Point, data: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Diagonal of W, and ``v - w c`` where the predictor is ``J b + c``."""
        values = self._state(point)
        n_rows = self._row_starts[-1]
        w, v, e = np.empty(n_rows), np.empty(n_rows), np.empty(n_rows)
        for kind, (first, last), shape, at in zip(
            self._kinds, self._spans, self._row_shapes, self._places, strict=True
        ):
            rows = slice(first, last)
            e[rows] = _spread(values[at.start], shape)
            known = [_spread(x, shape) for x in values[at][1:]]
            DRAWS[kind](self.rng, e[rows], w[rows], v[rows], *known)
        block = np.concatenate([np.ravel(point[name]) for name in self._names])
        # The predictor less what the block adds to it is its offset.
        subtract_products(self._indptr, self._indices, data, block, e)
        v -= w * e
        return w, v

    def _point_of(self, block: np.ndarray) -> Point:
        pieces = (block[a:b] for a, b in zip(self._starts[:-1], self._starts[1:], strict=True))
        return {n: p.reshape(s) for n, p, s in zip(self._names, pieces, self._shapes, strict=True)}

    def _entries(self, point: Point) -> np.ndarray:
        """Values of the rows now: those that depend on other variables are read off anew."""
        if self._moving is None:
            return self._data
        data = self._data
        data[self._moving_entries] = refresh_rows(
            self._moving, lambda d: self._apply(self._moving_map, self._moving_terms, d, point)
        )
        return data

    # ------------------------------------------------------------ what it is made of

    def _read_terms(self, model: pm.Model, plan: Plan, start: Point, options: Any) -> None:
        """Compile predictors and linear parts, and find the rows of the latter."""
        graphs: list[Any] = []
        self._places: list[slice] = []
        for term in plan.terms:
            self._places.append(slice(len(graphs), len(graphs) + 1 + len(term.parameters)))
            graphs += [term.finished(term.predictor), *term.parameters]
        self._state = PointFunction(model, graphs, options=options)
        values = self._state(start)
        self._row_shapes = [
            np.shape(start[self._value_name(model, term.rv)])
            if term.y is None
            else np.broadcast_shapes(*(np.shape(x) for x in values[at]), _shape_of(model, term.y))
            for term, at in zip(plan.terms, self._places, strict=True)
        ]
        self._row_starts = np.concatenate([[0], np.cumsum([int(np.prod(s)) for s in self._row_shapes])])
        self._spans = list(zip(self._row_starts[:-1], self._row_starts[1:], strict=True))
        others = [rv for rv in model.free_RVs if rv not in plan.block]
        self._learned = [
            bool(reads([*t.parameters, *t.scales], others)) for t in plan.terms[: len(plan.block)]
        ]
        linear = [t.finished(part) for t, part in zip(plan.terms, plan.linear, strict=True)]
        moves = np.array([bool(reads([part], others)) for part in linear])
        size = int(self._starts[-1])
        self._fixed_terms, self._moving_terms = np.flatnonzero(~moves), np.flatnonzero(moves)
        kept: dict[str, Any] = dict(directions=plan.directions, options=options)
        # The fixed part is looked at once only: it is not worth its compilation.
        self._fixed_map, self._moving_map = (
            PointFunction(model, [linear[i] for i in terms], compiled=moving, **kept) if len(terms) else None
            for moving, terms in ((False, self._fixed_terms), (True, self._moving_terms))
        )
        self._fixed = self._found_rows(self._fixed_map, self._fixed_terms, start, size, True)
        self._moving = self._found_rows(self._moving_map, self._moving_terms, start, size, False)
        self._join_rows(size)
        self._normal = block_normal(self._indptr, self._indices, size)
        self._checked = True

    def _found_rows(
        self, function: Any, terms: np.ndarray, start: Point, size: int, fixed: bool
    ) -> Rows | None:
        if not len(terms):
            return None
        return find_rows(lambda d: self._apply(function, terms, d, start), size, fixed)

    def _value_name(self, model: pm.Model, rv: Any) -> str:
        return str(model.rvs_to_values[rv].name)

    def _join_rows(self, size: int) -> None:
        """One matrix of all rows, in the order of the terms; where its entries that move are."""
        n_rows = int(self._row_starts[-1])
        rows, columns, source = [], [], []
        for rows_of, terms, sign in (
            (self._fixed, self._fixed_terms, 1),
            (self._moving, self._moving_terms, -1),
        ):
            if rows_of is None:
                continue
            at = np.concatenate([np.arange(*self._spans[i]) for i in terms])
            rows.append(at[rows_of.row_of_entry])
            columns.append(rows_of.indices)
            source.append(sign * (1 + np.arange(len(rows_of.indices))))
        matrix = sparse.csr_array(
            (np.concatenate(source), (np.concatenate(rows), np.concatenate(columns))), shape=(n_rows, size)
        )
        matrix.sort_indices()
        self._indptr, self._indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self._data = np.zeros(len(self._indices))
        if self._fixed is not None:
            own = matrix.data > 0
            self._data[own] = self._fixed.data[matrix.data[own] - 1]
        moving = np.flatnonzero(matrix.data < 0)
        self._moving_entries = np.empty(len(moving), dtype=np.int64)
        self._moving_entries[-matrix.data[moving] - 1] = moving

    def _apply(self, function: Any, terms: np.ndarray, direction: np.ndarray, point: Point) -> np.ndarray:
        """Linear parts of some terms, stacked."""
        directions = self._point_of(direction)
        values = function(point, [directions[name] for name in self._names])
        shaped = [_spread(x, self._row_shapes[i]) for x, i in zip(values, terms, strict=True)]
        return np.concatenate(shaped)

    # ------------------------------------------------------------ checks

    def _consistent(self, start: Point) -> bool:
        """Whether the predictors move as the rows say, between two points: what the graph proves,
        as numbers.
        """
        rng = np.random.default_rng(0)
        size = int(self._starts[-1])
        first, second = rng.standard_normal((2, size))
        try:
            data = self._entries(start)
            e = [self._predictors({**start, **self._point_of(b)}) for b in (first, second)]
        except ValueError:  # data of another shape
            return False
        expected = np.zeros(len(e[0]))
        subtract_products(self._indptr, self._indices, data, first - second, expected)
        limit = _ROUNDING * (1.0 + np.abs(e[0]) + np.abs(e[1]) + np.abs(expected))
        return bool(np.all((np.abs(e[1] - e[0] - expected) <= limit) | ~np.isfinite(limit)))

    def _predictors(self, point: Point) -> np.ndarray:
        values = self._state(point)
        shaped = [_spread(values[at.start], s) for at, s in zip(self._places, self._row_shapes, strict=True)]
        return np.concatenate(shaped)

    def _require_same_data(self, point: Point) -> None:
        """Refuse data that were changed after the step was made: its rows would be the old ones."""
        if not self._consistent(point):
            raise ValueError(
                "the data of the model have changed since this Gibbs step was made. Make a new one: "
                "zoo.augmented_step()."
            )
        self._checked = True


def _spread(x: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Values broadcast to a shape, as contiguous floats in one dimension."""
    found = np.asarray(x, dtype=np.float64)
    if found.shape == shape:
        return np.ascontiguousarray(found).ravel()
    if found.size == 1:
        return np.full(math.prod(shape), found.ravel()[0])
    return np.broadcast_to(found, shape).ravel()


def _shape_of(model: pm.Model, y: Any) -> tuple[int, ...]:
    return tuple(int(n) for n in PointFunction(model, [y.shape])({})[0])
