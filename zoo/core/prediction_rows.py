"""The rows that a prediction is asked for, as the model sees them, with the draws that predict them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.drawn import as_arrays
from zoo.core.hooks import SHARED
from zoo.core.keep import require_draws
from zoo.core.missing_features import draws_for
from zoo.core.protocols import Fitted
from zoo.data.choices import choice_of_rows
from zoo.data.multitask import MultiTaskData
from zoo.data.new_rows import NEW_TASK, read_rows
from zoo.support.seeds import generator
from zoo.support.words import counted

__all__ = ["read_prediction"]


class Later(Mapping[str, np.ndarray]):
    """Draws by name that are made when somebody looks at them: a law in closed form needs none."""

    def __init__(self, make: Callable[[], xr.Dataset | dict[str, np.ndarray]]):
        self._make = make

    @cached_property
    def _made(self) -> dict[str, np.ndarray]:
        made = self._make()
        return as_arrays(made) if isinstance(made, xr.Dataset) else made

    def __getitem__(self, name: str) -> np.ndarray:
        return self._made[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._made)

    def __len__(self) -> int:
        return len(self._made)


def read_prediction(
    fit: Fitted, X: Any, task: Any, t: Any, new_task: bool, random_seed: Any
) -> tuple[MultiTaskData, Mapping[str, np.ndarray], np.random.Generator]:
    """Prepared rows, draws (chain, draw, ...) of the variables, and the generator to go on with."""
    rng = generator(random_seed)
    if isinstance(X, MultiTaskData):
        X.require_single_rows("a prediction")
    labels, features, t_values = read_rows(X, task, t, fit.data, new_task, lambda: not fit.uses_t)
    known, asked = fit.data.task_names, set(labels)
    unknown = sorted(asked - set(known))
    if unknown and not new_task:
        raise ValueError(
            f"task {unknown[0]!r} is not among the {counted(len(known), 'task')} of the data. "
            "Check its name, or pass new_task=True to predict it from the population."
        )
    posterior: Mapping[str, np.ndarray]
    if new_task:
        overlap = sorted(asked & set(known))
        if overlap:
            raise ValueError(
                f"task {overlap[0]!r} is in the data, but new_task=True asks for new tasks. "
                "Predict known and new tasks in two calls."
            )
        known = tuple(unknown)
        posterior = Later(partial(_of_new_tasks, fit, list(known), rng))
    else:
        names = known if len(asked) == len(known) else tuple(name for name in known if name in asked)
        draw = fit.factory.draws_of_tasks(fit, names)
        if draw is not None:
            known, posterior = names, Later(partial(draw, rng))
        else:
            require_draws(
                fit, f"a prediction of known tasks by {type(fit.factory).__name__}, with a hook of its own,"
            )
            posterior = Later(partial(fit.factory.predictive_posterior, fit, rng))
    position = {name: i for i, name in enumerate(known)}
    n_rows = features.shape[0]
    task_codes = np.array([position[label] for label in labels], dtype=np.int64)
    rows = MultiTaskData(
        inputs=features if fit.data.transform is None else fit.data.transform.apply_x(features),
        row=np.arange(n_rows),
        y=np.ones(n_rows),
        task=task_codes,
        task_names=known,
        feature_names=fit.data.feature_names,
        t=t_values,
        t_names=None if t_values is None else fit.data.t_names,
        incomplete=fit.data.incomplete,
        choice=None
        if fit.data.choice is None
        else choice_of_rows(X, task_codes, fit.data, task is None and asked == {NEW_TASK}),
    )
    rows.require_workable_scale(fitted=False)
    prepared = fit.factory.design(rows, fit.context)
    if rows.gaps is not None:
        same = labels == [fit.data.task_names[code] for code in fit.data.task] and np.allclose(
            rows.inputs, fit.data.inputs, rtol=1e-9, atol=1e-12, equal_nan=True
        )
        posterior = {**posterior, **draws_for(fit.posterior, prepared, same, rng)}
    return prepared, posterior, rng


def _of_new_tasks(fit: Fitted, names: list[str], rng: np.random.Generator) -> dict[str, np.ndarray]:
    """Draws of the variables of unseen tasks."""
    draws = fit.factory.predictive_posterior(fit, rng)
    result = dict(fit.factory.new_task(draws, names, rng))
    if SHARED in draws:  # the same for all tasks, new ones too
        result.setdefault(SHARED, draws[SHARED].to_numpy())
    return result
