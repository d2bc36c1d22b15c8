"""Tables of any library are read by name, and rows are paired by their labels."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from scipy import sparse

import zoo
from zoo.diagnostics import variogram
from zoo.kernels import TaskGraph, TaskTree
from zoo.support.frames import as_pandas, read_table

N = 24
RNG = np.random.default_rng(0)
# Columns of sizes far apart: one that is read in the place of another shows.
FRAME = pd.DataFrame(
    {
        "small": RNG.normal(size=N),
        "large": 100.0 * RNG.normal(size=N),
        "school": np.repeat(["c", "a", "b"], N // 3),
        "when": RNG.normal(size=N),
        "weight": RNG.uniform(1.0, 2.0, N),
    }
)
FRAME["y"] = FRAME["small"] + 0.01 * FRAME["large"] * (1 + (FRAME["school"] == "a"))
FEATURES = ["small", "large"]


def _to_dataset(frame):
    return xr.Dataset({name: ("row", column.to_numpy()) for name, column in frame.items()})


def _to_records(frame):
    return frame.astype({"school": "U1"}).to_records(index=False)


def _to_pyarrow_dtypes(frame):
    return frame.convert_dtypes(dtype_backend="pyarrow")


TABLES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": pa.Table.from_pandas,
    "arrow batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "pandas of arrow": _to_pyarrow_dtypes,
    "dataset": _to_dataset,
    "dict": lambda frame: {name: list(column) for name, column in frame.items()},
    "records": lambda frame: np.asarray(frame.astype({"school": object}).to_records(index=False)),
}
IN_FRAME = [name for name in TABLES if name not in ("dataset", "dict", "records")]


def _fit(**changed):
    data = zoo.MultiTaskData.from_frame(FRAME, "y", "school", FEATURES, **changed)
    return zoo.IndependentTasks().fit(data, draws=20, chains=1, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def fit():
    return _fit()


def _permuted(frame=FRAME):
    return frame[["y", "when", "large", "school", "weight", "small"]]


# -------------------------------------------------------------------- predictions


@pytest.mark.parametrize("kind", TABLES)
def test_predictions_read_columns_and_tasks_by_name(fit, kind):
    wanted = fit.predict(FRAME[FEATURES].to_numpy(), list(FRAME["school"]), random_seed=1)
    given = TABLES[kind](_permuted())
    assert fit.predict(given, random_seed=1).equals(wanted)
    # What is given beside the table counts more than its column.
    assert fit.predict(given, task=list(FRAME["school"]), random_seed=1).equals(wanted)
    assert set(fit.predict(given, task="b", random_seed=1)["task"].to_numpy()) == {"b"}
    draws = fit.predict_draws(given, random_seed=1)
    assert draws.equals(fit.predict_draws(FRAME[FEATURES].to_numpy(), list(FRAME["school"]), random_seed=1))


@pytest.mark.parametrize("series", [pl.Series, lambda values: pa.array(list(values)), pd.Series])
def test_columns_of_tasks_of_any_library(fit, series):
    wanted = fit.predict(FRAME, random_seed=1)
    table = pl.from_pandas(_permuted())
    assert fit.predict(table, task=series(FRAME["school"]), random_seed=1).equals(wanted)


def test_rows_of_another_index_are_refused(fit):
    X, task = FRAME[FEATURES], FRAME["school"]
    with pytest.raises(ValueError, match="task has another index than X"):
        fit.predict(X, task=task.iloc[::-1])
    with pytest.raises(ValueError, match="task has another index than X"):
        fit.predict_draws(X.iloc[5:10], task=task.iloc[5:10].reset_index(drop=True))
    array = xr.DataArray(X, dims=("obs", "feature"), coords={"obs": np.arange(N)[::-1], "feature": FEATURES})
    with pytest.raises(ValueError, match="task has another index than X"):
        fit.predict(array, task=task)
    wanted = fit.predict(X.to_numpy(), task=list(task), random_seed=1)
    assert fit.predict(X, task=task.iloc[::-1].sort_index(), random_seed=1).equals(wanted)
    assert fit.predict(X.set_axis(range(5, 5 + N)), task=task.to_numpy(), random_seed=1).equals(wanted)


def test_arrays_of_xarray_are_read_by_their_labels(fit):
    wanted = fit.predict(FRAME, random_seed=1)
    array = xr.DataArray(FRAME[FEATURES].to_numpy(), dims=("r", "c"), coords={"c": FEATURES})
    for given in (array, array.T, array[:, ::-1], array[:, ::-1].T):
        assert fit.predict(given, task=FRAME["school"], random_seed=1).equals(wanted)
    square = array[:2]
    assert fit.predict(square.T, task="c", random_seed=1).equals(fit.predict(square, task="c", random_seed=1))
    bare = xr.DataArray(FRAME[FEATURES].to_numpy()[:2], dims=("obs", "feature"))
    assert fit.predict(bare.T, task="c", random_seed=1).equals(fit.predict(square, task="c", random_seed=1))
    with pytest.raises(ValueError, match="X has no column 'large'"):
        fit.predict(array.assign_coords(c=["small", "big"]), task="c")


def test_a_dataset_of_a_matrix_and_columns(fit):
    dataset = xr.Dataset(
        {"X": (("feature", "row"), FRAME[FEATURES[::-1]].to_numpy().T), "school": ("row", FRAME["school"])},
        coords={"feature": FEATURES[::-1]},
    )
    assert fit.predict(dataset, random_seed=1).equals(fit.predict(FRAME, random_seed=1))


def test_columns_twice_are_refused_where_they_are_needed(fit):
    twice = pd.concat([FRAME, FRAME[["small"]]], axis=1)
    with pytest.raises(ValueError, match="X has 2 columns 'small'"):
        fit.predict(twice)
    with pytest.raises(ValueError, match="X has 2 columns 'school'"):
        fit.predict(pd.concat([FRAME, FRAME[["school"]]], axis=1))
    extra = pd.concat([FRAME, FRAME[["weight"]]], axis=1)
    assert fit.predict(extra, random_seed=1).equals(fit.predict(FRAME, random_seed=1))


def test_what_cannot_be_read_by_name_is_refused(fit):
    with pytest.raises(TypeError, match=r"X is a lazy table.*Collect it first: X\.collect\(\)"):
        fit.predict(pl.from_pandas(FRAME).lazy())
    with pytest.raises(ValueError, match="X column 'small' has 0 dimension"):
        fit.predict({"small": 1.0, "large": 2.0}, task="a")
    with pytest.raises(ValueError, match="X column 'large' has 2 rows, and column 'small' has 1"):
        fit.predict({"small": [1.0], "large": [2.0, 3.0]}, task="a")
    with pytest.raises(ValueError, match="X column 'large' has another index than column 'small'"):
        fit.predict({"small": FRAME["small"], "large": FRAME["large"].iloc[::-1]}, task="a")
    with pytest.raises(ValueError, match="X has 1 dimension"):
        fit.predict(FRAME[FEATURES].iloc[0], task="a")


def test_the_task_of_a_table_is_missing_or_unknown(fit):
    with pytest.raises(ValueError, match="task is missing in row 3"):
        fit.predict(FRAME.assign(school=FRAME["school"].where(FRAME.index != 3)))
    with pytest.raises(ValueError, match="task is missing in row 1"):
        fit.predict(FRAME[FEATURES].to_numpy()[:2], task=["a", None])
    with pytest.raises(ValueError, match="task 'z' is not among"):
        fit.predict(FRAME.assign(school="z"))
    with pytest.raises(ValueError, match="task 'a' is in the data, but new_task=True asks for new tasks"):
        fit.predict(FRAME, new_task=True)


# -------------------------------------------------------------------- t


def _local():
    data = zoo.MultiTaskData.from_frame(FRAME, "y", features=FEATURES, t=["when", "weight"])
    factory = zoo.KernelLocalSmoothing(bandwidth=1.0, ridge=0.1)
    return factory.fit(data, "map", draws=2, chains=1, random_seed=1, progress=False)


def test_t_is_read_by_name_everywhere():
    fit = _local()
    places = FRAME[["when", "weight"]]
    wanted = fit.predict(FRAME[FEATURES].to_numpy(), t=places.to_numpy(), random_seed=1)
    for library in (pl.from_pandas, pa.Table.from_pandas, _to_dataset, TABLES["dict"]):
        backwards = library(places[["weight", "when"]])
        assert fit.predict(FRAME, t=backwards, random_seed=1).equals(wanted)
        assert fit.predict(library(_permuted()), random_seed=1).equals(wanted)
        assert fit.coefficients(backwards).equals(fit.coefficients(places.to_numpy()))
    with pytest.raises(ValueError, match="t has another index than X"):
        fit.predict(FRAME, t=places.iloc[::-1])
    with pytest.raises(ValueError, match="t has 2 columns 'when'"):
        fit.coefficients(pd.concat([places, places], axis=1))


def test_models_that_leave_t_alone_need_none():
    fit = _fit(t="when")
    wanted = fit.predict(FRAME, random_seed=1)
    assert fit.predict(FRAME.drop(columns="when"), random_seed=1).equals(wanted)
    assert fit.predict(FRAME[FEATURES].to_numpy(), FRAME["school"], random_seed=1).equals(wanted)
    with pytest.raises(ValueError, match=r"t is missing.*'when'"):
        _local().predict(FRAME[FEATURES])


class Shifted(zoo.IndependentTasks):
    def latent(self, data, priors):
        return super().latent(data, priors) + data.t[:, 0]


class Looked(zoo.IndependentTasks):
    def latent(self, data, priors):
        f = super().latent(data, priors)
        return f if data.source.t is None else f + (data.source.t[:, 0] > 0)


class Prepared(zoo.IndependentTasks):
    def design(self, data, context=None):
        return data


@pytest.mark.parametrize("cls", [Shifted, Looked, Prepared])
def test_a_hook_that_may_use_t_needs_it(cls):
    fit = _fit(t="when")
    own = type(fit)(factory=cls(), data=fit.data, idata=fit.idata, method=fit.method)
    assert np.isfinite(own.predict(FRAME, random_seed=1)["mean"]).all()
    with pytest.raises(ValueError, match="t is missing"):
        own.predict(FRAME.drop(columns="when"))


# -------------------------------------------------------------------- constructors


def _same(one, other):
    for name in ("inputs", "y", "task", "t", "weight"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    for name in ("task_names", "feature_names", "t_names", "task_column"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("kind", IN_FRAME)
def test_from_frame_takes_every_library(kind):
    arguments = dict(y="y", task="school", features=FEATURES, t="when", weight="weight")
    wanted = zoo.MultiTaskData.from_frame(FRAME, **arguments)
    _same(zoo.MultiTaskData.from_frame(TABLES[kind](_permuted()), **arguments), wanted)


def test_from_arrays_reads_tables_by_name():
    X, t = FRAME[FEATURES], FRAME[["when", "weight"]]
    arguments = dict(y=FRAME["y"], task=FRAME["school"], weight=FRAME["weight"])
    wanted = zoo.MultiTaskData.from_arrays(X, t=t, **arguments)
    assert wanted.task_column == "school"
    given = {name: pl.from_pandas(column) for name, column in arguments.items()}
    _same(zoo.MultiTaskData.from_arrays(pl.from_pandas(X), t=pa.Table.from_pandas(t), **given), wanted)
    # Names beside a table choose its columns, and never give one the name of another.
    backwards = zoo.MultiTaskData.from_arrays(
        X[FEATURES[::-1]],
        t=t[["weight", "when"]],
        feature_names=FEATURES,
        t_names=["when", "weight"],
        **arguments,
    )
    _same(backwards, wanted)
    with pytest.raises(ValueError, match="feature_names gives the name 'small' to another column"):
        zoo.MultiTaskData.from_arrays(X, feature_names=["new", "small"], **arguments)
    renamed = zoo.MultiTaskData.from_arrays(X, feature_names=["one", "two"], **arguments)
    assert renamed.feature_names == ("one", "two")
    transposed = xr.DataArray(X.to_numpy().T, dims=("feature", "row"), coords={"feature": FEATURES})
    y = xr.DataArray(FRAME["y"].to_numpy(), dims="row")
    _same(zoo.MultiTaskData.from_arrays(transposed, y), zoo.MultiTaskData.from_arrays(X, FRAME["y"]))


def test_from_multilabel_pairs_labels_and_weights_by_name():
    X, rng = FRAME[FEATURES], np.random.default_rng(1)
    Y = pd.DataFrame(rng.normal(size=(N, 2)), columns=["p", "q"])
    weight = pd.DataFrame(rng.uniform(1.0, 2.0, (N, 2)), columns=["p", "q"])
    wanted = zoo.MultiTaskData.from_multilabel(X, Y, weight=weight)
    _same(zoo.MultiTaskData.from_multilabel(X, Y, weight=weight[["q", "p"]]), wanted)
    _same(zoo.MultiTaskData.from_multilabel(X, Y[["q", "p"]], task_names=["p", "q"], weight=weight), wanted)
    _same(
        zoo.MultiTaskData.from_multilabel(*map(pl.from_pandas, (X, Y)), weight=pl.from_pandas(weight)), wanted
    )
    with pytest.raises(ValueError, match="weight has no column 'q'"):
        zoo.MultiTaskData.from_multilabel(X, Y, weight=weight.rename(columns={"q": "other"}))
    with pytest.raises(ValueError, match="weight has another index"):
        zoo.MultiTaskData.from_multilabel(X, Y, weight=weight.iloc[::-1])


def test_categories_nulls_and_kinds_are_kept():
    tasks = pd.Categorical(FRAME["school"], categories=["b", "c", "a", "unused"])
    wanted = zoo.MultiTaskData.from_frame(FRAME.assign(school=tasks), "y", "school", FEATURES)
    enum = pl.from_pandas(FRAME).with_columns(pl.col("school").cast(pl.Enum(["b", "c", "a", "unused"])))
    for table in (pa.Table.from_pandas(FRAME.assign(school=tasks)), enum):
        _same(zoo.MultiTaskData.from_frame(table, "y", "school", FEATURES), wanted)
    # Categories of polars belong to the process: their order means nothing.
    loose = pl.from_pandas(FRAME).with_columns(pl.col("school").cast(pl.Categorical))
    assert zoo.MultiTaskData.from_frame(loose, "y", "school", FEATURES).task_names == ("a", "b", "c")
    for library in (pl.DataFrame, pa.table):
        table = {
            "y": [1, 2, 3],
            "x": [1, None, 3],
            "school": ["a", "b", None],
            "day": pd.date_range("2020", periods=3),
        }
        with pytest.raises(ValueError, match="column 'x' is missing in row 1"):
            zoo.MultiTaskData.from_frame(library(table), "y", features=["x"])
        with pytest.raises(ValueError, match="column 'school' is missing in row 2"):
            zoo.MultiTaskData.from_frame(library(table | {"x": [1, 2, 3]}), "y", "school", ["x"])
        with pytest.raises(ValueError, match="X column 'day' holds"):
            zoo.MultiTaskData.from_frame(library(table), "y", features=["day"])
        whole = zoo.MultiTaskData.from_frame(library({"y": [1, 2], "x": [3, 4]}), "y", features=["x"])
        np.testing.assert_array_equal(whole.X, [[3.0], [4.0]])


def test_what_has_no_names_comes_back_as_it_is():
    for value in (np.eye(2), [[1.0]], None, 1.0, "a", sparse.eye(2, format="dok"), object()):
        assert as_pandas(value, "X") is value
        assert read_table(value, "X").values is value


# -------------------------------------------------------------------- the name of the task column


def test_the_task_column_is_remembered(tmp_path, fit):
    data = fit.data
    for made in (
        data.take([0, 9]),
        data.split(0.3, random_seed=1)[0],
        data.standardize(),
        data.add_intercept(),
    ):
        assert made.task_column == "school"
    assert data.select_tasks(["a"]).task_column == "school"
    again = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert again.data.task_column == "school"
    assert again.predict(pl.from_pandas(_permuted()), random_seed=1).equals(fit.predict(FRAME, random_seed=1))
    with pytest.raises(ValueError, match="'school' is the column of the tasks"):
        data.add_intercept("school")


def test_a_file_without_the_task_column_is_read(tmp_path, fit):
    from dataclasses import replace

    before = type(fit)(
        factory=fit.factory, data=replace(fit.data, task_column=None), idata=fit.idata, method=fit.method
    )
    again = zoo.load(before.save(tmp_path / "fit.nc"))
    assert again.data.task_column is None
    with pytest.raises(ValueError, match="task is missing"):
        again.predict(FRAME)


def test_a_feature_is_not_read_as_tasks():
    X = pd.DataFrame({"a": [1.0, 2.0, 3.0, 4.0]})
    task = pd.Series(["p", "p", "q", "q"], name="a")
    assert zoo.MultiTaskData.from_arrays(X, [1.0, 2.0, 3.0, 4.0], task).task_column is None


def test_one_task_reads_its_column_too():
    data = zoo.MultiTaskData.from_frame(FRAME, "y", "school", FEATURES).select_tasks(["a"])
    fit = zoo.PooledTasks().fit(data, draws=2, chains=1, progress=False)
    assert fit.predict(FRAME.iloc[8:16])["task"].to_numpy().tolist() == ["a"] * 8
    with pytest.raises(ValueError, match="task 'b' is not among the 1 task"):
        fit.predict(FRAME)


# -------------------------------------------------------------------- labels of tasks


def test_float_labels_are_the_whole_numbers_they_stand_for():
    numbered = FRAME.assign(school=np.repeat([10, 2, 33], N // 3))
    data = zoo.MultiTaskData.from_frame(numbered, "y", "school", FEATURES)
    assert data.task_names == ("2", "10", "33")
    fit = zoo.IndependentTasks().fit(data, draws=3, chains=1, random_seed=1, progress=False)
    wanted = fit.predict(numbered, random_seed=1)
    floats = numbered["school"].astype(float)
    for task in (floats, floats.astype(object), floats.astype("Float64"), pl.Series(floats)):
        assert fit.predict(numbered[FEATURES], task=task, random_seed=1).equals(wanted)
    assert fit.predict(numbered.assign(school=floats), random_seed=1).equals(wanted)
    with pytest.raises(ValueError, match="task holds whole numbers, and the task names are numbers too"):
        fit.predict(numbered[FEATURES].to_numpy(), task=floats.to_numpy())
    with pytest.raises(ValueError, match="task is missing in row 4"):
        fit.predict(numbered[FEATURES], task=floats.where(floats.index != 4))
    with pytest.raises(ValueError, match=r"task '10.5' is not among"):
        fit.predict(numbered[FEATURES], task=floats + 0.5)
    # Data whose labels were floats know both.
    of_floats = zoo.MultiTaskData.from_frame(numbered.assign(school=floats), "y", "school", FEATURES)
    other = zoo.IndependentTasks().fit(of_floats, draws=3, chains=1, random_seed=1, progress=False)
    for task in (floats, numbered["school"]):
        predicted = other.predict(numbered[FEATURES], task=task, random_seed=1)
        assert predicted["task"].to_numpy().tolist() == [str(v) for v in floats]


def test_whole_floats_are_positions_in_arrays(fit):
    X = FRAME[FEATURES].to_numpy()
    by_number = fit.predict(X[:3], task=[0, 1, 2], random_seed=1)
    assert fit.predict(X[:3], task=[0.0, 1.0, 2.0], random_seed=1).equals(by_number)


def test_a_model_of_several_tasks_asks_for_them():
    data = zoo.MultiTaskData.from_frame(FRAME, "y", features=FEATURES)
    with pytest.raises(ValueError, match="the data have one task, because task was left out, and NIWLinear"):
        zoo.NIWLinear().fit(data, "em", progress=False)
    zoo.PooledTasks().fit(data, draws=2, chains=1, progress=False)


def test_condition_names_add_task():
    data = zoo.MultiTaskData.from_frame(FRAME, "y", "school", FEATURES)
    fit = zoo.MultiTaskKernelMachine().fit(data, draws=2, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match=r"MultiTaskKernelMachine.*Use fit.add_task\(task_data\)"):
        fit.condition(data)


# -------------------------------------------------------------------- kin


def test_graphs_trees_and_diagnostics_read_names():
    adjacency = pd.DataFrame([[0, 1, 0], [1, 0, 0.5], [0, 0.5, 0]], index=list("abc"), columns=list("abc"))
    array = xr.DataArray(adjacency.to_numpy(), dims=("u", "v"), coords={"u": list("abc"), "v": list("abc")})
    assert TaskGraph(array[::-1], ["a", "b", "c"]) == TaskGraph(adjacency)
    places = pd.DataFrame({"e": [0.0, 1.0, 5.0]}, index=list("abc"))
    nearest = TaskGraph.nearest(places, 1, task_names=["c", "a", "b"])
    assert nearest.edges[["task", "task_bis"]].to_numpy().tolist() == [["c", "b"], ["a", "b"]]
    with pytest.raises(ValueError, match="task_names gives the name 'a' to another row"):
        TaskGraph.nearest(places, 1, task_names=["x", "a", "b"])
    towns = pd.DataFrame({"region": ["n", "n", "s"], "city": ["1", "2", "3"]})
    tree = TaskTree.from_frame(towns, ["region", "city"])
    assert TaskTree.from_frame(pl.from_pandas(towns), ["region", "city"]) == tree
    assert tree.leaf_of(pa.Table.from_pandas(towns)).tolist() == tree.leaf_of(towns).tolist()
    with pytest.raises(ValueError, match="has another index"):
        zoo.diagnostics.log_loss(pd.Series([1.0, -1.0]), pd.Series([0.5, 0.2], index=[1, 0]))
    with pytest.raises(ValueError, match="values has another index than t"):
        variogram(FRAME[["when"]], FRAME["y"].iloc[::-1])


def test_the_learned_kernel_reads_inputs_by_name():
    data = zoo.MultiTaskData.from_frame(FRAME, "y", "school", FEATURES)
    fit = zoo.NIWLinear().fit(data, "em", progress=False)
    wanted = fit.learned_kernel_draws(FRAME[FEATURES].to_numpy()[:3])
    for library in (lambda frame: frame, pl.from_pandas, pa.Table.from_pandas):
        assert fit.learned_kernel_draws(library(_permuted()[:3])).equals(wanted)
    with pytest.raises(ValueError, match="X has no column 'small'"):
        fit.learned_kernel_draws(FRAME[["large"]])


def test_names_of_a_covariance_are_refused():
    matrix = np.array([[2.0, 0.3], [0.3, 1.0]])
    for named in (
        pd.DataFrame(matrix, index=FEATURES[::-1], columns=FEATURES[::-1]),
        pl.DataFrame(matrix, schema=FEATURES[::-1]),
        xr.DataArray(matrix, dims=("feature", "feature_bis"), coords={"feature": FEATURES[::-1]}),
    ):
        with pytest.raises(ValueError, match="feature_cov has names of rows or columns"):
            zoo.MaxMargin(feature_cov=named)
    assert zoo.MaxMargin(feature_cov=pd.DataFrame(matrix)) == zoo.MaxMargin(feature_cov=matrix)


# -------------------------------------------------------------------- files


def test_a_fit_is_not_overwritten_unless_told(tmp_path, fit):
    path = fit.save(tmp_path / "fit.nc")
    before = path.read_bytes()
    with pytest.raises(FileExistsError, match=r"is a file already.*overwrite=True"):
        fit.save(path)
    assert path.read_bytes() == before
    fit.save(path, overwrite=True)
    assert zoo.load(path).data.task_names == fit.data.task_names
    data = zoo.MultiTaskData.from_frame(FRAME, "y", "school", FEATURES)
    kernel = zoo.NIWLinear().fit(data, "em", progress=False).learned_kernel()
    kernel.save(tmp_path / "kernel.npz")
    with pytest.raises(FileExistsError, match=r"is a file already.*overwrite=True"):
        kernel.save(tmp_path / "kernel.npz")
    kernel.save(tmp_path / "kernel.npz", overwrite=True)


def test_loaders_offline_end_in_one_sentence(monkeypatch, tmp_path):
    from zoo.datasets import registry

    def offline(*args, **kwargs):
        raise OSError("no network")

    monkeypatch.delenv("ZOO_DATA", raising=False)
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path))
    monkeypatch.setattr(registry, "_download", offline)
    with pytest.raises(FileNotFoundError, match="Connect to the network, or set ZOO_DATA") as caught:
        zoo.datasets.load_emotions()
    assert caught.value.__suppress_context__ and caught.value.__cause__ is None
