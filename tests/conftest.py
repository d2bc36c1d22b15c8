"""Settings of the whole suite."""

from __future__ import annotations

import os
from pathlib import Path

# One thread for linear algebra: the suite itself runs in parallel, and small matrices lose by more. Before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")

import matplotlib
import pytest

matplotlib.use("Agg")


@pytest.fixture(scope="session")
def has_data() -> bool:
    """Whether the real data sets are on this machine."""
    folder = os.environ.get("ZOO_DATA")
    return folder is not None and (Path(folder) / "school").is_dir()
