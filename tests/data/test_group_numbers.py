"""Whole numbers that look like names of groups are named where they become features, and other numbers are not."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.data.group_numbers import numbers_of_groups

rng = np.random.default_rng(4)
N = 600
NOISE = rng.normal(size=N)
GROUP = rng.integers(0, 20, N)
LEVEL = rng.normal(size=20)[GROUP]
AGE, HOUR = rng.integers(18, 80, N), rng.integers(0, 24, N)


def found(column, y=NOISE, name="x"):
    return numbers_of_groups(pd.DataFrame({name: column, "y": y}), [name], "y") == [name]


@pytest.mark.parametrize(
    "name", ["school", "School", "store_id", "patientId", "ward no", "zipcode", "item_code", "case_number"]
)
def test_names_of_groups(name):
    assert found(101 + GROUP % 6, name=name)
    assert not found(101.5 + GROUP % 6, name=name)  # no whole numbers
    assert not found(GROUP % 2, name=name)  # one column of zeros and ones
    assert not found(np.arange(N), name=name)  # a number of the row


def test_numbers_in_no_order_whose_levels_differ():
    assert found(1 + GROUP, LEVEL + NOISE) and found((1 + GROUP).astype(float), LEVEL + NOISE)
    assert not found(1 + GROUP, NOISE)
    assert not found(1 + GROUP, LEVEL + NOISE, name="month") and not found(
        GROUP, LEVEL + NOISE, name="n_rooms"
    )


@pytest.mark.parametrize(
    ("column", "y"),
    [
        (AGE, NOISE),
        (AGE, 0.05 * AGE + NOISE),
        (AGE, -0.004 * (AGE - 45) ** 2 + NOISE),
        (np.minimum(GROUP, 5), np.sqrt(np.minimum(GROUP, 5)) + NOISE),  # numbers of children
        (1 + GROUP % 5, GROUP % 5 + NOISE),  # points of a scale
        (2001 + GROUP, 0.1 * GROUP + NOISE),
        (2001 + GROUP, np.abs(GROUP - 8) / 3 + NOISE),
        (HOUR, 2.0 * np.sin(HOUR / 24 * 2 * np.pi) + NOISE),
        (2 ** (GROUP % 8), np.log1p(2.0 ** (GROUP % 8)) + NOISE),  # doses
        (rng.poisson(300.0, N), NOISE),
        (1 + GROUP, np.zeros(N)),
    ],
)
def test_amounts_and_times_are_left_alone(column, y):
    assert not found(column, y)


def test_what_the_warning_says():
    df = pd.DataFrame({"y": LEVEL + NOISE, "x": NOISE[::-1], "school": 101 + GROUP})
    with pytest.warns(UserWarning, match=r"column 'school' holds whole numbers .* pass task='school'"):
        data = zoo.MultiTaskData.from_frame(df, y="y", task=None)
    assert data.feature_names == ("x", "school")
    with pytest.warns(
        UserWarning, match=r"'school' .* Leave it out by features=\[...\], or make categories of it"
    ):
        zoo.MultiTaskData.from_frame(df.assign(town=GROUP % 3).astype({"town": str}), y="y", task="town")
    # What somebody chose stays, as do categories.
    zoo.MultiTaskData.from_frame(df, y="y", task=None, features=["x", "school"])
    assert zoo.MultiTaskData.from_frame(df, y="y", task="school").feature_names == ("x",)
    zoo.MultiTaskData.from_frame(df.astype({"school": "category"}), y="y", task=None)
