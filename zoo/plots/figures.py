"""What the pictures share."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure

__all__ = ["figure_of", "panel"]


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
