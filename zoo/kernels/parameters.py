"""The parameters of a described covariance: listed by name, and replaced by other numbers or by random variables.

A name stands for one place in the tree of the description. Where a name occurs more than once, the places are called
``ls_1``, ``ls_2``, ... in the order of the walk, left to right and a kernel before its base.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
from pytensor.graph.basic import Variable

from zoo.kernels.description import Description, restore
from zoo.kernels.task_kernel import known_kernel
from zoo.support.checks import one_of

__all__ = ["Parameter", "kernel_parameters", "with_parameters"]

_KINDS = {
    ("Constant", "c"): "positive",
    ("WhiteNoise", "sigma"): "positive",
    ("RatQuad", "alpha"): "positive",
    ("Periodic", "period"): "positive",
    ("Linear", "c"): "real",
    ("Polynomial", "c"): "real",
    ("Polynomial", "offset"): "nonnegative",
}


class Parameter(NamedTuple):
    """A parameter of a described covariance."""

    path: tuple[int, ...]
    """Where it stands in the nested tuple."""
    value: Any
    """A float, or an array."""
    kind: str
    """"unit" (in (0, 1)), "positive", "nonnegative", "real" or "fixed"."""


def kernel_parameters(description: Description, fixed: bool = False) -> dict[str, Parameter]:
    """The parameters that may be learned, by name.

    Of task kernels those of the class attribute ``parameters``; of PyMC's the lengthscales, ``alpha``, ``period``,
    ``sigma``, ``c`` and ``offset``; of products the factors that are numbers, as ``scale``.

    Parameters
    ----------
    description : tuple
        Made by :func:`zoo.kernels.describe`.
    fixed : bool
        Whether to list those too that are never learned, such as an adjacency matrix.
    """
    found = list(_walk(description, ()))
    counts = Counter(name for name, _ in found)
    seen: Counter[str] = Counter()
    result = {}
    for name, parameter in found:
        seen[name] += 1
        unique = name if counts[name] == 1 else f"{name}_{seen[name]}"
        if fixed or parameter.kind != "fixed":
            result[unique] = parameter
    return result


def with_parameters(description: Description, values: dict[str, Any]) -> Any:
    """The covariance of a description with some parameters replaced.

    Every number becomes float64: of a Python float PyMC's own covariances may make single precision.

    Parameters
    ----------
    description : tuple
        Made by :func:`zoo.kernels.describe`.
    values : dict
        By the names of :func:`kernel_parameters`, those of fixed parameters included: numbers, arrays, tensors or
        random variables of the shape of what they replace.

    Raises
    ------
    ValueError
        A name is unknown.
    """
    known = kernel_parameters(description, fixed=True)
    for name in values:
        one_of(name, known, "values")
    for name, parameter in known.items():
        value = values.get(name, parameter.value)
        # Structure, as a degree or labels, stays what it is.
        if parameter.kind != "fixed" or name in values:
            value = value if isinstance(value, Variable) else np.asarray(value, dtype=np.float64)
            description = _replaced(description, parameter.path, value)
    return restore(description)


def _walk(part: Any, path: tuple[int, ...]) -> Iterator[tuple[str, Parameter]]:
    name = part[0]
    if name in ("Add", "Prod", "LMC", "Exponentiated"):
        for i, entry in enumerate(part[1:], start=1):
            if isinstance(entry, list | tuple):
                yield from _walk(entry, (*path, i))
            elif name == "Prod":
                yield "scale", Parameter((*path, i), float(entry), "positive")
        return
    kernel = known_kernel(name)
    covariances = () if kernel is None else kernel.covariances
    for i, (key, value) in enumerate(part[1:], start=1):
        if key in covariances:
            yield from _walk(value, (*path, i, 1))
        elif key not in ("input_dim", "active_dims", "n_tasks", "task_names"):
            yield key, Parameter((*path, i, 1), _value(value), _kind(name, key))


def _kind(name: str, key: str) -> str:
    kernel = known_kernel(name)
    if kernel is not None:
        return kernel.parameters.get(key, "fixed")
    return "positive" if key == "ls" else _KINDS.get((name, key), "fixed")


def _value(value: Any) -> Any:
    return np.asarray(value) if isinstance(value, list | tuple) else value


def _replaced(part: Any, path: tuple[int, ...], value: Any) -> Any:
    if not path:
        return value
    first, *rest = path
    return (*part[:first], _replaced(part[first], tuple(rest), value), *part[first + 1 :])
