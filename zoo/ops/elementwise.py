"""Elementwise operations that have a name, and a body of PyTensor's own operations."""

from __future__ import annotations

from typing import Any

from pytensor.graph.basic import Apply
from pytensor.graph.replace import _vectorize_node
from pytensor.tensor.symbolic import TensorSymbolicOp

__all__ = ["ElementwiseOp"]


class ElementwiseOp(TensorSymbolicOp):
    """Inputs broadcast against each other; a subclass writes the body in ``build_inner_graph``.

    The compiler puts the body in its place at the very beginning, and gradients come from the body.
    """

    inline = True


@_vectorize_node.register(ElementwiseOp)
def _vectorised(op: ElementwiseOp, node: Apply, *batched: Any) -> Apply:
    """The same operation on inputs with leading dimensions more: these broadcast once the others are aligned."""
    most = max(x.type.ndim for x in node.inputs)
    inputs = [
        _aligned(new, old.type.ndim, most) if new.type.ndim > old.type.ndim else new
        for new, old in zip(batched, node.inputs, strict=True)
    ]
    return type(op)()(*inputs).owner


def _aligned(x: Any, own: int, most: int) -> Any:
    """``x``, whose last ``own`` dimensions are its own, with ones between these and the leading ones."""
    missing = most - own
    if not missing:
        return x
    leading = x.type.ndim - own
    order: list[Any] = [*range(leading), *["x"] * missing, *range(leading, x.type.ndim)]
    return x.dimshuffle(order)
