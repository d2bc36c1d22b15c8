"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path

# One thread for linear algebra: the suite itself runs in parallel, and small matrices lose by more. Before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The same for the boosting of scikit-learn, whose threads wait for each other where the suite runs in parallel.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A graph whose variables do not note where they were made is built a tenth faster.
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0")

import matplotlib
import pytensor
import pytest

matplotlib.use("Agg")


@pytest.fixture(scope="session")
def has_data() -> bool:
    """Whether the real data sets are on this machine."""
    folder = os.environ.get("ZOO_DATA")
    return folder is not None and (Path(folder) / "school").is_dir()


@pytest.fixture
def uncompiled() -> Iterator[None]:
    """PyTensor's functions as Python operations: compiling a density takes a minute, a few values of it none."""
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        yield


@pytest.fixture
def interruptible() -> Iterator[None]:
    """Ctrl-C as in a terminal, also where a parent process (a shell's background job) had it ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
