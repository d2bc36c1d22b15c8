"""Missing values: refused by name, left out with a count, or kept for the model."""

import numpy as np
import pandas as pd
import pytest

import zoo


def table() -> pd.DataFrame:
    """Twelve rows of three tasks; age is missing in rows 2 and 7, y in row 4."""
    rng = np.random.default_rng(0)
    df = pd.DataFrame(
        {
            "age": rng.normal(40, 9, 12),
            "dose": rng.normal(size=12),
            "y": rng.normal(size=12),
            "g": list("abc") * 4,
        }
    )
    df.loc[[2, 7], "age"] = np.nan
    df.loc[4, "y"] = np.nan
    return df


def test_refusal_names_the_column_the_count_and_the_ways_out():
    with pytest.raises(
        ValueError, match=r"column 'age' is missing in row 2, and 2 of 12 rows .*missing='model'"
    ):
        zoo.MultiTaskData.from_frame(table().assign(y=1.0), y="y", task="g")
    # No model draws responses: the way out that is offered is the one that there is.
    with pytest.raises(ValueError, match=r"column 'y' is missing in row 4.*missing='drop'") as error:
        zoo.MultiTaskData.from_frame(table().assign(age=1.0), y="y", task="g")
    assert "model" not in str(error.value)


def test_rows_that_are_left_out_are_counted():
    with pytest.warns(UserWarning, match="3 of 12 rows have a gap"):
        data = zoo.MultiTaskData.from_frame(table(), y="y", task="g", missing="drop")
    np.testing.assert_array_equal(data.y, table().dropna()["y"])
    df = table()
    with pytest.warns(UserWarning, match="3 of 12 rows have a gap"):
        same = zoo.MultiTaskData.from_arrays(df[["age", "dose"]], df["y"], df["g"], missing="drop")
    np.testing.assert_array_equal(same.X, data.X)
    assert same.task_names == data.task_names


def test_rows_of_arrays_lists_and_polars_are_left_out_alike():
    polars = pytest.importorskip("polars")
    df = table()
    for X, y, g in (
        (df[["age", "dose"]].to_numpy(), df["y"].to_numpy(), df["g"].to_numpy()),
        (df[["age", "dose"]].to_numpy().tolist(), df["y"].tolist(), df["g"].tolist()),
    ):
        with pytest.warns(UserWarning, match="3 of 12 rows"):
            data = zoo.MultiTaskData.from_arrays(X, y, g, missing="drop")
        np.testing.assert_array_equal(data.y, df.dropna()["y"])
    with pytest.warns(UserWarning, match="3 of 12 rows"):
        data = zoo.MultiTaskData.from_frame(polars.from_pandas(df), y="y", task="g", missing="drop")
    np.testing.assert_array_equal(data.y, df.dropna()["y"])


def test_nothing_is_left_when_every_row_has_a_gap():
    df = table().assign(age=np.nan)
    with pytest.raises(ValueError, match="every row has a gap"):
        zoo.MultiTaskData.from_frame(df, y="y", task="g", missing="drop")


def test_gaps_of_features_stay_for_the_model_and_others_do_not():
    df = table()
    with pytest.raises(ValueError, match=r"'y' is missing in row 4.*Only features that are numbers"):
        zoo.MultiTaskData.from_frame(df, y="y", task="g", missing="model")
    df["y"] = df["y"].fillna(0.0)
    data = zoo.MultiTaskData.from_frame(df, y="y", task="g", missing="model")
    assert data.gaps is not None and data.gaps.sum() == 2 and "2 values missing" in repr(data)
    standardized = data.standardize()
    known = standardized.X[:, 0][~np.isnan(standardized.X[:, 0])]
    assert abs(known.mean()) < 1e-12 and abs(known.std() - 1.0) < 1e-12
    assert data.take(np.arange(2)).gaps is None
    assert data.add_intercept().gaps.sum() == 2
    np.testing.assert_allclose(standardized.original_X(), data.X)
    with pytest.raises(ValueError, match="features have gaps"):
        data.add_mean(object())


def test_a_feature_of_which_nothing_is_known_is_refused():
    for values in (np.nan, [1.0, np.nan] * 6):
        df = table().assign(y=0.0, age=values)
        with pytest.raises(ValueError, match="feature 'age' has gaps and fewer than two values that differ"):
            zoo.MultiTaskData.from_frame(df, y="y", task="g", missing="model")


def test_a_word_that_is_no_policy_is_refused():
    for make in (
        lambda: zoo.MultiTaskData.from_frame(table(), y="y", task="g", missing="ignore"),
        lambda: zoo.MultiTaskData.from_arrays(np.ones((3, 1)), np.ones(3), missing="ignore"),
    ):
        with pytest.raises(ValueError, match="missing: 'ignore' is unknown"):
            make()
    with pytest.raises(ValueError, match="a formula makes its columns"):
        zoo.MultiTaskData.from_formula("y ~ age + (1 | g)", table(), missing="model")
