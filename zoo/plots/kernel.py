"""A covariance function of inputs or of tasks, as a matrix."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from zoo.kernels.evaluate import kernel_matrix
from zoo.plots.figures import figure_of, panel
from zoo.support.checks import finite_matrix, flag

__all__ = ["kernel"]

# Names that can be read beside a matrix.
_NAMES = 40


def kernel(
    covariance: Any,
    X: Any,
    names: Sequence[str] | None = None,
    correlation: bool = False,
    ax: Axes | None = None,
    figsize: tuple[float, float] = (5.6, 4.8),
) -> Figure:
    """The matrix of a covariance function between inputs.

    Parameters
    ----------
    covariance : pm.gp.cov.Covariance
        One of :mod:`zoo.kernels` or of PyMC, or what ``fit.learned_kernel()`` gives.
    X : (n, D) array_like or table
        Inputs, for a learned kernel on the model's scale.
    names : sequence of n str, optional
        Labels of the inputs.
    correlation : bool
        Divide by the standard deviations. The colours then run from -1 to 1.
    ax : matplotlib Axes, optional
        Panel to draw into.
    figsize : (float, float), optional

    Returns
    -------
    matplotlib.figure.Figure
        Colours are symmetric around 0 where covariances of both signs occur, and begin at 0 else.

    Raises
    ------
    ValueError
        The inputs do not fit the covariance function, or there are not as many names as inputs.
    """
    flag(correlation, "correlation")
    inputs = finite_matrix(X, "X", None)
    matrix = np.asarray(kernel_matrix(covariance, inputs))
    if names is not None and len(names) != len(matrix):
        raise ValueError(f"names has {len(names)} entries and X has {len(matrix)} rows. Give one per row.")
    if correlation:
        deviation = np.sqrt(np.diag(matrix))
        matrix = matrix / np.outer(deviation, deviation)
    reach = 1.0 if correlation else float(np.abs(matrix).max()) or 1.0
    signed = matrix.min() < -1e-12 * reach
    axes = panel(ax, figsize)
    image = axes.imshow(
        matrix, cmap="RdBu_r" if signed else "viridis", vmin=-reach if signed else 0.0, vmax=reach,
        interpolation="nearest",
    )  # fmt: skip
    if names is not None and len(names) <= _NAMES:
        at, size = range(len(names)), 8.5 if len(names) <= 20 else 6.0
        axes.set_xticks(at, list(names), rotation=90, fontsize=size, parse_math=False)
        axes.set_yticks(at, list(names), fontsize=size, parse_math=False)
    else:
        axes.set(xlabel="input", ylabel="input")
    axes.set_title("Correlation" if correlation else "Covariance", fontsize=11)
    figure_of(axes).colorbar(image, ax=axes, pad=0.02, shrink=0.85)
    return figure_of(axes)
