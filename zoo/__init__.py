"""Bayesian multi-task learning for people who think in PyMC."""

from zoo import datasets
from zoo.data import MultiTaskData
from zoo.factory import ModelFactory
from zoo.fit import Fit, load
from zoo.models.baselines import IndependentTasks, PooledTasks
from zoo.models.max_margin import MaxMargin
from zoo.registry import list_models

__version__ = "0.1.0"

__all__ = [
    "Fit",
    "IndependentTasks",
    "MaxMargin",
    "ModelFactory",
    "MultiTaskData",
    "PooledTasks",
    "datasets",
    "list_models",
    "load",
]


def __getattr__(name: str) -> object:
    # matplotlib and ArviZ's plots are slow to import: only where asked for.
    if name == "plots":
        from importlib import import_module

        return import_module("zoo.plots")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")
