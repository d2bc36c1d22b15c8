"""Estimators of scikit-learn around the factories."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pandas as pd
import polars as pl
import pytest
import sklearn
from scipy.sparse import csr_matrix
from sklearn.base import clone
from sklearn.compose import ColumnTransformer
from sklearn.model_selection import (
    GridSearchCV,
    GroupKFold,
    cross_val_predict,
    cross_val_score,
    cross_validate,
)
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import check_estimator

import zoo
from zoo.sklearn import MultiTaskClassifier, MultiTaskRegressor, RowsWithinTasks, WholeTasks

QUICK = {"draws": 40, "tune": 40, "chains": 2, "random_state": 0}
# Its laplace and exact methods need no compilation of their own.
LOGISTIC = zoo.IndependentTasks(likelihood="logistic")


@pytest.fixture
def table():
    """Six schools whose coefficients are alike, with a response far from 0 and a label."""
    rng = np.random.default_rng(0)
    school = np.repeat(np.arange(6), 12)
    coefficients = np.array([1.0, -1.0]) + 0.2 * rng.normal(size=(6, 2))
    X = rng.normal(size=(72, 2))
    f = np.sum(X * coefficients[school], axis=1)
    df = pd.DataFrame(X, columns=["a", "b"])
    df.insert(1, "school", np.array(list("uvwxyz"))[school])
    return df.assign(y=20.0 + f + 0.1 * rng.normal(size=72), label=np.where(f > 0.0, "pass", "fail"))


FEATURES = ["a", "school", "b"]


# ---------------------------------------------------------------- scikit-learn's own checks

SPAN = (
    "With fewer rows than features PooledTasks draws in the span of the rows, and the same seed then gives other "
    "numbers for repeated rows than for weighted ones: the law is the same, as test_a_weight_counts_rows shows."
)
SAMPLED = (
    "A row of weight 2 and the same row twice have one posterior, of which the same seed draws other numbers: the sums "
    "that the sampler starts from differ by rounding, or in their order."
)
NO_LABEL = "A task may be any text, so that an object is refused as a task, in other words than as a number."
CHECKED = {
    "numbers": (MultiTaskRegressor(zoo.PooledTasks(), **QUICK), {}),
    "tasks in a column": (MultiTaskRegressor(zoo.PooledTasks(), task=0, **QUICK), {"check_dtype_object": NO_LABEL}),
    "a population": (
        MultiTaskRegressor(zoo.NIWLinear(), task=None, **QUICK),
        {"check_sample_weight_equivalence_on_dense_data": SAMPLED},
    ),
    "labels": (
        MultiTaskClassifier(zoo.PooledTasks(likelihood="logistic"), **QUICK),
        {"check_sample_weight_equivalence_on_dense_data": SPAN},
    ),
}  # fmt: skip


# A classifier with task=0 is left out: in the numbers of these checks every task would have one row, and so one class.
@pytest.mark.filterwarnings("ignore")  # the checks hand over what estimators should warn of
@pytest.mark.parametrize("case", CHECKED)
def test_scikit_learns_checks_pass(case):
    estimator, expected = CHECKED[case]
    results = check_estimator(estimator, expected_failed_checks=expected, on_fail="raise", on_skip=None)
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(expected)
    assert sum(r["status"] == "passed" for r in results) > 50


# ---------------------------------------------------------------- parameters


def test_fields_of_the_factory_are_parameters():
    estimator = MultiTaskRegressor(zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C=2.0)), draws=7)
    assert estimator.get_params()["factory__likelihood__C"] == 2.0
    assert not any("__" in name for name in estimator.get_params(deep=False))
    before = estimator.factory
    estimator.set_params(factory__likelihood__C=0.5, draws=8)
    assert (estimator.factory.likelihood.C, estimator.draws, before.likelihood.C) == (0.5, 8, 2.0)
    # The factory is set before its fields are, in whatever order they come.
    estimator.set_params(factory__prior_scale=3.0, factory=zoo.PooledTasks())
    assert estimator.factory == zoo.PooledTasks(prior_scale=3.0)
    with pytest.raises(ValueError, match=r"'scale' is unknown.*prior_scale"):
        estimator.set_params(factory__scale=1.0)
    with pytest.raises(TypeError, match=r"factory__C is set, but factory is 3"):
        estimator.set_params(factory=3, factory__C=1.0)


@pytest.mark.parametrize(
    "name", ["MaxMargin", "NIWGaussianProcess", "MultiTaskKernelMachine", "VaryingCoefficientGP"]
)
def test_a_clone_has_an_equal_factory(name):
    estimator = MultiTaskRegressor(getattr(zoo, name)(), task="school", options={"cores": 1})
    copy = clone(estimator)
    assert copy.get_params(deep=False) == estimator.get_params(deep=False)
    assert repr(copy) == repr(estimator)


def test_wrong_factories_are_refused(table):
    with pytest.raises(TypeError, match=r"factory is 'NIWLinear'\. Give a factory"):
        MultiTaskRegressor("NIWLinear").fit(table[["a"]], table["y"])
    with pytest.raises(ValueError, match=r"'logistic', which is for labels. Use MultiTaskClassifier"):
        MultiTaskRegressor(LOGISTIC).fit(table[["a"]], table["y"])
    with pytest.raises(ValueError, match=r"'gaussian', which is for numbers. Use MultiTaskRegressor"):
        MultiTaskClassifier(zoo.PooledTasks()).fit(table[["a"]], table["label"])


# ---------------------------------------------------------------- tasks


def test_the_task_is_a_column_a_position_or_an_argument(table):
    factory, X, y = zoo.IndependentTasks(), table[FEATURES], table["y"]
    by_name = MultiTaskRegressor(factory, task="school", **QUICK).fit(X, y)
    by_place = MultiTaskRegressor(factory, task=1, **QUICK).fit(X.to_numpy(dtype=object), y.to_numpy())
    beside = MultiTaskRegressor(factory, **QUICK).fit(X[["a", "b"]], y, task=X["school"])
    predicted = by_name.predict(X)
    np.testing.assert_array_equal(by_place.predict(X.to_numpy(dtype=object)), predicted)
    np.testing.assert_array_equal(beside.predict(X[["a", "b"]], task=X["school"]), predicted)
    np.testing.assert_array_equal(
        beside.predict(X[["a", "b"]].iloc[:12], task="u"),
        beside.predict(X[["a", "b"]], task=X["school"])[:12],
    )
    assert list(by_name.feature_names_in_) == FEATURES and by_name.n_features_in_ == 3
    assert list(by_name.tasks_) == list("uvwxyz")
    assert by_name.score(X, y) > 0.97
    assert beside.score(X[["a", "b"]], y, task=X["school"]) == by_name.score(X, y)


def test_predictions_are_those_of_the_factory(table):
    X, y = table[FEATURES], table["y"]
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK).fit(X, y)
    data = (
        zoo.MultiTaskData.from_frame(table[[*FEATURES, "y"]], y="y", task="school")
        .standardize()
        .add_intercept()
    )
    np.testing.assert_array_equal(estimator.fit_.data.X, data.X)
    np.testing.assert_array_equal(estimator.fit_.data.y, data.y)
    expected = estimator.fit_.predict(data, random_seed=1)
    mean, sd = estimator.predict(X, return_std=True)
    np.testing.assert_allclose(mean, expected["mean"], rtol=1e-12)
    np.testing.assert_allclose(sd, expected["sd"], rtol=1e-12)


_DAYS = np.array(["2020-01-03", "2020-01-01", "2020-01-02"], dtype="datetime64[D]")


@pytest.mark.parametrize(
    "labels", [[3, 1, 2], [3.0, 1.0, 2.0], [True, False, True], _DAYS, _DAYS - _DAYS.min()]
)
def test_labels_need_not_be_text(labels, table):
    X = table[["a", "b"]].iloc[:36].assign(school=np.repeat(labels, 12))
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK).fit(X, table["y"][:36])
    assert len(estimator.tasks_) == len(set(labels))
    whole = estimator.predict(X)
    np.testing.assert_array_equal(estimator.predict(X.iloc[12:24]), whole[12:24])


def test_a_new_task_is_predicted_from_the_population(table):
    known = table["school"] != "z"
    X, y = table[FEATURES], table["y"]
    factory = zoo.MultiTaskKernelMachine(likelihood="gaussian")
    estimator = MultiTaskRegressor(factory, task="school", **QUICK).fit(X[known], y[known])
    with pytest.warns(UserWarning, match=r"12 rows of X name tasks that the fit has not, such as 'z'"):
        assert estimator.score(X[~known], y[~known]) > 0.8
    estimator.set_params(new_tasks="predict")
    # Rows of known and of new tasks come in one call, and back in their places.
    both = estimator.predict(X)
    np.testing.assert_allclose(both[known], estimator.predict(X[known]), rtol=1e-12)
    np.testing.assert_array_equal(both[~known], estimator.predict(X[~known]))


def test_a_model_without_a_population_says_so(table):
    known = table["school"] != "z"
    kernel = zoo.kernels.TaskGraph.from_edges([("u", "v"), ("v", "w"), ("w", "x"), ("x", "y")], list("uvwxy"))
    factory = zoo.MultiTaskKernelMachine(likelihood="gaussian", kernel=zoo.kernels.GraphLaplacian(2, kernel))
    estimator = MultiTaskRegressor(factory, task="school", fit_intercept=False, **QUICK)
    estimator.fit(table.loc[known, FEATURES], table.loc[known, "y"])
    with pytest.raises(
        ValueError, match=r"task 'z' is not among the 5 tasks of the fit, and the model does not"
    ):
        estimator.predict(table[FEATURES])


def test_what_is_wrong_with_a_task_is_said(table):
    X, y = table[FEATURES], table["y"]
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK)
    with pytest.raises(
        ValueError, match="the task is given twice: by the argument task, and by column 'school'"
    ):
        estimator.fit(X, y, task=X["school"])
    with pytest.raises(
        ValueError, match=r"X has no column 'school', which task names. Its columns are a, b."
    ):
        estimator.fit(X[["a", "b"]], y)
    with pytest.raises(ValueError, match="task is the name 'school', and X has no names of columns"):
        estimator.fit(X[["a", "b"]].to_numpy(), y)
    with pytest.raises(ValueError, match=r"task 'school' is missing \(NaN\) in row 2"):
        estimator.fit(X.assign(school=X["school"].where(X.index != 2)), y)
    with pytest.raises(ValueError, match="task and t take all of them"):
        estimator.fit(X[["school"]], y)
    beside = MultiTaskRegressor(zoo.IndependentTasks(), **QUICK).fit(X[["a", "b"]], y, task=X["school"])
    with pytest.raises(ValueError, match=r"task is missing: .* 6 tasks.*set_score_request"):
        beside.predict(X[["a", "b"]])
    with pytest.raises(ValueError, match=r"task has shape \(3,\) and X has 72 rows"):
        beside.predict(X[["a", "b"]], task=["u", "v", "w"])
    with pytest.raises(ValueError, match="task has another index than X"):
        beside.predict(X[["a", "b"]], task=X["school"].iloc[::-1])
    alone = MultiTaskRegressor(zoo.PooledTasks(), **QUICK).fit(X[["a", "b"]], y)
    with pytest.raises(ValueError, match="fitted without tasks"):
        alone.predict(X[["a", "b"]], task="u")


def test_a_model_of_many_tasks_refuses_that_there_is_none_unless_it_was_told(table):
    estimator = MultiTaskRegressor(zoo.MultiTaskKernelMachine(likelihood="gaussian"), **QUICK)
    X, y = table[["a", "b"]], table["y"]
    with pytest.raises(
        ValueError, match=r"no task was named, and MultiTaskKernelMachine learns .* with task="
    ):
        estimator.fit(X, y)
    assert len(estimator.fit(X, y, task=table["school"]).tasks_) == 6
    told = estimator.set_params(task=None).fit(X, y)
    assert list(told.tasks_) == ["one task"] and told.fit_.data.task_column is None


def test_a_continuous_task_variable_is_a_column(table):
    X = table[["a", "b"]].assign(year=np.linspace(0.0, 1.0, 72))
    estimator = MultiTaskRegressor(zoo.PooledGP(), t="year", fit_intercept="auto", **QUICK).fit(X, table["y"])
    assert estimator.fit_.data.t_names == ("year",)
    # The model has a constant of its own.
    assert estimator.fit_.data.feature_names == ("a", "b")
    assert estimator.score(X, table["y"]) > 0.9
    with pytest.raises(ValueError, match="X has no column 'month', which t names"):
        estimator.set_params(t=["month"]).fit(X, table["y"])


def test_tables_of_other_libraries_are_read(table):
    X, y = table[FEATURES], table["y"]
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK)
    expected = estimator.fit(X, y).predict(X)
    np.testing.assert_array_equal(
        estimator.fit(pl.from_pandas(X), pl.from_pandas(y)).predict(pl.from_pandas(X)), expected
    )
    with pytest.raises(ValueError, match="feature names"):
        estimator.predict(pl.from_pandas(X[["b", "school", "a"]]))


# ---------------------------------------------------------------- classes and weights


def test_classes_are_as_the_user_coded_them(table):
    X, label = table[FEATURES], table["label"]
    estimator = MultiTaskClassifier(LOGISTIC, task="school", **QUICK).fit(X, label)
    assert list(estimator.classes_) == ["fail", "pass"]
    chance = estimator.predict_proba(X)
    np.testing.assert_allclose(chance.sum(axis=1), 1.0)
    predicted = estimator.predict(X)
    np.testing.assert_array_equal(predicted, estimator.classes_[chance.argmax(axis=1)])
    assert estimator.score(X, label) == np.mean(predicted == label) > 0.9
    with pytest.raises(ValueError, match=r"Only binary classification is supported.*3 classes"):
        estimator.fit(X, np.arange(72) % 3)
    with pytest.raises(ValueError, match=r"y has one class only, 1\.0"):
        estimator.fit(X, np.ones(72))


# ---------------------------------------------------------------- grades

NAMES = ["lo", "mid", "hi"]  # not in the order of the alphabet


@pytest.fixture
def graded(table):
    """The response in three grades, as numbers from 0 and as ordered categories."""
    code = np.digitize(table["y"], np.quantile(table["y"], [0.33, 0.66]))
    return table.assign(code=code, grade=pd.Categorical.from_codes(code, NAMES, ordered=True))


def _grades(grades=3):
    return MultiTaskClassifier(zoo.NIWLinear(likelihood=zoo.Ordinal(grades=grades)), task="school", **QUICK)


def test_named_grades_are_sorted_for_scikit_learn_and_keep_their_order_beside(graded):
    X, y = graded[FEATURES], graded["grade"]
    estimator = _grades().fit(X, y)
    assert list(estimator.classes_) == ["hi", "lo", "mid"] and list(estimator.grades_) == NAMES
    chance = estimator.predict_proba(X)
    of_fit = estimator.fit_.predict(X, random_seed=estimator._prediction_seed)["probability"]
    np.testing.assert_array_equal(chance, of_fit.sel(grade=[3.0, 1.0, 2.0]).to_numpy())
    np.testing.assert_array_equal(estimator.predict(X), estimator.classes_[chance.argmax(axis=1)])
    assert estimator.score(X, y) > 0.7


# Test folds are small, and so are the fits: what is tested is the order of the columns.
@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
@pytest.mark.parametrize("scoring", ["neg_log_loss", "roc_auc_ovr"])
def test_scores_by_name_read_the_probabilities_of_named_grades(graded, scoring):
    folds = RowsWithinTasks(2, task="school", random_state=1)
    X, of_numbers = graded[FEATURES], _grades((0, 1, 2))
    by_number = cross_val_score(of_numbers, X, graded["code"], scoring=scoring, cv=folds)
    by_name = cross_val_score(_grades(), X, graded["grade"], scoring=scoring, cv=folds)
    np.testing.assert_allclose(by_name, by_number)


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_cross_validated_probabilities_need_grades_that_scikit_learn_does_not_recode(graded):
    X, folds = graded[FEATURES], RowsWithinTasks(2, task="school", random_state=1)
    options = {"cv": folds, "method": "predict_proba"}
    for y in (graded["grade"], graded["code"] + 1):
        with pytest.raises(
            ValueError, match=r"y holds 0, .*numbers 0 to 2 .*zoo.Ordinal\(grades=\(0, 1, 2\)\)"
        ):
            cross_val_predict(_grades(), X, y, **options)
    chance = cross_val_predict(_grades((0, 1, 2)), X, graded["code"], **options)
    assert np.mean(chance.argmax(axis=1) == graded["code"]) > 0.6


def test_named_grades_are_not_read_as_other_numbers(graded):
    some = graded[graded["code"] < 2]
    with pytest.raises(
        ValueError, match=r"3 ordered categories, and the likelihood the grades 0, 1, 2\. Give"
    ):
        _grades((0, 1, 2)).fit(some[FEATURES], some["grade"])


@pytest.mark.parametrize("standardize", [True, False])
@pytest.mark.parametrize("kind", ["numbers", "labels"])
def test_a_weight_counts_rows(kind, standardize, table):
    weight = np.random.default_rng(1).integers(0, 4, size=72)
    weight[:2] = 2  # no task loses all rows
    X, column = table[FEATURES], "y" if kind == "numbers" else "label"
    estimator = (
        MultiTaskRegressor(zoo.IndependentTasks(), task="school", standardize=standardize, **QUICK)
        if kind == "numbers"
        else MultiTaskClassifier(LOGISTIC, task="school", standardize=standardize, **QUICK)
    )
    method = "predict" if kind == "numbers" else "predict_proba"
    weighted = getattr(estimator.fit(X, table[column], sample_weight=weight), method)(X)
    rows = np.repeat(np.arange(72), weight)
    repeated = getattr(estimator.fit(X.iloc[rows], table[column].iloc[rows]), method)(X)
    np.testing.assert_allclose(weighted, repeated, rtol=1e-8)


def test_equal_weights_serve_models_that_know_none(table):
    X, y = table[["a", "b"]], table["y"]
    estimator = MultiTaskRegressor(zoo.PooledTasks(likelihood="gaussian"), **QUICK)
    expected = estimator.fit(X, y).predict(X)
    np.testing.assert_array_equal(estimator.fit(X, y, sample_weight=np.ones(72)).predict(X), expected)
    assert estimator.fit_.data.weight is None
    with pytest.raises(ValueError, match=r"sample_weight is 0 in every row|at least one non-zero"):
        estimator.fit(X, y, sample_weight=np.zeros(72))
    with pytest.raises(ValueError, match=r"sample_weight is -1 in row 1\. Give weights of 0 or above"):
        estimator.fit(X, y, sample_weight=np.where(np.arange(72) == 1, -1.0, 1.0))


def test_a_constant_feature_finds_a_free_name(table):
    X = table[["a", "b"]].rename(columns={"a": "intercept"})
    estimator = MultiTaskRegressor(zoo.PooledTasks(), **QUICK).fit(X, table["y"])
    assert estimator.fit_.data.feature_names == ("intercept", "b", "(intercept)")
    assert estimator.score(X, table["y"]) > 0.9
    without = MultiTaskRegressor(zoo.PooledTasks(), fit_intercept=False, **QUICK).fit(X, table["y"])
    assert without.fit_.data.feature_names == ("intercept", "b")
    with pytest.raises(ValueError, match=r"fit_intercept is 'yes'\. Give True, False or"):
        estimator.set_params(fit_intercept="yes").fit(X, table["y"])


@pytest.mark.parametrize(
    "factory", [zoo.NIWLinear(shared=["age"]), zoo.MaxMargin(likelihood="gaussian", shared=["age"])]
)
def test_a_constant_is_added_beside_shared_features(factory, table):
    X = table[FEATURES].assign(age=table["school"].map(dict(zip("uvwxyz", range(6), strict=True))))
    estimator = MultiTaskRegressor(factory, task="school", **QUICK).fit(X, table["y"] + 10.0 * X["age"])
    assert estimator.fit_.data.feature_names == ("a", "b", "age", "intercept")
    assert list(estimator.fit_.posterior["feature"].to_numpy()) == ["a", "b", "intercept"]
    # Tasks that differ in their levels alone.
    levels = MultiTaskRegressor(factory, task="school", **QUICK).fit(X[["age", "school"]], table["y"])
    assert list(levels.fit_.posterior["feature"].to_numpy()) == ["intercept"]
    own = MultiTaskRegressor(zoo.NIWGaussianProcess(shared=["age"]), task="school", **QUICK)
    own.fit(X, table["y"])
    assert own.fit_.data.feature_names == ("a", "b", "age")


def test_counts_are_not_standardized(table):
    counts = np.random.default_rng(3).poisson(np.exp(0.3 * table["a"].to_numpy() + 1.0))
    estimator = MultiTaskRegressor(zoo.NIWLinear(likelihood="negative_binomial"), task="school", **QUICK)
    estimator.fit(table[FEATURES], counts)
    np.testing.assert_array_equal(estimator.fit_.data.y, counts)
    assert np.all(estimator.predict(table[FEATURES]) > 0.0)


def test_sparse_features_stay_sparse(table):
    X, y = csr_matrix(table[["a", "b"]].to_numpy()), table["y"].to_numpy()
    estimator = MultiTaskRegressor(zoo.NIWGaussianProcess(), **QUICK)
    with pytest.raises(ValueError, match="X is sparse, and standardize=True would fill it"):
        estimator.fit(X, y, task=table["school"])
    with pytest.raises(ValueError, match="sparse matrix, and PooledTasks needs a dense one"):
        MultiTaskRegressor(zoo.PooledTasks(), standardize=False, **QUICK).fit(X, y)
    assert estimator.__sklearn_tags__().input_tags.sparse


def test_a_pickled_estimator_predicts_the_same(table):
    X = table[FEATURES]
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK).fit(X, table["y"])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(estimator)).predict(X), estimator.predict(X))


# ---------------------------------------------------------------- the tools of scikit-learn


def test_a_grid_is_searched_over_fields(table):
    X = table[FEATURES]
    grid = {"factory__prior_scale": [0.001, 1.0], "standardize": [True, False]}
    estimator = MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK)
    search = GridSearchCV(estimator, grid, cv=RowsWithinTasks(3, task="school", random_state=0)).fit(
        X, table["y"]
    )
    assert search.best_estimator_.factory == zoo.IndependentTasks(prior_scale=1.0)
    assert search.best_score_ > 0.8 > search.cv_results_["mean_test_score"].min()
    # Factories are values of a grid too.
    models = {"factory": [zoo.PooledTasks(prior_scale=0.001), zoo.IndependentTasks()]}
    search = GridSearchCV(estimator, models, cv=RowsWithinTasks(3, task="school", random_state=0)).fit(
        X, table["y"]
    )
    assert search.best_params_["factory"] == zoo.IndependentTasks()


def test_the_end_of_a_pipeline(table):
    X, y = table[FEATURES], table["y"]
    scale = ColumnTransformer(
        [("scale", StandardScaler(), ["a", "b"])], remainder="passthrough", verbose_feature_names_out=False
    )
    pipe = Pipeline(
        [
            ("scale", scale.set_output(transform="pandas")),
            ("model", MultiTaskRegressor(zoo.IndependentTasks(), task="school", **QUICK)),
        ]
    )
    pipe.set_params(model__factory__prior_scale=2.0).fit(X, y)
    assert pipe["model"].factory.prior_scale == 2.0
    plain = MultiTaskRegressor(zoo.IndependentTasks(prior_scale=2.0), task="school", **QUICK).fit(X, y)
    # The order of the features is another one, and so are the draws of the same law.
    np.testing.assert_allclose(pipe.predict(X), plain.predict(X), atol=0.2)


def test_scores_on_whole_tasks(table):
    X, y = table[FEATURES], table["y"]
    estimator = MultiTaskRegressor(zoo.PooledTasks(), task="school", new_tasks="predict", **QUICK)
    scores = cross_val_score(estimator, X, y, groups=X["school"], cv=GroupKFold(3))
    assert scores.shape == (3,) and scores.min() > 0.8
    scores = cross_val_score(estimator, X, y, cv=WholeTasks(3, task="school", random_state=0))
    assert scores.min() > 0.8


def test_tasks_are_routed_as_metadata(table):
    X, y = table[["a", "b"]].to_numpy(), table["y"].to_numpy()
    task, weight = table["school"].to_numpy(), np.tile([1.0, 2.0], 36)
    with sklearn.config_context(enable_metadata_routing=True):
        estimator = MultiTaskRegressor(zoo.IndependentTasks(), **QUICK)
        estimator.set_fit_request(task=True, sample_weight=True)
        estimator.set_score_request(task=True, sample_weight=False)
        # The splitter takes groups without being asked, as GroupKFold does.
        found = cross_validate(
            estimator,
            X,
            y,
            params={"task": task, "sample_weight": weight, "groups": task},
            cv=RowsWithinTasks(3, random_state=0),
            error_score="raise",
            return_estimator=True,
        )
        assert found["test_score"].min() > 0.9
        assert all(fitted.fit_.data.n_tasks == 6 for fitted in found["estimator"])
        assert found["estimator"][0].fit_.data.weight is not None
        # In a pipeline each step says what it takes.
        estimator.set_fit_request(sample_weight=False).set_predict_request(task=True)
        pipe = make_pipeline(StandardScaler(), estimator).fit(X, y, task=task)
        assert np.corrcoef(pipe.predict(X, task=task), y)[0, 1] > 0.97


# ---------------------------------------------------------------- the package


def _python(code: str) -> None:
    subprocess.run([sys.executable, "-c", code], check=True, timeout=120)


def test_scikit_learn_is_imported_at_first_use():
    _python(
        "import sys, zoo; assert 'sklearn' not in sys.modules and 'sklearn' in dir(zoo); "
        "assert zoo.sklearn.MultiTaskRegressor.__name__ == 'MultiTaskRegressor'"
    )


def test_without_scikit_learn_the_import_says_what_to_install():
    _python(
        "import sys; sys.modules['sklearn'] = None; import zoo; from zoo import *\n"
        "try: zoo.sklearn\n"
        "except ImportError as error: assert \"pip install 'multitask-zoo[sklearn]'\" in str(error)\n"
        "else: raise AssertionError"
    )


def test_options_that_are_parameters_are_refused_by_their_name(table):
    for name, own in (("random_seed", "random_state"), ("progress", "progress")):
        estimator = MultiTaskRegressor(zoo.PooledTasks(), task="school", options={name: 1})
        with pytest.raises(ValueError, match=f"options holds '{name}', which is the parameter '{own}'"):
            estimator.fit(table[FEATURES], table["y"])


@pytest.mark.parametrize("argument", ["y", "sample_weight"])
def test_rows_of_another_index_are_not_paired_by_position(table, argument):
    X, y = table[FEATURES], table["y"]
    given = {"y": y, "sample_weight": pd.Series(1.0, y.index)}
    given[argument] = given[argument].iloc[::-1]
    with pytest.raises(ValueError, match=f"{argument} has another index than X"):
        MultiTaskRegressor(zoo.PooledTasks(), task="school", **QUICK).fit(X, **given)


def test_an_unknown_word_for_new_tasks_is_refused(table):
    with pytest.raises(ValueError, match="new_tasks"):
        MultiTaskRegressor(zoo.PooledTasks(), task="school", new_tasks="ignore").fit(
            table[FEATURES], table["y"]
        )
