"""Tasks, grades, weights and words of a formula keep the names that a CSV file gives them."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.cli.commands import FEW, assert_refused
from zoo.cli import main


@pytest.fixture
def of_tasks(tmp_path):
    """Writes a CSV file with eight rows of each task, whose level is its place in the list."""

    def write(name, tasks, column="ward"):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({column: np.repeat(tasks, 8), "x": rng.normal(size=8 * len(tasks))})
        frame["y"] = 10.0 * np.repeat(np.arange(len(tasks)), 8) + frame["x"]
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


def _predicted(fit, data, *more):
    out = data.with_suffix(".predicted.csv")
    assert main([str(a) for a in ["predict", fit, "--data", data, "--out", out, "--seed", 1, *more]]) == 0
    return pd.read_csv(out, dtype={"task": str}, keep_default_na=False)


def _fit_tasks(data, out, *more, model="IndependentTasks"):
    command = ["fit", model, "--data", data, "--y", "y", "--task", "ward", "--seed", 1, "--out", out]
    assert main([str(a) for a in [*command, *FEW, *more]]) == 0
    return zoo.load(out)


def test_a_task_keeps_the_name_that_the_file_writes(of_tasks, tmp_path):
    out = tmp_path / "fit.nc"
    fit = _fit_tasks(of_tasks("train.csv", ["01", "02", "03", "A1", "NA"]), out)
    assert fit.data.task_names == ("01", "02", "03", "A1", "NA")
    whole = _predicted(out, tmp_path / "train.csv")
    only = _predicted(out, of_tasks("some.csv", ["01", "02"]))
    assert set(only["task"]) == {"01", "02"} and set(whole["task"]) == set(fit.data.task_names)
    assert only["mean"].to_numpy() == pytest.approx([0.0] * 8 + [10.0] * 8, abs=6.0)


def test_numbers_that_are_written_otherwise_are_other_tasks(of_tasks, tmp_path, capsys):
    out = tmp_path / "fit.nc"
    fit = _fit_tasks(of_tasks("train.csv", ["1.1", "1.10", "2.1", "2.2"]), out)
    assert fit.data.task_names == ("1.1", "1.10", "2.1", "2.2")
    assert_refused(
        capsys,
        tmp_path,
        ["predict", out, "--data", of_tasks("new.csv", ["1.100"])],
        "task '1.100' is not among",
    )
    # As many digits as the largest has do not make another order than before.
    out = tmp_path / "many.nc"
    fit = _fit_tasks(of_tasks("many.csv", [str(i) for i in range(1, 13)]), out)
    assert fit.data.task_names == tuple(str(i) for i in range(1, 13))
    assert set(_predicted(out, of_tasks("floats.csv", ["1.0", " 12"]))["task"]) == {"1", "12"}
    assert_refused(
        capsys, tmp_path, ["predict", out, "--data", of_tasks("zero.csv", ["01"])], "task '01' is not among"
    )


@pytest.mark.filterwarnings("ignore:no feature is constant")
@pytest.mark.parametrize("given", ["integers", "positions"])
def test_fits_of_integer_tasks_know_them_in_any_writing(of_tasks, tmp_path, given):
    """Saved from Python, or by a `zoo fit` that guessed the kind of the column."""
    frame = pd.read_csv(of_tasks("train.csv", ["1", "2", "10"]))
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="ward")
    if given == "positions":
        data = zoo.MultiTaskData.from_arrays(frame[["x"]], frame["y"], task=frame["ward"])
        assert data.task_names == ("task 1", "task 2", "task 10")
    out = tmp_path / "fit.nc"
    zoo.IndependentTasks().fit(data, random_seed=1, progress=False).save(out)
    expected = _predicted(out, tmp_path / "train.csv")
    assert list(expected["task"].unique()) == list(data.task_names)
    again = _predicted(out, of_tasks("written.csv", ["01", "2.0", "10"]), "--task", "ward")
    pd.testing.assert_frame_equal(again, expected)


def test_a_task_that_is_a_feature_too_stays_a_number(of_tasks, tmp_path):
    data = of_tasks("train.csv", ["2019", "2020", "2021"])
    fit = _fit_tasks(data, tmp_path / "fit.nc", "--features", "ward,x", model="PooledTasks")
    assert fit.data.task_names == ("2019", "2020", "2021") and fit.data.feature_names[0] == "ward"
    assert set(_predicted(tmp_path / "fit.nc", data)["task"]) == {"2019", "2020", "2021"}


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"judge": np.repeat(list("abcd"), 40), "x": rng.normal(size=160)})
    frame["rating"] = 1 + np.digitize(frame["x"] + 0.3 * rng.normal(size=160), [-0.5, 0.5])
    return frame.assign(weight=rng.uniform(0.5, 2.0, size=160))


def test_grades_are_predicted_one_row_for_each(ratings, tmp_path):
    ratings.drop(columns="weight").to_csv(tmp_path / "train.csv", index=False)
    out = tmp_path / "fit.nc"
    command = ["fit", "NIWLinear", "--data", tmp_path / "train.csv", "--y", "rating", "--task", "judge"]
    more = ["--set", "likelihood=ordinal", "--set", "likelihood.grades=3", "--seed", 1, "--out", out]
    assert main([str(a) for a in [*command, *more, *FEW]]) == 0
    table = _predicted(out, tmp_path / "train.csv")
    columns = [
        "row",
        "task",
        "mean",
        "sd",
        "lower",
        "upper",
        "probability_1",
        "probability_2",
        "probability_3",
        "label",
    ]
    assert list(table.columns) == columns and len(table) == 160
    assert np.mean(table["label"] == ratings["rating"]) > 0.7
    assert main(["predict", str(out), "--data", str(tmp_path / "train.csv")]) == 0


def _ordinal_fit(frame, y, out):
    data = zoo.MultiTaskData.from_frame(
        frame.drop(columns="rating").assign(rating=y), y="rating", task="judge"
    )
    fit = zoo.NIWLinear(likelihood=zoo.Ordinal(grades=3)).fit(
        data.add_intercept(), draws=40, tune=40, chains=2, random_seed=1, progress=False
    )
    fit.save(out)
    return fit


def test_named_grades_are_read_from_a_file(ratings, tmp_path, capsys):
    names = ["poor", "NA", "good"]
    words = pd.Series(pd.Categorical.from_codes(ratings["rating"] - 1, names, ordered=True), ratings.index)
    table = ratings.drop(columns="weight").assign(rating=words)
    out = tmp_path / "fit.nc"
    fit = _ordinal_fit(table, words, out)
    table.to_csv(tmp_path / "test.csv", index=False)
    assert set(_predicted(out, tmp_path / "test.csv")["label"]) <= set(names)
    command = ["report", out, "--out", tmp_path / "report", "--y", "rating", "--test"]
    assert main([str(a) for a in [*command, tmp_path / "test.csv"]]) == 0
    accuracy = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    expected = zoo.diagnostics.compare({"NIWLinear": fit}, fit.data, random_seed=0)
    assert accuracy.loc["NIWLinear"].to_numpy() == pytest.approx(
        expected.loc["NIWLinear"].to_numpy(), rel=1e-6
    )
    table.assign(rating=["fine", *words[1:]]).to_csv(tmp_path / "other.csv", index=False)
    assert_refused(
        capsys,
        tmp_path,
        [*command, tmp_path / "other.csv"],
        "column 'rating' is 'fine' in row 0, and the grades",
    )


@pytest.mark.filterwarnings("default:the fit has weights of rows:UserWarning")
def test_test_rows_have_the_weights_of_the_fit(ratings, tmp_path, capsys):
    ratings.to_csv(tmp_path / "train.csv", index=False)
    command = [
        "fit",
        "IndependentTasks",
        "--data",
        tmp_path / "train.csv",
        "--y",
        "rating",
        "--task",
        "judge",
    ]
    out = tmp_path / "fit.nc"
    assert main([str(a) for a in [*command, "--weight", "weight", "--seed", 1, "--out", out, *FEW]]) == 0
    report = ["report", out, "--out", tmp_path / "report", "--test"]
    assert main([str(a) for a in [*report, tmp_path / "train.csv"]]) == 0
    said = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    test = zoo.MultiTaskData.from_frame(ratings, y="rating", task="judge", weight="weight").add_intercept()
    expected = zoo.diagnostics.compare({"IndependentTasks": zoo.load(out)}, test, random_seed=0)
    assert said.loc["IndependentTasks", "RMSE"] == pytest.approx(expected["RMSE"].item(), rel=1e-6)
    ratings.drop(columns="weight").to_csv(tmp_path / "bare.csv", index=False)
    capsys.readouterr()
    assert main([str(a) for a in [*report, tmp_path / "bare.csv"]]) == 0
    assert "weights of rows, from column 'weight', and the test rows have none" in capsys.readouterr().err


def test_test_rows_of_a_fit_by_formula(ratings, tmp_path, capsys):
    pytest.importorskip("formulae")
    table = ratings.assign(
        kind=np.where(ratings["x"] > 0.2, "plus", "minus"), judge=ratings["judge"].map(ord) - 96
    )
    formula = "rating ~ scale(x) + kind + (scale(x) + kind | judge)"
    data = zoo.MultiTaskData.from_formula(formula, table)
    fit = zoo.IndependentTasks().fit(data, random_seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    test = table.head(90)
    test.assign(judge="0" + test["judge"].astype(str)).to_csv(tmp_path / "test.csv", index=False)
    command = ["report", tmp_path / "fit.nc", "--out", tmp_path / "report", "--test"]
    assert main([str(a) for a in [*command, tmp_path / "test.csv"]]) == 0
    said = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    expected = zoo.diagnostics.compare({"IndependentTasks": fit}, data.like(test), random_seed=0)
    assert said.loc["IndependentTasks", "RMSE"] == pytest.approx(expected["RMSE"].item(), rel=1e-6)
    assert_refused(capsys, tmp_path, [*command, tmp_path / "absent.csv"], "--test")
    test.drop(columns="kind").to_csv(tmp_path / "less.csv", index=False)
    assert_refused(capsys, tmp_path, [*command, tmp_path / "less.csv"], "the formula of the fit names 'kind'")
    assert_refused(
        capsys,
        tmp_path,
        [*command, tmp_path / "test.csv", "--y", "x"],
        "--y is 'x', and the formula of the fit reads",
    )


def test_words_of_a_formula_stay_words_in_a_file(ratings, tmp_path):
    """Levels of a further group and of a category, which look like numbers, and a missing value."""
    pytest.importorskip("formulae")
    table = ratings.assign(
        clinic=np.resize(["01", "02", "10"], 160), kind=np.resize(["NA", "1", "2", "2"], 160)
    )
    data = zoo.MultiTaskData.from_formula("rating ~ x + C(kind) + (1 + x | judge) + (1 | clinic)", table)
    fit = zoo.NIWLinear().fit(data, draws=40, tune=40, chains=2, random_seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    table.drop(columns="rating").to_csv(tmp_path / "new.csv", index=False)
    said = _predicted(tmp_path / "fit.nc", tmp_path / "new.csv")
    expected = fit.predict(table, random_seed=1, output="pandas")
    assert said["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-6)
    assert list(said["task"]) == list(table["judge"])
