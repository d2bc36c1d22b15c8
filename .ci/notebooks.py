"""Execute every notebook of ``notebooks/``: with few draws in a scratch folder, or in full with the outputs kept.

``python .ci/notebooks.py`` prints one line per notebook and exits with 1 if a cell fails.
``python .ci/notebooks.py --write`` runs them with their own number of draws and stores the outputs, with a stamp
of the version and of the cells that they belong to. ``--only tour`` takes one notebook.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import shutil
import sys
import tempfile
import time
import warnings
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbclient.exceptions import CellExecutionError, CellTimeoutError, DeadKernelError

from zoo._version import __version__

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
FEW_DRAWS = "20"
# With few draws; in full a notebook has the machine to itself, as some of them say how long they took.
AT_ONCE = 2
SECONDS_PER_CELL = 1200
HAS_DOT = shutil.which("dot") is not None
_WITHOUT_DOT = "ok (no pictures of models: dot is missing)"
_COLOURS = re.compile(r"\x1b\[[0-9;]*m")


def stamp(notebook: nbformat.NotebookNode) -> dict[str, str]:
    """What outputs belong to: the version of the package, and the SHA-256 of the sources of all code cells."""
    sources = [cell.source for cell in notebook.cells if cell.cell_type == "code"]
    digest = hashlib.sha256("\0".join(sources).encode()).hexdigest()
    return {"version": __version__, "sources": digest}


def execute(path: Path, write: bool) -> tuple[float, str | None]:
    """Run one notebook; return its seconds, and the error of its first failing cell or None."""
    started = time.perf_counter()
    error = _first_error(path, write)
    return time.perf_counter() - started, error


def _first_error(path: Path, write: bool) -> str | None:
    """Run one notebook; return the error of its first failing cell, or None."""
    warnings.filterwarnings("ignore", module="jupyter_client|zmq")
    notebook = nbformat.read(path, as_version=4)
    if not HAS_DOT:  # Graphviz is no Python package: a machine without it still runs the rest
        for cell in notebook.cells:
            if "model_to_graphviz" in cell.source:
                cell.metadata.setdefault("tags", []).append("raises-exception")
    with tempfile.TemporaryDirectory() as folder:
        client = NotebookClient(
            notebook,
            timeout=SECONDS_PER_CELL,
            kernel_name="python3",
            resources={"metadata": {"path": folder}},
            record_timing=False,
            extra_arguments=["--log-level=ERROR"],
        )
        try:
            client.execute()
        except (CellExecutionError, CellTimeoutError, DeadKernelError) as error:
            return _COLOURS.sub("", str(error))
    if write:
        # What the kernel reports of this machine is no part of the notebook.
        notebook.metadata["language_info"] = {"name": "python"}
        notebook.metadata["zoo"] = stamp(notebook)
        nbformat.write(notebook, path)
    return None


def main() -> int:
    """Run the notebooks; return the exit code."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--write", action="store_true", help="run in full and store the outputs")
    parser.add_argument("--only", metavar="NAME", help="run the notebook of this name alone")
    given = parser.parse_args()
    write = given.write
    if write and not HAS_DOT:
        print("the pictures of models need the program dot: install Graphviz", file=sys.stderr)
        return 1
    if not write:
        os.environ["ZOO_NOTEBOOK_DRAWS"] = FEW_DRAWS
        # Of few draws most of the time is that of compiling the models for NUTS.
        os.environ.setdefault("NUMBA_OPT", "1")
    failed = False
    paths = sorted(NOTEBOOKS.glob("*.ipynb" if given.only is None else f"{given.only}.ipynb"))
    if not paths:
        print(f"no notebook in {NOTEBOOKS}", file=sys.stderr)
        return 1
    with ProcessPoolExecutor(1 if write else AT_ONCE) as pool:
        for path, (seconds, error) in zip(paths, pool.map(partial(execute, write=write), paths), strict=True):
            failed |= error is not None
            verdict = "FAILED" if error is not None else "ok" if HAS_DOT else _WITHOUT_DOT
            print(f"{path.name}: {verdict} in {seconds:.0f} s", flush=True)
            if error is not None:
                print(error, file=sys.stderr)
    return int(failed)


if __name__ == "__main__":
    raise SystemExit(main())
