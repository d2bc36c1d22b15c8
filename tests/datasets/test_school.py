"""The School data against their known shapes, names and splits."""

from __future__ import annotations

import numpy as np
import pytest

from zoo import datasets
from zoo.datasets import registry


@pytest.fixture(scope="module")
def school():
    return datasets.load_school()


@pytest.mark.data
def test_school_shape_and_names(school):
    assert (school.n_rows, school.n_features, school.n_tasks) == (15362, 28, 139)
    assert (school.task_sizes.min(), school.task_sizes.max()) == (22, 251)
    assert school.task_names[0] == "school 1" and school.task_names[-1] == "school 139"
    assert (school.y.min(), school.y.max()) == (1.0, 70.0)
    assert school.y.dtype == school.X.dtype == np.float64


@pytest.mark.data
def test_school_feature_names_fit_the_columns(school):
    def columns(prefix):
        return [i for i, name in enumerate(school.feature_names) if name.startswith(prefix)]

    X = school.X
    bands = [school.feature_names.index(f"VR band {i}") for i in (1, 2, 3)]
    for prefix in ("year", "gender", "ethnic group", "school gender", "denomination"):
        np.testing.assert_array_equal(X[:, columns(prefix)].sum(axis=1), 1.0)
    assert (X[:, bands].sum(axis=1) == 0).sum() == 15
    assert len(columns("ethnic group")) == 11
    assert X[:, school.feature_names.index("free meals")].max() > 1
    np.testing.assert_array_equal(X[:, -1], 1.0)
    assert school.feature_names[-1] == "intercept"
    means = [school.y[X[:, band] == 1].mean() for band in bands]
    np.testing.assert_allclose(means, [30.3, 19.2, 11.1], atol=0.1)  # band 1 holds the best readers


@pytest.mark.data
@pytest.mark.parametrize("split", range(1, 11))
def test_school_split_keeps_tasks(school, split):
    from scipy.io import loadmat

    train, test = datasets.load_school(split=split)
    assert (train.n_rows, test.n_rows) == (11472, 3890)
    assert train.task_names == test.task_names == school.task_names
    file = loadmat(registry.fetch(f"school/school_{split}_indexes.mat"))
    starts = loadmat(registry.fetch("school/school_b.mat"))["task_indexes"].ravel().astype(int)
    positions = {}
    for name, part in (("tr", train), ("tst", test)):
        positions[name] = np.sort(file[name].ravel().astype(int)) - 1
        assert not part.shares_inputs
        part_starts = file[f"{name}_indexes"].ravel().astype(int)
        assert part.n_rows > part_starts[-1]
        sizes = np.diff(np.append(part_starts, part.n_rows + 1))
        np.testing.assert_array_equal(part.task, np.repeat(np.arange(139), sizes))
        np.testing.assert_array_equal(part.y, school.y[positions[name]])
        np.testing.assert_array_equal(part.X, school.X[positions[name]])
        # In the file's own order too, each row comes from the block of its school.
        published = file[name].ravel().astype(int)
        np.testing.assert_array_equal(np.searchsorted(starts, published, "right") - 1, part.task)
    covered = np.sort(np.concatenate([positions["tr"], positions["tst"]]))
    np.testing.assert_array_equal(covered, np.arange(15362))


@pytest.mark.parametrize("split", [0, 11, "official", 1.5])
def test_school_unknown_split(split):
    with pytest.raises(ValueError, match="split"):
        datasets.load_school(split=split)
