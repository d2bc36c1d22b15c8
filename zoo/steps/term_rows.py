r"""The terms of a block as rows of one matrix: predictors :math:`e = J b + c`, and the parameters of each row.

Rows of the priors come first, one term for each variable of the block, then those of what was observed.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pymc as pm
import pytensor.tensor as pt
from pytensor.graph.replace import vectorize_graph
from scipy import sparse

from zoo.steps.affine import reads
from zoo.steps.block_normal import subtract_products
from zoo.steps.plan import Plan
from zoo.steps.point import PointFunction
from zoo.steps.rows import Rows, find_rows, refresh_rows

__all__ = ["TermRows"]

Point = dict[str, np.ndarray]

# Numbers that a rounding may move f by, over its size, where the linear part is checked.
_ROUNDING = 1e-7


class TermRows:
    """The rows of the terms of a plan.

    Parameters
    ----------
    model : pm.Model
    plan : Plan
        Of this model.
    start : dict
        Its initial point.
    options : dict, optional
        ``compile_kwargs`` of ``pm.sample``.

    Attributes
    ----------
    names : list of str
        Variables of the block, k of them.
    starts : (k + 1,) array
        Where each of them starts in the block.
    kinds : list of str
        How each term is augmented.
    spans : list of (int, int)
        Rows of each term.
    n_prior : int
        Rows of the priors.
    indptr, indices : (n + 1,), (E,) arrays
        Columns of the entries of J, row by row.
    learned : list of bool
        Whether the scale of each variable of the block depends on other variables.
    shared : bool
        Whether other variables enter observed rows as well.
    moving_terms : (m,) array
        Terms whose rows of J depend on other variables.
    moving_entries : array
        The entries of J that do.
    every : (n,) array
        0, 1, ..., n - 1.
    """

    def __init__(self, model: pm.Model, plan: Plan, start: Point, options: Any = None):
        self.names = [str(model.rvs_to_values[rv].name) for rv in plan.block]
        self._shapes = [np.shape(start[name]) for name in self.names]
        self.starts = np.concatenate([[0], np.cumsum([int(np.prod(s)) for s in self._shapes])])
        self.kinds = [term.kind for term in plan.terms]
        self._fixed: Rows | None = None
        self._moving: Rows | None = None
        self._read_terms(model, plan, start, options)

    # ------------------------------------------------------------ their values at a point

    def read(self, point: Point) -> tuple[np.ndarray, list[list[np.ndarray]]]:
        """Predictors (n,), and for each term the parameters of its rows."""
        values, e, parameters = self._state(point), np.empty(self.spans[-1][1]), []
        for (first, last), shape, at in zip(self.spans, self._row_shapes, self._places, strict=True):
            e[first:last] = _spread(values[at.start], shape)
            parameters.append([_spread(x, shape) for x in values[at][1:]])
        return e, parameters

    def block_of(self, point: Point) -> np.ndarray:
        """The block (K,) that a point holds."""
        return np.concatenate([np.ravel(point[name]) for name in self.names])

    def point_of(self, block: np.ndarray) -> Point:
        """The variables of a block (K,), by name."""
        pieces = (block[a:b] for a, b in zip(self.starts[:-1], self.starts[1:], strict=True))
        return {n: p.reshape(s) for n, p, s in zip(self.names, pieces, self._shapes, strict=True)}

    def entries(self, point: Point) -> np.ndarray:
        """Values of the rows now: those that depend on other variables are read off anew."""
        if self._moving is None:
            return self._data
        data = self._data
        data[self.moving_entries] = refresh_rows(self._moving, lambda d: self._apply_all(d, point))
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
        self.n_prior = int(self._row_starts[len(plan.block)])
        self.spans = list(zip(self._row_starts[:-1], self._row_starts[1:], strict=True))
        others = [rv for rv in model.free_RVs if rv not in plan.block]
        self.learned = [
            bool(reads([*t.parameters, *t.scales], others)) for t in plan.terms[: len(plan.block)]
        ]
        k = len(plan.block)
        direct = reads([x for t in plan.terms[k:] for x in (t.predictor, *t.parameters)], model.basic_RVs)
        self.shared = bool(direct & set(others))
        linear = [t.finished(part) for t, part in zip(plan.terms, plan.linear, strict=True)]
        moves = np.array([bool(reads([part], others)) for part in linear])
        size = int(self.starts[-1])
        self._fixed_terms, self.moving_terms = np.flatnonzero(~moves), np.flatnonzero(moves)
        for name, terms, fixed in ("_fixed", self._fixed_terms, True), ("_moving", self.moving_terms, False):
            graphs = [linear[i] for i in terms]
            # Each column is looked at once only: it is not worth its compilation.
            once = PointFunction(model, graphs, directions=plan.directions, compiled=False, options=options)
            setattr(self, name, self._found_rows(once, terms, start, size, fixed))
        if self._moving is not None:
            parts = [linear[i] for i in self.moving_terms]
            self._moving_map = _for_many(model, parts, plan.directions, options)
        self._join_rows(size)

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
            (self._moving, self.moving_terms, -1),
        ):
            if rows_of is None:
                continue
            at = np.concatenate([np.arange(*self.spans[i]) for i in terms])
            rows.append(at[rows_of.row_of_entry])
            columns.append(rows_of.indices)
            source.append(sign * (1 + np.arange(len(rows_of.indices))))
        matrix = sparse.csr_array(
            (np.concatenate(source), (np.concatenate(rows), np.concatenate(columns))), shape=(n_rows, size)
        )
        matrix.sort_indices()
        self.indptr, self.indices = matrix.indptr.astype(np.int64), matrix.indices.astype(np.int64)
        self.every = np.arange(n_rows)
        self._data = np.zeros(len(self.indices))
        if self._fixed is not None:
            own = matrix.data > 0
            self._data[own] = self._fixed.data[matrix.data[own] - 1]
        moving = np.flatnonzero(matrix.data < 0)
        self.moving_entries = np.empty(len(moving), dtype=np.int64)
        self.moving_entries[-matrix.data[moving] - 1] = moving

    def _apply(self, function: Any, terms: np.ndarray, direction: np.ndarray, point: Point) -> np.ndarray:
        """Linear parts of some terms, stacked."""
        directions = self.point_of(direction)
        values = function(point, [directions[name] for name in self.names])
        shaped = [_spread(x, self._row_shapes[i]) for x, i in zip(values, terms, strict=True)]
        return np.concatenate(shaped)

    def _apply_all(self, directions: np.ndarray, point: Point) -> np.ndarray:
        """Linear parts (C, n) of the terms that move, for many directions (C, K)."""
        pairs = zip(self.starts[:-1], self.starts[1:], self._shapes, strict=True)
        given = [directions[:, a:b].reshape(-1, *shape) for a, b, shape in pairs]
        many, found = len(directions), []
        for x, i in zip(self._moving_map(point, given), self.moving_terms, strict=True):
            shape = self._row_shapes[i]
            wide = np.reshape(x, (many, *[1] * (len(shape) + 1 - np.ndim(x)), *np.shape(x)[1:]))
            found.append(np.broadcast_to(wide, (many, *shape)).reshape(many, -1))
        return np.concatenate(found, axis=1)

    def consistent(self, start: Point) -> bool:
        """Whether the predictors move as the rows say, between two points: what the graph proves,
        as numbers.
        """
        rng = np.random.default_rng(0)
        size = int(self.starts[-1])
        first, second = rng.standard_normal((2, size))
        try:
            data = self.entries(start)
            e = [self.read({**start, **self.point_of(b)})[0] for b in (first, second)]
        except ValueError:  # data of another shape
            return False
        expected = np.zeros(len(e[0]))
        subtract_products(self.indptr, self.indices, data, first - second, expected)
        limit = _ROUNDING * (1.0 + np.abs(e[0]) + np.abs(e[1]) + np.abs(expected))
        return bool(np.all((np.abs(e[1] - e[0] - expected) <= limit) | ~np.isfinite(limit)))


def _for_many(model: pm.Model, parts: list[Any], directions: Sequence[Any], options: Any) -> PointFunction:
    """Linear parts as a function of stacked directions."""
    many = [pt.tensor(f"many {d.name}", dtype="float64", shape=(None, *d.type.shape)) for d in directions]
    stacked = vectorize_graph(parts, dict(zip(directions, many, strict=True)))
    return PointFunction(model, stacked, directions=many, options=options)


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
