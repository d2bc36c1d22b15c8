"""Formulas with a second group: which features, posteriors, predictions, files, and what is refused."""

from __future__ import annotations

import warnings

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.comparisons import largest_z

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
DATA = zoo.MultiTaskData.from_formula(FORMULA, FRAME)
NAMES = [f"1|clinic[{level}]" for level in CLINICS]


def quick_fit(factory, data=DATA, **options):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", zoo.ConvergenceWarning)
        return factory.fit(data.standardize(), **{**QUICK, **options})


@pytest.fixture(scope="module")
def fit():
    return quick_fit(zoo.NIWLinear(), draws=500)


def test_levels_are_shared_features_of_one_effect():
    assert DATA.task_names == tuple(sorted(FRAME["patient"].unique()))
    assert DATA.shared_names == ("age", *NAMES)
    assert DATA.effects == dict.fromkeys(NAMES, "1|clinic")
    assert "share 1 and 6 are levels of 1|clinic" in repr(DATA)
    columns = DATA.X[:, [DATA.feature_names.index(name) for name in NAMES]]
    np.testing.assert_array_equal(columns, FRAME["clinic"].to_numpy()[:, None] == np.array(CLINICS))


def test_standardize_leaves_levels_as_they_are():
    """Else a rare level would have a wider prior."""
    at = [DATA.feature_names.index(name) for name in NAMES]
    np.testing.assert_array_equal(DATA.standardize().X[:, at], DATA.X[:, at])
    assert DATA.standardize().X[:, DATA.feature_names.index("age")].std() == pytest.approx(1.0)


def test_slopes_of_a_second_group_are_independent_and_said_to_be():
    with pytest.warns(
        UserWarning, match=r"\(1 \+ time \|\| clinic\) in lme4. Only the first group, 'patient'"
    ):
        data = zoo.MultiTaskData.from_formula("y ~ time + (1 | patient) + (1 + time | clinic)", FRAME)
    assert sorted(set(data.effects.values())) == ["1|clinic", "time|clinic"]
    slopes = data.X[:, data.feature_names.index("time|clinic[b]")]
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


def test_files_and_other_rows_keep_the_effects(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    assert loaded.data.effects == fit.data.effects
    np.testing.assert_array_equal(loaded.predict(FRAME)["mean"], fit.predict(FRAME)["mean"])
    like = DATA.like(FRAME.head(7))
    assert like.effects == DATA.effects and like.X.shape[1] == DATA.n_features
    assert DATA.take(range(40)).effects == DATA.effects


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
def test_other_models_have_them(factory):
    fit = quick_fit(factory)
    assert fit.posterior["effect_scale"].sizes["effect"] == 1
    assert np.isfinite(fit.predict(FRAME.head(3), random_seed=1)["mean"]).all()


def test_population_alone_can_be_kept(fit):
    lean = quick_fit(zoo.NIWLinear(), draws=500, keep="population")
    np.testing.assert_array_equal(lean.posterior["effect_scale"], fit.posterior["effect_scale"])
    apart = lean.predict(FRAME, random_seed=1)["mean"] - fit.predict(FRAME, random_seed=1)["mean"]
    assert np.abs(apart).max() < 0.1


@pytest.mark.statistical
def test_agrees_with_nuts():
    """Null: both have the same posterior. Some 40 means, each rejected where its z is beyond 5: below 1e-4 in all."""
    data = DATA.select_tasks(DATA.task_names[:8]).standardize()
    model = zoo.NIWLinear(scale=0.5)
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
