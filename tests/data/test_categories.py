"""Columns of categories as features of `from_frame`, and tables of rows to predict."""

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import zoo


def table(n: int = 60) -> pd.DataFrame:
    """Rows of four shops: the price differs by city and kind."""
    rng = np.random.default_rng(3)
    df = pd.DataFrame(
        {
            "city": rng.choice(["Rome", "Oslo", "Bern"], n),
            "size": rng.normal(size=n),
            "kind": pd.Categorical(rng.choice(["old", "new"], n), categories=["old", "new", "ruin"]),
            "shop": rng.choice(list("pqrs"), n),
        }
    )
    df["y"] = df["size"] + 2.0 * (df["city"] == "Rome") - (df["kind"] == "new") + 0.1 * rng.normal(size=n)
    return df


def data_of(df: pd.DataFrame, **options) -> zoo.MultiTaskData:
    return zoo.MultiTaskData.from_frame(df, y="y", task="shop", **options)


def test_each_level_but_the_first_becomes_a_feature_of_its_name():
    df = table()
    data = data_of(df)
    assert data.feature_names == ("city[Oslo]", "city[Rome]", "size", "kind[new]")
    expected = pd.get_dummies(df["city"], dtype=float)[["Oslo", "Rome"]].to_numpy()
    np.testing.assert_array_equal(data.X[:, :2], expected)
    np.testing.assert_array_equal(data.X[:, 3], (df["kind"] == "new").to_numpy(float))


def test_the_features_are_those_of_a_formula():
    pytest.importorskip("formulae")
    df = table().assign(kind=lambda d: d["kind"].astype(str))  # formulae sorts levels that have no order
    formula = "y ~ city + size + kind + (1 + city + size + kind | shop)"
    of_formula = zoo.MultiTaskData.from_formula(formula, df)
    data = data_of(df).add_intercept("Intercept")
    for name in data.feature_names:
        at = data.feature_names.index(name), of_formula.feature_names.index(name)
        np.testing.assert_array_equal(data.X[:, at[0]], of_formula.X[:, at[1]])


def test_polars_and_arrow_are_coded_like_pandas():
    polars, pyarrow = pytest.importorskip("polars"), pytest.importorskip("pyarrow")
    df = table().assign(kind=lambda d: d["kind"].astype(str))
    for other in (polars.from_pandas(df), pyarrow.Table.from_pandas(df)):
        np.testing.assert_array_equal(data_of(other).X, data_of(df).X)


def test_datasets_dicts_and_records_are_tables():
    df = table().assign(kind=lambda d: d["kind"].astype(str))
    for other in (xr.Dataset.from_dataframe(df), dict(df.items()), df.to_records(index=False)):
        data = data_of(other)
        assert data.feature_names == data_of(df).feature_names
        np.testing.assert_array_equal(data.X, data_of(df).X)


def test_tables_to_predict_are_coded_alike_and_a_file_remembers_how(tmp_path):
    df = table()
    data = data_of(df).standardize().add_intercept()
    fit = zoo.NIWLinear().fit(data, method="em", progress=False)
    rows = df.drop(columns="y").iloc[[3, 1, 7]]
    expected = fit.predict(data.take([3, 1, 7]), random_seed=1)["mean"]
    np.testing.assert_allclose(fit.predict(rows, random_seed=1)["mean"], expected, rtol=1e-12)
    reordered = rows[["shop", "kind", "size", "city"]]
    np.testing.assert_allclose(fit.predict(reordered, random_seed=1)["mean"], expected, rtol=1e-12)
    # A table of rows with one level knows the others from the fit.
    one = fit.predict(rows.iloc[:1], random_seed=1)["mean"]
    np.testing.assert_allclose(one, expected[:1], rtol=1e-12)
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    np.testing.assert_allclose(loaded.predict(rows, random_seed=1)["mean"], expected, rtol=1e-12)


def test_columns_that_are_coded_already_are_taken_as_they_are():
    data = data_of(table()).add_intercept()
    fit = zoo.NIWLinear().fit(data, method="em", progress=False)
    coded = data.to_frame().drop(columns=["y", "intercept"]).rename(columns={"task": "shop"})
    np.testing.assert_allclose(
        fit.predict(coded, random_seed=1)["mean"], fit.predict(data, random_seed=1)["mean"], rtol=1e-12
    )


def test_other_rows_of_the_same_levels_test_a_fit():
    df = table(80)
    data = data_of(df.iloc[:60])
    held_out = data.like(df.iloc[60:])
    assert held_out.feature_names == data.feature_names and held_out.n_rows == 20
    np.testing.assert_array_equal(held_out.X, data_of(df).X[60:])
    assert held_out.task_names == tuple(sorted(df.iloc[60:]["shop"].unique()))


def test_another_first_level_is_no_silent_shift():
    df = table()
    fit = zoo.NIWLinear().fit(data_of(df).add_intercept(), method="em", progress=False)
    # Without Bern, and with an Aachen, the columns have the same names and another meaning.
    other = data_of(df.assign(city=df["city"].replace("Bern", "Aachen"))).add_intercept()
    with pytest.raises(ValueError, match="city"):
        fit.predict(other)


@pytest.mark.parametrize(
    ("column", "message"),
    [
        ([f"name {i}" for i in range(60)], "column 'bad' has 60 levels in 60 rows"),
        (["1.5"] * 30 + ["2"] * 30, "numbers that are written as text, such as '1.5'"),
        (["1.5", "2", "oops"] * 20, "such as '1.5', and beside them 'oops'"),
        (["same"] * 60, "column 'bad' has no level but"),
    ],
)
def test_what_is_no_category_is_refused_with_the_way_out(column, message):
    with pytest.raises(ValueError, match=message):
        data_of(table().assign(bad=column))


def test_a_level_that_is_new_or_missing_is_named():
    df = table()
    fit = zoo.NIWLinear().fit(data_of(df).add_intercept(), method="em", progress=False)
    rows = df.drop(columns="y").iloc[:3]
    with pytest.raises(ValueError, match=r"column 'city' has the level 'Paris' in row 1.*Bern, Oslo, Rome"):
        fit.predict(rows.assign(city=["Rome", "Paris", "Oslo"]))
    with pytest.raises(ValueError, match="column 'city' is missing in row 2"):
        fit.predict(rows.assign(city=["Rome", "Oslo", None]))
    with pytest.raises(ValueError, match="X has no column 'kind'"):
        fit.predict(rows.drop(columns="kind"))
    with pytest.raises(ValueError, match="column 'city' is missing in row 0"):
        data_of(df.assign(city=[None, *df["city"][1:]]))
    with pytest.warns(UserWarning, match="1 of 60 rows"):
        assert data_of(df.assign(city=[None, *df["city"][1:]]), missing="drop").n_rows == 59
    with pytest.raises(ValueError, match="Only features that are numbers"):
        data_of(df.assign(city=[None, *df["city"][1:]]), missing="model")


def test_categories_of_numbers_are_categories_too():
    df = table().assign(size=lambda d: pd.Categorical((d["size"] > 0).astype(int) * 7))
    assert "size[7]" in data_of(df).feature_names


def test_a_level_of_rows_that_are_left_out_is_no_feature():
    df = table().assign(city=["Paris", *table()["city"][1:]], size=[np.nan, *table()["size"][1:]])
    with pytest.warns(UserWarning, match="1 of 60 rows"):
        data = data_of(df, missing="drop")
    assert "city[Paris]" not in data.feature_names and np.ptp(data.X, axis=0).min() > 0.0
