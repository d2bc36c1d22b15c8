"""Bayesian multi-task learning for people who think in PyMC."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from zoo import datasets, diagnostics, distributions, kernels, likelihoods, ops, plots, testing
    from zoo.data import MultiTaskData
    from zoo.factory import ModelFactory
    from zoo.fit import Fit
    from zoo.likelihoods import (
        EpsilonInsensitive,
        Gaussian,
        Hinge,
        LaplaceNoise,
        Likelihood,
        Logistic,
        NegativeBinomial,
        NormalisedHinge,
        Poisson,
        Probit,
        StudentT,
        ZeroInflatedNegativeBinomial,
        ZeroInflatedPoisson,
    )
    from zoo.models.baselines import IndependentTasks, PooledTasks
    from zoo.models.local_smoothing import KernelLocalSmoothing
    from zoo.models.max_margin import MaxMargin
    from zoo.models.multi_laplace import MultiLaplaceGP
    from zoo.models.multitask_kernel import MultiTaskKernelMachine
    from zoo.models.niw import NIWLinear
    from zoo.models.niw_gp import NIWGaussianProcess
    from zoo.models.nonparametric_max_margin import NonparametricMaxMargin
    from zoo.models.varying_baselines import NonisotropicVaryingCoefficients, PooledGP
    from zoo.models.varying_coefficient import VaryingCoefficientGP
    from zoo.models.varying_component import VaryingComponent
    from zoo.registry import list_models
    from zoo.selection import Selection, select
    from zoo.steps import augmented_step, draw_marginalised, marginalise, sample
    from zoo.storage import load
    from zoo.warning_types import ConvergenceWarning

__version__ = "0.1.0"

__all__ = [
    "ConvergenceWarning",
    "EpsilonInsensitive",
    "Fit",
    "Gaussian",
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
    "NIWGaussianProcess",
    "NIWLinear",
    "NegativeBinomial",
    "NonisotropicVaryingCoefficients",
    "NonparametricMaxMargin",
    "NormalisedHinge",
    "Poisson",
    "PooledGP",
    "PooledTasks",
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
    "ConvergenceWarning": "zoo.warning_types",
    "EpsilonInsensitive": "zoo.likelihoods.epsilon_insensitive",
    "Fit": "zoo.fit",
    "Gaussian": "zoo.likelihoods.gaussian",
    "Hinge": "zoo.likelihoods.hinge",
    "IndependentTasks": "zoo.models.baselines",
    "KernelLocalSmoothing": "zoo.models.local_smoothing",
    "LaplaceNoise": "zoo.likelihoods.laplace_noise",
    "Likelihood": "zoo.likelihoods.base",
    "Logistic": "zoo.likelihoods.logistic",
    "MaxMargin": "zoo.models.max_margin",
    "ModelFactory": "zoo.factory",
    "MultiLaplaceGP": "zoo.models.multi_laplace",
    "MultiTaskData": "zoo.data",
    "MultiTaskKernelMachine": "zoo.models.multitask_kernel",
    "NIWGaussianProcess": "zoo.models.niw_gp",
    "NIWLinear": "zoo.models.niw",
    "NegativeBinomial": "zoo.likelihoods.negative_binomial",
    "NonisotropicVaryingCoefficients": "zoo.models.varying_baselines",
    "NonparametricMaxMargin": "zoo.models.nonparametric_max_margin",
    "NormalisedHinge": "zoo.likelihoods.hinge",
    "Poisson": "zoo.likelihoods.poisson",
    "PooledGP": "zoo.models.varying_baselines",
    "PooledTasks": "zoo.models.baselines",
    "Probit": "zoo.likelihoods.probit",
    "Selection": "zoo.selection",
    "StudentT": "zoo.likelihoods.student_t",
    "VaryingCoefficientGP": "zoo.models.varying_coefficient",
    "VaryingComponent": "zoo.models.varying_component",
    "ZeroInflatedNegativeBinomial": "zoo.likelihoods.zero_inflated_negative_binomial",
    "ZeroInflatedPoisson": "zoo.likelihoods.zero_inflated_poisson",
    "augmented_step": "zoo.steps.gibbs",
    "draw_marginalised": "zoo.steps.marginal",
    "list_models": "zoo.registry",
    "load": "zoo.storage",
    "marginalise": "zoo.steps.marginal",
    "sample": "zoo.steps.run",
    "select": "zoo.selection",
}


def __getattr__(name: str) -> object:
    if name in _HOMES:
        return getattr(import_module(_HOMES[name]), name)
    if name in __all__:
        return import_module(f"zoo.{name}")
    raise AttributeError(f"module 'zoo' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
