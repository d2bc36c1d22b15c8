"""MultiTaskData: what goes in, what comes out, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr

from zoo import MultiTaskData

RNG = np.random.default_rng(0)
X = RNG.standard_normal((6, 2))
Y = np.arange(6.0)
TASK = ["b", "a", "b", "a", "c", "c"]


def test_from_arrays_sorts_names_and_keeps_rows():
    data = MultiTaskData.from_arrays(X, Y, TASK)
    assert data.task_names == ("a", "b", "c")
    assert data.task.tolist() == [1, 0, 1, 0, 2, 2]
    assert data.feature_names == ("x0", "x1")
    assert np.array_equal(data.X, X)
    assert not data.shares_inputs
    assert data.task_sizes.to_dict() == {"a": 2, "b": 2, "c": 2}


def test_from_arrays_leaves_the_input_alone():
    source = X.copy()
    data = MultiTaskData.from_arrays(source, Y, TASK)
    source[:] = 0
    assert np.array_equal(data.X, X)


@pytest.mark.parametrize("dtype", [np.float32, np.int64, bool])
def test_numbers_of_every_kind_become_float64(dtype):
    data = MultiTaskData.from_arrays(np.asfortranarray(X.astype(dtype)), Y.astype(dtype), TASK)
    assert data.X.dtype == np.float64
    assert data.y.dtype == np.float64


def test_from_frame_reads_columns_by_name():
    frame = pd.DataFrame({"school": TASK, "score": Y, "hours": X[:, 0], "age": X[:, 1]}, index=list("uvwxyz"))
    data = MultiTaskData.from_frame(frame, y="score", task="school")
    assert data.feature_names == ("hours", "age")
    assert data.task_names == ("a", "b", "c")
    assert np.array_equal(data.y, Y)
    chosen = MultiTaskData.from_frame(frame, y="score", task="school", features=["age"])
    assert chosen.feature_names == ("age",)


def test_from_frame_keeps_category_order_and_sorts_numbers_as_numbers():
    frame = pd.DataFrame({"task": pd.Categorical(TASK, ["c", "b", "a", "unused"]), "y": Y, "x": Y})
    assert MultiTaskData.from_frame(frame, y="y", task="task").task_names == ("c", "b", "a")
    frame["task"] = [10, 9, 10, 9, 100, 100]
    assert MultiTaskData.from_frame(frame, y="y", task="task").task_names == ("9", "10", "100")
    frame["task"] = [1, "a", 1, "a", "b", "b"]
    assert MultiTaskData.from_frame(frame, y="y", task="task").task_names == ("1", "a", "b")


def test_from_frame_takes_a_continuous_task_variable():
    frame = pd.DataFrame({"y": Y, "x": X[:, 0], "long": X[:, 0], "lat": X[:, 1]})
    data = MultiTaskData.from_frame(frame, y="y", t=["long", "lat"])
    assert data.t.shape == (6, 2)
    assert data.feature_names == ("x",)
    assert data.n_tasks == 1


def test_from_xarray_reads_labels():
    dataset = xr.Dataset(
        {"X": (("obs", "feature"), X), "y": ("obs", Y)}, coords={"feature": ["u", "v"], "task": ("obs", TASK)}
    )
    data = MultiTaskData.from_xarray(dataset)
    assert data.feature_names == ("u", "v")
    assert data.task_names == ("a", "b", "c")
    with pytest.raises(ValueError, match="'z' is unknown"):
        MultiTaskData.from_xarray(dataset, y="z")


def test_multilabel_stores_inputs_once_and_drops_missing_labels():
    labels = pd.DataFrame({"sad": [1, 0, np.nan], "happy": [0, 1, 1]})
    data = MultiTaskData.from_multilabel(X[:3], labels)
    assert data.task_names == ("sad", "happy")
    assert data.inputs.shape == (3, 2)
    assert data.n_rows == 5
    assert data.shares_inputs
    assert np.array_equal(data.X, X[[0, 1, 0, 1, 2]])
    assert data.y.tolist() == [1, 0, 0, 1, 1]


def test_take_keeps_order_and_sharing():
    data = MultiTaskData.from_arrays(X, Y, TASK)
    part = data.take([5, 3])
    assert np.array_equal(part.X, X[[5, 3]])
    assert not part.shares_inputs
    shared = MultiTaskData.from_multilabel(X[:3], np.ones((3, 2)) * [[1, 0]]).take([4, 0])
    assert np.array_equal(shared.X, X[[1, 0]])


def test_split_leaves_every_task_a_training_row():
    data = MultiTaskData.from_arrays(RNG.standard_normal((41, 1)), np.arange(41.0), [0] * 20 + [1] * 20 + [2])
    train, test = data.split(0.5, random_seed=1)
    assert train.task_sizes.tolist() == [10, 10, 1]
    assert sorted([*train.y, *test.y]) == list(range(41))
    again, _ = data.split(0.5, random_seed=1)
    assert np.array_equal(train.y, again.y)


def test_split_of_multilabel_data_keeps_inputs_apart():
    data = MultiTaskData.from_multilabel(np.arange(20.0)[:, None], np.tile([1, 0], (20, 1)))
    train, test = data.split(0.25, random_seed=1)
    assert not set(train.X[:, 0]) & set(test.X[:, 0])
    assert test.n_rows == 10


def test_standardize_and_back():
    frame = np.column_stack([5 + 3 * X, np.ones(6)])
    data = MultiTaskData.from_arrays(frame, 100 + 10 * Y, TASK)
    scaled = data.standardize()
    assert np.allclose(scaled.X[:, :2].mean(axis=0), 0)
    assert np.allclose(scaled.X[:, :2].std(axis=0), 1)
    assert np.all(scaled.X[:, 2] == 1)
    assert np.isclose(scaled.y.std(), 1)
    assert np.allclose(scaled.original_X(), frame)
    assert np.allclose(scaled.original_y(), data.y)


def test_standardize_leaves_labels_alone():
    data = MultiTaskData.from_arrays(X, [0, 1, 0, 1, 0, 1], TASK).standardize()
    assert set(data.y) == {0.0, 1.0}


def test_standardize_weighs_shared_inputs_by_their_observations():
    labels = np.array([[1.0, 0.0], [0.0, np.nan], [1.0, np.nan]])
    data = MultiTaskData.from_multilabel(X[:3], labels).standardize()
    assert np.allclose(data.X.mean(axis=0), 0)
    assert np.allclose(data.X.std(axis=0), 1)


def test_add_intercept_and_select_tasks():
    data = MultiTaskData.from_arrays(X, Y, TASK).standardize().add_intercept()
    assert data.feature_names[-1] == "intercept"
    assert np.allclose(data.original_X()[:, :2], X)
    chosen = data.select_tasks(["c", "a"])
    assert chosen.task_names == ("c", "a")
    assert np.array_equal(chosen.original_y(), [1, 3, 4, 5])


def _with(values, row, column, value):
    changed = np.array(values, dtype=object)
    changed[row, column] = value
    return changed


BAD = [
    (dict(X=_with(X, 4, 1, np.nan).astype(float)), "X is nan in row 4, column 1"),
    (dict(X=_with(X, 4, 1, np.inf).astype(float)), "X is inf in row 4, column 1"),
    (dict(X=_with(X, 2, 1, "red")), "X column 1 holds values that are not numbers"),
    (dict(X=X.astype(str)), "X column 0 holds values that are not numbers"),
    (dict(X=X + 1j), "not numbers"),
    (dict(X=X[:, 0]), "Give a 2-D array"),
    (dict(X=X[:0], y=Y[:0], task=[]), "X is empty"),
    (dict(X=X[:4]), "y has 6 rows and X has 4"),
    (dict(y=[0, 1, np.nan, 0, 1, 1]), "y is nan in row 2"),
    (dict(y=list("abcdef")), "not numbers"),
    (dict(y=np.ones((6, 2))), "y has shape"),
    (dict(task=["a", "b"]), "task has shape"),
    (dict(task=["a", None, "b", "a", "b", "a"]), "task is missing in row 1"),
    (dict(task=[0.5, 1, 1, 0, 0, 1]), "task is 0.5 in row 0"),
    (dict(task=[np.inf, 1, 1, 0, 0, 1]), "task is inf in row 0"),
    (dict(task=[0, 1, 2, 0, 1, 2], task_names=["a", "b"]), "task is 2 in row 2, outside"),
    (dict(task_names=["a", "b"]), "task is 'c' in row 4"),
    (dict(task_names=["a", "b", "c", "d"]), "task 'd' has no rows"),
    (dict(task_names=["a", "b", "b"], task=[0, 1, 2, 0, 1, 2]), "task_names holds 'b' twice"),
    (dict(feature_names=["u"]), "feature_names has 1 names for 2 columns"),
    (dict(feature_names=["u", "u"]), "feature_names holds 'u' twice"),
    (dict(feature_names=["u", ""]), "empty name"),
    (dict(t=[1.0, 2.0]), "t has 2 rows"),
    (dict(t=[1, 2, 3, 4, 5, np.nan]), "t is nan in row 5"),
]


@pytest.mark.parametrize(("changed", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_arrays_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        MultiTaskData.from_arrays(**{"X": X, "y": Y, "task": TASK, **changed})


def test_bad_frames_are_named():
    frame = pd.DataFrame({"school": TASK, "score": Y, "hours": X[:, 0], "colour": list("rgbrgb")})
    with pytest.raises(ValueError, match="no column 'points'"):
        MultiTaskData.from_frame(frame, y="points", task="school")
    with pytest.raises(ValueError, match="column 'colour' holds values that are not numbers"):
        MultiTaskData.from_frame(frame, y="score", task="school")
    with pytest.raises(ValueError, match="features is the string 'hours'"):
        MultiTaskData.from_frame(frame, y="score", task="school", features="hours")
    with pytest.raises(ValueError, match="features is empty"):
        MultiTaskData.from_frame(frame, y="score", task="school", features=[])
    missing = frame.assign(school=["a", None, "b", "a", "b", "a"]).set_index("hours")
    with pytest.raises(ValueError, match="task column 'school' is missing in row"):
        MultiTaskData.from_frame(missing, y="score", task="school", features=["score"])


def test_bad_multilabel_data_are_named():
    with pytest.raises(ValueError, match="Y has 2 rows and X has 6"):
        MultiTaskData.from_multilabel(X, np.ones((2, 2)))
    with pytest.raises(ValueError, match="task 'happy' has no observed label"):
        MultiTaskData.from_multilabel(X, np.column_stack([Y, Y * np.nan]), task_names=["sad", "happy"])
    with pytest.raises(ValueError, match="Y is inf in row 0, column 0"):
        MultiTaskData.from_multilabel(X, np.full((6, 1), np.inf))


def test_misuse_of_methods_is_explained():
    data = MultiTaskData.from_arrays(X, Y, TASK)
    with pytest.raises(ValueError, match="standardized already"):
        data.standardize().standardize()
    with pytest.raises(ValueError, match="y is constant"):
        MultiTaskData.from_arrays(X, np.ones(6), TASK).standardize(y=True)
    with pytest.raises(ValueError, match=r"test_size is 1.5"):
        data.split(1.5)
    with pytest.raises(ValueError, match="'nobody' is unknown"):
        data.select_tasks(["nobody"])
    with pytest.raises(ValueError, match="tasks is empty"):
        data.select_tasks([])
    with pytest.raises(ValueError, match="name 'x0' is a feature already"):
        data.add_intercept("x0")


def test_frame_round_trip_keeps_task_order():
    data = MultiTaskData.from_arrays(X, Y, TASK, task_names=["c", "a", "b"])
    back = MultiTaskData.from_frame(data.to_frame(), y="y", task="task")
    assert back.task_names == data.task_names
    assert np.array_equal(back.task, data.task)
    assert "2 rows each" in repr(back)
