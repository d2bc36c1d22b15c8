"""The stored notebooks: executed, without errors, and with nothing of the machine that ran them.

``python .ci/notebooks.py`` executes them again.
"""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path

import nbformat
import pytest

import zoo

FOLDER = Path(__file__).resolve().parent.parent / "notebooks"
NOTEBOOKS = sorted(FOLDER.glob("*.ipynb"))
MACHINE_PATHS = re.compile(r"(/tmp/|/home/|/root/|/Users/|/work/|/usr/|/opt/|/var/|site-packages|[A-Z]:\\\\)")


def test_there_is_a_tour():
    assert FOLDER / "tour.ipynb" in NOTEBOOKS


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_stored_executed(path):
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    assert notebook.metadata["kernelspec"]["name"] == "python3"
    cells = [cell for cell in notebook.cells if cell.cell_type == "code"]
    assert [cell.execution_count for cell in cells] == list(range(1, len(cells) + 1))
    for cell in cells:
        for output in cell.outputs:
            assert output.output_type != "error", cell.source
            assert output.get("name") != "stderr", f"{cell.source}\n{output.get('text')}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_outputs_belong_to_these_cells_and_this_version(path):
    """``python .ci/notebooks.py --write --only NAME`` runs a notebook again and stamps it."""
    notebook = nbformat.read(path, as_version=4)
    sources = "\0".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    expected = {"version": zoo.__version__, "sources": hashlib.sha256(sources.encode()).hexdigest()}
    assert dict(notebook.metadata.get("zoo", {})) == expected


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_no_path_of_a_machine(path):
    notebook = nbformat.read(path, as_version=4)
    for cell in notebook.cells:
        for output in cell.get("outputs", []):
            data = output.get("data", {"text": output.get("text", "")})
            shown = {kind: text for kind, text in data.items() if kind != "image/png"}
            found = MACHINE_PATHS.search(json.dumps(shown))
            assert found is None, f"{found} in the output of\n{cell.source}"


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.name)
def test_number_of_draws_can_be_set(path):
    assert "ZOO_NOTEBOOK_DRAWS" in path.read_text(encoding="utf-8")
