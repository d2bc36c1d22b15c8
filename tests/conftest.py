"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator
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


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """PyTensor's functions as Python operations, also in fixtures: a fresh machine compiles each model for seconds.

    The slow tests of samplers, and those marked ``compiled``, have the backend that users have, as have the README and
    the notebooks. The contract and the code of the pages, which fit many models with few draws, have it in the
    scheduled run alone.
    """
    few_draws = item.path.name in ("test_contract.py", "test_docs.py")
    slow = not few_draws and item.get_closest_marker("statistical")
    if slow or item.get_closest_marker("compiled") or item.get_closest_marker("scheduled"):
        return (yield)
    with pytensor.config.change_flags(mode="FAST_COMPILE"):
        return (yield)


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
