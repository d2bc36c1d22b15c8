"""A mode of PyTensor that compiles nothing: each operation of a graph runs in NumPy."""

from __future__ import annotations

from functools import reduce
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.compile.mode import Mode
from pytensor.graph.basic import Constant
from pytensor.graph.rewriting.basic import node_rewriter, out2in
from pytensor.scalar.basic import Add, Clip, Mul
from pytensor.tensor.elemwise import Elemwise

__all__ = ["QUICK"]


@node_rewriter([Elemwise])
def _two_at_a_time(fgraph: Any, node: Any) -> list[Any] | None:
    """Sums and products of three or more terms, term by term: PyTensor 3.2 loops over their entries in Python."""
    if len(node.inputs) < 3 or not isinstance(node.op.scalar_op, Add | Mul):
        return None
    result = reduce(node.op, node.inputs)
    return [result] if result.dtype == node.outputs[0].dtype else None


@node_rewriter([Elemwise])
def _clip_by_extremes(fgraph: Any, node: Any) -> list[Any] | None:
    """Clipping between two numbers as NumPy's minimum and maximum: PyTensor 3.2 loops over the entries in Python."""
    if not isinstance(node.op.scalar_op, Clip) or not all(isinstance(v, Constant) for v in node.inputs[1:]):
        return None
    result, low, high = node.inputs
    if low.data.size != 1 or high.data.size != 1 or not low.data.item() <= high.data.item():
        return None
    result = pt.maximum(result, low) if low.data.item() > -np.inf else result
    result = pt.minimum(result, high) if high.data.item() < np.inf else result
    return [result] if result.type == node.outputs[0].type else None


# After the rewrites that gather terms: PyTensor's last one of these stands at 3, and its merging of equal nodes at 49.
QUICK = Mode("py", "fast_compile").register((out2in(_two_at_a_time), 48), (out2in(_clip_by_extremes), 48.1))
