"""A fitted estimator of scikit-learn whose predictions are a feature: it predicts new rows, and files describe it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.warning_types import warn_user

__all__ = ["LearnedMean", "predicted"]

# Probabilities are kept this far from 0 and 1, where their log odds are infinite.
_LEAST_PROBABILITY = 1e-4


@dataclass(frozen=True, eq=False)
class LearnedMean:
    """A fitted estimator, and which columns it reads.

    Parameters
    ----------
    name : str
        The feature that it makes.
    columns : tuple of str
        All features of the rows that come in, in their order.
    seen : tuple of str
        Those that the estimator sees.
    estimator : object or None
        Fitted to all rows; None of a fit from a file, which holds none.
    described : str
        What the estimator is, for messages.
    whole_tasks : bool
        Whether whole tasks were held out where it was made.
    still : tuple of str
        Columns that it sees and that stand still within tasks, so that it may know the tasks by them.
    probe : tuple of (row, prediction)
        Some rows of what it sees, and what it predicts there: by these a file knows it again.
    """

    name: str
    columns: tuple[str, ...]
    seen: tuple[str, ...]
    estimator: Any
    described: str
    whole_tasks: bool = False
    still: tuple[str, ...] = ()
    probe: tuple[tuple[tuple[float, ...], float], ...] = ()

    def description(self) -> dict[str, Any]:
        """What a file says of it, JSON-ready."""
        names = ("name", "columns", "seen", "described", "whole_tasks", "still", "probe")
        return {name: getattr(self, name) for name in names}

    @classmethod
    def of_description(cls, saved: Any, feature_names: tuple[str, ...]) -> LearnedMean:
        """The same of a file, without the estimator; raises ValueError or KeyError where it is damaged."""
        columns, seen, still = (tuple(map(str, saved[key])) for key in ("columns", "seen", "still"))
        if saved["name"] not in feature_names or not set(still) <= set(seen) <= set(columns):
            raise ValueError("zoo_mean does not name features")
        probe = tuple((tuple(map(float, row)), float(value)) for row, value in saved["probe"])
        described, whole_tasks = str(saved["described"]), bool(saved["whole_tasks"])
        return cls(saved["name"], columns, seen, None, described, whole_tasks, still, probe)

    def with_estimator(self, estimator: Any) -> LearnedMean:
        """The same with the estimator that a file does not hold.

        Raises
        ------
        ValueError
            It is not fitted, or predicts something else than the one that the data were made with.
        """
        X = np.array([row for row, _ in self.probe])
        expected = np.array([value for _, value in self.probe])
        try:
            found = predicted(estimator, X)
        except Exception as error:
            raise ValueError(
                f"mean is {estimator!r}, which predicts nothing of the features {', '.join(self.seen)}: {error} Give "
                "the estimator fitted to all rows, fit.data.learned_mean.estimator of the fit that was saved."
            ) from error
        if not np.allclose(found, expected, rtol=1e-6, atol=1e-6 * (1.0 + np.abs(expected).max(initial=0.0))):
            raise ValueError(
                f"mean is {estimator!r}, and predicts {found[0]:.6g} where the estimator of the saved fit predicted "
                f"{expected[0]:.6g}. Give that one, fit.data.learned_mean.estimator of the fit that was saved."
            )
        return replace(self, estimator=estimator)

    def warn_of_tasks(self, labels: Sequence[str], known: Sequence[str]) -> None:
        """Warn where the mean knows the tasks of the data by columns that stand still, and the model does not see it.

        A row of a task in the data then gets a mean that has learned the task's level, which the features that the
        model was fitted to had only if they were made from other rows of the same tasks; a new task gets one that has
        not.
        """
        if not self.still:
            return
        here = set(known)
        wrong = [label for label in dict.fromkeys(labels) if (label in here) == self.whole_tasks]
        if wrong:
            kind, other = ("known", "new") if self.whole_tasks else ("new", "known")
            advice = "without whole_tasks" if self.whole_tasks else "with whole_tasks=True"
            warn_user(
                f"the learned mean reads {', '.join(map(repr, self.still))}, which stands still within tasks, and was "
                f"made for rows of {other} tasks. Intervals of {kind} tasks ({wrong[0]!r}) may be much too narrow. For "
                f"these, make the mean by add_mean {advice}."
            )

    def values(self, table: pd.DataFrame) -> np.ndarray:
        """The feature (n,) of rows with these columns.

        Raises
        ------
        ValueError
            The estimator was not kept in the file.
        """
        if self.estimator is None:
            raise ValueError(
                f"the feature {self.name!r} was the prediction of {self.described}, which no file holds. Load the fit "
                "with zoo.load(path, mean=...), given the estimator fitted to all rows. Or pass an array of the "
                f"features of the fit, with those predictions in the place of {self.name!r}."
            )
        return predicted(self.estimator, table[list(self.seen)].to_numpy(dtype=np.float64))


def predicted(estimator: Any, X: np.ndarray) -> np.ndarray:
    """Predictions (n,): of a classifier the log odds of its second class."""
    if not hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict(X), dtype=np.float64).ravel()
    p = np.clip(estimator.predict_proba(X)[:, 1], _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p / (1.0 - p)))
