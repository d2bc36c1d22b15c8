"""Sparse features: every method gives what the dense one gives, and nothing is made dense on the way."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.sparse import coo_matrix, csr_array, csr_matrix, random_array

from zoo import Fit, MultiTaskData, PooledTasks, load
from zoo.core.storage import to_datatree
from zoo.data.new_rows import read_rows

N, D, T = 24, 40, 3
RNG = np.random.default_rng(7)
SPARSE = csr_matrix(random_array((N, D), density=0.1, rng=8))
DENSE = SPARSE.toarray()
Y = RNG.standard_normal(N)
TASK = ["a", "b", "c"] * (N // 3)
LABELS = np.where(RNG.random((N, T)) < 0.2, np.nan, RNG.integers(0, 2, (N, T)))
WEIGHT = RNG.uniform(0.5, 2.0, N)


def own_rows(X):
    return MultiTaskData.from_arrays(X, Y, TASK, t=Y, weight=WEIGHT)


def shared_inputs(X):
    return MultiTaskData.from_multilabel(X, LABELS, weight=WEIGHT)


@pytest.fixture(params=[own_rows, shared_inputs])
def make(request):
    return request.param


@pytest.fixture
def pair(make, monkeypatch):
    """Sparse and dense data; to make the sparse ones dense raises."""
    result = make(SPARSE), make(DENSE)

    def refuse(*args, **kwargs):
        raise AssertionError("made dense")

    for method in ("toarray", "todense"):
        monkeypatch.setattr(csr_matrix, method, refuse)
    return result


def _dense(matrix):
    rows = np.repeat(np.arange(matrix.shape[0]), np.diff(matrix.indptr))
    result = np.zeros(matrix.shape)
    np.add.at(result, (rows, matrix.indices), matrix.data)
    return result


def _same(sparse, dense):
    assert type(sparse.inputs) is csr_matrix
    assert sparse.inputs.dtype == np.float64
    assert sparse.inputs.has_canonical_format
    assert sparse.is_sparse and not dense.is_sparse
    assert sparse.shares_inputs == dense.shares_inputs
    assert sparse.n_inputs == dense.n_inputs == len(dense.inputs)
    assert sparse.feature_names == dense.feature_names
    assert sparse.task_names == dense.task_names
    for found, expected in (
        (_dense(sparse.inputs), dense.inputs),
        (_dense(sparse.X), dense.X),
        (_dense(sparse.original_X()), dense.original_X()),
        (sparse.row, dense.row),
        (sparse.y, dense.y),
        (sparse.task, dense.task),
        (sparse.t, dense.t),
        (sparse.weight, dense.weight),
    ):
        assert np.array_equal(found, expected)


def test_constructors(pair):
    _same(*pair)


def test_take(pair):
    sparse, dense = pair
    for rows in ([3, 1, 1, 7], slice(2, 9), np.arange(sparse.n_rows) % 2 == 0, []):
        _same(sparse.take(rows), dense.take(rows))


def test_split_and_folds(pair):
    sparse, dense = pair
    for one, two in zip(sparse.split(0.3, random_seed=1), dense.split(0.3, random_seed=1), strict=True):
        _same(one, two)
    for folds in zip(sparse.folds(3, random_seed=1), dense.folds(3, random_seed=1), strict=True):
        for one, two in zip(*folds, strict=True):
            _same(one, two)


def test_select_tasks(pair):
    sparse, dense = pair
    chosen = [sparse.task_names[2], sparse.task_names[0]]
    _same(sparse.select_tasks(chosen), dense.select_tasks(chosen))


def test_add_intercept(pair):
    sparse, dense = pair
    _same(sparse.add_intercept(), dense.add_intercept())


def test_repr(pair):
    sparse, dense = pair
    assert repr(sparse) == repr(dense).replace("40 features", "40 sparse features")


@pytest.mark.parametrize("y", [None, True, False])
def test_what_would_be_dense_is_refused(pair, y):
    sparse, _ = pair
    with pytest.raises(ValueError, match=r"X is sparse, and centred features would be dense.*X\.toarray\(\)"):
        sparse.standardize(y=y)
    with pytest.raises(ValueError, match=r"X is sparse, and a table of it would be dense.*X\.toarray\(\)"):
        sparse.to_frame()


@pytest.mark.parametrize("kind", [csr_array, coo_matrix, lambda X: csr_array(X).tocsc(), lambda X: X > 0])
def test_every_sparse_kind_becomes_csr(kind):
    _same(own_rows(kind(SPARSE)), own_rows(np.asarray(kind(SPARSE).toarray(), dtype=float)))


def test_the_form_is_canonical_and_the_input_is_left_alone():
    rows, columns = [0, 0, 1, 1, 2], [3, 3, 2, 0, 1]
    given = coo_matrix(([1.0, 2.0, 5.0, 4.0, 0.0], (rows, columns)), shape=(3, 4))
    data = MultiTaskData.from_arrays(given, Y[:3])
    assert data.inputs.data.tolist() == [3.0, 4.0, 5.0]
    assert data.inputs.indices.tolist() == [3, 0, 2]
    assert given.nnz == 5
    source = SPARSE.copy()
    data = own_rows(source)
    source.data[:] = 0.0
    assert np.array_equal(data.inputs.toarray(), DENSE)


def test_wrong_values_are_named():
    bad = DENSE.copy()
    bad[5, 7] = np.inf
    with pytest.raises(ValueError, match="X is inf in row 5, column 7"):
        MultiTaskData.from_arrays(csr_matrix(bad), Y)
    bad[5, 7], bad[9, 0] = 0.0, np.nan
    with pytest.raises(ValueError, match="X is nan in row 9, column 'first'"):
        MultiTaskData.from_arrays(csr_matrix(bad), Y, feature_names=["first", *map(str, range(D - 1))])
    with pytest.raises(ValueError, match="X holds values of type complex128"):
        MultiTaskData.from_arrays(SPARSE.astype(complex), Y)
    with pytest.raises(ValueError, match="X is empty, shape"):
        MultiTaskData.from_arrays(SPARSE[:0], Y[:0])
    with pytest.raises(ValueError, match="X has 1 dimension"):
        MultiTaskData.from_arrays(csr_array(SPARSE)[0], Y)
    with pytest.raises(ValueError, match="Y has 23 rows and X has 24"):
        MultiTaskData.from_multilabel(SPARSE, LABELS[:-1])
    with pytest.raises(ValueError, match="y has 23 rows and X has 24"):
        MultiTaskData.from_arrays(SPARSE, Y[:-1])
    with pytest.raises(ValueError, match="feature_names has 1 name for 40 columns"):
        MultiTaskData.from_arrays(SPARSE, Y, feature_names=["a"])


def test_wide_data_are_cheap():
    wide = random_array((50, 47_236), density=1e-3, format="csr", rng=0)
    data = MultiTaskData.from_arrays(wide, Y[np.arange(50) % N])
    assert data.feature_names[-1] == "x47235"
    assert data.inputs.nnz == wide.nnz


# ---------------------------------------------------------------- new rows


def test_new_rows_come_back_sparse():
    data = MultiTaskData.from_arrays(SPARSE, Y, TASK)
    frame = pd.DataFrame(DENSE[:5], columns=list(data.feature_names)).iloc[:, ::-1]
    for X in (SPARSE[:5], csr_array(SPARSE[:5]), DENSE[:5], frame):
        labels, features, t = read_rows(X, "b", None, data, new_task=False)
        assert labels == ["b"] * 5
        assert type(features) is csr_matrix
        assert np.array_equal(features.toarray(), DENSE[:5])
        assert t is None
    for X in (data.take(slice(5)), MultiTaskData.from_arrays(DENSE[:5], Y[:5], TASK[:5])):
        labels, features, _ = read_rows(X, None, None, data, new_task=False)
        assert labels == TASK[:5]
        assert type(features) is csr_matrix
        assert np.array_equal(features.toarray(), DENSE[:5])


def test_new_rows_that_do_not_fit_are_refused():
    dense, sparse = MultiTaskData.from_arrays(DENSE, Y, TASK), MultiTaskData.from_arrays(SPARSE, Y, TASK)
    for X, task in ((SPARSE, "a"), (sparse, None)):
        with pytest.raises(
            ValueError, match=r"X is sparse, but the fitted data are dense. Give X.toarray\(\)"
        ):
            read_rows(X, task, None, dense, new_task=False)
    with pytest.raises(ValueError, match="X has 39 columns, but the fit has 40 features"):
        read_rows(SPARSE[:, :-1], "a", None, sparse, new_task=False)
    with pytest.raises(ValueError, match="X is nan in row 0, column 'x2'"):
        read_rows(SPARSE[:1] + csr_matrix(([np.nan], ([0], [2])), (1, D)), "a", None, sparse, new_task=False)


# ---------------------------------------------------------------- files


def test_file_holds_the_parts(pair, tmp_path):
    sparse, dense = pair
    factory = PooledTasks()
    posterior = xr.Dataset({"noise": (("chain", "draw"), np.ones((1, 2)))})
    tree = to_datatree(factory, sparse, sparse, sparse.y, posterior, xr.Dataset(), "exact", None)
    assert {"X_data", "X_indices", "X_indptr"} <= set(tree["constant_data"].data_vars)
    assert "X" not in tree["constant_data"]
    again = load(Fit(factory=factory, data=sparse, idata=tree, method="exact").save(tmp_path / "fit.nc")).data
    _same(again, dense)
    _same(again.take([1, 2]), dense.take([1, 2]))
