"""Models whose priors have no units of the data say where the data are far from 1."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import zoo


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(1)
    X = rng.normal(size=(30, 2))
    y = X[:, 0] + rng.normal(size=30)
    return zoo.MultiTaskData.from_arrays(X, y / y.std(), np.arange(30) % 3)


@pytest.mark.parametrize("model", [zoo.NIWGaussianProcess(), zoo.MultiLaplaceGP()])
@pytest.mark.parametrize("unit", [1e3, 1e-3])
def test_responses_in_large_and_in_small_units(data, model, unit):
    model.validate(data)
    with pytest.warns(UserWarning, match=r"standard deviation .* priors expect values near 1.*standardize"):
        model.validate(replace(data, y=unit * data.y))


def test_features_of_unequal_size(data):
    rows = replace(data, t=np.linspace(0.0, 1.0, 30)[:, None], t_names=("t",), task=np.zeros(30, dtype=int))
    rows = replace(rows, task_names=("0",))
    zoo.KernelLocalSmoothing().validate(rows)
    with pytest.warns(UserWarning, match=r"'x1' is .* times as large as 'x0'.*one penalty.*standardize"):
        zoo.KernelLocalSmoothing().validate(replace(rows, inputs=rows.inputs * np.array([1.0, 1e4])))
