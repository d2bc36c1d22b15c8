"""Joint draws of functions at new rows from their neighbours as a PyTensor operation: by Python, for predictions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

__all__ = ["VecchiaFunctions"]


class VecchiaFunctions(Op):
    """Functions (n,) made of standard normal numbers (n,) and hyper-parameters.

    Parameters
    ----------
    law : callable
        ``law(*parameters)`` gives an order of the rows, and a law with ``draws(white)`` in that order. Draws of an
        estimate repeat their parameters: it is called where these differ from the last ones.
    """

    def __init__(self, law: Any):
        self.law = law
        self._last: tuple[list[np.ndarray], Any] | None = None

    def make_node(self, white: Any, *parameters: Any) -> Apply:
        """The functions (n,)."""
        return Apply(self, [pt.as_tensor(white), *(pt.as_tensor(v) for v in parameters)], [pt.dvector()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the law, made anew where the parameters changed."""
        white, *parameters = inputs
        last = self._last
        if last is None or not all(np.array_equal(a, b) for a, b in zip(last[0], parameters, strict=True)):
            last = self._last = ([np.array(v) for v in parameters], self.law(*parameters))
        order, law = last[1]
        f = np.empty(len(white))
        f[order] = law.draws(white[None])[0]
        outputs[0][0] = f
