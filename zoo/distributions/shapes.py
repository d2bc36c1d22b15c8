"""Shapes of distributions, compared when a variable is made."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.distributions.shape_utils import convert_size, implicit_size_from_params, rv_size_is_none
from pytensor.graph.basic import Constant

from zoo.support.checks import whole_number

__all__ = [
    "draw_size",
    "fixed_core",
    "full_batch",
    "match_batch",
    "match_draw",
    "match_shape",
    "order_of",
    "same_length",
    "static_lengths",
]


def same_length(first: str, left: int | None, second: str, right: int | None) -> None:
    """Raise where two lengths are known and differ."""
    if left is not None and right is not None and left != right:
        raise ValueError(f"{first} has length {left}, but {second} has length {right}. Make them equal.")


def match_shape(kwargs: dict[str, Any], core: Sequence[int | None], name: str) -> None:
    """Raise where ``shape`` (dims and observed data arrive as shape too) does not end in the shape of one draw."""
    shape = kwargs.get("shape")
    if shape is None:
        return
    given = [_length(s) for s in (shape if np.iterable(shape) else (shape,))]
    tail = given[-len(core) :]
    if len(given) < len(core) or any(
        s is not None and c is not None and s != c for s, c in zip(tail, core, strict=True)
    ):
        words = ["(" + ", ".join("?" if s is None else str(s) for s in each) + ")" for each in (given, core)]
        raise ValueError(
            f"shape, size, dims or the value give the shape {words[0]}, but one {name} is {words[1]} by its parameters."
        )


def match_batch(kwargs: dict[str, Any], core: int, **parameters: tuple[Any, int]) -> None:
    """Raise where the leading dimensions of two parameters do not broadcast, or exceed the shape that is asked for.

    Parameters
    ----------
    kwargs : dict
        Of ``dist``: ``shape`` or ``size``, if given.
    core : int
        Dimensions of one draw.
    **parameters : (tensor, int)
        Each with the number of its own core dimensions.
    """
    batches = {name: p.type.shape[: p.type.ndim - ndim] for name, (p, ndim) in parameters.items()}
    for (first, left), (second, right) in combinations(batches.items(), 2):
        if any(
            a != b
            for a, b in zip(left[::-1], right[::-1], strict=False)
            if None not in (a, b) and 1 not in (a, b)
        ):
            raise ValueError(
                f"{first} has shape {parameters[first][0].type.shape}, but {second} has shape "
                f"{parameters[second][0].type.shape}. Their leading dimensions must be equal or 1."
            )
    size, shape = convert_size(kwargs.get("size")), kwargs.get("shape")
    if size is None and shape is None:
        return
    whole = [_length(s) for s in (shape if np.iterable(shape) else (shape,))] if size is None else None
    asked = [_length(s) for s in size] if whole is None else whole[: len(whole) - core]
    for name, batch in batches.items():
        pairs = zip(batch[::-1], asked[::-1], strict=False)
        if len(batch) > len(asked) or any(b not in (None, 1, s) and s is not None for b, s in pairs):
            raise ValueError(
                f"{name} has shape {parameters[name][0].type.shape}, but shape, size, dims or observed data ask "
                f"for a batch of shape ({', '.join('?' if s is None else str(s) for s in asked)}). Make them agree."
            )


def match_draw(kwargs: dict[str, Any], parameter: Any, core: tuple[int, ...], name: str) -> None:
    """Raise where ``shape`` or ``size`` fits neither one draw nor the batch of the one ``parameter``."""
    size = convert_size(kwargs.get("size"))
    shape = kwargs.get("shape") if size is None else (*size, *core)
    batch = [None if length == 1 else length for length in parameter.type.shape]
    match_shape({"shape": shape}, (*batch, *core), name)


def _length(length: Any) -> int | None:
    """A length as a number where it is one already, or a constant, or the length of a model's dim."""
    if isinstance(length, int | np.integer):
        return int(length)
    if isinstance(length, Constant):
        return int(length.data)
    return int(length.get_value()) if hasattr(length, "get_value") else None


def static_lengths(shape: Any, **lengths: int | None) -> tuple[int, ...]:
    """Lengths of one draw's dimensions as numbers; those given as None are the last ones of ``shape``."""
    shape = () if shape is None else tuple(shape if np.iterable(shape) else (shape,))
    last = ((None,) * len(lengths) + shape)[-len(lengths) :]
    pairs = zip(lengths.items(), last, strict=True)
    return tuple(
        _from_shape(s, name) if given is None else whole_number(given, name) for (name, given), s in pairs
    )


def _from_shape(length: Any, name: str) -> int:
    known = _length(length)
    if known is None:
        raise ValueError(f"{name} is not known. Give {name}, or a shape or dims of known lengths.")
    return whole_number(known, name)


def fixed_core(value: Any, core: tuple[int, ...], name: str) -> Any:
    """``value`` with the shape of one ``name`` in its last dimensions; raises where it has another one."""
    match_shape({"shape": value.type.shape}, core, name)
    return pt.specify_shape(value, (*[None] * (value.type.ndim - len(core)), *core))


def order_of(packed: Any, matrix: Any) -> Any:
    """Rows p of a square matrix: a number where it is known, else from the p (p + 1) / 2 values of its packed triangle.

    Never from the graph of the matrix, which may hold random variables that a log density must not meet.
    """
    rows = matrix.type.shape[-1]
    return pt.cast((pt.sqrt(8.0 * packed.shape[-1] + 1.0) - 1.0) / 2.0, "int64") if rows is None else rows


def draw_size(size: Any, parameters: Sequence[Any], ndims: Sequence[int]) -> Any:
    """Batch shape of a draw as a vector: ``size``, or the broadcast of the parameters' leading dimensions.

    It goes into the node as its size: PyMC cannot add dimensions to a variable whose size was left open.
    """
    return implicit_size_from_params(*parameters, ndims_params=ndims) if rv_size_is_none(size) else size


def full_batch(value: Any, size: Any, core: int) -> Any:
    """``value`` repeated to the batch shape ``size``, where one is given; ``core`` dimensions are one draw's."""
    if rv_size_is_none(size):
        return value
    return pt.broadcast_to(value, (*size, *value.shape[value.ndim - core :]))
