"""Fits: predictions on the user's scale, tasks by name, and files that cannot lie."""

from __future__ import annotations

import json
import pickle
import warnings

import h5py
import numpy as np
import pandas as pd
import pymc as pm
import pytest
import xarray as xr

import zoo
from zoo.core.fit import CAPABILITIES
from zoo.core.storage import SCHEMA_VERSION
from zoo.registry import factories, get_factory
from zoo.support.warning_types import collected


@pytest.fixture(scope="module")
def fit():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"a": 10 + 3 * rng.standard_normal(30), "b": rng.standard_normal(30)})
    frame["shop"] = np.repeat(["north", "south", "west"], 10)
    frame["sales"] = 500 + 40 * frame.a + 5 * rng.standard_normal(30)
    data = zoo.MultiTaskData.from_frame(frame, y="sales", task="shop").standardize()
    model = zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C=1.0, epsilon=0.05))
    return model.fit(data, draws=40, tune=40, chains=2, random_seed=1, progress=False)


NEW = pd.DataFrame({"b": [0.0, 1.0], "extra": [9, 9], "a": [8.0, 12.0]})


def test_mean_is_the_posterior_mean_on_the_users_scale(fit):
    eta = fit.posterior["coefficients"].mean(("chain", "draw")).sel(task="south").to_numpy()
    transform = fit.data.transform
    X = (NEW[["a", "b"]].to_numpy() - transform.x_mean) / transform.x_scale
    expected = X @ eta * transform.y_scale + transform.y_mean
    assert np.allclose(fit.predict(NEW, "south")["mean"], expected, rtol=1e-10)


def test_predictive_spread_is_the_likelihoods(fit):
    # Null: y - f has the law of the loss; Kolmogorov-Smirnov at 1e-5 on draws of one row.
    from scipy import stats

    draws = fit.predict_draws(NEW[:1], "south", random_seed=2)
    gap = (draws["y"] - draws["f"]).to_numpy().ravel() / fit.data.transform.y_scale
    grid = np.linspace(-15, 15, 300_001)
    density = np.exp(-2 * np.maximum(0, np.abs(grid) - 0.05))
    cdf = np.cumsum(density) / density.sum()
    assert stats.kstest(gap, lambda x: np.interp(x, grid, cdf)).pvalue > 1e-5


def test_interval_grows_with_its_probability(fit):
    narrow = fit.predict(NEW, "south", ci_prob=0.5, random_seed=1)
    wide = fit.predict(NEW, "south", ci_prob=0.95, random_seed=1)
    assert np.all(wide["upper"] - wide["lower"] > narrow["upper"] - narrow["lower"])
    with pytest.raises(ValueError, match="ci_prob is 90"):
        fit.predict(NEW, "south", ci_prob=90)


def test_tasks_by_name_position_and_data(fit):
    by_name = fit.predict(NEW, ["south", "west"], random_seed=1)
    assert by_name["task"].to_numpy().tolist() == ["south", "west"]
    assert by_name.equals(fit.predict(NEW, np.array([1, 2]), random_seed=1))
    rows = zoo.MultiTaskData.from_arrays(
        NEW[["a", "b"]], [0, 0], [1, 0], task_names=["west", "south"], feature_names=["a", "b"]
    )
    assert by_name.equals(fit.predict(rows, random_seed=1))


BAD = [
    (dict(X=NEW, task="east"), "task 'east' is not among the 3 tasks"),
    (dict(X=NEW, task=7), "task 7 is not among the 3 tasks"),
    (dict(X=NEW), "task is missing"),
    (dict(X=NEW, task=["south"] * 3), "task has shape"),
    (dict(X=NEW, task="south", new_task=True), "task 'south' is in the data"),
    (dict(X=NEW[["a"]], task="south"), "X has no column 'b'"),
    (dict(X=np.ones((2, 3)), task="south"), "X has 3 columns"),
    (dict(X=[[np.nan, 1.0]], task="south"), "X is nan in row 0, column 'a'"),
    (dict(X=NEW, task="south", t=[1, 2]), "t is given, but the fitted data have no"),
]


@pytest.mark.parametrize(("arguments", "message"), BAD, ids=[m for _, m in BAD])
def test_bad_rows_are_named(fit, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit.predict(**arguments)


def test_numbers_that_could_be_names_or_positions_are_refused():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"x": rng.standard_normal(9), "id": np.repeat([5, 7, 2], 3)})
    frame["y"] = frame.x + rng.standard_normal(9)
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="id")
    fit = zoo.IndependentTasks().fit(data, draws=5, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="names and positions could be confused"):
        fit.predict(frame[["x"]], frame["id"].to_numpy())
    by_series = fit.predict(frame[["x"]], frame["id"], random_seed=1)
    assert by_series.equals(fit.predict(frame[["x"]], frame["id"].astype(str).to_numpy(), random_seed=1))
    assert by_series["task"].to_numpy().tolist() == frame["id"].astype(str).tolist()


def test_numeric_labels_of_arrays_are_not_taken_for_positions():
    rng = np.random.default_rng(1)
    labels = np.repeat([1, 2, 3], 3)
    data = zoo.MultiTaskData.from_arrays(rng.standard_normal((9, 1)), rng.standard_normal(9), labels)
    fit = zoo.IndependentTasks().fit(data, draws=5, chains=1, random_seed=1, progress=False)
    with pytest.raises(ValueError, match="names and positions could be confused"):
        fit.predict(data.X, labels)
    named = fit.predict(data.X, pd.Series(labels), random_seed=1)
    assert named["task"].to_numpy()[:4].tolist() == ["task 1"] * 3 + ["task 2"]
    assert named.equals(fit.predict(data, random_seed=1))


@pytest.mark.usefixtures("uncompiled")
def test_subclass_likelihood_is_what_predicts():
    # A subclass with a Poisson likelihood: the mean and spread must be of the counts, not of f.
    class Counts(zoo.PooledTasks):
        def priors(self, data):
            return {"coefficients": pm.Normal("coefficients", 0, 0.1, dims="feature")}

        def observe(self, data, f):
            return pm.Poisson("y", pm.math.exp(f + 3.0), observed=data.y.astype(int), dims="obs")

    rng = np.random.default_rng(2)
    data = zoo.MultiTaskData.from_arrays(np.ones((50, 1)), rng.poisson(np.exp(3.0), 50))
    options = dict(draws=200, tune=200, chains=2, random_seed=1, progress=False)
    fit = Counts().fit(data, "nuts", nuts={"nuts_sampler": "pymc"}, **options)
    predicted = fit.predict(np.ones((1, 1)), random_seed=1)
    assert abs(float(predicted["mean"][0]) - data.y.mean()) < 2.0
    assert 3.0 < float(predicted["sd"][0]) < 6.5


@pytest.mark.usefixtures("uncompiled")
def test_prediction_refuses_to_draw_hidden_variables_from_the_prior():
    class Hidden(zoo.PooledTasks):
        def priors(self, data):
            return {"coefficients": pm.Normal("_coefficients", dims="feature")}

        def observe(self, data, f):
            return pm.Normal("y", f, pm.HalfNormal("noise"), observed=data.y, dims="obs")

    data = zoo.MultiTaskData.from_arrays(np.eye(4), np.arange(4.0))
    options = dict(draws=3, tune=5, chains=1, random_seed=1, progress=False)
    fit = Hidden().fit(data, "nuts", nuts={"nuts_sampler": "pymc"}, **options)
    with pytest.raises(ValueError, match="prediction needs '_coefficients'"):
        fit.predict(np.eye(4))


# -------------------------------------------------------------------- files


def test_arviz_reads_a_saved_fit(fit, tmp_path):
    import arviz as az

    path = fit.save(tmp_path / "fit.nc")
    summary = az.summary(xr.open_datatree(path, engine="h5netcdf"), var_names=["feature_cov"])
    assert len(summary) == 4
    assert zoo.load(path).data.transform.y_scale == fit.data.transform.y_scale


def test_file_that_is_no_fit(fit, tmp_path):
    with pytest.raises(FileNotFoundError, match="is no file"):
        zoo.load(tmp_path / "nothing.nc")
    (tmp_path / "text.nc").write_text("not a NetCDF file")
    with pytest.raises(ValueError, match="cannot be read as NetCDF"):
        zoo.load(tmp_path / "text.nc")
    xr.Dataset({"a": ("x", [1.0])}).to_netcdf(tmp_path / "foreign.nc", engine="h5netcdf")
    with pytest.raises(ValueError, match="holds no fit of zoo"):
        zoo.load(tmp_path / "foreign.nc")
    whole = fit.save(tmp_path / "fit.nc").read_bytes()
    (tmp_path / "cut.nc").write_bytes(whole[: len(whole) // 2])
    with pytest.raises(ValueError, match=r"cannot be read as NetCDF|holds no fit"):
        zoo.load(tmp_path / "cut.nc")


def _change(path, **attrs):
    with h5py.File(path, "r+") as file:
        for name, value in attrs.items():
            file.attrs[name] = value
    return path


def test_file_with_another_schema_or_spec(fit, tmp_path):
    path = fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match="schema version 99"):
        zoo.load(_change(path, zoo_schema_version=99))
    spec = fit.factory.to_spec()
    _change(path, zoo_schema_version=SCHEMA_VERSION, zoo_spec=json.dumps({**spec, "factory": "Mine"}))
    with pytest.raises(ValueError, match="'Mine', which is unknown"):
        zoo.load(path)
    with pytest.raises(ValueError, match="a fit of Mine, not of PooledTasks"):
        zoo.load(path, factory=zoo.PooledTasks)
    _change(path, zoo_spec=json.dumps({**spec, "fields": {**spec["fields"], "power": 3}}))
    with pytest.raises(ValueError, match="'power' is unknown"):
        zoo.load(path)
    _change(path, zoo_spec="{not json")
    with pytest.raises(ValueError, match="zoo_spec"):
        zoo.load(path)


def test_a_subclass_comes_back_with_its_class(tmp_path):
    class Mine(zoo.PooledTasks):
        pass

    data = zoo.MultiTaskData.from_arrays(np.eye(4), np.arange(4.0))
    path = Mine().fit(data, draws=3, chains=1, random_seed=1, progress=False).save(tmp_path / "mine.nc")
    assert isinstance(zoo.load(path, factory=Mine).factory, Mine)
    with pytest.raises(ValueError, match="factory="):
        zoo.load(path)


def test_save_leaves_nothing_half_written(fit, tmp_path, monkeypatch):
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fit.save(tmp_path / "no" / "fit.nc")
    path = fit.save(tmp_path / "fit.nc")
    before = path.read_bytes()

    def disk_full(*args, **kwargs):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(xr.DataTree, "to_netcdf", disk_full)
    with pytest.raises(OSError, match="No space left"):
        fit.save(path, overwrite=True)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["fit.nc"]


def test_unwritable_folder(fit, tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.open", refuse)
    with pytest.raises(PermissionError, match="cannot be written to"):
        fit.save(tmp_path / "fit.nc")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (dict(draws=0), "draws is 0"),
        (dict(draws=2.5), "draws is 2.5"),
        (dict(tune=-1), "tune is -1"),
        (dict(chains=0), "chains is 0"),
        (dict(checkpoint=3), "checkpoint is 3"),
        (dict(group_move=True), "group_move"),
    ],
    ids=str,
)
def test_bad_fit_arguments_are_named(fit, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit.factory.fit(fit.data, progress=False, **arguments)


def test_a_subclass_field_needs_the_dataclass_decorator():
    class Forgot(zoo.PooledTasks):
        power: float = 2.0

    with pytest.raises(TypeError, match="declares the field 'power' but is no dataclass"):
        Forgot().build(zoo.MultiTaskData.from_arrays(np.eye(4), np.arange(4.0)))


def test_tasks_given_twice_are_refused(fit):
    with pytest.raises(ValueError, match="task is given twice"):
        fit.predict(fit.data, task="south")


def test_data_of_another_type_is_refused():
    with pytest.raises(TypeError, match=r"zoo\.MultiTaskData"):
        zoo.PooledTasks().fit(pd.DataFrame({"a": [1.0]}))


def test_rows_that_are_standardized_already_are_warned_of():
    rng = np.random.default_rng(0)
    raw = zoo.MultiTaskData.from_arrays(
        3.0 + rng.normal(size=(20, 2)), rng.normal(size=20), np.repeat([0, 1], 10)
    )
    data = raw.standardize()
    fit = zoo.PooledTasks().fit(data, draws=5, chains=1, random_seed=1, progress=False)
    with pytest.warns(UserWarning, match=r"as data\.standardize\(\) made them.*original_X"):
        fit.predict(data.X[:4], task="task 0")
    right = fit.predict(data.original_X(), task=data.task)["mean"]
    assert np.allclose(right, fit.predict(data)["mean"])
    assert np.allclose(right, fit.predict(raw.X, task=raw.task)["mean"])


def test_tables_in_place_of_data_are_refused_by_name():
    frame = pd.DataFrame({"a": [1.0, 2.0], "y": [1.0, 0.0]})
    with pytest.raises(TypeError, match=r"data is a DataFrame.*from_frame"):
        zoo.PooledTasks().fit(frame[["a"]], frame["y"])
    with pytest.raises(TypeError, match=r"data is a DataFrame.*from_frame"):
        zoo.VaryingCoefficientGP().fit(frame[["a"]], frame["y"])
    data = zoo.MultiTaskData.from_frame(frame, y="y")
    with pytest.raises(TypeError, match=r"method is a Series.*'exact'"):
        zoo.PooledTasks().fit(data, frame["y"])


def test_a_class_of_the_users_is_not_taken_for_its_namesake(tmp_path):
    """A subclass under the name of a class of the package was loaded as that one, and predicted by its hooks."""

    class PooledTasks(zoo.PooledTasks):
        def latent(self, data, priors):
            return 2.0 * super().latent(data, priors)

    data = zoo.datasets.simulate_matrix_normal(2, 2, 8, random_seed=1)[0]
    with collected():
        fit = PooledTasks().fit(
            data, "nuts", draws=2, tune=2, chains=1, random_seed=1, progress=False,
            nuts={"nuts_sampler": "pymc", "max_treedepth": 2},
        )  # fmt: skip
    path = fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"PooledTasks', a class of its own"):
        zoo.load(path)
    again = zoo.load(path, factory=PooledTasks)
    assert again.predict(data, random_seed=1).equals(fit.predict(data, random_seed=1))
    assert again.save(tmp_path / "again.nc").read_bytes()


def test_fits_say_which_models_can_do_what_they_cannot(fit):
    able = {name: get_factory(name).fit_class for name in factories()}
    for what, (models, _) in CAPABILITIES.items():
        named = {word for word in models.replace(",", " ").split() if word != "and"}
        assert named == {name for name, kind in able.items() if hasattr(kind, what)}
    assert not hasattr(fit, "relevance")
    with pytest.raises(AttributeError, match="MaxMargin fits have no `add_rows`"):
        fit.add_rows(fit.data)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = fit.nonsense
    assert pickle.loads(pickle.dumps(fit)).method == fit.method


# ---------------------------------------------------------------- a missing intercept

_SHORT = {"draws": 2, "tune": 2, "chains": 1, "random_seed": 1, "progress": False}


def _with_levels(spread, kind="real"):
    rng, T, n = np.random.default_rng(0), 8, 60
    task, X = np.repeat(np.arange(T), n), rng.standard_normal((T * n, 2))
    f = spread * rng.standard_normal(T)[task] + X[:, 0]
    y = f + 0.3 * rng.standard_normal(T * n)
    if kind == "labels":
        y = np.where(f - 1.5 + rng.logistic(size=T * n) > 0.0, 1.0, -1.0)
    if kind == "counts":
        y = rng.poisson(np.exp(2.0 + 0.3 * f)).astype(float)
    return zoo.MultiTaskData.from_arrays(X, y, task)


@pytest.mark.parametrize(
    ("factory", "kind"),
    [
        (zoo.NIWLinear(), "real"),
        (zoo.MaxMargin(likelihood="epsilon_insensitive"), "real"),
        (zoo.IndependentTasks(likelihood="logistic"), "labels"),
        (zoo.NIWLinear(likelihood="negative_binomial"), "counts"),
    ],
    ids=lambda value: value if isinstance(value, str) else type(value).__name__,
)
def test_a_missing_intercept_is_pointed_out(factory, kind):
    data = _with_levels(1.0, kind)
    with pytest.warns(UserWarning, match=r"constant in each task explains \d+%.*add_intercept\(\)"):
        factory.fit(data, **_SHORT)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        warnings.simplefilter("ignore", zoo.PriorWarning)
        factory.fit(data.add_intercept(), **_SHORT)


@pytest.mark.parametrize(
    ("factory", "spread"),
    [(zoo.NIWLinear(), 0.0), (zoo.PooledTasks(), 1.0)],
    ids=["none", "none in the model"],
)
def test_no_intercept_is_asked_for_where_there_are_no_levels(factory, spread):
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        warnings.simplefilter("ignore", zoo.PriorWarning)
        factory.fit(_with_levels(spread), **_SHORT)


@pytest.mark.parametrize(
    "kind", ["slopes that differ", "features that sum to one", "a feature that is nearly constant"]
)
def test_no_intercept_is_asked_for_where_features_do_without(kind):
    rng, T, n = np.random.default_rng(0), 8, 60
    task = np.repeat(np.arange(T), n)
    if kind == "slopes that differ":
        X = np.abs(rng.normal(size=(T * n, 1)))
        y = (2.0 * rng.normal(size=T))[task] * X[:, 0]
    else:
        y = 2.0 * rng.normal(size=T)[task]
        X = (
            np.eye(3)[rng.integers(0, 3, T * n)]
            if "sum" in kind
            else 1.0 + 1e-9 * rng.normal(size=(T * n, 1))
        )
    data = zoo.MultiTaskData.from_arrays(X, y + 0.3 * rng.normal(size=T * n), task)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        zoo.NIWLinear().fit(data, **_SHORT)


def test_a_model_with_a_field_for_it_is_asked_for_no_intercept():
    data = _with_levels(1.0)
    rows = zoo.MultiTaskData.from_arrays(
        data.X, data.y, data.task, t=np.arange(data.n_rows, dtype=float)[:, None]
    )
    model = zoo.KernelLocalSmoothing(bandwidth=100.0, ridge=1.0, intercept=False)
    with warnings.catch_warnings():
        warnings.simplefilter("error", UserWarning)
        model.fit(rows, "map", progress=False)
