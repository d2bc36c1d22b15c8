"""Outputs appear whole or not at all."""

from __future__ import annotations

import pytest

from tests.cli.commands import names_in
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

        monkeypatch.setattr("tempfile.mkstemp", refuse)
        monkeypatch.setattr("tempfile.mkdtemp", refuse)
        with pytest.raises(PermissionError, match="cannot be written to"), staged_file(tmp_path / "a"):
            pass
        with pytest.raises(PermissionError, match="cannot be written to"), staged_folder(tmp_path / "a"):
            pass
