"""The fit and its yardsticks on held-out rows."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING, Any, NamedTuple

import pandas as pd

from zoo.diagnostics.scores import compare
from zoo.models.baselines import IndependentTasks, PooledTasks, data_for
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = ["Accuracy", "accuracy_of", "yardsticks_of"]


_MOST_FEATURES = 300


class Accuracy(NamedTuple):
    """Scores of a fit and its yardsticks, and one sentence on them."""

    table: pd.DataFrame
    sentence: str


def yardsticks_of(fit: Fit, random_seed: Any) -> dict[str, Fit]:
    """Each task alone, and all tasks as one, fitted to the same rows.

    None of counts, grades and choices, for which the yardsticks have no method that takes a second only, and none where
    there are so many features that a regression on them takes long, or levels of further groups in a sparse matrix.
    """
    likelihood = fit.factory.likelihood
    if (
        likelihood.responses in ("counts", "grades")
        or likelihood.of_choices
        or (fit.data.is_sparse and fit.data.effects)
        or not 0 < fit.data.n_features <= _MOST_FEATURES
    ):
        return {}
    word = "logistic" if likelihood.labels else "gaussian"
    models = (IndependentTasks(likelihood=word), PooledTasks(likelihood=word))
    with warnings.catch_warnings():
        # The fit has said so of the user's own model, where it has no constant either.
        warnings.filterwarnings("ignore", "no feature is constant")
        return {
            type(model).__name__: model.fit(
                data_for(model, fit.data), next(iter(model.methods)), random_seed=random_seed, progress=False
            )
            for model in models
            if not isinstance(fit.factory, type(model))
        }


def accuracy_of(fit: Fit, yardsticks: dict[str, Fit], test: MultiTaskData, random_seed: Any) -> Accuracy:
    """Scores on held-out rows, and who is best by the first that is an error."""
    own = type(fit.factory).__name__
    table = compare({own: fit, **yardsticks}, test, random_seed=random_seed)
    name = next(column for column in ("RMSE", "log loss") if column in table)
    errors = table[name].sort_values()
    rows = f"{test.n_rows:,} held-out rows of {counted(test.n_tasks, 'task', ',')}."
    if len(errors) == 1:
        return Accuracy(table, f"{rows} {own} has the {name} {errors.iloc[0]:.4g}.")
    others = " and ".join(f"{error:.4g} of {model}" for model, error in errors.iloc[1:].items())
    best = f"{errors.index[0]} predicts best: its {name} is {errors.iloc[0]:.4g}, against {others}."
    if errors.index[0] != own:
        best += f" {own} gains nothing on these rows."
    return Accuracy(table, f"{rows} {best}")
