"""Empirical distribution of the ranks of simulation-based calibration, with its band."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from zoo.diagnostics.rank_bands import rank_band
from zoo.plots.backends import rank_ecdf_by, require_backend
from zoo.support.checks import one_of

if TYPE_CHECKING:
    from zoo.diagnostics.calibration import Calibration

__all__ = ["rank_ecdf"]


def rank_ecdf(
    calibration: Calibration,
    quantities: Sequence[str] | None = None,
    prob: float = 0.99,
    columns: int = 4,
    figsize: tuple[float, float] | None = None,
    backend: str = "matplotlib",
) -> Any:
    """Share of the ranks below each value minus what it is for uniform ranks, a panel per quantity.

    The grey band holds the lines of all quantities of the calibration at once with probability ``prob`` or more if the
    sampler is right. A line above zero on the left and below on the right shows draws that are too narrow, the reverse
    draws that are too wide, and one that stays on one side draws that are shifted.

    Parameters
    ----------
    calibration : Calibration
        Of :func:`zoo.diagnostics.sbc`.
    quantities : sequence of str, optional
        Those to show; default: all.
    prob : float
    columns : int
        Panels side by side.
    figsize : (float, float), optional
    backend : {"matplotlib", "plotly", "bokeh"}

    Returns
    -------
    matplotlib.figure.Figure, or a figure of the backend
    """
    import matplotlib.pyplot as plt

    require_backend(backend, {"figsize": figsize})
    known = [str(q) for q in calibration.ranks["quantity"].to_numpy()]
    names = known if quantities is None else list(quantities)
    for name in names:
        one_of(name, known, "quantities")
    ranks = calibration.ranks["rank"]
    n, values = ranks.sizes["replication"], calibration.draws + 1
    shares, lower, upper = rank_band(n, values, 1.0 - (1.0 - prob) / len(known))
    points = (shares * values).round().astype(int)
    x = np.concatenate([[0.0], shares, [1.0]])
    band = np.pad(lower - shares, 1), np.pad(upper - shares, 1)
    excess, outside = {}, {}
    for name in names:
        below = (ranks.sel(quantity=name).to_numpy()[:, None] < points).mean(axis=0)
        excess[name] = np.pad(below - shares, 1)
        outside[name] = bool(np.any((below < lower - 1e-12) | (below > upper + 1e-12)))
    if backend != "matplotlib":
        return rank_ecdf_by(x, excess, band, outside, columns, backend)
    rows = -(-len(names) // columns)
    figure, panels = plt.subplots(
        rows, columns, figsize=figsize or (2.6 * columns, 0.7 + 1.7 * rows), squeeze=False, sharex=True, sharey=True,
        layout="constrained",
    )  # fmt: skip
    for panel, name in zip(panels.flat, names, strict=False):
        panel.fill_between(x, *band, color="0.88", linewidth=0)
        panel.plot(x, excess[name], color="C3" if outside[name] else "C0", linewidth=1.2)
        panel.axhline(0.0, color="0.6", linewidth=0.6)
        panel.set_title(name, fontsize=8, parse_math=False)
        panel.tick_params(labelsize=7)
    for panel in list(panels.flat)[len(names) :]:
        panel.set_axis_off()
    failed = f", {len(calibration.failures)} failed" if calibration.failures else ""
    model = calibration.model.split("(", 1)[0]
    figure.suptitle(f"{model}, {calibration.method}: {n} replications{failed}", fontsize=10)
    figure.supxlabel("rank / number of ranks", fontsize=9)
    figure.supylabel("excess share below", fontsize=9)
    return figure
