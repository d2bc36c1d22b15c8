"""Data that are hard on samplers, simulated with a truth that is known.

Each case is a function of a generator that says what is nasty about the data. :func:`simulate` makes
training data and test rows of the same tasks from it, with real responses or labels.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.optimize import brentq
from scipy.special import expit

from zoo.data.multitask import MultiTaskData

__all__ = ["CASES", "Design", "Sample", "simulate"]

# Test rows of each task.
_TEST_ROWS = 10
# Spread of the logits of labels.
_LOGIT_SCALE = 2.0


class Design(NamedTuple):
    """Training and test rows of a case, before they are standardized.

    Parameters
    ----------
    X : (n, D) array
        Features without an intercept.
    f : (n,) array
        The function that responses are made of.
    errors : (n,) array
        What a real response has beside it.
    task : (n,) array of int
    held_out : (n,) array of bool
        Which rows are test rows.
    places : (T, 2) array
        Place of each task in a square.
    standardize : bool
        Whether the model gets standardized features, and responses.
    probability : (n,) array or None
        Probability of a positive label, where it is not the usual logistic function of f.
    """

    X: np.ndarray
    f: np.ndarray
    errors: np.ndarray
    task: np.ndarray
    held_out: np.ndarray
    places: np.ndarray
    standardize: bool = True
    probability: np.ndarray | None = None


class Sample(NamedTuple):
    """What a job fits, and what it is held against.

    Parameters
    ----------
    train, test : MultiTaskData
        Test rows are on the scale before standardizing.
    probability : (n,) array or None
        True probability of a positive label at the test rows.
    """

    train: MultiTaskData
    test: MultiTaskData
    probability: np.ndarray | None


class _World:
    """Rows of some tasks, and coefficients that vary from task to task.

    Parameters
    ----------
    rng : numpy.random.Generator
    sizes : sequence of int
        Training rows of each task.
    smooth : bool
        Whether coefficients are smooth functions of the place of their task, as models that need
        places expect, and not independent.
    """

    def __init__(self, rng: np.random.Generator, sizes: Any, smooth: bool) -> None:
        self.rng, self.smooth = rng, smooth
        n_tasks = len(sizes)
        tasks = np.arange(n_tasks)
        self.task = np.concatenate([np.repeat(tasks, sizes), np.repeat(tasks, _TEST_ROWS)])
        self.held_out = np.arange(len(self.task)) >= np.sum(sizes)
        self.places = rng.random((n_tasks, 2))

    @property
    def n_tasks(self) -> int:
        return len(self.places)

    def columns(self, n: int) -> np.ndarray:
        """Standard normal features, (rows, n)."""
        return self.rng.standard_normal((len(self.task), n))

    def coefficient(self, sd: float = 0.5, mean: float = 0.0) -> np.ndarray:
        """One coefficient, at the rows of each task."""
        if self.smooth:
            angle = self.places @ self.rng.uniform(2.0, 5.0, 2) + self.rng.uniform(0.0, 2.0 * np.pi)
            return (mean + sd * np.sqrt(2.0) * np.sin(angle))[self.task]
        return (mean + sd * self.rng.standard_normal(self.n_tasks))[self.task]

    def linear(self, X: np.ndarray, sd: float = 0.5, mean: float = 0.5) -> np.ndarray:
        """A linear function whose coefficients and intercept vary from task to task."""
        return self.coefficient() + sum(self.coefficient(sd, mean) * x for x in X.T)

    def design(
        self,
        X: np.ndarray,
        f: np.ndarray,
        noise: float = 0.3,
        errors: np.ndarray | None = None,
        **others: Any,
    ) -> Design:
        if errors is None:
            errors = noise * self.rng.standard_normal(len(f))
        return Design(X, f, errors, self.task, self.held_out, self.places, **others)


# ---------------------------------------------------------------- features


def twin(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Age and sex are constant within each task, three features are noisy copies of one, three are noise."""
    w = _World(rng, np.full(40, 20), smooth)
    age, sex = rng.standard_normal(40)[w.task], rng.integers(0, 2, 40)[w.task].astype(float)
    time, one = w.columns(2).T
    f = w.coefficient(1.0) + 0.5 * age - 0.3 * sex + w.coefficient(0.3) * time
    return w.design(
        np.column_stack([age, sex, time, one[:, None] + 0.05 * w.columns(3), w.columns(3)]), f, 0.1
    )


def task_constant(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Age and sex are constant within each task, beside an intercept."""
    w = _World(rng, np.full(30, 15), smooth)
    age, sex = rng.standard_normal(30)[w.task], rng.integers(0, 2, 30)[w.task].astype(float)
    X = w.columns(3)
    return w.design(np.column_stack([age, sex, X]), w.linear(X) + 0.5 * age - 0.3 * sex)


def duplicates(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Two features stand twice."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(3)
    return w.design(np.column_stack([X, X[:, :2]]), w.linear(X))


def near_duplicates(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Two features stand twice, but for noise of standard deviation 0.05."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(3)
    return w.design(np.column_stack([X, X[:, :2] + 0.05 * w.columns(2)]), w.linear(X))


def near_constant(rng: np.random.Generator, smooth: bool = False) -> Design:
    """One feature varies by 0.001 around 5, another one only in two of twenty tasks."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(2)
    small, seldom = w.columns(2).T
    return w.design(np.column_stack([X, 5.0 + 1e-3 * small, np.where(w.task < 2, seldom, 0.0)]), w.linear(X))


def one_hots(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Three groups of indicators, each of which sums to one, beside an intercept."""
    w = _World(rng, np.full(20, 20), smooth)
    level = rng.integers(0, [3, 3, 4], (len(w.task), 3))
    X = np.column_stack([level[:, [g]] == np.arange(k) for g, k in enumerate((3, 3, 4))]).astype(float)
    return w.design(X, w.linear(X[:, ::2], 0.3))


# ---------------------------------------------------------------- sizes


def huge_and_tiny(rng: np.random.Generator, smooth: bool = False) -> Design:
    """One task has 2,000 rows, and thirty have three."""
    w = _World(rng, [2000, *[3] * 30], smooth)
    X = w.columns(4)
    return w.design(X, w.linear(X))


def two_tasks(rng: np.random.Generator, smooth: bool = False) -> Design:
    """There are two tasks, to learn a population from."""
    w = _World(rng, [20, 20], smooth)
    X = w.columns(4)
    return w.design(X, w.linear(X))


def wide_in_tasks(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Each task has fewer rows than there are features."""
    w = _World(rng, np.full(20, 6), smooth)
    X = w.columns(10)
    return w.design(X, w.linear(X[:, :4]))


def wide(rng: np.random.Generator, smooth: bool = False) -> Design:
    """All tasks together have fewer rows than there are features."""
    w = _World(rng, np.full(10, 3), smooth)
    X = w.columns(40)
    return w.design(X, w.linear(X[:, :4], 0.3, 1.0))


def many_tasks(rng: np.random.Generator, smooth: bool = False) -> Design:
    """There are 300 tasks of two rows."""
    w = _World(rng, np.full(300, 2), smooth)
    X = w.columns(3)
    return w.design(X, w.linear(X))


# ---------------------------------------------------------------- responses


def common_mean(rng: np.random.Generator, smooth: bool = False) -> Design:
    """All tasks have next to the same coefficients, which are large."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(4)
    return w.design(X, w.linear(X, 0.1, 5.0))


def outliers(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Two of a hundred responses are shifted by twenty standard deviations of the noise."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(4)
    shifted = np.zeros(len(w.task))
    for rows in (np.flatnonzero(~w.held_out), np.flatnonzero(w.held_out)):
        some = rng.choice(rows, round(0.02 * len(rows)), replace=False)
        shifted[some] = 20.0 * rng.choice([-1.0, 1.0], len(some))
    return w.design(X, w.linear(X), errors=0.3 * (rng.standard_normal(len(shifted)) + shifted))


def heavy_tails(rng: np.random.Generator, smooth: bool = False) -> Design:
    """The noise has a t distribution of 1.5 degrees of freedom, which has no variance."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(4)
    return w.design(X, w.linear(X), errors=0.3 * rng.standard_t(1.5, len(w.task)))


def large_units(rng: np.random.Generator, smooth: bool = False) -> Design:
    """Responses are of size 1e6, and nothing is standardized."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(4)
    errors = 0.3 * rng.standard_normal(len(w.task))
    return w.design(X, 1e6 * w.linear(X), errors=1e6 * errors, standardize=False)


def separable(rng: np.random.Generator, smooth: bool = False) -> Design:
    """One feature tells the classes of every task apart."""
    w = _World(rng, np.full(20, 15), smooth)
    X = w.columns(4)
    return w.design(X, X[:, 0], probability=(X[:, 0] > 0.0).astype(float))


def rare_class(rng: np.random.Generator, smooth: bool = False) -> Design:
    """One label in a hundred is positive."""
    w = _World(rng, np.full(20, 50), smooth)
    X = w.columns(4)
    f = w.linear(X)
    logit = _LOGIT_SCALE * f / f.std()
    shift = brentq(lambda s: expit(logit + s).mean() - 0.01, -50.0, 0.0)
    return w.design(X, f, probability=expit(logit + shift))


CASES: dict[str, tuple[Callable[..., Design], tuple[str, ...]]] = {
    **{
        function.__name__: (function, ("real", "labels"))
        for function in (
            twin, task_constant, duplicates, near_duplicates, near_constant, one_hots,
            huge_and_tiny, two_tasks, wide_in_tasks, wide, many_tasks, common_mean,
        )
    },
    **{function.__name__: (function, ("real",)) for function in (outliers, heavy_tails, large_units)},
    **{function.__name__: (function, ("labels",)) for function in (separable, rare_class)},
}  # fmt: skip
"""The cases by name, each with the kinds of responses that make sense."""


def simulate(
    case: str, kind: str, seed: int = 1, places: bool = False, most_rows: int | None = None
) -> Sample:
    """Training data and test rows of a case.

    Parameters
    ----------
    case : str
        A name of ``CASES``.
    kind : {"real", "labels"}
    seed : int
    places : bool
        Give the rows of each task a place in a square, over which coefficients vary smoothly.
    most_rows : int, optional
        For models whose cost grows fast with the rows: at most so many, of at most a third as many
        tasks. The first rows of the first tasks stay.
    """
    rng = np.random.default_rng(seed)
    design = CASES[case][0](rng, places)
    if kind == "real":
        y, probability = design.f + design.errors, None
    else:
        usual = _LOGIT_SCALE * (design.f - np.median(design.f)) / design.f.std()
        probability = expit(usual) if design.probability is None else design.probability
        y = np.where(rng.random(len(probability)) < probability, 1.0, -1.0)
    train = ~design.held_out
    n_tasks = len(design.places)
    if most_rows is not None:
        n_tasks = min(n_tasks, most_rows // 3)
        # Rows are in the order of tasks: how many of its task stand before each.
        before = np.arange(train.sum()) - np.searchsorted(design.task[train], design.task[train])
        train[np.flatnonzero(train)] = before < most_rows // n_tasks
    kept = design.task < n_tasks

    def rows(which: np.ndarray) -> MultiTaskData:
        which = which & kept
        return MultiTaskData.from_arrays(
            design.X[which],
            y[which],
            design.task[which],
            t=design.places[design.task[which]] if places else None,
            task_names=[f"task {i}" for i in range(n_tasks)],
        )

    data = rows(train)
    fitted = (data.standardize() if design.standardize else data).add_intercept()
    at_test = design.held_out & kept
    return Sample(
        fitted, rows(design.held_out).add_intercept(), None if probability is None else probability[at_test]
    )
