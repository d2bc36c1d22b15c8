"""Responses of tasks beside replications of them, drawn from the posterior."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import xarray as xr

from zoo.plots.backends import figure_in, require_backend
from zoo.support.checks import one_of, whole_number

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["predictive_by_task"]

# Panels where nobody names the tasks, and rows that a density needs.
_PANELS, _LEAST_ROWS = 9, 5


def predictive_by_task(
    fit: Fit,
    tasks: Sequence[str] | None = None,
    num_samples: int = 50,
    random_seed: Any = None,
    backend: str = "matplotlib",
) -> Any:
    """Posterior predictive check of each task: its responses, and replications of them under the model.

    Where the model fits a task, its responses look like one more replication. The panels are those of
    ``arviz_plots.plot_ppc_dist``: distribution functions, in the units of the data.

    Parameters
    ----------
    fit : Fit
    tasks : sequence of str, optional
        Default: of at most nine tasks all of them, else nine from the smallest mean response to the largest.
    num_samples : int
        Replications in each panel.
    random_seed : int, optional
    backend : {"matplotlib", "plotly", "bokeh"}

    Returns
    -------
    Figure of the backend

    Raises
    ------
    ValueError
        A task is unknown, or has fewer than five rows; or y holds labels.
    """
    import arviz_plots

    require_backend(backend, {})
    if fit.factory.likelihood.labels:
        raise ValueError(
            "y holds labels, of which a task has a share and no distribution. Use predicted_vs_observed, which shows "
            "whether probabilities are calibrated."
        )
    whole_number(num_samples, "num_samples")
    data = fit.data
    data.require_single_rows("predictive_by_task")
    y = data.original_y()
    chosen = _chosen(fit, y, tasks)
    shown = np.flatnonzero(np.isin(data.task, [data.task_names.index(name) for name in chosen]))
    if data.gaps is not None:  # the posterior knows the gaps of all rows together
        shown = np.arange(data.n_rows)
    draws = fit.predict_draws(data.take(shown), random_seed=random_seed)["y"].to_numpy()
    replicated, observed = {}, {}
    for name in chosen:
        rows = np.flatnonzero(data.task == data.task_names.index(name))
        dims = f"row of {name}"
        replicated[name] = (("chain", "draw", dims), draws[:, :, np.searchsorted(shown, rows)])
        observed[name] = ((dims,), y[rows])
    tree = xr.DataTree.from_dict(
        {"posterior_predictive": xr.Dataset(replicated), "observed_data": xr.Dataset(observed)}
    )
    wide = min(3, len(chosen))
    # Room for the numbers below a panel and the title of the next.
    size = {"figsize": (3.2 * wide, 0.4 + 2.4 * -(-len(chosen) // wide)), "layout": "constrained"}
    collection = arviz_plots.plot_ppc_dist(
        tree,
        num_samples=min(num_samples, draws.shape[0] * draws.shape[1]),
        kind="ecdf",  # densities of a few rows say little
        backend=backend,
        col_wrap=wide,
        **({"figure_kwargs": size} if backend == "matplotlib" else {}),
    )
    return figure_in(collection)


def _chosen(fit: Fit, y: np.ndarray, tasks: Sequence[str] | None) -> list[str]:
    """Names of the tasks to show, each with enough rows."""
    data = fit.data
    sizes = data.task_sizes
    if tasks is not None:
        names = [tasks] if isinstance(tasks, str) else list(tasks)
        if not names:
            raise ValueError("tasks is empty. Name at least one task.")
        for name in names:
            one_of(name, data.task_names, "tasks")
            if sizes[name] < _LEAST_ROWS:
                raise ValueError(
                    f"task {name!r} has {sizes[name]} rows, and a distribution of fewer than {_LEAST_ROWS} says "
                    "nothing. Name other tasks."
                )
        return names
    able = [name for name in data.task_names if sizes[name] >= _LEAST_ROWS]
    if not able:
        raise ValueError(f"no task has {_LEAST_ROWS} rows, so that there is no distribution to show.")
    sums = np.bincount(data.task, weights=y, minlength=data.n_tasks)
    mean = dict(zip(data.task_names, sums / np.maximum(sizes.to_numpy(), 1), strict=True))
    able.sort(key=lambda name: mean[name])
    at = np.unique(np.linspace(0, len(able) - 1, min(_PANELS, len(able))).round().astype(int))
    return [able[i] for i in at]
