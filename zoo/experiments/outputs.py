"""What the papers' experiments write: tables as CSV and Markdown, figures as CSV and PNG."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pandas as pd
from rich.console import Console

from zoo.report import save_figure, write_csv
from zoo.support.files import staged_file
from zoo.support.runner import Outcome

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["markdown", "print_failures", "write_figure", "write_table"]


def markdown(frame: pd.DataFrame) -> str:
    """A table of text with its index, in Markdown."""
    lines = [[str(frame.index.name or ""), *map(str, frame.columns)], ["---"] * (1 + frame.shape[1])]
    lines += [[str(value) for value in row] for row in frame.itertuples()]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def write_table(
    path: Path, frame: pd.DataFrame, texts: Sequence[tuple[str, pd.DataFrame]], console: Console
) -> None:
    """Write the numbers to ``path.csv``, and their tables of text, each with its heading or "", to ``path.md``."""
    with staged_file(f"{path}.csv") as temporary:
        write_csv(frame, temporary)
    page = "\n".join((f"**{name}**\n\n" if name else "") + markdown(text) for name, text in texts)
    with staged_file(f"{path}.md") as temporary:
        temporary.write_text(page, encoding="utf-8")
    console.print(f"Written to {path}.csv and .md", markup=False, soft_wrap=True)


def write_figure(
    path: Path, frame: pd.DataFrame, draw: Callable[[Any], Figure], drawn: Any, console: Console
) -> None:
    """Write the numbers behind a picture to ``path.csv``, and ``draw(drawn)`` to ``path.png``."""
    with staged_file(f"{path}.csv") as temporary:
        write_csv(frame, temporary, index=False)
    with staged_file(f"{path}.png") as temporary:
        # The temporary name does not end in .png, from which matplotlib would know the format.
        picture = temporary.with_suffix(".png")
        save_figure(draw, picture, drawn)
        picture.replace(temporary)
    console.print(f"Written to {path}.csv and .png", markup=False, soft_wrap=True)


def print_failures(outcome: Outcome, console: Console) -> None:
    """Tracebacks of the jobs that failed."""
    for name, failure in outcome.failures.items():
        console.print(f"Job {name} failed:\n{failure}", markup=False, soft_wrap=True)
