"""Everything about a fit in one folder: tables, pictures, and the page that shows them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from zoo.core.completeness import shortfall
from zoo.core.convergence import has_chains
from zoo.data.new_rows import require_test_data
from zoo.report.accuracy import accuracy_of, yardsticks_of
from zoo.report.page import page
from zoo.report.pictures import pictures_of, save_figure
from zoo.report.printing import print_diagnostics
from zoo.report.prior_share import prior_table
from zoo.report.tables import summary_table, with_scale, write_csv
from zoo.support.files import staged_folder

if TYPE_CHECKING:
    from zoo.core.fit import Fit
    from zoo.data.multitask import MultiTaskData

__all__ = ["run_report", "write_report"]


def write_report(
    fit: Fit,
    out: str | os.PathLike[str],
    test: MultiTaskData | None = None,
    saved_as: str | os.PathLike[str] | None = None,
    random_seed: Any = 0,
) -> list[str]:
    """Write ``report.html``, its tables and its pictures into a folder; return the file names.

    All of them appear at once when the last one is written, or none does.
    """
    if test is not None:
        require_test_data(test)
    with staged_folder(out) as folder:
        yardsticks = yardsticks_of(fit, random_seed)
        summary = with_scale(summary_table(fit), fit)
        write_csv(summary, folder / "summary.csv")
        diagnostics = fit.diagnostics() if has_chains(fit) else None
        if diagnostics is not None:
            write_csv(diagnostics, folder / "diagnostics.csv")
        priors = prior_table(fit)
        if priors is not None:
            write_csv(priors, folder / "priors.csv")
        accuracy = None if test is None else accuracy_of(fit, yardsticks, test, random_seed)
        if accuracy is not None:
            write_csv(accuracy.table, folder / "accuracy.csv")
        pictures = list(pictures_of(fit, test, yardsticks.get("IndependentTasks"), random_seed))
        for picture in pictures:
            save_figure(picture.draw, folder / picture.file)
        text = page(fit, folder, pictures, summary, diagnostics, priors, accuracy, saved_as)
        (folder / "report.html").write_text(text, encoding="utf-8")
        return sorted(file.name for file in folder.iterdir())


def run_report(
    fit: Fit,
    out: str | os.PathLike[str],
    console: Console,
    test: MultiTaskData | None = None,
    saved_as: Path | None = None,
) -> list[str]:
    """The same, and say in the terminal what was fitted and whether it converged."""
    written = write_report(fit, out, test, saved_as)
    console.print(f"{fit!r}", markup=False, soft_wrap=True)
    if short := shortfall(fit.idata):
        console.print(f"The fit was {short}.", markup=False, soft_wrap=True)
    if fit.data.transform is not None:
        console.print(
            "The data were standardized: summary, coefficients and traces are on that scale. Predictions are on yours.",
            markup=False,
            soft_wrap=True,
        )
    print_diagnostics(console, fit)
    return written
