"""Rows to predict need no intercept: the data remember which feature add_intercept made."""

import warnings

import numpy as np
import pandas as pd
import polars as pl
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
    with pytest.raises(ValueError, match="X has 1 column, but the fit has 3 features"):
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


# ---------------------------------------------------------------- moments and durations as tasks


DAYS = pd.Timestamp("2020-01-01") + pd.to_timedelta(np.arange(30) % 3, "D")
HOURS = pd.Timestamp("2020-01-01") + pd.to_timedelta(12 * (np.arange(30) % 3), "h")


@pytest.mark.parametrize(
    "task",
    [DAYS, HOURS, HOURS - HOURS[0], pd.Categorical(DAYS), DAYS.tz_localize("UTC"), DAYS.date],
    ids=["days", "hours", "durations", "categories", "time zone", "dates"],
)
def test_moments_name_tasks_alike_in_fits_and_predictions(task):
    table = FRAME.assign(task=task)
    data = zoo.MultiTaskData.from_frame(table, y="y", task="task").add_intercept()
    fit = zoo.IndependentTasks().fit(data, draws=20, chains=1, random_seed=1, progress=False)
    wanted = fit.predict(data)["mean"].to_numpy()
    inputs = table[["x", "z"]]
    for X, given in (
        (table, None),
        (inputs, table["task"]),
        (inputs, table["task"].to_numpy()),
        (inputs, list(table["task"])),
        (inputs, table["task"].to_numpy(dtype=object)),
        (pl.from_pandas(table), None),
    ):
        np.testing.assert_allclose(fit.predict(X, given)["mean"], wanted, rtol=1e-12)
    # Of the first task alone every hour is 0: its name is the one that it has among others.
    first = table[table["task"] == table["task"][0]]
    np.testing.assert_allclose(fit.predict(first)["mean"], wanted[::3], rtol=1e-12)
    alone = zoo.MultiTaskData.from_frame(first, y="y", task="task")
    assert alone.task_names == data.task_names[:1]
    arrays = zoo.MultiTaskData.from_arrays(inputs, FRAME["y"], table["task"].to_numpy())
    assert arrays.task_names == data.task_names


def test_levels_of_further_groups_that_are_days(tmp_path):
    table = FRAME.assign(day=DAYS, person=np.repeat(["p", "q", "r"], 10))
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 | person) + (1 | day)", table)
    fit = zoo.NIWLinear().fit(data, draws=400, chains=2, random_seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    found = zoo.load(tmp_path / "fit.nc").predict(table[DAYS == DAYS[0]])["mean"]
    np.testing.assert_allclose(found, fit.predict(table)["mean"].to_numpy()[::3], rtol=1e-12)


def test_a_task_that_is_given_beside_another_in_the_table_is_warned_of():
    rng = np.random.default_rng(0)
    frame = pd.DataFrame({"x": rng.standard_normal(40), "who": np.repeat(["a", "b"], 20)})
    frame["y"] = frame.x + rng.standard_normal(40)
    data = zoo.MultiTaskData.from_frame(frame, "y", "who")
    fit = zoo.IndependentTasks().fit(data, draws=20, chains=2, random_seed=1, progress=False)
    with pytest.warns(UserWarning, match=r"'who' of X names other tasks: in row 2 'b' and not 'a'"):
        asked = fit.predict(frame.iloc[[0, 1, 20]], task=["a", "a", "a"], random_seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        fit.predict(frame.iloc[:3], task=["a", "a", "a"])
        fit.predict(frame.iloc[[0, 20]], task="a")  # one name for all rows: what if they were of that task?
        fit.predict(frame.iloc[[0, 20]], task="c", new_task=True)
        fit.predict(frame.assign(who=np.nan), task=["b"] * 40)
    np.testing.assert_array_equal(asked["mean"], fit.predict(frame[["x"]].iloc[[0, 1, 20]], task="a")["mean"])
