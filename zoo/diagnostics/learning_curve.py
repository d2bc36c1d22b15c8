"""How predictions improve with the rows that each task has, against the yardsticks."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.data.folds import of_units, units_by_task
from zoo.data.multitask import MultiTaskData
from zoo.diagnostics.scores import compare
from zoo.likelihoods.base import Likelihood, code_of
from zoo.models.baselines import IndependentTasks, PooledTasks, data_for
from zoo.support.checks import flag, probability, whole_number
from zoo.support.seeds import generator
from zoo.support.warning_types import collected, warn_of_convergence

__all__ = ["learning_curve"]


def learning_curve(
    model: ModelFactory,
    data: MultiTaskData,
    rows: Sequence[int] = (5, 10, 20, 40),
    repeats: int = 3,
    test_size: float = 0.3,
    standardize: bool = True,
    yardsticks: Sequence[ModelFactory] | None = None,
    method: str | None = None,
    random_seed: Any = None,
    **options: Any,
) -> pd.DataFrame:
    """Scores on held-out rows by the number of training rows per task: what sharing buys, and until when.

    In each repeat, rows are held out inside every task, and the others are put into a random order. The models see
    the first ``rows`` of each task, so that a longer training set contains the shorter ones.

    Parameters
    ----------
    model : ModelFactory
    data : MultiTaskData
        As it was before ``standardize``.
    rows : sequence of int
        Training rows per task. A task that has fewer of them gives all that it has.
    repeats : int
        How often rows are held out anew.
    test_size : float
        Share of each task's rows that is held out.
    standardize : bool
        Whether the models see standardized training rows.
    yardsticks : sequence of ModelFactory, optional
        What the model is held against. Default: :class:`zoo.IndependentTasks` and :class:`zoo.PooledTasks`, logistic
        for labels; for counts and grades they have to be given. One without shared coefficients takes the features
        that the data share among tasks like the others.
    method : str, optional
        Of the model; the yardsticks take their own.
    random_seed : int or numpy.random.Generator, optional
    **options
        Of the model's ``fit``, such as ``draws``.

    Returns
    -------
    pandas.DataFrame
        One row per model, number of rows, and repeat: ``model``, ``rows``, ``repeat``, and the scores of
        :func:`zoo.diagnostics.compare`. :func:`zoo.plots.learning_curve` draws it.

    Raises
    ------
    ValueError
        Names the argument.

    Warns
    -----
    ConvergenceWarning
        Some of the fits have not converged: how many, and what the first of them says.
    """
    sizes = sorted({whole_number(size, "rows", 2) for size in rows})
    if not sizes:
        raise ValueError("rows is empty. Give at least one number of training rows per task.")
    whole_number(repeats, "repeats")
    probability(test_size, "test_size")
    flag(standardize, "standardize")
    if data.transform is not None:
        raise ValueError(
            "data are standardized, with the rows that will be held out. Hand them over as they were before."
        )
    others = _yardsticks(model) if yardsticks is None else list(yardsticks)
    rng = generator(random_seed)
    tables, said = [], list[str]()
    for repeat in range(repeats):
        train, test = data.split(test_size, random_seed=rng)
        place = _places(train, rng)
        for size in sizes:
            seen = train.take(place < size)
            if standardize:
                likelihood = model.likelihood
                scaled = likelihood.responses == "real" and type(likelihood).mean is Likelihood.mean
                seen = seen.standardize(y=scaled)
            seed = int(rng.integers(2**31))
            fits: dict[str, Fit] = {}
            with collected() as messages:
                fits[type(model).__name__] = model.fit(
                    seen, method, random_seed=seed, progress=False, **options
                )
                for other in others:
                    fits[_name(other, fits)] = other.fit(
                        data_for(other, seen), random_seed=seed, progress=False
                    )
            said += [f"{size} rows per task, repeat {repeat}: {message}" for message in messages]
            scores = compare(fits, test, random_seed=seed).reset_index()
            tables.append(scores.assign(rows=size, repeat=repeat))
    if said:
        warn_of_convergence(f"{len(said)} fits have not converged. The first, {said[0]}")
    table = pd.concat(tables, ignore_index=True)
    first = ["model", "rows", "repeat"]
    return table[[*first, *(name for name in table.columns if name not in first)]]


def _yardsticks(model: ModelFactory) -> list[ModelFactory]:
    responses = model.likelihood.responses
    responses = "choices" if model.likelihood.of_choices else responses
    if responses in ("counts", "grades", "choices"):
        raise ValueError(
            f"yardsticks is not given, and the model is one of {responses}. Pass for instance "
            f"yardsticks=[zoo.PooledTasks(likelihood={code_of(model.likelihood)})]."
        )
    word = "logistic" if model.likelihood.labels else "gaussian"
    return [IndependentTasks(likelihood=word), PooledTasks(likelihood=word)]


def _name(model: ModelFactory, taken: dict[str, Fit]) -> str:
    """The class, or the whole description where two are of one class."""
    name = type(model).__name__
    return repr(model) if name in taken else name


def _places(train: MultiTaskData, rng: np.random.Generator) -> np.ndarray:
    """The place of each row in a random order of those of its task."""
    place = np.empty(train.n_rows, dtype=int)
    for rows in units_by_task(train):
        place[rng.permutation(rows)] = np.arange(len(rows))
    return of_units(train, place)
