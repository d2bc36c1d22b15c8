"""Reader of ARFF files with numeric and 0/1 columns, dense or sparse rows."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

__all__ = ["read_arff"]

# scipy.io.arff reads neither sparse rows nor quoted names with blanks.
_ATTRIBUTE = re.compile(
    r"""@attribute\s+(?:'((?:[^'\\]|\\.)*)'|"((?:[^"\\]|\\.)*)"|(\S+))\s+\S""", re.IGNORECASE
)


def read_arff(path: Path) -> tuple[list[str], np.ndarray]:
    """Column names and values of an ARFF file.

    Parameters
    ----------
    path : pathlib.Path
        Dense rows ``v, v, ...`` and sparse rows ``{column v, ...}`` (0-based columns, the rest 0) may mix.

    Returns
    -------
    columns : list of str
    values : (n, len(columns)) float64
        NaN where the file has ``?``.

    Raises
    ------
    ValueError
        A row is of the wrong length or holds a value that is no number; names the file and the line.
    """
    columns: list[str] = []
    rows: list[np.ndarray] = []
    in_data = False
    with open(path, encoding="utf-8") as lines:
        for number, raw in enumerate(lines, start=1):
            line = raw.strip()
            if not line or line.startswith("%"):
                continue
            if in_data:
                try:
                    rows.append(_values(line, len(columns)))
                except ValueError as error:
                    raise ValueError(f"{path}, line {number}: {error}.") from None
            elif line.lower().startswith("@attribute"):
                columns.append(_attribute_name(line, path, number))
            elif line.lower().startswith("@data"):
                in_data = True
    if not rows:
        raise ValueError(f"{path} holds no data rows. It is not an ARFF file, or it was cut off.")
    return columns, np.stack(rows)


def _attribute_name(line: str, path: Path, number: int) -> str:
    match = _ATTRIBUTE.match(line)
    if match is None:
        raise ValueError(f"{path}, line {number}: no name and type after @attribute.")
    single, double, plain = match.groups()
    if plain is not None:
        return plain
    return re.sub(r"\\(.)", r"\1", single if single is not None else double)


def _values(line: str, n_columns: int) -> np.ndarray:
    if line.startswith("{"):
        return _sparse_values(line, n_columns)
    cells = line.split(",")
    if len(cells) != n_columns:
        raise ValueError(f"{len(cells)} values for {n_columns} columns")
    return np.array([_number(cell) for cell in cells])


def _sparse_values(line: str, n_columns: int) -> np.ndarray:
    values = np.zeros(n_columns)
    for entry in line.strip("{} ").split(","):
        if entry.strip():
            column, cell = entry.split()
            if not 0 <= int(column) < n_columns:
                raise ValueError(f"column {column} of {n_columns} columns")
            values[int(column)] = _number(cell)
    return values


def _number(cell: str) -> float:
    text = cell.strip().strip("'\"")
    return np.nan if text == "?" else float(text)
