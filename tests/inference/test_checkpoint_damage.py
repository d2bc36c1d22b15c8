"""Checkpoints that are damaged, and places that cannot be written: refused, and never silently wrong."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.daily import daily
from tests.inference.checkpoints import (
    Killed,
    assert_same_fit,
    fit_engine,
    kill_at,
    no_space,
    save_always,
    whole_fit,
)
from zoo.inference.run import chain_record, checkpoint

# ---------------------------------------------------------------- damage


def _write(path: Path, random_seed: int) -> Path:
    """A checkpoint half way, with blocks and a tail."""
    with pytest.MonkeyPatch.context() as patch:
        save_always(patch)
        kill_at(patch, 200)
        with contextlib.suppress(Killed):
            fit_engine("MaxMargin, hinge", path, random_seed=random_seed, cores=1)
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
        fit = fit_engine("MaxMargin, hinge", path)
    except ValueError as error:
        assert str(path) in str(error)
        return
    assert_same_fit(fit, whole_fit("MaxMargin, hinge"))
    must = {"manifest", "state", "chunk of draws", "chunk of statistics"}
    # Without its state a chain is drawn anew.
    assert not changed or kind not in must or (kind, damage) == ("state", _remove)


@pytest.mark.parametrize("damage", [_flip, _truncate, _remove])
@pytest.mark.parametrize("kind", list(_KINDS))
def test_damage_is_found_or_harmless(kind, damage, path):
    _check_damage(kind, damage, path, np.random.default_rng(5))


@pytest.mark.statistical
@pytest.mark.parametrize("damage", [_flip, _truncate])
@pytest.mark.parametrize(
    "kind",
    daily(["manifest", "state", "chunk of draws", "description of an array"], ["state", "chunk of draws"]),
)
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
        fit_engine("MaxMargin, hinge", path)
    shutil.rmtree(path / "chain-0")
    assert_same_fit(fit_engine("MaxMargin, hinge", path), whole_fit("MaxMargin, hinge"))


def test_older_chunks_and_chains_of_another_run_are_refused(path, tmp_path):
    other = _write(tmp_path / "other.zarr", 4)
    chunk = "chain-0/posterior/coefficients/c/0/0/0"
    mine = (path / chunk).read_bytes()
    shutil.copy(other / chunk, path / chunk)  # intact by its own checksum
    with pytest.raises(ValueError, match="checksum of draws 0 to"):
        fit_engine("MaxMargin, hinge", path)
    (path / chunk).write_bytes(mine)
    shutil.rmtree(path / "chain-1", ignore_errors=True)
    shutil.copytree(path / "chain-0", path / "chain-1")
    with pytest.raises(ValueError, match="of another run or chain"):
        fit_engine("MaxMargin, hinge", path)


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
        fit_engine("MaxMargin, hinge", path)


def test_arrays_with_other_codecs_are_refused(path):
    file = path / "chain-0" / "posterior" / "coefficients" / "zarr.json"
    content = json.loads(file.read_text())
    content["codecs"].append({"name": "gzip", "configuration": {"level": 1}})
    file.write_text(json.dumps(content))
    with pytest.raises(ValueError, match="no plain numbers"):
        fit_engine("MaxMargin, hinge", path)


# ---------------------------------------------------------------- places that cannot be written


def test_places_that_are_no_checkpoint_are_left_alone(tmp_path):
    file, folder = tmp_path / "file", tmp_path / "folder"
    file.write_text("mine")
    folder.mkdir()
    (folder / "notes.txt").write_text("mine")
    with pytest.raises(NotADirectoryError, match="is a file"):
        fit_engine("MaxMargin, hinge", file)
    with pytest.raises(ValueError, match=r"holds 'notes.txt' .* left as it is"):
        fit_engine("MaxMargin, hinge", folder)
    assert [f.name for f in folder.iterdir()] == ["notes.txt"]
    assert (folder / "notes.txt").read_text() == file.read_text() == "mine"
    with pytest.raises(FileNotFoundError, match="does not exist"):
        fit_engine("MaxMargin, hinge", tmp_path / "no" / "run.zarr")
    with pytest.raises(ValueError, match="checkpoint is 3"):
        fit_engine("MaxMargin, hinge", 3)
    empty = tmp_path / "empty"
    empty.mkdir()
    fit_engine("MaxMargin, hinge", empty)


def test_bad_arguments_make_no_folder(tmp_path):
    with pytest.raises(ValueError, match="draws is 0"):
        fit_engine("MaxMargin, hinge", tmp_path / "run.zarr", draws=0)
    assert not (tmp_path / "run.zarr").exists()


@pytest.mark.parametrize("where", ["write_atomically", "_create_array"])
def test_a_full_disk_stops_and_can_be_gone_on_from(where, tmp_path, monkeypatch):
    engine, path = "MaxMargin, hinge", tmp_path / "run.zarr"
    save_always(monkeypatch)
    function, count = getattr(chain_record, where), [0]

    def fails_later(*args, **kwargs):
        count[0] += 1
        return function(*args, **kwargs) if count[0] < 5 else no_space()

    with monkeypatch.context() as patch:
        patch.setattr(chain_record, where, fails_later)
        with pytest.raises(OSError, match=r"chain-\d' cannot be written to \(No space .* goes on from there"):
            fit_engine(engine, path)
    assert_same_fit(fit_engine(engine, path), whole_fit(engine))


@pytest.mark.statistical  # starts a process
def test_a_limit_on_file_size(tmp_path):
    # The system itself refuses to write here: in a process of its own, since the limit is for good.
    pytest.importorskip("resource")
    code = (
        "import resource, sys; sys.path.insert(0, '.')\n"
        "import tests.inference.checkpoints as t; t.fit_engine('MaxMargin, hinge')\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (9000, 9000))\n"
        "t.fit_engine('MaxMargin, hinge', sys.argv[1], draws=400)\n"
    )
    path = tmp_path / "run.zarr"
    root = Path(__file__).parents[2]
    done = subprocess.run([sys.executable, "-c", code, str(path)], cwd=root, capture_output=True, text=True)
    assert done.returncode != 0
    assert "cannot be written to (File too large)" in done.stderr
    whole = fit_engine("MaxMargin, hinge", draws=400)
    assert_same_fit(fit_engine("MaxMargin, hinge", path, draws=400), whole)


def test_a_folder_without_permission(tmp_path, monkeypatch):
    def refuse(*args, **kwargs):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    monkeypatch.setattr(checkpoint, "write_atomically", refuse)
    with pytest.raises(PermissionError, match=r"run.zarr' cannot be written to \(Permission denied\)"):
        fit_engine("MaxMargin, hinge", tmp_path / "run.zarr")


@pytest.mark.parametrize("place", [".manifest.json.part", "chain-0/.state.part", "chain-0", "lock"])
def test_links_below_the_folder_are_not_followed(path, place, tmp_path):
    victim = tmp_path / "victim"
    victim.mkdir() if place == "chain-0" else victim.write_text("precious")
    link = path / place
    if link.exists():
        shutil.rmtree(link) if link.is_dir() else link.unlink()
    link.symlink_to(victim)
    with pytest.raises(ValueError, match=f"holds the link '{place}'"):
        fit_engine("MaxMargin, hinge", path, random_seed=3, cores=1)
    assert not list(victim.iterdir()) if victim.is_dir() else victim.read_text() == "precious"
