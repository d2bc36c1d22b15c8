"""Bayesian multi-task learning for people who think in PyMC."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo import datasets, diagnostics, distributions, gp, kernels, likelihoods, ops, plots, testing
    from zoo import sklearn as sklearn
    from zoo.core.factory import ModelFactory
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData
    from zoo.likelihoods import (
        EpsilonInsensitive,
        Gaussian,
        Hinge,
        LaplaceNoise,
        Likelihood,
        Logistic,
        MultinomialLogit,
        NegativeBinomial,
        NormalisedHinge,
        Ordinal,
        Poisson,
        Probit,
        StudentT,
        ZeroInflatedNegativeBinomial,
        ZeroInflatedPoisson,
    )
    from zoo.models.baselines import IndependentTasks, PooledTasks
    from zoo.models.kernel_machine.model import MultiTaskKernelMachine
    from zoo.models.local_smoothing.model import KernelLocalSmoothing
    from zoo.models.max_margin.indian_buffet import NonparametricMaxMargin
    from zoo.models.max_margin.matrix_normal import MaxMargin
    from zoo.models.multi_laplace.model import MultiLaplaceGP
    from zoo.models.niw.gaussian_process import NIWGaussianProcess
    from zoo.models.niw.hierarchical import HierarchicalLinear
    from zoo.models.niw.linear import NIWLinear
    from zoo.models.varying_coefficient.baselines import NonisotropicVaryingCoefficients, PooledGP
    from zoo.models.varying_coefficient.component import VaryingComponent
    from zoo.models.varying_coefficient.model import VaryingCoefficientGP
    from zoo.registry import list_models, load
    from zoo.selection import Selection, select
    from zoo.steps import augmented_step, draw_marginalised, marginalise, sample
    from zoo.support.warning_types import ConvergenceWarning, PriorWarning

from zoo._version import __version__ as __version__

__all__ = [
    "ConvergenceWarning",
    "EpsilonInsensitive",
    "Fit",
    "Gaussian",
    "HierarchicalLinear",
    "Hinge",
    "IndependentTasks",
    "KernelLocalSmoothing",
    "LaplaceNoise",
    "Likelihood",
    "Logistic",
    "MaxMargin",
    "ModelFactory",
    "MultiLaplaceGP",
    "MultiTaskData",
    "MultiTaskKernelMachine",
    "MultinomialLogit",
    "NIWGaussianProcess",
    "NIWLinear",
    "NegativeBinomial",
    "NonisotropicVaryingCoefficients",
    "NonparametricMaxMargin",
    "NormalisedHinge",
    "Ordinal",
    "Poisson",
    "PooledGP",
    "PooledTasks",
    "PriorWarning",
    "Probit",
    "Selection",
    "StudentT",
    "VaryingCoefficientGP",
    "VaryingComponent",
    "ZeroInflatedNegativeBinomial",
    "ZeroInflatedPoisson",
    "augmented_step",
    "datasets",
    "diagnostics",
    "distributions",
    "draw_marginalised",
    "gp",
    "kernels",
    "likelihoods",
    "list_models",
    "load",
    "marginalise",
    "ops",
    "plots",
    "sample",
    "select",
    "testing",
]

# Where each public name lives. Imported at first use, so that the command line answers before PyMC is loaded.
_HOMES = {
    "ConvergenceWarning": "zoo.support.warning_types",
    "PriorWarning": "zoo.support.warning_types",
    "EpsilonInsensitive": "zoo.likelihoods.epsilon_insensitive",
    "Fit": "zoo.core.fit",
    "Gaussian": "zoo.likelihoods.gaussian",
    "Hinge": "zoo.likelihoods.hinge",
    "IndependentTasks": "zoo.models.baselines",
    "KernelLocalSmoothing": "zoo.models.local_smoothing.model",
    "LaplaceNoise": "zoo.likelihoods.laplace_noise",
    "Likelihood": "zoo.likelihoods.base",
    "Logistic": "zoo.likelihoods.logistic",
    "MaxMargin": "zoo.models.max_margin.matrix_normal",
    "ModelFactory": "zoo.core.factory",
    "MultiLaplaceGP": "zoo.models.multi_laplace.model",
    "MultiTaskData": "zoo.data.multitask",
    "MultiTaskKernelMachine": "zoo.models.kernel_machine.model",
    "NIWGaussianProcess": "zoo.models.niw.gaussian_process",
    "HierarchicalLinear": "zoo.models.niw.hierarchical",
    "NIWLinear": "zoo.models.niw.linear",
    "MultinomialLogit": "zoo.likelihoods.multinomial_logit",
    "NegativeBinomial": "zoo.likelihoods.negative_binomial",
    "NonisotropicVaryingCoefficients": "zoo.models.varying_coefficient.baselines",
    "NonparametricMaxMargin": "zoo.models.max_margin.indian_buffet",
    "NormalisedHinge": "zoo.likelihoods.hinge",
    "Ordinal": "zoo.likelihoods.ordinal",
    "Poisson": "zoo.likelihoods.poisson",
    "PooledGP": "zoo.models.varying_coefficient.baselines",
    "PooledTasks": "zoo.models.baselines",
    "Probit": "zoo.likelihoods.probit",
    "Selection": "zoo.selection",
    "StudentT": "zoo.likelihoods.student_t",
    "VaryingCoefficientGP": "zoo.models.varying_coefficient.model",
    "VaryingComponent": "zoo.models.varying_coefficient.component",
    "ZeroInflatedNegativeBinomial": "zoo.likelihoods.zero_inflated_negative_binomial",
    "ZeroInflatedPoisson": "zoo.likelihoods.zero_inflated_poisson",
    "list_models": "zoo.registry",
    "load": "zoo.registry",
    "select": "zoo.selection",
    "augmented_step": "zoo.steps.gibbs",
    "draw_marginalised": "zoo.steps.marginal",
    "marginalise": "zoo.steps.marginal",
    "sample": "zoo.steps.run",
}

# Rooms that need an optional package, so that `from zoo import *` leaves them alone.
_OPTIONAL = ("sklearn",)


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__ or name in _OPTIONAL:
        return import_module(f"zoo.{name}")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, *_OPTIONAL, "__version__"])
