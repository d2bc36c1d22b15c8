"""Two walks from a table of one's own to a saved model: of somebody who knows pandas, and of somebody who knows bambi.

Each uses what the README and the pages of the site show, and nothing else.
"""

from pathlib import Path

import arviz as az
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest

import zoo


@pytest.fixture
def csv(tmp_path) -> Path:
    """Marks of pupils of eight schools, as a person has them: text, a gap, and names with blanks."""
    rng = np.random.default_rng(11)
    n = 240
    df = pd.DataFrame(
        {
            "school": rng.choice([f"School {name}" for name in "ABCDEFGH"], n),
            "sex": rng.choice(["f", "m"], n),
            "hours of study": rng.gamma(4.0, 2.0, n).round(1),
        }
    )
    slope = df["school"].map(dict(zip(sorted(df["school"].unique()), np.linspace(0.5, 1.5, 8), strict=True)))
    df["mark"] = (
        40 + slope * df["hours of study"] + 3.0 * (df["sex"] == "m") + 2.0 * rng.normal(size=n)
    ).round(1)
    df.loc[7, "hours of study"] = np.nan
    path = tmp_path / "marks.csv"
    df.to_csv(path, index=False)
    return path


def test_from_pandas_and_scikit_learn(csv, tmp_path):
    from sklearn.metrics import root_mean_squared_error

    marks = pd.read_csv(csv)
    with pytest.raises(ValueError, match=r"'hours of study' is missing in row 7.*missing='drop'"):
        zoo.MultiTaskData.from_frame(marks, y="mark", task="school")
    with pytest.warns(UserWarning, match="1 of 240 rows"):
        data = zoo.MultiTaskData.from_frame(marks, y="mark", task="school", missing="drop")
    assert set(data.feature_names) == {"sex[m]", "hours of study"}
    train, test = data.split(0.25, random_seed=1)
    fit = zoo.NIWLinear().fit(train.standardize().add_intercept(), random_seed=1, progress=False)

    predicted = fit.predict(test, random_seed=1, output="pandas")
    assert root_mean_squared_error(test.y, predicted["mean"]) < 0.5 * test.y.std()
    table = marks.dropna().head(4)
    shown = fit.predict(table, random_seed=1, output="pandas")
    assert list(shown.index) == list(table.index) and {"mean", "lower", "upper"} <= set(shown.columns)

    units = fit.in_data_units()
    effect = units["population_mean"].sel(feature="sex[m]")
    assert abs(float(effect.mean()) - 3.0) < 4.0 * float(effect.std())
    figure = zoo.plots.coefficient_forest(fit, feature="hours of study")
    assert {label.get_text() for label in figure.axes[0].get_yticklabels()} == set(data.task_names)
    plt.close(figure)
    fit.report(tmp_path / "report", test=test)
    page = (tmp_path / "report" / "report.html").read_text(encoding="utf-8")
    assert "population_mean[sex[m]]" in page and "in the units of the data" in page
    fit.save(tmp_path / "fit.nc")
    again = zoo.load(tmp_path / "fit.nc").predict(table, random_seed=1, output="pandas")
    pd.testing.assert_frame_equal(again, shown)


def test_from_bambi(csv, tmp_path):
    pytest.importorskip("formulae")
    marks = pd.read_csv(csv).rename(columns={"hours of study": "hours"})
    formula = "mark ~ sex + hours + (1 + hours | school)"
    with pytest.raises(ValueError, match=r"column 'hours' is missing in row 7.*missing='drop'"):
        zoo.MultiTaskData.from_formula(formula, marks)
    with pytest.warns(UserWarning, match="1 of 240 rows"):
        data = zoo.MultiTaskData.from_formula(formula, marks, missing="drop")
    fit = zoo.NIWLinear().fit(data.standardize(), random_seed=1, progress=False)

    units = fit.in_data_units()
    summary = az.summary(units, var_names=["shared_coefficients", "population_mean", "noise"])
    assert {"shared_coefficients[sex[m]]", "population_mean[hours]", "noise"} <= set(summary.index)
    for draws, truth in (
        (units["shared_coefficients"].sel(shared_feature="sex[m]"), 3.0),
        (units["population_mean"].sel(feature="hours"), 1.0),
        (units["noise"], 2.0),
    ):
        assert abs(float(draws.mean()) - truth) < 4.0 * float(draws.std())

    new = marks.dropna().head(3).assign(school="School Z")
    predicted = fit.predict(new, new_task=True, random_seed=1, output="pandas")
    assert np.all(predicted["sd"] > 2.0)
    fit.extend("posterior_predictive", "log_likelihood", random_seed=1)
    assert az.loo(fit.idata).elpd < 0.0
    fit.save(tmp_path / "fit.nc")
    again = zoo.load(tmp_path / "fit.nc").predict(new, new_task=True, random_seed=1, output="pandas")
    pd.testing.assert_frame_equal(again, predicted)
