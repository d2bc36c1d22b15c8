"""Formulas of mixed models: which columns they make, predictions, files, and what is refused."""

import warnings

import numpy as np
import pandas as pd
import pytest

import zoo

pytest.importorskip("formulae")

rng = np.random.default_rng(1)
T, N = 8, 9
TASK = np.repeat(np.arange(T), N)
FRAME = pd.DataFrame(
    {
        "age": rng.normal(50.0, 9.0, T)[TASK],
        "sex": np.where(rng.permutation(T) < 4, "f", "m")[TASK],
        "time": rng.uniform(0.1, 3.0, T * N),
        "dose": rng.normal(size=T * N),
        "patient": [f"p{t}" for t in TASK],
    }
)
FRAME["y"] = (
    3.0 + rng.normal(size=T)[TASK] + 0.05 * FRAME["age"] + 0.4 * FRAME["time"] + 0.1 * rng.normal(size=T * N)
)
FORMULA = "y ~ age + sex + time + (1 + time | patient)"


def make(formula=FORMULA, df=FRAME, **arguments):
    return zoo.MultiTaskData.from_formula(formula, df, **arguments)


def fitted(data, **fields):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return zoo.NIWLinear(scale_matrix=0.3, **fields).fit(
            data, draws=60, tune=60, chains=2, random_seed=1, progress=False
        )


def test_columns_tasks_and_what_is_shared():
    data = make()
    assert data.feature_names == ("Intercept", "age", "sex[m]", "time")
    assert data.shared_names == ("age", "sex[m]")
    assert data.task_column == "patient" and data.task_names == tuple(f"p{t}" for t in range(T))
    wanted = np.column_stack([np.ones(T * N), FRAME["age"], FRAME["sex"] == "m", FRAME["time"]])
    np.testing.assert_allclose(data.X, wanted)
    np.testing.assert_allclose(data.y, FRAME["y"])


def test_terms_inside_the_bar_and_transformations():
    data = make("log(y) ~ 1 + scale(time) + sex*dose + (0 + scale(time) + dose | patient)")
    assert data.feature_names == ("Intercept", "scale(time)", "sex[m]", "dose", "sex[m]:dose")
    assert data.shared_names == ("Intercept", "sex[m]", "sex[m]:dose")
    np.testing.assert_allclose(data.y, np.log(FRAME["y"]))
    with pytest.warns(UserWarning, match="'dose' differs between tasks and does not stand outside the bar"):
        assert make("y ~ age + (1 + dose | patient)").shared_names == ("age",)


def test_predictions_read_the_table(tmp_path):
    """By columns of the table, coded with the levels and the numbers of the fit."""
    formula = "y ~ age + sex + scale(time) + (1 + scale(time) | patient)"
    fit = fitted(make(formula).standardize())
    whole = fit.predict(FRAME, output="pandas")
    for rows in ([5], [70, 3], list(range(40, 60))):
        part = FRAME.iloc[rows].drop(columns="y")
        np.testing.assert_allclose(fit.predict(part, output="pandas")["mean"], whole["mean"].iloc[rows])
    np.testing.assert_allclose(fit.predict(fit.data)["mean"], whole["mean"])
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.design.formula == formula
    np.testing.assert_allclose(loaded.predict(FRAME.iloc[[70, 3]])["mean"], whole["mean"].iloc[[70, 3]])
    new = FRAME.iloc[:2].assign(patient="new")
    assert np.isfinite(loaded.predict(new, new_task=True)["mean"]).all()


def test_ordered_levels_survive_a_file(tmp_path):
    stage = pd.Categorical(
        np.array(["mild", "grave", "none"])[TASK % 3], categories=["none", "mild", "grave"], ordered=True
    )
    data = make("y ~ stage + (1 | patient)", FRAME.assign(stage=stage))
    assert data.feature_names == ("Intercept", "stage[mild]", "stage[grave]")
    fit = fitted(data)
    fit.save(tmp_path / "fit.nc")
    rows = pd.DataFrame({"stage": ["grave", "mild"], "patient": ["p0", "p0"]})
    np.testing.assert_allclose(zoo.load(tmp_path / "fit.nc").predict(rows)["mean"], fit.predict(rows)["mean"])


def test_rows_of_another_table():
    """Made anew by the formula, ``scale`` would take other numbers: refused by name."""
    formula = "y ~ scale(time) + (1 | patient)"
    fit = fitted(make(formula))
    half = FRAME.iloc[::2]
    with pytest.raises(
        ValueError, match=r"feature 'scale\(time\)' was made of another table.*data.like\(df\)"
    ):
        fit.predict(make(formula, half))
    np.testing.assert_allclose(fit.predict(fit.data.like(half))["mean"], fit.predict(half)["mean"])
    assert fit.data.like(half).shared_names == ("scale(time)",)
    assert fit.predict(make(formula, FRAME))["mean"].shape == (T * N,)
    with pytest.raises(ValueError, match="made neither by from_formula nor of categories"):
        zoo.MultiTaskData.from_arrays(np.ones((3, 1)), np.arange(3.0)).like(FRAME)


def test_tables_of_other_libraries():
    polars = pytest.importorskip("polars")
    np.testing.assert_allclose(make(df=polars.from_pandas(FRAME)).X, make().X)


def test_labels_places_and_weights():
    frame = FRAME.assign(sick=np.where(rng.random(T * N) > 0.5, "yes", "no"), w=2.0, lon=1.0 * TASK)
    data = make("sick['yes'] ~ time + (1 | patient)", frame, t="lon", weight="w")
    np.testing.assert_array_equal(data.y, frame["sick"] == "yes")
    assert data.t_names == ("lon",) and (data.weight == 2.0).all()


def test_gaps():
    frame = FRAME.assign(age=FRAME["age"].where(FRAME.index != 4))
    with pytest.raises(ValueError, match=r"column 'age' is missing in row 4, and 1 of 72 rows have a gap"):
        make(df=frame)
    with pytest.warns(UserWarning, match="1 of 72 rows have a gap"):
        assert make(df=frame, missing="drop").n_rows == 71
    with pytest.raises(ValueError, match="every row has a gap"):
        make(df=frame.assign(age=np.nan), missing="drop")
    unused = FRAME.assign(dose=np.nan)
    assert make(df=unused).n_rows == 72


@pytest.mark.parametrize(
    ("formula", "message"),
    [
        ("y ~ agee + (1 | patient)", "df has no column 'agee'"),
        ("y ~ age + (1 | patient", "cannot be read: Expect"),
        ("y ~ age", "has no group"),
        ("y ~ age + (1 | patient) + (1 | clinic)", "df has no column 'clinic'"),
        ("y ~ age + (1 | patient) + (1 | patient:sex)", "'patient:sex' is no column"),
        ("y ~ age + (1 | patient:sex)", r"'patient:sex' is no column.* write \(1 \| patient_sex\)"),
        ("y ~ age + (1 + age || patient)", r"holds '\|\|'.*Write one bar"),
        (
            "y ~ age + (age | sex / patient)",
            r"column of both, sex_patient, .*\(age \| sex\) \+ \(age \| sex_patient\)",
        ),
        ("y ~ cube(age) + (1 | patient)", "calls something unknown .*'cube'"),
        ("age + (1 | patient)", "has no response"),
        ("sex ~ age + (1 | patient)", "the response 'sex' is a category of 2 levels"),
    ],
)
def test_bad_formulas(formula, message):
    with pytest.raises(ValueError, match=message):
        make(formula)


def test_bad_arguments_and_rows():
    with pytest.raises(TypeError, match=r"data is the formula .* by zoo\.MultiTaskData\.from_formula"):
        zoo.NIWLinear().fit("y ~ age + (1 | patient)", FRAME)
    with pytest.raises(TypeError, match=r"data is a DataFrame.*from_formula"):
        zoo.NIWLinear().fit(FRAME, "y ~ age + (1 | patient)")
    with pytest.raises(TypeError, match="formula is a DataFrame"):
        make(FRAME, FORMULA)
    with pytest.raises(TypeError, match="df is a list"):
        make(df=[1])
    with pytest.raises(ValueError, match="missing: 'impute' is unknown"):
        make(missing="impute")
    fit = fitted(make())
    for rows, message in (
        (FRAME.assign(sex="x"), r"levels \(x\) in 'sex' are not present"),
        (FRAME.drop(columns="age"), "X has no column 'age', which the formula"),
        (FRAME.assign(age=np.nan), "column 'age' is missing in row 0"),
    ):
        with pytest.raises(ValueError, match=message):
            fit.predict(rows)


def test_a_formula_from_a_file_runs_nothing(tmp_path):
    """What it may call is listed: neither names of Python nor those of the caller."""
    for call in ("open('x')", "eval('1')", "os.system('x')", "np.load('x')", "np.__class__(age)"):
        with pytest.raises(ValueError, match=r"calls something unknown|cannot be read|holds '__'"):
            make(f"y ~ {call} + (1 | patient)")


def test_models_without_shared_coefficients_say_so():
    with pytest.raises(ValueError, match="IndependentTasks has no such coefficients"):
        zoo.IndependentTasks().build(make())


# ---------------------------------------------------------------- what other libraries read otherwise


def test_an_offset_is_refused():
    with pytest.raises(
        ValueError, match=r"holds offset\(dose\), a term with the coefficient 1, which models here"
    ):
        make("y ~ time + offset(dose) + (1 | patient)")


def test_bars_of_one_group_are_said_to_be_correlated():
    with pytest.warns(UserWarning, match="the effects of 'patient' stand in 2 bars, and are correlated here"):
        make("y ~ time + (1 | patient) + (0 + time | patient)")


# ---------------------------------------------------------------- kinds of columns

KINDS = {
    "Int64": lambda: FRAME.assign(age=FRAME["age"].round().astype("Int64")),
    "Float64": lambda: FRAME.assign(age=FRAME["age"].astype("Float64")),
    "Arrow": lambda: FRAME.assign(age=FRAME["age"].astype("float64[pyarrow]")),
    "boolean": lambda: FRAME.assign(age=(FRAME["age"] > 50.0).astype("boolean")),
    "objects": lambda: FRAME.assign(age=FRAME["age"].astype(object)),
    "categories of integers": lambda: FRAME.assign(age=pd.Categorical(FRAME["age"].round().astype(int) % 3)),
    "ordered categories of numbers": lambda: FRAME.assign(
        age=pd.Categorical(FRAME["age"].round() % 3, ordered=True)
    ),
    "string": lambda: FRAME.assign(age=np.where(FRAME["age"] > 50.0, "old", "young")).astype(
        {"age": "string"}
    ),
}


@pytest.mark.parametrize("formula", ["y ~ age + (1 | patient)", "y ~ scale(age) + (1 | patient)"])
@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_every_kind_are_read_again_from_a_file(kind, formula, tmp_path):
    frame = KINDS[kind]()
    if "scale" in formula and ("categor" in kind or kind == "string"):
        pytest.skip("a category has no scale")
    fit = fitted(make(formula, frame))
    fit.save(tmp_path / "fit.nc")
    found = zoo.load(tmp_path / "fit.nc").predict(frame, random_seed=1)
    np.testing.assert_array_equal(found["mean"], fit.predict(frame, random_seed=1)["mean"])


def test_gaps_of_other_libraries_are_dropped():
    pl = pytest.importorskip("polars")
    df = pl.DataFrame({"y": [1.0, 2, 3, 4, 5, 6], "x": [1.0, None, 2, 5, 3, 1], "g": list("aabbcc")})
    with pytest.warns(UserWarning, match="1 of 6 rows have a gap"):
        data = make("y ~ x + (1 | g)", df, missing="drop")
    np.testing.assert_array_equal(data.X[:, data.feature_names.index("x")], [1.0, 2, 5, 3, 1])


def test_names_that_are_no_identifiers():
    frame = FRAME.rename(columns={"age": "age in years"})
    data = make("y ~ `age in years` * sex + (1 | patient)", frame)
    assert data.feature_names == ("Intercept", "age in years", "sex[m]", "age in years:sex[m]")
    np.testing.assert_allclose(fitted(data).predict(frame.head(3))["mean"].shape, 3)


def test_columns_of_dates_are_named():
    frame = FRAME.assign(day=pd.Timestamp("2020-01-01") + pd.to_timedelta(TASK, "D"))
    with pytest.raises(ValueError, match=r"column 'day' of the formula .* neither numbers nor text"):
        make("y ~ day + (1 | patient)", frame)


def test_a_declared_level_without_rows_is_refused_when_it_is_predicted():
    levels = pd.Categorical(
        np.where(FRAME["age"] > 50.0, "old", "young"), ["young", "old", "ancient"], ordered=True
    )
    frame = FRAME.assign(age=levels)
    fit = fitted(make("y ~ age + (1 | patient)", frame))
    assert "age[ancient]" not in fit.data.feature_names
    with pytest.raises(ValueError, match="ancient"):
        fit.predict(
            frame.head(2).assign(age=pd.Categorical(["ancient"] * 2, levels.categories, ordered=True))
        )


def test_a_response_that_is_called_like_a_function_of_r():
    with pytest.raises(ValueError, match=r"the response 'prop\(n, m\)'"):
        make("prop(n, m) ~ age + (1 | patient)", FRAME.assign(n=1, m=3))


def test_slopes_without_levels_meet_at_zero_whatever_the_scale():
    """``(0 + time | patient)``: centred times would let the functions of all patients meet at the mean time."""
    rng = np.random.default_rng(0)
    patient = np.repeat(np.arange(40), 8)
    frame = pd.DataFrame(
        {"patient": patient, "time": rng.uniform(1.0, 3.0, 320), "age": rng.normal(50.0, 5.0, 320)}
    )
    slope = 3.0 + rng.normal(size=40)
    frame["y"] = 5.0 + slope[patient] * frame["time"] + 0.1 * frame["age"] + 0.3 * rng.normal(size=320)
    data = zoo.MultiTaskData.from_formula("y ~ age + time + (0 + time | patient)", frame)
    scaled = data.standardize()
    assert dict(zip(data.feature_names, scaled.transform.x_mean, strict=True))["time"] == 0.0
    assert dict(zip(data.feature_names, scaled.transform.x_mean, strict=True))["age"] != 0.0
    fit = zoo.NIWLinear().fit(scaled, draws=300, tune=200, chains=2, random_seed=1, progress=False)
    back = fit.in_data_units()
    assert not [name for name in back.data_vars if "constant" in str(name)]  # it is the shared Intercept
    # Truth and posterior: within four standard deviations (one of 16,000 seeds for each of the three).
    for name, truth in (("population_mean", slope.mean()), ("noise", 0.3)):
        draws = back[name].to_numpy().ravel()
        assert abs(draws.mean() - truth) < 4.0 * draws.std()
    new = fit.predict(pd.DataFrame({"patient": ["new"], "time": [0.0], "age": [50.0]}), new_task=True)
    assert abs(float(new["mean"][0]) - 10.0) < 0.5
    assert float(new["sd"][0]) < 0.5  # at time 0 all patients have the same mean
    none = zoo.MultiTaskData.from_formula("y ~ 0 + age + time + (0 + time | patient)", frame)
    transform = none.standardize().transform
    assert not transform.x_mean.any() and transform.y_mean == 0.0 and transform.y_scale > 1.0
