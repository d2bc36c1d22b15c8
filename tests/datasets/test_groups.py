"""Simulated tasks in groups."""

import numpy as np
import pytest

from zoo.datasets import simulate_groups


def test_tasks_of_a_group_are_alike_and_named_by_its_letter():
    data, truth = simulate_groups(n_groups=2, tasks_per_group=50, n_features=4, spread=0.3, random_seed=1)
    assert data.task_names[:2] == ("A1", "A2") and data.task_names[50] == "B1"
    assert data.n_rows == 100 * 12 and data.feature_names == ("x1", "x2", "x3", "x4")
    coefficients = truth["coefficients"].transpose("task", "feature").to_numpy()
    assert coefficients[:50].std(axis=0).mean() == pytest.approx(0.3, rel=0.15)
    f = np.sum(data.X * coefficients[data.task], axis=1)
    assert np.std(data.y - f) == pytest.approx(1.0, rel=0.1)


def test_same_seed_same_data():
    one, two = (simulate_groups(random_seed=3)[0] for _ in range(2))
    np.testing.assert_array_equal(one.y, two.y)


@pytest.mark.parametrize(
    "wrong", [{"n_groups": 0}, {"n_groups": 27}, {"n_per_task": 0}, {"spread": -1.0}, {"noise": 0.0}]
)
def test_wrong_arguments_are_named(wrong):
    with pytest.raises(ValueError, match=next(iter(wrong))):
        simulate_groups(**wrong)
