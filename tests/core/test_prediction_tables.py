"""Predictions as tables of the libraries that users work in."""

from __future__ import annotations

import inspect
import sys
from typing import Any, Literal, get_overloads, get_type_hints

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr

import zoo


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(0)
    X = pd.DataFrame(rng.normal(size=(24, 2)), columns=["a", "b"], index=[f"row {i}" for i in range(24)])
    school = pd.Series(np.repeat(["u", "v"], 12), index=X.index, name="school")
    data = zoo.MultiTaskData.from_arrays(X, X["a"] + rng.normal(size=24), school)
    return zoo.IndependentTasks().fit(data, draws=50, chains=1, random_seed=0, progress=False), X, school


def test_every_output_holds_the_same(fitted):
    fit, X, school = fitted
    dataset = fit.predict(X, school, random_seed=1)
    assert isinstance(dataset, xr.Dataset) and dataset.attrs["ci_prob"] == 0.9
    columns = ["task", *map(str, dataset.data_vars)]
    pandas, polars, arrow = (
        fit.predict(X, school, random_seed=1, output=output) for output in ("pandas", "polars", "arrow")
    )
    assert (
        isinstance(pandas, pd.DataFrame) and isinstance(polars, pl.DataFrame) and isinstance(arrow, pa.Table)
    )
    assert list(pandas.columns) == polars.columns == arrow.column_names == columns
    for name in columns:
        expected = dataset[name].to_numpy()
        for values in (pandas[name].to_numpy(), polars[name].to_numpy(), arrow[name].to_numpy()):
            np.testing.assert_array_equal(values, expected)
    assert polars.schema["task"] == pl.String and polars.schema["mean"] == pl.Float64


def test_overloads_tell_type_checkers_what_each_output_returns(fitted):
    fit, X, school = fitted
    libraries = {"pd": pd, "pl": pl, "pa": pa, "xr": xr, "Any": Any, "Literal": Literal}
    written = inspect.signature(zoo.Fit.predict).parameters
    told = {}
    for overload in get_overloads(zoo.Fit.predict):
        parameters = inspect.signature(overload).parameters
        assert list(parameters) == list(written)
        assert all(parameters[name].default == written[name].default for name in written if name != "output")
        hints = get_type_hints(overload, libraries)
        told[hints["output"]] = hints["return"]
    assert told.pop(str) is Any
    assert set(told) == {Literal["xarray"], Literal["pandas"], Literal["polars"], Literal["arrow"]}
    for output, kind in told.items():
        assert type(fit.predict(X, school, output=output.__args__[0])) is kind


def test_a_table_of_pandas_keeps_the_labels_of_rows(fitted):
    fit, X, school = fitted
    assert fit.predict(X, school, output="pandas").index.equals(X.index)
    assert fit.predict(X.to_numpy(), "u", output="pandas").index.equals(pd.RangeIndex(24))
    assert fit.predict(fit.data, output="pandas").index.equals(pd.RangeIndex(24))
    assert fit.predict(X, school, output="pandas", ci_prob=0.5).attrs["ci_prob"] == 0.5


def test_labels_come_as_the_user_coded_them():
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(rng.normal(size=(30, 2)), np.tile([0, 1], 15))
    fit = zoo.PooledTasks(likelihood="logistic").fit(data, draws=50, chains=1, random_seed=0, progress=False)
    table = fit.predict(data, output="polars")
    assert {"probability", "label"} < set(table.columns)
    assert set(table["label"]) <= {0.0, 1.0}


def test_an_unknown_output_is_refused_before_anything_is_predicted(fitted, monkeypatch):
    fit, X, school = fitted
    with pytest.raises(ValueError, match=r"output: 'numpy' is unknown. Choose from 'xarray', 'pandas'"):
        fit.predict(X, school, output="numpy")
    monkeypatch.setitem(sys.modules, "polars", None)
    with pytest.raises(
        ImportError, match=r"output='polars' needs polars. Install it, or take output='pandas'"
    ):
        fit.predict(None, output="polars")
