"""Tables that come batch by batch: files, datasets, readers and iterators of other libraries."""

from __future__ import annotations

import os
from collections.abc import Generator, Iterable, Mapping
from contextlib import closing
from glob import glob
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from zoo.support.text_tables import text_table_in_chunks

__all__ = ["batches_of"]

# Of a file that are read at once.
_ROWS = 200_000
_WANTED = (
    "Give the path of a Parquet or CSV file, of a folder or a pattern of such; a dataset or reader of Arrow; a "
    "LazyFrame of polars; a dask DataFrame; or an iterable of tables, as pandas.read_csv(..., chunksize=100_000) is."
)


def batches_of(source: Any, task: str | None = None) -> Generator[Any]:
    """The tables of a source, one by one.

    Parameters
    ----------
    source
        A path, a pattern of paths or a list of them (Parquet, CSV); what has ``to_batches`` (datasets and tables of
        Arrow), ``collect_batches`` (a LazyFrame of polars), ``partitions`` (a DataFrame of dask) or Arrow's interface
        of streams (relations of DuckDB); a table, which is one batch; or any iterable of tables.
    task : str, optional
        Column of a CSV file that is read as text, so that "01" does not become 1.

    Raises
    ------
    TypeError
        It is nothing of these.
    FileNotFoundError
        No file has this path or pattern.
    ImportError
        A path of a Parquet file is given, and pyarrow is not installed.
    """
    files = _files(source)
    if files is not None:
        for path in files:
            with closing(_of_file(path, task)) as tables:
                yield from tables
        return
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


def _files(source: Any) -> list[Path] | None:
    """The files that a path, a pattern, or a list of them names; None where the source is something else."""
    if isinstance(source, str | os.PathLike):
        text = os.fspath(source)
        found = [Path(text)] if Path(text).exists() else sorted(map(Path, glob(text, recursive=True)))
        if not found:
            raise FileNotFoundError(f"batches is {text!r}, and there is no such file. {_WANTED}")
        return [file for path in found for file in (_inside(path) if path.is_dir() else [path])]
    if isinstance(source, list | tuple) and source and all(isinstance(s, str | os.PathLike) for s in source):
        return [file for one in source for file in _files(one) or []]
    return None


def _inside(folder: Path) -> list[Path]:
    """The files of a folder and of those in it, but hidden ones."""
    found = sorted(path for path in folder.rglob("*") if path.is_file() and path.name[0] not in "._")
    if not found:
        raise FileNotFoundError(f"batches is {str(folder)!r}, a folder without files. {_WANTED}")
    return found


def _of_file(path: Path, task: str | None) -> Generator[pd.DataFrame]:
    """The tables of one file; folders of the form ``key=value`` around it are columns."""
    suffixes = [suffix.lower() for suffix in path.suffixes]
    keys = dict(part.split("=", 1) for part in path.parent.parts if part.count("=") == 1)
    columns = {key: value if key == task else _number(value) for key, value in keys.items()}
    if {".csv", ".tsv"} & set(suffixes):
        found = _of_text(path, "\t" if ".tsv" in suffixes else ",", task)
    elif suffixes[-1:] == [".parquet"]:
        found = _of_parquet(path)
    else:
        raise ValueError(
            f"batches names {str(path)!r}, which is neither .parquet nor .csv. Hand over an iterable of its tables."
        )
    with closing(found):
        for table in found:
            yield table.assign(**columns)


def _of_text(path: Path, separator: str, task: str | None) -> Generator[pd.DataFrame]:
    dtype = None if task is None else {task: str}
    yield from text_table_in_chunks(path, _ROWS, separator, dtype=dtype)


def _of_parquet(path: Path) -> Generator[pd.DataFrame]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ImportError(
            "batches is a Parquet file, and pyarrow reads it, which is not installed: pip install pyarrow. Or hand "
            "over an iterable of tables."
        ) from error
    with parquet.ParquetFile(path) as file:
        for batch in file.iter_batches(batch_size=_ROWS):
            yield batch.to_pandas()


def _number(text: str) -> Any:
    try:
        return float(text)
    except ValueError:
        return text
