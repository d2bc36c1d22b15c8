"""Tables that come batch by batch: files, datasets, readers and iterators of other libraries."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

__all__ = ["batches_of"]

_WANTED = (
    "Give the path of a Parquet or CSV file, of a folder or a pattern of such; a dataset or reader of Arrow; a "
    "LazyFrame of polars; a dask DataFrame; or an iterable of tables, as pandas.read_csv(..., chunksize=100_000) is."
)


def batches_of(source: Any) -> Iterator[Any]:
    """The tables of a source, one by one.

    Parameters
    ----------
    source
        A path, a pattern of paths or a list of them (Parquet, CSV); what has ``to_batches`` (datasets and tables of
        Arrow), ``collect_batches`` (a LazyFrame of polars), ``partitions`` (a DataFrame of dask) or Arrow's interface
        of streams (relations of DuckDB); a table, which is one batch; or any iterable of tables.

    Raises
    ------
    TypeError
        It is nothing of these.
    FileNotFoundError
        No file has this path or pattern.
    ImportError
        A path is given, and pyarrow is not installed.
    """
    paths = _paths(source)
    if paths is not None:
        source = _dataset(paths)
    kind = type(source).__module__.partition(".")[0]
    if isinstance(source, pd.DataFrame | Mapping | np.ndarray) or (
        kind in ("polars", "xarray") and not hasattr(source, "collect_batches")
    ):
        found: Iterable[Any] = [source]
    elif hasattr(source, "collect_batches"):
        found = source.collect_batches()
    elif hasattr(source, "to_batches"):
        found = source.to_batches()
    elif hasattr(source, "partitions") and hasattr(source, "compute"):
        found = (part.compute() for part in source.partitions)
    elif hasattr(source, "__arrow_c_stream__") and not hasattr(source, "read_next_batch"):
        import pyarrow

        found = pyarrow.RecordBatchReader.from_stream(source)
    elif isinstance(source, Iterable) and not isinstance(source, str | bytes):
        found = source
    else:
        advice = (
            "A LazyFrame of polars 1.34 or later can be read batch by batch." if kind == "polars" else _WANTED
        )
        raise TypeError(f"batches is a {type(source).__name__}. {advice}")
    for batch in found:
        # Record batches of Arrow are no tables to the libraries that read tables of all kinds.
        yield batch.to_pandas() if type(batch).__name__ == "RecordBatch" else batch


def _paths(source: Any) -> list[str] | None:
    """The files that a path, a pattern, or a list of them names; None where the source is something else."""
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        found = [text] if Path(text).exists() else sorted(glob(text))
        if not found:
            raise FileNotFoundError(f"batches is {text!r}, and there is no such file. {_WANTED}")
        return found
    if isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        return [path for one in source for path in _paths(one) or []]
    return None


def _dataset(paths: list[str]) -> Any:
    """A dataset of Arrow of these files; folders of the form ``key=value`` become columns."""
    try:
        from pyarrow import dataset
    except ImportError as error:
        raise ImportError(
            "batches is a path, and pyarrow reads it, which is not installed: pip install pyarrow. Or hand over "
            "an iterable of tables."
        ) from error
    is_csv = all(Path(path).suffix.lower() == ".csv" for path in paths)
    folder = len(paths) == 1 and Path(paths[0]).is_dir()
    return dataset.dataset(
        paths[0] if folder else paths, format="csv" if is_csv else "parquet", partitioning="hive"
    )
