"""The contract of a factory, over every registered one: a new model is tested without editing this file."""

from __future__ import annotations

import pytest

import zoo
from zoo.kernels import TaskTree
from zoo.registry import FACTORIES, get_factory
from zoo.testing import FactoryTestCase

_CASES = {name: get_factory(name)() for name in FACTORIES}
# Fields away from the defaults: the other kind of response, and given or fixed covariances.
_CASES |= {
    "MaxMarginRegression": zoo.MaxMargin(loss="epsilon_insensitive", epsilon=0.1),
    "MaxMarginIdentity": zoo.MaxMargin(feature_cov="identity", task_cov="identity"),
    "MaxMarginGivenFeatureCov": zoo.MaxMargin(
        feature_cov=[[2.0, 0.5, 0.0], [0.5, 1.0, 0.0], [0.0, 0.0, 1.0]]
    ),
    "NIWLinearStudentT": zoo.NIWLinear(response="student_t", noise="task", covariance_prior="lkj"),
    "NIWGaussianProcessLinear": zoo.NIWGaussianProcess(base_kernel="linear"),
    "IndependentTasksLogistic": zoo.IndependentTasks(response="logistic"),
    "PooledTasksLogistic": zoo.PooledTasks(response="logistic"),
    "VaryingCoefficientTree": zoo.VaryingCoefficientGP(
        task_kernel=TaskTree.from_parents(
            {"task 0": "a", "task 1": "a", "task 2": "b", "nobody": "b", "a": "all", "b": "all"}
        )
    ),
    "VaryingCoefficientLabels": zoo.VaryingCoefficientGP(response="bernoulli_logit"),
    "VaryingCoefficientCounts": zoo.VaryingCoefficientGP(response="poisson"),
    "VaryingCoefficientComponents": zoo.VaryingCoefficientGP(
        task_kernel=["matern32", zoo.VaryingComponent(columns="t0", features="intercept", n_basis=5)],
        amplitude="per_feature",
    ),
    "VaryingCoefficientSmooth": zoo.VaryingCoefficientGP(instance_kernel="matern52"),
}
# A minute of compiling each; VaryingCoefficientGP itself is among the default tests.
_SLOW = (
    "PooledGP",
    "NonisotropicVaryingCoefficients",
    "VaryingCoefficientTree",
    "VaryingCoefficientLabels",
    "VaryingCoefficientCounts",
    "VaryingCoefficientComponents",
    "VaryingCoefficientSmooth",
)

for _name, _factory in _CASES.items():
    _members: dict[str, object] = {"make_factory": lambda self, factory=_factory: factory}
    if _name in _SLOW:
        _members["pytestmark"] = [pytest.mark.statistical]
    globals()[f"Test{_name}"] = type(f"Test{_name}", (FactoryTestCase,), _members)
