"""Tables of people, homes, rents and firms against what is known of them."""

from __future__ import annotations

import numpy as np
import pytest

from zoo import datasets
from zoo.datasets import registry


@pytest.mark.data
def test_lenk_is_person_major():
    from scipy.io import loadmat

    file = loadmat(registry.fetch("lenk/conjointAnalysisComputerBuyers.mat"))
    data = datasets.load_lenk_computers()
    assert (data.n_rows, data.n_features, data.n_tasks) == (3800, 14, 190)
    assert (data.y.min(), data.y.max()) == (0.0, 10.0)
    assert set(np.unique(data.X)) == {-1.0, 1.0}
    profile = np.arange(data.n_rows) % 20
    np.testing.assert_array_equal(data.X, file["designMarix"][profile])
    np.testing.assert_array_equal(data.y, file["likeBuy"][data.task, profile])
    assert (data.feature_names[0], data.feature_names[-1]) == ("intercept", "price")
    assert data.task_names[:2] == ("person 1", "person 2")
    assert data.take(profile < 16).task_sizes.eq(16).all()


@pytest.mark.data
def test_king_county_columns():
    data = datasets.load_king_county()
    assert (data.n_rows, data.n_features, data.n_tasks) == (21613, 15, 70)
    assert not {"price", "date", "lat", "long", "zipcode"} & set(data.feature_names)
    longitude, latitude, day = data.t.T
    assert longitude.max() < -121 and 47 < latitude.min() < latitude.max() < 48
    assert (day.min(), day.max()) == (0.0, 390.0)  # 2 May 2014 to 27 May 2015
    first = data.X[0][[data.feature_names.index(c) for c in ("bedrooms", "sqft_living", "yr_built")]]
    np.testing.assert_array_equal(first, [3, 1180, 1955])
    assert data.y[0] == 221900.0 and data.task_names[data.task[0]] == "98178"


@pytest.mark.data
def test_nyc_rents_filter():
    every, kept = datasets.load_nyc_rents(filter_outliers=False), datasets.load_nyc_rents()
    assert (every.n_rows, kept.n_rows) == (49352, 49194)
    assert every.task_names == kept.task_names == ("New York",)
    assert kept.y.min() >= 500 and kept.y.max() <= 20000
    assert (kept.t.min(axis=0) >= [-74.26, 40.49]).all() and (kept.t.max(axis=0) <= [-73.70, 40.92]).all()
    assert kept.feature_names == ("bathrooms", "bedrooms", "interest medium", "interest high")
    np.testing.assert_array_equal(every.X[:, 2:].sum(axis=0), [11229, 3839])
    np.testing.assert_array_equal(every.X[0], [1.5, 3, 1, 0])


def test_grunfeld_panel():
    data = datasets.load_grunfeld()
    assert (data.n_rows, data.n_tasks) == (220, 11)
    assert data.feature_names == ("value", "capital", "intercept")
    assert data.task_sizes.eq(20).all()
    assert data.task_names[0] == "General Motors"
    np.testing.assert_array_equal(data.X[0], [3078.5, 2.8, 1.0])
    assert data.y[0] == 317.6


@pytest.mark.parametrize("test_years", [1, 5, 19])
def test_grunfeld_split_by_year(test_years):
    whole = datasets.load_grunfeld()
    train, test = datasets.load_grunfeld(test_years=test_years)
    year = np.arange(220) % 20
    np.testing.assert_array_equal(test.y, whole.y[year >= 20 - test_years])
    np.testing.assert_array_equal(train.X, whole.X[year < 20 - test_years])
    assert test.task_sizes.eq(test_years).all() and train.task_sizes.eq(20 - test_years).all()


@pytest.mark.parametrize("test_years", [0, 20, -1, 2.5, "5", True])
def test_grunfeld_bad_test_years(test_years):
    with pytest.raises(ValueError, match="test_years"):
        datasets.load_grunfeld(test_years=test_years)
