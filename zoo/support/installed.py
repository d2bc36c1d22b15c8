"""Models and likelihoods that other installed packages bring, by their entry points.

A package declares them in its ``pyproject.toml``, under the name of the class or the word of the likelihood:

.. code-block:: toml

    [project.entry-points."zoo.models"]
    PartialPooling = "my_package.pooling:PartialPooling"

    [project.entry-points."zoo.likelihoods"]
    cauchy = "my_package.cauchy:Cauchy"

Nothing is read before somebody asks, and no module is imported before its own name is asked for.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from importlib.metadata import EntryPoint, entry_points
from types import MappingProxyType
from typing import Any

from zoo.support.checks import one_of
from zoo.support.warning_types import warn_user

__all__ = ["LIKELIHOODS", "MODELS", "broken", "entries", "load_class"]

MODELS, LIKELIHOODS = "zoo.models", "zoo.likelihoods"


def entries(group: str, own: Collection[str]) -> dict[str, list[EntryPoint]]:
    """Entry points of other packages by name; more than one where packages disagree about a name.

    Parameters
    ----------
    group : str
        ``MODELS`` or ``LIKELIHOODS``.
    own : collection of str
        Names of this package itself. They win: an entry point of such a name is left out.

    Warns
    -----
    UserWarning
        An entry point has a name of this package, or two packages have the same name.
    """
    found: dict[str, list[EntryPoint]] = {}
    for entry in entry_points(group=group):
        if entry.name in own:
            warn_user(
                f"package {package_of(entry)!r} has an entry point {entry.name!r} in the group {group!r}, which is a "
                f"name of the package 'zoo' itself. The name means that of 'zoo'. Ask the authors of "
                f"{package_of(entry)!r} for another name, or uninstall it."
            )
        else:
            found.setdefault(entry.name, []).append(entry)
    for name, several in found.items():
        if len(several) > 1:
            warn_user(_clash(name, group, several))
    return found


def load_class(
    name: str,
    group: str,
    own: Collection[str],
    base: type,
    argument: str,
    elsewhere: Mapping[str, str] = MappingProxyType({}),
) -> tuple[Any, EntryPoint]:
    """The class behind a name of another package, a subclass of ``base`` imported now, and its entry point.

    Raises
    ------
    ValueError
        The name is unknown, or two packages have it, or the module cannot be imported, or it holds something else.
        The message names the package.
    """
    others = entries(group, own)
    one_of(name, [*sorted(others), *own], argument, elsewhere)  # a long list is cut short at its end
    candidates = others[name]
    if len(candidates) > 1:
        raise ValueError(_clash(name, group, candidates))
    entry = candidates[0]
    try:
        loaded = entry.load()
    except Exception as error:  # whatever the module of somebody else does when it is imported
        raise broken(entry, f"cannot be imported ({type(error).__name__}: {error})") from error
    if not (isinstance(loaded, type) and issubclass(loaded, base)):
        raise broken(entry, f"is no subclass of zoo.{base.__name__}")
    return loaded, entry


def broken(entry: EntryPoint, reason: str) -> ValueError:
    """The error of an entry point that does not hold what it promises; ``reason`` is a verb phrase."""
    return ValueError(
        f"the entry point {entry.name!r} of package {package_of(entry)!r} is broken: {entry.value!r} {reason}. "
        f"Update {package_of(entry)!r}, or uninstall it."
    )


def package_of(entry: EntryPoint) -> str:
    """Name of the package that declares an entry point."""
    return str(entry.dist.name) if entry.dist is not None else entry.value.partition(":")[0]


def _clash(name: str, group: str, several: list[EntryPoint]) -> str:
    packages = " and ".join(repr(package_of(entry)) for entry in several)
    return f"packages {packages} both have an entry point {name!r} in the group {group!r}. Uninstall one of them."
