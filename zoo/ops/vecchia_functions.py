"""Joint draws of functions at new rows from their neighbours as a PyTensor operation: by Python, for predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

__all__ = ["VecchiaFunctions"]


class VecchiaFunctions(Op):
    """Functions (n,) made of standard normal numbers and hyper-parameters.

    Parameters
    ----------
    law : callable
        ``law(*parameters)`` gives what has a function ``draw(white)``. Draws of an estimate repeat their parameters:
        it is called where these differ from the last ones.
    n : int
        Number of functions.
    """

    def __init__(self, law: Any, n: int):
        self.law, self.n = law, n
        self._last: tuple[list[np.ndarray], Any] | None = None

    def make_node(self, white: Any, *parameters: Any) -> Apply:
        """The functions (n,)."""
        inputs = [pt.as_tensor(white), *(pt.as_tensor(v) for v in parameters)]
        return Apply(self, inputs, [pt.vector(dtype="float64", shape=(self.n,))])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the law, made anew where the parameters changed."""
        white, *parameters = inputs
        last = self._last
        if last is None or not all(np.array_equal(a, b) for a, b in zip(last[0], parameters, strict=True)):
            last = self._last = ([np.array(v) for v in parameters], self.law(*parameters))
        outputs[0][0] = last[1].draw(np.array(white))
