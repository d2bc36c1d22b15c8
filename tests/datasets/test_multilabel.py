"""Multi-label sets against their known shapes and splits."""

from __future__ import annotations

import os
import xml.etree.ElementTree
from pathlib import Path

import numpy as np
import pytest

from zoo import datasets
from zoo.datasets.arff import read_arff


@pytest.mark.data
@pytest.mark.parametrize(
    ("name", "n", "n_features", "n_labels", "sizes"),
    [
        ("emotions", 593, 72, 6, (391, 202)),
        ("scene", 2407, 294, 6, (1211, 1196)),
        ("yeast", 2417, 103, 14, (1500, 917)),
    ],
)
def test_mulan_shapes_and_split(name, n, n_features, n_labels, sizes):
    load = getattr(datasets, f"load_{name}")
    whole = load()
    train, test = load(split="official")
    assert whole.inputs.shape == (n, n_features)
    assert (len(train.inputs), len(test.inputs)) == sizes
    assert whole.n_tasks == n_labels and whole.n_rows == n * n_labels
    assert set(whole.y) == set(train.y) == {0.0, 1.0}
    assert train.task_names == test.task_names == whole.task_names
    assert set(whole.task_names) == label_names(name)
    np.testing.assert_array_equal(np.concatenate([train.inputs, test.inputs]), whole.inputs)
    with pytest.raises(ValueError, match="split"):
        load(split=1)


@pytest.mark.data
@pytest.mark.parametrize(("name", "train_first"), [("emotions", True), ("yeast", False)])
def test_mulan_parts_are_the_whole_file(name, train_first):
    path = Path(os.environ["ZOO_DATA"]) / "mulan" / name / f"{name}.arff"
    columns, values = read_arff(path)
    whole = getattr(datasets, f"load_{name}")()
    n_train = len(getattr(datasets, f"load_{name}")(split="official")[0].inputs)
    order = np.arange(len(values))
    if not train_first:
        order = np.concatenate([order[n_train:], order[:n_train]])
    np.testing.assert_array_equal(values[:, : -whole.n_tasks], whole.inputs[order])
    labels = whole.y.reshape(whole.n_tasks, -1).T
    np.testing.assert_array_equal(values[:, -whole.n_tasks :], labels[order])
    assert columns == [*whole.feature_names, *whole.task_names]


@pytest.mark.data
def test_cal500_shape():
    data = datasets.load_cal500()
    assert data.inputs.shape == (502, 68)
    assert (data.n_tasks, data.n_rows) == (174, 502 * 174)
    assert set(data.task_names) == label_names("cal500")


@pytest.mark.data
@pytest.mark.parametrize("subset", [1, 2, 3])
def test_rcv1_shape_and_norms(subset):
    data = datasets.load_rcv1_subset(subset)
    assert data.X.shape == (6000, 47236) and data.X.dtype == np.float64
    assert data.Y.shape == (6000, 101) and data.Y.dtype == np.int8
    assert set(np.unique(data.Y)) == {0, 1}
    assert len(data.label_names) == 101
    np.testing.assert_array_equal(np.bincount(data.half), [3000, 3000])
    norms = np.sqrt(data.X.multiply(data.X).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0, atol=1e-4)  # the file has six decimals


def test_rcv1_unknown_subset():
    with pytest.raises(ValueError, match="subset"):
        datasets.load_rcv1_subset(4)


def label_names(name):
    path = Path(os.environ["ZOO_DATA"]) / "mulan" / name / f"{name}.xml"
    return {node.attrib["name"] for node in xml.etree.ElementTree.parse(path).getroot()}
