"""Simulated tasks that fall into groups, with the truth."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import not_negative, positive, whole_number
from zoo.support.seeds import generator

if TYPE_CHECKING:
    import xarray as xr

__all__ = ["simulate_groups"]


def simulate_groups(
    n_groups: int = 3,
    tasks_per_group: int = 8,
    n_features: int = 6,
    n_per_task: int = 12,
    spread: float = 0.3,
    noise: float = 1.0,
    random_seed: Any = None,
) -> tuple[MultiTaskData, xr.Dataset]:
    r"""Simulate linear tasks in groups: tasks of one group are alike, and groups differ.

    The centre of each group is standard normal. The coefficients of task t in group g(t) are

    .. math:: \eta_t = m_{g(t)} + \text{spread} \cdot e_t, \qquad e_t \sim N(0, I),

    features are standard normal, and :math:`y = x^\top \eta_t` plus normal noise. No model of this package is told
    the groups, and none of them has this prior.

    Parameters
    ----------
    n_groups, tasks_per_group : int
        Their product is ``T``.
    n_features : int
        ``D``.
    n_per_task : int
        Rows of each task.
    spread : float
        Standard deviation of the coefficients inside a group, 0 or more; between groups it is 1.
    noise : float
        Standard deviation of the noise, above 0.
    random_seed : int or numpy.random.Generator, optional

    Returns
    -------
    data : MultiTaskData
        Rows task by task. Tasks are named "A1", "A2", ..., "B1", ...: the letter is the group.
    truth : xarray.Dataset
        ``coefficients`` (feature, task), with names as coordinates; attributes ``spread`` and ``noise``.

    Raises
    ------
    ValueError
        Names the argument.
    """
    import xarray as xr

    for name, number in (
        ("n_groups", n_groups),
        ("tasks_per_group", tasks_per_group),
        ("n_features", n_features),
        ("n_per_task", n_per_task),
    ):
        whole_number(number, name)
    if n_groups > 26:
        raise ValueError(f"n_groups is {n_groups}. Ask for 26 at most: a letter stands for each of them.")
    not_negative(spread, "spread")
    positive(noise, "noise")
    rng = generator(random_seed)
    group = np.repeat(np.arange(n_groups), tasks_per_group)
    centres = rng.standard_normal((n_groups, n_features))
    coefficients = centres[group] + spread * rng.standard_normal((len(group), n_features))
    task = np.repeat(np.arange(len(group)), n_per_task)
    X = rng.standard_normal((len(task), n_features))
    y = np.einsum("nd,nd->n", X, coefficients[task]) + noise * rng.standard_normal(len(task))
    names = [f"{chr(ord('A') + g)}{i % tasks_per_group + 1}" for i, g in enumerate(group)]
    features = [f"x{d + 1}" for d in range(n_features)]
    data = MultiTaskData.from_arrays(X, y, task, task_names=names, feature_names=features)
    truth = xr.Dataset(
        {"coefficients": (("feature", "task"), coefficients.T)},
        coords={"feature": features, "task": names},
        attrs={"spread": spread, "noise": noise},
    )
    return data, truth
