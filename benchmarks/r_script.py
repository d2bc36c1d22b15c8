"""Runs a script of R beside a benchmark, with one thread of linear algebra."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

__all__ = ["run_r"]


def run_r(script: str, folder: Path, draws: int) -> float | None:
    """What the script prints last, its seconds; None where it fails. Its arguments are the folder and the draws."""
    (folder / "run.R").write_text(script)
    done = subprocess.run(
        ["Rscript", str(folder / "run.R"), str(folder), str(draws)],
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode:
        print(f"R did not run: {done.stderr.strip()[-200:]}")
        return None
    return float(done.stdout.split()[-1])
