"""The input at which tasks differ least, and what the prior of a population says of it."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.inference.gibbs.task_sums import task_sums
from zoo.models.niw.least_spread import input_of_least_spread


def lines(meet: float, groups: int = 200, noise: float = 0.3, seed: int = 1) -> pd.DataFrame:
    """Lines of groups through nearly one point at the time ``meet``, 10 rows each."""
    rng = np.random.default_rng(seed)
    g, t = np.repeat(np.arange(groups), 10), np.tile(np.arange(10.0), groups)
    level, slope = 5.0 + 0.1 * rng.normal(size=groups), 2.0 + rng.normal(size=groups)
    y = level[g] + slope[g] * (t - meet) + noise * rng.normal(size=len(g))
    return pd.DataFrame({"y": y, "t": t, "g": [f"g{i}" for i in g]})


@pytest.mark.parametrize("meet", [0.0, 3.0, 9.0])
@pytest.mark.parametrize(("unit", "origin"), [(1.0, 0.0), (1e3, -400.0)])
def test_lines_that_meet_are_found_in_any_unit(meet, unit, origin):
    table = lines(meet)
    data = zoo.MultiTaskData.from_formula("y ~ t + (t | g)", table.assign(t=unit * table["t"] + origin))
    prepared = zoo.HierarchicalLinear().design(data)
    at = prepared.units.x_mean[list(prepared.feature_names).index("t")]
    assert abs((at - origin) / unit - meet) < 1e-9


def test_noise_moves_the_choice_between_neighbours():
    """Of 300 small tables nearly all are given an input beside that of the truth. The alarm is far below 1e-6."""
    rng = np.random.default_rng(2)
    T, n = 12, 5
    X = np.column_stack([np.ones(n), np.linspace(-1.0, 1.0, n)])
    row, task = np.tile(np.arange(n), T), np.repeat(np.arange(T), n)
    root = np.array([[1.0, 0.0], [-0.9, 0.3]])
    chosen = []
    for _ in range(300):
        w = rng.normal(size=(T, 2)) @ root.T
        y = np.sum(X[row] * w[task], axis=1) + 0.2 * rng.normal(size=T * n)
        chosen.append(input_of_least_spread(X, task_sums(X, row, y, task, T)))
    # x'Cx is 1.00, 0.33 and 0.10 at 0, 1/2 and 1.
    assert np.mean(np.array(chosen) >= 3) > 0.95


def test_few_tasks_and_other_responses_leave_the_mean():
    table = lines(0.0, groups=2)
    data = zoo.MultiTaskData.from_formula("y ~ t + (t | g)", table)
    assert zoo.HierarchicalLinear().design(data).units.x_mean.max() == table["t"].mean()
    labels = zoo.MultiTaskData.from_formula(
        "y ~ t + (t | g)", lines(0.0).assign(y=lambda d: 1.0 * (d["y"] > 5))
    )
    units = zoo.HierarchicalLinear(likelihood="logistic").design(labels).units
    assert units.x_mean.max() == table["t"].mean()


def test_a_level_that_does_not_differ_is_found():
    """Sd of levels at t = 0 is 0 in truth: its posterior mean is below a quarter of the residual's."""
    rng = np.random.default_rng(1)
    g, t = np.repeat(np.arange(46), 12), np.tile(np.arange(12.0), 46)
    y = 15.0 + (7.0 + 0.6 * rng.normal(size=46))[g] * t + 2.5 * rng.normal(size=len(g))
    table = pd.DataFrame({"y": y, "t": t, "g": [f"g{i}" for i in g]})
    data = zoo.MultiTaskData.from_formula("y ~ t + (t | g)", table)
    fit = zoo.HierarchicalLinear().fit(data, draws=500, tune=300, chains=2, random_seed=1, progress=False)
    cov = fit.posterior["feature_cov"].sel(feature="Intercept", feature_bis="Intercept")
    assert float(np.sqrt(cov).mean()) < 0.63
