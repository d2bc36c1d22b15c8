"""Prior and posterior side by side: what the data say of the population, and what was said before."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import pymc as pm

from zoo.support.quick import QUICK

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["MOSTLY", "prior_table"]

# Width of the posterior's interval in widths of the prior's, from which a parameter is mostly its prior.
MOSTLY = 0.5
_DRAWS, _LARGEST, _CI = 1000, 36, (0.05, 0.5, 0.95)
# Dims of what belongs to single tasks, inputs or rows, and not to the population.
_OF_PARTS = {"task", "task_bis", "obs", "input", "input_bis", "point", "support"}


def prior_table(fit: Fit) -> pd.DataFrame | None:
    """Medians and 90 % intervals of the population's parameters, before and after the data.

    Standard deviations and correlations stand for a covariance. ``width`` is the width of the posterior's interval in
    widths of the prior's, in logarithms of what is positive: where it is above ``MOSTLY``, the data have said little.
    All is on the scale of the posterior.

    Returns
    -------
    DataFrame or None
        Columns ``median``, ``5%``, ``95%``, ``prior median``, ``prior 5%``, ``prior 95%``, ``width``; None of a fit
        without draws, and of a model whose prior cannot be drawn from.
    """
    if fit.is_point:
        return None
    model = fit.factory.build(fit.population_data)
    names = [
        str(name)
        for name, v in fit.posterior.items()
        if name in model.named_vars and not _OF_PARTS & set(map(str, v.dims)) and _size(v) <= _LARGEST
    ]
    try:
        draw = pm.pytensorf.compile([], [model[name] for name in names], mode=QUICK, random_seed=0)
        drawn = [draw() for _ in range(_DRAWS)] if names else []
    except NotImplementedError:  # a density without a way to draw from it
        return None
    rows = {}
    for i, name in enumerate(names):
        after = fit.posterior[name].stack(sample=("chain", "draw")).transpose("sample", ...)
        before = np.stack([np.asarray(values[i]) for values in drawn])
        labels = [[str(label) for label in after[dim].to_numpy()] for dim in after.dims[1:]]
        for label, of_after, of_before in zip(
            *_entries(name, labels, after.to_numpy()), _entries(name, labels, before)[1], strict=True
        ):
            rows[label] = _row(of_after, of_before)
    return pd.DataFrame.from_dict(rows, orient="index").rename_axis("name") if rows else None


def _size(values: Any) -> int:
    """Entries of one draw."""
    return int(values.size // (values.sizes["chain"] * values.sizes["draw"]))


def _entries(name: str, labels: list[list[str]], draws: np.ndarray) -> tuple[list[str], list[np.ndarray]]:
    """Entries of a variable with their names; standard deviations and correlations of a covariance (S, D, D)."""
    if draws.ndim == 3 and labels[0] == labels[1] and name.endswith("cov"):
        sd = np.sqrt(np.diagonal(draws, axis1=1, axis2=2))
        found = [(f"sd over tasks[{label}]", sd[:, i]) for i, label in enumerate(labels[0])]
        for i, first in enumerate(labels[0]):
            for j, second in enumerate(labels[0][:i]):
                corr = draws[:, i, j] / np.maximum(sd[:, i] * sd[:, j], np.finfo(float).tiny)
                found.append((f"correlation[{second}, {first}]", corr))
    else:
        found = []
        for at in np.ndindex(draws.shape[1:]):
            label = ", ".join(part[i] for part, i in zip(labels, at, strict=True))
            found.append((f"{name}[{label}]" if at else name, draws[(slice(None), *at)]))
    return [label for label, _ in found], [values for _, values in found]


def _row(after: np.ndarray, before: np.ndarray) -> dict[str, float]:
    """Quantiles of both, and the ratio of the widths."""
    (low, middle, high), (least, centre, most) = ends = np.quantile(after, _CI), np.quantile(before, _CI)
    # Of positive numbers with heavy tails the widths of logarithms compare: a prior may reach over powers of ten.
    scaled = np.log(ends) if np.min(ends) > 0.0 else np.asarray(ends)
    spread, prior_spread = scaled[:, 2] - scaled[:, 0]
    return {
        "median": middle, "5%": low, "95%": high,
        "prior median": centre, "prior 5%": least, "prior 95%": most,
        "width": spread / prior_spread if prior_spread > 0.0 else np.nan,
    }  # fmt: skip
