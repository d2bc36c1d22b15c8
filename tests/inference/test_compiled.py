"""Compiled functions where no cache can be written: containers, clusters, read-only installations."""

from __future__ import annotations

import importlib.util
import logging
from pathlib import Path
from types import ModuleType

import numba
import pytensor
import pytest

from zoo.inference import compiled

SOURCE = """
from zoo.inference.compiled import njit

@njit(cache=True, nogil=True)
def add(a, b):
    return a + b
"""


@pytest.fixture
def read_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the source, where neither it nor the home can take a cache: a file stands in the way.

    Permissions would not do, since tests may run as root.
    """
    (tmp_path / "package").mkdir()
    (tmp_path / "package" / "__pycache__").touch()
    (tmp_path / "package" / "add_up.py").write_text(SOURCE)
    (tmp_path / "temporary").mkdir()
    monkeypatch.setenv("HOME", "/dev/null")
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(compiled.tempfile, "gettempdir", lambda: str(tmp_path / "temporary"))
    monkeypatch.setattr(compiled, "_said", [])
    return tmp_path


def load(folder: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("add_up", folder / "package" / "add_up.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_numba_alone_refuses(read_only):
    source = (read_only / "package" / "add_up.py").read_text()
    (read_only / "package" / "add_up.py").write_text(source.replace("zoo.inference.compiled", "numba"))
    with pytest.raises(RuntimeError, match="no locator available"):
        load(read_only)


def test_a_temporary_folder_takes_the_cache(read_only, caplog):
    with caplog.at_level(logging.WARNING, "zoo"):
        assert load(read_only).add(1, 2) == 3
        assert load(read_only).add(2, 2) == 4
    [folder] = (read_only / "temporary").iterdir()
    assert folder.stat().st_mode & 0o777 == 0o700
    assert list(folder.rglob("*.nbi"))
    assert [r.message for r in caplog.records] == [
        f"Compiled functions are cached in {folder}: the folder of the package cannot be written to."
    ]
    assert numba.config.CACHE_DIR == ""


def test_a_folder_that_others_can_write_to_is_not_trusted(read_only, caplog):
    (read_only / "temporary" / f"zoo-compiled-{compiled.os.getuid()}").mkdir(mode=0o777)
    (read_only / "temporary" / f"zoo-compiled-{compiled.os.getuid()}").chmod(0o777)
    with caplog.at_level(logging.WARNING, "zoo"):
        assert load(read_only).add(1, 2) == 3
    assert "not cached" in caplog.text
    assert not list(read_only.rglob("*.nbi"))


def test_no_folder_at_all(read_only, caplog):
    (read_only / "temporary").rmdir()
    (read_only / "temporary").touch()
    with caplog.at_level(logging.WARNING, "zoo"):
        assert load(read_only).add(1, 2) == 3
    assert "NUMBA_CACHE_DIR" in caplog.text


def test_other_errors_of_numba_stay(monkeypatch):
    def fails(**options):
        raise RuntimeError("no compiler")

    monkeypatch.setattr(compiled.numba, "njit", fails)
    with pytest.raises(RuntimeError, match="no compiler"):
        compiled.njit()(lambda: 1)


class TestPyTensor:
    @pytest.fixture(autouse=True)
    def as_before(self, monkeypatch):
        held = pytensor.config._config_var_dict["base_compiledir"]
        monkeypatch.setattr(held, "val", held.val)
        self.held = held

    def test_a_home_that_can_be_written_to_is_left_alone(self, tmp_path, monkeypatch):
        monkeypatch.setenv("HOME", str(tmp_path))
        before = self.held.val
        compiled.ensure_compile_folder()
        assert self.held.val == before

    def test_another_home_is_replaced(self, read_only, caplog):
        with caplog.at_level(logging.WARNING, "zoo"):
            compiled.ensure_compile_folder()
        assert Path(self.held.val).parent.parent == read_only / "temporary"
        assert "PyTensor compiles in" in caplog.text

    def test_no_folder_at_all(self, read_only):
        (read_only / "temporary").rmdir()
        (read_only / "temporary").touch()
        with pytest.raises(OSError, match="PYTENSOR_FLAGS=base_compiledir"):
            compiled.ensure_compile_folder()


def test_what_is_compiled_anew_is_said_before_and_once():
    from zoo.inference.compiled import before_compiling, njit

    @njit(cache=False)
    def double(x):
        return 2 * x

    said = []
    with before_compiling(lambda: said.append("compiling")):
        assert not said
        double(1)
        double(1.0)
        assert said == ["compiling"]
    with before_compiling(lambda: said.append("again")):
        double(1)
    assert said == ["compiling"]
