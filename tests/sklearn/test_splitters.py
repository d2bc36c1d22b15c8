"""Splitters for data of many tasks."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.dummy import DummyRegressor
from sklearn.model_selection import cross_val_predict

from zoo.sklearn import RowsWithinTasks, WholeTasks

tasks_of_rows = st.lists(st.integers(0, 6), min_size=12, max_size=60)


@settings(max_examples=60, deadline=None)
@given(tasks_of_rows, st.integers(2, 5), st.integers(0, 99))
def test_rows_within_tasks_keep_every_task_in_training(tasks, n, seed):
    task = np.array(tasks)
    X = np.zeros((len(task), 1))
    n_rows = np.bincount(task)
    if n_rows[n_rows > 1].sum() < n:
        return
    held_out = np.zeros(len(task), dtype=int)
    sizes = []
    for train, test in RowsWithinTasks(n, random_state=seed).split(X, groups=task):
        assert set(task[train]) == set(task)
        assert len(np.intersect1d(train, test)) == 0 and len(train) + len(test) == len(task)
        held_out[test] += 1
        sizes.append(len(test))
    np.testing.assert_array_equal(held_out, n_rows[task] > 1)
    assert max(sizes) - min(sizes) <= 1


@settings(max_examples=60, deadline=None)
@given(tasks_of_rows, st.integers(2, 5), st.integers(0, 99))
def test_whole_tasks_are_on_one_side(tasks, n, seed):
    task = np.array(tasks)
    if len(set(tasks)) < n:
        return
    held_out = np.zeros(len(task), dtype=int)
    for train, test in WholeTasks(n, random_state=seed).split(np.zeros((len(task), 1)), groups=task):
        assert set(task[train]).isdisjoint(task[test])
        assert len(train) and len(test)
        held_out[test] += 1
    np.testing.assert_array_equal(held_out, 1)


@pytest.mark.parametrize("kind", [RowsWithinTasks, WholeTasks])
def test_the_task_is_a_column_or_the_groups(kind):
    task = np.repeat(["u", "v", "w"], [4, 3, 5])
    table = pd.DataFrame({"x": np.arange(12.0), "school": task})
    expected = [test for _, test in kind(3, random_state=1).split(table, groups=task)]
    for X, key in ((table, "school"), (pl.from_pandas(table), "school"), (table.to_numpy(), 1), (table, -1)):
        found = [test for _, test in kind(3, task=key, random_state=1).split(X)]
        assert all(np.array_equal(a, b) for a, b in zip(found, expected, strict=True))
    assert kind(3).get_n_splits() == 3
    assert repr(kind(3, task="school")) == f"{kind.__name__}(n_splits=3, task='school', random_state=None)"


def test_the_deal_depends_on_the_seed():
    task = np.repeat(np.arange(8), 3)
    for kind in (RowsWithinTasks, WholeTasks):
        deals = {
            tuple(next(kind(4, random_state=s).split(np.zeros((24, 1)), groups=task))[1]) for s in range(5)
        }
        assert len(deals) > 1
    # A number gives the same folds again.
    cv = WholeTasks(4, random_state=3)
    first, again = (list(cv.split(np.zeros((24, 1)), groups=task)) for _ in range(2))
    assert all(np.array_equal(a[1], b[1]) for a, b in zip(first, again, strict=True))


def test_whole_tasks_even_out_the_folds():
    task = np.repeat(np.arange(6), [10, 1, 1, 1, 4, 3])
    sizes = [len(test) for _, test in WholeTasks(2, random_state=0).split(np.zeros((20, 1)), groups=task)]
    assert sorted(sizes) == [10, 10]


def test_scikit_learn_predicts_held_out_rows_with_them():
    task = np.repeat(np.arange(6), 3)
    y = task.astype(float)
    predicted = cross_val_predict(
        DummyRegressor(), np.zeros((18, 1)), y, groups=task, cv=WholeTasks(6, random_state=0)
    )
    np.testing.assert_allclose(predicted, (y.sum() - 3 * y) / 15)


def test_what_is_wrong_is_said():
    task = np.repeat(np.arange(3), 2)
    X = np.zeros((6, 1))
    with pytest.raises(ValueError, match=r"needs the task of each row and has none: make it with task="):
        next(WholeTasks(2).split(X))
    with pytest.raises(ValueError, match=r"needs the task of each row once, and has it twice"):
        next(WholeTasks(2, task=0).split(X, groups=task))
    with pytest.raises(ValueError, match="n_splits is 4, but there are only 3 tasks to hold out"):
        next(WholeTasks(4).split(X, groups=task))
    with pytest.raises(ValueError, match="n_splits is 2, but only 0 rows can be held out"):
        next(RowsWithinTasks(2).split(X[:3], groups=np.arange(3)))
    with pytest.raises(ValueError, match="the task is missing in row 1"):
        next(RowsWithinTasks(2).split(X[:3], groups=[1.0, np.nan, 1.0]))
    with pytest.raises(ValueError, match="n_splits"):
        next(RowsWithinTasks(1).split(X, groups=task))
