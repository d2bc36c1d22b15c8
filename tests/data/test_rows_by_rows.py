"""What a formula makes of a row depends on the data of the fit and on the row, never on its neighbours."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo

N = 60
RNG = np.random.default_rng(0)
FRAME = pd.DataFrame(
    {
        "g": np.tile(list("abc"), N // 3),
        "clinic": np.repeat(list("uvwxyz"), N // 6),
        "sex": RNG.choice(["f", "m"], N),
        "x": RNG.normal(size=N),
        "k": RNG.integers(1, 4, N),
        "z": RNG.random(N) + 0.5,
        "grade": pd.Categorical(RNG.choice(["lo", "mid", "hi"], N), ["lo", "mid", "hi"], ordered=True),
    }
)
FRAME["b"] = FRAME["sex"] == "m"
FRAME["y"] = 10.0 * FRAME["b"] + 0.1 * RNG.normal(size=N)

TERMS = (
    "B(sex)", "binary(sex)", "B(sex, 'm')", "B(k)", "B(k, 2)", "B(b)", "B(k == 2)", "C(sex)", "C(b)", "C(k)",
    "S(k)", "S(grade)", "T(k, 2)", "T(sex, 'm')", "scale(x)", "center(x)", "standardize(x)", "bs(x, df=4)",
    "cr(x, df=4)", "cc(x, df=4, period=6)", "tp(x, df=5)", "poly(x, 2)", "poly(x, 3, raw=True)", "I(x + 1)",
    "{x * 2}", "log(z)", "log2(z)", "log10(z)", "log1p(z)", "np.log(z)", "sqrt(z)", "exp(x)", "expm1(x)", "sign(x)",
    "tanh(x)", "sin(x)", "abs(x)", "x:C(k)", "x*sex", "sex:grade", "grade", "b", "k", "x**2", "scale(log(z))",
    "log(scale(z) + 9)",
)  # fmt: skip


def make(formula, frame=FRAME):
    return zoo.MultiTaskData.from_formula(formula, frame)


@pytest.mark.filterwarnings("ignore:.*does not stand outside the bar")
@pytest.mark.parametrize("term", TERMS)
def test_a_row_alone_is_coded_as_among_others(term):
    try:
        design = make(f"y ~ {term} + ({term} | g)").design
    except ValueError as error:  # refused in words, where formulae has no such function
        assert "Known are" in str(error)
        assert term.split("(")[0] in ("log2", "log10", "log1p", "expm1", "sin", "abs")
        return
    among = design.features(FRAME).to_numpy(float)
    alone = np.vstack([design.features(FRAME.iloc[[i]]).to_numpy(float) for i in range(N)])
    np.testing.assert_allclose(alone, among, rtol=1e-12, atol=1e-12)


def test_a_function_inside_another_is_learned_too():
    design = make("y ~ scale(B(sex)) + (1 | g)").design
    men = FRAME[FRAME["b"]]
    found = design.features(men)["scale(B(sex))"]
    np.testing.assert_allclose(found, design.features(FRAME)["scale(B(sex))"][FRAME["b"]])


def test_an_indicator_knows_its_levels():
    design = make("y ~ B(sex) + (1 | g)").design
    with pytest.raises(ValueError, match="B\\(sex\\) has the level 'x', which the data of the fit have not"):
        design.features(FRAME.head(2).assign(sex=["m", "x"]))


@pytest.mark.parametrize("response", ["B(sex)", "binary(sex)", "sex['m']", "b"])
def test_a_response_is_coded_once(response):
    data = make(f"{response} ~ x + (x | g)")
    for value in ("f", "m"):
        at = (FRAME["sex"] == value).to_numpy()
        np.testing.assert_array_equal(data.like(FRAME[at]).y, data.y[at])


def test_batches_are_coded_as_the_whole_table():
    data = make("y ~ B(sex) + (B(sex) | g)")
    batches = zoo.MultiTaskData.from_batches([FRAME[~FRAME["b"]], FRAME[FRAME["b"]]], like=data)
    found = [zoo.PooledTasks().fit(rows, random_seed=1, progress=False) for rows in (batches, data)]
    np.testing.assert_allclose(*(fit.posterior["coefficients"].mean() for fit in found), rtol=0.05)


def test_further_groups_are_coded_as_the_whole_table():
    design = make("y ~ x + (1 | g) + (0 + B(sex) | clinic)").design
    men = FRAME["b"].to_numpy()
    np.testing.assert_array_equal(
        design.level_columns(FRAME[men]).toarray(), design.level_columns(FRAME).toarray()[men]
    )


# ---------------------------------------------------------------- equal by hash


@pytest.mark.parametrize("kind", [int, float, str])
def test_truth_values_are_no_numbers(kind):
    design = make("y ~ C(b) + (1 | g)").design
    with pytest.raises(ValueError, match=r"column 'b' holds .* and that of the fit holds truth values"):
        design.features(FRAME.assign(b=FRAME["b"].astype(kind)))


@pytest.mark.parametrize("kind", [object, "boolean", "bool[pyarrow]"])
def test_truth_values_of_any_dtype_are_the_same(kind):
    design = make("y ~ C(b) + (1 | g)").design
    found = design.features(FRAME.assign(b=FRAME["b"].astype(kind)))
    np.testing.assert_array_equal(found, design.features(FRAME))


@pytest.mark.parametrize("kind", [str, bool])
def test_numbers_are_no_text(kind):
    design = make("y ~ C(k) + (1 | g)").design
    with pytest.raises(ValueError, match=r"and that of the fit holds numbers"):
        design.features(FRAME.assign(k=FRAME["k"].astype(kind)))


# ---------------------------------------------------------------- text that is numbers, and the response twice


@pytest.mark.parametrize("written", ["{},5", "{},000", "{}%", "1.{}00,5", "$ {}", "{}.5"])
@pytest.mark.parametrize("by_formula", [True, False])
def test_numbers_that_look_like_text_are_refused(written, by_formula):
    frame = FRAME[["y", "g"]].assign(dose=[written.format(i % 4 + 1) for i in range(N)])
    with pytest.raises(ValueError, match=r"column 'dose' holds numbers that are written as text"):
        if by_formula:
            make("y ~ dose + (1 | g)", frame)
        else:
            zoo.MultiTaskData.from_frame(frame, y="y", task="g")


@pytest.mark.parametrize("levels", [["1st", "2nd"], ["a,b", "b,c"], ["10-19", "20-29"], ["v1.0.0", "v1.2.0"]])
def test_names_with_digits_are_levels(levels):
    frame = FRAME[["y", "g"]].assign(kind=[levels[i % 2] for i in range(N)])
    assert make("y ~ kind + (1 | g)", frame).n_features == 2


@pytest.mark.parametrize(
    ("formula", "options", "where"),
    [
        ("y ~ x + y + (1 | g)", {}, "a predictor or a group"),
        ("y ~ x + (y | g)", {}, "a predictor or a group"),
        ("y ~ x + log(y + 20) + (1 | g)", {}, "a predictor or a group"),
        ("y ~ x + (1 | y)", {}, "a predictor or a group"),
        ("y ~ x + (1 | g)", {"weight": "y"}, "weight"),
        ("y ~ x + (1 | g)", {"t": "y"}, "t"),
    ],
)
def test_the_response_predicts_nothing(formula, options, where):
    with pytest.raises(ValueError, match=f"column 'y' is the response of the formula .*, and {where}"):
        zoo.MultiTaskData.from_formula(formula, FRAME, **options)


# ---------------------------------------------------------------- names that the package adds


def test_a_column_called_as_the_constant_is_not_read():
    frame = FRAME.assign(intercept=RNG.normal(size=N) + 7.0)
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="g", features=["x"]).add_intercept()
    fit = zoo.PooledTasks().fit(data, random_seed=1, progress=False)
    with pytest.warns(UserWarning, match="X has a column 'intercept'.* the column is not read"):
        found = fit.predict(frame, random_seed=1)
    np.testing.assert_array_equal(found["mean"], fit.predict(FRAME, random_seed=1)["mean"])
    ones = fit.predict(FRAME.assign(intercept=1.0), random_seed=1)
    np.testing.assert_array_equal(ones["mean"], found["mean"])


@pytest.mark.parametrize(
    ("names", "number", "expected"),
    [(["01", "1", "2"], 1, "1"), (["01", "2"], 1, "01"), (["01", "001"], 1, None), (["1.0", "01"], 1, None)],
)
def test_a_number_that_several_tasks_could_be_is_refused(names, number, expected):
    data = zoo.MultiTaskData.from_arrays(
        np.arange(3.0 * len(names))[:, None], np.zeros(3 * len(names)), np.repeat(np.array(names), 3)
    )
    fit = zoo.PooledTasks().fit(data, random_seed=1, progress=False)
    rows = pd.DataFrame({"x0": [1.0], "task": [number]})
    if expected is None:
        with pytest.raises(ValueError, match=rf"task {number} could be '.*' or '.*'\. Give the names"):
            fit.predict(rows[["x0"]], task=rows["task"])
    else:
        assert fit.predict(rows[["x0"]], task=rows["task"])["task"].item() == expected
