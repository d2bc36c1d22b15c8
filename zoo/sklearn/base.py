"""What the estimators share: the way to a fit, and from a fit to predictions."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, NoReturn, Self

import numpy as np
import pandas as pd
from sklearn.base import ClassifierMixin
from sklearn.utils import check_random_state
from sklearn.utils.validation import (
    _check_sample_weight,
    check_consistent_length,
    check_is_fitted,
    column_or_1d,
)

from zoo.core.factory import ModelFactory
from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError
from zoo.data.columns import require_same_rows, task_column
from zoo.data.multitask import MultiTaskData, with_ones
from zoo.data.task_labels import column_labels
from zoo.sklearn.parameters import FactoryParameters
from zoo.sklearn.rows import AS_ARGUMENT, Rows, column_of, read_rows
from zoo.sklearn.scaling import needs_constant, standardized
from zoo.support.checks import one_of
from zoo.support.frames import read_column, read_table
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["MultiTaskEstimator"]

_LARGEST_SEED = 2**31 - 1
_ONE_TASK = "one task"
# Arguments of a fit that are parameters of an estimator, by their names there.
_OWN = {name: name for name in ("method", "draws", "tune", "chains", "progress")} | {
    "random_seed": "random_state"
}


class MultiTaskEstimator(FactoryParameters):
    """A factory as an estimator, whose parameters the regressor documents."""

    fit_: Fit

    def __init__(
        self,
        factory: Any,
        *,
        method: str | None = None,
        task: Any = AS_ARGUMENT,
        t: Any = None,
        standardize: bool = True,
        fit_intercept: Any = "auto",
        draws: Any = None,
        tune: int = 1000,
        chains: int = 4,
        options: dict[str, Any] | None = None,
        random_state: Any = None,
        progress: bool = False,
        new_tasks: str = "warn",
    ):
        self.factory = factory
        self.method = method
        self.task = task
        self.t = t
        self.standardize = standardize
        self.fit_intercept = fit_intercept
        self.draws = draws
        self.tune = tune
        self.chains = chains
        self.options = options
        self.random_state = random_state
        self.progress = progress
        self.new_tasks = new_tasks

    def fit(self, X: Any, y: Any, sample_weight: Any = None, task: Any = None) -> Self:
        """Infer the posterior.

        Parameters
        ----------
        X : (n, D) array_like, table, or scipy.sparse matrix
            Features, with the column of the tasks where ``task`` names it. A table is one of
            pandas, polars, Arrow or another library that narwhals knows.
        y : (n,) array_like
            Responses or labels.
        sample_weight : (n,) array_like, optional
            A row of weight 2 counts as the row twice, and one of weight 0 as if it were not there.
        task : (n,) array_like, optional
            Task of each row, where no column of X holds it. It is metadata, which scikit-learn
            routes where ``set_fit_request(task=True)`` asks for it.

        Returns
        -------
        self

        Raises
        ------
        TypeError
            ``factory`` is none.
        ValueError
            The factory is for another kind of response, an argument does not fit the rows or has another
            index, or the model refuses the data.
        """
        factory = self._checked_factory()
        one_of(self.new_tasks, ("warn", "predict"), "new_tasks")
        require_same_rows(
            X=read_table(X, "X"),
            y=read_column(y, "y"),
            sample_weight=read_column(sample_weight, "sample_weight"),
            task=read_column(task, "task"),
        )
        rows = read_rows(self, X, task, reset=True)
        target = self._read_target(y)
        check_consistent_length(rows.features, target)
        keep, weight = _read_weight(sample_weight, rows.features)
        coded = self.encode(target[keep])
        names, codes = [_ONE_TASK], np.zeros(int(keep.sum()), dtype=np.int64)
        if rows.task is not None:
            names, codes = task_column(rows.task[keep].rename(str(rows.task.name)))
        data = MultiTaskData.from_arrays(
            rows.features[keep],
            coded,
            task=codes,
            task_names=names,
            feature_names=rows.names,
            t=None if rows.t is None else rows.t[keep],
            t_names=rows.t_names,
            weight=weight,
        )
        data = self._prepared(factory, data, rows.task)
        random = check_random_state(self.random_state)
        seed, self._prediction_seed = (int(random.randint(_LARGEST_SEED)) for _ in range(2))
        self.fit_ = factory.fit(
            data,
            self.method,
            draws=self.draws,
            tune=self.tune,
            chains=self.chains,
            random_seed=seed,
            progress=self.progress,
            **(self.options or {}),
        )
        self.tasks_ = np.asarray(names, dtype=object)
        self._task_known = rows.task is not None
        return self

    def _prepared(self, factory: ModelFactory, data: MultiTaskData, task: pd.Series | None) -> MultiTaskData:
        """The data, standardized and with a constant feature where that is asked for."""
        if task is None and factory.shares_tasks and self.task is not None:
            raise ValueError(
                f"no task was named, and {type(factory).__name__} learns what tasks have in common. Make the "
                f"{type(self).__name__} with task=, a column of X, or pass the argument task. If all rows are of one "
                "task, make it with task=None."
            )
        if isinstance(column_of(self), str):
            data = replace(data, task_column=self.task)
        if self.standardize and data.is_sparse and factory.sparse_inputs:
            raise ValueError("X is sparse, and standardize=True would fill it. Pass standardize=False.")
        if self.standardize and not data.is_sparse:
            data = standardized(data, factory.likelihood.responses)
        if isinstance(self.fit_intercept, str) and self.fit_intercept != "auto":
            raise ValueError(f'fit_intercept is {self.fit_intercept!r}. Give True, False or "auto".')
        name = "intercept"
        while name in (*data.feature_names, data.task_column):
            name = f"({name})"
        wanted = (
            needs_constant(factory, data, name) if self.fit_intercept == "auto" else bool(self.fit_intercept)
        )
        self._constant = wanted
        return data.add_intercept(name) if wanted else data

    def summaries(self, X: Any, task: Any) -> dict[str, np.ndarray]:
        """What ``fit.predict`` says of the rows, (n,) by name; new tasks are those of the population."""
        check_is_fitted(self)
        rows = read_rows(self, X, task, reset=False)
        features: Any = rows.features
        if self._constant:
            features = with_ones(features)
        known = self.fit_.data.task_names
        labels = self._labels(rows, features.shape[0], known)
        is_new = ~np.isin(labels, known)
        result: dict[str, np.ndarray] = {}
        for new, at in ((False, np.flatnonzero(~is_new)), (True, np.flatnonzero(is_new))):
            if not len(at):
                continue
            try:
                said = self.fit_.predict(
                    features[at],
                    task=pd.Series(labels[at]),
                    t=None if rows.t is None else rows.t[at],
                    new_task=new,
                    random_seed=self._prediction_seed,
                )
            except UnsupportedMethodError as error:
                if new:
                    _refuse_new_task(labels[at[0]], known, error)
                raise
            for name, values in said.items():
                shape = (len(labels), *values.shape[1:])
                part = result.setdefault(str(name), np.full(shape, np.nan))
                part[at] = values.to_numpy()
        if is_new.any() and self.new_tasks != "predict":
            warn_user(
                f"{counted(int(is_new.sum()), 'row')} of X name tasks that the fit has not, such as "
                f"{labels[is_new.argmax()]!r}, and are predicted as those of new tasks. Check the names; "
                'new_tasks="predict" says that it is meant.'
            )
        return result

    def _labels(self, rows: Rows, n_rows: int, known: tuple[str, ...]) -> np.ndarray:
        """Name of the task of each row."""
        if not self._task_known:
            if rows.task is not None:
                raise ValueError(
                    "task is given, but the estimator was fitted without tasks. Leave it out, or fit with task."
                )
            return np.full(n_rows, known[0], dtype=object)
        if rows.task is None:
            raise ValueError(
                f"task is missing: the estimator was fitted with {counted(len(known), 'task')}. Pass "
                f"the task of each row as the "
                "argument task (in a grid search or a cross-validation it is routed to the score after "
                "set_score_request(task=True)), or make the estimator with the column of X that holds it."
            )
        return np.array(column_labels(rows.task.to_numpy(dtype=object), known), dtype=object)

    def _checked_factory(self) -> ModelFactory:
        if not isinstance(self.factory, ModelFactory):
            raise TypeError(f"factory is {self.factory!r}. Give a factory, as zoo.HierarchicalLinear().")
        for name, own in _OWN.items():
            if name in (self.options or {}):
                raise ValueError(
                    f"options holds {name!r}, which is the parameter {own!r} of {type(self).__name__}. Give it there."
                )
        if self.factory.likelihood.of_choices:
            raise ValueError(
                f"factory has the likelihood {self.factory.likelihood.word!r}, and {type(self).__name__} cannot say "
                "which rows are alternatives of one choice. Use factory.fit(MultiTaskData.from_frame(..., "
                'choice="column")).'
            )
        responses = self.factory.likelihood.responses
        classes = responses in ("labels", "grades")
        if classes != isinstance(self, ClassifierMixin):
            other = "MultiTaskClassifier" if classes else "MultiTaskRegressor"
            raise ValueError(
                f"factory has the likelihood {self.factory.likelihood.word!r}, which is for "
                f"{responses if classes else 'numbers'}. Use {other}, or another likelihood."
            )
        return self.factory

    def _read_target(self, y: Any) -> np.ndarray:
        """Responses as they came, (n,)."""
        if y is None:
            raise ValueError(
                f"This {type(self).__name__} estimator requires y to be passed, but the target y is None."
            )
        return column_or_1d(read_column(y, "y").values, warn=True)

    def encode(self, target: np.ndarray) -> np.ndarray:
        """Responses as the likelihood reads them."""
        raise NotImplementedError

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = bool(
            isinstance(self.factory, ModelFactory) and self.factory.sparse_inputs and column_of(self) is None
        )
        tags.target_tags.required = True
        return tags


def _read_weight(sample_weight: Any, features: Any) -> tuple[np.ndarray, np.ndarray | None]:
    """Which rows count, (n,) of bool, and their weights; None where they count alike."""
    if sample_weight is None:
        return np.ones(features.shape[0], dtype=bool), None
    weight = _check_sample_weight(read_column(sample_weight, "sample_weight").values, features)
    if (weight < 0.0).any():
        row = int((weight < 0.0).argmax())
        raise ValueError(f"sample_weight is {weight[row]:g} in row {row}. Give weights of 0 or above.")
    keep = weight > 0.0
    if not keep.any():
        raise ValueError("sample_weight is 0 in every row. Give at least one row a weight above 0.")
    # Models that know no weights serve rows that count alike.
    return keep, None if (weight[keep] == 1.0).all() else weight[keep]


def _refuse_new_task(label: Any, known: tuple[str, ...], error: Exception) -> NoReturn:
    raise ValueError(
        f"task {label!r} is not among the {counted(len(known), 'task')} of the fit, and the model "
        f"does not predict new tasks: "
        f"{error}"
    ) from error
