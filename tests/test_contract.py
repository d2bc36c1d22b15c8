"""The contract of a factory, over every registered one: a new model is tested without editing this file."""

from __future__ import annotations

import zoo
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
}

for _name, _factory in _CASES.items():
    globals()[f"Test{_name}"] = type(
        f"Test{_name}", (FactoryTestCase,), {"make_factory": lambda self, factory=_factory: factory}
    )
