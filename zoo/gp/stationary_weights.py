"""Weights of neighbours under sums of stationary kernels as a PyTensor operation, compiled, in little memory."""

from __future__ import annotations

from inspect import getsource
from typing import Any
from zlib import crc32

import numpy as np
import pytensor.tensor as pt
from pytensor.gradient import DisconnectedType, disconnected_type
from pytensor.graph.basic import Apply
from pytensor.graph.op import Op

from zoo.gp.stationary_terms import Stationary
from zoo.inference.compiled import ensure_compile_folder
from zoo.latent import vecchia, vecchia_terms, vecchia_weights
from zoo.latent.vecchia_terms import LINEAR, Terms
from zoo.latent.vecchia_weights import weights, weights_adjoint

__all__ = ["StationaryWeights", "stationary_weights"]

# Of Terms, those that differ: the first eight.
_N_TERMS = 8
# Beside them the table of rows and the sets: no derivative is given in any of these.
_N_CONSTANT = _N_TERMS + 2


def _terms(arrays: Any) -> Terms:
    made: Any = Terms
    found: Terms = made(*arrays, LINEAR, np.empty(0, dtype=np.int64), 0)
    return found


class _Compiled(Op):
    """An operation in compiled code, which says in errors of other backends what to do."""

    __props__ = ()

    def __str__(self) -> str:
        return f"{type(self).__name__} (compiled by Numba; zoo.gp.Vecchia(compiled=False) is for JAX)"


class StationaryWeights(_Compiled):
    """Weights (N, m) and variances (N,), from arrays of the covariance, rows, sets, logarithms and noise variances."""

    def make_node(self, *inputs: Any) -> Apply:
        """Weights and variances."""
        inputs = tuple(pt.as_tensor(v) for v in inputs)
        N, n = inputs[_N_CONSTANT - 1].type.shape
        outputs = [pt.matrix(dtype="float64", shape=(N, n - 1)), pt.vector(dtype="float64", shape=(N,))]
        return Apply(self, list(inputs), outputs)

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        """By the compiled function."""
        t, sets, theta, noise = inputs[_N_TERMS:]
        outputs[0][0], outputs[1][0] = weights(_terms(inputs[:_N_TERMS]), theta, noise, t, sets)

    def infer_shape(self, node: Apply, shapes: Any) -> Any:
        """From that of the sets."""
        N, n = shapes[_N_CONSTANT - 1]
        return [(N, n - 1), (N,)]

    def connection_pattern(self, node: Apply) -> list[list[bool]]:
        """Logarithms and noise have derivatives."""
        return [[False, False]] * _N_CONSTANT + [[True, True]] * 2

    def pullback(self, inputs: Any, outputs: Any, cotangents: Any) -> Any:
        """By one more pass over the rows."""
        of_b, of_v = (
            out.zeros_like() if isinstance(g.type, DisconnectedType) else g
            for out, g in zip(outputs, cotangents, strict=True)
        )
        found = _Adjoint()(*inputs, outputs[0], of_b, of_v)
        return [*(disconnected_type() for _ in range(_N_CONSTANT)), *found]


class _Adjoint(_Compiled):
    """Derivatives in the logarithms and the noise variances."""

    def make_node(self, *inputs: Any) -> Apply:
        return Apply(self, list(inputs), [v.type() for v in inputs[_N_CONSTANT : _N_CONSTANT + 2]])

    def perform(self, node: Apply, inputs: Any, outputs: Any) -> None:
        t, sets, theta, noise, *others = inputs[_N_TERMS:]
        found = weights_adjoint(_terms(inputs[:_N_TERMS]), theta, noise, t, sets, *others)
        outputs[0][0], outputs[1][0] = found

    def infer_shape(self, node: Apply, shapes: Any) -> Any:
        return shapes[_N_CONSTANT : _N_CONSTANT + 2]


def stationary_weights(known: Stationary, table: np.ndarray, sets: np.ndarray, noise: Any) -> tuple[Any, Any]:
    """Weights (N, m) and variances (N,) of rows given their neighbours, differentiable in parameters and noise.

    Parameters
    ----------
    known : Stationary
    table : (R, D) array
        Rows.
    sets : (N, m + 1) int
        Of each row its neighbours in the table, -1 where there is none, and its own place last.
    noise : (R,) tensor
        Added to the variances of the rows of the table.
    """
    constants = [pt.constant(v) for v in (*known.terms[:_N_TERMS], table, sets.astype(np.int64))]
    b, v = StationaryWeights()(*constants, known.theta, pt.cast(noise, "float64"))
    return b, v


def _register() -> None:
    ensure_compile_folder()
    from pytensor.link.numba.dispatch import basic as numba_basic

    # The compiled code holds that of the engines: a file on disk must not outlive a change of them, or of their places.
    engines = (vecchia_weights, vecchia, vecchia_terms)
    key = crc32("".join(module.__name__ + getsource(module) for module in engines).encode())
    none = np.empty(0, dtype=np.int64)

    @numba_basic.register_funcify_default_op_cache_key(StationaryWeights)
    def _compiled(op: StationaryWeights, **_: Any) -> Any:
        @numba_basic.numba_njit
        def stationary_weights_of(
            kind, columns, column, lengthscale, features, feature, amplitude, shared, t, sets, theta, noise
        ):
            terms = Terms(
                kind, columns, column, lengthscale, features, feature, amplitude, shared, LINEAR, none, 0
            )
            return weights(terms, theta, noise, t, sets)

        return stationary_weights_of, key

    @numba_basic.register_funcify_default_op_cache_key(_Adjoint)
    def _compiled_adjoint(op: _Adjoint, **_: Any) -> Any:
        @numba_basic.numba_njit
        def stationary_weights_adjoint_of(
            kind, columns, column, lengthscale, features, feature, amplitude, shared, t, sets, theta, noise,
            b, of_b, of_v,
        ):  # fmt: skip
            terms = Terms(
                kind, columns, column, lengthscale, features, feature, amplitude, shared, LINEAR, none, 0
            )
            return weights_adjoint(terms, theta, noise, t, sets, b, of_b, of_v)

        return stationary_weights_adjoint_of, key


_register()
