"""Rivals of the scoreboard: against formulas by hand and against each other, and what they leave out, in words."""

from __future__ import annotations

import numpy as np
import pytest
from rich.console import Console

import zoo
from zoo.experiments import scoreboard, scoreboard_rivals
from zoo.experiments.scoreboard import one_job, run_scoreboard, scores_of
from zoo.experiments.scoreboard_rivals import RIVALS
from zoo.experiments.scoreboard_sets import SETS

MIXED = "GPBoost, random slopes"


def _error(method: str, name: str) -> float:
    train, test = SETS[name].load(0)
    return scores_of(RIVALS[method].run(train, test, SETS[name].labels), test, SETS[name].labels)["score"]


def test_own_columns_stand_at_the_place_of_the_task():
    table = scoreboard_rivals._own_columns(np.array([[2.0], [3.0]]), np.array([1, 0]), 2, 4.0).toarray()
    np.testing.assert_array_equal(table, [[2.0, 0.0, 0.0, 2.0, 4.0], [3.0, 2.0, 6.0, 0.0, 0.0]])


def test_features_that_others_determine_are_left_out():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(30, 2))
    X = np.column_stack([np.ones(30), X, X[:, 0] - 2.0 * X[:, 1]])
    data = zoo.MultiTaskData.from_arrays(X, rng.normal(size=30), np.repeat([0, 1], 15))
    kept = scoreboard_rivals._independent(data, data)
    assert kept.X.shape == (30, 2) and np.linalg.matrix_rank(kept.X) == 2


@pytest.mark.parametrize("name", ["unrelated", "rare"])
def test_own_coefficients_help_where_tasks_differ(name):
    """Beside one regression with levels of tasks: tasks that are unrelated need coefficients of their own."""
    pytest.importorskip("sklearn")
    train, test = SETS[name].load(0)
    levels = scoreboard.METHODS["ridge or logistic, task levels"](train, test, SETS[name].labels)
    error = _error("augmented ridge or logistic", name)
    assert error < (0.4 if name == "unrelated" else 1.0) * scores_of(levels, test, SETS[name].labels)["score"]


def test_mixed_models_of_two_packages_agree():
    """The longitudinal set has slopes that are nearly independent, so that the covariance matters little."""
    for package in ("statsmodels", "gpboost"):
        pytest.importorskip(package)
    first, second = _error("MixedLM, random slopes", "longitudinal"), _error(MIXED, "longitudinal")
    assert abs(first / second - 1.0) < 0.1


def test_a_process_of_tasks_bends_where_lines_do_not():
    """Where a common mean is not linear, a third of the error of a regression with levels of tasks goes."""
    pytest.importorskip("gpytorch")
    train, test = SETS["curved"].load(0)
    levels = scoreboard.METHODS["ridge or logistic, task levels"](train, test, False)
    error = _error("GPyTorch, multi-task GP", "curved")
    assert error < 0.7 * scores_of(levels, test, False)["score"]


@pytest.mark.statistical
def test_the_hierarchy_in_pymc_says_what_ours_says():
    train, test = SETS["unrelated"].load(0)
    said = RIVALS["priors of Bambi, nutpie"].run(train, test, False)
    ours = scoreboard.METHODS["NIWLinear"](train, test, False)
    assert said.r_hat is not None and said.r_hat < 1.05
    assert np.corrcoef(said.mean, ours.mean)[0, 1] > 0.99
    assert 0.8 < scores_of(said, test, False)["cover"] < 1.0


def test_rivals_say_what_they_leave_out():
    train, _ = SETS["rare"].load(0)
    assert RIVALS["MixedLM, random slopes"].refuses(train, True) == "it is for real responses"
    assert "15 features" in str(
        RIVALS["MixedLM, random slopes"]._replace(most_features=15).refuses(_wide(16), False)
    )
    assert "50000 numbers" in str(RIVALS["priors of Bambi, nutpie"].refuses(_wide(600), False))
    assert RIVALS[MIXED].refuses(_wide(600), False) is None
    long = RIVALS["GPyTorch, multi-task GP"]._replace(most_rows=99)
    assert long.refuses(_wide(2), False) == "it is slow with more than 99 rows"
    assert one_job("rare", "MixedLM, random slopes", 0) == {"left_out": "it is for real responses"}


def _wide(n_features: int) -> zoo.MultiTaskData:
    X = np.random.default_rng(0).normal(size=(100, n_features))
    return zoo.MultiTaskData.from_arrays(X, X[:, 0], np.repeat([0, 1], 50))


def test_a_package_that_is_missing_is_named_and_its_methods_left_out(tmp_path, monkeypatch):
    monkeypatch.setitem(scoreboard.RIVALS, MIXED, RIVALS[MIXED]._replace(package="no_such_package"))
    console = Console(record=True, width=200)
    outcome = run_scoreboard(
        tmp_path, ["unrelated"], [MIXED, "ridge or logistic, task levels"], folds=1, console=console
    )
    assert len(outcome.results) == 1
    assert "GPBoost, random slopes is left out: no_such_package is not installed" in console.export_text()


def test_sets_that_a_rival_leaves_out_are_named_and_do_not_count_for_ranks(tmp_path):
    console = Console(record=True, width=200)
    methods = ["ridge or logistic, tasks alone", "ridge or logistic, task levels", "MixedLM, random slopes"]
    pytest.importorskip("statsmodels")
    run_scoreboard(tmp_path, ["rare", "unrelated"], methods, folds=1, console=console)
    shown = console.export_text()
    assert "MixedLM, random slopes leaves out rare: it is for real responses." in shown
    assert "MixedLM" not in (tmp_path / "ranks.csv").read_text()
    page = (tmp_path / "scoreboard.md").read_text()
    assert "**Specialists**" in page and "MixedLM" in page
