"""The list of factories: those of this package, where a new model adds one line, and those of installed ones."""

from __future__ import annotations

from importlib import import_module

import pandas as pd

from zoo.factory import ModelFactory
from zoo.installed import MODELS, broken, entries, load_class, warn

__all__ = ["FACTORIES", "factories", "get_factory", "is_registered", "list_models"]

FACTORIES = {
    "MaxMargin": "zoo.models.max_margin",
    "NonparametricMaxMargin": "zoo.models.nonparametric_max_margin",
    "NIWLinear": "zoo.models.niw",
    "NIWGaussianProcess": "zoo.models.niw_gp",
    "MultiLaplaceGP": "zoo.models.multi_laplace",
    "MultiTaskKernelMachine": "zoo.models.multitask_kernel",
    "KernelLocalSmoothing": "zoo.models.local_smoothing",
    "VaryingCoefficientGP": "zoo.models.varying_coefficient",
    "NonisotropicVaryingCoefficients": "zoo.models.varying_baselines",
    "PooledGP": "zoo.models.varying_baselines",
    "IndependentTasks": "zoo.models.baselines",
    "PooledTasks": "zoo.models.baselines",
}
"""The factories of this package, and the modules that hold them."""


def factories() -> tuple[str, ...]:
    """Names of all factories: of this package, then of installed ones (:mod:`zoo.installed`), not imported yet."""
    return (*FACTORIES, *sorted(entries(MODELS, FACTORIES)))


def get_factory(name: str) -> type[ModelFactory]:
    """The factory class of this name.

    Raises
    ------
    ValueError
        The name is unknown, or the installed package that has it is broken.
    """
    if name in FACTORIES:
        factory: type[ModelFactory] = getattr(import_module(FACTORIES[name]), name)
        return factory
    factory, entry = load_class(name, MODELS, FACTORIES, ModelFactory, "model")
    if factory.__name__ != name:
        raise broken(entry, f"is the class {factory.__name__}, and the entry point must have its name")
    try:
        factory()
    except Exception as error:  # fields without a default, or a mistake of its authors
        why = f"cannot be made without arguments ({type(error).__name__}: {error})"
        raise broken(entry, why) from error
    return factory


def is_registered(cls: type[ModelFactory]) -> bool:
    """Whether the name of a class means this class."""
    try:
        return cls.__name__ in factories() and get_factory(cls.__name__) is cls
    except ValueError:  # the name belongs to a package that is broken
        return False


def list_models() -> pd.DataFrame:
    """Name, paper, methods and one-line description of every factory.

    Warns
    -----
    UserWarning
        A model of an installed package cannot be loaded. It is left out.
    """
    rows = []
    for name in factories():
        try:
            factory = get_factory(name)
        except ValueError as error:
            warn(f"{name} is left out of the list, because {error}")
            continue
        rows.append(
            {
                "model": name,
                "paper": factory.paper,
                "methods": ", ".join(factory().methods),
                "description": ((factory.__doc__ or "").strip().splitlines() or [""])[0],
            }
        )
    return pd.DataFrame(rows).set_index("model")
