"""Data sets of the scoreboard: training and test rows of each fold.

Folds are those that others published where there are such, and else drawn with a seed that is the number of the fold.
Nothing here was chosen by looking at errors.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import pandas as pd

from zoo.data.multitask import MultiTaskData
from zoo.datasets import (
    load_emotions,
    load_grunfeld,
    load_king_county,
    load_lenk_computers,
    load_scene,
    load_school,
    load_yeast,
    simulate_groups,
)
from zoo.experiments.scoreboard_panels import PANELS, load_panel

__all__ = ["SETS", "BenchmarkSet", "rare_labels"]

Pair = tuple[MultiTaskData, MultiTaskData]


@dataclass(frozen=True)
class BenchmarkSet:
    """Data with the folds on which models are compared.

    Parameters
    ----------
    load : callable
        Training and test data of a fold, counted from 0, on the scale of the user.
    folds : int
        How many there are.
    labels : bool
        Whether responses are labels.
    about : str
        What the tasks are, and where the folds come from.
    """

    load: Callable[[int], Pair]
    folds: int
    labels: bool
    about: str


def _school(fold: int) -> Pair:
    return load_school(split=fold + 1)


def _computers(fold: int) -> Pair:
    """Profiles 16 to 19 are held out in fold 0, as by Lenk et al., and other ones in later folds."""
    data = load_lenk_computers()
    profile = np.arange(data.n_rows) % 20
    order = np.arange(20) if fold == 0 else np.random.default_rng(fold).permutation(20)
    held = np.isin(profile, order[16:])
    return data.take(~held), data.take(held)


def _grunfeld(fold: int) -> Pair:
    """The last years of every firm are held out: 5, 4, 3."""
    return load_grunfeld(test_years=5 - fold)


def _county(fold: int) -> Pair:
    """Log prices; a fifth of the sales of every postal code is held out."""
    data = load_king_county()
    logs = MultiTaskData.from_arrays(
        data.X, np.log(data.y), data.task, task_names=data.task_names, feature_names=data.feature_names
    )
    return logs.add_intercept().split(0.2, random_seed=fold)


def _groups(fold: int) -> Pair:
    data, _ = simulate_groups(random_seed=fold)
    return data.split(0.5, random_seed=fold)


def _longitudinal(fold: int) -> Pair:
    """Patients whose level and trend differ; age and sex stand still, three columns are copies of one."""
    rng = np.random.default_rng(fold)
    T, n = 40, 30
    task, hidden = np.repeat(np.arange(T), n), rng.normal(size=T * n)
    level, slope, age, sex = (
        rng.normal(size=T),
        0.3 * rng.normal(size=T),
        rng.normal(size=T),
        rng.integers(0, 2, T),
    )
    frame = pd.DataFrame({"age": age[task], "sex": 1.0 * sex[task], "time": rng.normal(size=T * n)})
    for j in range(3):
        frame[f"copy{j}"] = hidden + 0.05 * rng.normal(size=T * n)
        frame[f"noise{j}"] = rng.normal(size=T * n)
    names = list(frame.columns)
    mean = level[task] + 0.5 * frame["age"] - 0.3 * frame["sex"] + slope[task] * frame["time"]
    frame["y"], frame["patient"] = mean + 0.1 * rng.normal(size=T * n), [f"p{t}" for t in task]
    data = MultiTaskData.from_frame(frame, y="y", task="patient", features=names).add_intercept()
    return data.split(1 / 3, random_seed=fold)


def _curved(fold: int) -> Pair:
    """What is common to all tasks is not linear; levels differ, and half of the tasks have 5 rows."""
    rng = np.random.default_rng(fold)
    task = np.repeat(np.arange(60), np.where(np.arange(60) % 2, 30, 10))
    X = rng.uniform(-2.0, 2.0, (len(task), 4))
    y = np.sin(2.0 * X[:, 0]) + X[:, 1] * (X[:, 2] > 0.0) + rng.normal(size=60)[task]
    data = MultiTaskData.from_arrays(X, y + 0.5 * rng.normal(size=len(task)), task).add_intercept()
    return data.split(0.5, random_seed=fold)


def _unrelated(fold: int) -> Pair:
    """Coefficients of tasks have nothing in common: sharing can only harm."""
    rng = np.random.default_rng(fold)
    task = np.repeat(np.arange(15), 60)
    X, w = rng.normal(size=(len(task), 6)), 2.0 * rng.normal(size=(15, 6))
    y = np.einsum("nd,nd->n", X, w[task]) + rng.normal(size=len(task))
    return MultiTaskData.from_arrays(X, y, task).add_intercept().split(0.5, random_seed=fold)


def rare_labels(fold: int, n_rows: int = 130, test_size: float = 0.5) -> Pair:
    """Labels of which few are positive, in 29 related tasks of ``n_rows`` each, of which a share is held out."""
    rng = np.random.default_rng(fold)
    task = np.repeat(np.arange(29), n_rows)
    X = rng.normal(size=(len(task), 9))
    w = 0.8 * rng.normal(size=9) + 0.4 * rng.normal(size=(29, 9))
    f = -4.0 + np.einsum("nd,nd->n", X, w[task])
    y = np.where(rng.random(len(f)) < 1.0 / (1.0 + np.exp(-f)), 1.0, -1.0)
    return MultiTaskData.from_arrays(X, y, task).add_intercept().split(test_size, random_seed=fold)


def _panel(name: str) -> Callable[[int], Pair]:
    """Half of the rows of each task are held out."""
    return lambda fold: load_panel(name).split(0.5, random_seed=fold)


def _with_intercept(load: Callable[..., Pair]) -> Callable[[int], Pair]:
    def official(fold: int) -> Pair:
        train, test = load(split="official")
        return train.add_intercept(), test.add_intercept()

    return official


SETS: dict[str, BenchmarkSet] = {
    "school": BenchmarkSet(_school, 5, False, "exam scores of 139 schools; published splits 1 to 5"),
    "computers": BenchmarkSet(
        _computers, 5, False, "ratings by 190 persons; the published fold, and four drawn"
    ),
    "grunfeld": BenchmarkSet(_grunfeld, 3, False, "investment of 11 firms; the last 5, 4 and 3 years"),
    "county": BenchmarkSet(
        _county, 2, False, "log prices of 21,613 houses, tasks are 70 postal codes; drawn"
    ),
    "groups": BenchmarkSet(_groups, 5, False, "simulated: tasks in groups"),
    "longitudinal": BenchmarkSet(_longitudinal, 5, False, "simulated: levels and trends of 40 patients"),
    "curved": BenchmarkSet(_curved, 5, False, "simulated: a common mean that is not linear"),
    "unrelated": BenchmarkSet(_unrelated, 5, False, "simulated: tasks without anything in common"),
    "emotions": BenchmarkSet(_with_intercept(load_emotions), 1, True, "6 moods of music; official split"),
    "scene": BenchmarkSet(_with_intercept(load_scene), 1, True, "6 kinds of scenes; official split"),
    "yeast": BenchmarkSet(_with_intercept(load_yeast), 1, True, "14 functions of genes; official split"),
    "rare": BenchmarkSet(rare_labels, 3, True, "simulated: 29 tasks, 6 to 9 % positive"),
    **{
        name: BenchmarkSet(_panel(name), 3, panel.positive is not None, f"{panel.about}; drawn")
        for name, panel in PANELS.items()
    },
}
