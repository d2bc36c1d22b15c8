"""The list of factories: those of this package, where a new model adds one line, and those of installed ones."""

from __future__ import annotations

import os
from dataclasses import replace
from importlib import import_module
from inspect import cleandoc
from typing import Any

import pandas as pd

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.loading import load as read_fit
from zoo.likelihoods.base import Likelihood
from zoo.likelihoods.resolve import LIKELIHOODS
from zoo.support.installed import MODELS, broken, entries, load_class
from zoo.support.warning_types import warn_user

__all__ = ["FACTORIES", "factories", "get_factory", "list_models", "load"]

FACTORIES = {
    "MaxMargin": "zoo.models.max_margin.matrix_normal",
    "NonparametricMaxMargin": "zoo.models.max_margin.indian_buffet",
    "HierarchicalLinear": "zoo.models.niw.hierarchical",
    "NIWLinear": "zoo.models.niw.linear",
    "NIWGaussianProcess": "zoo.models.niw.gaussian_process",
    "MultiLaplaceGP": "zoo.models.multi_laplace.model",
    "MultiTaskKernelMachine": "zoo.models.kernel_machine.model",
    "KernelLocalSmoothing": "zoo.models.local_smoothing.model",
    "VaryingCoefficientGP": "zoo.models.varying_coefficient.model",
    "NonisotropicVaryingCoefficients": "zoo.models.varying_coefficient.baselines",
    "PooledGP": "zoo.models.varying_coefficient.baselines",
    "IndependentTasks": "zoo.models.baselines",
    "PooledTasks": "zoo.models.baselines",
}
"""The factories of this package, and the modules that hold them."""


def factories() -> tuple[str, ...]:
    """Names of all factories, without importing them: those of this package, then of installed ones."""
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


def load(
    path: str | os.PathLike[str],
    factory: type[ModelFactory] | None = None,
    likelihood: type[Likelihood] | None = None,
    mean: Any = None,
) -> Fit:
    """Read a fit that :meth:`Fit.save` wrote. Nothing in the file is executed.

    Parameters
    ----------
    path : path
    factory : type, optional
        The class of a model of your own, which no installed package has by its name.
    likelihood : type, optional
        The class of a likelihood of your own.
    mean : estimator of scikit-learn, optional
        Of data with a learned mean (:meth:`MultiTaskData.add_mean`): the estimator fitted to all rows, which no file
        holds. Keep it by ``joblib.dump(fit.data.learned_mean.estimator, ...)``, or fit it again.

    Raises
    ------
    FileNotFoundError
        There is no such file.
    ValueError
        The file is damaged, or no fit of this package, or of another schema version; ``mean`` is another estimator.
    """
    fit = read_fit(path, lambda name: get_factory(name) if name in factories() else None, factory, likelihood)
    if mean is None:
        return fit
    if fit.data.learned_mean is None:
        raise ValueError(f"mean is given, and the fit in {str(path)!r} has no learned mean. Leave it out.")
    known = fit.data.learned_mean.with_estimator(mean)
    return replace(fit, data=replace(fit.data, learned_mean=known))


def list_models() -> pd.DataFrame:
    """Name, paper, methods and one-line description of every factory.

    ``methods`` are those with the default fields. ``other_methods`` are those that another likelihood brings, with the
    words of these likelihoods.

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
            warn_user(f"{name} is left out of the list, because {error}")
            continue
        rows.append(
            {
                "model": name,
                "paper": factory.paper,
                "methods": ", ".join(factory().methods),
                "other_methods": _other_methods(factory),
                "description": " ".join(cleandoc(factory.__doc__ or "").split("\n\n")[0].split()),
            }
        )
    return pd.DataFrame(rows).set_index("model")


def _other_methods(factory: type[ModelFactory]) -> str:
    """Methods that the default likelihood does not have, each with the words of the likelihoods that bring it."""
    usual, brought = factory().methods, dict[str, list[str]]()
    for word in LIKELIHOODS:
        try:
            methods = replace(factory(), likelihood=word).methods
        except (TypeError, ValueError):
            continue  # the model refuses this likelihood
        for method in methods:
            if method not in usual:
                brought.setdefault(method, []).append(word)
    return "; ".join(f"{method} ({', '.join(words)})" for method, words in brought.items())
