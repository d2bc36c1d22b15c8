"""What is run for the tables and figures of Srijith & Shevade (2014), beside the paper's numbers."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from zoo.experiments.joint_selection import (
    FullBayes,
    GaussianProcesses,
    KnownPrior,
    Learner,
    MultiTaskFeatures,
    Population,
    path_of,
)
from zoo.experiments.joint_selection_data import SETS
from zoo.support.runner import Job

if TYPE_CHECKING:
    pass

__all__ = [
    "COLUMNS",
    "METHODS",
    "PAPER_TABLE_2",
    "PAPER_TABLE_3",
    "PAPER_TABLE_4",
    "PAPER_TABLE_5",
    "SHOWN",
    "Settings",
    "job_name",
    "methods_of",
]

COLUMNS = ("GPMTFS", "CMTFL", "GPMTL", "ITL", "ATL")
# Mean and standard deviation: RMSE averaged over tasks, of School explained variance in percent.
PAPER_TABLE_2 = {
    "Synthetic (High)": ((0.041, 0.005), (0.042, 0.005), (0.045, 0.006), (0.071, 0.008), (0.105, 0.008)),
    "Synthetic (Low)": ((3.201, 0.050), (3.138, 0.048), (3.532, 0.062), (4.522, 0.090), (6.589, 0.099)),
    "PC": ((2.041, 0.030), (2.045, 0.030), (2.062, 0.036), (2.475, 0.060), (2.283, 0.032)),
    "School": ((35.45, 1.36), (35.63, 1.25), (34.96, 1.54), (32.67, 2.17), (34.23, 1.15)),
}
PAPER_TABLE_3 = {
    "Synthetic (High)": (-1.6521, np.nan, -1.6552, -0.9553, 1.0622),
    "Synthetic (Low)": (2.7468, np.nan, 3.2681, 3.4862, 3.4365),
    "PC": (2.2228, np.nan, 2.3798, 3.4740, 6.2068),
    "School": (3.6284, np.nan, 3.7821, 6.2431, 5.4468),
}
PAPER_TABLE_4 = {"Synthetic (High)": 1.514, "Synthetic (Low)": 12.119, "PC": 4.846, "School": 9.336}
PAPER_TABLE_5 = {
    "Synthetic (High)": (11.0825, 11.6845, 8.2543, 13.1067, 15.8405),
    "Synthetic (Low)": (11.0825, 11.6845, 8.2543, 13.1067, 15.8405),
    "PC": (333.3381, 243.7865, 325.4205, 356.0030, 395.3381),
    "School": (7577.8, 8556.6, 7172.3, 9886.3, 15566.0),
}


class _Method(NamedTuple):
    """A row of the tables; ``sets``: beginnings of the names of the data sets that have it; later waves run last."""

    label: str
    learner: Learner
    paper: str | None = None
    sets: tuple[str, ...] = ("",)
    wave: int = 0


_REAL = ("computers", "school")
METHODS = {
    "gpmtfs": _Method("GPMTFS", GaussianProcesses("group"), "GPMTFS"),
    "cmtfl": _Method("CMTFL", MultiTaskFeatures(), "CMTFL"),
    "gpmtl": _Method("GPMTL", GaussianProcesses("shared"), "GPMTL"),
    "itl": _Method("ITL", GaussianProcesses("independent"), "ITL"),
    "atl": _Method("ATL", GaussianProcesses("pooled"), "ATL"),
    "known": _Method("prior and noise known", KnownPrior(), sets=("high", "low")),
    "linear-mean": _Method(
        "GPMTFS, linear mean", GaussianProcesses("group", mean="linear"), sets=_REAL, wave=1
    ),
    "population": _Method("NIWLinear, EM", Population(), sets=_REAL),
    "full-bayes": _Method("GPMTFS, horseshoe, full Bayes", FullBayes(), sets=("computers",), wave=2),
}
_FIGURE_3_FLOOR = 0.1


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    sets : tuple of str
    splits : int
        Partitions of each set, at most as many as it has.
    tasks : int, optional
        Use the first tasks alone.
    cv : int
        Folds of the cross-validation.
    quick : bool
        Small grids, few draws.
    path : tuple of float
        Values of C in figure 3.
    """

    sets: tuple[str, ...] = tuple(SETS)
    splits: int = 10
    tasks: int | None = None
    cv: int = 3
    quick: bool = False
    path: tuple[float, ...] = tuple(np.geomspace(1e-3, 1e3, 19).round(6).tolist())

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            sets=("computers", "school", "high", "low"),
            splits=2,
            tasks=8,
            quick=True,
            path=(0.1, 10.0, 1000.0),
        )

    def partitions(self, name: str) -> int:
        """Number of partitions of a data set."""
        return min(self.splits, SETS[name].partitions)


def _run_method(
    name: str, number: int, method: str, tasks: int | None, cv: int, quick: bool
) -> dict[str, Any]:
    """Job: a method on a partition of a data set, its parameters chosen on the training rows."""
    data = SETS[name]
    with warnings.catch_warnings():
        # Dummies of rare groups are constant in the rows of some folds; low noise floors are there to be compared.
        warnings.filterwarnings(
            "ignore", "feature .* is constant|the noise of .* is at noise_floor", UserWarning
        )
        return METHODS[method].learner.run(data, data.partition(number, tasks), cv, number, quick)


def _run_path(number: int, noise_floor: float, C: list[float]) -> dict[str, Any]:
    """Job: the right-hand picture of figure 3 on an instance of the synthetic data."""
    data = SETS["high"]
    return {"rows": path_of(data, data.partition(number), noise_floor, C)}


def methods_of(name: str) -> dict[str, _Method]:
    """Methods of a data set, by name."""
    return {key: row for key, row in METHODS.items() if name.startswith(row.sets)}


def job_name(name: str, method: str, number: int) -> str:
    """Name of the job of one partition and one method."""
    return f"{name}-split{number:02d}-{method}"


def _job(settings: Settings, name: str, method: str, number: int) -> Job:
    given = {
        "name": name,
        "number": number,
        "method": method,
        "tasks": settings.tasks,
        "cv": settings.cv,
        "quick": settings.quick,
    }
    return Job(job_name(name, method, number), _run_method, given)


# Of the first partition: which fits the figures show.
SHOWN = {
    2: [("high", "gpmtfs"), ("high", "gpmtl")],
    3: [("high", "gpmtfs")],
    4: [("computers", "gpmtfs"), ("computers", "full-bayes"), ("school", "gpmtfs")],
}


def jobs_of(settings: Settings, tables: Sequence[int], figures: Sequence[int]) -> list[Job]:
    """In waves, and in each set by set."""
    wanted = []
    if tables:
        wanted = [
            (name, method, number)
            for name in settings.sets
            for number in range(1, settings.partitions(name) + 1)
            for method, row in methods_of(name).items()
            if not (settings.quick and row.wave > 1)
        ]
    wanted += [
        (name, method, 1)
        for figure in figures
        for name, method in SHOWN[figure]
        if name in settings.sets and not (settings.quick and METHODS[method].wave > 1)
    ]
    wanted = sorted(dict.fromkeys(wanted), key=lambda one: METHODS[one[1]].wave)
    jobs = [_job(settings, *one) for one in wanted]
    if 3 in figures and "high" in settings.sets:
        jobs += [
            Job(
                f"figure3-instance{number:02d}",
                _run_path,
                {"number": number, "noise_floor": _FIGURE_3_FLOOR, "C": list(settings.path)},
            )
            for number in range(1, settings.partitions("high") + 1)
        ]
    return jobs
