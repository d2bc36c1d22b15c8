"""Rows that are made one after the other of rows before them, as a PyTensor operation with its derivatives."""

from __future__ import annotations

from inspect import getsource
from typing import Any
from zlib import crc32

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from zoo.inference import neighbour_recursion as engine
from zoo.inference.compiled import ensure_compile_folder
from zoo.inference.neighbour_recursion import recursion, recursion_adjoint

__all__ = ["NeighbourRecursion", "neighbour_recursion"]


class NeighbourRecursion(Op):
    """Rows f (n,) from shifts (n,), weights (n, m), and the rows before each row with the order."""

    __props__ = ()

    def make_node(self, shift: Any, weights: Any, before: Any, order: Any) -> Apply:
        """The rows."""
        shift, weights = (pt.as_tensor(v, dtype="float64") for v in (shift, weights))
        before, order = (pt.as_tensor(v, dtype="int64") for v in (before, order))
        return Apply(
            self, [shift, weights, before, order], [pt.vector(dtype="float64", shape=order.type.shape)]
        )

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the compiled function."""
        shift, *others = inputs
        outputs[0][0] = np.empty(len(shift))
        recursion(shift, *others, outputs[0][0])

    def infer_shape(self, node: Apply, shapes: Any) -> Any:
        """That of the shifts."""
        return [shapes[0]]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Shifts and weights have derivatives."""
        return [[True], [True], [False], [False]]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """By the recursion in the opposite order."""
        _, weights, before, order = inputs
        in_shift, in_weights = _Adjoint()(outputs[0], weights, before, order, cotangents[0])
        return [in_shift, in_weights, disconnected_type(), disconnected_type()]


class _Adjoint(Op):
    """Derivatives in shifts and weights from those in the rows."""

    __props__ = ()

    def make_node(self, f: Any, weights: Any, before: Any, order: Any, slope: Any) -> Apply:
        f, weights, slope = (pt.as_tensor(v, dtype="float64") for v in (f, weights, slope))
        return Apply(self, [f, weights, before, order, slope], [f.type(), weights.type()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        f, weights, before, order, slope = inputs
        outputs[0][0], outputs[1][0] = np.array(slope), np.zeros(weights.shape)
        recursion_adjoint(f, weights, before, order, outputs[0][0], outputs[1][0])

    def infer_shape(self, node: Apply, shapes: Any) -> Any:
        return [shapes[0], shapes[1]]


def neighbour_recursion(shift: Any, weights: Any, before: np.ndarray, order: np.ndarray) -> Any:
    """Rows f (n,) with ``f[i] = shift[i] + sum_j weights[i, j] f[before[i, j]]``, differentiable in both.

    Parameters
    ----------
    shift : (n,) tensor
    weights : (n, m) tensor
    before : (n, m) int
        Rows that come before each row in the order; -1 behind the last of them.
    order : (n,) int
    """
    return NeighbourRecursion()(shift, weights, before, order)


def _register() -> None:
    ensure_compile_folder()
    from pytensor.link.numba.dispatch import basic as numba_basic

    # The compiled code holds that of the engine: a file on disk must not outlive a change of it, or of its place.
    key = crc32((engine.__name__ + getsource(engine)).encode())

    @numba_basic.register_funcify_default_op_cache_key(NeighbourRecursion)
    def _compiled(op: NeighbourRecursion, **_: Any) -> Any:
        @numba_basic.numba_njit
        def neighbour_recursion_of(shift, weights, before, order):
            out = np.empty(len(shift))
            recursion(shift, weights, before, order, out)
            return out

        return neighbour_recursion_of, key

    @numba_basic.register_funcify_default_op_cache_key(_Adjoint)
    def _compiled_adjoint(op: _Adjoint, **_: Any) -> Any:
        @numba_basic.numba_njit
        def neighbour_recursion_adjoint_of(f, weights, before, order, slope):
            in_shift, in_weights = slope.copy(), np.zeros(weights.shape)
            recursion_adjoint(f, weights, before, order, in_shift, in_weights)
            return in_shift, in_weights

        return neighbour_recursion_adjoint_of, key


_register()
