"""Multi-label sets: labels are tasks that share their inputs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.datasets.arff import read_arff
from zoo.datasets.registry import fetch
from zoo.support.checks import one_of
from zoo.support.words import counted

if TYPE_CHECKING:
    from scipy.sparse import csr_matrix

__all__ = [
    "SparseMultiLabel",
    "load_cal500",
    "load_emotions",
    "load_rcv1_subset",
    "load_scene",
    "load_yeast",
]

Split = tuple[MultiTaskData, MultiTaskData]


@overload
def load_emotions(split: None = None) -> MultiTaskData: ...
@overload
def load_emotions(split: Literal["official"]) -> Split: ...
def load_emotions(split: str | None = None) -> MultiTaskData | Split:
    """Emotions in 593 pieces of music: 72 audio features, 6 labels.

    Parameters
    ----------
    split : {None, "official"}
        ``"official"``: training and test data of 391 and 202 inputs. Left out: all, training first.

    Returns
    -------
    MultiTaskData, or (train, test)
        ``y`` is 0 or 1; the tasks are the labels, and each input is stored once.

    Raises
    ------
    FileNotFoundError
        A file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        ``split`` is unknown, or a file has a wrong checksum.

    Notes
    -----
    Source: Trohidis, Tsoumakas, Kalliris and Vlahavas (2008), ISMIR, 325-330; files of the Mulan project.
    """
    return _load_mulan("emotions", 6, split)


@overload
def load_scene(split: None = None) -> MultiTaskData: ...
@overload
def load_scene(split: Literal["official"]) -> Split: ...
def load_scene(split: str | None = None) -> MultiTaskData | Split:
    """Scenes in 2,407 photographs: 294 colour features in [0, 1], 6 labels.

    Parameters
    ----------
    split : {None, "official"}
        ``"official"``: training and test data of 1,211 and 1,196 inputs. Left out: all, training first.

    Returns
    -------
    MultiTaskData, or (train, test)
        ``y`` is 0 or 1; the tasks are the labels, and each input is stored once.

    Raises
    ------
    FileNotFoundError
        A file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        ``split`` is unknown, or a file has a wrong checksum.

    Notes
    -----
    Source: Boutell, Luo, Shen and Brown (2004), Pattern Recognition 37, 1757-1771; files of the Mulan
    project.
    """
    return _load_mulan("scene", 6, split)


@overload
def load_yeast(split: None = None) -> MultiTaskData: ...
@overload
def load_yeast(split: Literal["official"]) -> Split: ...
def load_yeast(split: str | None = None) -> MultiTaskData | Split:
    """Functional classes of 2,417 yeast genes: 103 features, 14 labels.

    Parameters
    ----------
    split : {None, "official"}
        ``"official"``: training and test data of 1,500 and 917 inputs. Left out: all, training first.

    Returns
    -------
    MultiTaskData, or (train, test)
        ``y`` is 0 or 1; the tasks are the labels, and each input is stored once.

    Raises
    ------
    FileNotFoundError
        A file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        ``split`` is unknown, or a file has a wrong checksum.

    Notes
    -----
    Source: Elisseeff and Weston (2001), NIPS 14, 681-687; files of the Mulan project.
    """
    return _load_mulan("yeast", 14, split)


def load_cal500() -> MultiTaskData:
    """Descriptions of 502 songs: 68 audio features, 174 labels. There is no official split.

    Returns
    -------
    MultiTaskData
        ``y`` is 0 or 1; the tasks are the labels, and each input is stored once.

    Raises
    ------
    FileNotFoundError
        The file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        The file has a wrong checksum.

    Notes
    -----
    Source: Turnbull, Barrington, Torres and Lanckriet (2008), IEEE Transactions on Audio, Speech and
    Language Processing 16, 467-476; files of the Mulan project.
    """
    columns, values = read_arff(fetch("mulan/cal500/cal500.arff"))
    return _from_columns(columns, values, 174)


def _load_mulan(name: str, n_labels: int, split: str | None) -> Any:
    one_of(split, [None, "official"], "split")
    columns, train = read_arff(fetch(f"mulan/{name}/{name}-train.arff"))
    _, test = read_arff(fetch(f"mulan/{name}/{name}-test.arff"))
    data = _from_columns(columns, np.concatenate([train, test]), n_labels)
    if split is None:
        return data
    in_train = data.row < len(train)
    return data.take(in_train), data.take(~in_train)


def _from_columns(columns: list[str], values: np.ndarray, n_labels: int) -> MultiTaskData:
    return MultiTaskData.from_multilabel(
        values[:, :-n_labels],
        values[:, -n_labels:],
        task_names=columns[-n_labels:],
        feature_names=columns[:-n_labels],
    )


@dataclass(frozen=True, eq=False)
class SparseMultiLabel:
    """Multi-label data whose inputs are too wide to hold densely.

    Parameters
    ----------
    X : (n, D) scipy.sparse.csr_matrix of float64
        Inputs.
    Y : (n, T) int8
        Labels, 0 or 1.
    label_names : tuple of T str
    half : (n,) int8
        0 for the first published half, 1 for the second.
    """

    X: csr_matrix
    Y: np.ndarray
    label_names: tuple[str, ...]
    half: np.ndarray

    def __repr__(self) -> str:
        return (
            f"SparseMultiLabel({counted(self.X.shape[0], 'row')}, {counted(self.X.shape[1], 'feature')}, "
            f"{counted(self.Y.shape[1], 'label')})"
        )


def load_rcv1_subset(subset: int = 1) -> SparseMultiLabel:
    """News stories of RCV1-v2: 6,000 documents, 47,236 terms, 101 topics.

    Parameters
    ----------
    subset : {1, 2, 3}

    Returns
    -------
    SparseMultiLabel
        ``X`` (6000, 47236): cosine-normalised log TF-IDF, rows of unit length; ``Y`` (6000, 101);
        ``half``: two halves of 3,000. Between 14 and 32 documents stand in both halves.

    Raises
    ------
    FileNotFoundError
        The file is not in ``$ZOO_DATA``, and cannot be downloaded: scikit-learn's ``fetch_rcv1`` gets the
        whole collection.
    ValueError
        ``subset`` is unknown, or the file has a wrong checksum.

    Notes
    -----
    Source: Lewis, Yang, Rose and Li (2004), JMLR 5, 361-397. The public Mulan files of these subsets have the
    labels of one half shifted against its documents; this loader reads files in which that is repaired.
    """
    from scipy.sparse import csr_matrix

    one_of(subset, [1, 2, 3], "subset")
    with np.load(fetch(f"rcv1/rcv1subset{subset}_repaired.npz"), allow_pickle=False) as file:
        parts = (file["X_data"].astype(np.float64), file["X_indices"], file["X_indptr"])
        return SparseMultiLabel(
            X=csr_matrix(parts, shape=tuple(file["X_shape"])),
            Y=file["Y"],
            label_names=tuple(str(name) for name in file["label_names"]),
            half=file["half"],
        )
