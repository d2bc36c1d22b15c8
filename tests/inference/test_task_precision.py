"""Tasks without a covariance: nothing of T x T is held, and the draws are those of an identity matrix that is."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo

RUN = {"draws": 25, "tune": 10, "chains": 2, "random_seed": 3, "progress": False, "method": "gibbs"}
T = 7


def _data(labels, shared=False, wide=False):
    rng = np.random.default_rng(1)
    task = np.repeat(np.arange(T), 6)
    X = rng.standard_normal((len(task), 60 if wide else 3))
    X[:, 0] = 1.0
    y = X[:, :3].sum(axis=1) + rng.standard_normal(len(task))
    y = (y - y.mean()) / y.std()  # a matrix is in units of y, and a word in those of the data
    if labels:
        y = np.where(y == np.repeat(y.reshape(T, -1).max(axis=1), 6), 1.0, -1.0)
    if shared:
        frame = pd.DataFrame({"a": X[:, 1], "b": X[:, 2], "task": task.astype(str), "y": y})
        return zoo.MultiTaskData.from_formula("y ~ a + b + (1 + a | task)", frame)
    return zoo.MultiTaskData.from_arrays(X, y, task)


CASES = {
    "hinge": {"likelihood": "hinge"},
    "tube": {"likelihood": "epsilon_insensitive"},
    "tube by task": {"likelihood": zoo.EpsilonInsensitive(per_task=("C",)), "feature_cov": "identity"},
    "both given": {"likelihood": "epsilon_insensitive", "feature_cov": "identity"},
    "logistic, rare": {"likelihood": "logistic"},
    "gaussian": {"likelihood": "gaussian"},
    "hinge, shared": {"likelihood": "hinge", "shared_": True},
    "logistic, shared": {"likelihood": "logistic", "shared_": True},
    "wide": {"likelihood": "hinge", "feature_cov": "identity", "wide_": True},
}


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore:no feature is constant")
@pytest.mark.parametrize("case", CASES)
def test_draws_are_those_of_an_identity_matrix(case):
    fields = dict(CASES[case])
    shared, wide = fields.pop("shared_", False), fields.pop("wide_", False)
    try:
        word, matrix = (zoo.MaxMargin(task_cov=cov, **fields) for cov in ("identity", np.eye(T)))
    except (TypeError, ValueError) as error:
        pytest.skip(str(error))
    data = _data(word.likelihood.labels, shared, wide)
    one, other = (factory.fit(data, **RUN) for factory in (word, matrix))
    for name, values in other.posterior.items():
        np.testing.assert_allclose(one.posterior[name], values, rtol=1e-4, atol=1e-6, err_msg=str(name))
    kernel = word.gibbs_kernel(word.design(data), word.validate(data))
    assert kernel.initialise(np.random.default_rng(0))["P"].shape == (0, 0)


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_the_step_for_pymc_takes_tasks_without_a_covariance():
    factory = zoo.MaxMargin(task_cov="identity")
    data = _data(labels=True)
    assert np.isfinite(
        factory.fit(
            data, "nuts", draws=10, tune=10, chains=1, random_seed=1, progress=False, block="gibbs"
        ).posterior["coefficients"]
    ).all()
