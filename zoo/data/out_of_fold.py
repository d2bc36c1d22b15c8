r"""The predictions of a regressor or classifier of scikit-learn as one more feature, out of fold.

.. math:: f_n = x_n' w_{t(n)} + \dots, \qquad x_n = (1, m_{-k(n)}(z_n))

where :math:`m_{-k}` was fitted without the rows of fold k. A flexible mean :math:`m` finds what is nonlinear and common
to all tasks, and the model what is particular to each of them, with intervals. A prediction for a row that
:math:`m` was fitted to would be better than one for a new row, and the model would trust it too
much: so each row gets that of a copy that has not seen it. The noise that the model then learns is that of such
predictions. Rows to predict get those of a copy that was fitted to all rows.

Where levels of tasks differ much, they are noise to an estimator that does not know the tasks, or it explains them by
whatever tells tasks apart. So, unless ``levels`` is False, a regressor is fitted to :math:`y_n - b_{t(n)}` instead,
where b are the levels that a first estimator left (one round of mixed-effects trees, Hajjem, Bellavance & Larocque
2014). The response of a row must not reach its own prediction by way of them. So the levels for the copy without fold k
come from residuals :math:`y_n - m_{-k,-j}(z_n)` of the rows of each other fold j, by a first estimator that has seen
neither fold: with K folds, K (K - 1) / 2 such fits, and 2 K + 1 others.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from zoo.data.columns import listed
from zoo.data.further_groups import dense_columns
from zoo.data.learned_mean import LearnedMean, predicted
from zoo.data.rows import TaskRows
from zoo.data.within_tasks import range_within_tasks
from zoo.support.checks import is_sparse, one_of, whole_number

__all__ = ["columns_of_mean", "described_mean", "out_of_fold", "task_levels"]

# Rows whose predictions are kept with a fit, so that a file knows the estimator again.
_PROBES = 5
# Ratios of the variance of levels to that of noise are searched for between the exponentials of these.
_LOG_RATIOS = (-12.0, 12.0)


def columns_of_mean(
    data: TaskRows, features: Sequence[str] | str | None, keep: Sequence[str] | str
) -> tuple[list[str], list[str]]:
    """Names of the features that the estimator sees, and of those that stay beside it.

    The column that ``from_frame`` coded, ``city``, stands for its features ``city[Oslo]`` and so on.
    """

    def known(given: Sequence[str] | str, argument: str) -> list[str]:
        found: list[str] = []
        for feature in listed(given, argument):
            parts = [name for name in data.feature_names if name.startswith(f"{feature}[")]
            parts = [] if feature in data.feature_names else parts
            if not parts:
                one_of(feature, data.feature_names, argument)
            found += parts or [feature]
        return found

    seen = data.features_to_explain() if features is None else known(features, "features")
    if not seen:
        raise ValueError("there is no feature for the estimator to see. Name some in features.")
    return seen, seen if isinstance(keep, str) and keep == "all" else known(keep, "keep")


def described_mean(
    data: TaskRows, name: str, seen: list[str], fitted: Any, described: str, whole_tasks: bool
) -> LearnedMean:
    """The fitted estimator with what predictions and files need to know of it."""
    X = dense_columns(data.inputs[data.row], [data.feature_names.index(feature) for feature in seen])
    several = np.bincount(data.task, minlength=data.n_tasks) > 1  # of one row nothing is known
    within = range_within_tasks(X, data.task, data.n_tasks)[several]
    still = np.all(within == 0.0, axis=0) & (np.ptp(X, axis=0) > 0.0) & several.any()
    rows = X[np.linspace(0, len(X) - 1, min(_PROBES, len(X))).astype(np.int64)]
    probe = tuple(
        (tuple(map(float, row)), float(value))
        for row, value in zip(rows, predicted(fitted, rows), strict=True)
    )
    return LearnedMean(
        name,
        data.feature_names,
        tuple(seen),
        fitted,
        described,
        whole_tasks,
        tuple(np.array(seen)[still].tolist()),
        probe,
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
    choice: np.ndarray | None = None,
    levels: bool | None = None,
) -> tuple[np.ndarray, Any]:
    """Predictions (N,) for each row by a copy that was fitted without its fold, and a copy fitted to all rows.

    The rows of each task are dealt to the folds at random; or, with ``whole_tasks``, the tasks are. Where tasks share
    inputs, ``shared_input`` (N,) says which one each row has, and the inputs are dealt: a copy that has seen an input
    with the label of another task has seen the row. Alternatives of one ``choice`` (N,) go together likewise.

    Raises
    ------
    TypeError
        ``estimator`` is none of scikit-learn's kind.
    ValueError
        There are fewer rows, or tasks, than folds; ``levels`` of a classifier, of choices, or with two folds; or
        predictions that are not finite.
    """
    _require_estimator(estimator, X, y, weight)
    folds = whole_number(folds, "folds", 3 if levels else 2)
    no_levels = hasattr(estimator, "predict_proba") or choice is not None
    if levels and no_levels:
        raise ValueError(
            "levels is True, and levels of tasks can be taken off real responses alone, not off labels or choices. "
            "Leave levels out, or give a regressor of real responses."
        )
    if levels is None:
        levels = not no_levels and folds > 2 and len(np.unique(y[:1000])) > 2
    fold = _deal(task, folds, whole_tasks, rng, shared_input, choice)

    def fitted(rows: np.ndarray, target: np.ndarray) -> Any:
        return _fitted(estimator, X[rows], target[rows], None if weight is None else weight[rows])

    target = _without_levels(fitted, X, y, task, weight, fold) if levels else lambda k: y
    values = np.empty(len(y))
    for k in np.unique(fold):
        out = fold == k
        values[out] = predicted(fitted(~out, target(k)), X[out])
    if not np.isfinite(values).all():
        raise ValueError(
            f"{estimator!r} predicted what is not finite for row {int(np.flatnonzero(~np.isfinite(values))[0])}. "
            "Choose another estimator."
        )
    return values, fitted(np.ones(len(y), dtype=bool), target(None))


def _without_levels(
    fitted: Callable[[np.ndarray, np.ndarray], Any],
    X: np.ndarray,
    y: np.ndarray,
    task: np.ndarray,
    weight: np.ndarray | None,
    fold: np.ndarray,
) -> Callable[[int | None], np.ndarray]:
    """Responses less the levels of tasks: of the rows outside of fold k as these alone have them; of all rows, None."""
    K = int(fold.max()) + 1
    residual = np.zeros(
        (K + 1, len(y))
    )  # of rows by an estimator that has seen neither their fold nor fold k
    for k in range(K):
        out = fold == k
        residual[K, out] = y[out] - predicted(fitted(~out, y), X[out])
        for j in range(k):
            other = fold == j
            first = fitted(~(out | other), y)
            residual[j, out] = y[out] - predicted(first, X[out])
            residual[k, other] = y[other] - predicted(first, X[other])

    def target(k: int | None) -> np.ndarray:
        kept = np.ones(len(y), dtype=bool) if k is None else fold != k
        part = None if weight is None else weight[kept]
        result = np.full(len(y), np.nan)
        result[kept] = (
            y[kept] - task_levels(residual[K if k is None else k, kept], task[kept], part)[task[kept]]
        )
        return result

    return target


def task_levels(residual: np.ndarray, task: np.ndarray, weight: np.ndarray | None = None) -> np.ndarray:
    r"""Levels b (T,) of tasks among residuals, shrunken to 0 as far as the residuals say.

    For :math:`r_n = \mu + b_{t(n)} + e_n` with :math:`b_t \sim N(0, \rho s^2)` and :math:`e_n \sim N(0, s^2 / w_n)`,
    let :math:`W_t` be the sum of weights of a task and :math:`\bar r_t` its weighted mean. The likelihood at
    its largest :math:`\mu` and :math:`s^2` depends on

    .. math::

        N \log s^2(\rho) + \sum_t \log(1 + \rho W_t), \qquad
        N s^2(\rho) = \sum_n w_n (r_n - \bar r_{t(n)})^2 + \sum_t \frac{W_t (\bar r_t - \mu)^2}{1 + \rho W_t},

    which is minimised over :math:`\rho`; then :math:`b_t = \rho W_t (\bar r_t - \mu) / (1 + \rho W_t)`.
    """
    from scipy.optimize import minimize_scalar  # not where data are made: importing it takes long

    w = np.ones(len(residual)) if weight is None else weight
    size = int(task.max()) + 1
    total = np.bincount(task, w, size)
    mean = np.bincount(task, w * residual, size) / np.where(total > 0.0, total, 1.0)
    within = float(np.sum(w * (residual - mean[task]) ** 2))

    def level_and_spread(ratio: float) -> tuple[float, float]:
        precision = total / (1.0 + ratio * total)
        centre = float(precision @ mean / precision.sum())
        return centre, within + float(precision @ (mean - centre) ** 2)

    def deviance(log_ratio: float) -> float:
        ratio = np.exp(log_ratio)
        spread = level_and_spread(ratio)[1]
        return float(len(residual) * np.log(max(spread, 1e-300)) + np.log1p(ratio * total).sum())

    ratio = float(np.exp(minimize_scalar(deviance, bounds=_LOG_RATIOS, method="bounded").x))
    centre = level_and_spread(ratio)[0]
    return np.asarray(ratio * total * (mean - centre) / (1.0 + ratio * total))


def _deal(
    task: np.ndarray,
    folds: int,
    whole_tasks: bool,
    rng: np.random.Generator,
    shared_input: np.ndarray | None,
    choice: np.ndarray | None,
) -> np.ndarray:
    """The fold of each row (N,)."""
    if whole_tasks and shared_input is not None:
        raise ValueError(
            "whole_tasks is True, and the tasks share their inputs: every copy would have seen the rows of the tasks "
            "that are held out. Leave whole_tasks out."
        )
    together, what = (task, "tasks") if whole_tasks else (shared_input, "inputs")
    if together is None:
        together, what = choice, "choices"
    if together is not None:
        unit = np.unique(together, return_inverse=True)[1]
        _require_enough(int(unit.max()) + 1, folds, what)
        return np.asarray((rng.permutation(int(unit.max()) + 1) % folds)[unit])
    _require_enough(len(task), folds, "rows")
    # Shuffled, then in the order of tasks: the rows of each task go round the folds.
    fold = np.empty(len(task), dtype=np.int64)
    order = rng.permutation(len(task))
    fold[order[np.argsort(task[order], kind="stable")]] = np.arange(len(task)) % folds
    return fold


def _require_enough(size: int, folds: int, what: str) -> None:
    if size < folds:
        raise ValueError(f"folds is {folds}, and the data have {size} {what}. Take fewer folds.")


def _require_estimator(estimator: Any, X: np.ndarray, y: np.ndarray, weight: np.ndarray | None) -> None:
    """Raise unless the estimator is of scikit-learn's kind, and takes these features, and weights if there are."""
    if is_sparse(X):
        raise ValueError(
            "X is sparse, and a learned mean sees dense columns. Make the data from X.toarray()."
        )
    if isinstance(estimator, type) or not (hasattr(estimator, "fit") and hasattr(estimator, "predict")):
        raise TypeError(
            f"estimator is {estimator!r}. Give a regressor or classifier of scikit-learn, "
            "such as HistGradientBoostingRegressor()."
        )
    from sklearn.base import is_classifier, is_clusterer, is_outlier_detector
    from sklearn.utils.validation import has_fit_parameter

    if is_clusterer(estimator) or is_outlier_detector(estimator):
        raise TypeError(
            f"estimator is {estimator!r}, which predicts no response. Give a regressor or classifier."
        )
    if is_classifier(estimator) and not hasattr(estimator, "predict_proba"):
        raise TypeError(
            f"estimator is {estimator!r}, which has no probabilities, and the feature is their log odds. Give a "
            "classifier with predict_proba; of support vectors, CalibratedClassifierCV(LinearSVC()) is one."
        )
    if is_classifier(estimator) and len(np.unique(y[:1000])) > 100:
        raise ValueError(
            f"estimator is {estimator!r}, a classifier, and y holds real numbers. Give a regressor."
        )
    if weight is None:
        return

    if not has_fit_parameter(estimator, "sample_weight"):
        raise ValueError(
            f"the rows have weights, and the estimator {estimator!r} takes none in fit. Choose one whose fit has "
            "sample_weight, such as HistGradientBoostingRegressor()."
        )


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
