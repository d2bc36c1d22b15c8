"""MultiTaskData: what goes in, what comes out, and what is refused by name."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest
import xarray as xr

import zoo
from zoo import Fit, MultiTaskData, PooledTasks
from zoo.core.storage import to_datatree

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


def test_from_xarray_reads_places_and_weights():
    long, lat, weight = np.arange(6.0), np.arange(6.0) ** 2, np.arange(1.0, 7.0)
    dataset = xr.Dataset(
        {"X": (("obs", "feature"), X), "y": ("obs", Y), "weight": ("obs", weight)},
        coords={"long": ("obs", long), "lat": ("obs", lat)},
    )
    data = MultiTaskData.from_xarray(dataset, task=None, t=["long", "lat"], weight="weight")
    assert data.t_names == ("long", "lat")
    np.testing.assert_array_equal(data.t, np.column_stack([long, lat]))
    np.testing.assert_array_equal(data.weight, weight)
    assert MultiTaskData.from_xarray(dataset, task=None, t="lat").t_names == ("lat",)
    with pytest.raises(ValueError, match="'lon' is unknown"):
        MultiTaskData.from_xarray(dataset, task=None, t=["lon", "lat"])
    with pytest.raises(ValueError, match="lat has dims"):
        MultiTaskData.from_xarray(dataset.assign(lat=("place", lat)), task=None, t=["long", "lat"])


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


def test_take_refuses_a_mask_of_other_rows():
    """It was read by position, whichever rows its index named."""
    data = MultiTaskData.from_arrays(X, Y, TASK)
    mask = pd.Series(np.arange(len(Y)) % 3 == 0)
    assert np.array_equal(data.take(mask).X, X[mask])
    assert np.array_equal(data.take(pl.Series(mask)).X, X[mask])
    for other in (mask[::-1], mask.set_axis(range(1, 1 + len(Y))), xr.DataArray(mask[::-1])):
        with pytest.raises(ValueError, match=r"rows is a mask with an index other than .*rows\.to_numpy\(\)"):
            data.take(other)
    # Positions are positions, whatever their own index.
    assert np.array_equal(data.take(pd.Series([5, 3], ["a", "b"])).X, X[[5, 3]])


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
    (dict(X=X.astype(str)), "X column 0 holds numbers as text"),
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
    (dict(feature_names=["u"]), "feature_names has 1 name for 2 columns"),
    (dict(feature_names=["u", "u"]), "feature_names holds 'u' twice"),
    (dict(feature_names=["u", ""]), "empty name"),
    (dict(t=[1.0, 2.0]), "t has 2 rows"),
    (dict(t=[1, 2, 3, 4, 5, np.nan]), "t is nan in row 5"),
    (dict(weight=[1, 2, 3]), "weight has 3 rows and X has 6"),
    (dict(weight=[1, 1, np.nan, 1, 1, 1]), "weight is nan in row 2"),
    (dict(weight=[1, 1, 1, np.inf, 1, 1]), "weight is inf in row 3"),
    (dict(weight=[1, 1, 1, 1, 0, 1]), "weight is 0 in row 4. Give a weight above 0"),
    (dict(weight=[1, -2.5, 1, 1, 1, 1]), "weight is -2.5 in row 1"),
    (dict(weight=list("abcdef")), "weight.*not numbers"),
]


@pytest.mark.parametrize(("changed", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_arrays_are_named(changed, message):
    with pytest.raises(ValueError, match=message):
        MultiTaskData.from_arrays(**{"X": X, "y": Y, "task": TASK, **changed})


def test_bad_frames_are_named():
    frame = pd.DataFrame({"score": [1.0, np.inf], "x": [1.0, 2.0]})
    with pytest.raises(ValueError, match="y is inf in row 1, column 'score'"):
        MultiTaskData.from_frame(frame, y="score", features=["x"])
    frame = pd.DataFrame({"school": TASK, "score": Y, "hours": X[:, 0], "colour": list("rgbrgb")})
    with pytest.raises(ValueError, match="no column 'points'"):
        MultiTaskData.from_frame(frame, y="points", task="school")
    with pytest.raises(ValueError, match="column 'colour' holds values that are not numbers"):
        MultiTaskData.from_arrays(frame[["hours", "colour"]], frame["score"], frame["school"])
    with pytest.raises(ValueError, match="features is the string 'hours'"):
        MultiTaskData.from_frame(frame, y="score", task="school", features="hours")
    with pytest.raises(ValueError, match="df has no other columns for features"):
        MultiTaskData.from_frame(frame[["school", "score"]], y="score", task="school")
    missing = frame.assign(school=["a", None, "b", "a", "b", "a"]).set_index("hours")
    with pytest.raises(ValueError, match="column 'school' is missing in row"):
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


# ---------------------------------------------------------------- weights

WEIGHT = np.array([1.0, 2.0, 0.5, 4.0, 1e-3, 7.0])


def test_weights_follow_their_rows():
    data = MultiTaskData.from_arrays(X, Y, TASK, weight=WEIGHT.tolist())
    assert data.weight.dtype == np.float64
    assert MultiTaskData.from_arrays(X, Y, TASK).weight is None
    assert np.array_equal(data.take([5, 3]).weight, WEIGHT[[5, 3]])
    assert np.array_equal(data.select_tasks(["c", "a"]).weight, WEIGHT[[1, 3, 4, 5]])
    assert np.array_equal(data.standardize().add_intercept().weight, WEIGHT)
    for train, test in [data.split(0.5, random_seed=1), *data.folds(2, random_seed=1)]:
        for part in (train, test):
            assert np.array_equal(part.weight, WEIGHT[part.y.astype(int)])


def test_weights_in_frames():
    frame = pd.DataFrame(
        {"school": TASK, "score": Y, "hours": X[:, 0], "count": WEIGHT}, index=list("uvwxyz")
    )
    data = MultiTaskData.from_frame(frame, y="score", task="school", weight="count")
    assert data.feature_names == ("hours",)
    assert np.array_equal(data.weight, WEIGHT)
    table = data.to_frame()
    assert list(table.columns) == ["hours", "task", "y", "weight"]
    back = MultiTaskData.from_frame(table, y="y", task="task", weight="weight")
    assert np.array_equal(back.weight, WEIGHT)
    assert back.feature_names == ("hours",)
    with pytest.raises(ValueError, match="no column 'mass'"):
        MultiTaskData.from_frame(frame, y="score", task="school", weight="mass")
    with pytest.raises(ValueError, match="weight is 0 in row 0"):
        MultiTaskData.from_frame(frame.assign(count=0), y="score", task="school", weight="count")
    named = MultiTaskData.from_arrays(X, Y, TASK, feature_names=["u", "weight"])
    assert "weight" in named.to_frame()
    with pytest.raises(ValueError, match="feature_names holds 'weight'"):
        MultiTaskData.from_arrays(X, Y, TASK, feature_names=["u", "weight"], weight=WEIGHT).to_frame()


def test_weights_of_multilabel_data():
    labels = pd.DataFrame({"sad": [1, 0, np.nan], "happy": [0, 1, 1]})
    entries = np.array([[1.0, 2.0], [3.0, 4.0], [np.nan, 6.0]])
    assert MultiTaskData.from_multilabel(X[:3], labels, weight=entries).weight.tolist() == [1, 3, 2, 4, 6]
    for ignored in (0.0, -1.0, np.inf):
        entries[2, 0] = ignored
        assert MultiTaskData.from_multilabel(X[:3], labels, weight=entries).weight.tolist() == [1, 3, 2, 4, 6]
    assert MultiTaskData.from_multilabel(X[:3], labels, weight=[1, 2, 3]).weight.tolist() == [1, 2, 1, 2, 3]
    nothing = labels.assign(happy=[0, 1, np.nan])
    weight = MultiTaskData.from_multilabel(X[:3], nothing, weight=[1, 2, np.nan]).weight
    assert weight.tolist() == [1, 2, 1, 2]
    with pytest.raises(ValueError, match="weight is nan in row 1, column 'happy'"):
        MultiTaskData.from_multilabel(X[:3], labels, weight=[[1, 1], [1, np.nan], [1, 1]])
    with pytest.raises(ValueError, match="weight is 0 in row 2, task 'happy'"):
        MultiTaskData.from_multilabel(X[:3], labels, weight=[[1, 1], [1, 1], [0, 0]])
    with pytest.raises(ValueError, match="weight is -1 in row 1"):
        MultiTaskData.from_multilabel(X[:3], labels, weight=[1, -1, 1])
    with pytest.raises(ValueError, match=r"weight has shape \(2,\) and Y has shape \(3, 2\)"):
        MultiTaskData.from_multilabel(X[:3], labels, weight=[1, 1])
    with pytest.raises(ValueError, match="not numbers"):
        MultiTaskData.from_multilabel(X[:3], labels, weight=list("abc"))


@pytest.mark.parametrize("weight", [None, WEIGHT])
def test_weights_are_saved_with_a_fit(weight, tmp_path):
    data = MultiTaskData.from_arrays(X, Y, TASK, weight=weight)
    factory = PooledTasks()
    posterior = xr.Dataset({"coefficients": (("chain", "draw", "feature"), np.zeros((1, 2, 2)))})
    tree = to_datatree(factory, data, data, data.y, posterior, xr.Dataset(), "exact", None)
    assert ("weight" in tree["constant_data"]) == (weight is not None)
    Fit(factory=factory, data=data, idata=tree, method="exact").save(tmp_path / "fit.nc")
    back = zoo.load(tmp_path / "fit.nc").data.weight
    assert back is None if weight is None else np.array_equal(back, weight)


# ---------------------------------------------------------------- folds


@pytest.mark.parametrize("n", [2, 3, 5])
def test_folds_hold_every_row_out_once_and_leave_every_task_rows(n):
    sizes = [20, 7, 3, 2, 2, 2, 1]
    task = np.repeat(np.arange(len(sizes)), sizes)
    X = np.arange(float(len(task)))[:, None]
    data = MultiTaskData.from_arrays(X, X[:, 0], task, t=X, weight=X[:, 0] + 1)
    folds = data.folds(n, random_seed=3)
    assert len(folds) == n
    held = np.concatenate([test.y for _, test in folds])
    assert sorted(held) == list(range(len(task) - 1))  # all but the row of the last task
    counts = np.array([test.task_sizes for _, test in folds])
    assert np.all(np.ptp(counts, axis=0) <= 1)
    assert np.ptp(counts.sum(axis=1)) <= 1
    for train, test in folds:
        assert (train.task_sizes > 0).all()
        assert train.task_names == data.task_names
        assert sorted([*train.y, *test.y]) == list(range(len(task)))
        assert np.array_equal(test.t, test.X)
        assert np.array_equal(test.weight, test.y + 1)
    again = data.folds(n, random_seed=3)
    assert all(np.array_equal(a.y, b.y) for (_, a), (_, b) in zip(folds, again, strict=True))
    other = data.folds(n, random_seed=4)
    assert any(not np.array_equal(a.y, b.y) for (_, a), (_, b) in zip(folds, other, strict=True))


def _check_folds_of_inputs(data, folds, always_kept=()):
    held = [set(test.X[:, 0]) for _, test in folds]
    assert all(held)
    assert sorted(x for part in held for x in part) == sorted(set(data.X[:, 0]) - set(always_kept))
    for (train, test), inputs in zip(folds, held, strict=True):
        assert (train.task_sizes > 0).all()
        assert not inputs & set(train.X[:, 0])
        assert train.n_rows + test.n_rows == data.n_rows


def test_folds_of_multilabel_data_are_made_of_inputs():
    inputs = np.arange(23.0)[:, None]
    data = MultiTaskData.from_multilabel(inputs, np.tile([1, 0], (23, 1)))
    folds = data.folds(5, random_seed=0)
    _check_folds_of_inputs(data, folds)
    assert {test.n_rows for _, test in folds} == {8, 10}


@pytest.mark.parametrize("seed", range(5))
def test_folds_of_multilabel_data_with_rare_tasks(seed):
    """Tasks on two inputs are torn apart by the deal; a task's only input stays in training."""
    rng = np.random.default_rng(seed)
    labels = np.full((30, 12), np.nan)
    labels[:, 0] = 1
    for task in range(1, 11):
        labels[rng.choice(29, size=2, replace=False), task] = 1
    labels[29, 11] = 1
    data = MultiTaskData.from_multilabel(np.arange(30.0)[:, None], labels)
    _check_folds_of_inputs(data, data.folds(3, random_seed=seed), always_kept=[29.0])


def test_folds_that_cannot_be_made_are_explained():
    data = MultiTaskData.from_arrays(X, Y, TASK)
    for n in (1, 2.5, True, "three"):
        with pytest.raises(ValueError, match="Give a whole number of 2 or more"):
            data.folds(n)
    with pytest.raises(ValueError, match="n is 7, but only 6 rows can be held out"):
        data.folds(7)
    triangle = np.array([[1, 1, np.nan], [1, np.nan, 1], [np.nan, 1, 1]])  # no two folds keep all three tasks
    shared = MultiTaskData.from_multilabel(X[:3], triangle, task_names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"task '[abc]' has rows on 2 inputs only.*n = 2 folds"):
        shared.folds(2)
    _check_folds_of_inputs(shared, shared.folds(3))
    with pytest.raises(ValueError, match="only 3 inputs can be held out"):
        shared.folds(4)
    # An input that stays in training for the sake of a fourth task serves the three too.
    kept = np.column_stack([np.vstack([triangle, [1, 1, 1]]), [np.nan, np.nan, np.nan, 1]])
    data = MultiTaskData.from_multilabel(X[:4], kept)
    _check_folds_of_inputs(data, data.folds(2), always_kept=[X[3, 0]])


def test_rows_without_features_come_from_tables_and_arrays():
    frame = pd.DataFrame({"school": TASK, "score": Y, "hours": X[:, 0]})
    table = MultiTaskData.from_frame(frame, y="score", task="school", features=[], t="hours")
    for data in (
        table,
        MultiTaskData.from_arrays(None, Y, task=TASK, t=X[:, 0]),
        MultiTaskData.from_arrays(np.empty((len(Y), 0)), Y, task=TASK, t=X[:, 0]),
        MultiTaskData.from_arrays(frame[[]], frame["score"], task=frame["school"], t=frame["hours"]),
    ):
        assert data.n_features == 0 and data.feature_names == ()
        assert data.X.shape == (len(Y), 0) and data.task_names == table.task_names
        np.testing.assert_array_equal(data.y, Y)
        assert data.take([0, 2]).X.shape == (2, 0)
        assert data.standardize().original_X().shape == (len(Y), 0)
    assert table.add_intercept().feature_names == ("intercept",)
    with pytest.raises(ValueError, match="feature_names has 1 name for 0 columns"):
        MultiTaskData.from_arrays(None, Y, feature_names=["hours"])
