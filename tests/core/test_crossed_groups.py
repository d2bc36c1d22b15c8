"""Formulas with a second group: which features, posteriors, predictions, files, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest
from sklearn.linear_model import LinearRegression

import zoo
from tests.comparisons import largest_z
from zoo.data.further_groups import dense_columns

pytestmark = pytest.mark.usefixtures("layout")
T, N, CLINICS = 20, 8, list("abcdef")
FORMULA = "y ~ age + time + (1 + time | patient) + (1 | clinic)"
QUICK = {"draws": 60, "tune": 60, "chains": 2, "random_seed": 1, "progress": False}


def made(seed: int = 0) -> tuple[pd.DataFrame, np.ndarray]:
    """A table, and the effects of its clinics."""
    rng = np.random.default_rng(seed)
    patient = np.repeat(np.arange(T), N)
    clinic, time = rng.integers(0, len(CLINICS), T * N), rng.uniform(0.0, 2.0, T * N)
    age, effect = rng.normal(50.0, 9.0, T)[patient], rng.normal(0.0, 0.8, len(CLINICS))
    y = 0.05 * age + rng.normal(size=T)[patient] + (1.0 + 0.4 * rng.normal(size=T)[patient]) * time
    frame = pd.DataFrame({"age": age, "time": time, "patient": [f"p{t:02}" for t in patient]})
    frame["clinic"] = np.array(CLINICS)[clinic]
    return frame.assign(y=y + effect[clinic] + 0.3 * rng.normal(size=T * N)), effect


FRAME, EFFECT = made()
NAMES = [f"1|clinic[{level}]" for level in CLINICS]


@pytest.fixture(scope="module")
def data(layout):
    found = zoo.MultiTaskData.from_formula(FORMULA, FRAME)
    assert found.is_sparse == (layout == "sparse")
    return found


def columns_of(data, names):
    return dense_columns(data.X, [data.feature_names.index(name) for name in names])


def quick_fit(factory, data, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return factory.fit(data.standardize(), **{**QUICK, **options})


@pytest.fixture(scope="module")
def fit(data):
    return quick_fit(zoo.NIWLinear(), data, draws=500)


def test_levels_are_shared_features_of_one_effect(data):
    assert data.task_names == tuple(sorted(FRAME["patient"].unique()))
    assert data.shared_names == ("age", *NAMES)
    assert data.effects == dict.fromkeys(NAMES, "1|clinic")
    assert "share 1 and 6 are levels of 1|clinic" in repr(data)
    np.testing.assert_array_equal(
        columns_of(data, NAMES), FRAME["clinic"].to_numpy()[:, None] == np.array(CLINICS)
    )


def test_standardize_leaves_levels_as_they_are(data):
    """Else a rare level would have a wider prior."""
    scaled = data.standardize()
    np.testing.assert_array_equal(columns_of(scaled, NAMES), columns_of(data, NAMES))
    age = columns_of(scaled, ["age"])
    np.testing.assert_allclose([age.mean(), age.std()], [0.0, 1.0], atol=1e-12)
    for name in ("age", "time", *NAMES):
        back = dense_columns(scaled.original_X(), [data.feature_names.index(name)])
        np.testing.assert_allclose(back, columns_of(data, [name]), rtol=1e-12, atol=1e-12)


def test_slopes_of_a_second_group_are_independent_and_said_to_be():
    with pytest.warns(
        UserWarning, match=r"\(1 \+ time \|\| clinic\) in lme4. Only the first group, 'patient'"
    ):
        data = zoo.MultiTaskData.from_formula("y ~ time + (1 | patient) + (1 + time | clinic)", FRAME)
    assert sorted(set(data.effects.values())) == ["1|clinic", "time|clinic"]
    slopes = columns_of(data, ["time|clinic[b]"])[:, 0]
    np.testing.assert_allclose(slopes, FRAME["time"].where(FRAME["clinic"] == "b", 0.0))


def test_the_posterior_finds_the_effects_and_their_spread(fit):
    posterior = fit.posterior
    assert list(posterior["effect"].to_numpy()) == ["1|clinic"]
    assert posterior["effect_scale"].dims == ("chain", "draw", "effect")
    found = posterior["shared_coefficients"].sel(shared_feature=NAMES).mean(("chain", "draw")).to_numpy()
    assert np.corrcoef(found, EFFECT)[0, 1] > 0.98


def test_predictions_read_a_table_and_refuse_a_new_level(fit):
    found = fit.predict(FRAME[::-1], random_seed=1)["mean"].to_numpy()[::-1]
    assert np.sqrt(np.mean((found - FRAME["y"]) ** 2)) < 0.35
    as_category = FRAME.assign(clinic=pd.Categorical(FRAME["clinic"], categories=[*"zfedcba"]))
    np.testing.assert_array_equal(
        fit.predict(as_category, random_seed=1)["mean"][::-1], found[::-1][::-1][::-1]
    )
    with pytest.raises(
        ValueError, match="column 'clinic' has the level 'new' in row 0, which the fit has not"
    ):
        fit.predict(FRAME.head(2).assign(clinic="new"))
    with pytest.raises(ValueError, match="X has no column 'clinic'"):
        fit.predict(FRAME.drop(columns="clinic"))
    with pytest.raises(ValueError, match="column 'clinic' is missing in row 0"):
        fit.predict(FRAME.head(2).assign(clinic=None))
    new = fit.predict(FRAME.head(4).assign(patient="new"), new_task=True, random_seed=1)
    assert np.all(new["sd"] > fit.predict(FRAME.head(4), random_seed=1)["sd"])


def test_files_and_other_rows_keep_the_effects(fit, data, tmp_path):
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.effects == fit.data.effects
    np.testing.assert_array_equal(loaded.predict(FRAME)["mean"], fit.predict(FRAME)["mean"])
    like = data.like(FRAME.head(7))
    assert like.effects == data.effects and like.X.shape[1] == data.n_features
    assert data.take(range(40)).effects == data.effects


def test_data_of_two_tables_are_told_apart(fit, data):
    """Levels of another table would stand in other columns."""
    other = zoo.MultiTaskData.from_formula(FORMULA, FRAME.assign(clinic="of " + FRAME["clinic"]))
    with pytest.raises(ValueError, match=r"X (has other|lacks)"):
        fit.predict(other)
    held_out, training = data.folds(2, random_seed=1)[0]
    assert held_out.is_sparse == training.is_sparse == data.is_sparse


def test_an_estimator_as_mean_does_not_see_them(data):
    with_mean = data.add_mean(LinearRegression(), keep="all", random_seed=1)
    assert with_mean.feature_names == ("mean", *data.feature_names)
    assert with_mean.learned_mean.seen == ("age", "time")
    fit = quick_fit(zoo.NIWLinear(), with_mean)
    again = fit.predict(FRAME, random_seed=1)["mean"]
    np.testing.assert_allclose(again, fit.predict(data, random_seed=1)["mean"], rtol=1e-9)


def test_units_are_those_of_the_table(fit, data):
    """The standardized fit and one of the rows as they are have the same coefficients, up to noise and priors."""
    slopes = fit.in_data_units()["population_mean"].mean(("chain", "draw"))
    assert float(slopes.sel(feature="time")) == pytest.approx(1.0, abs=0.35)
    assert float(fit.in_data_units()["shared_coefficients"].mean(("chain", "draw"))[0]) == pytest.approx(
        0.05, abs=0.03
    )


def test_levels_of_numbers_and_of_one_patient_alone():
    """A level that one task has alone is no mistake: its own prior holds it."""
    frame = FRAME.assign(
        clinic=np.where(FRAME["patient"] == "p03", 7, FRAME["clinic"].map(CLINICS.index) % 3)
    )
    fit = quick_fit(zoo.NIWLinear(), zoo.MultiTaskData.from_formula(FORMULA, frame))
    assert list(fit.posterior["shared_feature"].to_numpy())[1:] == [f"1|clinic[{k}]" for k in (0, 1, 2, 7)]
    assert np.isfinite(fit.predict(frame, random_seed=1)["mean"]).all()


@pytest.mark.parametrize(
    "factory",
    [
        zoo.MaxMargin(likelihood="epsilon_insensitive"),
        zoo.NIWGaussianProcess(),
        zoo.NIWLinear(likelihood="student_t", shared_scale="learned"),
        zoo.NonparametricMaxMargin(likelihood="epsilon_insensitive"),
    ],
    ids=lambda factory: type(factory).__name__,
)
def test_other_models_have_them(factory, data):
    fit = quick_fit(factory, data)
    assert fit.posterior["effect_scale"].sizes["effect"] == 1
    assert np.isfinite(fit.predict(FRAME.head(3), random_seed=1)["mean"]).all()


def test_population_alone_can_be_kept(fit, data):
    lean = quick_fit(zoo.NIWLinear(), data, draws=500, keep="population")
    np.testing.assert_array_equal(lean.posterior["effect_scale"], fit.posterior["effect_scale"])
    apart = lean.predict(FRAME, random_seed=1)["mean"] - fit.predict(FRAME, random_seed=1)["mean"]
    assert np.abs(apart).max() < 0.1


@pytest.mark.statistical
def test_agrees_with_nuts(data):
    """Null: both have the same posterior. Some 40 means, each rejected where its z is beyond 5: below 1e-4 in all."""
    data = data.select_tasks(data.task_names[:8]).standardize()
    model = zoo.NIWLinear(scale_matrix=0.5)
    settings = {"chains": 2, "random_seed": 1, "progress": False}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        found = [
            model.fit(data, "gibbs", draws=4000, tune=500, **settings),
            model.fit(data, "nuts", draws=2000, tune=1000, nuts={"target_accept": 0.95}, **settings),
        ]

    def quantities(posterior):
        shared = posterior["shared_coefficients"].to_numpy()
        effects = shared[:, :, 1:] - shared[:, :, 1:].mean(axis=2, keepdims=True)  # apart from the mean level
        return {
            "log scale": np.log(posterior["effect_scale"].to_numpy()[:, :, 0]),
            "age": shared[:, :, 0],
            **{f"effect {i}": effects[:, :, i] for i in range(effects.shape[2])},
            "log noise": np.log(posterior["noise"].to_numpy()),
            **{f"slope {t}": posterior["coefficients"].to_numpy()[:, :, 1, t] for t in range(8)},
        }

    z, where = largest_z(*(quantities(fit.posterior) for fit in found))
    assert z < 5.0, (where, z)


@pytest.mark.parametrize(
    ("noise", "units", "weight"), [(0.0, 1.0, 1.0), (1e-9, 1e6, 1.0), (0.1, 1e-8, 1e8)], ids=str
)
def test_rows_without_noise_and_in_any_units(noise, units, weight):
    """Where rows are known to many digits, residuals of the joint draw are rounding."""
    rng = np.random.default_rng(3)
    patient, clinic, x = rng.integers(0, 12, 400), rng.integers(0, 90, 400), rng.normal(size=400)
    y = rng.normal(size=12)[patient] + rng.normal(size=90)[clinic] + x + noise * rng.normal(size=400)
    frame = pd.DataFrame({"y": units * y, "x": units * x, "patient": patient, "clinic": clinic})
    frame["w"] = 1.0 + weight * rng.random(400)
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 + x | patient) + (1 | clinic)", frame, weight="w")
    found = quick_fit(zoo.NIWLinear(), data).predict(frame, random_seed=1)
    assert np.sqrt(np.mean((found["mean"] - frame["y"]) ** 2)) < max(0.02, 1.5 * noise) * frame["y"].std()
