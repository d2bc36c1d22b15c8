"""What the pictures share."""

from __future__ import annotations

from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["check_probability", "figure_of", "panel"]


def panel(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """The panel to draw into: ``ax``, or that of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    return plt.subplots(figsize=figsize, layout="constrained")[1]


def figure_of(ax: Axes) -> Figure:
    """The figure that holds a panel."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure


def check_probability(ci_prob: Any) -> None:
    """Raise unless ``ci_prob`` is strictly between 0 and 1."""
    if not 0.0 < ci_prob < 1.0:
        raise ValueError(f"ci_prob is {ci_prob}. Give a probability between 0 and 1.")
