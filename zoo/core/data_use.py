"""What data name and a model makes nothing of: refused or warned of, and never left out without a word."""

from __future__ import annotations

import numpy as np

from zoo.core.protocols import Model
from zoo.data.formula import FormulaDesign
from zoo.data.multitask import MultiTaskData
from zoo.data.within_tasks import range_within_tasks
from zoo.support.warning_types import warn_user
from zoo.support.words import first_names

__all__ = ["require_data_used", "warn_of_steady_slopes", "warn_of_unused_t"]

# Hooks that may use what the data hold.
_HOOKS = ("design", "priors", "latent", "shared_part", "observe")
# Share of rows whose nearest row in t is of their own task, above which t tells tasks apart; rows that are looked at.
_TOLD, _MOST_ROWS, _MOST_ASKED = 0.8, 20_000, 2_000
# Share of the tasks with several rows in which a steady feature does not vary, and what rounding makes of 0.
_NEARLY_ALL, _ROUNDING = 0.95, 1e-9


def require_data_used(model: Model, data: MultiTaskData, says: bool = False) -> None:
    """Raise where a model of tasks has data whose tasks were forgotten, or another model has tasks that it ignores.

    Where t tells the tasks apart, as places tell postal codes, a model of t knows the tasks by it. Tasks that came
    from no named column are ignored all the same; then a line is printed, where ``says`` is True.

    Raises
    ------
    ValueError
        Names the column, and says what to do.
    """
    name = type(model).__name__
    if model.shares_tasks and data.task_left_out:
        raise ValueError(
            f"the data have one task, because task was left out, and {name} learns what tasks have in common. Name the "
            "column of the tasks: task=... of MultiTaskData.from_frame or from_arrays, or --task of `zoo fit`. If all "
            'rows are of one task, say so by task=None, or --task "".'
        )
    if not model.advice_for_tasks or data.n_tasks < 2 or _has_own_hooks(model):
        return
    if data.t is not None and _tells_tasks(data.t, data.task):
        return
    advice = model.advice_for_tasks.replace("{column}", repr(data.task_column or "task"))
    if data.task_column is not None:
        raise ValueError(
            f"task is {data.task_column!r}, a column of {data.n_tasks} tasks, and {name} would predict all of them "
            f"alike, for it makes nothing of tasks. {advice} Or leave task out, and let features say "
            "how the tasks differ."
        )
    if says:
        print(f"The data have {data.n_tasks} tasks, of which {name} makes nothing. {advice}")


def warn_of_unused_t(model: Model, data: MultiTaskData) -> None:
    """Warn where the data have a continuous task variable, and the model is no model of it."""
    if data.t is None or not model.shares_tasks or model.needs_t or _has_own_hooks(model):
        return
    warn_user(
        f"t holds {first_names(data.t_names or ())}, and {type(model).__name__} makes nothing of t. Make features of "
        "what the model is to know, or use VaryingCoefficientGP; dataclasses.replace(data, t=None) leaves t out."
    )


def warn_of_steady_slopes(model: Model, data: MultiTaskData, prepared: MultiTaskData, y: np.ndarray) -> None:
    """Warn of slopes that a formula lets differ between groups within which their features do not vary.

    Beside a constant, or another such feature, the rows of a group know the sum of these contributions alone. A
    feature counts that is constant in nearly every task with several rows.
    """
    if not isinstance(data.design, FormulaDesign) or not model.shares_tasks or prepared.is_sparse:
        return
    if set(model.variable_dims(prepared, y).get("coefficients", ())) != {"feature", "task"}:
        return
    several = prepared.task_sizes > 1
    if not several.any():
        return
    X = np.asarray(prepared.X)
    ranges = range_within_tasks(X, prepared.task, prepared.n_tasks)[several]
    still = np.mean(ranges <= _ROUNDING * np.abs(X).max(axis=0, initial=0.0), axis=0) >= _NEARLY_ALL
    slopes = [prepared.feature_names[j] for j in np.flatnonzero(still & (np.ptp(X, axis=0) > 0.0))]
    if still.sum() < 2 or not slopes:
        return
    named, group = first_names(slopes), data.task_column
    one = len(slopes) == 1
    warn_user(
        f"{named} {'has a slope' if one else 'have slopes'} for each {group!r} in the formula, and "
        f"{'is' if one else 'are'} constant within {'it' if one else 'each of these'}. The rows of one {group!r} then "
        f"tell the sum of its level and {'this slope' if one else 'these slopes'} alone: the data know the sum of "
        "their variances, and the prior how it is shared out. Write "
        f"{'this term' if one else 'these terms'} outside of the bar only, for one coefficient of all."
    )


def _has_own_hooks(model: Model) -> bool:
    """Whether hooks of a user may make something of what the library's own leave aside."""
    return any(not getattr(type(model), hook).__module__.startswith("zoo.") for hook in _HOOKS)


def _tells_tasks(t: np.ndarray, task: np.ndarray) -> bool:
    """Whether rows that are close in t are of one task: then a function of t knows the tasks.

    Rows are in a random order, so that those of one t come to each other by chance, whatever the order of the table.
    """
    from scipy.spatial import cKDTree

    order = np.random.default_rng(0).permutation(len(t))[:_MOST_ROWS]
    spread = np.ptp(t, axis=0)
    places, names = t[order] / np.where(spread > 0.0, spread, 1.0), task[order]
    if len(places) < 2:
        return False
    asked = np.arange(min(len(places), _MOST_ASKED))
    near = cKDTree(places).query(places[asked], k=2)[1]
    other = np.where(near[:, 0] == asked, near[:, 1], near[:, 0])
    return bool(np.mean(names[other] == names[asked]) >= _TOLD)
