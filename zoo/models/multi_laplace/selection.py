r"""Which features matter, with a bound on the share of false ones: :meth:`zoo.Fit.select_features`.

The hypothesis of feature j is that responses have nothing to do with it given the other features. The mode without the
feature is found, and the gain of evidence that the feature promises, :mod:`zoo.inference.ard.feature_scores`, is set
against that of copies of it, :mod:`zoo.inference.ard.copies`. With :math:`s_t^0` the score of the feature in task t,
and :math:`s_t^1 \dots s_t^B` those of its copies, the statistic is

.. math:: S^b = \sum_t (s_t^b - \bar s_t) / \operatorname{sd}(s_t), \quad
    p = \frac{1 + \#\{b \ge 1 : S^b \ge S^0\}}{B + 1},

where mean and standard deviation are over all B + 1, so that they treat the feature as any of its copies. Under the
hypothesis the B + 1 statistics are exchangeable, whatever the model, its penalty and its mode are, because none of
these has seen the feature. So p is below u with a probability of at most u. Of the features with :math:`p_{(i)} \le q i
/ D`, in ascending order, the last one and all before it are selected (Benjamini & Hochberg 1995, JRSS B 57:289-300).

Tasks stand together with the means over tasks of their ARD parameters and noise variances: with few rows per task their
own are fitted to chance, and scores by them find fewer of the features that count.
Where there are several kinds of scores, for straight and for curved functions, :math:`S^b` is the largest of their
sums, each standardized once more. A linear mean that all tasks share adds :math:`(\sum_n x_n \alpha_n)^2` to them, the
gain by a coefficient of that mean.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from zoo.core.fit import Fit
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.ard.copies import FeatureCopies
from zoo.inference.ard.correlation import Parameters
from zoo.inference.ard.feature_scores import TaskWithout
from zoo.inference.run.progress import ClimbProgress
from zoo.models.multi_laplace.ard_gp import GPRows
from zoo.models.multi_laplace.description import MultiLaplaceDescription
from zoo.models.multi_laplace.mode import ModeProblem, of_tasks
from zoo.support.checks import probability, whole_number
from zoo.support.seeds import generator
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["selected_features"]

_FEWEST_COPIES = 199
# A single feature can be selected where the bound of its p is this many times the smallest p there is.
_ROOM = 2.0
_ROWS_PER_FEATURE = 3
# p-values hold wherever the search for a mode ends, and their power is that of the mode already here.
_TOLERANCE = 0.1
_MOST_STEPS = 50
# Statistics within this share of their spread count as equal.
_EQUAL = 1e-9


def selected_features(
    factory: MultiLaplaceDescription,
    rows: GPRows,
    y: np.ndarray,
    fit: Fit,
    fdr: float,
    copies: int | None,
    random_seed: Any,
    progress: bool,
) -> xr.Dataset:
    """See :meth:`zoo.Fit.select_features`."""
    probability(fdr, "fdr")
    if not fit.is_point:
        raise UnsupportedMethodError(
            f'The fit is by method "{fit.method}", and select_features compares modes. Fit the model again with '
            'method="map" (penalty and noise_rate numbers), or read `inclusion` of fit.relevance().'
        )
    D = rows.n_features
    size = (
        max(_FEWEST_COPIES, int(np.ceil(_ROOM * D / fdr)))
        if copies is None
        else whole_number(copies, "copies", 1)
    )
    if size + 1 < D / fdr:
        warn_user(
            f"copies is {size}: no p can be below 1 / {size + 1}, and a single feature of {D} would need p of at most "
            f"{fdr:g} / {D}. Give at least {int(np.ceil(D / fdr)) - 1} copies."
        )
    norm = np.linalg.norm(np.atleast_2d(fit.posterior["kappa"].to_numpy()[0, 0].T), axis=0)
    statistic, p = np.zeros(D), np.ones(D)
    determined = []
    with ClimbProgress(D, progress, "features", "p-value") as bar:
        for j, rng in enumerate(generator(random_seed).spawn(D)):
            made = FeatureCopies.of(rows.X, j, rows.task)
            _require_units(made, rows)
            if made.determined:
                determined.append(str(rows.feature_names[j]))
                continue
            without = _without(factory, rows, y, fit if norm[j] == 0.0 else None, j)
            statistic[j], p[j] = _test(factory, without, rows, j, made.draw(size, rng))
            bar.report(j + 1, p[j])
    if determined:
        warn_user(
            f"Other features determine {', '.join(map(repr, determined))}, so that their p-values are 1. Leave out "
            "features until none determines another."
        )
    from scipy.stats import false_discovery_control  # half a second, which no import should take

    found = false_discovery_control(p)
    table = {"statistic": statistic, "p_value": p, "q_value": found, "selected": found <= fdr}
    return xr.Dataset(
        {name: ("feature", values) for name, values in table.items()},
        coords={"feature": list(rows.feature_names)},
        attrs={"fdr": fdr, "copies": size, "rule": "Benjamini-Hochberg"},
    )


def _require_units(made: FeatureCopies, rows: GPRows) -> None:
    """Raise where the law of a feature given the others cannot be had from the rows."""
    known = len(made.rest)
    if known < _ROWS_PER_FEATURE * rows.n_features:
        raise ValueError(
            f"The data have {counted(known, 'distinct row')} of {counted(rows.n_features, 'feature')}. Copies of a "
            f"feature need its law given the others: give at least {_ROWS_PER_FEATURE} distinct rows per feature, or "
            "leave out features that go least with the response."
        )


def _without(
    factory: MultiLaplaceDescription, rows: GPRows, y: np.ndarray, fit: Fit | None, j: int
) -> list[TaskWithout]:
    """The mode without feature j, task by task.

    ``fit``: a mode in which the feature is not, which is then that without it.
    """
    inputs = rows.inputs.copy()
    inputs[:, j] = 0.0  # in no kernel does such a column do anything
    left = replace(rows, inputs=inputs)
    if fit is None:
        problem = ModeProblem.of(factory, left, y)
        posterior = problem.posterior(problem.minimise(problem.start(), tol=_TOLERANCE, max_iter=_MOST_STEPS))
    else:
        posterior = {str(name): values.to_numpy() for name, values in fit.posterior.items()}
    draw = {name: values[0, 0] for name, values in posterior.items()}
    pooled = factory.ard == "pooled"
    own = of_tasks(draw, rows.n_tasks, pooled)
    kappa, noise, amplitude = Parameters(*(values.mean(axis=0) for values in own))
    residual = y - left.X @ draw["mean_coefficients"] if factory.mean == "linear" else y
    weight = np.ones(len(y)) if rows.weight is None else np.asarray(rows.weight, dtype=np.float64)
    task = np.zeros_like(rows.task) if pooled else rows.task
    found = []
    for t in range(1 if pooled else rows.n_tasks):
        at = np.flatnonzero(task == t)
        found.append(
            TaskWithout(
                at,
                left.X[at],
                residual[at],
                noise / weight[at],
                kappa,
                float(amplitude),
                factory.constant_variance,
            )
        )
    return found


def _test(
    factory: MultiLaplaceDescription, tasks: list[TaskWithout], rows: GPRows, j: int, copies: np.ndarray
) -> tuple[float, float]:
    """The statistic of feature j, in standard deviations over its copies (B, N), and its p."""
    kernel = factory.correlation(rows.n_features)
    columns = np.vstack([rows.X[:, j], copies])
    totals: Any = 0.0
    products: Any = 0.0
    for without in tasks:
        scores, product = without.scores(kernel, columns[:, without.at], j)
        totals = totals + _standard(scores)
        products = products + product
    sides = totals if factory.mean != "linear" else np.column_stack([totals, products**2])
    statistic = _standard(_standard(sides).max(axis=1))
    reached = statistic[1:] >= statistic[0] - _EQUAL * max(1.0, abs(float(statistic[0])))
    return float(statistic[0]), float((1 + np.sum(reached)) / len(statistic))


def _standard(values: np.ndarray) -> np.ndarray:
    """Each column less its mean, over its standard deviation; zeros where it does not vary."""
    spread = values.std(axis=0)
    varies = spread > _EQUAL * np.abs(values).max(axis=0, initial=0.0)
    return np.asarray(
        (values - values.mean(axis=0)) * np.divide(1.0, spread, out=np.zeros(np.shape(spread)), where=varies)
    )
