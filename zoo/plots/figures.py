"""What the pictures share."""

from __future__ import annotations

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.layout_engine import ConstrainedLayoutEngine

__all__ = ["figure_of", "panel"]

_ROOM = 0.1  # inches


def panel(ax: Axes | None, figsize: tuple[float, float]) -> Axes:
    """The panel to draw into: ``ax``, or that of a new figure."""
    if ax is not None:
        return ax
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=figsize, layout="constrained")
    engine = figure.get_layout_engine()
    assert isinstance(engine, ConstrainedLayoutEngine)
    # Titles over panels of a fixed aspect would stand out of the figure by a few points without this room.
    engine.set(w_pad=_ROOM, h_pad=_ROOM)
    return axes


def figure_of(ax: Axes) -> Figure:
    """The figure that holds a panel."""
    figure = ax.get_figure(root=True)
    assert figure is not None
    return figure
