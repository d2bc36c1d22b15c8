r"""Average ranks of methods over sets of data, and the picture that says which of them differ.

On each set the methods are ranked by their mean score, 1 for the best, ties sharing the mean of their ranks. By the
test of Nemenyi, as Demšar (2006, JMLR 7:1-30) has it for comparisons over sets, two of k methods on N sets differ at
level 0.05 where their average ranks are further apart than

.. math:: q_{0.05} \sqrt{k (k + 1) / (6 N)},

with :math:`q_{0.05}` the quantile of the studentized range of k groups and infinitely many degrees of freedom, over
:math:`\sqrt 2`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from scipy.stats import rankdata, studentized_range

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["average_ranks", "critical_difference", "draw_ranks", "groups_alike"]

_LEVEL = 0.05


def average_ranks(scores: pd.DataFrame) -> pd.Series:
    """Average rank of each method, the best first; ``scores`` (set, method), lower is better.

    Sets on which a method has no score are left out.
    """
    complete = scores.dropna()
    ranks = rankdata(complete.to_numpy(), axis=1)
    return pd.Series(ranks.mean(axis=0), index=scores.columns).sort_values(kind="stable")


def critical_difference(n_methods: int, n_sets: int) -> float:
    """How far apart two average ranks must be for a difference at level 0.05."""
    quantile = studentized_range.ppf(1.0 - _LEVEL, n_methods, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_sets)))


def groups_alike(ranks: pd.Series, difference: float) -> list[tuple[int, int]]:
    """First and last position of each longest run of sorted ranks that do not differ, of two methods or more."""
    values = ranks.to_numpy()
    lasts = [int(np.searchsorted(values, value + difference, side="right")) - 1 for value in values]
    return [
        (first, last)
        for first, last in enumerate(lasts)
        if last > first and (first == 0 or lasts[first - 1] < last)
    ]


def draw_ranks(scores: pd.DataFrame) -> Figure:
    """Methods by their average rank; a thick line joins those that do not differ at level 0.05."""
    from matplotlib.figure import Figure

    ranks, n_sets = average_ranks(scores), len(scores.dropna())
    difference = critical_difference(len(ranks), n_sets)
    groups = groups_alike(ranks, difference)
    figure = Figure(figsize=(7.5, 0.36 * len(ranks) + 0.16 * len(groups) + 1.2), layout="constrained")
    axes = figure.subplots()
    for row, (method, rank) in enumerate(ranks.items()):
        axes.plot([rank, rank, len(ranks) + 0.15], [0.0, row + 1.0, row + 1.0], color="0.7", linewidth=0.8)
        axes.plot(rank, 0.0, "o", color="C0", markersize=5, clip_on=False)
        axes.text(len(ranks) + 0.25, row + 1.0, f"{method}  {rank:.2f}", va="center", fontsize=9)
    for line, (first, last) in enumerate(groups):
        height = -0.5 - 0.4 * line
        axes.plot(ranks.iloc[[first, last]], [height, height], color="C3", linewidth=3, solid_capstyle="butt")
    bottom = -0.9 - 0.4 * len(groups)
    axes.plot([1.0, 1.0 + difference], [bottom, bottom], color="k", linewidth=1.2)
    axes.text(1.0 + difference + 0.1, bottom, f"differ by {difference:.2f} or more", va="center", fontsize=8)
    axes.set(
        xlim=(0.9, len(ranks) + 0.15), ylim=(len(ranks) + 0.6, bottom - 0.4),
        xlabel=f"average rank over {n_sets} sets of data (1 is best)", yticks=[],
    )  # fmt: skip
    axes.spines[["left", "right", "top"]].set_visible(False)
    return figure
