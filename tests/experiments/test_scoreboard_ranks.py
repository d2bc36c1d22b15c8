"""Average ranks over sets of data, and when they differ: by hand, and against the table of Demšar (2006)."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from zoo.experiments.scoreboard import run_scoreboard
from zoo.experiments.scoreboard_methods import METHODS
from zoo.experiments.scoreboard_ranks import average_ranks, critical_difference, draw_ranks, groups_alike

SCORES = pd.DataFrame(
    {"a": [1.0, 2.0, 1.0, 9.0], "b": [2.0, 1.0, 1.0, 8.0], "c": [3.0, 3.0, 3.0, np.nan]},
    index=["first", "second", "tied", "not complete"],
)


def test_ranks_are_shared_where_scores_tie_and_incomplete_sets_left_out():
    ranks = average_ranks(SCORES)
    assert ranks.to_dict() == pytest.approx({"a": (1 + 2 + 1.5) / 3, "b": (2 + 1 + 1.5) / 3, "c": 3.0})
    assert list(ranks.index)[-1] == "c"


@pytest.mark.parametrize(("k", "q"), [(2, 1.960), (3, 2.343), (5, 2.728), (7, 2.949), (10, 3.164)])
def test_the_critical_difference_is_that_of_the_printed_table(k, q):
    assert critical_difference(k, 20) == pytest.approx(q * np.sqrt(k * (k + 1) / 120), rel=5e-4)


def test_groups_are_the_longest_runs():
    ranks = pd.Series([1.0, 1.5, 2.2, 4.0], index=list("abcd"))
    assert groups_alike(ranks, 1.0) == [(0, 1), (1, 2)]
    assert groups_alike(ranks, 1.2) == [(0, 2)]
    assert groups_alike(ranks, 0.1) == []
    assert groups_alike(ranks, 5.0) == [(0, 3)]


def test_the_picture_names_all_methods():
    texts = [text.get_text() for text in draw_ranks(SCORES).axes[0].texts]
    assert [text.split("  ")[0] for text in texts[:3]] == list(average_ranks(SCORES).index)
    assert "over 3 sets" in draw_ranks(SCORES).axes[0].get_xlabel()


def test_a_run_of_two_sets_writes_ranks(tmp_path):
    pytest.importorskip("sklearn")
    methods = [name for name in METHODS if "ridge" in name]
    run_scoreboard(tmp_path, ["unrelated", "groups"], methods, folds=1)
    table = pd.read_csv(tmp_path / "ranks.csv")
    assert sorted(table["method"]) == sorted(methods) and table["average rank"].sum() == pytest.approx(3.0)
    assert (tmp_path / "ranks.png").stat().st_size > 5_000
