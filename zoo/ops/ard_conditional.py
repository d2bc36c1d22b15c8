"""Predictions of one Gaussian process per task as a PyTensor operation: by Python, for graphs of predictions alone."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

__all__ = ["ARDConditional"]


class ARDConditional(Op):
    """Mean and standard deviation of functions at new rows, given what is known.

    Parameters
    ----------
    moments : callable
        ``moments(residual, kappa, noise, amplitude)`` gives the two arrays (n,). Draws of an estimate repeat their
        parameters: it is called where these differ from the last ones.
    """

    def __init__(self, moments: Any):
        self.moments = moments
        self._last: tuple[list[np.ndarray], Any] | None = None

    def make_node(self, *inputs: Any) -> Apply:
        """Mean (n,) and standard deviation (n,)."""
        parameters = [pt.as_tensor(v) for v in inputs]
        return Apply(self, parameters, [pt.dvector(), pt.dvector()])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the function, unless nothing changed."""
        last = self._last
        if last is None or not all(np.array_equal(a, b) for a, b in zip(last[0], inputs, strict=True)):
            last = self._last = ([np.array(v) for v in inputs], self.moments(*inputs))
        for cell, value in zip(outputs, last[1], strict=True):
            cell[0] = value.copy()
