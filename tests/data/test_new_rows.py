"""Rows to predict need no intercept: the data remember which feature add_intercept made."""

import numpy as np
import pandas as pd
import pytest

import zoo

rng = np.random.default_rng(0)
FRAME = pd.DataFrame({"x": rng.normal(size=30), "z": rng.normal(size=30), "task": ["a", "b", "c"] * 10})
FRAME["y"] = FRAME["x"] + 1.0
DATA = zoo.MultiTaskData.from_frame(FRAME, y="y", task="task").standardize().add_intercept()


@pytest.fixture(scope="module")
def fit():
    return zoo.IndependentTasks().fit(DATA, draws=20, chains=1, random_seed=1, progress=False)


def test_tables_arrays_and_data_without_it(fit, tmp_path):
    wanted = fit.predict(DATA)["mean"].to_numpy()
    raw = zoo.MultiTaskData.from_frame(FRAME, y="y", task="task")
    arrays = FRAME[["x", "z"]].to_numpy()
    for X, task in (
        (FRAME, None),
        (FRAME.assign(intercept=1.0), None),
        (raw, None),
        (arrays, FRAME["task"]),
        (np.column_stack([arrays, np.ones(30)]), FRAME["task"]),
    ):
        np.testing.assert_allclose(fit.predict(X, task)["mean"], wanted, rtol=1e-12)
    fit.save(tmp_path / "fit.nc")
    np.testing.assert_allclose(zoo.load(tmp_path / "fit.nc").predict(FRAME)["mean"], wanted, rtol=1e-12)


def test_an_intercept_alone():
    data = zoo.MultiTaskData.from_frame(FRAME, y="y", task="task", features=[]).add_intercept()
    fit = zoo.NIWLinear().fit(data, draws=300, chains=2, random_seed=1, progress=False)
    assert fit.predict(FRAME)["mean"].shape == (30,)


def test_other_columns_are_missed_by_name(fit):
    with pytest.raises(ValueError, match="X has no column 'z', a feature of the fitted data"):
        fit.predict(FRAME.drop(columns="z"))
    with pytest.raises(ValueError, match="X has 1 columns, but the fit has 3 features"):
        fit.predict(FRAME[["x"]].to_numpy(), FRAME["task"])


def test_a_constant_column_of_the_users_is_no_intercept():
    """A feature that happens to be 1 in all rows must be given at new rows too."""
    data = zoo.MultiTaskData.from_frame(FRAME.assign(treated=1.0), y="y", task="task")
    fit = zoo.IndependentTasks().fit(data, draws=20, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="X has no column 'treated'"):
        fit.predict(FRAME)


def test_new_tasks_and_more_rows():
    fit = zoo.NIWLinear().fit(DATA, draws=300, chains=2, random_seed=1, progress=False)
    new = zoo.MultiTaskData.from_frame(FRAME.assign(task="d"), y="y", task="task")
    assert fit.condition(new, random_seed=1).data.n_tasks == 4
    assert fit.predict(FRAME.assign(task="e"), new_task=True)["mean"].shape == (30,)
