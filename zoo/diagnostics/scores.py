"""Scores of predictions on held-out rows."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from zoo.core.predictive_law import has_normal_noise, response_law
from zoo.data.columns import require_same_rows, weights
from zoo.data.multitask import MultiTaskData
from zoo.data.new_rows import require_test_data
from zoo.diagnostics.choice_scores import choice_scores
from zoo.diagnostics.grade_scores import (
    SMALLEST_PROBABILITY,
    grade_scores,
    kind_of_scores,
    require_same_grades,
)
from zoo.support.frames import read_column
from zoo.support.words import counted

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = [
    "LOWER_IS_BETTER",
    "ExplainedVariance",
    "LabelScores",
    "compare",
    "explained_variance",
    "f1_scores",
    "log_loss",
    "negative_log_predictive_density",
]

# Columns of `compare` that are better when lower, the one that says most first.
LOWER_IS_BETTER = ("RMSE", "log loss", "MAE", "RPS")


class ExplainedVariance(NamedTuple):
    """Fractions of variance explained; 1 is perfect, 0 no better than the mean, below 0 worse."""

    pooled: float
    per_task: float


class LabelScores(NamedTuple):
    """Scores of predicted labels."""

    accuracy: float
    micro_f1: float
    macro_f1: float


def explained_variance(y: Any, mean: Any, task: Any = None, weight: Any = None) -> ExplainedVariance:
    """Explained variance of predicted means, over all rows together and averaged over tasks.

    Parameters
    ----------
    y, mean : (N,) array_like of float
        Observed responses and their predicted means.
    task : (N,) array_like, optional
        Task of each row; left out, all rows are one task.
    weight : (N,) array_like of float, optional
        Weight of each row, above 0: a row of weight 2 counts as two rows alike.

    Returns
    -------
    ExplainedVariance
        ``pooled``: 1 - sum (y - mean)^2 / sum (y - average y)^2 over all rows. ``per_task``: the same inside
        each task, with the task's own average, averaged over the tasks whose y varies; NaN where none does.
    """
    y_, mean_, task_, weight_ = _columns(y=y, mean=mean, task=task, weight=weight)
    _require_finite(y=y_, mean=mean_)
    if np.ptp(y_) == 0.0:
        raise ValueError("y is constant. There is no variance to explain: check the response.")
    parts = pd.DataFrame(
        {"error": weight_ * (y_ - mean_) ** 2, "y": y_, "wy": weight_ * y_, "w": weight_, "task": task_}
    )
    groups = parts.groupby("task", sort=False)
    varies = groups["y"].max() > groups["y"].min()
    centre = groups["wy"].transform("sum") / groups["w"].transform("sum")
    total = (weight_ * (parts["y"] - centre) ** 2).groupby(parts["task"], sort=False).sum()
    within = 1.0 - (groups["error"].sum() / total.where(varies))
    average = float(parts["wy"].sum()) / float(weight_.sum())
    pooled = 1.0 - float(parts["error"].sum()) / float((weight_ * (y_ - average) ** 2).sum())
    return ExplainedVariance(pooled, float(within[varies].mean()))


def f1_scores(label: Any, predicted: Any, task: Any = None, weight: Any = None) -> LabelScores:
    """Accuracy, micro F1 and macro F1 of predicted labels.

    Parameters
    ----------
    label, predicted : (N,) array_like
        Labels -1/+1, 0/1 or bool, each in a coding of its own. Probabilities and values of f are refused: compare
        them with their threshold first.
    task : (N,) array_like, optional
        Task of each row; left out, all rows are one task.
    weight : (N,) array_like of float, optional
        Weight of each row, above 0: a row of weight 2 counts as two rows alike.

    Returns
    -------
    LabelScores
        ``micro_f1``: 2 TP / (2 TP + FP + FN) with counts over all rows. ``macro_f1``: the same inside each task,
        averaged over tasks; a task without positive labels and positive predictions counts 0, as elsewhere.
    """
    label_, predicted_, task_, weight_ = _columns(label=label, predicted=predicted, task=task, weight=weight)
    truth, guess = _positive(label_, "label"), _positive(predicted_, "predicted")
    found = {"hit": weight_ * (truth & guess), "wrong": weight_ * (truth != guess)}
    counts = pd.DataFrame(found).groupby(task_).sum()
    by_task = [_f1(hit, wrong) for hit, wrong in counts.to_numpy(dtype=float)]
    micro = _f1(*counts.sum().to_numpy(dtype=float))
    return LabelScores(_average(truth == guess, weight_), micro, float(np.mean(by_task)))


def _f1(hit: float, wrong: float) -> float:
    """F1 from the true positives and the errors of both kinds."""
    return float(2.0 * hit / (2.0 * hit + wrong)) if hit else 0.0


def log_loss(label: Any, probability: Any, weight: Any = None) -> float:
    """Mean of -log(probability given to the label that came), probabilities held off 0 and 1 by 1e-12.

    Parameters
    ----------
    label : (N,) array_like
        Labels -1/+1, 0/1 or bool.
    probability : (N,) array_like of float
        Probability of the positive class, from 0 to 1.
    weight : (N,) array_like of float, optional
        Weight of each row, above 0: a row of weight 2 counts as two rows alike.
    """
    label_, probability_, weight_ = _columns(label=label, probability=probability, weight=weight)
    _require_finite(probability=probability_)
    # Rounding of a sum of probabilities may leave the interval by a little.
    outside = np.flatnonzero((probability_ < -1e-9) | (probability_ > 1.0 + 1e-9))
    if len(outside):
        row = int(outside[0])
        raise ValueError(
            f"probability is {probability_[row]:g} in row {row}. Give probabilities of the positive class, from 0 to 1."
        )
    came = np.where(_positive(label_, "label"), probability_, 1.0 - probability_)
    return -_average(np.log(np.clip(came, SMALLEST_PROBABILITY, 1.0 - SMALLEST_PROBABILITY)), weight_)


def negative_log_predictive_density(fit: Fit, test: MultiTaskData, random_seed: Any = None) -> float:
    r"""Mean over rows of minus the log predictive density of the observed responses (NLPD; lower is better).

    .. math::

        -\frac{1}{N} \sum_n \log \frac{1}{S} \sum_s N(y_n; m_n^{(s)}, v_n^{(s)} + (\sigma_{t(n)}^{(s)})^2)

    with mean and variance of the function given each posterior draw, in closed form
    (:mod:`zoo.core.predictive_law`): the variance is 0 where the function follows from the draw, and an
    estimate has one normal law for each row. The unit is nats per row, of a density on the user's scale: it
    rises by log c where the response is multiplied by c.

    Parameters
    ----------
    fit : Fit
        Of a model with normal noise: its likelihood says so (:meth:`zoo.likelihoods.base.Likelihood.normal_sd`).
    test : MultiTaskData
        Rows of known tasks, on the user's scale or standardized. Their weights weigh the average.
    random_seed : int, optional
        For draws of functions, where their law given the posterior's draws has no closed form.

    Returns
    -------
    float

    Raises
    ------
    ValueError
        The model has labels, another noise, or a likelihood of its own; or a task of ``test`` is not among its tasks.
    """
    require_test_data(test)
    if fit.factory.likelihood.labels:
        raise ValueError("fit is of a model of labels. Use log_loss.")
    if fit.factory.likelihood.responses == "grades":
        raise ValueError("fit is of a model of grades, which have probabilities and no density. Use compare.")
    if not has_normal_noise(fit):
        raise ValueError(
            f"fit is of {type(fit.factory).__name__} with {type(fit.factory.likelihood).__name__} responses, whose "
            "density is not Gaussian with the model's noise. Use compute_log_likelihood or compare."
        )
    rows, posterior, rng = fit.rows_to_predict(test, None, None, False, random_seed)
    law = response_law(fit, rows, posterior, rng)
    assert law is not None
    return -_average(law.log_density(test.original_y()), _weight_of(test))


def compare(
    fits: dict[str, Fit],
    test: MultiTaskData,
    ci_prob: float = 0.9,
    random_seed: Any = None,
    new_task: bool = False,
) -> pd.DataFrame:
    """Scores of several fits on the same held-out rows.

    Parameters
    ----------
    fits : dict of str to Fit
        All for real responses, all for labels, all for grades, or all for choices.
    test : MultiTaskData
        Rows of known tasks, on the user's scale or standardized. Where they have weights, all scores are weighted: a
        row of weight 2 counts as two rows alike.
    ci_prob : float
        Probability of the central predictive interval whose coverage is reported.
    random_seed : int, optional
        For the predictive draws; the same for every fit.
    new_task : bool
        Whether the rows are of tasks that no fit has seen, as in :meth:`Fit.predict`.

    Returns
    -------
    pandas.DataFrame
        One row per fit. Real responses: explained variance in percent (pooled, and averaged over tasks, of which each
        counts alike and is measured against its own mean: negative where that mean predicts better), RMSE, MAE,
        coverage of the interval in percent. Labels: accuracy, micro and macro F1 in percent, mean log loss.
        Grades: see :func:`zoo.diagnostics.grade_scores.grade_scores`; choices:
        :func:`zoo.diagnostics.choice_scores.choice_scores`.

    Raises
    ------
    TypeError
        ``fits`` names no fits, or ``test`` is no MultiTaskData.
    ValueError
        ``fits`` is empty or mixes kinds of responses, or ``test`` does not fit them.
    """
    if not isinstance(fits, Mapping):
        raise TypeError(
            f"fits is a {type(fits).__name__}. Give the fits by name, for instance {{'mine': fit, 'other': other}}."
        )
    require_test_data(test)
    if not fits:
        raise ValueError("fits is empty. Give at least one fit by name.")
    kinds = {kind_of_scores(fit.factory.likelihood) for fit in fits.values()}
    if len(kinds) > 1:
        raise ValueError(f"fits mix models of {' and of '.join(sorted(kinds))}. Compare one kind at a time.")
    kind = kinds.pop()
    if kind == "grades":
        for name, fit in fits.items():
            require_same_grades(test, fit, name)
    score = {
        "choices": choice_scores,
        "labels": _label_scores,
        "grades": grade_scores,
        "real responses": _real_scores,
    }[kind]
    rows = {
        name: score(test, fit.predict(test, new_task=new_task, ci_prob=ci_prob, random_seed=random_seed))
        for name, fit in fits.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def _real_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    y, mean, weight = test.original_y(), predicted["mean"].to_numpy(), _weight_of(test)
    explained = explained_variance(y, mean, test.task, weight)
    inside = (y >= predicted["lower"].to_numpy()) & (y <= predicted["upper"].to_numpy())
    return {
        "explained variance %": 100.0 * explained.pooled,
        "per task %": 100.0 * explained.per_task,
        "RMSE": float(np.sqrt(_average((y - mean) ** 2, weight))),
        "MAE": _average(np.abs(y - mean), weight),
        f"{100 * predicted.attrs['ci_prob']:g}% interval covers %": 100.0 * _average(inside, weight),
    }


def _label_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    weight = _weight_of(test)
    scores = f1_scores(test.y, predicted["label"].to_numpy(), test.task, weight)
    return {
        "accuracy %": 100.0 * scores.accuracy,
        "micro F1 %": 100.0 * scores.micro_f1,
        "macro F1 %": 100.0 * scores.macro_f1,
        "log loss": log_loss(test.y, predicted["probability"].to_numpy(), weight),
    }


def _weight_of(test: MultiTaskData) -> np.ndarray:
    return np.ones(test.n_rows) if test.weight is None else test.weight


def _average(values: np.ndarray, weight: np.ndarray) -> float:
    return float((weight * values).sum() / weight.sum())


def _positive(labels: np.ndarray, argument: str) -> np.ndarray:
    """Whether each label is the positive one; raises on what is no label, which would count as one of the two."""
    values = np.array(
        [v if isinstance(v, bool | int | float | np.bool_ | np.number) else np.nan for v in labels]
    )
    values = values.astype(np.float64)
    bad = ~np.isin(values, (-1.0, 1.0) if np.any(values == -1.0) else (0.0, 1.0))
    if bad.any():
        row = int(np.flatnonzero(bad)[0])
        raise ValueError(
            f"{argument} is {labels[row]} in row {row}, and labels are -1/+1, 0/1 or bool. "
            "Code the classes so; compare a probability or a value of f with its threshold."
        )
    return values > 0.0


def _columns(**values: Any) -> list[np.ndarray]:
    """The arguments as 1-D arrays of one length; ``task`` and ``weight`` may be None: one task, weights of 1."""
    columns = {name: read_column(value, name) for name, value in values.items() if value is not None}
    require_same_rows(**columns)
    arrays = {name: np.asarray(column.values) for name, column in columns.items()}
    first, n_rows = next((name, len(a)) for name, a in arrays.items())
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) != n_rows:
            raise ValueError(
                f"{name} has shape {array.shape}, but {first} has {counted(n_rows, 'row')}. Give one value per row."
            )
    if n_rows == 0:
        raise ValueError(f"{first} is empty. Give at least one row.")
    if "task" in arrays and (missing := pd.isna(arrays["task"])).any():
        row = int(np.flatnonzero(missing)[0])
        raise ValueError(f"task is missing in row {row}. Name the task of every row.")
    if "weight" in arrays:
        arrays["weight"] = weights(arrays["weight"], n_rows)
    defaults = {"task": np.zeros(n_rows), "weight": np.ones(n_rows)}
    return [arrays[name] if name in arrays else defaults[name] for name in values]


def _require_finite(**values: np.ndarray) -> None:
    for name, array in values.items():
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"{name} is {array[row]} in row {row}. Scores need finite values.")
