"""The continuous task variable t: names of its columns, from the table to predictions and files."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytensor
import pytest
import xarray as xr

import zoo
from zoo import MultiTaskData
from zoo.core.joining import joined, more_rows
from zoo.data.new_rows import read_rows
from zoo.models.kernel_machine.rows import kernel_rows

RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(RNG.standard_normal((8, 4)), columns=["x", "y", "long", "lat"])
FRAME["task"] = list("abcdabcd")


@pytest.fixture
def data():
    return MultiTaskData.from_frame(FRAME, y="y", task="task", t=["long", "lat"])


class InPlace(zoo.PooledTasks):
    """A line in x and the columns of t."""

    def priors(self, data):
        slopes = pm.Normal("slopes", 0.0, 1.0, dims="t_column")
        return {"coefficients": pm.Normal("coefficients", 0.0, 1.0, dims="feature"), "slopes": slopes}

    def latent(self, data, priors):
        return data.linear(priors["coefficients"]) + pm.math.dot(data.t, priors["slopes"])

    def observe(self, data, f):
        return pm.Normal("y", f, 0.1, observed=data.y, dims="obs")


@pytest.fixture(scope="module")
def fit():
    data = MultiTaskData.from_frame(FRAME, y="y", task="task", t=["long", "lat"]).standardize()
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        sampler = {"nuts_sampler": "pymc"}
        return InPlace().fit(
            data, "nuts", draws=20, tune=50, chains=1, random_seed=1, progress=False, nuts=sampler
        )


# ---------------------------------------------------------------- names


def test_names_come_from_the_table(data):
    assert data.t_names == ("long", "lat")
    assert data.feature_names == ("x",)
    assert np.array_equal(data.t, FRAME[["long", "lat"]])
    assert MultiTaskData.from_frame(FRAME, y="y", task="task", t="lat").t_names == ("lat",)
    assert MultiTaskData.from_frame(FRAME, y="y", task="task").t_names is None


def test_names_from_arrays():
    def of(t, **named):
        return MultiTaskData.from_arrays(FRAME[["x"]], FRAME["y"], t=t, **named).t_names

    places = FRAME[["long", "lat"]]
    assert of(places) == ("long", "lat")
    assert of(places.to_numpy()) == ("t0", "t1")
    assert of(places.to_numpy(), t_names=["east", "north"]) == of(places, t_names=["east", "north"])
    assert of(FRAME["lat"]) == ("lat",)
    assert of(FRAME["lat"].rename(None)) == of(FRAME["lat"].to_numpy()) == ("t0",)
    assert of(FRAME["lat"].to_numpy(), t_names="north") == ("north",)
    assert of(None) is None


def test_errors_name_row_and_column():
    def make(t, **named):
        return MultiTaskData.from_arrays(FRAME[["x"]], FRAME["y"], t=t, **named)

    for value in (np.nan, np.inf):
        broken = FRAME.copy()
        broken.loc[3, "lat"] = value
        said = "column 'lat' is missing in row 3" if np.isnan(value) else "t is inf in row 3, column 'lat'"
        with pytest.raises(ValueError, match=said):
            MultiTaskData.from_frame(broken, y="y", task="task", t=["long", "lat"])
        with pytest.raises(ValueError, match=f"t is {value} in row 3, column 't1'"):
            make(broken[["long", "lat"]].to_numpy())
    with pytest.raises(ValueError, match=r"t column 'task' holds names, .*Pass the column as task='task'"):
        make(FRAME[["lat", "task"]])
    with pytest.raises(ValueError, match="t_names has 1 name for 2 columns"):
        make(FRAME[["long", "lat"]], t_names=["place"])
    with pytest.raises(ValueError, match="t_names holds 'lat' twice"):
        MultiTaskData.from_frame(FRAME, y="y", t=["lat", "lat"], features=["x"])
    with pytest.raises(ValueError, match="t_names is given, but t is not"):
        make(None, t_names=["lat"])
    with pytest.raises(ValueError, match="t has 7 rows and X has 8"):
        make(FRAME["lat"][1:])
    with pytest.raises(ValueError, match="t has 3 dimension"):
        make(np.zeros((8, 1, 1)))
    assert make(np.ones(8)).t_names == ("t0",)  # whether a constant column is of use, the model says


def test_repr_counts_columns(data):
    assert repr(data) == "MultiTaskData(4 tasks, 8 rows (2 rows each), 1 feature, t of 2 columns)"
    one = MultiTaskData.from_frame(FRAME, y="y", task="task", t="lat", features=["x"]).standardize()
    assert repr(one).endswith("1 feature, t of 1 column, standardized)")


def test_table_and_back(data):
    frame = data.to_frame()
    assert list(frame.columns) == ["x", "long", "lat", "task", "y"]
    again = MultiTaskData.from_frame(frame, y="y", task="task", t=data.t_names)
    assert again.t_names == data.t_names and again.feature_names == data.feature_names
    assert np.array_equal(again.t, data.t) and np.array_equal(again.X, data.X)
    assert np.array_equal(again.y, data.y) and again.task_names == data.task_names
    clash = MultiTaskData.from_frame(FRAME, y="y", t=["x", "lat"], features=["x"])
    with pytest.raises(ValueError, match=r"t_names holds 'x', .* Rename the column of t"):
        clash.to_frame()
    with pytest.raises(ValueError, match=r"t_names holds 'task', .* Rename the column of t"):
        replace(data, t_names=("task", "lat")).to_frame()


# ---------------------------------------------------------------- data from data


def test_new_data_keep_the_names(data, fit):
    weighted = replace(data, weight=np.ones(8))
    kept = (
        data.take([3, 1]),
        data.select_tasks(["c", "a"]),
        data.standardize(),
        data.add_intercept(),
        *data.split(0.5, random_seed=1),
        *data.folds(2, random_seed=1)[0],
        replace(data, y=data.y + 1.0),
        kernel_rows(data, None),
        kernel_rows(weighted, data),
        joined(data, data.take([0])),
        more_rows(fit, data),
        zoo.NIWGaussianProcess().design(data),
        zoo.MultiLaplaceGP().design(data),
    )
    for new in kept:
        assert new.t_names == ("long", "lat"), new
        assert new.t.shape == (new.n_rows, 2)
    assert replace(data, t=None).t_names is None


@pytest.mark.filterwarnings("ignore:t holds 'long', 'lat', and NIWLinear makes nothing of t")
def test_conditioned_fit_keeps_the_names(data):
    old = data.take(data.task < 3)
    old = replace(old, task_names=old.task_names[:3])
    new = data.select_tasks(["d"])
    fit = zoo.NIWLinear().fit(old, draws=5, tune=5, chains=1, random_seed=1, progress=False)
    more = fit.condition(new, random_seed=1)
    assert more.data.t_names == more.population_data.t_names == ("long", "lat")
    assert np.array_equal(more.data.t, np.concatenate([old.t, new.t]))
    assert np.array_equal(more.population_data.t, old.t)


# ---------------------------------------------------------------- models


def test_coordinates_of_the_model_are_the_names(data, fit):
    assert InPlace().coords(data)["t_column"] == ["long", "lat"]
    assert list(InPlace().build(data).coords["t_column"]) == ["long", "lat"]
    assert fit.posterior["t_column"].to_numpy().tolist() == ["long", "lat"]
    assert "t_column" not in InPlace().coords(replace(data, t=None))


def test_file_keeps_the_names(fit, tmp_path):
    again = zoo.load(fit.save(tmp_path / "fit.nc"), factory=InPlace)
    assert again.data.t_names == ("long", "lat")
    assert np.array_equal(again.data.t, fit.data.t)
    rows = FRAME[["x", "long", "lat"]]
    assert again.predict(rows, "a", random_seed=1).equals(fit.predict(rows, "a", random_seed=1))


def test_file_without_names_is_read(fit, tmp_path):
    """Files that were written before t had names."""
    path = fit.save(tmp_path / "fit.nc")
    with xr.open_datatree(path, engine="h5netcdf") as opened:
        tree = opened.load()
    for group in ("constant_data", "posterior"):
        tree[group] = xr.DataTree(tree[group].to_dataset().drop_vars("t_column"))
    del tree.attrs["zoo_digest"]  # younger than the names
    tree.to_netcdf(tmp_path / "old.nc", engine="h5netcdf")
    again = zoo.load(tmp_path / "old.nc", factory=InPlace)
    assert again.data.t_names == ("t0", "t1")
    assert np.array_equal(again.data.t, fit.data.t)


# ---------------------------------------------------------------- rows to predict


def _t(X, t, data):
    return read_rows(X, None, t, replace(data, task_names=("all",), task=0 * data.task), False)[2]


def test_t_of_new_rows_is_read_by_name(data):
    X, places = FRAME[["x"]], FRAME[["lat", "long"]]
    expected = FRAME[["long", "lat"]].to_numpy()
    assert np.array_equal(_t(X, places, data), expected)
    assert np.array_equal(_t(X.to_numpy(), places.assign(other=1.0), data), expected)
    assert np.array_equal(_t(X, expected, data), expected)
    assert np.array_equal(_t(X, expected.tolist(), data), expected)
    # The columns of X itself, features or not.
    assert np.array_equal(_t(FRAME, None, data), expected)
    assert np.array_equal(_t(FRAME, places + 1.0, data), expected + 1.0)
    # A single row, and a single column.
    assert np.array_equal(_t(X[:1], [1.0, 2.0], data), [[1.0, 2.0]])
    one = replace(data, t=data.t[:, :1], t_names=("long",))
    for column in (FRAME["long"], FRAME["long"].to_numpy(), FRAME[["long"]], None):
        assert np.array_equal(_t(FRAME, column, one), expected[:, :1])
    # Of names that nobody gave the order counts.
    unnamed = replace(data, t_names=None)
    assert np.array_equal(_t(X, places, unnamed), places)
    assert np.array_equal(_t(unnamed, None, data), expected)
    # Data by name, whatever their order.
    assert np.array_equal(_t(replace(data, t=data.t[:, ::-1], t_names=("lat", "long")), None, data), expected)


def test_wrong_t_of_new_rows(data):
    X = FRAME[["x"]]
    names = "'long', 'lat'"
    for t, message in (
        (None, f"t is missing.*{names}"),
        (FRAME[["lat"]], f"t has no column 'long'.*{names}"),
        (FRAME[["lat", "x"]], f"t has no column 'long'.*{names}"),
        (np.ones((8, 3)), rf"t has shape \(8, 3\), and \(8, 2\) is needed.*{names}"),
        (np.ones((7, 2)), rf"t has shape \(7, 2\), and \(8, 2\) is needed.*{names}"),
        (FRAME[["long", "lat"]][:5], r"t has shape \(5, 2\), and \(8, 2\) is needed"),
        (np.ones(8), r"t has shape \(8, 1\), and \(8, 2\) is needed"),
        (np.ones(16), r"t has shape \(16, 1\), and \(8, 2\) is needed"),
        (FRAME[["long", "lat"]].replace(FRAME["lat"][2], np.nan), "t is nan in row 2, column 'lat'"),
    ):
        with pytest.raises(ValueError, match=message):
            _t(X, t, data)
    with pytest.raises(ValueError, match="t is missing"):
        _t(FRAME[["x", "lat"]], None, data)
    with pytest.raises(ValueError, match="t is missing"):
        _t(replace(data, t=None), None, data)
    with pytest.raises(ValueError, match="t is given, but the fitted data have no"):
        _t(X, FRAME[["lat"]], replace(data, t=None))
    assert _t(FRAME, None, replace(data, t=None)) is None


def test_predictions_take_the_table_that_made_the_data(fit):
    by_table = fit.predict(FRAME, FRAME["task"], random_seed=1)
    assert by_table.equals(fit.predict(FRAME[["x"]], FRAME["task"], t=FRAME[["lat", "long"]], random_seed=1))
    slopes = fit.posterior["slopes"].to_numpy()[0]
    draws = fit.predict_draws(FRAME, FRAME["task"], random_seed=1)["f"].to_numpy()[0]
    transform = fit.data.transform
    x = transform.apply_x(FRAME[["x"]].to_numpy())
    f = x @ fit.posterior["coefficients"].to_numpy()[0].T + FRAME[["long", "lat"]].to_numpy() @ slopes.T
    np.testing.assert_allclose(draws, transform.restore_y(f).T)
