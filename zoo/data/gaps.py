"""Rows with missing values: refused, left out with a count, or left to the model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.checks import is_sparse, one_of
from zoo.support.warning_types import warn_user
from zoo.support.words import counted

__all__ = ["MISSING", "complete_rows", "gaps_of", "require_known_values", "without_gaps"]

MISSING = ("refuse", "drop", "model")
"""What may become of missing values; "model" is for features that are numbers."""


def without_gaps(
    df: pd.DataFrame,
    columns: Sequence[str],
    missing: str,
    may_miss: Sequence[str] = (),
    choice: Sequence[str] = (),
) -> Any:
    """The rows of a table that can be used; raises or warns of the others.

    Parameters
    ----------
    df : pandas.DataFrame
    columns : sequence of str
        Those that are used.
    missing : {"refuse", "drop", "model"}
        With "drop" rows with a gap are left out, and a warning counts them.
    may_miss : sequence of str
        Columns whose gaps "model" leaves in place.
    choice : sequence of str
        Columns that say which rows are alternatives of one choice: "drop" leaves out whole ones.
    """
    looked_at = [name for name in dict.fromkeys(columns) if missing != "model" or name not in may_miss]
    gaps = df[looked_at].isna().to_numpy()
    rows = gaps.any(axis=1)
    if not rows.any():
        return df
    first = looked_at[int(np.argmax(gaps[int(np.argmax(rows))]))]
    if missing != "drop":
        left = " Only features that are numbers may have gaps." if missing == "model" else ""
        to_model = (
            ", or leave gaps of features to the model with missing='model'"
            if missing == "refuse" and first in may_miss
            else ""
        )
        raise ValueError(
            f"column {first!r} is missing in row {int(np.argmax(rows))}, and {int(rows.sum())} of "
            f"{counted(len(df), 'row')} have "
            f"a gap.{left} Fill them in, or leave these rows out with missing='drop'{to_model}."
        )
    rows = _warn_of_dropped(rows, f"column {first!r}", [df[name] for name in choice])
    return df[~rows]


def complete_rows(missing: str, arguments: Mapping[str, Any]) -> np.ndarray | None:
    """Positions of the rows in which no argument has a gap, where ``missing`` is "drop"; None where all rows stay.

    Of choices (``arguments`` has their labels) whole ones stay: one without an alternative would be another one.

    Parameters
    ----------
    missing : {"refuse", "drop", "model"}
    arguments : mapping
        Tables, columns and arrays with one row per observation, by the name of the argument; None where not given.
    """
    one_of(missing, MISSING, "missing")
    if missing != "drop":
        return None
    rows, first = np.zeros(0, dtype=bool), ""
    for argument, values in arguments.items():
        if values is None or is_sparse(values):
            continue
        gaps = np.atleast_1d(np.asarray(pd.isna(values)))
        gaps = gaps.any(axis=tuple(range(1, gaps.ndim)))
        if not len(rows):
            rows = np.zeros(len(gaps), dtype=bool)
        if len(gaps) != len(rows):
            return None  # rows that do not go together are refused with a better message
        first = first or (argument if gaps.any() else "")
        rows |= gaps
    if not rows.any():
        return None
    choice = arguments.get("choice")
    by_choice = [] if choice is None else [choice, arguments.get("task")]
    keys = [values for values in by_choice if np.shape(values) == rows.shape]
    return np.flatnonzero(~_warn_of_dropped(rows, first, keys))


def _warn_of_dropped(rows: np.ndarray, first: str, choice: Sequence[Any]) -> np.ndarray:
    """Which rows are left out, ``rows`` and the others of their choices; ``choice``: what says of each row its own."""
    gaps = int(rows.sum())
    if choice:
        keys = [np.asarray(values) for values in choice]
        rows = pd.Series(rows).groupby(keys, sort=False, dropna=False).transform("any").to_numpy(bool)
    if rows.all():
        what = "choice" if choice else "row"
        raise ValueError(f"every {what} has a gap; {first} is the first. There is nothing to learn from.")
    warn_user(
        f"{gaps} of {counted(len(rows), 'row')} have a gap (the first one in {first}) and are left out"
        + (f", with all alternatives of their choices: {int(rows.sum())} rows." if choice else ".")
    )
    return rows


def gaps_of(inputs: Any) -> np.ndarray | None:
    """Where features (n, D) are missing, as a mask; None where nothing is."""
    if is_sparse(inputs):
        return None
    mask = np.isnan(inputs)
    return mask if mask.any() else None


def require_known_values(inputs: np.ndarray, gaps: np.ndarray, feature_names: Sequence[str] | None) -> None:
    """Raise where a feature with gaps has no two known values that differ: no law of it could be learned."""
    for column in np.flatnonzero(gaps.any(axis=0)):
        known = inputs[~gaps[:, column], column]
        if len(known) < 2 or np.ptp(known) == 0.0:
            name = f"x{column}" if feature_names is None else list(feature_names)[column]
            raise ValueError(
                f"feature {name!r} has gaps and fewer than two values that differ, from which nothing could be said of "
                "them. Fill them in, or leave the feature out."
            )
