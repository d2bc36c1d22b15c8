"""Characteristics of tasks, which move the mean of the tasks' coefficients."""

import warnings

import numpy as np
import pandas as pd
import pytest

import zoo


def table(n_tasks: int = 30, rows: int = 8, seed: int = 0) -> pd.DataFrame:
    """Sales of shops by price: larger shops sell more, and lose less by price; shops in towns sell more."""
    rng = np.random.default_rng(seed)
    shop = np.repeat(np.arange(n_tasks), rows)
    size, town = rng.normal(size=n_tasks), rng.random(n_tasks) < 0.5
    level = 2.0 + 1.5 * size + 1.0 * town + 0.3 * rng.normal(size=n_tasks)
    slope = -1.0 + 0.8 * size + 0.3 * rng.normal(size=n_tasks)
    price = rng.normal(size=len(shop))
    return pd.DataFrame(
        {
            "shop": [f"s{t}" for t in shop],
            "price": price,
            "size": size[shop],
            "place": np.where(town, "town", "land")[shop],
            "sales": level[shop] + slope[shop] * price + 0.4 * rng.normal(size=len(shop)),
        }
    )


def data_of(df: pd.DataFrame, **options) -> zoo.MultiTaskData:
    return zoo.MultiTaskData.from_frame(df, y="sales", task="shop", **options)


def fitted(data: zoo.MultiTaskData, model=None, **options) -> zoo.Fit:
    few = {"draws": 300, "tune": 300, "chains": 2, "random_seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return (model or zoo.NIWLinear()).fit(data, **{**few, **options})


def test_characteristics_and_their_products_are_shared():
    data = data_of(table(), task_features=["size", "place"])
    assert data.feature_names == ("price", "size", "place[town]", "size:price", "place[town]:price")
    assert data.shared_names == ("size", "place[town]", "size:price", "place[town]:price")
    X = pd.DataFrame(data.X, columns=data.feature_names)
    np.testing.assert_array_equal(X["size:price"], X["size"] * X["price"])
    np.testing.assert_array_equal(X["place[town]:price"], X["place[town]"] * X["price"])
    # Columns may be named among the features as well, and features may be chosen.
    same = data_of(table(), features=["price", "size"], task_features="size")
    assert same.feature_names == ("price", "size", "size:price")


def test_a_constant_of_the_table_makes_no_product():
    """Its product would be the characteristic once more, and neither coefficient would be known."""
    data = data_of(table().assign(one=1.0), features=["one", "price"], task_features=["size"])
    assert data.shared_names == ("size", "size:price")
    again = zoo.data.categories.CategoryDesign.of_description(data.design.description())
    assert again.feature_names == list(data.feature_names)


def test_the_model_is_that_of_a_formula_with_interactions():
    pytest.importorskip("formulae")
    df = table()
    ours = data_of(df, features=["price"], task_features=["size"]).add_intercept("Intercept")
    formula = zoo.MultiTaskData.from_formula("sales ~ price * size + (1 + price | shop)", df)
    known = {"size:price": "price:size"}
    for name in ours.feature_names:
        at = ours.feature_names.index(name), formula.feature_names.index(known.get(name, name))
        np.testing.assert_allclose(ours.X[:, at[0]], formula.X[:, at[1]], rtol=1e-12)
    assert {known.get(name, name) for name in ours.shared_names} == set(formula.shared_names)


@pytest.mark.parametrize("model", [zoo.NIWLinear(), zoo.MaxMargin(likelihood="gaussian")])
def test_what_size_does_is_found_and_new_shops_follow_theirs(model, tmp_path):
    df = table()
    fit = fitted(data_of(df, task_features=["size"], features=["price"]).standardize().add_intercept(), model)
    units = fit.in_data_units()["shared_coefficients"]
    for name, truth in (("size", 1.5), ("size:price", 0.8)):
        draws = units.sel(shared_feature=name)
        assert abs(float(draws.mean()) - truth) < 4.5 * float(draws.std())
    # Of a large shop more is sold, without any row of it, and the price matters less.
    new = pd.DataFrame({"shop": ["a", "b"], "price": 0.0, "size": [-1.5, 1.5]})
    low, high = fit.predict(new, new_task=True, random_seed=1)["mean"]
    assert 3.0 < float(high - low) < 6.0
    fit.save(tmp_path / "fit.nc")
    again = zoo.load(tmp_path / "fit.nc").predict(new, new_task=True, random_seed=1)
    np.testing.assert_array_equal(again["mean"], [low, high])


def test_intervals_of_new_shops_hold_what_they_say():
    """90 % intervals of 320 new shops of eight tables, one row each: binomial, 5 standard deviations, 1e-6."""
    held = []
    for seed in range(8):
        df = table(n_tasks=70, rows=5, seed=seed + 10)
        known = df["shop"].isin([f"s{t}" for t in range(30)])
        data = data_of(df[known], task_features=["size", "place"]).standardize().add_intercept()
        rows = df[~known].groupby("shop").head(1)
        predicted = fitted(data, draws=150, tune=150).predict(rows, new_task=True, random_seed=1)
        held.append((predicted["lower"] < rows["sales"]) & (rows["sales"] < predicted["upper"]))
    held = np.concatenate(held)
    assert len(held) == 320
    assert abs(held.mean() - 0.9) < 5.0 * np.sqrt(0.9 * 0.1 / 320)


def test_what_is_no_characteristic_of_tasks_is_refused():
    df = table()
    with pytest.raises(ValueError, match="'price', which differs within the task 's0'"):
        data_of(df, features=["size"], task_features=["price"])
    with pytest.raises(ValueError, match="'size', which is the same in all tasks"):
        data_of(df.assign(size=1.0), task_features=["size"])
    with pytest.raises(ValueError, match="no task is named"):
        zoo.MultiTaskData.from_frame(df, y="sales", features=["price"], task_features=["size"])
    with pytest.raises(ValueError, match="df has no column 'sise'"):
        data_of(df, task_features=["sise"])
    with pytest.raises(ValueError, match="missing='model' draws gaps of features, and task_features"):
        data_of(df, task_features=["size"], missing="model")
    with pytest.raises(ValueError, match="IndependentTasks has no such coefficients"):
        zoo.IndependentTasks().fit(data_of(df, task_features=["size"]), progress=False)
    fit = fitted(data_of(df, features=["price"], task_features=["size"]).add_intercept(), draws=30, tune=30)
    with pytest.raises(ValueError, match="X has no column 'size'"):
        fit.predict(df[["shop", "price"]])
