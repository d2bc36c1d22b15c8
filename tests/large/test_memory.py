"""Fits of many tasks in a process whose memory is capped: nothing grows with draws times tasks."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def run_capped(
    tasks: int, keep: str, gigabytes: float, folder: Path, model: str = "population"
) -> subprocess.CompletedProcess[str]:
    asked = [str(tasks), keep, str(gigabytes), str(folder), model]
    command = [sys.executable, "-m", "tests.large.capped", *asked]
    # Of every thread the C library of Linux maps 64 MB, of which it uses little.
    environment = {**os.environ, "MALLOC_ARENA_MAX": "2", "OMP_NUM_THREADS": "1"}
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False, env=environment)


def check(done: subprocess.CompletedProcess[str]) -> dict[str, float]:
    assert done.returncode == 0, done.stderr[-3000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["same_after_loading"] and not found["all_draws_would_fit"]
    assert not found["tasks_by_tasks_would_fit"]
    # What is of the population is known to about 1 / sqrt(tasks); a coefficient of a task as its law says.
    assert found["error_of_population"] < 0.05
    assert found["worst_z"] < 6.0
    return found


# Draws of 30,000 tasks x 5 features by 2 x 200 draws would take 0.48 GB.
TASKS, CAP = 30_000, 0.35


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is capped as Linux does it")
def test_a_fit_keeps_what_there_is_room_for(tmp_path):
    """It sees that its draws have no room, keeps less, and predicts, saves and loads within the cap."""
    assert check(run_capped(TASKS, "default", CAP, tmp_path))["keep"] in ("moments", "population")


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is capped as Linux does it")
def test_a_kernel_machine_has_no_matrix_of_tasks_by_tasks(tmp_path):
    """That of 30,000 tasks would take 7.2 GB; nor does it make the draws that it does not keep."""
    assert check(run_capped(TASKS, "default", CAP, tmp_path, "machine"))["keep"] in ("moments", "population")


@pytest.mark.skipif(sys.platform != "linux", reason="the address space is capped as Linux does it")
def test_rows_that_do_not_fit_are_read_by_batches(tmp_path):
    """Six million rows of 30,000 tasks would take 0.29 GB, above the cap; a summary has a thirtieth as many."""
    assert not check(run_capped(TASKS, "population", 0.25, tmp_path, "batches"))["rows_would_fit"]


@pytest.mark.statistical
@pytest.mark.skipif(sys.platform != "linux", reason="the address space is capped as Linux does it")
@pytest.mark.parametrize("keep", ["population", "moments"])
@pytest.mark.scheduled
def test_three_hundred_thousand_tasks_in_two_gigabytes(keep, tmp_path):
    """All of its draws would take 4.8 GB; the sums, states and rows that are held do not grow with them."""
    found = check(run_capped(300_000, keep, 2.0, tmp_path))
    assert found["peak_gigabytes"] < 3.0
