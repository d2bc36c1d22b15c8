"""Checkpoints: killed anywhere and gone on from, bit for bit; refused where they do not fit; never silently wrong."""

from __future__ import annotations

import _thread
import contextlib
import errno
import functools
import hashlib
import json
import multiprocessing as mp
import os
import shutil
import subprocess
import sys
import threading
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import pytest

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.run import chain_record, checkpoint
from zoo.inference.run.chain_record import ChainRecord
from zoo.inference.run.chains import run_chains
from zoo.inference.run.checkpoint import open_checkpoint
from zoo.support.warning_types import collected

QUICK = dict(draws=40, tune=20, chains=2, random_seed=3, progress=False)


def _data(labels: bool) -> zoo.MultiTaskData:
    data, _ = zoo.datasets.simulate_matrix_normal(3, 2, 7, random_seed=1)
    return replace(data, y=np.sign(data.y)) if labels else data


@dataclass(frozen=True, kw_only=True)
class OwnMaxMargin(zoo.MaxMargin):
    """A user's subclass that inherits the Gibbs sampler."""

    def coords(self, data):
        return {**super().coords(data), "extra": [0]}


# Every Gibbs kernel, with what it keeps from sweep to sweep: a learned C, binary matrices, noise by task, amplitudes,
# scales.
ENGINES: dict[str, Any] = {
    "MaxMargin, hinge": lambda: zoo.MaxMargin(),
    "MaxMargin, learned C": lambda: zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C="learned")),
    "NonparametricMaxMargin, hinge": lambda: zoo.NonparametricMaxMargin(K_max=2),
    "NonparametricMaxMargin, real": lambda: zoo.NonparametricMaxMargin(
        likelihood="epsilon_insensitive", alpha=2.0
    ),
    "NIWLinear": lambda: zoo.NIWLinear(likelihood=zoo.Gaussian(per_task=("noise",))),
    "NIWLinear, learned scales": lambda: zoo.NIWLinear(covariance_prior="half_t"),
    "NIWLinear, learned scales, shared": lambda: zoo.NIWLinear(covariance_prior="half_t", shared=("x0",)),
    "NIWLinear, learned scales, student t": lambda: zoo.NIWLinear(
        covariance_prior="half_t", likelihood="student_t"
    ),
    "NIWGaussianProcess": lambda: zoo.NIWGaussianProcess(),
    "MultiTaskKernelMachine, square": lambda: zoo.MultiTaskKernelMachine(lam="learned"),
    "MultiTaskKernelMachine, hinge": lambda: zoo.MultiTaskKernelMachine(
        likelihood="hinge", amplitude="learned"
    ),
    "own subclass": lambda: OwnMaxMargin(likelihood="epsilon_insensitive"),
}


def _fit(engine: str, path: Any = None, **options: Any) -> zoo.Fit:
    factory = ENGINES[engine]()
    return factory.fit(_data(factory.likelihood.labels), "gibbs", checkpoint=path, **{**QUICK, **options})


@functools.cache
def _whole(engine: str) -> zoo.Fit:
    """A fit that nothing stopped."""
    return _fit(engine)


def _assert_same(first: zoo.Fit, second: zoo.Fit) -> None:
    for group in ("posterior", "sample_stats"):
        a, b = first.idata[group].to_dataset(), second.idata[group].to_dataset()
        assert a.identical(b), f"{group} differs"


def _save_always(monkeypatch: pytest.MonkeyPatch) -> None:
    """Save after every sweep, in blocks of a few draws, and do not wait for the disk."""
    monkeypatch.setattr(chain_record, "_SECONDS_BETWEEN_SAVES", 0.0)
    monkeypatch.setattr(chain_record, "_SHARE_OF_TIME", 0.0)
    monkeypatch.setattr(chain_record, "_BLOCK_BYTES", 2000)
    monkeypatch.setattr(chain_record, "_sync", lambda path: None)
    monkeypatch.setattr(chain_record.os, "fsync", lambda file: None)


class Killed(BaseException):
    """Ends a chain where it stands: nothing is saved any more."""


def _kill_at(monkeypatch: pytest.MonkeyPatch, step: int) -> None:
    """End the run at this step of writing or sampling, counted over all chains."""
    count = [0]

    def counted(function):
        def call(*args, **kwargs):
            count[0] += 1
            if count[0] >= step:
                raise Killed
            return function(*args, **kwargs)

        return call

    monkeypatch.setattr(ChainRecord, "due", counted(lambda self, done: True))
    monkeypatch.setattr(ChainRecord, "_write_array", counted(ChainRecord._write_array))
    monkeypatch.setattr(chain_record, "_sync", counted(lambda path: None))
    monkeypatch.setattr(chain_record.os, "fsync", counted(lambda file: None))


# ---------------------------------------------------------------- resuming


@pytest.mark.parametrize("engine", list(ENGINES))
def test_every_kernel_goes_on_bit_for_bit(engine, tmp_path, monkeypatch):
    rng = np.random.default_rng(sum(map(ord, engine)))
    _save_always(monkeypatch)
    path = tmp_path / "run.zarr"
    with monkeypatch.context() as patch:
        _kill_at(patch, int(rng.integers(5, 300)))
        with pytest.raises(Killed):
            _fit(engine, path, cores=1)
    _assert_same(_fit(engine, path), _whole(engine))


@pytest.mark.parametrize("step", [1, 2, 3, 4, 80, 81, 82, 83, 84, 85, 86, 87, 88, 89, 90])
def test_killed_at_each_step_of_a_save(step, tmp_path, monkeypatch):
    engine, path = "NIWLinear", tmp_path / "run.zarr"
    _save_always(monkeypatch)
    with monkeypatch.context() as patch:
        _kill_at(patch, step)
        with pytest.raises(Killed):
            _fit(engine, path, cores=1)
    _assert_same(_fit(engine, path), _whole(engine))


def test_the_moments_of_writing_have_no_influence(tmp_path, monkeypatch):
    engine = "NonparametricMaxMargin, hinge"
    _assert_same(_fit(engine, tmp_path / "seldom.zarr"), _whole(engine))
    _save_always(monkeypatch)
    _assert_same(_fit(engine, tmp_path / "always.zarr"), _whole(engine))


def test_a_finished_run_is_read_and_not_sampled(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    first = _fit("MaxMargin, hinge", path)
    monkeypatch.setattr(zoo.inference.gibbs.matrix_normal.MatrixNormalKernel, "sweep", None)
    _assert_same(_fit("MaxMargin, hinge", str(path), progress=True), first)


def test_without_a_seed_the_streams_go_on(tmp_path, monkeypatch):
    path = tmp_path / "run.zarr"
    _save_always(monkeypatch)
    with monkeypatch.context() as patch:
        _kill_at(patch, 100)
        with contextlib.suppress(Killed):
            _fit("NIWLinear", path, random_seed=None, cores=1)
    entropy = json.loads((path / "manifest.json").read_text())["drawn"]["entropy"]
    resumed = _fit("NIWLinear", path, random_seed=None)
    assert resumed.posterior.equals(_fit("NIWLinear", random_seed=entropy).posterior)
    assert not resumed.posterior.equals(_fit("NIWLinear", random_seed=None).posterior)


@pytest.mark.parametrize("then", [dict(cores=2), dict(threads=2), dict(cores=1)], ids=str)
def test_cores_and_threads_may_change(then, tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    _save_always(monkeypatch)
    with monkeypatch.context() as patch:
        _kill_at(patch, 200)
        with contextlib.suppress(Killed):
            _fit(engine, path, cores=1)
    _assert_same(_fit(engine, path, **then), _whole(engine))


@pytest.mark.statistical  # processes start for seconds
def test_processes_write_the_same(tmp_path):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    with joblib.parallel_config(backend="loky", n_jobs=2):
        first = _fit(engine, path)
    _assert_same(first, _whole(engine))
    shutil.rmtree(path / "chain-1")
    _assert_same(_fit(engine, path), first)


def test_thinned_chains_and_starts_from_a_fit(tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    before = _whole(engine)
    _save_always(monkeypatch)
    with monkeypatch.context() as patch:
        _kill_at(patch, 250)
        with contextlib.suppress(Killed):
            _fit(engine, path, thin=3, start=before, cores=1)
    _assert_same(_fit(engine, path, thin=3, start=before), _fit(engine, thin=3, start=before))
    with pytest.raises(ValueError, match=r"options\.start differs"):
        _fit(engine, path, thin=3, start=_fit(engine, random_seed=4))


def test_other_programs_read_the_draws(tmp_path):
    import zarr

    fit = _fit("MaxMargin, hinge", tmp_path / "run.zarr")
    chain = zarr.open_group(tmp_path / "run.zarr", mode="r")["chain-1/posterior"]
    assert np.array_equal(chain["coefficients"][...], fit.posterior["coefficients"][1])


# ---------------------------------------------------------------- killed by the system

_GO = "sampling"


def _child(engine: str, path: str, options: dict[str, Any], ready: Any) -> None:
    chain_record._SECONDS_BETWEEN_SAVES = chain_record._SHARE_OF_TIME = 0.0
    chain_record._BLOCK_BYTES = 3000
    ready.send(_GO)
    _fit(engine, path, **options)


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
    whole = _fit(engine, **options)
    rng = np.random.default_rng()
    assert any(_kill_a_fit(engine, path, rng.uniform(0.0, 1.5), **options) for _ in range(2))
    _assert_same(_fit(engine, path, **options), whole)


@pytest.mark.skipif(sys.platform == "win32", reason="no SIGKILL")
@pytest.mark.parametrize(
    "kills",
    [pytest.param(6, marks=pytest.mark.statistical), pytest.param(50, marks=pytest.mark.scheduled)],
)
def test_many_sigkills(kills, tmp_path):
    # No random error: each must agree in every bit. The process saves after every sweep, so that most of the moments
    # are in the middle of a save.
    engines = [name for name in ENGINES if name != "own subclass"]
    options = dict(draws=300)
    whole = {name: _fit(name, **options) for name in engines}
    rng = np.random.default_rng()
    at_work = 0
    for k in range(kills):
        engine, path = engines[k % len(engines)], tmp_path / f"{k}.zarr"
        at_work += _kill_a_fit(engine, path, rng.uniform(0.0, 3.0), **options)
        _assert_same(_fit(engine, path, **options), whole[engine])
        shutil.rmtree(path)
    assert at_work >= kills - max(4, kills // 5)


# ---------------------------------------------------------------- Ctrl-C


@pytest.mark.usefixtures("interruptible")
@pytest.mark.parametrize("cores", [1, 2])
def test_an_interrupt_returns_the_draws_and_goes_on(cores, tmp_path, monkeypatch):
    engine, path, options = "NIWLinear", tmp_path / "run.zarr", dict(draws=300, tune=10)
    whole = _fit(engine, **options)
    kernel = zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel
    sweep = kernel.sweep
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "sweep", lambda *args: (time.sleep(0.005), sweep(*args)))
        threading.Timer(0.8, _thread.interrupt_main).start()
        with pytest.warns(UserWarning, match="interrupted: "):
            part = _fit(engine, path, cores=cores, **options)
    n = part.posterior.sizes["draw"]
    assert 0 < n < 300
    kept = whole.posterior.isel(draw=slice(n), chain=slice(part.posterior.sizes["chain"]))
    assert part.posterior.equals(kept)
    _assert_same(_fit(engine, path, **options), whole)


@pytest.mark.usefixtures("interruptible")
def test_an_interrupt_in_warm_up_keeps_it(tmp_path, monkeypatch):
    engine, path = "NIWLinear", tmp_path / "run.zarr"
    kernel = zoo.inference.gibbs.normal_inverse_wishart.NormalInverseWishartKernel
    sweep = kernel.sweep
    with monkeypatch.context() as patch:
        patch.setattr(kernel, "sweep", lambda *args: (time.sleep(0.05), sweep(*args)))
        threading.Timer(0.4, _thread.interrupt_main).start()
        with pytest.raises(KeyboardInterrupt, match="warm-up"):
            _fit(engine, path)
    with open_as(path, 40) as record:
        assert 0 < record.load().sweeps < 20
    _assert_same(_fit(engine, path), _whole(engine))


@contextlib.contextmanager
def open_as(path: Path, draws: int, chain: int = 0):
    """The record of a chain of an existing checkpoint."""
    described = json.loads((path / "manifest.json").read_text())["described"]
    described.pop("schema")
    with open_checkpoint(path, described) as opened:
        yield opened.chain(chain, draws)


# ---------------------------------------------------------------- damage


def _write(path: Path, random_seed: int) -> Path:
    """A checkpoint half way, with blocks and a tail."""
    with pytest.MonkeyPatch.context() as patch:
        _save_always(patch)
        _kill_at(patch, 200)
        with contextlib.suppress(Killed):
            _fit("MaxMargin, hinge", path, random_seed=random_seed, cores=1)
    assert list(path.glob("chain-0/posterior/coefficients/c/*"))
    return path


@pytest.fixture(scope="module")
def half_way(tmp_path_factory):
    return _write(tmp_path_factory.mktemp("half") / "run.zarr", 3)


@pytest.fixture
def path(half_way, tmp_path):
    """A copy to damage."""
    return Path(shutil.copytree(half_way, tmp_path / "run.zarr"))


def _flip(file: Path, rng: np.random.Generator) -> None:
    content = bytearray(file.read_bytes())
    content[rng.integers(len(content))] ^= 1 << rng.integers(8)
    file.write_bytes(bytes(content))


def _truncate(file: Path, rng: np.random.Generator) -> None:
    file.write_bytes(file.read_bytes()[: rng.integers(file.stat().st_size)])


def _remove(file: Path, rng: np.random.Generator) -> None:
    file.unlink()


_KINDS = {
    "manifest": "manifest.json",
    "state": "chain-0/state",
    "chunk of draws": "chain-0/posterior/coefficients/c/*/*/*",
    "chunk of statistics": "chain-0/sample_stats/*/c/*",
    "description of an array": "chain-0/posterior/*/zarr.json",
    "group": "zarr.json",
    "group of a chain": "chain-0/zarr.json",
    "lock": "lock",
}


def _check_damage(kind, damage, path, rng):
    """The next call refuses, or draws what it should; where the draws depend on the file it refuses."""
    file = min(f for f in path.glob(_KINDS[kind]) if kind == "lock" or f.stat().st_size)
    before = file.read_bytes()
    if before or damage is _remove:
        damage(file, rng)
    changed = not file.exists() or file.read_bytes() != before
    try:
        fit = _fit("MaxMargin, hinge", path)
    except ValueError as error:
        assert str(path) in str(error)
        return
    _assert_same(fit, _whole("MaxMargin, hinge"))
    must = {"manifest", "state", "chunk of draws", "chunk of statistics"}
    # Without its state a chain is drawn anew.
    assert not changed or kind not in must or (kind, damage) == ("state", _remove)


@pytest.mark.parametrize("damage", [_flip, _truncate, _remove])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_damage_is_found_or_harmless(kind, damage, path):
    _check_damage(kind, damage, path, np.random.default_rng(5))


@pytest.mark.statistical
@pytest.mark.parametrize("damage", [_flip, _truncate])
@pytest.mark.parametrize("kind", ["manifest", "state", "chunk of draws", "description of an array"])
def test_damage_anywhere(kind, damage, half_way, tmp_path):
    # No random error: whatever the byte, the draws must not be wrong.
    rng = np.random.default_rng(6)
    for _ in range(25):
        path = shutil.copytree(half_way, tmp_path / "copy.zarr")
        _check_damage(kind, damage, path, rng)
        shutil.rmtree(path)


def test_after_damage_one_chain_is_drawn_anew(path):
    _flip(path / "chain-0" / "state", np.random.default_rng(1))
    with pytest.raises(ValueError, match=r"state in '.*chain-0' cannot be read .* Remove this folder"):
        _fit("MaxMargin, hinge", path)
    shutil.rmtree(path / "chain-0")
    _assert_same(_fit("MaxMargin, hinge", path), _whole("MaxMargin, hinge"))


def test_older_chunks_and_chains_of_another_run_are_refused(path, tmp_path):
    other = _write(tmp_path / "other.zarr", 4)
    chunk = "chain-0/posterior/coefficients/c/0/0/0"
    mine = (path / chunk).read_bytes()
    shutil.copy(other / chunk, path / chunk)  # intact by its own checksum
    with pytest.raises(ValueError, match="checksum of draws 0 to"):
        _fit("MaxMargin, hinge", path)
    (path / chunk).write_bytes(mine)
    shutil.rmtree(path / "chain-1", ignore_errors=True)
    shutil.copytree(path / "chain-0", path / "chain-1")
    with pytest.raises(ValueError, match="of another run or chain"):
        _fit("MaxMargin, hinge", path)


@pytest.mark.parametrize(
    "entries",
    [
        dict(about=np.array([{"run": 1}], dtype=object)),
        {"about": np.array([1]), "snapshot/H": np.array([print], dtype=object)},
    ],
    ids=["state", "snapshot"],
)
def test_nothing_is_unpickled(entries, path):
    with (path / "payload.npz").open("wb") as file:
        np.savez(file, allow_pickle=True, **entries)
    payload = (path / "payload.npz").read_bytes()
    state = hashlib.sha256(payload).hexdigest().encode() + b"\n" + payload
    (path / "chain-0" / "state").write_bytes(state)
    with pytest.raises(ValueError, match="allow_pickle=False"):
        _fit("MaxMargin, hinge", path)


def test_arrays_with_other_codecs_are_refused(path):
    file = path / "chain-0" / "posterior" / "coefficients" / "zarr.json"
    content = json.loads(file.read_text())
    content["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="no plain numbers"):
        _fit("MaxMargin, hinge", path)


# ---------------------------------------------------------------- another run


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (dict(draws=41), "draws was 40, is 41"),
        (dict(tune=21), "tune was 20, is 21"),
        (dict(chains=3), "chains was 2, is 3"),
        (dict(random_seed=4), "random_seed.entropy was 3, is 4"),
        (dict(random_seed=None), "random_seed.entropy was 3, is absent"),
        (dict(thin=2), "options.thin was 1, is 2"),
        (dict(group_moves=False), "options.group_moves was true, is false"),
    ],
    ids=str,
)
def test_another_call_is_refused(options, message, tmp_path):
    path = tmp_path / "run.zarr"
    _fit("MaxMargin, hinge", path)
    _fit("MaxMargin, hinge", path, thin=1, group_moves=True)  # the defaults
    with pytest.raises(ValueError, match=f"of another run: .*{message}.* give another path"):
        _fit("MaxMargin, hinge", path, **options)


def test_other_data_fields_and_versions_are_refused(tmp_path, monkeypatch):
    path, data = tmp_path / "run.zarr", _data(False)
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    model.fit(data, "gibbs", checkpoint=path, **QUICK)
    y = data.y.copy()
    y[3] = np.nextafter(y[3], 9.0)
    changed = {
        "data.y differs": (model, replace(data, y=y)),
        "data.weight": (model, replace(data, weight=np.ones(data.n_rows))),
        "data.names differs": (model, replace(data, task_names=("a", "b", "c"))),
        "data.X differs": (model, replace(data, inputs=data.inputs * 2.0)),
        'factory.fields.likelihood.C was "learned", is 2.0': (
            replace(model, likelihood=zoo.EpsilonInsensitive(C=2.0)),
            data,
        ),
        "factory.factory": (OwnMaxMargin(likelihood="epsilon_insensitive"), data),
    }
    for message, (factory, rows) in changed.items():
        with pytest.raises(ValueError, match=message):
            factory.fit(rows, "gibbs", checkpoint=path, **QUICK)
    monkeypatch.setattr("zoo.core.manifest.__version__", "99.0")
    with pytest.raises(ValueError, match=r"versions\.zoo was"):
        model.fit(data, "gibbs", checkpoint=path, **QUICK)


# ---------------------------------------------------------------- places that cannot be written


def test_places_that_are_no_checkpoint_are_left_alone(tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        _fit("MaxMargin, hinge", file)
    with pytest.raises(ValueError, match=r"holds 'notes.txt' .* left as it is"):
        _fit("MaxMargin, hinge", folder)
    assert [f.name for f in folder.iterdir()] == ["notes.txt"]
    assert (folder / "notes.txt").read_text() == file.read_text() == "mine"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        _fit("MaxMargin, hinge", tmp_path / "no" / "run.zarr")
    with pytest.raises(ValueError, match="checkpoint is 3"):
        _fit("MaxMargin, hinge", 3)
    empty = tmp_path / "empty"
    empty.mkdir()
    _fit("MaxMargin, hinge", empty)


def test_bad_arguments_make_no_folder(tmp_path):
    with pytest.raises(ValueError, match="draws is 0"):
        _fit("MaxMargin, hinge", tmp_path / "run.zarr", draws=0)
    assert not (tmp_path / "run.zarr").exists()


def _no_space(*args: Any, **kwargs: Any) -> None:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


@pytest.mark.parametrize("where", ["write_atomically", "_create_array"])
def test_a_full_disk_stops_and_can_be_gone_on_from(where, tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    _save_always(monkeypatch)
    function, count = getattr(chain_record, where), [0]

    def fails_later(*args, **kwargs):
        count[0] += 1
        return function(*args, **kwargs) if count[0] < 5 else _no_space()

    with monkeypatch.context() as patch:
        patch.setattr(chain_record, where, fails_later)
        with pytest.raises(OSError, match=r"chain-\d' cannot be written to \(No space .* goes on from there"):
            _fit(engine, path)
    _assert_same(_fit(engine, path), _whole(engine))


@pytest.mark.statistical  # starts a process
def test_a_limit_on_file_size(tmp_path):
    # The system itself refuses to write here: in a process of its own, since the limit is for good.
    pytest.importorskip("resource")
    code = (
        "import resource, sys; sys.path.insert(0, '.')\n"
        "import tests.inference.test_checkpoint as t; t._fit('MaxMargin, hinge')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "t._fit('MaxMargin, hinge', sys.argv[1], draws=400)\n"
    )
    path = tmp_path / "run.zarr"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True)
    assert done.returncode != 0
    assert "cannot be written to (File too large)" in done.stderr
    whole = _fit("MaxMargin, hinge", draws=400)
    _assert_same(_fit("MaxMargin, hinge", path, draws=400), whole)


def test_a_folder_without_permission(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(checkpoint, "write_atomically", refuse)
    with pytest.raises(PermissionError, match=r"run.zarr' cannot be written to \(Permission denied\)"):
        _fit("MaxMargin, hinge", tmp_path / "run.zarr")


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
    _fit("MaxMargin, hinge", path)
    shutil.rmtree(path / "chain-1")
    with open_as(path, 40, chain=1) as record:
        orphan = record.locked()
        orphan.__enter__()
    with pytest.raises(RuntimeError, match="chain-1' is still written to by a process of an earlier run"):
        _fit("MaxMargin, hinge", path)
    orphan.__exit__(None, None, None)
    _assert_same(_fit("MaxMargin, hinge", path), _whole("MaxMargin, hinge"))


# ---------------------------------------------------------------- methods


@pytest.mark.parametrize("method", ["exact", "laplace"])
def test_methods_without_chains_refuse(method, tmp_path):
    factory = zoo.PooledTasks(likelihood="logistic") if method == "laplace" else zoo.PooledTasks()
    with pytest.raises(UnsupportedMethodError, match=f"'{method}'.* no checkpoint .* fit.save"):
        factory.fit(_data(method == "laplace"), method, checkpoint=tmp_path / "run.zarr", progress=False)
    assert not (tmp_path / "run.zarr").exists()


def test_a_kernel_without_snapshot_is_told(tmp_path):
    class Walk:
        def initialise(self, rng, threads=1):
            return {}

    with (
        open_checkpoint(tmp_path / "run.zarr", {}) as opened,
        pytest.raises(TypeError, match="Walk has no methods `snapshot` and `restore`"),
    ):
        run_chains(Walk(), draws=2, tune=0, chains=1, checkpoint=opened)


def test_options_that_cannot_be_described_are_refused(tmp_path):
    with pytest.raises(ValueError, match="option nuts holds a function, which a checkpoint cannot describe"):
        zoo.PooledTasks().fit(
            _data(False), "nuts", checkpoint=tmp_path / "run.zarr", nuts={"callback": _no_space}
        )


# ---------------------------------------------------------------- NUTS


@pytest.mark.statistical  # nutpie compiles for half a minute
def test_nuts_keeps_finished_chains(tmp_path, monkeypatch):
    options = dict(draws=60, tune=60, chains=3, random_seed=1, progress=False)
    path, data, model = tmp_path / "run.zarr", _data(False), zoo.PooledTasks()
    whole = model.fit(data, "nuts", checkpoint=path, cores=2, **options)
    plain = model.fit(data, "nuts", **options)
    assert {n: v.dims for n, v in plain.posterior.items()} == {n: v.dims for n, v in whole.posterior.items()}
    for chain in (0, 1):  # each chain has a stream of its own
        assert not np.array_equal(*(whole.posterior["noise"][c] for c in (chain, 2)))
    shutil.rmtree(path / "chain-1")
    again = model.fit(data, "nuts", checkpoint=path, cores=1, **options)
    kept = dict(chain=[0, 2])
    assert again.posterior.isel(kept).identical(whole.posterior.isel(kept))
    # Drawn anew by the same code in the same process: the last bits agree too.
    assert again.posterior.identical(whole.posterior)
    monkeypatch.setattr("nutpie.compile_pymc_model", None)  # a finished run compiles nothing
    _assert_same(model.fit(data, "nuts", checkpoint=path, **options), again)
    again.save(tmp_path / "fit.nc")
    assert zoo.load(tmp_path / "fit.nc").posterior.equals(again.posterior)


@pytest.mark.statistical
@pytest.mark.usefixtures("interruptible")
def test_nuts_interrupted(tmp_path, monkeypatch):
    import nutpie

    options = dict(draws=500_000, tune=100, chains=2, random_seed=1, progress=False)
    model = zoo.PooledTasks()
    compile_model = nutpie.compile_pymc_model

    def compile_and_set_the_clock(*args, **kwargs):
        compiled = compile_model(*args, **kwargs)
        threading.Timer(2.0, _thread.interrupt_main).start()
        return compiled

    monkeypatch.setattr("nutpie.compile_pymc_model", compile_and_set_the_clock)
    with pytest.warns(UserWarning, match="interrupted: "):
        part = model.fit(_data(False), "nuts", checkpoint=tmp_path / "run.zarr", cores=2, **options)
    assert 0 < part.posterior.sizes["draw"] < 500_000
    assert not list((tmp_path / "run.zarr").glob("chain-*/state"))


def test_steps_beside_nuts_refuse(tmp_path):
    model = zoo.MaxMargin(likelihood="epsilon_insensitive")
    with pytest.raises(ValueError, match='block="gibbs" cannot write a checkpoint'):
        model.fit(_data(False), "nuts", block="gibbs", checkpoint=tmp_path / "run.zarr", **QUICK)


# ---------------------------------------------------------------- a subclass of the user's


def _with_scale(scale: float) -> type:
    """A class whose hook differs from another one's by a number alone."""
    if scale == 1.0:

        class Scaled(zoo.NIWLinear):
            def coords(self, data):
                return {**super().coords(data), "scale": [1.0]}

    else:

        class Scaled(zoo.NIWLinear):
            def coords(self, data):
                return {**super().coords(data), "scale": [2.0]}

    return Scaled


def test_a_checkpoint_of_changed_hooks_is_refused(tmp_path):
    """Name and fields of the class were all that was compared: a changed hook went on with draws of the old one."""
    data = zoo.datasets.simulate_matrix_normal(2, 2, 8, random_seed=1)[0]
    path = tmp_path / "run.zarr"
    settings = {"draws": 4, "tune": 2, "chains": 1, "random_seed": 1, "progress": False, "checkpoint": path}
    with collected():
        first = _with_scale(1.0)().fit(data, "gibbs", **settings)
        again = _with_scale(1.0)().fit(data, "gibbs", **settings)
    assert again.posterior.equals(first.posterior)
    with pytest.raises(ValueError, match="code"):
        _with_scale(2.0)().fit(data, "gibbs", **settings)
    with pytest.raises(ValueError, match="code"):
        zoo.NIWLinear().fit(data, "gibbs", **settings)
