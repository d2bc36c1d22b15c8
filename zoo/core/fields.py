"""Fields of a factory by name, those of its likelihood with a dot: ``"likelihood.C"``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, replace
from typing import Any

from zoo.support.checks import one_of

__all__ = ["changed", "field_names", "field_value"]

_PREFIX = "likelihood."


def field_names(factory: Any) -> list[str]:
    """Names of the fields that can be set, dotted ones last."""
    own = [field.name for field in fields(factory) if field.init]
    return [*own, *(_PREFIX + field.name for field in fields(factory.likelihood) if field.init)]


def field_value(factory: Any, name: str) -> Any:
    """Value of a field."""
    one_of(name, field_names(factory), f"field of {type(factory).__name__}")
    holder: Any = factory.likelihood if name.startswith(_PREFIX) else factory
    return getattr(holder, name.removeprefix(_PREFIX))


def changed(factory: Any, values: Mapping[str, Any], where: str = "") -> Any:
    """The factory with other values of fields; ``likelihood`` itself is set before its own fields are.

    Parameters
    ----------
    factory : ModelFactory
    values : mapping of str to value
    where : str
        What the names are part of, for the message of one that is unknown.
    """
    own = {name: value for name, value in values.items() if not name.startswith(_PREFIX)}
    for name in own:
        one_of(name, field_names(factory), f"{where}field of {type(factory).__name__}")
    result = replace(factory, **own) if own else factory
    dotted = {name: value for name, value in values.items() if name.startswith(_PREFIX)}
    for name in dotted:
        one_of(name, field_names(result), f"{where}field of {type(factory).__name__}")
    if not dotted:
        return result
    parts = {name.removeprefix(_PREFIX): value for name, value in dotted.items()}
    return replace(result, likelihood=replace(result.likelihood, **parts))
