"""What is run for the tables and figures of Evgeniou, Micchelli & Pontil (2005)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo import datasets
from zoo.core.fields import field_value
from zoo.data.multitask import MultiTaskData
from zoo.experiments import conjoint
from zoo.experiments.evgeniou2005_structure import structure_jobs
from zoo.experiments.joint_selection import scores
from zoo.experiments.task_clustering import TaskClustering
from zoo.experiments.yardsticks import PooledLinear, SeparateLinear, Yardstick, choose, decision
from zoo.kernels.task_metric import pca_metric
from zoo.likelihoods import EpsilonInsensitive, Gaussian
from zoo.models.kernel_machine.model import MultiTaskKernelMachine
from zoo.selection import select
from zoo.support.runner import Job

if TYPE_CHECKING:
    pass

__all__ = [
    "LAMBDA",
    "PAPER_METHODS",
    "PAPER_SCHOOL",
    "PAPER_TABLE_1",
    "SCHOOL_METHODS",
    "Settings",
    "customers_name",
]

SETS = ("customers", "computers", "school", "structures")
# Off the picture for most lam: it is drawn, and does not set the axes.
_LITERAL = "epsilon-insensitive loss, gamma = 1"

# Tasks and rows per task: One SVM, individual, identity, PCA; percent of the test rows.
PAPER_TABLE_1 = {
    (50, 20): (41.97, 29.86, 28.72, 29.16),
    (100, 20): (41.41, 29.86, 28.30, 29.26),
    (200, 20): (40.08, 29.86, 27.79, 28.53),
    (50, 30): (40.73, 26.84, 25.53, 25.65),
    (100, 30): (40.66, 26.84, 25.25, 24.79),
    (200, 30): (39.43, 26.84, 25.16, 24.13),
    (50, 60): (40.33, 22.84, 22.06, 21.08),
    (100, 60): (40.02, 22.84, 22.27, 20.79),
    (200, 60): (39.74, 22.84, 21.86, 20.00),
    (50, 90): (38.51, 19.84, 19.68, 18.45),
    (100, 90): (38.97, 19.84, 19.34, 18.08),
    (200, 90): (38.77, 19.84, 19.27, 17.53),
}
PAPER_METHODS = ("one", "individual", "identity", "pca")
# Read off figure 3; the text has no number.
PAPER_SCHOOL = 34.4
_CHOICES = 120
LAMBDA = 0.6
_SHORT = 20
# Two tasks cannot say much about Q, and there are a hundred of them.
_LEAST_FOR_Q = 10
_COMPUTER_GAMMAS = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
_SCHOOL_GAMMAS = (1.0, 3.0, 10.0)
_RIDGE_WEIGHTS = (1e-4, 3e-4, 1e-3, 3e-3, 0.01, 0.03, 0.1, 0.3, 1.0, 10.0)
_CLUSTERS = (1, 2, 3, 4, 5)
_EPSILON = 0.01


@dataclass(frozen=True, kw_only=True)
class Settings:
    """How much is run.

    Parameters
    ----------
    sets : tuple of str
        Of ``SETS``.
    repeats : int
        Panels of simulated customers.
    customers : int
    tasks, data : tuple of int
        Customers of a group and choices of a customer to learn from in table 1.
    few : tuple of int
        Customers of a group in figure 1.
    two : tuple of int
        The same in figure 2.
    lams : tuple of float
        Horizontal axis of figure 2.
    partitions : int
        Of the computers, beside the survey's own.
    persons : int, optional
        Use the first persons alone.
    splits : int
        Of School.
    schools : int, optional
        Use the first schools alone.
    school_lams : tuple of float
        Horizontal axis of figure 3.
    cv : int
        Folds of the cross-validation on School.
    structure_repeats, structure_customers : int
        Repeats of each world of table 2, and customers of a panel there.
    """

    sets: tuple[str, ...] = SETS
    repeats: int = 2
    customers: int = 200
    tasks: tuple[int, ...] = (50, 100, 200)
    data: tuple[int, ...] = (20, 30, 60, 90)
    few: tuple[int, ...] = (2, 4, 5, 10, 20, 40, 50, 100, 200)
    two: tuple[int, ...] = (10, 200)
    lams: tuple[float, ...] = (conjoint.ZERO, 0.001, 0.003, 0.01, 0.03, *(i / 10 for i in range(1, 11)))
    partitions: int = 5
    persons: int | None = None
    splits: int = 10
    schools: int | None = None
    school_lams: tuple[float, ...] = (0.0003, 0.001, 0.003, 0.01, 0.03, *(i / 10 for i in range(1, 11)))
    cv: int = 3
    structure_repeats: int = 20
    structure_customers: int = 100

    @classmethod
    def look(cls) -> Settings:
        """Settings for a look at whether everything works; the numbers mean little."""
        return cls(
            repeats=1,
            customers=20,
            tasks=(20,),
            data=(20,),
            few=(5, 20),
            two=(20,),
            lams=(conjoint.ZERO, 0.1, 1.0),
            partitions=1,
            persons=20,
            splits=2,
            schools=12,
            school_lams=(0.01, 0.1, 1.0),
            structure_repeats=1,
            structure_customers=10,
        )

    def groups(self, tasks: int) -> int:
        """Groups of that many customers."""
        return self.customers // tasks


def _groups(rows: MultiTaskData, tasks: int, n_train: int) -> list[tuple[MultiTaskData, MultiTaskData]]:
    """Training and test rows of each group of customers; choices are in random order."""
    parts = []
    for begin in range(0, rows.n_tasks - tasks + 1, tasks):
        group = rows.select_tasks(rows.task_names[begin : begin + tasks])
        first = np.arange(group.n_rows) % _CHOICES < n_train
        parts.append((group.take(first), group.take(~first)))
    return parts


def _run_customers(panel: int, customers: int, tasks: int, data: int, group: int) -> dict[str, Any]:
    """Job: all methods of table 1 on a group of customers."""
    rows, truth = conjoint.customers(panel, customers)
    train, test = _groups(rows, tasks, data)[group]
    return conjoint.table_row(train, test, truth["covariance"].to_numpy())


def _run_computers(partition: int, persons: int | None) -> dict[str, Any]:
    """Job: the same on the computers' ratings, above or below the person's mean, and the ratings themselves."""
    train, test = conjoint.computers(partition, persons)
    labelled = conjoint.table_row(*conjoint.labels(train, test), gammas=_COMPUTER_GAMMAS)
    return {"labels": labelled, "ratings": conjoint.ratings(train, test, partition + 1)}


def _run_along(panel: int, customers: int, tasks: int, lams: list[float]) -> dict[str, Any]:
    """Job: a number of customers in figure 1 or 2, all groups."""
    rows, _ = conjoint.customers(panel, customers)
    groups = _groups(rows, tasks, _SHORT)
    result: dict[str, Any] = {"identity": conjoint.along(groups, lams)}
    # The dashed line: by the test rows, as in table 1.
    singles = [
        np.concatenate([conjoint.errors(test, conjoint.machine(train, 1.0, gamma)) for train, test in groups])
        for gamma in conjoint.SINGLE_GAMMAS
    ]
    result["individual"] = 100.0 * float(min(found.mean() for found in singles))
    if tasks >= _LEAST_FOR_Q:
        metrics = [conjoint.evidence(train, 1)[0] for train, _ in groups]
        result["learned"] = conjoint.along(groups, lams, metrics=metrics)
    return result


def _school(split: int, schools: int | None) -> tuple[MultiTaskData, MultiTaskData]:
    """Standardized training rows, and test rows."""
    train, test = datasets.load_school(split)
    if schools is not None:
        names = train.task_names[:schools]
        train, test = train.select_tasks(names), test.select_tasks(names)
    return train.standardize(), test


_EXACT: dict[str, Any] = {"method": "exact", "draws": 1, "chains": 1, "random_seed": 1, "progress": False}


def _exact(train: MultiTaskData, **fields: Any) -> Any:
    return MultiTaskKernelMachine(**fields).fit(train, **_EXACT)


# The errors are the same with a tighter tolerance, at several times the cost.
_TUBE: dict[str, Any] = {"method": "map", "tol": 1e-3, "max_iter": 2000, "random_seed": 1, "progress": False}


def _tube(train: MultiTaskData, lam: float, gamma: float) -> Any:
    """Regression with the epsilon-insensitive loss; ``gamma`` in units of T, as in :mod:`conjoint`."""
    likelihood = EpsilonInsensitive(C=_C(train, gamma), epsilon=_EPSILON)
    model = MultiTaskKernelMachine(likelihood=likelihood, lam=lam, amplitude=1.0)
    return model.fit(train, **_TUBE)


def _C(train: MultiTaskData, gamma: float) -> float:
    return 1.0 / (4.0 * gamma * train.n_tasks)


def _scores(fit: Any, test: MultiTaskData) -> dict[str, float]:
    return scores(test, fit.predict(test, random_seed=1)["mean"].to_numpy())


def _run_path(split: int, schools: int | None, lams: list[float]) -> dict[str, Any]:
    """Job: the curves of figure 3 on a split."""
    train, test = _school(split, schools)
    # The ridge whose penalty is gamma |w|^2 has noise variance gamma at amplitude 1.
    noise = float(np.sqrt(train.n_tasks))
    curves: dict[str, Any] = {
        _LITERAL: lambda lam: _tube(train, lam, 1.0 / train.n_tasks),
        "epsilon-insensitive loss, gamma = T": lambda lam: _tube(train, lam, 1.0),
        "square loss, gamma = T": lambda lam: _exact(
            train, lam=lam, amplitude=1.0, likelihood=Gaussian(noise=noise)
        ),
        "square loss, gamma by evidence": lambda lam: _exact(train, lam=lam),
    }
    rows = []
    for curve, fit in curves.items():
        # Where almost nothing is penalised liblinear takes long, and a few points say enough.
        at = lams[::3] if curve == _LITERAL else lams
        rows += [{"curve": curve, "lam": lam, **_scores(fit(lam), test)} for lam in at]
    return {"rows": rows}


def _held_out_ev(held_out: MultiTaskData, values: np.ndarray) -> float:
    return -float(np.mean((held_out.original_y() - values) ** 2))


def _by_yardstick(
    model: Yardstick, grid: Sequence[float], train: MultiTaskData, test: MultiTaskData, cv: int
) -> dict[str, Any]:
    C = choose(model, train.folds(cv, random_seed=1), grid, _held_out_ev)
    return {"scores": scores(test, decision(model.fit(train, C), train, test)), "parameters": {"C": C}}


def _by_clusters(train: MultiTaskData, test: MultiTaskData, cv: int) -> dict[str, Any]:
    grid = [K for K in _CLUSTERS if train.n_tasks >= K]
    return _by_yardstick(TaskClustering(), grid, train, test, cv)


def _by_evidence(train: MultiTaskData, test: MultiTaskData, cv: int, Q: Any = "identity") -> dict[str, Any]:
    if Q == "pca":
        # Without a floor coefficients outside the first components could not be learned at all.
        Q = pca_metric(conjoint.coefficients(_exact(train)), floor=_PCA_FLOOR)
    fit = _exact(train, Q=Q)
    names = [name for name in ("lam", "noise", "amplitude") if name in fit.posterior]
    return {
        "scores": _scores(fit, test),
        "parameters": {name: float(fit.posterior[name].mean()) for name in names},
    }


def _squared_error(held_out: MultiTaskData, predicted: Any) -> float:
    return -float(np.mean((held_out.original_y() - predicted["mean"].to_numpy()) ** 2))


def _by_cv(train: MultiTaskData, test: MultiTaskData, cv: int, tube: bool) -> dict[str, Any]:
    grid: dict[str, Sequence[float]] = {"lam": _CV_LAMBDAS}
    model, settings = MultiTaskKernelMachine(), _EXACT
    if tube:
        likelihood = EpsilonInsensitive(C=1.0, epsilon=_EPSILON)
        model, settings = MultiTaskKernelMachine(likelihood=likelihood, lam=1.0, amplitude=1.0), _TUBE
        grid["likelihood.C"] = [_C(train, gamma) for gamma in _SCHOOL_GAMMAS]
    folds = train.folds(cv, random_seed=1)
    best = select(model, train, grid, cv=folds, score=_squared_error, n_jobs=1, **settings).best
    fit = best.fit(train, **settings)
    return {
        "scores": _scores(fit, test),
        "parameters": {name.removeprefix("likelihood."): field_value(best, name) for name in grid},
    }


_CV_LAMBDAS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3)
_PCA_FLOOR = 0.05
SCHOOL_METHODS: dict[str, tuple[str, Any]] = {
    "pooled": ("one ridge regression", partial(_by_yardstick, PooledLinear("squared"), _RIDGE_WEIGHTS)),
    "independent": (
        "a ridge regression for each school",
        partial(_by_yardstick, SeparateLinear("squared"), _RIDGE_WEIGHTS),
    ),
    "clusters": ("task clustering (Bakker & Heskes)", _by_clusters),
    "evidence": ("square loss; lambda by evidence", _by_evidence),
    "cv": ("square loss; lambda by cross-validation", partial(_by_cv, tube=False)),
    "pca": ("square loss; lambda by evidence, PCA Q", partial(_by_evidence, Q="pca")),
    "learned": ("square loss; lambda and Q by evidence", partial(_by_evidence, Q="learned")),
    "tube": (
        "epsilon-insensitive loss; lambda and gamma by cross-validation",
        partial(_by_cv, tube=True),
    ),
}


def _run_school(split: int, schools: int | None, method: str, cv: int) -> dict[str, Any]:
    """Job: a method on a split, everything chosen on the training rows."""
    return dict(SCHOOL_METHODS[method][1](*_school(split, schools), cv))


def customers_name(panel: int, tasks: int, data: int, group: int) -> str:
    """Name of the job of one group of customers."""
    return f"customers{panel:02d}-tasks{tasks:03d}-data{data:02d}-group{group}"


def jobs_of(settings: Settings, tables: Sequence[int], figures: Sequence[int]) -> list[Job]:
    panels = range(1, settings.repeats + 1)
    jobs = []
    if 1 in tables and "customers" in settings.sets:
        jobs += [
            Job(
                customers_name(panel, tasks, data, group),
                _run_customers,
                {
                    "panel": panel,
                    "customers": settings.customers,
                    "tasks": tasks,
                    "data": data,
                    "group": group,
                },
            )
            for panel in panels
            for tasks in settings.tasks
            for data in settings.data
            for group in range(settings.groups(tasks))
        ]
    if 1 in tables and "computers" in settings.sets:
        jobs += [
            Job(
                f"computers-partition{number:02d}",
                _run_computers,
                {"partition": number, "persons": settings.persons},
            )
            for number in range(settings.partitions + 1)
        ]
    if 2 in tables and "structures" in settings.sets:
        jobs += structure_jobs(settings.structure_repeats, settings.structure_customers)
    if "customers" in settings.sets:
        shown = {1: (settings.few, (LAMBDA,)), 2: (settings.two, settings.lams)}
        jobs += [
            Job(
                f"figure{figure}-panel{panel:02d}-tasks{tasks:03d}",
                _run_along,
                {"panel": panel, "customers": settings.customers, "tasks": tasks, "lams": list(lams)},
            )
            for figure, (sizes, lams) in shown.items()
            if figure in figures
            for panel in panels
            for tasks in sizes
        ]
    if 3 in figures and "school" in settings.sets:
        for split in range(1, settings.splits + 1):
            given = {"split": split, "schools": settings.schools}
            jobs.append(
                Job(f"school-split{split:02d}-path", _run_path, {**given, "lams": list(settings.school_lams)})
            )
            jobs += [
                Job(
                    f"school-split{split:02d}-{method}",
                    _run_school,
                    {**given, "method": method, "cv": settings.cv},
                )
                for method in SCHOOL_METHODS
            ]
    return jobs
