"""Scores of predictions on held-out rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr

from zoo.columns import require_same_rows
from zoo.data import MultiTaskData
from zoo.frames import read_column
from zoo.predictive_law import has_normal_noise, response_law

if TYPE_CHECKING:
    from zoo.fit import Fit

__all__ = [
    "ExplainedVariance",
    "LabelScores",
    "compare",
    "explained_variance",
    "f1_scores",
    "log_loss",
    "negative_log_predictive_density",
]

# A probability of 0 for what happened would make the log loss infinite: it is held this far from 0 and 1.
_SMALLEST_PROBABILITY = 1e-12


class ExplainedVariance(NamedTuple):
    """Fractions of variance explained; 1 is perfect, 0 no better than the mean, below 0 worse."""

    pooled: float
    per_task: float


class LabelScores(NamedTuple):
    """Scores of predicted labels."""

    accuracy: float
    micro_f1: float
    macro_f1: float


def explained_variance(y: Any, mean: Any, task: Any = None) -> ExplainedVariance:
    """Explained variance of predicted means, over all rows together and averaged over tasks.

    Parameters
    ----------
    y, mean : (N,) array_like of float
        Observed responses and their predicted means.
    task : (N,) array_like, optional
        Task of each row; left out, all rows are one task.

    Returns
    -------
    ExplainedVariance
        ``pooled``: 1 - sum (y - mean)^2 / sum (y - average y)^2 over all rows. ``per_task``: the same inside
        each task, with the task's own average, averaged over the tasks whose y varies; NaN where none does.
    """
    y_, mean_, task_ = _columns(y=y, mean=mean, task=np.zeros(len(y)) if task is None else task)
    _require_finite(y=y_, mean=mean_)
    if np.ptp(y_) == 0.0:
        raise ValueError("y is constant. There is no variance to explain: check the response.")
    parts = pd.DataFrame({"error": (y_ - mean_) ** 2, "y": y_, "task": task_})
    groups = parts.groupby("task", sort=False)
    varies = groups["y"].max() > groups["y"].min()
    spread = (parts["y"] - groups["y"].transform("mean")) ** 2
    total = spread.groupby(parts["task"], sort=False).sum()
    within = 1.0 - (groups["error"].sum() / total.where(varies))
    pooled = 1.0 - float(parts["error"].sum()) / float(((y_ - y_.mean()) ** 2).sum())
    return ExplainedVariance(pooled, float(within[varies].mean()))


def f1_scores(label: Any, predicted: Any, task: Any = None) -> LabelScores:
    """Accuracy, micro F1 and macro F1 of predicted labels.

    Parameters
    ----------
    label, predicted : (N,) array_like
        Labels -1/+1, 0/1 or bool; what is above 0 is positive.
    task : (N,) array_like, optional
        Task of each row; left out, all rows are one task.

    Returns
    -------
    LabelScores
        ``micro_f1``: 2 TP / (2 TP + FP + FN) with counts over all rows. ``macro_f1``: the same inside each task,
        averaged over tasks; a task without positive labels and positive predictions counts 0, as elsewhere.
    """
    label_, predicted_, task_ = _columns(
        label=label, predicted=predicted, task=np.zeros(len(label)) if task is None else task
    )
    truth, guess = label_ > 0, predicted_ > 0
    counts = pd.DataFrame({"hit": truth & guess, "wrong": truth != guess}).groupby(task_).sum()
    by_task = [_f1(hit, wrong) for hit, wrong in counts.to_numpy(dtype=float)]
    micro = _f1(*counts.sum().to_numpy(dtype=float))
    return LabelScores(float(np.mean(truth == guess)), micro, float(np.mean(by_task)))


def _f1(hit: float, wrong: float) -> float:
    """F1 from the true positives and the errors of both kinds."""
    return 2.0 * hit / (2.0 * hit + wrong) if hit else 0.0


def log_loss(label: Any, probability: Any) -> float:
    """Mean of -log(probability given to the label that came), probabilities held off 0 and 1 by 1e-12.

    Parameters
    ----------
    label : (N,) array_like
        Labels -1/+1, 0/1 or bool; what is above 0 is positive.
    probability : (N,) array_like of float
        Probability of the positive class.
    """
    label_, probability_ = _columns(label=label, probability=probability)
    _require_finite(probability=probability_)
    came = np.where(label_ > 0, probability_, 1.0 - probability_)
    return float(-np.log(np.clip(came, _SMALLEST_PROBABILITY, 1.0 - _SMALLEST_PROBABILITY)).mean())


def negative_log_predictive_density(fit: Fit, test: MultiTaskData, random_seed: Any = None) -> float:
    r"""Mean over rows of minus the log predictive density of the observed responses (NLPD; lower is better).

    .. math::

        -\frac{1}{N} \sum_n \log \frac{1}{S} \sum_s N(y_n; m_n^{(s)}, v_n^{(s)} + (\sigma_{t(n)}^{(s)})^2)

    with mean and variance of the function given each posterior draw, in closed form
    (:mod:`zoo.predictive_law`): the variance is 0 where the function follows from the draw, and an estimate has one
    normal law for each row. The unit is nats per row, of a density on the user's scale: it rises by log c where the
    response is multiplied by c.

    Parameters
    ----------
    fit : Fit
        Of a model with normal noise: its observation says so (:meth:`zoo.likelihoods.base.Likelihood.normal_sd`).
    test : MultiTaskData
        Rows of known tasks, on the user's scale or standardized.
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
    if fit.factory.observation.labels:
        raise ValueError("fit is of a model of labels. Use log_loss.")
    if not has_normal_noise(fit):
        raise ValueError(
            f"fit is of {type(fit.factory).__name__} with {type(fit.factory.observation).__name__} responses, whose "
            "density is not Gaussian with the model's noise. Use compute_log_likelihood or compare."
        )
    rows, posterior, rng = fit._prepare(test, None, None, False, random_seed)
    law = response_law(fit, rows, posterior, rng)
    assert law is not None
    return float(-law.log_density(test.original_y()).mean())


def compare(
    fits: dict[str, Fit], test: MultiTaskData, ci_prob: float = 0.9, random_seed: Any = None
) -> pd.DataFrame:
    """Scores of several fits on the same held-out rows.

    Parameters
    ----------
    fits : dict of str to Fit
        All for real responses, or all for labels.
    test : MultiTaskData
        Rows of known tasks, on the user's scale.
    ci_prob : float
        Probability of the central predictive interval whose coverage is reported.
    random_seed : int, optional
        For the predictive draws; the same for every fit.

    Returns
    -------
    pandas.DataFrame
        One row a fit. Real responses: explained variance in percent (pooled, and averaged over tasks), RMSE,
        MAE, coverage of the interval in percent. Labels: accuracy, micro and macro F1 in percent, mean log loss.
    """
    if not fits:
        raise ValueError("fits is empty. Give at least one fit by name.")
    kinds = {fit.factory.observation.labels for fit in fits.values()}
    if len(kinds) > 1:
        raise ValueError("fits mix models of labels and of real responses. Compare one kind at a time.")
    score = _label_scores if kinds.pop() else _real_scores
    rows = {
        name: score(test, fit.predict(test, ci_prob=ci_prob, random_seed=random_seed))
        for name, fit in fits.items()
    }
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("model")


def _real_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    y, mean = test.original_y(), predicted["mean"].to_numpy()
    explained = explained_variance(y, mean, test.task)
    inside = (y >= predicted["lower"].to_numpy()) & (y <= predicted["upper"].to_numpy())
    return {
        "explained variance %": 100.0 * explained.pooled,
        "per task %": 100.0 * explained.per_task,
        "RMSE": float(np.sqrt(np.mean((y - mean) ** 2))),
        "MAE": float(np.mean(np.abs(y - mean))),
        f"{100 * predicted.attrs['ci_prob']:g}% interval covers %": 100.0 * float(inside.mean()),
    }


def _label_scores(test: MultiTaskData, predicted: xr.Dataset) -> dict[str, float]:
    scores = f1_scores(test.y, predicted["label"].to_numpy(), test.task)
    return {
        "accuracy %": 100.0 * scores.accuracy,
        "micro F1 %": 100.0 * scores.micro_f1,
        "macro F1 %": 100.0 * scores.macro_f1,
        "log loss": log_loss(test.y, predicted["probability"].to_numpy()),
    }


def _columns(**values: Any) -> list[np.ndarray]:
    """The arguments as 1-D arrays of one length."""
    columns = {name: read_column(value, name) for name, value in values.items()}
    require_same_rows(**columns)
    arrays = {name: np.asarray(column.values) for name, column in columns.items()}
    first, n_rows = next((name, len(a)) for name, a in arrays.items())
    for name, array in arrays.items():
        if array.ndim != 1 or len(array) != n_rows:
            raise ValueError(
                f"{name} has shape {array.shape}, but {first} has {n_rows} rows. Give one value a row."
            )
    if n_rows == 0:
        raise ValueError(f"{first} is empty. Give at least one row.")
    return list(arrays.values())


def _require_finite(**values: np.ndarray) -> None:
    for name, array in values.items():
        if not np.isfinite(array).all():
            row = int(np.flatnonzero(~np.isfinite(array))[0])
            raise ValueError(f"{name} is {array[row]} in row {row}. Scores need finite values.")
