"""Text tables, CSV and the like: the header is read first, and no row has more fields than it has names."""

from __future__ import annotations

import warnings
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zoo.support.warning_types import warn_user

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["read_text_table", "text_table_in_chunks"]

# How columns that have no name in the file begin here.
_UNNAMED = "\0unnamed"
# How pandas begins what it says of a line.
_OF_PANDAS = "Error tokenizing data. C error: "


def read_text_table(path: Path, separator: str = ",", **options: Any) -> pd.DataFrame:
    """The table of a text file; its index numbers the rows in the order of the file.

    Parameters
    ----------
    path : pathlib.Path
    separator : str
        Between fields.
    **options
        Of :func:`pandas.read_csv`.

    Raises
    ------
    ValueError
        The file is empty, a name stands twice in the header, or a row has more fields than the header has names.

    Warns
    -----
    UserWarning
        A column has no name, as row numbers have that were written beside the table: it is left out.
    """
    import pandas as pd

    with _strictly(path):
        names = _header(path, separator)
        table = pd.read_csv(path, sep=separator, header=0, names=names, index_col=False, **options)
    return _named(table, path)


def text_table_in_chunks(
    path: Path, rows: int, separator: str = ",", **options: Any
) -> Generator[pd.DataFrame]:
    """The same, so many rows at a time."""
    import pandas as pd

    with _strictly(path):
        names = _header(path, separator)
        how: dict[str, Any] = {"sep": separator, "header": 0, "names": names, "index_col": False, **options}
        reader = pd.read_csv(path, chunksize=rows, **how)
    with reader:
        while True:
            with _strictly(path):
                chunk = next(reader, None)
            if chunk is None:
                return
            yield _named(chunk, path)


@contextmanager
def _strictly(path: Path) -> Iterator[None]:
    """What pandas warns of, or refuses without naming the file, is an error that names it."""
    import pandas as pd

    with warnings.catch_warnings():
        warnings.simplefilter("error", pd.errors.ParserWarning)
        try:
            yield
        except pd.errors.ParserWarning:
            raise ValueError(
                f"the rows of {str(path)!r} have more fields than its header has names. Name every column; R leaves "
                "out the name of row names, so give it row.names=FALSE."
            ) from None
        except pd.errors.EmptyDataError:
            raise ValueError(f"{str(path)!r} is empty. Give a table with a header.") from None
        except pd.errors.ParserError as error:
            raise ValueError(
                f"{str(path)!r} cannot be read: {str(error).strip().removeprefix(_OF_PANDAS)}."
            ) from None


def _header(path: Path, separator: str) -> list[str]:
    """Names of the columns, each once."""
    import pandas as pd

    first = pd.read_csv(path, sep=separator, header=None, nrows=1, dtype=str, keep_default_na=False)
    names = [str(name) for name in first.iloc[0]]
    twice = next((name for i, name in enumerate(names) if name and name in names[:i]), None)
    if twice is not None:
        raise ValueError(
            f"the header of {str(path)!r} has {twice!r} twice. Rename one of the columns, or leave it out."
        )
    return [name or f"{_UNNAMED}{i}" for i, name in enumerate(names)]


def _named(table: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The columns that have a name; a warning, once for a file, where others are left out."""
    unnamed = [name for name in table.columns if name.startswith(_UNNAMED)]
    if unnamed and table.index[:1].isin([0]).any():
        warn_user(
            f"column {int(unnamed[0].removeprefix(_UNNAMED)) + 1} of {str(path)!r} has no name, and is left out. "
            "Tables are written with a column of row numbers unless index=False is given."
        )
    return table.drop(columns=unnamed)
