"""Outputs appear whole or not at all."""

from __future__ import annotations

import os
import stat

import pytest

from tests.cli.commands import names_in
from zoo.inference.run.chain_record import write_atomically
from zoo.support.files import staged_file, staged_folder


class TestStaging:
    def test_nothing_is_left_of_a_file_that_failed(self, tmp_path):
        target = tmp_path / "table.csv"
        target.write_text("old")
        with pytest.raises(RuntimeError), staged_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError
        assert names_in(tmp_path) == {"table.csv"} and target.read_text() == "old"

    @pytest.mark.parametrize("exists", [True, False])
    def test_nothing_is_left_of_a_folder_that_failed(self, tmp_path, exists):
        target = tmp_path / "deep" / "out"
        if exists:
            target.mkdir(parents=True)
        with pytest.raises(KeyboardInterrupt), staged_folder(target) as folder:
            (folder / "half.csv").write_text("half")
            raise KeyboardInterrupt
        assert not list(target.iterdir()) if exists else not list(tmp_path.iterdir())

    def test_unwritable_folder(self, tmp_path, monkeypatch):
        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("pathlib.Path.open", refuse)
        monkeypatch.setattr("pathlib.Path.mkdir", refuse)
        with pytest.raises(PermissionError, match="cannot be written to"), staged_file(tmp_path / "a"):
            pass
        with pytest.raises(PermissionError, match="cannot be written to"), staged_folder(tmp_path / "a"):
            pass

    def test_the_umask_and_the_mode_of_what_is_replaced_stay(self, tmp_path):
        target, before = tmp_path / "fit.nc", os.umask(0o077)
        try:
            with staged_file(target) as temporary:
                temporary.write_text("first")
            assert stat.S_IMODE(target.stat().st_mode) == 0o600
            target.chmod(0o640)
            with staged_file(target) as temporary:
                temporary.write_text("second")
            assert stat.S_IMODE(target.stat().st_mode) == 0o640
            with staged_folder(tmp_path / "report") as folder:
                (folder / "a.csv").write_text("x")
            assert stat.S_IMODE((tmp_path / "report").stat().st_mode) == 0o700
        finally:
            os.umask(before)

    def test_parts_of_killed_processes_are_removed(self, tmp_path):
        names = [f".fit.nc.{'0' * 16}.part", f".fit.nc.{'1' * 16}.part", f".other.nc.{'0' * 16}.part"]
        for name in names:
            (tmp_path / name).write_text("half")
        for name in (names[0], names[2]):
            os.utime(tmp_path / name, (0.0, 0.0))
        with staged_file(tmp_path / "fit.nc") as temporary:
            temporary.write_text("whole")
        assert names_in(tmp_path) == {"fit.nc", names[1], names[2]}  # one is being written, one is another's

    def test_a_link_is_not_followed(self, tmp_path):
        victim = tmp_path / "victim"
        victim.write_text("precious")
        (tmp_path / ".state.part").symlink_to(victim)
        write_atomically(tmp_path / "state", b"new")
        assert victim.read_text() == "precious" and (tmp_path / "state").read_bytes() == b"new"
