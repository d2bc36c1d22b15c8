"""Tables and columns of any library as those of pandas, by name: polars, Arrow and others, xarray, dicts.

What has no names (arrays, nested lists, sparse matrices) comes back as it is: then the order of columns counts.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from zoo.support.arrays import as_name
from zoo.support.words import counted

__all__ = [
    "Labelled",
    "as_pandas",
    "by_name",
    "in_order_of_names",
    "read_column",
    "read_table",
    "require_one_each",
]

# Dims of xarray that hold columns, and the one that holds rows, where their labels do not tell.
_COLUMN_DIMS, _ROW_DIM = ("feature", "t_column", "task"), "obs"


class Labelled(NamedTuple):
    """A table or column: its values (those of pandas, where columns have names), and the labels of its rows if any."""

    values: Any
    rows: pd.Index | None = None


def read_table(value: Any, argument: str, wanted: Sequence[str] = (), beside: Iterable[Any] = ()) -> Labelled:
    """What holds one row per observation; its values are a pandas DataFrame where its columns have names.

    Parameters
    ----------
    value : table, or array_like
    argument : str
        Its name, for messages.
    wanted : sequence of str
        Names that its columns are known to have. Of a DataArray they say which dim holds the columns.
    beside : iterable
        What has the same rows: a dim of a DataArray that is found there too is the dim of the rows.

    Raises
    ------
    TypeError
        The table is lazy, or needs a library that is not installed.
    ValueError
        Columns of a dict differ in length or in their rows, or those of a Dataset in their dims.
    """
    if hasattr(value, "tocsr"):  # of which one kind is a dict
        return Labelled(value)
    if _is_xarray(value, "Dataset"):
        return _from_dataset(value, argument, wanted)
    if _is_xarray(value, "DataArray") and value.ndim == 2:
        row_dims = {dim for other in beside if _is_xarray(other, "DataArray") for dim in other.dims}
        return _from_data_array(value, wanted, row_dims)[0]
    if isinstance(value, Mapping):
        return _from_dict(value, argument)
    if isinstance(value, np.ndarray) and value.dtype.names is not None:
        return _from_dict({name: value[name] for name in value.dtype.names}, argument)
    return read_column(value, argument)


def read_column(value: Any, argument: str) -> Labelled:
    """One value per row; what is a table of pandas, polars or Arrow stays a table."""
    if _is_xarray(value, "DataArray"):
        return Labelled(value.to_numpy(), value.indexes.get(value.dims[0]) if value.ndim == 1 else None)
    values = as_pandas(value, argument)
    return Labelled(values, value.index if isinstance(value, pd.DataFrame | pd.Series) else None)


def as_pandas(value: Any, argument: str) -> Any:
    """A DataFrame or Series of polars, Arrow or another library as one of pandas; anything else as it is.

    Nulls stay missing. A column keeps the order of its categories where they are its own.

    Raises
    ------
    TypeError
        The table is lazy, or needs a library that is not installed.
    """
    if value is None or isinstance(
        value,
        pd.DataFrame | pd.Series | pd.Index | np.ndarray | np.generic | list | tuple | str | int | float,
    ):
        return value
    if hasattr(value, "tocsr") or _is_xarray(value, "Dataset") or _is_xarray(value, "DataArray"):
        return value
    # Importing it takes a fortieth of a second, which users of NumPy and pandas need not spend.
    import narwhals.stable.v2 as nw

    frame: Any = nw.from_native(value, allow_series=True, pass_through=True)
    if frame is value and (hasattr(value, "__arrow_c_stream__") or hasattr(value, "__arrow_c_array__")):
        frame = nw.from_native(_in_pyarrow(value, argument), allow_series=True)
    if isinstance(frame, nw.LazyFrame):
        known = ("compute", "toPandas", "to_pandas", "collect")  # of Dask, Spark, Ibis, Polars
        how = next((f": {argument}.{method}()" for method in known if hasattr(value, method)), "")
        raise TypeError(
            f"{argument} is a lazy table ({type(value).__module__}.{type(value).__name__}), whose rows are not there "
            f"yet. Collect it first{how}."
        )
    if isinstance(frame, nw.DataFrame):
        columns = [_series(frame[name], nw) for name in frame.columns]
        # Numbered first: pandas would join columns of one name.
        table = pd.DataFrame(dict(enumerate(columns)), index=pd.RangeIndex(len(frame)))
        return table.set_axis(list(frame.columns), axis=1)
    return _series(frame, nw) if isinstance(frame, nw.Series) else value


def require_one_each(table: pd.DataFrame, wanted: Iterable[str], argument: str) -> None:
    """Raise where a column that is needed stands in the table several times."""
    for name in wanted:
        count = int((table.columns == name).sum())
        if count > 1:
            raise ValueError(
                f"{argument} has {count} columns {name!r}, and one of them is needed. Rename or drop the others."
            )


def in_order_of_names(table: Any, wanted: Any, argument: str, names_argument: str) -> tuple[Any, Any]:
    """A table with the names of its columns; it is put into the order of ``wanted`` where it has these names.

    Raises
    ------
    ValueError
        A name would move from one column of the table to another.
    """
    if not isinstance(table, pd.DataFrame):
        return table, wanted
    if wanted is None:
        return table, list(table.columns)
    if isinstance(wanted, str | bytes) or not isinstance(wanted, Iterable):
        return table, wanted  # refused later
    wanted = list(wanted)
    own, given = [str(column) for column in table.columns], [str(name) for name in wanted]
    if given == own or len(set(own)) < len(own) or len(set(given)) < len(given):
        return table, wanted
    if set(given) == set(own):
        return table.iloc[:, [own.index(name) for name in given]], wanted
    moved = [name for i, name in enumerate(given) if name in own and own.index(name) != i]
    if moved:
        raise ValueError(
            f"{names_argument} gives the name {moved[0]!r} to another column than the one that has it in {argument}. "
            f"Give the columns of {argument} as {names_argument}, in any order, or names that are all new."
        )
    return table, wanted


def by_name(values: Any, argument: str, known: Sequence[str]) -> Any:
    """The values of a dict or of a Series with names, in the order of ``known``; anything else as it is.

    Raises
    ------
    ValueError
        The names are not those that are known.
    """
    values = as_pandas(values, argument)
    if isinstance(values, pd.Series) and list(values.index) != list(range(len(values))):
        given = [(as_name(name), value) for name, value in values.items()]
    elif isinstance(values, Mapping):
        given = [(as_name(name), value) for name, value in values.items()]
    else:
        return values
    if sorted(name for name, _ in given) != sorted(known):
        raise ValueError(
            f"{argument} has the names {', '.join(name for name, _ in given)}. "
            f"Give one value for each of {', '.join(known)}."
        )
    return [dict(given)[name] for name in known]


# -------------------------------------------------------------------- parts


def _is_xarray(value: Any, kind: str) -> bool:
    # Whoever holds such an object has imported xarray.
    module = sys.modules.get("xarray")
    return module is not None and isinstance(value, getattr(module, kind))


def _from_dict(value: Mapping[Any, Any], argument: str) -> Labelled:
    columns = {name: as_pandas(column, argument) for name, column in value.items()}
    first: tuple[Any, int] | None = None
    labels: tuple[Any, pd.Index] | None = None
    for name, column in columns.items():
        if np.ndim(column) != 1:
            raise ValueError(
                f"{argument} column {name!r} has {np.ndim(column)} dimension(s). "
                "Give a table, or a dict of columns with one value for each row."
            )
        first = first or (name, len(column))
        if len(column) != first[1]:
            raise ValueError(
                f"{argument} column {name!r} has {counted(len(column), 'row')}, and column "
                f"{first[0]!r} has {first[1]}. "
                "Give columns of the same rows."
            )
        if isinstance(value[name], pd.Series):
            labels = labels or (name, column.index)
            if not column.index.equals(labels[1]):
                raise ValueError(
                    f"{argument} column {name!r} has another index than column {labels[0]!r}, so its rows may belong "
                    "to others. Align them first."
                )
    bare = {name: pd.Series(column).reset_index(drop=True) for name, column in columns.items()}
    return Labelled(pd.DataFrame(bare), None if labels is None else labels[1])


def _from_dataset(dataset: Any, argument: str, wanted: Sequence[str]) -> Labelled:
    """Variables and coordinates along the rows; a variable X of two dims gives its columns too."""
    row_dims = {v.dims[0] for v in dataset.data_vars.values() if v.ndim == 1}
    table = pd.DataFrame()
    if "X" in dataset.variables and dataset["X"].ndim == 2:
        found, row = _from_data_array(dataset["X"], wanted, row_dims)
        if not isinstance(found.values, pd.DataFrame):
            raise ValueError(
                f"{argument} is a Dataset whose variable X has no labels along {dataset['X'].dims}. "
                "Label its features by their names, or pass the variable itself."
            )
        table = found.values
    elif len(row_dims) == 1:
        (row,) = row_dims
    else:
        raise ValueError(
            f"{argument} is a Dataset with variables over {len(row_dims)} dims. Give variables over one dim, the rows."
        )
    along = {str(n): dataset[n].to_numpy() for n in dataset.variables if dataset[n].dims == (row,)}
    values = pd.concat([table, pd.DataFrame(along, index=pd.RangeIndex(dataset.sizes[row]))], axis=1)
    return Labelled(values, dataset.indexes.get(row))


def _from_data_array(array: Any, wanted: Sequence[str], row_dims: Iterable[Any]) -> tuple[Labelled, Any]:
    """The table with rows first, and the dim of its rows."""
    column = _column_dim(array, set(wanted), set(row_dims))
    row = next(dim for dim in array.dims if dim != column)
    values: Any = array.transpose(row, column).to_numpy()
    if column in array.indexes:
        values = pd.DataFrame(values, columns=list(array.indexes[column]))
    return Labelled(values, array.indexes.get(row)), row


def _column_dim(array: Any, wanted: set[str], row_dims: set[Any]) -> Any:
    first, second = array.dims
    labelled = [d for d in array.dims if wanted and wanted <= {str(v) for v in array.indexes.get(d, ())}]
    if len(labelled) == 1:
        return labelled[0]
    rows = [dim for dim in array.dims if dim in row_dims]
    if len(rows) == 1:
        return second if rows[0] == first else first
    if first == _ROW_DIM or second == _ROW_DIM:
        return second if first == _ROW_DIM else first
    return first if first in _COLUMN_DIMS and second not in _COLUMN_DIMS else second


def _in_pyarrow(value: Any, argument: str) -> Any:
    """A batch or array of Arrow, of whichever library, as a table or column of pyarrow."""
    try:
        import pyarrow as pa
    except ImportError:
        raise TypeError(
            f"{argument} is a {type(value).__name__} of Arrow, which pyarrow reads. Install pyarrow, or give a "
            "table of pandas or polars."
        ) from None
    if isinstance(value, pa.Array):
        return pa.chunked_array([value])
    return pa.table(value)


def _series(series: Any, nw: Any) -> pd.Series:
    dtype, name = series.dtype, series.name or None
    values: Any
    if isinstance(dtype, nw.Enum):
        values = pd.Categorical(series.to_list(), categories=list(dtype.categories), ordered=True)
    elif isinstance(dtype, nw.Categorical):
        values = _categorical(series)
    elif series.null_count() == 0 and dtype.is_numeric() and not isinstance(dtype, nw.Decimal):
        values = series.to_numpy()
    elif isinstance(dtype, nw.Boolean) and series.null_count() == 0:
        values = series.to_numpy()
    elif isinstance(dtype, nw.Datetime) and dtype.time_zone is None:
        values = series.to_numpy()
    else:  # text, dates, nulls among numbers: one object each
        values = pd.Series(series.to_list(), dtype=object)
    return pd.Series(values, name=name)


def _categorical(series: Any) -> pd.Categorical:
    """Arrow keeps the categories of a column with it, in an order; those of polars belong to the whole process."""
    native = series.to_native()
    if series.implementation.is_pyarrow():
        dictionary = native.unify_dictionaries().chunk(0).dictionary if native.num_chunks else []
        ordered = bool(native.type.ordered)
        return pd.Categorical(series.to_list(), [v.as_py() for v in dictionary], ordered=ordered)
    return pd.Categorical(series.to_list())
