"""The scoreboard: its scores by hand, its table, and that a run goes on where it stopped."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli import main
from zoo.experiments.scoreboard import NAMES, costs_of, methods_named, run_scoreboard, scores_of, table_of
from zoo.experiments.scoreboard_methods import METHODS, Said
from zoo.experiments.scoreboard_sets import SETS

SIMULATED = [name for name, data in SETS.items() if data.about.startswith("simulated")]
LINEAR = [name for name in METHODS if name.startswith("ridge")]


def test_scores_by_hand():
    y, task = np.array([1.0, -1.0, 1.0, -1.0]), np.array([0, 0, 1, 1])
    test = zoo.MultiTaskData.from_arrays(np.ones((4, 1)), y, task)
    found = scores_of(Said(np.array([0.8, 0.5, 0.4, 0.4])), test, True)
    assert found["score"] == pytest.approx(-np.log([0.8, 0.5, 0.4, 0.6]).mean())
    assert found["AUC"] == pytest.approx((1.0 + 0.5) / 2.0)  # a tie counts by half
    said = Said(y + np.array([0.0, 2.0, 0.0, 0.0]), y - 1.0, y + np.array([1.0, -0.5, 1.0, 1.0]))
    found = scores_of(said, test, False)
    assert found == {"score": pytest.approx(1.0), "cover": pytest.approx(0.75)}


def test_close_to_the_best_is_within_a_standard_error_of_the_difference():
    first, second, third = list(METHODS)[:3]
    scores = {first: [1.0, 2.0, 3.0], second: [1.1, 1.9, 3.05], third: [1.2, 2.2, 3.2]}
    rows = [
        {"data": "school", "method": m, "fold": i, "score": v, "seconds": 1.0}
        for m, values in scores.items()
        for i, v in enumerate(values)
    ]
    numbers, text = table_of(pd.DataFrame(rows))
    assert numbers["best"].to_dict() == {
        ("school", first): True,
        ("school", second): True,
        ("school", third): False,
    }
    assert text.loc["school, RMSE", first] == "**2.0000**" and text.loc["school, RMSE", third] == "2.2000"


def test_costs_are_of_the_median_set_and_name_the_largest():
    first, second = list(METHODS)[:2]
    rows = [
        {"data": data, "method": method, "fold": fold, "score": 1.0, "seconds": seconds, "gigabytes": memory}
        for data, method, fold, seconds, memory in [
            ("school", first, 0, 1.0, 0.5),
            ("school", first, 1, 3.0, 0.25),
            ("groups", first, 0, 40.0, 0.125),
            ("rare", first, 0, 7.0, None),
            ("rare", second, 0, 5.0, None),
        ]
    ]
    text = costs_of(table_of(pd.DataFrame(rows))[0])
    assert text.loc[first].tolist() == ["7.0", "40 (groups)", "0.50 (school)"]
    assert text.loc[second].tolist() == ["5.0", "5 (rare)", ""]


@pytest.mark.parametrize("name", SIMULATED)
def test_simulated_sets_have_other_rows_in_each_fold_and_known_tasks(name):
    train, test = SETS[name].load(0)
    again, _ = SETS[name].load(0)
    other, _ = SETS[name].load(1)
    np.testing.assert_array_equal(train.X, again.X)
    assert train.X.shape != other.X.shape or not np.array_equal(train.X, other.X)
    assert set(test.task_names) <= set(train.task_names)
    assert (len(np.unique(train.y)) == 2) == SETS[name].labels


@pytest.mark.filterwarnings("ignore::FutureWarning")
@pytest.mark.parametrize("name", ["unrelated", "rare"])
def test_methods_of_scikit_learn_say_something_of_every_row(name):
    train, test = SETS[name].load(0)
    for method in [*LINEAR, "boosting, task as category"]:
        said = METHODS[method](train, test, SETS[name].labels)
        assert said.mean.shape == (test.n_rows,) and np.isfinite(said.mean).all()
    if name == "unrelated":
        alone, pooled = (scores_of(METHODS[m](train, test, False), test, False)["score"] for m in LINEAR)
        assert alone < 1.5 < pooled


def test_a_run_goes_on_where_it_stopped(tmp_path):
    outcome = run_scoreboard(tmp_path, ["unrelated"], LINEAR[:1], folds=2)
    assert len(outcome.results) == 2 and not outcome.failures
    file = next((tmp_path / "jobs").glob("*-0.json"))
    held = json.loads(file.read_text())
    before = file.stat().st_mtime_ns
    outcome = run_scoreboard(tmp_path, ["unrelated"], LINEAR[:1], folds=3)
    assert len(outcome.results) == 3 and file.stat().st_mtime_ns == before
    assert held["settings"]["fold"] == 0
    assert "unrelated, RMSE" in (tmp_path / "scoreboard.md").read_text()


def test_names_that_are_unknown(tmp_path):
    with pytest.raises(ValueError, match="sets"):
        run_scoreboard(tmp_path, ["schools"])
    with pytest.raises(ValueError, match="methods is 'svm', which no name holds"):
        methods_named(["svm"])
    assert methods_named(["boost"]) == [
        "NIWLinear on a boosted mean",
        "NIWLinear, half-t, with a boosted mean",
        "HierarchicalLinear with a boosted mean",
        "boosting, task as category",
    ]
    assert methods_named(["GPBoost"]) == ["GPBoost, random slopes", "GPBoost, trees and levels"]
    assert methods_named(None) is None


def test_the_command_lists(capsys):
    assert main(["benchmark", "--list"]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in [*SETS, *NAMES])
