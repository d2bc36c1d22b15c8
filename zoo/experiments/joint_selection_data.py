"""The data sets of Srijith & Shevade (2014)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

import numpy as np
import xarray as xr

from zoo import datasets
from zoo.data.multitask import MultiTaskData
from zoo.models.multi_laplace.model import MultiLaplaceGP

__all__ = ["SETS", "DataSet", "Partition"]

_ROWS, _TRAINING_ROWS = 25, 5
_PROFILES, _TRAINING_PROFILES, _TEST_PROFILES = 20, 8, 4
_CALIBRATION = 16
_HIGH = (1.0, 0.5, 0.1, 0.15, 0.1)
# The paper says "very high". Predicting 0 has an RMSE of sqrt(8 * 16 / 3) = 6.5; the paper's pooled process has 6.6.
_LOW = (16.0,) * 8
_SMALL_NOISE, _TEXT_NOISE = 0.04, float(np.sqrt(0.1))


class Partition(NamedTuple):
    """Rows to learn from and to test on, on the user's scale; ``truth`` of simulated data."""

    train: MultiTaskData
    test: MultiTaskData
    truth: xr.Dataset | None = None


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """A data set of the tables.

    Parameters
    ----------
    label : str
    paper : str
        Its name in the paper's tables.
    draw : callable
        ``draw(number)`` gives the partition of a number from 1.
    partitions : int
    model : MultiLaplaceGP
        The fields that all Gaussian processes share on these data.
    C, noise_floor : tuple of float
        Grid of their cross-validation.
    weights : tuple of float
        Grid of the weight of the loss in multi-task feature learning.
    standardize : bool
        Features and response of the training rows.
    variances : tuple of float
        Of the coefficients of simulated data.
    """

    label: str
    paper: str
    draw: Callable[[int], Partition]
    partitions: int = 10
    model: MultiLaplaceGP
    C: tuple[float, ...]
    noise_floor: tuple[float, ...]
    weights: tuple[float, ...]
    standardize: bool = True
    variances: tuple[float, ...] = ()

    def prepared(self, train: MultiTaskData) -> MultiTaskData:
        """Training rows on the scale of the models."""
        return train.standardize() if self.standardize else train

    def partition(self, number: int, tasks: int | None = None) -> Partition:
        """Partition ``number``, of its first ``tasks`` tasks or of all."""
        whole = self.draw(number)
        if tasks is None or tasks >= whole.train.n_tasks:
            return whole
        names = whole.train.task_names[:tasks]
        return Partition(whole.train.select_tasks(names), whole.test.select_tasks(names), whole.truth)


def _simulated(
    number: int, variances: tuple[float, ...], noise: float, n_train: int = _TRAINING_ROWS
) -> Partition:
    data, truth = datasets.simulate_joint_selection(
        variances=variances,
        n_per_task=_ROWS,
        noise=noise,
        random_seed=np.random.default_rng([2014, number]),
    )
    # Rows are independent: the first ones are as good as any.
    first = np.arange(data.n_rows) % _ROWS < n_train
    return Partition(data.take(first), data.take(~first), truth)


def _computers(number: int, design: str) -> Partition:
    """``design``: "persons", a random partition of the profiles for each; "profiles", the same one; "survey"."""
    data = datasets.load_lenk_computers()
    n_persons = data.n_tasks
    rng = np.random.default_rng([2014, number])
    if design == "survey":
        place = np.tile(np.arange(_PROFILES), (n_persons, 1))
        n_train, n_test = _CALIBRATION, _PROFILES - _CALIBRATION
    else:
        n_train, n_test = _TRAINING_PROFILES, _TEST_PROFILES
        if design == "profiles":
            place = np.tile(rng.permutation(_PROFILES), (n_persons, 1))
        else:
            place = rng.permuted(np.tile(np.arange(_PROFILES), (n_persons, 1)), axis=1)
    place = place.ravel()
    return Partition(data.take(place < n_train), data.take((place >= n_train) & (place < n_train + n_test)))


def _school(number: int) -> Partition:
    return Partition(*datasets.load_school(number))


_SYNTHETIC_MODEL = MultiLaplaceGP(kernel="linear", standardize=False, mean="zero")
_COMPUTERS_MODEL = MultiLaplaceGP(kernel="squared_exponential")
_SYNTHETIC_WEIGHTS = (0.1, 1.0, 10.0, 100.0, 1000.0)


def _high(label: str, noise: float, floors: tuple[float, ...], n_train: int = _TRAINING_ROWS) -> DataSet:
    return DataSet(
        label=label,
        paper="Synthetic (High)",
        draw=partial(_simulated, variances=_HIGH, noise=noise, n_train=n_train),
        model=_SYNTHETIC_MODEL,
        C=(0.1, 1.0, 5.0, 25.0),
        noise_floor=floors,
        weights=_SYNTHETIC_WEIGHTS,
        standardize=False,
        variances=_HIGH,
    )


def _low(label: str, noise: float) -> DataSet:
    return DataSet(
        label=label,
        paper="Synthetic (Low)",
        draw=partial(_simulated, variances=_LOW, noise=noise),
        model=_SYNTHETIC_MODEL,
        C=(0.003, 0.03, 0.1, 0.4, 1.2),
        noise_floor=(0.1, 0.5, 1.5, 4.0),
        weights=_SYNTHETIC_WEIGHTS,
        standardize=False,
        variances=_LOW,
    )


def _lenk(label: str, design: str, partitions: int = 10) -> DataSet:
    return DataSet(
        label=label,
        paper="PC",
        draw=partial(_computers, design=design),
        partitions=partitions,
        model=_COMPUTERS_MODEL,
        C=(2.0, 6.0, 20.0, 60.0),
        noise_floor=(0.3, 0.6, 0.9),
        weights=(0.3, 1.0, 3.0, 10.0, 30.0),
    )


SETS = {
    "computers": _lenk("computers, profiles drawn for each person", "persons"),
    "school": DataSet(
        label="School",
        paper="School",
        draw=_school,
        model=MultiLaplaceGP(kernel="linear"),
        C=(3.0, 10.0, 30.0, 100.0, 300.0),
        noise_floor=(0.1, 0.8),
        weights=(0.01, 0.03, 0.1, 0.3, 1.0),
    ),
    "high": _high("synthetic, high; noise sd 0.04", _SMALL_NOISE, (0.02, 0.05, 0.15, 0.3, 0.6)),
    "low": _low("synthetic, low; noise sd 0.04", _SMALL_NOISE),
    "computers-survey": _lenk("computers, the survey's 16 and 4 profiles", "survey", partitions=1),
    "high-noisy": _high("synthetic, high; noise variance 0.1", _TEXT_NOISE, (0.05, 0.15, 0.4, 0.8)),
    "low-noisy": _low("synthetic, low; noise variance 0.1", _TEXT_NOISE),
    "high-swapped": _high(
        "synthetic, high; noise sd 0.04, 20 rows to train and 5 to test",
        _SMALL_NOISE,
        (0.02, 0.05, 0.15),
        n_train=20,
    ),
    "computers-profiles": _lenk("computers, the same profiles for everybody", "profiles"),
}
