r"""Marginal likelihood of one Gaussian process per task (srijith2014 eq 6) as a PyTensor operation.

The value and all derivatives come from one compiled pass with one factorisation per task; a graph of PyTensor's own
operations needs several passes and a node for every size of task (measured in the benchmarks page).
"""

from __future__ import annotations

from inspect import getsource
from typing import Any
from zlib import crc32

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from zoo.inference.ard import evidence as engine
from zoo.inference.ard.evidence import TaskInputs, evidence
from zoo.inference.compiled import ensure_compile_folder

__all__ = ["ARDEvidence", "ard_evidence"]

_N_CONSTANT = 6  # X, starts, counts, slot, gram, weight: no derivative is given in them


class ARDEvidence(Op):
    """Value of every task and the gradient of their sum; its inputs as those of ``evidence`` in ``zoo.inference``."""

    __props__ = ("kind",)

    def __init__(self, kind: int):
        self.kind = kind

    def make_node(self, *inputs: Any) -> Apply:
        """Value (T,), derivatives in kappa (T, D), noise (T,), amplitude (T,) and residual (N,)."""
        X, starts, counts, slot, gram, weight, *parameters = (pt.as_tensor(v) for v in inputs)
        parameters = [pt.cast(v, "float64") for v in parameters]
        residual, kappa = parameters[:2]
        vector = pt.vector(dtype="float64", shape=(kappa.type.shape[0],)).type
        outputs = [vector(), kappa.type(), vector(), vector(), residual.type()]
        return Apply(self, [X, starts, counts, slot, gram, weight, *parameters], outputs)

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the compiled function, with arrays of one layout: each other one would be compiled for seconds."""
        *arrays, constant = inputs
        found = evidence(self.kind, *map(np.ascontiguousarray, arrays), float(constant))
        for cell, value in zip(outputs, found, strict=True):
            cell[0] = value

    def infer_shape(self, node: Apply, shapes: Any) -> Any:
        """From the shapes of kappa and the residual."""
        residual, (T, D) = shapes[_N_CONSTANT], shapes[_N_CONSTANT + 1]
        return [(T,), (T, D), (T,), (T,), residual]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """The value alone has derivatives, and in the parameters alone."""
        connected = [False] * _N_CONSTANT + [True] * 4 + [False]
        return [[c, False, False, False, False] for c in connected]

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """The derivatives that the same node has computed, times the cotangent of the value."""
        weight = cotangents[0]
        none = [disconnected_type() for _ in range(_N_CONSTANT)]
        if isinstance(weight.type, DisconnectedType):
            return [*none, *(v.zeros_like() for v in inputs[_N_CONSTANT:-1]), disconnected_type()]
        _, kappa, noise, amplitude, residual = outputs
        starts, _, slot = inputs[1:4]
        # Task of each row: starts[t] <= slot < starts[t + 1].
        row_weight = weight[pt.searchsorted(starts[1:], slot, side="right")]
        return [
            *none,
            residual * row_weight,
            kappa * weight[:, None],
            noise * weight,
            amplitude * weight,
            disconnected_type(),
        ]


def ard_evidence(
    kind: int, inputs: TaskInputs, residual: Any, kappa: Any, noise: Any, amplitude: Any, constant: float
) -> Any:
    """Log marginal likelihood of every task, (T,), differentiable in the parameters.

    Parameters
    ----------
    kind : int
        A code of ``zoo.inference.ard.evidence.KERNELS``.
    inputs : TaskInputs
    residual : (N,) tensor
        Responses less their mean.
    kappa : (T, D) tensor
        ARD parameters.
    noise, amplitude : (T,) tensor
        Noise variances and amplitudes.
    constant : float
        Prior variance of a constant of each task.
    """
    fixed = (pt.constant(v) for v in inputs)
    return ARDEvidence(kind)(*fixed, residual, kappa, noise, amplitude, np.float64(constant))[0]


def _register() -> None:
    ensure_compile_folder()
    from pytensor.link.numba.dispatch import basic as numba_basic

    @numba_basic.register_funcify_default_op_cache_key(ARDEvidence)
    def _compiled(op: ARDEvidence, **_: Any) -> Any:
        kind = op.kind

        @numba_basic.numba_njit
        def ard_evidence_of(
            X, starts, counts, slot, gram, weight, residual, kappa, noise, amplitude, constant
        ):
            return evidence(
                kind,
                X,
                starts,
                counts,
                slot,
                gram,
                weight,
                residual,
                kappa,
                noise,
                amplitude,
                constant.item(),
            )

        # The compiled code holds that of `evidence`: a file on disk must not outlive a change of it, or of its place.
        return ard_evidence_of, crc32((engine.__name__ + getsource(engine)).encode())


_register()
