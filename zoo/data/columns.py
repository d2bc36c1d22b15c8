"""What the constructors of multi-task data read beside the features: tasks, task variables, weights."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.arrays import as_array, as_name
from zoo.support.checks import finite_matrix, finite_vector, is_sparse, names, text_labels
from zoo.support.frames import Labelled, in_order_of_names, read_column, read_table
from zoo.support.words import counted

__all__ = [
    "LEFT_OUT",
    "as_table",
    "graded",
    "listed",
    "others",
    "positions",
    "refuse_response",
    "require_one_column",
    "require_same_rows",
    "rows_at",
    "task_column",
    "task_variable",
    "texts",
    "weights",
    "weights_of_entries",
]


class _LeftOut:
    """The default of an argument that differs from None."""

    def __repr__(self) -> str:
        return "<left out>"


LEFT_OUT: Any = _LeftOut()
"""The value of ``task`` where it was not given, so that None is what somebody wrote."""


def listed(value: Any, argument: str) -> list[Any]:
    """A list of names; a string is one."""
    if isinstance(value, str):
        return [value]
    try:
        return list(value)
    except TypeError:
        raise ValueError(f"{argument} is {value!r}. Give a list of names.") from None


def require_names(**given: Any) -> None:
    """Raise where values stand in the place of the name of a column."""
    for argument, value in given.items():
        if np.ndim(value) > 0 and not isinstance(value, tuple):
            raise TypeError(
                f"{argument} is a {type(value).__name__}, which is no name of a column of df. Give one name; values "
                "that are in no table go to MultiTaskData.from_arrays."
            )


def refuse_response(y: Any, **arguments: Sequence[Any]) -> None:
    """Raise where the columns of another argument hold the response."""
    for argument, columns in arguments.items():
        if y in columns:
            raise ValueError(f"{argument} holds {y!r}, which is the response. Name another column.")


def positions(rows: Any) -> np.ndarray:
    """Positions of rows, or a mask of them; raises on a mask that says to which rows its values belong."""
    values, labels = read_column(rows, "rows")
    index = as_array(values, "rows")
    if index.dtype == bool and labels is not None and not labels.equals(pd.RangeIndex(len(labels))):
        raise ValueError(
            "rows is a mask with an index other than 0, 1, 2, ..., and the data keep none to align it with. Put it "
            "into the order of the rows of the data, and pass rows.to_numpy()."
        )
    return index.astype(np.int64) if index.size == 0 else index


def require_one_column(df: pd.DataFrame, column: Any) -> None:
    """Raise where the table has no such column, or several."""
    try:
        count = int((df.columns == column).sum()) if column in df.columns else 0
    except TypeError:  # a list, which has no hash
        raise ValueError(f"{column!r} is no name of a column of df. Give one name.") from None
    if count != 1:
        shown = ", ".join(map(str, df.columns))
        raise ValueError(
            f"df has {count} columns {column!r}. Give them names of their own."
            if count
            else f"df has no column {column!r}. Its columns are {shown}."
        )


def require_same_rows(**arguments: Labelled) -> None:
    """Raise where tables or columns label their rows otherwise: rows would be paired by position alone."""
    first: tuple[str, pd.Index] | None = None
    for argument, (_, rows) in arguments.items():
        if rows is None:
            continue
        if first is None:
            first = argument, rows
        elif len(first[1]) == len(rows) and not first[1].equals(rows):
            raise ValueError(
                f"{argument} has another index than {first[0]}, so its rows may belong to others. "
                f"Align them, or pass {argument}.to_numpy() where the order of rows is the same."
            )


def task_column(column: pd.Series, kind: str = "task") -> tuple[list[str], np.ndarray]:
    """Task names and the code of each row; category order is kept where the column has one.

    ``kind`` is what the column holds, for messages: tasks, or levels of another group.
    """
    if column.isna().any():
        row = column.index[int(np.flatnonzero(column.isna().to_numpy())[0])]
        raise ValueError(
            f"{kind} column {column.name!r} is missing in row {row}. Drop the row or name its "
            f"{'task' if kind == 'task' else 'level'}."
        )
    if isinstance(column.dtype, pd.CategoricalDtype):
        used = column.cat.remove_unused_categories()  # an unused category would be an empty task
        return [as_name(c) for c in used.cat.categories], used.cat.codes.to_numpy()
    if not pd.api.types.is_numeric_dtype(column.dtype) or column.dtype.kind == "c":
        labels = text_labels(column.to_numpy(dtype=object), f"{kind} column {column.name!r}")
        column = pd.Series(labels, name=column.name)
    codes, categories = pd.factorize(column, sort=True)
    return [str(c) for c in categories], codes


def graded(y: Any) -> tuple[Any, tuple[str, ...]]:
    """Responses as numbers, and the names of their grades where they are ordered categories: 1, 2, ... in their order.

    Numbers stay what they are, categories of numbers too.

    Raises
    ------
    ValueError
        Categories have no order, or one that is not that of their numbers; responses are text; one is missing.
    """
    advice = (
        "make them a column of ordered categories: pandas.Categorical(y, categories=[lowest, ..., highest], "
        "ordered=True)"
    )
    name = getattr(y, "name", None)
    what = "y" if name is None else f"y column {name!r}"
    dtype = getattr(y, "dtype", None)
    if not isinstance(dtype, pd.CategoricalDtype):
        first = (
            next((v for v in y if isinstance(v, str)), None) if getattr(dtype, "kind", "") in "OUT" else None
        )
        if isinstance(y, list | tuple):
            first = next((v for v in y if isinstance(v, str)), None)
        if first is not None:
            two = sorted({str(v) for v in y if not pd.isna(v)})
            labels = (
                f"For labels, code {two[-1]!r} as 1 and {two[0]!r} as 0: (y == {two[-1]!r}).astype(int). "
            )
            raise ValueError(
                f"{what} holds values that are not numbers, such as {str(first)!r}, and no order of them is known. "
                f"{labels if len(two) == 2 else ''}If they are grades, {advice}; else code them as numbers."
            )
        return y, ()
    names_of, codes = [str(c) for c in dtype.categories], np.asarray(pd.Categorical(y).codes)
    if pd.api.types.is_numeric_dtype(dtype.categories.dtype):
        if dtype.ordered and not dtype.categories.is_monotonic_increasing:
            raise ValueError(
                f"{what} has the ordered categories {', '.join(names_of)}, which are numbers in another order. "
                "Order them as numbers, or give them names."
            )
        return np.asarray(y), ()
    if not dtype.ordered:
        raise ValueError(
            f"{what} has the categories {', '.join(names_of)} without an order. If they "
            f"are grades, {advice}; else code them as numbers."
        )
    if (codes < 0).any():
        raise ValueError(f"{what} is missing in row {int(np.argmax(codes < 0))}. Drop the row.")
    return codes + 1.0, names(names_of, "the categories of y")


def task_variable(
    t: Any, n_rows: int, t_names: Sequence[str] | None
) -> tuple[np.ndarray | None, tuple[str, ...] | None]:
    """The continuous task variable as a matrix, and the names of its columns."""
    if t is None:
        if t_names is not None:
            raise ValueError(
                "t_names is given, but t is not. Give the continuous task variable, or leave both out."
            )
        return None, None
    if isinstance(t_names, str):
        t_names = [t_names]
    t, t_names = in_order_of_names(t, t_names, "t", "t_names")
    if t_names is None and isinstance(t, pd.Series) and t.name is not None:
        t_names = [str(t.name)]
    values: Any = t if isinstance(t, pd.DataFrame) else as_array(t, "t")
    for j in range(values.shape[1] if isinstance(values, pd.DataFrame) else 0):
        if _holds_names(values.iloc[:, j]):
            name = str(values.columns[j])
            raise ValueError(
                f"t column {name!r} holds names, and t is for numbers, as of places and times. Pass the column as "
                f"task={name!r}, and give the model a component over tasks, which gives each name a level of its own: "
                f'zoo.VaryingComponent(kernel=zoo.kernels.TaskTree.from_frame(df, [{name!r}]), features="intercept") '
                "beside the others in task_kernel. Or leave the column out."
            )
    if values.ndim == 1:
        values = values[:, None]
    labels = names(t_names, "t_names", values.shape[1], prefix="t") if values.ndim == 2 else None
    matrix = finite_matrix(values, "t", labels)
    if len(matrix) != n_rows:
        raise ValueError(f"t has {counted(len(matrix), 'row')} and X has {n_rows}. Give both the same rows.")
    return matrix, labels


def _holds_names(column: pd.Series) -> bool:
    """Whether a column holds text other than numbers."""
    known = column[column.notna()]
    if not len(known) or not all(isinstance(value, str) for value in known):
        return False
    return bool(pd.to_numeric(known.astype(str), errors="coerce").isna().any())


def weights(weight: Any, n_rows: int) -> np.ndarray:
    """Weights of the rows, (N,)."""
    values = finite_vector(weight, "weight", n_rows)
    if (values <= 0.0).any():
        row = int(np.flatnonzero(values <= 0.0)[0])
        raise ValueError(
            f"weight is {values[row]:g} in row {row}. Give a weight above 0, or leave the row out of the data."
        )
    return values


def weights_of_entries(weight: Any, observed: np.ndarray, labels: tuple[str, ...]) -> np.ndarray:
    """Weights as an (n, T) array, 1 where the response is missing; those of a table go to the tasks of its columns."""
    if isinstance(weight, pd.DataFrame):
        columns = [str(column) for column in weight.columns]
        if sorted(columns) == sorted(labels):
            weight = weight.iloc[:, [columns.index(label) for label in labels]]
        elif set(columns) & set(labels) and weight.shape == observed.shape:
            absent = next(label for label in labels if label not in columns)
            raise ValueError(f"weight has no column {absent!r}, a task of Y. Name its columns as those of Y.")
    raw = np.array(as_array(weight, "weight"))
    if raw.shape == observed.shape[:1]:
        raw[~observed.any(axis=1)] = 1
        return np.broadcast_to(weights(raw, len(observed))[:, None], observed.shape)
    if raw.shape != observed.shape:
        raise ValueError(
            f"weight has shape {raw.shape} and Y has shape {observed.shape}. "
            "Give one weight per entry of Y, or one per row."
        )
    raw[~observed] = 1
    values = finite_matrix(raw, "weight", labels)
    if (values <= 0.0).any():
        row, task = (int(i) for i in np.argwhere(values <= 0.0)[0])
        raise ValueError(
            f"weight is {values[row, task]:g} in row {row}, task {labels[task]!r}. "
            "Give a weight above 0, or NaN in Y to leave the entry out."
        )
    return values


def texts(names_given: Any) -> tuple[str, ...]:
    """Names as text, where a list of them is given; what else it may be is refused later."""
    return tuple(map(str, names_given)) if isinstance(names_given, list | tuple | pd.Index) else ()


def others(arguments: tuple[Any, ...], one: Any) -> list[Any]:
    """The other arguments."""
    return [value for value in arguments if value is not one]


def as_table(df: Any) -> Any:
    """A table as one of pandas; of a Dataset of xarray without the numbers of its rows."""
    table = read_table(df, "df").values
    rows = getattr(df, "dims", ()) if hasattr(df, "data_vars") else ()
    return table.drop(columns=[name for name in rows if name in table.columns]) if rows else table


def rows_at(values: Any, kept: np.ndarray) -> Any:
    """These rows of a table, a column or an array."""
    if isinstance(values, pd.DataFrame | pd.Series):
        return values.iloc[kept]
    if is_sparse(values):
        return values[kept]
    return values if values is None or np.ndim(values) == 0 else np.asarray(values)[kept]
