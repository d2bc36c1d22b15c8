"""Rows that a fit takes up later: of new tasks, or more of those that it has."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zoo.core.fit import Fit
from zoo.data.multitask import MultiTaskData
from zoo.data.new_rows import read_rows, with_intercept

__all__ = ["joined", "more_rows", "new_rows", "of_some_task"]


def new_rows(fit: Fit, task_data: MultiTaskData) -> MultiTaskData:
    """Rows of new tasks, on the scale of the data that were fitted; each with an input of its own."""
    rows = _on_scale(fit, task_data, "task_data", new_task=True)
    known = sorted(set(rows.task_names) & set(fit.data.task_names))
    if known:
        raise ValueError(
            f"task {known[0]!r} of task_data is in the fit already. Give the new task another name, or fit again "
            "with its new rows."
        )
    return rows


def more_rows(fit: Fit, rows: MultiTaskData) -> MultiTaskData:
    """More rows of tasks of the fit, the same way."""
    result = _on_scale(fit, rows, "rows", new_task=False)
    unknown = sorted(set(result.task_names) - set(fit.data.task_names))
    if unknown:
        raise ValueError(f"task {unknown[0]!r} of rows is not in the fit. Use fit.add_task for a new task.")
    return result


def _on_scale(fit: Fit, data: MultiTaskData, argument: str, new_task: bool) -> MultiTaskData:
    """The rows with the transform of the fit, and the tasks that occur among them."""
    if not isinstance(data, MultiTaskData):
        raise TypeError(
            f"{argument} is a {type(data).__name__}. Make it with zoo.MultiTaskData.from_frame, .from_formula or "
            ".from_arrays."
        )
    data = with_intercept(data, fit.data)
    mean = fit.data.learned_mean
    wanted = fit.data.feature_names if mean is None or data.learned_mean is mean else mean.seen
    absent = [name for name in wanted if name not in data.feature_names]
    if absent:
        raise ValueError(
            f"{argument} lacks the feature {absent[0]!r} of the fit. Give the same features, in the same order."
        )
    if data.grades != fit.data.grades:
        raise ValueError(
            f"{argument} has the grades {', '.join(data.grades) or '(none)'}, and the fit has "
            f"{', '.join(fit.data.grades) or '(none)'}. Give the response as a column of the same ordered categories."
        )
    if (data.choice is None) != (fit.data.choice is None):
        raise ValueError(
            f"{argument} has {'no ' if data.choice is None else ''}choices, and the data of the fit have "
            f"{'none' if fit.data.choice is None else 'some'}. Make both by the same arguments."
        )
    labels, features, t = read_rows(data, None, None, fit.data, new_task)
    y, transform = data.original_y(), fit.data.transform
    if transform is not None:
        features, y = transform.apply_x(features), transform.apply_y(y)
    position = {name: i for i, name in enumerate(dict.fromkeys(labels))}
    return MultiTaskData(
        inputs=features,
        row=np.arange(len(y)),
        y=y,
        task=np.array([position[label] for label in labels]),
        task_names=tuple(position),
        feature_names=fit.data.feature_names,
        t=t,
        t_names=fit.data.t_names,
        transform=transform,
        weight=data.weight,
        grades=fit.data.grades,
        choice=data.choice,
        choice_column=fit.data.choice_column,
        stands_for=data.stands_for,
    )


def _joined_weights(data: MultiTaskData, new: MultiTaskData) -> np.ndarray | None:
    """Weights of both, 1 where one part has none."""
    if data.weight is None and new.weight is None:
        return None
    parts = [np.ones(part.n_rows) if part.weight is None else part.weight for part in (data, new)]
    return np.concatenate(parts)


def joined(data: MultiTaskData, new: MultiTaskData) -> MultiTaskData:
    """Rows and tasks of both, those of ``new`` last; tasks of one name are one."""
    if data.is_sparse:
        from scipy.sparse import vstack

        inputs = vstack([data.inputs, new.inputs], format="csr")
    else:
        inputs = np.concatenate([data.inputs, new.inputs])
    names = tuple(dict.fromkeys((*data.task_names, *new.task_names)))
    position = {name: i for i, name in enumerate(names)}
    task = np.array([position[name] for name in new.task_names])[new.task]
    return replace(
        data,
        inputs=inputs,
        row=np.concatenate([data.row, new.row + data.inputs.shape[0]]),
        y=np.concatenate([data.y, new.y]),
        task=np.concatenate([data.task, task]),
        task_names=names,
        t=None if data.t is None or new.t is None else np.concatenate([data.t, new.t]),
        weight=_joined_weights(data, new),
        choice=None
        if data.choice is None or new.choice is None
        else np.concatenate([data.choice, new.choice + int(data.choice.max()) + 1]),
        stands_for=sum(part.stands_for or part.n_rows for part in (data, new))
        if data.stands_for or new.stands_for
        else 0,
    )


def of_some_task(values: np.ndarray, size: int, rng: np.random.Generator) -> np.ndarray:
    """At each draw the values (chain, draw, T) of ``size`` tasks picked at random."""
    chosen = rng.integers(values.shape[2], size=(*values.shape[:2], size))
    return np.take_along_axis(values, chosen, axis=2)
