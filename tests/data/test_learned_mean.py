"""A feature that an estimator of scikit-learn predicts: out of fold, at new rows, in files; and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest

import zoo

sklearn = pytest.importorskip("sklearn")
from sklearn.cluster import KMeans  # noqa: E402
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor  # noqa: E402
from sklearn.linear_model import LinearRegression  # noqa: E402
from sklearn.neighbors import KNeighborsRegressor  # noqa: E402
from sklearn.svm import SVC  # noqa: E402

rng = np.random.default_rng(0)
T, N = 20, 40
TASK = np.repeat(np.arange(T), N)
FRAME = pd.DataFrame(rng.normal(size=(T * N, 3)), columns=["a", "b", "c"])
FRAME["task"] = [f"t{t}" for t in TASK]
FRAME["y"] = 20.0 + 5.0 * np.sin(2.0 * FRAME["a"]) * FRAME["b"] + 2.0 * rng.normal(size=T)[TASK]
FRAME["y"] += 0.5 * rng.normal(size=T * N)
BOOSTING = HistGradientBoostingRegressor(random_state=0, max_iter=60)


def make(df=FRAME):
    return zoo.MultiTaskData.from_frame(df, y="y", task="task")


def fitted(data, factory=None):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return (factory or zoo.NIWLinear()).fit(
            data, draws=60, tune=60, chains=2, random_seed=1, progress=False
        )


@pytest.fixture(scope="module")
def fit():
    return fitted(make(FRAME[::2]).add_mean(BOOSTING, random_seed=1).standardize().add_intercept())


def test_a_string_is_one_feature():
    data = make().add_mean(LinearRegression(), features="a", random_seed=1)
    assert data.feature_names == ("mean", "b", "c")
    assert data.learned_mean.seen == ("a",)
    with pytest.raises(ValueError, match="features: 'time' is unknown"):
        make().add_mean(LinearRegression(), features="time")


def test_no_row_teaches_its_own_value():
    """A nearest neighbour that had seen a row would predict its response exactly."""
    nearest = KNeighborsRegressor(1)
    data = make().add_mean(nearest, random_seed=1)
    assert np.abs(data.X[:, 0] - data.y).min() > 0.0
    assert data.feature_names == ("mean",)
    whole = make().add_mean(nearest, whole_tasks=True, random_seed=1)
    assert np.abs(whole.X[:, 0] - data.X[:, 0]).max() > 0.0
    at_rows = nearest.fit(FRAME[["a", "b", "c"]], FRAME["y"]).predict(FRAME[["a", "b", "c"]])
    np.testing.assert_array_equal(at_rows, data.y)  # where all rows had been seen


def test_whole_tasks_are_held_out():
    """The estimator sees the number of the task alone, and so learns its level where it may."""
    frame = pd.DataFrame({"number": TASK.astype(float), "task": FRAME["task"], "y": 10.0 * (TASK % 2)})
    nearest = KNeighborsRegressor(1)
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="task", features=["number"])
    rows = data.add_mean(nearest, random_seed=1)
    tasks = data.add_mean(nearest, whole_tasks=True, random_seed=1)
    assert np.mean(rows.X[:, 0] == rows.y) == 1.0
    assert np.mean(tasks.X[:, 0] == tasks.y) < 0.7


def test_predictions_take_the_table_as_it_was(fit, tmp_path):
    test = FRAME[1::2]
    found = fit.predict(test)["mean"].to_numpy()
    by_hand = test.assign(mean=fit.data.learned_mean.estimator.predict(test[["a", "b", "c"]].to_numpy()))
    plain = fitted(
        zoo.MultiTaskData.from_arrays(
            fit.data.original_X()[:, :1],
            fit.data.original_y(),
            FRAME["task"][::2].to_numpy(),
            feature_names=["mean"],
        )
        .standardize()
        .add_intercept()
    )
    np.testing.assert_allclose(plain.predict(by_hand, by_hand["task"])["mean"], found, rtol=1e-9)
    np.testing.assert_allclose(fit.predict(make(test))["mean"], found, rtol=1e-12)
    np.testing.assert_allclose(
        fit.predict(test[["a", "b", "c"]].to_numpy(), test["task"])["mean"], found, rtol=1e-12
    )
    error = np.sqrt(np.mean((found - test["y"]) ** 2))
    assert error < 0.75 * np.sqrt(
        np.mean(
            (fitted(make(FRAME[::2]).standardize().add_intercept()).predict(test)["mean"] - test["y"]) ** 2
        )
    )
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"prediction of HistGradientBoostingRegressor.*which no file holds"):
        loaded.predict(test)
    with pytest.raises(
        ValueError, match="which no file holds"
    ):  # a column of the table called "mean" is another
        loaded.predict(by_hand)
    features = [name for name in loaded.data.feature_names if name != "intercept"]
    in_order = by_hand.assign(mean=by_hand["mean"])[features].to_numpy()
    np.testing.assert_allclose(loaded.predict(in_order, by_hand["task"])["mean"], found, rtol=1e-12)
    whole = zoo.load(tmp_path / "fit.nc", mean=fit.data.learned_mean.estimator)
    np.testing.assert_allclose(whole.predict(test)["mean"], found, rtol=1e-12)


def test_new_tasks_and_condition(fit):
    new = FRAME[1:30:2].assign(task="new", y=FRAME["y"] + 30.0)
    assert fit.predict(new, new_task=True)["mean"].shape == (15,)
    conditioned = fit.condition(make(new), random_seed=1)
    assert np.mean(np.abs(conditioned.predict(new)["mean"] - new["y"])) < 5.0


def test_a_formula_beside_it():
    pytest.importorskip("formulae")
    data = zoo.MultiTaskData.from_formula("y ~ a + b + c + (1 | task)", FRAME)
    data = data.add_mean(BOOSTING, features=["a", "b", "c"], keep=["c"], random_seed=1)
    assert data.feature_names == ("mean", "Intercept", "c")
    assert data.shared_names == ("c",)
    fit = fitted(data.standardize())
    assert fit.predict(FRAME)["mean"].shape == (T * N,)


def test_labels_give_log_odds():
    labels = FRAME.assign(y=(FRAME["y"] > 20.0).astype(int))
    data = make(labels).add_mean(HistGradientBoostingClassifier(random_state=0, max_iter=20), random_seed=1)
    assert data.X[:, 0].min() < -1.0 and data.X[:, 0].max() > 1.0


def test_weights_reach_the_estimator():
    frame = FRAME.assign(w=np.where(np.arange(T * N) % 2, 1.0, 1e-9))
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="task", weight="w")
    weighted = data.add_mean(LinearRegression(), levels=False, random_seed=1).learned_mean.estimator
    odd = LinearRegression().fit(frame[["a", "b", "c"]][1::2].to_numpy(), frame["y"][1::2])
    np.testing.assert_allclose(weighted.coef_, odd.coef_, rtol=1e-6)


def test_a_file_knows_its_estimator_again(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    right = fit.data.learned_mean.estimator
    loaded = zoo.load(tmp_path / "fit.nc", mean=right)
    assert loaded.data.learned_mean.probe == fit.data.learned_mean.probe
    X = FRAME[["a", "b", "c"]].to_numpy()
    with pytest.raises(ValueError, match=r"predicts 0 where the estimator of the saved fit predicted"):
        zoo.load(tmp_path / "fit.nc", mean=LinearRegression().fit(X, 0.0 * FRAME["y"]))
    with pytest.raises(ValueError, match=r"mean is LinearRegression\(\), which predicts nothing"):
        zoo.load(tmp_path / "fit.nc", mean=LinearRegression())


@pytest.mark.parametrize("whole_tasks", [False, True])
def test_a_mean_that_knows_tasks_by_a_column_warns_where_it_serves_others(whole_tasks):
    """Intervals are right for one kind of task, known or new, and a prediction for the other kind warns."""
    frame = FRAME.assign(size=np.random.default_rng(7).normal(size=T)[TASK])
    data = make(frame).add_mean(BOOSTING, whole_tasks=whole_tasks, random_seed=1)
    assert data.learned_mean.still == ("size",)
    fit = fitted(data.standardize().add_intercept())
    new = frame.head(3).assign(task="new")
    served, other = (new, frame.head(3)) if whole_tasks else (frame.head(3), new)
    fit.predict(served, new_task=whole_tasks)
    with pytest.warns(
        UserWarning, match=r"reads 'size', which stands still within tasks.* may be much too narrow"
    ):
        fit.predict(other, new_task=not whole_tasks)


def test_tasks_of_one_row_do_not_make_columns_stand_still():
    alone = zoo.MultiTaskData.from_frame(FRAME.assign(task=np.arange(T * N)), y="y", task="task")
    assert alone.add_mean(LinearRegression(), random_seed=1).learned_mean.still == ()


def test_a_column_that_was_coded_is_known_by_its_name():
    frame = FRAME.assign(city=np.array(["Oslo", "Rome"])[np.arange(T * N) % 2])
    data = make(frame).add_mean(LinearRegression(), ["a", "city"], keep="city", random_seed=1)
    assert data.learned_mean.seen == ("a", "city[Rome]")
    assert data.feature_names == ("mean", "b", "c", "city[Rome]")


def test_what_predicts_no_response_is_refused():
    labels = FRAME.assign(y=(FRAME["y"] > 20.0).astype(int))
    for data, estimator, error, message in (
        (labels, SVC(), TypeError, r"SVC\(\), which has no probabilities"),
        (FRAME, KMeans(3), TypeError, "predicts no response"),
        (FRAME, HistGradientBoostingClassifier(), ValueError, "a classifier, and y holds real numbers"),
    ):
        with pytest.raises(error, match=message):
            make(data).add_mean(estimator)


def test_what_would_leak_is_refused(fit):
    data = make().add_mean(LinearRegression(), random_seed=1)
    for split in (data.split, data.folds):
        with pytest.raises(ValueError, match="learned from all rows by add_mean, so that"):
            split()
    with pytest.raises(
        ValueError, match=r"learned from other rows\. Pass the rows as they were before add_mean"
    ):
        fit.predict(make().add_mean(LinearRegression(), random_seed=1).add_intercept())


def test_bad_arguments():
    data = make()
    for arguments, error, message in (
        ({"estimator": LinearRegression}, TypeError, "Give a regressor or classifier of scikit-learn"),
        ({"estimator": LinearRegression(), "features": ["q"]}, ValueError, "features: 'q' is unknown"),
        ({"estimator": LinearRegression(), "features": []}, ValueError, "no feature for the estimator"),
        ({"estimator": LinearRegression(), "keep": ["q"]}, ValueError, "keep: 'q' is unknown"),
        ({"estimator": LinearRegression(), "name": "a"}, ValueError, "name 'a' is taken"),
        ({"estimator": LinearRegression(), "folds": 1}, ValueError, "folds"),
        (
            {"estimator": LinearRegression(), "folds": 21, "whole_tasks": True},
            ValueError,
            "21, and the data have 20 tasks",
        ),
    ):
        with pytest.raises(error, match=message):
            data.add_mean(**arguments)
    with pytest.raises(ValueError, match=r"standardized already\. Call add_mean first"):
        data.standardize().add_mean(LinearRegression())
    with pytest.raises(ValueError, match="have a learned mean already"):
        data.add_mean(LinearRegression()).add_mean(LinearRegression())


def test_bad_rows(fit):
    with pytest.raises(ValueError, match="X has no column 'b', of which HistGradientBoostingRegressor"):
        fit.predict(FRAME.drop(columns="b"))
    with pytest.raises(ValueError, match="mean is given, and the fit in"):
        zoo.load(_saved_without(fit), mean=LinearRegression())


def _saved_without(fit):
    import tempfile
    from pathlib import Path

    path = Path(tempfile.mkdtemp()) / "plain.nc"
    fitted(make(FRAME[::2]).standardize().add_intercept()).save(path)
    return path


def test_inputs_that_tasks_share_are_dealt_whole():
    """Labels of one input go together, and the input says nothing: a copy that had seen one would tell the others."""
    rng = np.random.default_rng(0)
    X, names = rng.normal(size=(80, 3)), [f"label {i}" for i in range(6)]
    Y = rng.normal(size=(80, 1)) + 0.1 * rng.normal(size=(80, 6))
    labels = zoo.MultiTaskData.from_multilabel(pd.DataFrame(X), pd.DataFrame(Y, columns=names))
    data = labels.add_mean(KNeighborsRegressor(1), random_seed=1)
    assert (
        abs(np.corrcoef(data.X[:, 0], data.y)[0, 1]) < 0.3
    )  # null: |r| < 0.3 of 80 pairs fails in 1 of 150 seeds
    with pytest.raises(ValueError, match="whole_tasks is True, and the tasks share their inputs"):
        labels.add_mean(KNeighborsRegressor(1), whole_tasks=True)


def test_a_formula_keeps_its_levels_and_its_constant():
    clinic = np.array(list("uvw"))[np.arange(T * N) % 3]
    frame = FRAME.assign(clinic=clinic, kind=np.where(TASK % 2, "k", "l"))
    data = zoo.MultiTaskData.from_formula("y ~ kind + a + b + (1 | task) + (1 | clinic)", frame)
    train, test = data.split(0.3, random_seed=1)
    made = train.add_mean(LinearRegression(), random_seed=1)
    assert made.feature_names == ("mean", "Intercept", "1|clinic[u]", "1|clinic[v]", "1|clinic[w]")
    assert made.shared_names == ("1|clinic[u]", "1|clinic[v]", "1|clinic[w]")
    fit = fitted(made.standardize())
    rows = fit.predict(test, random_seed=1)["mean"].to_numpy()
    whole = fit.predict(frame, random_seed=1)["mean"].to_numpy()
    held = np.isin(frame["y"], test.y)  # by value: no two responses are the same
    order = np.argsort(test.y)
    np.testing.assert_allclose(rows[order], whole[held][np.argsort(frame["y"][held])], rtol=1e-9)
    np.testing.assert_allclose(fit.predict(data.like(frame.head(5)))["mean"], whole[:5], rtol=1e-9)


def test_estimators_that_cannot_serve_say_so():
    grades = make(FRAME.assign(y=1.0 + np.digitize(FRAME["y"], [15.0, 25.0])))
    with pytest.raises(ValueError, match=r"finds 3 classes in y.* Give a regressor"):
        grades.add_mean(HistGradientBoostingClassifier(max_iter=5))
    weighted = zoo.MultiTaskData.from_frame(
        FRAME.assign(w=2.0), y="y", task="task", weight="w", features=["a"]
    )
    with pytest.raises(ValueError, match=r"KNeighborsRegressor\(n_neighbors=1\) takes none in fit"):
        weighted.add_mean(KNeighborsRegressor(1))
