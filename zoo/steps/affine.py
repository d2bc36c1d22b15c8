"""The linear part of a graph, built operation by operation: a proof that the graph is affine.

A graph f is affine in variables b where :math:`f(b) = L b + c`. Here the graph of :math:`L d` is
written down for a direction d by one rule for each operation. An operation without a rule is
refused, so that nothing is called affine because its derivative happens to look constant: the
derivative of ``floor`` is zero, and ``floor`` is not affine.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import pytensor.scalar as ps
import pytensor.tensor as pt
from pytensor.compile.builders import OpFromGraph
from pytensor.compile.ops import ViewOp
from pytensor.graph.basic import Constant
from pytensor.graph.traversal import truncated_graph_inputs
from pytensor.raise_op import CheckAndRaise
from pytensor.tensor.basic import (
    Alloc,
    ExtractDiag,
    Join,
    MakeVector,
    ScalarFromTensor,
    Split,
    TensorFromScalar,
)
from pytensor.tensor.blockwise import Blockwise
from pytensor.tensor.elemwise import CAReduce, DimShuffle, Elemwise
from pytensor.tensor.extra_ops import CumOp
from pytensor.tensor.linalg.solvers.core import SolveBase
from pytensor.tensor.math import Dot
from pytensor.tensor.shape import Reshape, Shape, Shape_i, SpecifyShape
from pytensor.tensor.subtensor import (
    AdvancedIncSubtensor,
    AdvancedSubtensor,
    IncSubtensor,
    Subtensor,
)

__all__ = ["NotAffine", "linear_part", "reads"]


class NotAffine(Exception):
    """A graph is not affine in some variables.

    Parameters
    ----------
    what : str
        The node to blame, in words.
    roots : frozenset
        The variables that meet in it.
    """

    def __init__(self, what: str, roots: frozenset[Any]):
        super().__init__(what)
        self.what, self.roots = what, roots


def reads(graphs: Any, variables: Iterable[Any]) -> frozenset[Any]:
    """Which of ``variables`` the graphs read the values of.

    The walk stops at these variables, and where a value is read for its shape alone.
    """
    wanted, found, seen = set(variables), set(), set()
    waiting = list(graphs) if isinstance(graphs, list | tuple) else [graphs]
    while waiting:
        variable = waiting.pop()
        if variable in seen:
            continue
        seen.add(variable)
        if variable in wanted:
            found.add(variable)
        elif variable.owner is not None:
            waiting.extend(_inputs_by_value(variable.owner))
    return frozenset(found)


def _inputs_by_value(node: Any) -> list[Any]:
    if isinstance(node.op, Shape | Shape_i):
        return []
    if _scalar_op(node) is ps.Second:
        return list(node.inputs[1:])
    return list(node.inputs)


def linear_part(graph: Any, directions: Mapping[Any, Any], free: Iterable[Any] = ()) -> Any:
    """The graph of ``L d`` where ``graph`` is ``L b + c``, or None where b does not enter.

    Parameters
    ----------
    graph : tensor variable
        Any real array.
    directions : mapping
        For each variable of b the variable d that stands for it.
    free : iterable of variables
        The random variables of the model: a choice of entries (an index, a condition) may not
        depend on them, since then L would not have zeros at fixed places.

    Raises
    ------
    NotAffine
        Where an operation has no rule.
    """
    return _Walk(directions, free)(graph)


class _Walk:
    """One walk over a graph, each node once."""

    def __init__(self, directions: Mapping[Any, Any], free: Iterable[Any]):
        self.directions, self.free = directions, set(free) | set(directions)
        self.known: dict[Any, Any] = dict(directions)

    def __call__(self, variable: Any) -> Any:
        """The linear part of a variable, or None."""
        if variable not in self.known:
            owner = variable.owner
            if owner is None or not reads(variable, self.directions):
                self.known[variable] = None
            else:
                self.known[variable] = self._of_node(owner, variable)
        return self.known[variable]

    def _of_node(self, node: Any, variable: Any) -> Any:
        op = node.op
        if isinstance(op, Blockwise):
            op = op.core_op
        if isinstance(op, Elemwise):
            return self._elementwise(node)
        for kinds, rule in _RULES:
            if isinstance(op, kinds):
                return rule(self, node, variable)
        if isinstance(op, OpFromGraph):
            inside = op.fgraph.bind(dict(zip(op.fgraph.inputs, node.inputs, strict=True)))
            return self(inside[node.outputs.index(variable)])
        raise self.refusal(node)

    # ------------------------------------------------------------ rules

    def _elementwise(self, node: Any) -> Any:
        kind, inputs = _scalar_op(node), node.inputs
        if kind in (ps.Add, ps.Sub):
            return self._add([(x, -1.0 if kind is ps.Sub and i else 1.0) for i, x in enumerate(inputs)], node)
        if kind is ps.Neg or kind is ps.Identity:
            part = self(inputs[0])
            return -part if kind is ps.Neg else part
        if kind is ps.Cast and node.outputs[0].type.dtype.startswith("float"):
            return self(inputs[0]).astype(node.outputs[0].type.dtype)
        if kind is ps.Second:
            return pt.second(inputs[0], self(inputs[1]))
        if kind is ps.Mul:
            return self._product(node, inputs, lambda factors: pt.mul(*factors))
        if kind is ps.TrueDiv:
            self.require_constant(node, inputs[1:])
            return self(inputs[0]) / inputs[1]
        if kind is ps.Switch:
            self.require_fixed(node, inputs[:1])
            parts = [self(x) for x in inputs[1:]]
            return pt.switch(inputs[0], *(_or_zero(p, x) for p, x in zip(parts, inputs[1:], strict=True)))
        if kind is ps.Log:
            unfolded = _unfolded_log(inputs[0], self)
            if unfolded is not None:
                return self(unfolded)
        raise self.refusal(node)

    def _add(self, terms: list[tuple[Any, float]], node: Any) -> Any:
        total: Any = None
        for x, sign in terms:
            part = self(x)
            if part is not None:
                signed = part if sign > 0 else -part
                total = signed if total is None else total + signed
        return total if total.type.broadcastable == node.outputs[0].type.broadcastable else _like(total, node)

    def _product(self, node: Any, factors: list[Any], build: Callable[[list[Any]], Any]) -> Any:
        """A product is linear where one factor alone depends on the variables."""
        dependent = [i for i, x in enumerate(factors) if reads(x, self.directions)]
        if len(dependent) != 1:
            raise self.refusal(node)
        parts = list(factors)
        parts[dependent[0]] = self(factors[dependent[0]])
        return build(parts)

    def require_constant(self, node: Any, inputs: list[Any]) -> None:
        """Refuse a node whose ``inputs`` depend on the variables."""
        if reads(inputs, self.directions):
            raise self.refusal(node)

    def require_fixed(self, node: Any, inputs: list[Any]) -> None:
        """Refuse a node whose ``inputs`` depend on any free variable."""
        chosen = reads(inputs, self.free)
        if chosen:
            names = ", ".join(sorted(repr(str(v.name)) for v in chosen))
            raise NotAffine(f"{_named(node)}, which chooses by {names}", reads(node.inputs, self.directions))

    def refusal(self, node: Any) -> NotAffine:
        """What to raise at a node without a rule."""
        return NotAffine(_named(node), reads(node.inputs, self.directions))

    # Rules of operations that are no arithmetic of single entries.

    def _first_input(self, node: Any, variable: Any) -> Any:
        """The operation moves or sums entries of its first input; the others say which."""
        self.require_fixed(node, node.inputs[1:])
        made = node.op.make_node(self(node.inputs[0]), *node.inputs[1:])
        return made.outputs[node.outputs.index(variable)]

    def _checked(self, node: Any, variable: Any) -> Any:
        """A check lets its first input through as it is."""
        return self(node.inputs[0])

    def _write(self, node: Any, variable: Any) -> Any:
        """Entries of one array set to, or increased by, those of another."""
        self.require_fixed(node, node.inputs[2:])
        parts = [_or_zero(self(x), x) for x in node.inputs[:2]]
        return node.op.make_node(*parts, *node.inputs[2:]).outputs[0]

    def _join(self, node: Any, variable: Any) -> Any:
        parts = [_or_zero(self(x), x) for x in node.inputs]
        return node.op.make_node(*parts).outputs[0]

    def _sum(self, node: Any, variable: Any) -> Any:
        if not isinstance(node.op.scalar_op, ps.Add):
            raise self.refusal(node)
        return self._first_input(node, variable)

    def _cumulated(self, node: Any, variable: Any) -> Any:
        if node.op.mode != "add":
            raise self.refusal(node)
        return self._first_input(node, variable)

    def _dot(self, node: Any, variable: Any) -> Any:
        return self._product(node, list(node.inputs), lambda pair: node.op.make_node(*pair).outputs[0])

    def _solve(self, node: Any, variable: Any) -> Any:
        self.require_constant(node, [node.inputs[0]])
        return node.op.make_node(node.inputs[0], self(node.inputs[1])).outputs[0]


_MOVES = (
    *(DimShuffle, Reshape, SpecifyShape, Subtensor, AdvancedSubtensor, Alloc, ViewOp),
    *(ScalarFromTensor, TensorFromScalar, ExtractDiag),
)
_RULES: tuple[tuple[Any, Callable[..., Any]], ...] = (
    (_MOVES, _Walk._first_input),
    (CheckAndRaise, _Walk._checked),
    ((IncSubtensor, AdvancedIncSubtensor), _Walk._write),
    ((Join, MakeVector), _Walk._join),
    (Split, _Walk._first_input),
    (CAReduce, _Walk._sum),
    (CumOp, _Walk._cumulated),
    (Dot, _Walk._dot),
    (SolveBase, _Walk._solve),
)


def _scalar_op(node: Any) -> Any:
    return type(node.op.scalar_op) if isinstance(node.op, Elemwise) else None


def _or_zero(part: Any, variable: Any) -> Any:
    return pt.zeros_like(variable) if part is None else part


def _like(part: Any, node: Any) -> Any:
    """The part with the shape of the output of ``node``."""
    return pt.second(node.outputs[0], part)


def _unfolded_log(inside: Any, walk: _Walk) -> Any:
    """Log of exponentials, products and quotients as a sum; None where it is none of them.

    Means of counts are written like this: ``exposure * exp(f)``.
    """
    node = inside.owner
    if not reads(inside, walk.directions):
        return pt.log(inside)
    if node is None:
        return None
    if isinstance(node.op, DimShuffle):
        below = _unfolded_log(node.inputs[0], walk)
        return None if below is None else node.op(below)
    kind = _scalar_op(node)
    if kind is ps.Exp:
        return node.inputs[0]
    if kind in (ps.Mul, ps.TrueDiv):
        logs = [_unfolded_log(x, walk) for x in node.inputs]
        if any(log is None for log in logs):
            return None
        return pt.add(*logs) if kind is ps.Mul else logs[0] - logs[1]
    return None


def _named(node: Any) -> str:
    """An operation in words, with the nearest names around it."""
    op = node.op.scalar_op if isinstance(node.op, Elemwise) else node.op
    op = op.core_op if isinstance(op, Blockwise) else op
    what = repr(str(node.outputs[0].name)) + ", a " if node.outputs[0].name else ""
    around = [v for v in truncated_graph_inputs(node.outputs, _named_ancestors(node)) if v.name]
    names = sorted({str(v.name) for v in around if not isinstance(v, Constant)})
    of = f" of {', '.join(repr(n) for n in names)}" if names else ""
    return f"{what}{type(op).__name__}{of}"


def _named_ancestors(node: Any) -> list[Any]:
    found, waiting, seen = [], list(node.inputs), set()
    while waiting:
        v = waiting.pop()
        if v in seen:
            continue
        seen.add(v)
        if v.name:
            found.append(v)
        elif v.owner is not None:
            waiting.extend(v.owner.inputs)
    return found or list(node.inputs)
