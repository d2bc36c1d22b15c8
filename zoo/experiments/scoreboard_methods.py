"""What the scoreboard compares: models of ours at their defaults, and what people use instead."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from zoo.core.factory import ModelFactory
from zoo.data.multitask import MultiTaskData
from zoo.models.max_margin.matrix_normal import MaxMargin
from zoo.models.niw.hierarchical import HierarchicalLinear
from zoo.models.niw.linear import NIWLinear
from zoo.support.warning_types import ConvergenceWarning

__all__ = ["METHODS", "Said", "say", "tables"]

_ALPHAS = np.logspace(-3, 4, 15)
_MOST_FOLDS = 5


@dataclass(frozen=True)
class Said:
    """What a method says of the test rows.

    Parameters
    ----------
    mean : (n,)
        Expected responses, or probabilities of the positive label.
    lower, upper : (n,), optional
        Intervals that hold nine of ten responses.
    r_hat : float, optional
        The worst one of the fit.
    """

    mean: np.ndarray
    lower: np.ndarray | None = None
    upper: np.ndarray | None = None
    r_hat: float | None = None


def _fitted(factory: ModelFactory, train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """A model of ours, with the default number of draws."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # the table has R-hat
        fit = factory.fit(train.standardize(), random_seed=1, progress=False)
    found = fit.predict(test, random_seed=1)
    r_hat = fit.idata["sample_stats"].attrs.get("convergence_r_hat")
    if labels:
        return Said(found["probability"].to_numpy(), r_hat=r_hat)
    mean, lower, upper = (found[name].to_numpy() for name in ("mean", "lower", "upper"))
    return Said(mean, lower, upper, r_hat)


def _population(train: MultiTaskData, test: MultiTaskData, labels: bool, **fields: Any) -> Said:
    return _fitted(NIWLinear(likelihood=_likelihood(labels), **fields), train, test, labels)


def _half_t(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """The same, with a learned scale for every feature."""
    return _population(train, test, labels, covariance_prior="half_t")


def _hierarchical(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """The linear population whose mean has a prior of its own."""
    return _fitted(HierarchicalLinear(likelihood=_likelihood(labels)), train, test, labels)


def _likelihood(labels: bool) -> str:
    return "logistic" if labels else "gaussian"


def _max_margin(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    factory = MaxMargin(likelihood="logistic") if labels else MaxMargin(likelihood="epsilon_insensitive")
    return _fitted(factory, train, test, labels)


def _boosted(train: MultiTaskData, labels: bool, keep: Sequence[str] | str) -> MultiTaskData:
    """Rows with the predictions of an untuned boosting as a feature, made out of fold, and an intercept."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind: Any = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    constant = [
        n for n, spread in zip(train.feature_names, np.ptp(train.inputs, axis=0), strict=True) if not spread
    ]
    data = train.add_mean(
        kind(random_state=0),
        features=[n for n in train.feature_names if n not in constant],
        keep=keep,
        random_seed=1,
    )
    return data if constant else data.add_intercept()


def _on_a_mean(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Levels of tasks on the predictions of a boosting."""
    return _population(_boosted(train, labels, ()), test, labels)


def _beside_a_mean(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Levels and slopes of tasks beside the predictions of a boosting, with a learned scale for every feature."""
    return _half_t(_boosted(train, labels, "all"), test, labels)


def _hierarchical_beside_a_mean(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """The same by the population whose mean has a prior of its own."""
    return _hierarchical(_boosted(train, labels, "all"), test, labels)


def tables(train: MultiTaskData, test: MultiTaskData) -> tuple[np.ndarray, ...]:
    """Features of both on the scale of the training rows, and codes of their tasks."""
    mean, scale = train.X.mean(axis=0), train.X.std(axis=0)
    scale = np.where(scale > 0.0, scale, 1.0)
    known = {name: i for i, name in enumerate(train.task_names)}
    codes = np.array([known[test.task_names[t]] for t in test.task])
    return (train.X - mean) / scale, train.task, (test.X - mean) / scale, codes


def _linear(labels: bool) -> Any:
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    if labels:
        return LogisticRegressionCV(
            Cs=10, l1_ratios=(0.0,), scoring="neg_log_loss", max_iter=2000, use_legacy_attributes=False
        )
    return RidgeCV(_ALPHAS)


def say(model: Any, X: Any, labels: bool) -> np.ndarray:
    """Probabilities of the positive label, or expected responses, by a fitted model of scikit-learn."""
    return np.asarray(model.predict_proba(X)[:, 1] if labels else model.predict(X))


def _alone(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """A regression of each task, its penalty chosen by cross-validation."""
    X, task, X_test, of_test = tables(train, test)
    mean = np.empty(test.n_rows)
    for t in range(train.n_tasks):
        y, rows = train.y[task == t], of_test == t
        few = min(np.sum(y == v) for v in np.unique(y)) if labels else len(y)
        if not rows.any():
            continue
        if labels and (len(np.unique(y)) < 2 or few < _MOST_FOLDS):
            mean[rows] = (np.sum(y > 0) + 1.0) / (len(y) + 2.0)  # too few of one label for any regression
            continue
        mean[rows] = say(_linear(labels).fit(X[task == t], y), X_test[rows], labels)
    return Said(mean)


def _pooled(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """One regression with a level of each task among its columns, its penalty chosen by cross-validation."""
    X, task, X_test, of_test = tables(train, test)
    levels = np.eye(train.n_tasks)
    model = _linear(labels).fit(np.hstack([X, levels[task]]), train.y)
    return Said(say(model, np.hstack([X_test, levels[of_test]]), labels))


def _boosting(train: MultiTaskData, test: MultiTaskData, labels: bool) -> Said:
    """Gradient boosting with the task as a category (as a number where there are more than 255 tasks)."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    X, task, X_test, of_test = tables(train, test)
    kind: Any = HistGradientBoostingClassifier if labels else HistGradientBoostingRegressor
    model = kind(random_state=0, categorical_features=[X.shape[1]] if train.n_tasks <= 255 else None)
    model.fit(np.column_stack([X, task]), train.y)
    return Said(say(model, np.column_stack([X_test, of_test]), labels))


METHODS: dict[str, Callable[[MultiTaskData, MultiTaskData, bool], Said]] = {
    "NIWLinear": _population,
    "NIWLinear, half-t": _half_t,
    "HierarchicalLinear": _hierarchical,
    "MaxMargin": _max_margin,
    "NIWLinear on a boosted mean": _on_a_mean,
    "NIWLinear, half-t, with a boosted mean": _beside_a_mean,
    "HierarchicalLinear with a boosted mean": _hierarchical_beside_a_mean,
    "ridge or logistic, tasks alone": _alone,
    "ridge or logistic, task levels": _pooled,
    "boosting, task as category": _boosting,
}
