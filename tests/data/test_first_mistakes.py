"""What newcomers try first and get wrong: each message names the thing, and what to write instead."""

import numpy as np
import pandas as pd
import pytest

import zoo

RNG = np.random.default_rng(11)
N, GROUPS = 120, 6
FRAME = pd.DataFrame(
    {
        "shop": np.repeat(np.arange(GROUPS), N // GROUPS),
        "price": RNG.normal(size=N),
        "hours": RNG.normal(size=N),
        "cid": np.arange(N) % 4,
    }
)
FRAME["sales"] = 1.0 + FRAME["price"] + 0.3 * RNG.normal(size=N)


def make(frame=FRAME, **changes):
    return zoo.MultiTaskData.from_frame(
        frame, **{"y": "sales", "task": "shop", "features": ["price", "hours"], **changes}
    )


def quick(data, factory=None):
    return (factory or zoo.NIWLinear()).fit(data, draws=50, tune=50, chains=2, random_seed=1, progress=False)


@pytest.mark.parametrize("argument", ["y", "task", "weight"])
def test_values_in_the_place_of_a_name(argument):
    with pytest.raises(TypeError, match=rf"{argument} is a Series, which is no name of a column of df\."):
        make(**{argument: FRAME["sales"]})


@pytest.mark.parametrize(
    ("column", "message"),
    [
        (pd.date_range("2020-01-01", periods=N), "X column 'price' holds dates. Make numbers of them"),
        ([True, "True"] * (N // 2), "X column 'price' holds values that are not numbers. Encode it first"),
    ],
)
def test_columns_that_are_no_numbers(column, message):
    with pytest.raises(ValueError, match=message.replace(".", r"\.")):
        make(FRAME.assign(price=column))


def test_yes_and_no_are_labels():
    with pytest.raises(ValueError, match=r"code 'yes' as 1 and 'no' as 0: \(y == 'yes'\)\.astype\(int\)"):
        make(FRAME.assign(sales=np.where(FRAME["sales"] > 1.0, "yes", "no")))
    with pytest.raises(ValueError, match=r"If they are grades") as three:
        make(FRAME.assign(sales=np.array(["a", "b", "c"])[np.arange(N) % 3]))
    assert "For labels" not in str(three.value)


def test_labels_that_were_standardized():
    labels = make(FRAME.assign(sales=(FRAME["sales"] > 1.0).astype(int)))
    with pytest.raises(
        ValueError, match=r"y holds labels and must not be standardized.*standardize\(y=False\)"
    ):
        quick(labels.standardize(y=True), zoo.NIWLinear(likelihood="logistic"))


def test_a_response_that_never_changes():
    with pytest.raises(ValueError, match="y is constant"):
        make(FRAME.assign(sales=3.0)).standardize()


def test_features_in_another_order_are_the_same():
    data = make()
    with pytest.warns(zoo.ConvergenceWarning):
        fit = quick(data.standardize().add_intercept())
    other = make(features=["hours", "price"])
    np.testing.assert_allclose(fit.predict(other)["mean"], fit.predict(data)["mean"], rtol=1e-12)
    with pytest.raises(ValueError, match=r"it lacks 'hours', a feature of the fit"):
        fit.predict(make(features=["price"]))
    with pytest.raises(ValueError, match=r"it has 'cid', which the fit has not"):
        fit.predict(make(features=["price", "hours", "cid"]))


def test_held_out_tasks_are_scored_as_new_ones():
    data = make(FRAME[FRAME["shop"] < 5])
    with pytest.warns(zoo.ConvergenceWarning):
        fit = quick(data.standardize().add_intercept())
    held = make(FRAME[FRAME["shop"] == 5])
    scores = zoo.diagnostics.compare({"levels": fit}, held, new_task=True, random_seed=1)
    assert scores.loc["levels", "RMSE"] < 1.0


def test_a_formula_says_what_is_missing():
    pytest.importorskip("formulae")
    data = zoo.MultiTaskData.from_formula("sales ~ price + (1 | shop) + (1 | cid)", FRAME)
    with pytest.raises(ValueError, match="df has no column 'sales', the response of the formula"):
        data.like(FRAME.drop(columns="sales"))
    # Levels that are numbers are known as floats too, which is what a gap elsewhere in a column makes of them.
    np.testing.assert_array_equal(data.like(FRAME.assign(cid=FRAME["cid"].astype(float))).X, data.X)
    for column in ("kind", "cid"):
        frame = FRAME.assign(kind=["k", "l"] * (N // 2)).assign(**{column: "one"})
        with pytest.raises(ValueError, match=f"column '{column}' has no level but 'one', and says nothing"):
            zoo.MultiTaskData.from_formula("sales ~ price + kind + (1 | shop) + (1 | cid)", frame)


def test_scikit_learn_names_the_other_estimator():
    pytest.importorskip("sklearn")
    labels = np.where(FRAME["sales"] > 1.0, "yes", "no")
    with pytest.raises(ValueError, match=r"y holds '(yes|no)', which is no number\. Use MultiTaskClassifier"):
        zoo.sklearn.MultiTaskRegressor(zoo.NIWLinear(), task="shop").fit(FRAME[["shop", "price"]], labels)


def test_a_task_that_was_scaled():
    pytest.importorskip("sklearn")
    scaled = FRAME[["shop", "price"]] / 1.7
    estimator = zoo.sklearn.MultiTaskRegressor(zoo.IndependentTasks(), task="shop", draws=20, random_state=1)
    with pytest.warns(UserWarning, match="the tasks in column 'shop' are numbers with decimals"):
        estimator.fit(scaled, FRAME["sales"])
