"""The list of factories. A new model adds one line here."""

from __future__ import annotations

from importlib import import_module

import pandas as pd

from zoo.checks import one_of
from zoo.factory import ModelFactory

__all__ = ["FACTORIES", "get_factory", "list_models"]

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


def get_factory(name: str) -> type[ModelFactory]:
    """The factory class of this name."""
    one_of(name, FACTORIES, "model")
    factory: type[ModelFactory] = getattr(import_module(FACTORIES[name]), name)
    return factory


def list_models() -> pd.DataFrame:
    """Name, paper, methods and one-line description of every factory."""
    rows = []
    for name in FACTORIES:
        factory = get_factory(name)
        rows.append(
            {
                "model": name,
                "paper": factory.paper,
                "methods": ", ".join(factory().methods),
                "description": (factory.__doc__ or "").strip().splitlines()[0],
            }
        )
    return pd.DataFrame(rows).set_index("model")
