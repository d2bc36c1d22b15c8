"""ILEA School: exam scores of London students, schools are tasks."""

from __future__ import annotations

from pathlib import Path
from typing import Any, overload

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.datasets.registry import fetch
from zoo.support.checks import one_of

__all__ = ["load_school"]

N_SPLITS = 10


def _numbered(name: str, count: int) -> list[str]:
    return [f"{name} {i}" for i in range(1, count + 1)]


# The columns of VR bands follow the source's coding VR3 = 1, VR1 = 2, VR2 = 3: mean scores are 11, 30, 19.
_FEATURES = [
    *_numbered("year", 3),
    "free meals",
    "VR band 1 in school",
    *_numbered("gender", 2),
    *("VR band 3", "VR band 1", "VR band 2"),
    *_numbered("ethnic group", 11),
    *_numbered("school gender", 3),
    *_numbered("denomination", 3),
    "intercept",
]


@overload
def load_school(split: None = None) -> MultiTaskData: ...
@overload
def load_school(split: int) -> tuple[MultiTaskData, MultiTaskData]: ...
def load_school(split: int | None = None) -> MultiTaskData | tuple[MultiTaskData, MultiTaskData]:
    """Exam scores of 15,362 students in 139 schools.

    Parameters
    ----------
    split : int, optional
        1 .. 10: training and test data of the published split. Left out: all the data.

    Returns
    -------
    MultiTaskData, or (train, test)
        15,362 rows, 11,472 for training and 3,890 for test; 139 tasks of 22-251 rows. ``y`` is the exam
        score, 1-70, as it is. ``X`` has 28 features: two percentages of the school (``free meals``,
        ``VR band 1 in school``), 25 dummy columns 0/1 and the intercept, last.

    Raises
    ------
    FileNotFoundError
        A file is neither in ``$ZOO_DATA`` nor in the cache, and cannot be downloaded.
    ValueError
        ``split`` is out of range, or a file has a wrong checksum.

    Notes
    -----
    Numbered features are in the order of the file. The source codes years 1985, 1986, 1987; ethnic groups
    ESWI (born in England, Scotland, Wales or Ireland), African, Arab, Bangladeshi, Caribbean, Greek, Indian,
    Pakistani, South-East Asian, Turkish, other; school gender mixed, male, female; denomination maintained,
    Church of England, Roman Catholic. The file does not say that its columns keep that order. VR bands do
    (band 3 has code 1); genders do not if school genders do, for ``gender 1`` is (one student aside) nobody's
    in the schools of ``school gender 2`` and everybody's in those of ``school gender 3``. The VR band is
    missing for 15 students: their three columns are 0.

    Source: Goldstein (1991), The Statistician 40, 235-244; files of the PyMTL project.
    """
    one_of(split, [None, *range(1, N_SPLITS + 1)], "split")
    file = _load_mat(fetch("school/school_b.mat"))
    n_rows = file["x"].shape[1]
    # task_indexes holds the 1-based first row of each task; tasks lie one below the other.
    task = np.searchsorted(_positions(file["task_indexes"]), np.arange(n_rows), side="right") - 1
    data = MultiTaskData.from_arrays(
        X=file["x"].T,
        y=file["y"][:, 0],
        task=task,
        task_names=_numbered("school", int(task[-1]) + 1),
        feature_names=_FEATURES,
    )
    if split is None:
        return data
    chosen = _load_mat(fetch(f"school/school_{split}_indexes.mat"))
    # The files list the students of a school in random order; they are returned in the order of the whole.
    train, test = (data.take(np.sort(_positions(chosen[name]))) for name in ("tr", "tst"))
    return train, test


def _load_mat(path: Path) -> dict[str, Any]:
    from scipy.io import loadmat

    return loadmat(path)


def _positions(one_based: np.ndarray) -> np.ndarray:
    return one_based.ravel().astype(np.int64) - 1
