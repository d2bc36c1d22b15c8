"""Rows and responses of a Gaussian process as they come: arrays, data frames, or data of a PyMC model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytensor.tensor as pt
from pymc.gp.cov import Covariance
from pytensor.compile.sharedvalue import SharedVariable
from pytensor.graph.basic import Constant
from pytensor.raise_op import CheckAndRaise

__all__ = ["responses_of", "rows_of", "unless_changed"]


def _values(given: Any, name: str) -> np.ndarray:
    if isinstance(given, SharedVariable):
        given = given.get_value()
    elif isinstance(given, Constant):
        given = given.data
    elif hasattr(given, "owner"):
        raise ValueError(
            f"{name} is computed from other variables, but neighbours are found once: give an array or pm.Data."
        )
    try:
        return np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{name} does not consist of numbers: {error}.") from error


def rows_of(given: Any, name: str, cov_func: Any) -> np.ndarray:
    """The table (N, D) of an array, a data frame or ``pm.Data``.

    Raises
    ------
    ValueError
        It has no two dimensions, no rows, another number of columns than ``cov_func``, or numbers that are not finite.
    """
    rows = _values(given, name)
    if rows.ndim != 2:
        raise ValueError(
            f"{name} has {rows.ndim} dimension{'s' * (rows.ndim != 1)}. Give a table (n, columns); one column is "
            f"{name}[:, None]."
        )
    if not rows.shape[0] or not rows.shape[1]:
        raise ValueError(f"{name} has the shape {rows.shape}: nothing is in it.")
    if isinstance(cov_func, Covariance) and cov_func.input_dim != rows.shape[1]:
        raise ValueError(
            f"{name} has {rows.shape[1]} columns, but cov_func was made for input_dim={cov_func.input_dim}."
        )
    bad = np.argwhere(~np.isfinite(rows))
    if len(bad):
        raise ValueError(f"{name} is not a finite number in row {bad[0][0]}, column {bad[0][1]}.")
    return rows


def unless_changed(value: Any, given: Any, rows: np.ndarray) -> Any:
    """A tensor, computed only while data of the model are the rows (N, D) that neighbours were found for.

    Raises
    ------
    ValueError
        When the value is computed: the data have changed.
    """
    if not isinstance(given, SharedVariable):
        return value
    check = CheckAndRaise(
        ValueError, "X has changed since its neighbours were found. Build a model with the new rows."
    )
    same = pt.eq(given.shape[0], len(rows)) & pt.eq(given.shape[1], rows.shape[1])
    return check(pt.as_tensor(value), same, pt.all(pt.eq(given, rows)))


def responses_of(given: Any, name: str, n: int) -> Any:
    """Responses (N,) as PyMC takes them: data of the model stay what they are.

    Raises
    ------
    ValueError
        They are not one number for each row, or some are missing.
    """
    values = _values(given, name)
    if values.shape == (n, 1):
        raise ValueError(f"{name} has the shape {values.shape}. Give one dimension: {name}[:, 0].")
    if values.shape != (n,):
        raise ValueError(
            f"{name} has the shape {values.shape}, but X has {n} rows. Give one number for each row."
        )
    missing = np.flatnonzero(~np.isfinite(values))
    if len(missing):
        raise ValueError(
            f"{name} is not a finite number in row {missing[0]} ({len(missing)} such rows). Leave these rows out, and "
            "ask conditional() for them."
        )
    return given if isinstance(given, SharedVariable) else values
