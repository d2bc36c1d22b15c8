"""Reports of a fit: tables, pictures, and a page to hand on."""

from zoo.report.folder import run_report, write_report
from zoo.report.pictures import save_figure
from zoo.report.printing import print_diagnostics, print_frame
from zoo.report.tables import complete, summary_table, with_scale, write_csv

__all__ = [
    "complete",
    "print_diagnostics",
    "print_frame",
    "run_report",
    "save_figure",
    "summary_table",
    "with_scale",
    "write_csv",
    "write_report",
]
