"""Rows of tasks that a fit takes up later."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from zoo.data import MultiTaskData
from zoo.fit import Fit
from zoo.new_rows import read_rows

__all__ = ["joined", "new_rows"]


def new_rows(fit: Fit, task_data: MultiTaskData) -> MultiTaskData:
    """Rows of new tasks, on the scale of the data that were fitted; each with an input of its own."""
    if not isinstance(task_data, MultiTaskData):
        raise TypeError(
            f"task_data is a {type(task_data).__name__}. Make it with zoo.MultiTaskData.from_frame or .from_arrays."
        )
    absent = [name for name in fit.data.feature_names if name not in task_data.feature_names]
    if absent:
        raise ValueError(
            f"task_data lacks the feature {absent[0]!r} of the fit. Give the same features, in the same order."
        )
    labels, features, t = read_rows(task_data, None, None, fit.data, True)
    known = sorted(set(labels) & set(fit.data.task_names))
    if known:
        raise ValueError(
            f"task {known[0]!r} of task_data is in the fit already. Give the new task another name, or fit again "
            "with its new rows."
        )
    y, transform = task_data.original_y(), fit.data.transform
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
        transform=transform,
    )


def joined(data: MultiTaskData, new: MultiTaskData) -> MultiTaskData:
    """Rows and tasks of both, those of ``new`` last."""
    if data.is_sparse:
        from scipy.sparse import vstack

        inputs = vstack([data.inputs, new.inputs], format="csr")
    else:
        inputs = np.concatenate([data.inputs, new.inputs])
    return replace(
        data,
        inputs=inputs,
        row=np.concatenate([data.row, new.row + data.inputs.shape[0]]),
        y=np.concatenate([data.y, new.y]),
        task=np.concatenate([data.task, new.task + data.n_tasks]),
        task_names=(*data.task_names, *new.task_names),
        t=None if data.t is None or new.t is None else np.concatenate([data.t, new.t]),
    )
