"""Tables of any library with hostile columns, over constructors and predictions: what the arrays give, or a refusal."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import zoo
from tests.hostile import strategies
from tests.hostile.outcome import CASES, attempt

SETTINGS = settings(
    max_examples=20, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
MANY = settings(SETTINGS, max_examples=CASES)
# Made here: the import of its module raises Python's recursion limit, which Hypothesis warns of inside a test.
FACTORY = zoo.IndependentTasks()


def _dataset(frame):
    return xr.Dataset({name: ("row", column.to_numpy()) for name, column in frame.items()})


def _data_array(frame):
    """Of features alone; transposed where it is read by labels."""
    return xr.DataArray(frame.to_numpy().T, dims=("c", "r"), coords={"c": list(frame.columns)})


LIBRARIES = {
    "pandas": lambda frame: frame,
    "polars": pl.from_pandas,
    "arrow": lambda frame: pa.Table.from_pandas(frame, preserve_index=False),
    "batch": lambda frame: pa.RecordBatch.from_pandas(frame, preserve_index=False),
    "dict": lambda frame: {name: column.to_numpy() for name, column in frame.items()},
}


@st.composite
def tables(draw, with_t=False):
    """What a constructor takes, as arrays and as a table with its columns in a drawn order."""
    parts = draw(strategies.numbers(with_t=with_t, extreme=False))
    X, features = parts["X"], parts["feature_names"]
    tasks = [parts["task_names"][code] for code in parts["task"]]
    frame = pd.DataFrame(X, columns=features)
    places = [] if parts["t"] is None else [f"place {i}" for i in range(parts["t"].shape[1])]
    for i, name in enumerate(places):
        frame[name] = parts["t"][:, i]
    frame["the task"], frame["the response"] = tasks, parts["y"]
    order = draw(st.permutations(list(frame.columns)))
    return parts, features, tasks, places, frame[order]


def _same(one, other):
    for name in ("inputs", "y", "t"):
        np.testing.assert_array_equal(getattr(one, name), getattr(other, name))
    assert [one.task_names[c] for c in one.task] == [other.task_names[c] for c in other.task]
    for name in ("feature_names", "t_names"):
        assert getattr(one, name) == getattr(other, name)


def _property(case, library, shuffle):
    parts, features, tasks, places, frame = case
    table = LIBRARIES[library](frame)
    wanted = zoo.MultiTaskData.from_arrays(
        parts["X"], parts["y"], tasks, t=parts["t"], feature_names=features, t_names=places or None
    )
    if library != "dict":
        made = zoo.MultiTaskData.from_frame(table, "the response", "the task", features, t=places or None)
        _same(made, wanted)
        assert made.task_column == "the task"
    columns = [column for column in frame.columns if column in features]
    of_features = LIBRARIES[library](frame[columns])
    _same(
        zoo.MultiTaskData.from_arrays(
            of_features, parts["y"], tasks, t=parts["t"], feature_names=features, t_names=places or None
        ),
        wanted,
    )
    data = zoo.MultiTaskData.from_frame(frame, "the response", "the task", features, t=places or None)
    fit = attempt(lambda: FACTORY.fit(data, draws=2, chains=1, random_seed=1, progress=False))
    if fit is None:
        return
    by_position = attempt(lambda: fit.predict(parts["X"], tasks, parts["t"], random_seed=1))
    by_name = attempt(lambda: fit.predict(table, random_seed=1))
    assert (by_position is None) == (by_name is None)
    if by_position is None:
        return
    assert by_name.equals(by_position)
    assert fit.predict(_data_array(frame[columns]), tasks, parts["t"], random_seed=1).equals(by_position)
    order = np.random.default_rng(shuffle).permutation(len(frame))
    other = fit.predict(LIBRARIES[library](frame.iloc[order].reset_index(drop=True)), random_seed=1)
    assert other["task"].to_numpy().tolist() == [tasks[i] for i in order]
    # Means of the coefficients' draws, without any draw of y: they move with the rows.
    np.testing.assert_allclose(other["mean"], by_position["mean"][order], rtol=1e-9, atol=1e-12)
    if not np.array_equal(order, np.arange(len(order))):
        shuffled = pd.Series(tasks, name="the task").iloc[order]
        with pytest.raises(ValueError, match="task has another index than X"):
            fit.predict(frame, task=shuffled)


@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_give_what_arrays_give(library):
    @SETTINGS
    @given(tables(), st.integers(0, 99))
    def run(case, shuffle):
        _property(case, library, shuffle)

    run()


@pytest.mark.scheduled
@pytest.mark.parametrize("with_t", [False, True])
@pytest.mark.parametrize("library", LIBRARIES)
def test_tables_give_what_arrays_give_many(library, with_t):
    @MANY
    @given(tables(with_t), st.integers(0, 99))
    def run(case, shuffle):
        _property(case, library, shuffle)

    run()


CELLS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 3),
    st.floats(),
    st.sampled_from(["", "a", "1", "nan"]),
)


def _cells(kinds, library):
    columns = {f"c{i}": column for i, column in enumerate(kinds)}
    if library == "polars":
        return pl.DataFrame({name: pl.Series(values, strict=False) for name, values in columns.items()})
    text = {name: [None if v is None else str(v) for v in values] for name, values in columns.items()}
    return pa.table({name: pa.array(values, pa.string()) for name, values in text.items()})


@pytest.mark.parametrize("library", ["polars", "arrow"])
def test_cells_of_any_kind(library):
    """A constructor answers or refuses; it makes levels of text, and never numbers, or rows of nulls."""

    @SETTINGS
    @given(st.lists(st.lists(CELLS, min_size=4, max_size=4), min_size=3, max_size=3))
    def run(kinds):
        table = _cells(kinds, library)
        data = attempt(lambda: zoo.MultiTaskData.from_frame(table, "c0", "c1", ["c2"]))
        if data is not None and data.design is not None:
            assert None not in kinds[2] and set(np.unique(data.X)) <= {0.0, 1.0}
            assert all(name.startswith("c2[") for name in data.feature_names)
        elif data is not None:
            assert all(isinstance(v, bool | int | float) for v in kinds[2])
            assert np.isfinite(data.X).all() and np.isfinite(data.y).all()

    run()
