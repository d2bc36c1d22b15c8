"""The contract of a factory, over every registered one: a new model is tested without editing this file."""

from __future__ import annotations

import unittest
from collections.abc import Callable

import pymc as pm
import pytest

import zoo
from zoo.kernels import TaskTree
from zoo.registry import factories, get_factory
from zoo.testing import FactoryTestCase

# Fields away from the defaults: the other kind of response, and given or fixed covariances.
_CASES = {
    "MaxMarginRegression": zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(epsilon=0.1)),
    "MaxMarginIdentity": zoo.MaxMargin(feature_cov="identity", task_cov="identity"),
    "MaxMarginGivenFeatureCov": zoo.MaxMargin(
        feature_cov=[[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    ),
    "NIWLinearOrdinal": zoo.NIWLinear(likelihood=zoo.Ordinal(grades=3)),
    "NIWLinearStudentT": zoo.NIWLinear(likelihood=zoo.StudentT(per_task=("noise",)), covariance_prior="lkj"),
    "NIWLinearHalfT": zoo.NIWLinear(covariance_prior="half_t", likelihood="logistic"),
    "NIWLinearLearnedPi": zoo.NIWLinear(pi="learned"),
    "NIWGaussianProcessLearnedPi": zoo.NIWGaussianProcess(pi="learned"),
    "NIWLinearShared": zoo.NIWLinear(shared=("x1",)),
    "MaxMarginShared": zoo.MaxMargin(shared=("x1",), shared_scale="learned"),
    "NIWGaussianProcessShared": zoo.NIWGaussianProcess(shared=("x1",)),
    "NIWGaussianProcessLinear": zoo.NIWGaussianProcess(base_kernel="linear"),
    "IndependentTasksLogistic": zoo.IndependentTasks(likelihood="logistic"),
    "PooledTasksLogistic": zoo.PooledTasks(likelihood="logistic"),
    "VaryingCoefficientTree": zoo.VaryingCoefficientGP(
        task_kernel=TaskTree.from_parents(
            {"task 0": "a", "task 1": "a", "task 2": "b", "nobody": "b", "a": "all", "b": "all"}
        )
    ),
    "VaryingCoefficientLabels": zoo.VaryingCoefficientGP(likelihood="logistic"),
    "VaryingCoefficientCounts": zoo.VaryingCoefficientGP(likelihood="poisson"),
    "VaryingCoefficientComponents": zoo.VaryingCoefficientGP(
        task_kernel=["matern32", zoo.VaryingComponent(columns="t0", features="intercept", n_basis=5)],
        amplitude="per_feature",
    ),
    "VaryingCoefficientSmooth": zoo.VaryingCoefficientGP(instance_kernel="matern52"),
}
# A minute of compiling each; VaryingCoefficientGP itself is among the default tests.
_SCHEDULED = (
    "VaryingCoefficientLabels",
    "NonisotropicVaryingCoefficients",
    "PooledGP",
    "VaryingCoefficientTree",
    "VaryingCoefficientCounts",
    "VaryingCoefficientComponents",
    "VaryingCoefficientSmooth",
)

# What takes longest, for one model of each kind with every change, and for the others in the scheduled run.
_LONG = ("test_every_method_gives_the_same_variables", "test_every_likelihood_counts", "test_keep")
_LONG_DAILY = (
    "IndependentTasks",
    "KernelLocalSmoothing",
    "MaxMargin",
    "MultiLaplaceGP",
    "MultiTaskKernelMachine",
    "NIWGaussianProcess",
    "NIWLinear",
    "NIWLinearHalfT",
    "NonparametricMaxMargin",
    "VaryingCoefficientGP",
)


def _scheduled(name: str) -> Callable[[FactoryTestCase], None]:
    """The inherited test of this name, for the scheduled run."""

    def test(self: FactoryTestCase) -> None:
        getattr(FactoryTestCase, name)(self)

    return pytest.mark.scheduled(test)


# Every registered factory, those of installed packages too: a broken one fails here and not for all.
_MAKERS = {name: lambda self, name=name: get_factory(name)() for name in factories()}
_MAKERS |= {name: lambda self, factory=factory: factory for name, factory in _CASES.items()}

for _name, _maker in _MAKERS.items():
    _members: dict[str, object] = {"make_factory": _maker}
    if _name == "KernelLocalSmoothing":  # folds of rows choose what is not given
        _given = zoo.KernelLocalSmoothing(bandwidth=0.8, ridge=1.0, likelihood=zoo.Gaussian(noise=0.5))
        _members["make_weighted_factory"] = lambda self, factory=_given: factory
    if _name in _SCHEDULED:
        _members["pytestmark"] = [pytest.mark.statistical, pytest.mark.scheduled]
    elif _name not in _LONG_DAILY:
        _members |= {name: _scheduled(name) for name in _LONG}
    globals()[f"Test{_name}"] = type(f"Test{_name}", (FactoryTestCase,), _members)


class TestWeightsAreTested:
    """The inherited test finds weights that a model of the user's reads otherwise, and skips where they are refused."""

    class _Case(FactoryTestCase):
        def __init__(self, factory: zoo.ModelFactory) -> None:
            self.factory = factory

        def make_factory(self) -> zoo.ModelFactory:
            return self.factory

    def test_a_wrong_weight_is_found(self) -> None:
        class Roots(zoo.PooledTasks):
            def observe(self, data, f):
                parameters = {name: data.per_row(v) for name, v in self.add_parameters(data).items()}
                weight = {} if data.weight is None else {"weight": data.weight**0.5}
                return self.likelihood.term(f, data.y, **parameters, **weight)

        with pytest.raises(AssertionError, match="log density with weights"):
            self._Case(Roots()).test_a_weight_is_a_number_of_rows()

    def test_refused_weights_are_skipped(self) -> None:
        class Without(zoo.PooledTasks):
            def observe(self, data, f):
                return pm.Normal("y", f, pm.modelcontext(None)["noise"], observed=data.y, dims="obs")

        with pytest.raises(unittest.SkipTest, match="Without refuses weights: weight is given"):
            self._Case(Without()).test_a_weight_is_a_number_of_rows()
