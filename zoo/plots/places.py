"""Places to draw coefficients at: a regular grid over those that were observed."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import finite_vector, names, one_of, positive, whole_number
from zoo.support.frames import by_name
from zoo.support.words import counted

__all__ = ["grid"]


def grid(
    data: MultiTaskData,
    n: int | Sequence[int] | Mapping[str, int] = 50,
    columns: str | Sequence[str] | None = None,
    at: Mapping[str, float] | None = None,
    near: float | None = None,
) -> np.ndarray:
    """Regular grid over the box of the observed places.

    Parameters
    ----------
    data : MultiTaskData
        With a continuous task variable ``t``.
    n : int, sequence of int, or dict
        Points along each of ``columns``, 2 or more; of a dict or a pandas Series by the names of the columns.
    columns : str or sequence of str, optional
        Columns of ``t`` that vary, ``("long", "lat")`` say. Default: the first two, or the only one.
    at : dict of str to float, optional
        Values of other columns, ``{"day": 100}`` say. Default: their medians.
    near : float, optional
        Leave out the places that are further than this from every observation, by ``columns`` alone, in their standard
        deviations.

    Returns
    -------
    (places, P) numpy.ndarray
        In the order of ``data.t_names``, on the user's scale; the first of ``columns`` varies fastest.

    Raises
    ------
    ValueError
        Names the argument, and the column.
    """
    if data.t is None or data.t_names is None:
        raise ValueError("data has no continuous task variable. Give t when you make it.")
    if columns is None:
        columns = data.t_names[:2]
    varied = names([columns] if isinstance(columns, str) else columns, "columns")
    for name in varied:
        one_of(name, data.t_names, "columns")
    if not varied:
        raise ValueError("columns is empty. Name at least one column of t.")
    fixed = dict(at or {})
    for name in fixed:
        one_of(name, [other for other in data.t_names if other not in varied], "at")
    given = by_name(n, "n", varied)
    asked = [given] * len(varied) if np.ndim(given) == 0 else list(given)
    if len(asked) != len(varied):
        raise ValueError(
            f"n has {counted(len(asked), 'number')} for {counted(len(varied), 'column')}. Give one "
            f"number, or one per column."
        )
    counts = [whole_number(count, "n", 2) for count in asked]
    index = [data.t_names.index(name) for name in varied]
    seen = data.t[:, index]
    axes = []
    for name, column, count in zip(varied, seen.T, counts, strict=True):
        if np.ptp(column) == 0.0:
            raise ValueError(f"t column {name!r} is constant. Leave it out of columns.")
        axes.append(np.linspace(column.min(), column.max(), count))
    # Reversed twice, so that the first column varies fastest.
    points = np.stack([part.ravel() for part in np.meshgrid(*axes[::-1], indexing="ij")[::-1]], axis=1)
    if near is not None:
        positive(near, "near")
        points = points[_distance_to_nearest(points, seen) <= near]
        if not len(points):
            raise ValueError(
                f"near is {near:g}, and no place of the grid is so near. Give a larger one, or more points."
            )
    t = np.tile(np.median(data.t, axis=0), (len(points), 1))
    for name, value in fixed.items():
        t[:, data.t_names.index(name)] = finite_vector([value], f"at[{name!r}]", 1)[0]
    t[:, index] = points
    return t


def _distance_to_nearest(points: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Distance of each point to the nearest row of ``seen``, in standard deviations of its columns."""
    from scipy.spatial import cKDTree

    sd = seen.std(axis=0)
    return np.asarray(cKDTree(seen / sd).query(points / sd)[0])
