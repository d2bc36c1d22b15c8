"""Levels of tasks that a learned mean is fitted without: their estimate, that nothing leaks, and what they gain."""

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

import zoo
from zoo.data.out_of_fold import out_of_fold, task_levels

pytest.importorskip("sklearn")
from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
from sklearn.linear_model import LinearRegression
from sklearn.neighbors import KNeighborsRegressor


@pytest.mark.parametrize("weighted", [False, True])
def test_levels_are_those_of_the_dense_normal_law(weighted):
    """The largest likelihood and the conditional means of levels, by the covariance matrix of all residuals."""
    rng = np.random.default_rng(2)
    task = np.repeat(np.arange(7), [1, 2, 3, 4, 5, 6, 7])
    weight = rng.uniform(0.5, 2.0, len(task)) if weighted else np.ones(len(task))
    residual = 3.0 + rng.normal(size=7)[task] + 0.7 * rng.normal(size=len(task)) / np.sqrt(weight)
    same = (task[:, None] == task).astype(float)

    def covariance(v):
        return np.exp(v[1]) * same + np.diag(np.exp(v[2]) / weight)

    def deviance(v):
        return -multivariate_normal.logpdf(residual, np.full(len(task), v[0]), covariance(v))

    v = minimize(
        deviance,
        [3.0, 0.0, 0.0],
        method="Nelder-Mead",
        options={"xatol": 1e-9, "fatol": 1e-12, "maxiter": 4000},
    ).x
    Z = np.eye(7)[task]
    expected = np.exp(v[1]) * Z.T @ np.linalg.solve(covariance(v), residual - v[0])
    found = task_levels(residual, task, weight if weighted else None)
    np.testing.assert_allclose(found, expected, atol=2e-5)
    # Larger weights of all rows change nothing, and residuals without levels have none.
    np.testing.assert_allclose(
        task_levels(residual, task, 10.0 * weight), task_levels(residual, task, weight), atol=2e-5
    )
    alike = np.tile([1.0, -1.0], 20)
    assert np.abs(task_levels(alike, np.repeat(np.arange(10), 4))).max() < 1e-4


@pytest.mark.parametrize("estimator", [LinearRegression(), KNeighborsRegressor(1)])
def test_a_response_never_reaches_the_prediction_of_its_own_fold(estimator):
    rng = np.random.default_rng(0)
    task = np.repeat(np.arange(6), 10)
    X, y = rng.normal(size=(60, 2)), rng.normal(size=6)[task] + rng.normal(size=60)

    def values(responses):
        return out_of_fold(
            estimator, X, responses, task, None, 4, False, np.random.default_rng(1), levels=True
        )[0]

    plain, moved = values(y), 0
    for row in range(0, 60, 7):
        other = y.copy()
        other[row] += 50.0
        changed = values(other) != plain
        assert not changed[row]
        moved += changed.sum()
        # The fold of the row stays as it was: at most three of four parts of the rows change.
        assert changed.sum() <= 45
    assert moved > 60  # the others do hear of it


def test_it_finds_a_common_function_among_levels():
    """With 20 other seeds the error was 0.19 to 0.27 of that without."""
    rng = np.random.default_rng(5)
    task = np.repeat(np.arange(40), 12)
    X = rng.uniform(-2.0, 2.0, (480, 3))
    common = np.sin(2.0 * X[:, 0]) + X[:, 1]
    y = common + 3.0 * rng.normal(size=40)[task] + 0.3 * rng.normal(size=480)
    data = zoo.MultiTaskData.from_arrays(X, y, task)
    boosting = HistGradientBoostingRegressor(random_state=0, max_iter=60)
    error = {}
    for levels in (False, True, None):
        mean = data.add_mean(boosting, levels=levels, random_seed=1).X[:, 0]
        error[levels] = np.std(mean - common)
    assert error[True] == error[None]
    assert error[True] < 0.4 * error[False]


def test_labels_and_choices_have_no_levels():
    rng = np.random.default_rng(3)
    frame = pd.DataFrame({"a": rng.normal(size=80), "b": rng.normal(size=80), "task": np.arange(80) // 10})
    frame["y"] = (frame["a"] + rng.normal(size=80) > 0.0).astype(int)
    labels = zoo.MultiTaskData.from_frame(frame, y="y", task="task")
    classifier = HistGradientBoostingClassifier(max_iter=5, random_state=0)
    with pytest.raises(ValueError, match=r"levels is True, .* Leave levels out"):
        labels.add_mean(classifier, levels=True)
    # Regressors of labels see them as they are.
    plain = labels.add_mean(LinearRegression(), random_seed=1).X
    np.testing.assert_array_equal(plain, labels.add_mean(LinearRegression(), levels=False, random_seed=1).X)
    with pytest.raises(ValueError, match="folds"):
        labels.add_mean(LinearRegression(), levels=True, folds=2)


def test_choices_are_dealt_whole():
    """An estimator that reads the number of the choice knows which alternative is left, unless all go together."""
    rng = np.random.default_rng(4)
    question = np.repeat(np.arange(60), 3)
    frame = pd.DataFrame({"person": question // 6, "question": question, "number": 1.0 * question})
    frame["y"] = (np.arange(180) % 3 == rng.integers(0, 3, 60)[question]).astype(int)
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="person", choice="question", features=["number"])
    made = data.add_mean(KNeighborsRegressor(2), random_seed=1)
    # The two nearest rows are of one other choice: nothing is known, |r| < 0.3 but in 1 of 10,000 seeds (180 pairs).
    assert abs(np.corrcoef(made.X[:, 0], data.y)[0, 1]) < 0.3
    with pytest.raises(ValueError, match="60 choices"):
        data.add_mean(KNeighborsRegressor(2), folds=61)
    with pytest.raises(ValueError, match="not off labels or choices"):
        data.add_mean(KNeighborsRegressor(2), levels=True)
