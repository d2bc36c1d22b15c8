"""Tables and verdicts in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

if TYPE_CHECKING:
    from zoo.core.fit import Fit

__all__ = ["number", "print_diagnostics", "print_frame"]


def print_diagnostics(console: Console, fit: Fit, warned: bool = False) -> None:
    """Worst R-hat and smallest effective sample size of all entries of a posterior, and whether they will do.

    ``warned`` leaves out what the fit has just said in its warning: what to do.
    """
    from zoo.core.verdict import verdict_text

    console.print(verdict_text(fit, brief=warned), markup=False, soft_wrap=True)


def print_frame(console: Console, frame: pd.DataFrame, title: str, digits: int = 3) -> None:
    """Print a table with its index."""
    table = Table(title=title, title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(str(frame.index.name or ""), no_wrap=True)
    for name, column in frame.items():
        numeric = pd.api.types.is_numeric_dtype(column.dtype)
        table.add_column(str(name), justify="right" if numeric else "left", overflow="fold", min_width=6)
    for row in frame.itertuples():
        # Text, not str: names with square brackets would be read as markup.
        table.add_row(*(Text(number(value, digits)) for value in row))
    console.print(table)


def number(value: Any, digits: int) -> str:
    """A value as tables show it: a float with so many digits, all else as it is."""
    if not isinstance(value, float | np.floating):
        return str(value)
    shown = float(value)
    return f"{shown:.{digits}f}" if abs(shown) < 1e4 else f"{shown:.{digits + 3}g}"
