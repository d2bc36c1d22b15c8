"""Columns of very many levels in a sparse matrix: the same data as with dense columns, whatever else they hold."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix

import zoo
from zoo.data.further_groups import beside_levels, changed_columns, dense_columns, side_by_side

pytest.importorskip("formulae")
N = 120


@pytest.fixture(scope="module")
def frame():
    """Rows in no order, whose labels are none of their positions; levels are numbers."""
    rng = np.random.default_rng(0)
    table = pd.DataFrame(
        {
            "person": rng.integers(0, 8, N),
            "item": rng.integers(0, 9, N).astype(float),
            "x": rng.normal(size=N),
            "weight": rng.uniform(0.5, 2.0, N),
            "place": rng.uniform(size=N),
        },
        index=rng.permutation(N) + 100,
    )
    table["y"] = table["x"] + rng.normal(size=N)
    table["grade"] = pd.Categorical.from_codes(np.digitize(table["y"], [-1, 0, 1]), [*"abcd"], ordered=True)
    table["label"] = np.where(table["y"] > 0.0, "yes", "no")
    return table


@pytest.mark.parametrize(
    ("formula", "options"),
    [
        ("y ~ x + (1 | person) + (1 | item)", {"weight": "weight", "t": "place"}),
        ("y ~ 0 + x + (0 + x | person) + (0 + x | item)", {}),
        ("grade ~ x + (1 + x | person) + (1 | item)", {}),
        ("label['yes'] ~ x + (1 | person) + (1 | item)", {"t": ["place", "x"]}),
        ("y ~ x + (1 | person) + (1 | item)", {"missing": "drop"}),
    ],
)
@pytest.mark.filterwarnings("ignore::UserWarning")  # of rows left out, and of means that lme4 would not have
def test_the_data_are_those_of_dense_columns(frame, formula, options, monkeypatch):
    if "missing" in options:
        frame = frame.copy()
        frame.loc[frame.index[3:9], "item"] = np.nan
    dense = zoo.MultiTaskData.from_formula(formula, frame, **options)
    monkeypatch.setattr("zoo.data.formula.MOST_DENSE", 0)
    sparse = zoo.MultiTaskData.from_formula(formula, frame, **options)
    assert sparse.is_sparse and not dense.is_sparse
    for name in (
        "feature_names",
        "shared_names",
        "effects",
        "task_names",
        "task_column",
        "grades",
        "t_names",
    ):
        assert getattr(sparse, name) == getattr(dense, name), name
    for name in ("y", "task", "weight", "t", "row"):
        np.testing.assert_array_equal(getattr(sparse, name), getattr(dense, name), err_msg=name)
    np.testing.assert_array_equal(sparse.X.toarray(), dense.X)
    np.testing.assert_allclose(sparse.standardize().X.toarray(), dense.standardize().X, atol=1e-12)
    np.testing.assert_array_equal(sparse.constant_features, dense.constant_features)
    rows = sparse.like(frame.dropna().head(7))
    np.testing.assert_array_equal(rows.X.toarray(), dense.X[:7])


def test_columns_keep_their_names_in_any_order():
    table, levels = pd.DataFrame({"a": [1.0, 2.0], "b": [3.0, 4.0]}), csr_matrix([[5.0, 0.0], [0.0, 6.0]])
    found = beside_levels(table, levels, ["u", "v"], ["v", "b", "u", "a"])
    np.testing.assert_array_equal(found.toarray(), [[0.0, 3.0, 5.0, 1.0], [6.0, 4.0, 0.0, 2.0]])
    with pytest.raises(KeyError, match="w"):
        beside_levels(table, levels, ["u", "v"], ["w", "b", "u", "a"])


def test_columns_are_changed_in_their_place():
    X = csr_matrix(np.arange(12.0).reshape(3, 4))
    wanted = X.toarray()
    wanted[:, [2, 0]] = [[7.0, 8.0], [0.0, 9.0], [1.0, 0.0]]
    found = changed_columns(X, np.array([2, 0]), wanted[:, [2, 0]])
    np.testing.assert_array_equal(found.toarray(), wanted)
    np.testing.assert_array_equal(dense_columns(found, [3, 1]), wanted[:, [3, 1]])
    first = side_by_side(np.array([[0.0], [5.0], [6.0]]), found)
    np.testing.assert_array_equal(first.toarray(), np.column_stack([[0.0, 5.0, 6.0], wanted]))


def test_models_without_room_for_them_say_so(frame, monkeypatch):
    monkeypatch.setattr("zoo.data.formula.MOST_DENSE", 0)
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 | person) + (1 | item)", frame).standardize()
    with pytest.raises(
        ValueError, match="the data have 9 levels of further groups in a sparse matrix, and PooledTasks"
    ):
        zoo.PooledTasks().fit(data)
    with pytest.raises(ValueError, match=r"'1\|item\[3.0\]' and 5 more\), and IndependentTasks has no such"):
        zoo.IndependentTasks().fit(data)
    monkeypatch.setattr("zoo.support.memory.available_memory", lambda: 1000, raising=True)
    with pytest.raises(MemoryError, match=r"levels of further groups.*NIWLinear"):
        zoo.MaxMargin(likelihood="epsilon_insensitive").set_apart(data)
