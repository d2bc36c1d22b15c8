"""Effects of levels that a fit has not seen: their law, what stays as it was, and what is refused."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo

pytest.importorskip("formulae")
pytestmark = pytest.mark.usefixtures("layout")
SHORT = {"draws": 400, "tune": 200, "chains": 2, "random_seed": 1, "progress": False}
T, LEVELS = 12, 8


def table(seed=0, levels=LEVELS, rows=12, spread=1.5):
    """Patients who meet clinics at random; the effects of the clinics beside it."""
    rng = np.random.default_rng(seed)
    effects = spread * rng.standard_normal(levels)
    patient, clinic = np.repeat(np.arange(T), rows), rng.integers(levels, size=T * rows)
    x = rng.standard_normal(T * rows)
    y = 0.5 * x + rng.standard_normal(T)[patient] + effects[clinic] + 0.3 * rng.standard_normal(T * rows)
    return pd.DataFrame(
        {"y": y, "x": x, "patient": [f"p{p}" for p in patient], "clinic": [f"c{c}" for c in clinic]}
    )


@pytest.fixture(scope="module")
def frame():
    return table()


@pytest.fixture(scope="module")
def fit(frame, layout):
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 + x | patient) + (1 | clinic)", frame)
    return zoo.NIWLinear().fit(data.standardize(), **SHORT)


def new_rows(frame, *clinics):
    return frame.head(len(clinics)).assign(clinic=list(clinics))


def test_a_new_level_is_refused_with_the_way_out(fit, frame):
    with pytest.raises(
        ValueError, match=r"column 'clinic' has the level 'new' in row 1.*with_new_levels\(X\)"
    ):
        fit.predict(new_rows(frame, "c0", "new"))


def test_known_levels_are_predicted_as_before(fit, frame):
    rows = new_rows(frame, "c0", "c3", "new")
    more = fit.with_new_levels(rows, random_seed=1)
    known = rows.head(2)
    for name in ("mean", "sd"):
        np.testing.assert_allclose(
            more.predict(known, random_seed=2)[name], fit.predict(known, random_seed=2)[name], rtol=1e-8
        )
    assert fit.with_new_levels(known) is fit
    assert "1|clinic[new]" not in fit.data.feature_names


def test_the_effect_of_a_new_level_has_the_law_of_its_group(fit, frame):
    more = fit.with_new_levels(new_rows(frame, "new", "other", "new"), random_seed=1)
    drawn = more.posterior["shared_coefficients"].sel(shared_feature=["1|clinic[new]", "1|clinic[other]"])
    z = (drawn / more.posterior["effect_scale"].isel(effect=0)).to_numpy().reshape(-1, 2)
    # 800 standard normal draws of each: five standard errors, a false alarm in a million.
    assert np.abs(z.mean(axis=0)).max() < 5.0 / np.sqrt(len(z))
    assert np.abs((z**2).mean(axis=0) - 1.0).max() < 5.0 * np.sqrt(2.0 / len(z))
    assert abs(np.corrcoef(z.T)[0, 1]) < 5.0 / np.sqrt(len(z))


def test_a_new_level_is_one_level_in_all_rows_and_less_certain(fit, frame):
    rows = new_rows(frame, "new", "new", "c1").assign(patient="p0", x=0.0)
    more = fit.with_new_levels(rows, random_seed=1)
    f = more.predict_draws(rows, random_seed=1)["f"].to_numpy().reshape(-1, 3)
    np.testing.assert_allclose(f[:, 0], f[:, 1])
    assert f[:, 0].std() > 3.0 * f[:, 2].std()


@pytest.mark.statistical
def test_intervals_of_new_levels_hold_what_they_say():
    """Ten tables with eight clinics to learn from and forty to predict: 400 rows, 90 % intervals."""
    inside = []
    for seed in range(10):
        everything = table(seed, levels=48, rows=40)
        known = everything["clinic"].isin([f"c{c}" for c in range(8)])
        data = zoo.MultiTaskData.from_formula("y ~ x + (1 | patient) + (1 | clinic)", everything[known])
        fit = zoo.NIWLinear().fit(data.standardize(), **SHORT)
        rows = everything[~known].groupby("clinic").head(1)
        found = fit.with_new_levels(rows, random_seed=seed).predict(rows, random_seed=seed)
        inside += [
            *((found["lower"] <= rows["y"].to_numpy()) & (rows["y"].to_numpy() <= found["upper"])).to_numpy()
        ]
    # Eight clinics leave their spread uncertain, so that rows of one table miss together.
    assert 0.82 < np.mean(inside) < 0.97, np.mean(inside)


def test_labels_and_a_subclass(frame):
    class Mine(zoo.MaxMargin):
        """A model of a user."""

    centred = frame["y"] - frame.groupby("patient")["y"].transform("median")
    labels = frame.assign(y=np.where(centred > 0.0, 1.0, -1.0))
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 + x | patient) + (1 | clinic)", labels)
    fit = Mine(likelihood="logistic").fit(data, **SHORT)
    rows = new_rows(frame, "c0", "new")
    found = fit.with_new_levels(rows, random_seed=1).predict(rows, random_seed=1)
    assert np.all((found["probability"] > 0.0) & (found["probability"] < 1.0))


def test_what_is_refused(fit, frame, tmp_path):
    rows = new_rows(frame, "c0", "new")
    with pytest.raises(ValueError, match="X has no column 'clinic'"):
        fit.with_new_levels(rows.drop(columns="clinic"))
    with pytest.raises(TypeError, match="without column names"):
        fit.with_new_levels(rows[["x"]].to_numpy())
    with pytest.raises(ValueError, match="draw them again from the loaded one"):
        fit.with_new_levels(rows, random_seed=1).save(tmp_path / "fit.nc")
    plain = zoo.MultiTaskData.from_formula("y ~ x + (1 | patient)", frame)
    with pytest.raises(ValueError, match="the data have no further groups"):
        zoo.NIWLinear().fit(plain, **{**SHORT, "draws": 20, "tune": 20}).with_new_levels(rows)


def test_new_patients_in_new_clinics(fit, frame):
    rows = new_rows(frame, "new", "c2").assign(patient=["someone", "else"])
    found = fit.with_new_levels(rows, random_seed=1).predict(rows, new_task=True, random_seed=1)
    assert found["sd"][0] > found["sd"][1]


@pytest.mark.filterwarnings("ignore:the effects of 'clinic'")
def test_new_levels_of_two_effects_stand_in_their_own_columns(frame):
    """The columns of the second effect come after those of the first one, and a new level of this one at the end."""
    data = zoo.MultiTaskData.from_formula("y ~ x + (1 | patient) + (1 + x | clinic)", frame)
    fit = zoo.NIWLinear().fit(data.standardize(), **SHORT)
    rows = new_rows(frame, "new", "c1")
    more = fit.with_new_levels(rows, random_seed=1)
    found = more.predict(rows, random_seed=1)
    np.testing.assert_allclose(found["mean"][1], fit.predict(rows[1:], random_seed=1)["mean"][0], rtol=1e-9)
    assert found["sd"][0] > 2.0 * found["sd"][1]
