"""Says, where linear algebra breaks down in a fit, which columns are to blame."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import numpy as np

from zoo.data.multitask import MultiTaskData

__all__ = ["breakdown_explained", "require_finite"]

# Responses that are so many times as large as the largest feature are to blame too, and weights that are so large, or
# so many times as large as others.
_FAR = 1e3


@contextmanager
def breakdown_explained(
    what: str, data: MultiTaskData, known: Callable[[], str] | None = None
) -> Iterator[None]:
    """Turn an error of linear algebra, or of the range of floats, into one that names columns, or weights of rows.

    Parameters
    ----------
    what : str
        What is computed, as the subject of a sentence.
    data : MultiTaskData
        The rows as the model sees them.
    known : callable, optional
        Says what else is known to be at fault; where it does, nothing is said of the data.

    Raises
    ------
    ValueError
        Where such an error comes out of the block; its cause is kept.
    """
    try:
        yield
    except (np.linalg.LinAlgError, ZeroDivisionError, OverflowError) as error:
        raise ValueError(f"{what} lost all its digits: {(known and known()) or _to_blame(data)}") from error


def _to_blame(data: MultiTaskData) -> str:
    """The weights where these are far from 1, and the values unless only the weights are."""
    of_weights = _weights_to_blame(data)
    largest = max(float(data.column_sizes().max(initial=0.0)), float(np.abs(data.y).max(initial=0.0)))
    if of_weights and largest <= _FAR:
        return of_weights
    return f"{of_weights} Besides, {_values_to_blame(data)}" if of_weights else _values_to_blame(data)


def _weights_to_blame(data: MultiTaskData) -> str:
    """What the weights of rows have to do with it; empty where they are few orders around 1."""
    if data.weight is None:
        return ""
    least, most = float(data.weight.min()), float(data.weight.max())
    if most < _FAR * min(least, 1.0):
        return ""
    return (
        f"the weights of the rows reach from {least:.3g} to {most:.3g}, and each counts its row so many times. Divide "
        "them by their mean, and bring them nearer to each other where they span many orders."
    )


def _values_to_blame(data: MultiTaskData) -> str:
    """The smallest and the largest column, and y where it is larger by far."""
    sizes = data.column_sizes()
    low, high = int(np.argmin(sizes)), int(np.argmax(sizes))
    response = float(np.abs(data.y).max(initial=0.0))
    of_y = f", and those of y to {response:.3g}" if response > _FAR * max(sizes[high], 1.0) else ""
    return (
        f"on the model's scale the values of X reach from {sizes[low]:.3g} in column {data.feature_names[low]!r} to "
        f"{sizes[high]:.3g} in column {data.feature_names[high]!r}{of_y}. Use data.standardize(), and leave out "
        "columns that others determine."
    )


def require_finite(values: Mapping[Any, Any]) -> None:
    """Raise an error that :func:`breakdown_explained` explains, where numbers are not finite.

    A sampler that loses its digits may go on with NaN, where a factorisation would have refused.

    Parameters
    ----------
    values : mapping of name to array

    Raises
    ------
    OverflowError
        An array holds NaN or an infinite number.
    """
    for name, array in values.items():
        array = np.asarray(array)
        # One number that stands for many, as an estimate does for all draws, is looked at once.
        once = array[tuple(slice(1) if step == 0 else slice(None) for step in array.strides)]
        if not np.isfinite(once).all():
            raise OverflowError(f"{name} is not finite")
