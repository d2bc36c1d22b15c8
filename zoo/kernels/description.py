"""Covariance functions as nested tuples, so that a factory can hold, compare, print and save one.

A leaf is ``(name, (parameter, value), ...)``, as in ``("ExpQuad", ("input_dim", 2), ("ls", 1.0))``. Sums and products
are ``("Add", part, ...)`` and ``("Prod", part, ...)``, where a part may be a number; a power is
``("Exponentiated", part, number)``. Equal kernels have equal descriptions, up to the order of their parts.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from pymc.gp import cov

from zoo.checks import one_of, whole_number
from zoo.kernels.evaluate import fixed_number

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
_COMBINATIONS = {"Add": cov.Add, "Prod": cov.Prod}
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
        Constant, WhiteNoise, ExpQuad, RatQuad, Matern52, Matern32, Matern12, Exponential, Cosine, Periodic, Linear or
        Polynomial with numbers as parameters; sums, products, powers and multiples of these.
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
            f"description {description!r} describes no covariance ({error}). Make it with zoo.kernels.describe."
        ) from None


def _describe_part(part: Any, name: str, argument: str) -> Any:
    if isinstance(part, cov.BaseCovariance):
        return describe(part, argument)
    number = _parameter(part, "factor", name, argument)
    if isinstance(number, tuple):
        raise TypeError(f"{argument} combines a covariance with an array. {_ADVICE}")
    return number


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
        return _COMBINATIONS[name]([p if isinstance(p, int | float) else _restore(p) for p in parts])
    if name == "Exponentiated":
        kernel, power = parts
        return _restore(kernel) ** power
    known = {"input_dim", "active_dims", *_PARAMETERS[name]}
    arguments = {key: list(value) if isinstance(value, list | tuple) else value for key, value in parts}
    for key in arguments:
        one_of(key, known, name)
    # PyTensor keeps a float that single precision holds as one of single precision: no digit is lost.
    vectors = {key: np.asarray(v, dtype=np.float64) for key, v in arguments.items() if isinstance(v, list)}
    return getattr(cov, name)(**{**arguments, **vectors})
