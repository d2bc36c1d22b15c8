"""Predictions as the libraries of users hold tables: xarray, pandas, polars, Arrow."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from zoo.data.multitask import MultiTaskData
from zoo.support.checks import one_of
from zoo.support.frames import read_table

__all__ = ["OUTPUTS", "prediction_table", "require_output"]

OUTPUTS = ("xarray", "pandas", "polars", "arrow")
_MODULES = {"polars": "polars", "arrow": "pyarrow"}


def require_output(output: Any) -> None:
    """Raise where ``output`` is none of ``OUTPUTS``, or where its library is absent.

    Raises
    ------
    ValueError
        The word is unknown.
    ImportError
        Its library is not installed.
    """
    one_of(output, OUTPUTS, "output")
    module = _MODULES.get(output)
    if module is None:
        return
    try:
        __import__(module)
    except ImportError as error:
        raise ImportError(
            f"output={output!r} needs {module}. Install it, or take output='pandas'."
        ) from error


def prediction_table(
    result: dict[str, np.ndarray],
    rows: MultiTaskData,
    X: Any,
    ci_prob: float,
    output: str,
    grades: tuple[Any, ...] = (),
) -> Any:
    """Summaries (n,) by name, with the task of each row, as a table.

    Parameters
    ----------
    result : dict of (n,) array
    rows : MultiTaskData
        The rows that were predicted.
    X : object
        What the user handed over: a table of pandas, or a DataArray with labels, names the rows of
        a table of pandas.
    ci_prob : float
    output : {"xarray", "pandas", "polars", "arrow"}
    grades : tuple of K str or float
        Where the response is a grade: ``probability`` is then (n, K), and ``label`` is shown by its name.
    """
    if grades and isinstance(grades[0], str):
        result = {**result, "label": np.array(grades, dtype=object)[result["label"].astype(np.int64) - 1]}
    of_row = np.asarray(rows.task_names, dtype=object)[rows.task]
    if output == "xarray":
        dataset = xr.Dataset(
            {name: (("obs", "grade")[: values.ndim], values) for name, values in result.items()},
            coords={"obs": np.arange(rows.n_rows), "task": ("obs", of_row)},
        )
        if grades:
            dataset = dataset.assign_coords(grade=list(grades))
        dataset.attrs["ci_prob"] = ci_prob
        return dataset
    columns = {"task": of_row}
    for name, values in result.items():
        parts = zip(grades, values.T, strict=True) if values.ndim == 2 else [("", values)]
        columns |= {
            f"{name}_{grade:g}" if isinstance(grade, float) else f"{name}_{grade}" if grade else name: part
            for grade, part in parts
        }
    if output == "pandas":
        labels = None if isinstance(X, MultiTaskData) else read_table(X, "X").rows
        table = pd.DataFrame(columns, index=pd.RangeIndex(rows.n_rows) if labels is None else labels)
        table.attrs["ci_prob"] = ci_prob
        return table
    if output == "polars":
        import polars as pl

        return pl.DataFrame({**columns, "task": of_row.tolist()})
    import pyarrow as pa

    return pa.table({**columns, "task": pa.array(of_row.tolist(), type=pa.string())})
