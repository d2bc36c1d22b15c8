"""Covariance functions as nested tuples, so that a factory can hold, compare, print and save one.

A leaf is ``(name, (parameter, value), ...)``, as in ``("ExpQuad", ("input_dim", 2), ("ls", 1.0))``. Sums and products
are ``("Add", part, ...)`` and ``("Prod", part, ...)``, where a part may be a number; a power is
``("Exponentiated", part, number)``. Equal kernels have equal descriptions, up to the order of their parts. Task kernels
are leaves too, whose base is a description in its turn: ``("ICM", ("input_dim", 3), ("base", ("ExpQuad", ...)), ...)``.
"""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
from pymc.gp import cov

from zoo.kernels.coregionalisation import LMC
from zoo.kernels.evaluate import fixed_number
from zoo.kernels.task_kernel import TaskKernel, known_kernel
from zoo.support.checks import names, one_of, whole_number

__all__ = ["WORDS", "describe", "from_word", "restore"]

Description = tuple[Any, ...]

# Parameters beside input_dim and active_dims. An inverse lengthscale is held as a lengthscale by PyMC itself.
_PARAMETERS: dict[str, tuple[str, ...]] = {
    "Constant": ("c",),
    "WhiteNoise": ("sigma",),
    "ExpQuad": ("ls",),
    "RatQuad": ("alpha", "ls"),
    "Matern52": ("ls",),
    "Matern32": ("ls",),
    "Matern12": ("ls",),
    "Exponential": ("ls",),
    "Cosine": ("ls",),
    "Periodic": ("period", "ls"),
    "Linear": ("c",),
    "Polynomial": ("c", "d", "offset"),
}
_COMBINATIONS = {"Add": cov.Add, "Prod": cov.Prod, "LMC": LMC}
_WORDS = {
    "linear": ("Linear", ("c", 0.0)),
    "squared_exponential": ("ExpQuad", ("ls", 1.0)),
    "matern52": ("Matern52", ("ls", 1.0)),
    "matern32": ("Matern32", ("ls", 1.0)),
}
WORDS = tuple(_WORDS)
"""Short words that :func:`from_word` knows."""

_ADVICE = (
    "Use the covariances of pm.gp.cov with numbers as parameters, or override the hook "
    "`base_covariance(input_dim)` in a subclass of the factory."
)


def from_word(word: str, input_dim: int) -> Any:
    """The covariance that a short word names: "linear" has ``c=0``, the others a lengthscale of 1.

    Parameters
    ----------
    word : {"linear", "squared_exponential", "matern52", "matern32"}
    input_dim : int
        Number of columns of the inputs.
    """
    one_of(word, WORDS, "base_kernel")
    name, parameter = _WORDS[word]
    return restore((name, ("input_dim", whole_number(input_dim, "input_dim")), parameter))


def describe(covariance: Any, argument: str = "base_kernel") -> Description:
    """The covariance as a nested tuple of names and numbers: hashable, and JSON-ready.

    Parameters
    ----------
    covariance : pm.gp.cov.Covariance
        Constant, WhiteNoise, ExpQuad, RatQuad, Matern52, Matern32, Matern12, Exponential, Cosine, Periodic, Linear,
        Polynomial or a task kernel with numbers as parameters; sums, products, powers and multiples of these.
    argument : str
        What an error calls the covariance.

    Raises
    ------
    TypeError
        It is of another class, or one of its parameters is random or symbolic.
    """
    name = type(covariance).__name__
    if type(covariance) is _COMBINATIONS.get(name):
        return (name, *(_describe_part(part, name, argument) for part in covariance._factor_list))
    if type(covariance) is cov.Exponentiated:
        power = _parameter(covariance.power, "power", name, argument)
        return (name, describe(covariance.kernel, argument), power)
    if isinstance(covariance, TaskKernel):
        return _describe_task_kernel(covariance, argument)
    if name not in _PARAMETERS or type(covariance) is not getattr(cov, name):
        raise TypeError(f"{argument} holds {name}, which has no description. {_ADVICE}")
    values = ((p, _parameter(getattr(covariance, p), p, name, argument)) for p in _PARAMETERS[name])
    return (name, *_dims(covariance), *values)


def restore(description: Any) -> Any:
    """The covariance that :func:`describe` described; lists, as JSON makes them, count as tuples.

    Raises
    ------
    ValueError
        ``description`` is none of :func:`describe`'s.
    """
    try:
        return _restore(description)
    except (TypeError, ValueError, KeyError, IndexError) as error:
        raise ValueError(
            f"kernel {description!r} describes no covariance known here. Make it with zoo.kernels.describe."
        ) from error


def _describe_part(part: Any, name: str, argument: str) -> Any:
    if isinstance(part, cov.BaseCovariance):
        return describe(part, argument)
    number = _parameter(part, "factor", name, argument)
    if isinstance(number, tuple):
        raise TypeError(f"{argument} combines a covariance with an array. {_ADVICE}")
    return number


def _describe_task_kernel(kernel: TaskKernel, argument: str) -> Description:
    """Name, dims and every argument of the class that is not left at its default."""
    kind = type(kernel)
    if known_kernel(kind.__name__) is not kind:
        raise TypeError(f"{argument} holds {kind.__name__}, and another class has that name. Rename it.")
    taken = inspect.signature(kind.__init__).parameters
    parts: list[tuple[str, Any]] = []
    # By name alone it is for parameters that are tensors, whose shapes do not say it; here they are numbers.
    if "n_tasks" in taken and taken["n_tasks"].kind is not inspect.Parameter.KEYWORD_ONLY:
        parts.append(("n_tasks", kernel.n_tasks))
    for name in kernel.parameters:
        value = getattr(kernel, name)
        # A part of the kernel that is switched off, and by default so, leaves nothing to learn.
        off = value is False or (isinstance(value, float) and value == 0.0)
        if value is not None and not (off and name in taken and taken[name].default == value):
            parts.append((name, _array_parameter(value, name, kind.__name__, argument)))
    if kernel.Q is not None:
        parts.append(("Q", _array_parameter(kernel.Q, "Q", kind.__name__, argument)))
    for name in kernel.covariances:
        if getattr(kernel, name) is not None:
            parts.append((name, describe(getattr(kernel, name), f"{argument}.{name}")))
    if kernel.task_names != names(None, "task_names", kernel.n_tasks, "task "):
        parts.append(("task_names", kernel.task_names))
    return (kind.__name__, *(() if kernel.any_width else _dims(kernel)), *parts)


def _array_parameter(value: Any, parameter: str, name: str, argument: str) -> Any:
    """A parameter as a number, or as nested tuples of numbers."""
    number = fixed_number(value, constant=True)
    if number is None:
        raise TypeError(
            f"{argument} holds {name}, whose {parameter} is random or symbolic, not a number. Give numbers."
        )
    # Whole numbers and truth values stay what they are: labels, parents of nodes, options.
    exact = np.asarray(value) if not hasattr(value, "owner") else number
    return _nested(exact.tolist())


def _nested(value: Any) -> Any:
    return tuple(_nested(v) for v in value) if isinstance(value, list) else value


def _parameter(value: Any, parameter: str, name: str, argument: str) -> Any:
    """A parameter as a float, or as a tuple of floats where it has several entries."""
    number = fixed_number(value, constant=True)
    if number is None:
        raise TypeError(
            f"{argument} holds {name}, whose {parameter} is random or symbolic, not a number. {_ADVICE}"
        )
    if number.size == 1:
        return float(number.reshape(()))
    if number.ndim != 1:
        raise TypeError(f"{argument} holds {name}, whose {parameter} has {number.ndim} dimensions. {_ADVICE}")
    return tuple(number.tolist())


def _dims(covariance: Any) -> Description:
    if not isinstance(covariance, cov.Covariance):
        return ()
    dims = (("input_dim", int(covariance.input_dim)),)
    if np.array_equal(covariance.active_dims, np.arange(covariance.input_dim)):
        return dims
    return (*dims, ("active_dims", tuple(int(i) for i in covariance.active_dims)))


def _restore(description: Any) -> Any:
    name, *parts = description
    if name in _COMBINATIONS:
        factors = [_restore(p) if isinstance(p, list | tuple) else p for p in parts]
        return LMC(factors[0].input_dim, factors) if name == "LMC" else _COMBINATIONS[name](factors)
    if name == "Exponentiated":
        kernel, power = parts
        return _restore(kernel) ** power
    if name not in _PARAMETERS and (kind := known_kernel(name)) is not None:
        return _restore_task_kernel(kind, parts)
    known = {"input_dim", "active_dims", *_PARAMETERS[name]}
    arguments = {key: list(value) if isinstance(value, list | tuple) else value for key, value in parts}
    for key in arguments:
        one_of(key, known, name)
    # PyTensor keeps a float that single precision holds as one of single precision: no digit is lost.
    vectors = {key: np.asarray(v, dtype=np.float64) for key, v in arguments.items() if isinstance(v, list)}
    return getattr(cov, name)(**{**arguments, **vectors})


def _restore_task_kernel(kind: type[TaskKernel], parts: Any) -> TaskKernel:
    common = {"input_dim", "active_dims", "n_tasks", "task_names", "Q"}
    arguments = {}
    for key, value in parts:
        one_of(key, {*common, *kind.parameters, *kind.covariances}, kind.__name__)
        if key in kind.covariances:
            value = _restore(value)
        elif isinstance(value, list | tuple) and key != "task_names":
            value = np.asarray(value)
        arguments[key] = value
    return kind(**arguments)
