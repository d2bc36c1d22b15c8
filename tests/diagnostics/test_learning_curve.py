"""Scores by the number of training rows per task."""

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import matplotlib.pyplot as plt

import zoo
from zoo.diagnostics import learning_curve

_FEW = {"draws": 60, "tune": 60, "chains": 2}


@pytest.fixture(scope="module")
def data():
    return zoo.datasets.simulate_groups(
        n_groups=2, tasks_per_group=6, n_features=5, n_per_task=90, random_seed=1
    )[0]


@pytest.fixture(scope="module")
def table(data):
    model = zoo.MaxMargin(likelihood="gaussian")
    with pytest.warns(
        zoo.ConvergenceWarning, match=r"4 fits have not converged. The first, 10 rows per task"
    ) as said:
        table = learning_curve(model, data, rows=(10, 60), repeats=2, random_seed=1, **_FEW)
    assert len(said) == 1
    return table


def test_one_row_for_each_model_size_and_repeat(table):
    assert list(table.columns[:3]) == ["model", "rows", "repeat"]
    assert len(table) == 3 * 2 * 2
    assert not table.duplicated(["model", "rows", "repeat"]).any()


def test_sharing_buys_most_where_rows_are_few(table):
    mean = table.pivot_table(index="rows", columns="model", values="RMSE")
    gain = mean["IndependentTasks"] - mean["MaxMargin"]
    assert gain[10] > 0.05 and gain[10] > 3.0 * gain[60]
    assert mean["MaxMargin"][60] < mean["MaxMargin"][10]


def test_the_longer_training_set_contains_the_shorter_one(data, monkeypatch):
    seen = []
    whole = zoo.PooledTasks.fit

    def fit(self, train, *arguments, **options):
        seen.append({tuple(row) for row in np.round(train.X, 9)})
        return whole(self, train, *arguments, **options)

    monkeypatch.setattr(zoo.PooledTasks, "fit", fit)
    learning_curve(
        zoo.PooledTasks(), data, rows=(4, 8), repeats=1, standardize=False, yardsticks=[], random_seed=1
    )
    small, large = seen
    assert small < large and len(small) == 4 * 12 and len(large) == 8 * 12


@pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")
def test_yardsticks_take_features_that_the_data_share_like_others():
    pytest.importorskip("formulae")
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"patient": np.repeat(np.arange(6), 30), "time": rng.normal(size=180)})
    table = table.assign(age=rng.normal(size=6)[table["patient"]], clinic=np.resize(list("uvw"), 180))
    table["y"] = table["age"] + table["time"] + 0.3 * rng.normal(size=180)
    data = zoo.MultiTaskData.from_formula("y ~ age + time + (1 + time | patient) + (1 | clinic)", table)
    found = learning_curve(zoo.NIWLinear(), data, rows=(15,), repeats=1, random_seed=1, **_FEW)
    assert list(found["model"]) == ["NIWLinear", "IndependentTasks", "PooledTasks"]
    assert (found["RMSE"] < 0.6).all()


def test_refusals(data):
    model = zoo.PooledTasks()
    with pytest.raises(ValueError, match="data are standardized"):
        learning_curve(model, data.standardize())
    with pytest.raises(ValueError, match="rows is empty"):
        learning_curve(model, data, rows=())
    with pytest.raises(ValueError, match="yardsticks is not given"):
        learning_curve(zoo.PooledTasks(likelihood="poisson"), data)
    # What is advised has the grades of the model, and not the five of the word.
    with pytest.raises(ValueError, match=r"PooledTasks\(likelihood=zoo.Ordinal\(grades=4\)\)"):
        learning_curve(zoo.PooledTasks(likelihood=zoo.Ordinal(grades=4)), data)


def test_picture(table):
    axes = zoo.plots.learning_curve(table).axes[0]
    lines = {line.get_label(): line.get_ydata() for line in axes.get_lines()}
    expected = table.pivot_table(index="rows", columns="model", values="RMSE")
    assert set(lines) == set(expected.columns)
    for model, values in lines.items():
        assert values == pytest.approx(expected[model].to_numpy())
    assert axes.get_ylabel() == "RMSE of held-out rows (lower is better)"
    assert [tick.get_text() for tick in axes.get_xticklabels()] == ["10", "60"]
    assert "2 repeats" in axes.get_title()
    with pytest.raises(ValueError, match="score: 'accuracy'"):
        zoo.plots.learning_curve(table, score="accuracy")
    with pytest.raises(ValueError, match="no column 'model'"):
        zoo.plots.learning_curve(pd.DataFrame({"RMSE": [1.0]}))
    plt.close("all")
