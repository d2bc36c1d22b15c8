"""Constructors of multi-task data: what they refuse, what they take, and that they leave the user's arrays alone."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp
import xarray as xr
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.hostile import strategies
from tests.hostile.outcome import CASES, attempt, check_message
from zoo import MultiTaskData

X = np.arange(12.0).reshape(6, 2)
Y = np.arange(6.0)
TASK = np.array(list("aabbcc"))
FRAME = pd.DataFrame({"a": Y, "b": Y**2, "y": Y, "task": TASK})
QUICK = settings(
    max_examples=40, deadline=None, database=None, derandomize=True, suppress_health_check=list(HealthCheck)
)
MANY = settings(QUICK, max_examples=CASES)


def _arrays(**changed):
    return lambda: MultiTaskData.from_arrays(**{"X": X, "y": Y, "task": TASK, **changed})


def _frame(df=FRAME, **changed):
    return lambda: MultiTaskData.from_frame(**{"df": df, "y": "y", "task": "task", **changed})


def _multilabel(**changed):
    return lambda: MultiTaskData.from_multilabel(**{"X": X, "Y": np.column_stack([Y > 2, Y > 3]), **changed})


def _objects(value):
    values = np.empty((6, 2), dtype=object)
    values[:] = X
    values[2, 1] = value
    return values


def _columns(*names):
    return pd.DataFrame(np.arange(24).reshape(6, 4), columns=names)


DATASET = xr.Dataset({"X": (("obs", "feature"), X), "y": ("obs", Y), "task": ("obs", TASK)})

REFUSED = {
    # Numbers that are none.
    "complex": (_arrays(X=X + 0j), "X column 0 holds values that are not numbers"),
    "complex y": (_arrays(y=Y + 0j), "y column 'y' holds"),
    "complex objects": (_arrays(X=_objects(1j)), "X column 1 holds"),
    "text that looks like a number": (_arrays(X=_objects("3")), "X column 1 holds"),
    "bytes": (_arrays(X=_objects(b"3")), "X column 1 holds"),
    "dates": (_arrays(X=X.astype("M8[D]")), "X column 0 holds"),
    "date objects": (_arrays(X=_objects(datetime(2020, 1, 1))), "X column 1 holds"),
    "time stamps": (_frame(FRAME.assign(a=pd.date_range("2020", periods=6))), "X column 'a' holds"),
    "lists in cells": (_arrays(X=_objects([1.0])), "X column 1 holds"),
    "None": (_arrays(X=_objects(None)), "X is nan in row 2, column 1"),
    "pandas NA": (_arrays(X=_objects(pd.NA)), "X is nan in row 2, column 1"),
    "int beyond float64": (_arrays(X=_objects(-(10**400))), "X is -inf in row 2, column 1"),
    "fraction beyond float64": (_arrays(X=_objects(Fraction(10**400))), "X is inf in row 2, column 1"),
    "signalling NaN": (_arrays(X=_objects(Decimal("sNaN"))), "X is nan in row 2"),
    "long double": (_arrays(y=Y * np.longdouble("1e400")), "y is inf in row 1"),
    "categories of text": (
        _frame(FRAME.assign(y=pd.Categorical(list("010101")))),
        "y column 'y' has the categories 0, 1 without an order",
    ),
    "nullable with NA": (
        _frame(FRAME.assign(a=pd.array([True, False] * 2 + [None] * 2, dtype="boolean"))),
        "column 'a' is missing in row 4",
    ),
    "ragged lists": (_arrays(X=[[1, 2], [3]]), "X cannot be read as an array"),
    "ragged y": (_arrays(y=[1, [2], 3, 4, 5, 6]), "y cannot be read as an array"),
    "masked X": (_arrays(X=np.ma.masked_array(X, X > 10)), "X is nan in row 5, column 1"),
    "masked y": (_arrays(y=np.ma.masked_array(Y, Y > 4)), "y is nan in row 5"),
    "masked t": (_arrays(t=np.ma.masked_array(Y, Y > 4)), "t is nan in row 5, column 't0'"),
    "masked weight": (_arrays(weight=np.ma.masked_array(Y + 1, Y > 4)), "weight is nan in row 5"),
    "masked task": (_arrays(task=np.ma.masked_array(Y // 2, Y > 4)), "task is missing in row 5"),
    # Tasks.
    "NaN among text": (_arrays(task=["a", np.nan, "b", "b", "c", "c"]), "task is missing in row 1"),
    "text and numbers": (_arrays(task=["1", 1, 2, 2, 3, 3]), "task holds values of several kinds"),
    "bool and number": (_arrays(task=np.array([True, 1, 2, 2, 3, 3], dtype=object)), "several kinds"),
    "text and numbers in a column": (_frame(FRAME.assign(task=[1, "1"] * 3)), "task column 'task' holds"),
    "complex tasks": (_arrays(task=np.array([1j, 2] * 3)), "task holds values"),
    "lists as tasks": (_frame(FRAME.assign(task=[[1, 2]] * 6)), "task column 'task' holds"),
    "unsigned beyond int64": (
        _arrays(task=np.array([2**63, 1] * 3, dtype=np.uint64)),
        "task is 9223372036854775808 in row 0",
    ),
    "float beyond int64": (_arrays(task=[1e300, 0] * 3), r"task is 1e\+300 in row 0"),
    "infinite task": (_arrays(task=[np.inf, 0] * 3), "task is inf in row 0"),
    "one task for all": (_arrays(task="a"), "task has shape"),
    # Names.
    "task_names of text": (_arrays(task_names="abc"), "task_names is 'abc'"),
    "task_names of a number": (_arrays(task_names=3), "task_names is 3"),
    "task_names twice": (_arrays(task_names=["a", "b", "c", "c"]), "task_names holds 'c' twice"),
    "task_names empty, no task": (_arrays(task=None, task_names=[]), "task_names holds 0 names"),
    "feature_names of text": (_arrays(feature_names="ab"), "feature_names is 'ab'"),
    "feature_names of None": (_arrays(feature_names=["a", None]), "feature_names holds an empty name"),
    "feature_names too short": (
        _arrays(X=np.where(X > 10, np.nan, X), feature_names=["a"]),
        "X is nan in row 5, column 1",
    ),
    "NUL": (_arrays(feature_names=["a\0", "b"]), "cannot be saved"),
    "lone surrogate": (_arrays(feature_names=["a\ud800", "b"]), "cannot be saved"),
    "column named NaN": (_arrays(X=pd.DataFrame(X, columns=["a", np.nan])), "feature_names holds an empty name"),
    # Tables.
    "no table": (_frame(X), "df is a ndarray"),
    "columns twice": (_frame(_columns("a", "a", "y", "task")), "df has 2 columns 'a'"),
    "response twice": (_frame(_columns("a", "y", "y", "task")), "df has 2 columns 'y'"),
    "columns of several levels": (
        _frame(pd.DataFrame(X, columns=pd.MultiIndex.from_tuples([("y", ""), ("task", "")]))),
        "df has columns of several levels",
    ),
    "1 and '1'": (_frame(_columns(1, "1", "y", "task")), "feature_names holds '1' twice"),
    "response as a feature": (_frame(features=["a", "y"]), "features holds 'y', which is the response"),
    "response as t": (_frame(t="y"), "t holds 'y', which is the response"),
    "response as weight": (_frame(FRAME.assign(y=Y + 1), weight="y"), "weight holds 'y'"),
    "no response": (_frame(y=None), "df has no column None"),
    "list as a column": (_frame(y=["y"]), "no name of a column"),
    "features of a number": (_frame(features=3), "features is 3"),
    "y in another order": (_arrays(X=FRAME[["a"]], y=FRAME["y"].iloc[::-1]), "y has another index than X"),
    "Y in another order": (
        _multilabel(X=pd.DataFrame(X), Y=pd.DataFrame({"a": Y > 2}).iloc[::-1]),
        "Y has another index than X",
    ),
    # Sparse matrices.
    "sparse y": (_arrays(y=sp.csr_matrix(Y[:, None])), "y has shape"),
    "sparse complex": (_arrays(X=sp.csr_matrix(X + 0j)), "X holds values of type complex128"),
    "duplicates that overflow": (
        _arrays(X=sp.coo_matrix(([1e308, 1e308], ([1, 1], [1, 1])), shape=(6, 2))),
        "X is inf in row 1, column 1",
    ),
    # Others.
    "all labels missing": (_multilabel(Y=np.column_stack([Y, Y * np.nan])), "task 'task 1' has no observed label"),
    "no dataset": (lambda: MultiTaskData.from_xarray(FRAME), "dataset is a DataFrame"),
    "dims that differ": (
        lambda: MultiTaskData.from_xarray(DATASET.assign(y=("row", Y))),
        "y has dims",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_refused(name):
    call, message = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        call()
    check_message(str(caught.value))


def _damaged_sparse():
    matrix = sp.csr_matrix(X)
    matrix.indices[0] = 10**6
    return matrix


def test_an_index_outside_of_a_sparse_matrix_is_refused():
    """It would be read, and written to, outside of the memory of the matrix."""
    with pytest.raises(ValueError, match="X is a damaged sparse matrix"):
        MultiTaskData.from_arrays(_damaged_sparse(), Y, TASK)


def _memory_map(folder):
    path = folder / "X.npy"
    np.save(path, X)
    return np.load(path, mmap_mode="r")


LAYOUTS = {
    "Fortran": np.asfortranarray,
    "negative strides": lambda X: X[::-1, ::-1].copy()[::-1, ::-1],
    "every other": lambda X: np.repeat(np.repeat(X, 2, axis=0), 2, axis=1)[::2, ::2],
    "big endian": lambda X: X.astype(">f8"),
    "float32": lambda X: X.astype(np.float32),
    "long double": lambda X: X.astype(np.longdouble),
    "int8": lambda X: X.astype(np.int8),
    "objects": lambda X: X.astype(object),
    "matrix": lambda X: np.asarray(X).view(np.matrix),
    "masked, nothing hidden": np.ma.masked_array,
    "lists": lambda X: X.tolist(),
    "nullable": lambda X: pd.DataFrame(X).astype("Float64"),
    "pyarrow or pandas' own choice": lambda X: pd.DataFrame(X).convert_dtypes(),
    "categories of numbers": lambda X: pd.DataFrame(X).astype("category"),
    "sparse columns": lambda X: pd.DataFrame(X).astype(pd.SparseDtype(float, 0.0)),
    "DataArray": xr.DataArray,
}


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
@pytest.mark.parametrize("layout", LAYOUTS)
def test_layouts_give_the_same_data(layout):
    given_X = LAYOUTS[layout](X)
    data = MultiTaskData.from_arrays(given_X, Y, TASK)
    assert data.inputs.dtype == np.float64 and data.inputs.flags.c_contiguous
    np.testing.assert_array_equal(data.X, X)


def test_memory_maps_and_read_only_arrays(tmp_path):
    mapped = _memory_map(tmp_path)
    data = MultiTaskData.from_arrays(mapped, Y, TASK)
    np.testing.assert_array_equal(data.X, X)
    assert not np.shares_memory(data.inputs, mapped)


@pytest.mark.parametrize("form", ["csr", "csc", "coo", "lil", "dok", "bsr", "dia"])
def test_sparse_formats_give_the_same_data(form):
    data = MultiTaskData.from_arrays(sp.csr_matrix(X).asformat(form), Y, TASK)
    np.testing.assert_array_equal(data.inputs.toarray(), X)


def test_entries_given_twice_are_added():
    matrix = sp.coo_matrix(([1.0, 2.0, -3.0], ([0, 0, 0], [0, 0, 0])), shape=(6, 2))
    data = MultiTaskData.from_arrays(matrix, Y, TASK)
    assert data.inputs.nnz == 0


def test_categories_without_rows_are_no_tasks():
    column = pd.Categorical(TASK, categories=list("zcba"))
    assert MultiTaskData.from_frame(FRAME.assign(task=column), "y", "task").task_names == ("c", "b", "a")
    assert MultiTaskData.from_arrays(X, Y, column).task_names == ("a", "b", "c")


def test_index_of_rows_does_not_matter_inside_a_table():
    for index in (
        pd.MultiIndex.from_product([[0, 1], [0, 1, 2]]),
        np.zeros(6),
        pd.date_range("2020", periods=6),
    ):
        data = MultiTaskData.from_frame(FRAME.set_index(index), "y", "task")
        np.testing.assert_array_equal(data.y, Y)


def test_masked_labels_are_missing_ones():
    Y = np.ma.masked_array(np.ones((6, 2)), np.arange(12).reshape(6, 2) % 3 == 0)
    data = MultiTaskData.from_multilabel(X, Y)
    assert data.n_rows == Y.count()


def test_a_square_dataset_is_read_by_dims():
    square = xr.Dataset(
        {"X": (("feature", "obs"), np.array([[1.0, 2.0], [3.0, 4.0]])), "y": ("obs", [5.0, 6.0])}
    )
    np.testing.assert_array_equal(MultiTaskData.from_xarray(square, task=None).X, [[1.0, 3.0], [2.0, 4.0]])


def test_arrays_of_the_user_are_neither_shared_nor_changed():
    given_arrays = {
        "X": X.copy(),
        "y": Y.copy(),
        "task": np.array([0, 0, 1, 1, 2, 2]),
        "t": Y.copy(),
        "weight": Y + 1,
    }
    before = {name: array.copy() for name, array in given_arrays.items()}
    data = MultiTaskData.from_arrays(**given_arrays, task_names=["a", "b", "c"])
    kept = {name: getattr(data, name).copy() for name in given_arrays}
    for name, array in given_arrays.items():
        np.testing.assert_array_equal(array, before[name])
        array[...] = 0
    for name, array in kept.items():
        np.testing.assert_array_equal(getattr(data, name), array)


def test_sparse_matrices_of_the_user_are_neither_shared_nor_changed():
    matrix = sp.csr_matrix(X)
    data = MultiTaskData.from_arrays(matrix, Y, TASK)
    matrix.data[:] = 0.0
    np.testing.assert_array_equal(data.inputs.toarray(), X)


def test_rows_that_do_not_exist_are_explained():
    data = MultiTaskData.from_arrays(X, Y, TASK)
    for rows in ([100], [1.5], "a", [True]):
        with pytest.raises(ValueError, match="rows do not fit the 6 rows"):
            data.take(rows)
    with pytest.raises(ValueError, match="tasks is 'ab'"):
        data.select_tasks("ab")
    with pytest.raises(ValueError, match="test_size is 'a'"):
        data.split("a")
    with pytest.raises(ValueError, match="name holds an empty name"):
        data.add_intercept("")
    assert data.take([]).n_rows == 0


# -------------------------------------------------------------------- units


@pytest.mark.parametrize("exponent", [-300, -200, -13, 0, 13, 200, 300])
def test_standardize_knows_no_units(exponent):
    """Columns and y in any units give the same standardized data, but for rounding."""
    rng = np.random.default_rng(0)
    X, y, factor = rng.normal(size=(20, 3)), rng.normal(size=20), 10.0**exponent
    plain = MultiTaskData.from_arrays(X, y).standardize()
    scaled = MultiTaskData.from_arrays(factor * X, factor * y).standardize()
    np.testing.assert_allclose(scaled.X, plain.X, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scaled.y, plain.y, rtol=1e-12, atol=1e-14)
    np.testing.assert_allclose(scaled.original_y(), factor * y, rtol=1e-12)


def test_standardize_does_not_scale_rounding():
    """The mean of equal numbers is not always that number: their deviations are rounding, and no signal."""
    X = np.column_stack([np.full(3, 0.1), np.arange(3.0)])
    assert X[:, 0].std() > 0.0
    data = MultiTaskData.from_arrays(X, np.arange(3.0)).standardize()
    np.testing.assert_array_equal(data.X[:, 0], X[:, 0])
    with pytest.raises(ValueError, match="y is constant"):
        MultiTaskData.from_arrays(X, np.full(3, 0.1)).standardize(y=True)


def test_columns_wider_than_float64_are_refused():
    with pytest.raises(ValueError, match="X column 'x0' spans more than float64 holds"):
        MultiTaskData.from_arrays([[-1.7e308], [1.7e308], [1.7e308]], [1.0, 2.0, 3.0]).standardize()


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"X": 1e25 * X}, r"X column 'x0' has values of size 1e\+26"),
        ({"X": 1e-200 * X}, r"X column 'x0' has values of size 1e-199"),
        ({"y": 1e160 * Y}, r"y column 'y' has values of size 5e\+160"),
        ({"t": 1e160 * Y}, r"t column 't0' has values of size 5e\+160"),
        ({"weight": np.array([1.0, 1e-200, 1.0, 1.0, 1.0, 1.0])}, "weight column 'weight' has values of size 1e-200"),
        ({"X": sp.csr_matrix(1e25 * X)}, r"X column 'x0' has values of size 1e\+26"),
    ],
)  # fmt: skip
def test_units_that_no_model_can_reckon_with(changed, message):
    data = MultiTaskData.from_arrays(**{"X": X, "y": Y, "task": TASK, **changed})
    with pytest.raises(ValueError, match=message) as caught:
        data.require_workable_scale()
    check_message(str(caught.value))


def test_units_of_results_that_no_float_can_hold():
    data = MultiTaskData.from_arrays(X, 1e-200 * Y, TASK).standardize()
    with pytest.raises(ValueError, match="column 'y' had standard deviation"):
        data.require_workable_scale()


# -------------------------------------------------------------------- properties


def _constructor_property(numbers):
    """Any table of finite numbers is taken as it is, standardized without a warning, and comes back."""
    data = MultiTaskData.from_arrays(**numbers)
    np.testing.assert_array_equal(data.X, numbers["X"])
    assert [data.task_names[code] for code in data.task] == [
        numbers["task_names"][code] for code in numbers["task"]
    ]
    scaled = attempt(data.standardize)
    if scaled is not None:
        assert np.isfinite(scaled.X).all() and np.isfinite(scaled.y).all()
        size = np.abs(data.X).max(axis=0)
        size[size == 0.0] = 1.0
        np.testing.assert_allclose(scaled.original_X() / size, data.X / size, atol=1e-9)
    attempt(data.require_workable_scale)
    taken = {"t", "task", "y", *data.feature_names} if data.t is not None else {"task", "y"}
    if data.t is None and not taken & set(data.feature_names):
        back = MultiTaskData.from_frame(data.to_frame(), "y", "task")
        np.testing.assert_array_equal(back.X, data.X)


@QUICK
@given(strategies.numbers())
def test_constructor(numbers):
    _constructor_property(numbers)


@pytest.mark.scheduled
@settings(MANY)
@given(strategies.numbers(with_t=True))
def test_constructor_many(numbers):
    _constructor_property(numbers)


# Values that stand in real tables, one of them in a cell where the others are numbers.
CELLS = st.sampled_from(
    [1, 2.5, True, None, np.nan, pd.NA, pd.NaT, np.inf, "1", "", b"1", 1j, 10**400, Decimal("1"), Decimal("NaN"),
     Fraction(1, 3), np.float32(1), np.int8(1), np.bool_(True), datetime(2020, 1, 1), pd.Timedelta(1), [1], (1, 2), {},
     object(), np.array(1.0), -0.0, 5e-324, 1.7e308]
)  # fmt: skip


def _cell_property(argument, cell, row, kind):
    values = {"X": X, "y": Y, "task": TASK, "t": Y, "weight": Y + 1.0, "Y": X}[argument]
    objects = np.empty(values.shape, dtype=object)
    objects[:] = values
    objects[(row, 1) if values.ndim == 2 else row] = cell
    made = {"array": objects, "list": objects.tolist(), "pandas": None}[kind]
    if kind == "pandas":
        made = pd.DataFrame(objects) if values.ndim == 2 else pd.Series(objects)
    call = _multilabel(Y=made) if argument == "Y" else _arrays(**{argument: made})
    data = attempt(call)
    if data is None or argument in ("task", "Y"):
        return
    # Taken: then the number is what Python's own float makes of the cell, and nothing but numbers is taken.
    assert isinstance(cell, int | float | Decimal | Fraction | np.generic) or (
        np.shape(cell) == () and cell == 1
    )
    got = getattr(data, argument)[row]
    assert np.ravel(got)[-1] == float(cell)


_CELL = {
    "argument": st.sampled_from(["X", "y", "task", "t", "weight", "Y"]),
    "cell": CELLS,
    "row": st.integers(0, 5),
    "kind": st.sampled_from(["array", "list", "pandas"]),
}


@settings(QUICK, max_examples=150)
@given(**_CELL)
def test_one_strange_cell(argument, cell, row, kind):
    _cell_property(argument, cell, row, kind)


@pytest.mark.scheduled
@settings(MANY)
@given(**_CELL)
def test_one_strange_cell_many(argument, cell, row, kind):
    _cell_property(argument, cell, row, kind)
