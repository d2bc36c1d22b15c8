r"""The predictions of a regressor or classifier of scikit-learn as one more feature, out of fold.

.. math:: f_n = x_n' w_{t(n)} + \dots, \qquad x_n = (1, m_{-k(n)}(z_n))

where :math:`m_{-k}` was fitted without the rows of fold k. A flexible mean :math:`m` finds what is nonlinear and common
to all tasks, and the model what is particular to each of them, with intervals. A prediction for a row that
:math:`m` was fitted to would be better than one for a new row, and the model would trust it too
much: so each row gets that of a copy that has not seen it. The noise that the model then learns is that of such
predictions. Rows to predict get those of a copy that was fitted to all rows.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.checks import is_sparse, whole_number

__all__ = ["LearnedMean", "out_of_fold"]

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
    """

    name: str
    columns: tuple[str, ...]
    seen: tuple[str, ...]
    estimator: Any
    described: str

    def description(self) -> dict[str, Any]:
        """What a file says of it, JSON-ready."""
        return {"name": self.name, "columns": self.columns, "seen": self.seen, "described": self.described}

    @classmethod
    def of_description(cls, saved: Any, feature_names: tuple[str, ...]) -> LearnedMean:
        """The same of a file, without the estimator; raises ValueError or KeyError where it is damaged."""
        columns, seen = (tuple(map(str, saved[key])) for key in ("columns", "seen"))
        if saved["name"] not in feature_names or not set(seen) <= set(columns):
            raise ValueError("zoo_mean does not name features")
        return cls(saved["name"], columns, seen, None, str(saved["described"]))

    def values(self, table: pd.DataFrame) -> np.ndarray:
        """The feature (n,) of rows with these columns.

        Raises
        ------
        ValueError
            The estimator was not kept in the file.
        """
        if self.estimator is None:
            raise ValueError(
                f"the feature {self.name!r} was the prediction of {self.described}, which no file holds. Add a column "
                f"{self.name!r} with its predictions, or load the fit with zoo.load(path, mean=...), given the "
                "estimator fitted to all rows."
            )
        return predicted(self.estimator, table[list(self.seen)].to_numpy(dtype=np.float64))


def predicted(estimator: Any, X: np.ndarray) -> np.ndarray:
    """Predictions (n,): of a classifier the log odds of its second class."""
    if not hasattr(estimator, "predict_proba"):
        return np.asarray(estimator.predict(X), dtype=np.float64).ravel()
    p = np.clip(estimator.predict_proba(X)[:, 1], _LEAST_PROBABILITY, 1.0 - _LEAST_PROBABILITY)
    return np.asarray(np.log(p / (1.0 - p)))


def _fitted(estimator: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> Any:
    from sklearn.base import clone

    weights = {} if weight is None else {"sample_weight": weight}
    fitted = clone(estimator).fit(X, y, **weights)
    classes = getattr(fitted, "classes_", None)
    if classes is not None and hasattr(fitted, "predict_proba") and len(classes) != 2:
        raise ValueError(
            f"estimator is {estimator!r}, which finds {len(classes)} classes in y, and the feature is the log odds of "
            "one class against another. Give a regressor: of grades it predicts the expected one."
        )
    return fitted


def _require_weights(estimator: Any) -> None:
    """Raise where an estimator takes no weights of rows."""
    from sklearn.utils.validation import has_fit_parameter

    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"the rows have weights, and the estimator {estimator!r} takes none in fit. Choose one whose fit has "
            "sample_weight, such as HistGradientBoostingRegressor()."
        )


def out_of_fold(
    estimator: Any,
    X: np.ndarray,
    y: np.ndarray,
    task: np.ndarray,
    weight: np.ndarray | None,
    folds: int,
    whole_tasks: bool,
    rng: np.random.Generator,
    shared_input: np.ndarray | None = None,
) -> tuple[np.ndarray, Any]:
    """Predictions (N,) for each row by a copy that was fitted without its fold, and a copy fitted to all rows.

    The rows of each task are dealt to the folds at random; or, with ``whole_tasks``, the tasks are. Where tasks share
    inputs, ``shared_input`` (N,) says which one each row has, and the inputs are dealt: a copy that has seen an input
    with the label of another task has seen the row.

    Raises
    ------
    TypeError
        ``estimator`` is none of scikit-learn's kind.
    ValueError
        There are fewer rows, or tasks, than folds; or predictions that are not finite.
    """
    if is_sparse(X):
        raise ValueError(
            "X is sparse, and a learned mean sees dense columns. Make the data from X.toarray()."
        )
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
        raise TypeError(
            f"estimator is {estimator!r}. Give a regressor or classifier of scikit-learn, "
            "such as HistGradientBoostingRegressor()."
        )
    if weight is not None:
        _require_weights(estimator)
    folds = whole_number(folds, "folds", 2)
    if whole_tasks and shared_input is not None:
        raise ValueError(
            "whole_tasks is True, and the tasks share their inputs: every copy would have seen the rows of the tasks "
            "that are held out. Leave whole_tasks out."
        )
    size, what = (len(np.unique(task)), "tasks") if whole_tasks else (len(y), "rows")
    if shared_input is not None:
        size, what = int(shared_input.max()) + 1, "inputs"
    if size < folds:
        raise ValueError(f"folds is {folds}, and the data have {size} {what}. Take fewer folds.")
    fold = np.empty(len(y), dtype=np.int64)
    if whole_tasks:
        fold = (rng.permutation(task.max() + 1) % folds)[task]
    elif shared_input is not None:
        fold = (rng.permutation(size) % folds)[shared_input]
    else:
        # Shuffled, then in the order of tasks: the rows of each task go round the folds.
        order = rng.permutation(len(y))
        fold[order[np.argsort(task[order], kind="stable")]] = np.arange(len(y)) % folds
    values = np.empty(len(y))
    for k in np.unique(fold):
        out = fold == k
        part = None if weight is None else weight[~out]
        values[out] = predicted(_fitted(estimator, X[~out], y[~out], part), X[out])
    if not np.isfinite(values).all():
        raise ValueError(
            f"{estimator!r} predicted what is not finite for row {int(np.flatnonzero(~np.isfinite(values))[0])}. "
            "Choose another estimator."
        )
    return values, _fitted(estimator, X, y, weight)
