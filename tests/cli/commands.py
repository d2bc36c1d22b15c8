"""Settings and checks that the tests of the command line share."""

from __future__ import annotations

from zoo.cli import main

FEW = ["--draws", "20", "--tune", "20", "--chains", "2"]
PICTURES = {"task_correlation.png", "coefficient_forest.png", "trace_rank.png"}


def assert_refused(capsys, folder, arguments, message):
    """Exit code 2, one line on stderr, and no file that was not there."""
    before = sorted(folder.rglob("*"))
    capsys.readouterr()
    assert main([str(a) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and error.count("\n") == 1
    assert message in error
    assert sorted(folder.rglob("*")) == before


def names_in(folder):
    return {path.name for path in folder.iterdir()}
