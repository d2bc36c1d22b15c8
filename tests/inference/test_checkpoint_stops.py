"""Checkpoints of fits that the system kills or the user interrupts, and of two runs at once."""

from __future__ import annotations

import _thread
import multiprocessing as mp
import shutil
import subprocess
import sys
import threading
import time
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zoo
from tests.inference.checkpoints import ENGINES, assert_same_fit, fit_engine, open_as, whole_fit
from zoo.inference.run import chain_record
from zoo.inference.run.checkpoint import open_checkpoint

# ---------------------------------------------------------------- killed by the system


_GO = "sampling"


def _child(engine: str, path: str, options: dict[str, Any], ready: Any) -> None:
    chain_record._SECONDS_BETWEEN_SAVES = chain_record._SHARE_OF_TIME = 0.0
    chain_record._BLOCK_BYTES = 3000
    ready.send(_GO)
    fit_engine(engine, path, **options)


def _kill_a_fit(engine: str, path: Path, seconds: float, **options: Any) -> bool:
    """Start a fit in a process, SIGKILL it so long after its first state; return whether it was still at work."""
    context = mp.get_context("forkserver")
    context.set_forkserver_preload(
        [
            "zoo.models.max_margin.matrix_normal",
            "zoo.models.niw.gaussian_process",
            "zoo.inference.run.chains",
            "zarr",
        ]
    )
    ready, given = context.Pipe(duplex=False)
    process = context.Process(target=_child, args=(engine, str(path), options, given))
    process.start()
    assert ready.recv() == _GO
    while process.is_alive() and not list(path.glob("chain-*/state")):
        time.sleep(0.005)
    process.join(seconds)
    at_work = process.is_alive()
    process.kill()
    process.join()
    for pipe in (ready, given):
        pipe.close()
    process.close()
    return at_work


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
def test_sigkill(tmp_path):
    engine, path, options = "MaxMargin, hinge", tmp_path / "run.zarr", dict(draws=300)
    whole = fit_engine(engine, **options)
    rng = np.random.default_rng()
    assert any(_kill_a_fit(engine, path, rng.uniform(0.0, 1.5), **options) for _ in range(2))
    assert_same_fit(fit_engine(engine, path, **options), whole)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    "kills",
    [pytest.param(n, marks=pytest.mark.scheduled) for n in (6, 50)],
)
def test_many_sigkills(kills, tmp_path):
    # No random error: each must agree in every bit. The process saves after every sweep, so that most of the moments
    # are in the middle of a save.
    engines = [name for name in ENGINES if name != "own subclass"]
    options = dict(draws=300)
    whole = {name: fit_engine(name, **options) for name in engines}
    rng = np.random.default_rng()
    at_work = 0
    for k in range(kills):
        engine, path = engines[k % len(engines)], tmp_path / f"{k}.zarr"
        at_work += _kill_a_fit(engine, path, rng.uniform(0.0, 3.0), **options)
        assert_same_fit(fit_engine(engine, path, **options), whole[engine])
        shutil.rmtree(path)
    assert at_work >= kills - max(4, kills // 5)


# ---------------------------------------------------------------- Ctrl-C


@contextmanager
def interrupted(monkeypatch, sweep_seconds, after):
    """Sweeps of the Gibbs sampler that take some seconds more, and an interrupt some seconds after the start."""
    kernel = zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel
    sweep = kernel.sweep
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "sweep", lambda *args: (time.sleep(sweep_seconds), sweep(*args)))
        threading.Timer(after, _thread.interrupt_main).start()
        yield


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_returns_the_draws_and_goes_on(cores, tmp_path, monkeypatch):
    engine, path, options = "NIWLinear", tmp_path / "run.zarr", dict(draws=300, tune=10)
    whole = fit_engine(engine, **options)
    with interrupted(monkeypatch, sweep_seconds=0.005, after=0.8):
        with pytest.warns(UserWarning, match="interrupted: "):
            part = fit_engine(engine, path, cores=cores, **options)
    n = part.posterior.sizes["draw"]
    assert 0 < n < 300
    kept = whole.posterior.isel(draw=slice(n), chain=slice(part.posterior.sizes["chain"]))
    assert part.posterior.equals(kept)
    assert_same_fit(fit_engine(engine, path, **options), whole)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_warm_up_keeps_it(tmp_path, monkeypatch):
    engine, path = "NIWLinear", tmp_path / "run.zarr"
    with interrupted(monkeypatch, sweep_seconds=0.05, after=0.4):
        with pytest.raises(KeyboardInterrupt, match="warm-up"):
            fit_engine(engine, path)
    with open_as(path, 40) as record:
        assert 0 < record.load().sweeps < 20
    assert_same_fit(fit_engine(engine, path), whole_fit(engine))


# ---------------------------------------------------------------- two at once


def test_a_second_process_is_refused_and_a_killed_one_forgotten(tmp_path):
    path = tmp_path / "run.zarr"
    code = (
        "import sys, time; from zoo.inference.run.checkpoint import open_checkpoint\n"
        "with open_checkpoint(sys.argv[1], {}) as c:\n"
        "    print('open', flush=True); time.sleep(600)\n"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, str(path)], stdout=subprocess.PIPE, text=True)
    with holder:
        assert holder.stdout is not None and holder.stdout.readline() == "open\n"
        start = time.monotonic()
        with (
            pytest.raises(RuntimeError, match=r"run\.zarr' is in use by another process"),
            open_checkpoint(path, {}),
        ):
            pass
        assert time.monotonic() - start < 1.0
        holder.kill()
    with open_checkpoint(path, {}) as opened:
        assert opened.folder == path


def test_two_threads_on_one_checkpoint(tmp_path):
    path = tmp_path / "run.zarr"
    with open_checkpoint(path, {}):
        found: list[BaseException] = []

        def second() -> None:
            try:
                with open_checkpoint(path, {}):
                    pass
            except RuntimeError as error:
                found.append(error)

        thread = threading.Thread(target=second)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_an_orphan_holds_its_chain(tmp_path, monkeypatch):
    monkeypatch.setattr(chain_record, "_SECONDS_FOR_AN_ORPHAN", 0.05)
    path = tmp_path / "run.zarr"
    fit_engine("MaxMargin, hinge", path)
    shutil.rmtree(path / "chain-1")
    with open_as(path, 40, chain=1) as record:
        orphan = record.locked()
        orphan.__enter__()
    with pytest.raises(RuntimeError, match="chain-1' is still written to by a process of an earlier run"):
        fit_engine("MaxMargin, hinge", path)
    orphan.__exit__(None, None, None)
    assert_same_fit(fit_engine("MaxMargin, hinge", path), whole_fit("MaxMargin, hinge"))
