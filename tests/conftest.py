"""Settings of the whole suite."""

from __future__ import annotations

import os
import signal
from collections.abc import Generator, Iterator

# One thread for linear algebra: the suite itself runs in parallel, and small matrices lose by more. Before NumPy loads.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# The same for the boosting of scikit-learn, whose threads wait for each other where the suite runs in parallel.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# A graph whose variables do not note where they were made is built a tenth faster.
os.environ.setdefault("PYTENSOR_FLAGS", "traceback__limit=0")

import matplotlib
import pooch
import pytensor
import pytest

matplotlib.use("Agg")
_RETRIEVE = pooch.retrieve


def _retrieve_here(url: str, *args: object, **kwargs: object) -> str:
    """Download from a server of this machine, and from nowhere else."""
    if not url.startswith("http://127.0.0.1:"):
        # No OSError, which a loader would take for a network that is down.
        raise RuntimeError(
            f"a test asked for {url}, and tests download nothing. Give it the mark `data`, so that it reads ZOO_DATA."
        )
    return _RETRIEVE(url, *args, **kwargs)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> None:
    """A test that reads real data needs the folder where they lie."""
    if item.get_closest_marker("data") and not os.environ.get("ZOO_DATA"):
        pytest.skip("ZOO_DATA is not set: it names the folder of the data sets that this test reads")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol(item: pytest.Item) -> Generator[None, object, object]:
    """PyTensor's functions as Python operations, also in fixtures: a fresh machine compiles each model for seconds.

    The slow tests of samplers, and those marked ``compiled``, have the backend that users have, as have the README and
    the notebooks. The contract and the code of the pages, which fit many models with few draws, have it in the
    scheduled run alone. Downloads are refused, and only tests with the mark ``data`` see the data sets of this
    machine: those that lack it would pass here and fail elsewhere.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(pooch, "retrieve", _retrieve_here)
        if not item.get_closest_marker("data"):
            patch.delenv("ZOO_DATA", raising=False)
            patch.setenv("ZOO_CACHE", os.devnull)
        return (yield from _on_its_backend(item))


def _on_its_backend(item: pytest.Item) -> Generator[None, object, object]:
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
