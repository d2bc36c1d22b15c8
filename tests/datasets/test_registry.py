"""Files of data sets: found, downloaded, checked, and missed in words."""

from __future__ import annotations

import hashlib
import http.server
import os
import subprocess
import sys
import threading
import zipfile
from functools import partial
from pathlib import Path

import pytest

from zoo import datasets
from zoo.datasets import registry


@pytest.fixture
def empty(tmp_path, monkeypatch):
    """Neither data nor cache nor network."""
    import pooch

    def offline(*args, **kwargs):
        raise ConnectionError("no network")

    monkeypatch.setattr(pooch, "retrieve", offline)
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    return tmp_path


@pytest.mark.parametrize(
    "load",
    [
        datasets.load_school,
        datasets.load_emotions,
        datasets.load_scene,
        datasets.load_yeast,
        datasets.load_cal500,
        datasets.load_lenk_computers,
        datasets.load_king_county,
        datasets.load_nyc_rents,
        datasets.load_rcv1_subset,
    ],
)
def test_missing_file_names_file_folders_and_variable(empty, load):
    with pytest.raises(FileNotFoundError) as caught:
        load()
    message = str(caught.value)
    assert any(name in message for name in registry.FILES)
    assert str(empty / "data") in message and str(empty / "cache") in message and "ZOO_DATA" in message
    assert "\n" not in message
    assert ("fetch_rcv1" in message) == (load is datasets.load_rcv1_subset)


def test_missing_file_without_variable(empty, monkeypatch):
    monkeypatch.delenv("ZOO_DATA")
    with pytest.raises(FileNotFoundError, match=r"ZOO_DATA \(not set\)"):
        registry.fetch("nyc_rent/rent.csv")


def test_wrong_checksum_in_zoo_data(empty):
    path = empty / "data" / "nyc_rent" / "rent.csv"
    path.parent.mkdir(parents=True)
    path.write_text("not the file")
    with pytest.raises(ValueError, match=r"rent\.csv.*sha256"):
        datasets.load_nyc_rents()


def test_unknown_name(empty):
    with pytest.raises(ValueError, match="elsewhere"):
        registry.fetch("elsewhere.csv")


def test_tests_without_the_mark_see_no_data_and_download_nothing():
    assert "ZOO_DATA" not in os.environ
    with pytest.raises(RuntimeError, match=r"tests download nothing\. Give it the mark `data`"):
        datasets.load_lenk_computers()


def test_default_cache_folder(monkeypatch):
    monkeypatch.delenv("ZOO_CACHE", raising=False)
    assert registry.cache_folder().parts[-1] == "multitask-zoo" or "multitask-zoo" in str(
        registry.cache_folder()
    )


def test_addresses_are_pinned_and_names_are_posix():
    for name, file in registry.FILES.items():
        assert name == file.name and "\\" not in name and len(file.sha256) == 64
        if file.url is not None:
            owner, repository, commit = file.url.removeprefix("https://raw.githubusercontent.com/").split(
                "/"
            )[:3]
            assert owner and repository and len(commit) == 40 and set(commit) <= set("0123456789abcdef")


@pytest.mark.data
def test_checksums_on_record():
    lines = (Path(os.environ["ZOO_DATA"]) / "SHA256SUMS").read_text().splitlines()
    known = {name: sha256 for sha256, name in (line.split() for line in lines)}
    held = [name for name in registry.FILES if name in known]
    assert len(held) > 20
    assert all(known[name] == registry.FILES[name].sha256 for name in held)


class _Quiet(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *args):
        pass


@pytest.fixture
def server(tmp_path, monkeypatch):
    """A web server on this machine, its folder and its address; empty data folder and cache."""
    served = tmp_path / "served"
    served.mkdir()
    monkeypatch.setenv("ZOO_DATA", str(tmp_path / "data"))
    monkeypatch.setenv("ZOO_CACHE", str(tmp_path / "cache"))
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), partial(_Quiet, directory=served)) as running:
        thread = threading.Thread(target=running.serve_forever, args=(0.02,))
        thread.start()
        yield served, f"http://127.0.0.1:{running.server_port}"
        running.shutdown()
        thread.join()


CONTENT = b"a,b\n1,2\n"


def register(monkeypatch, address, served_name, zipped=False):
    sha256 = hashlib.sha256(CONTENT).hexdigest()
    file = registry.RemoteFile("toy/toy.csv", sha256, f"{address}/{served_name}", zipped)
    monkeypatch.setitem(registry.FILES, file.name, file)
    return file.name


def pack(path, content, member):
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("readme.txt", "hello")
        archive.writestr(member, content)


@pytest.mark.parametrize("zipped", [False, True])
def test_download_then_cache(server, monkeypatch, tmp_path, zipped):
    served, address = server
    if zipped:
        pack(served / "toy.zip", CONTENT, "folder/toy.csv")
    else:
        (served / "toy.csv").write_bytes(CONTENT)
    name = register(monkeypatch, address, "toy.zip" if zipped else "toy.csv", zipped)
    path = registry.fetch(name)
    assert path == tmp_path / "cache" / "toy" / "toy.csv" and path.read_bytes() == CONTENT
    assert [p.name for p in path.parent.iterdir()] == ["toy.csv"]
    for source in served.iterdir():
        source.unlink()
    assert registry.fetch(name) == path  # from the cache
    path.write_bytes(b"damaged")
    with pytest.raises(FileNotFoundError, match="download"):
        registry.fetch(name)


@pytest.mark.parametrize("zipped", [False, True])
def test_download_with_wrong_checksum_is_not_kept(server, monkeypatch, tmp_path, zipped):
    served, address = server
    if zipped:
        pack(served / "toy.zip", b"forged", "toy.csv")
    else:
        (served / "toy.csv").write_bytes(b"forged")
    name = register(monkeypatch, address, "toy.zip" if zipped else "toy.csv", zipped)
    with pytest.raises(ValueError, match=r"toy\.csv"):
        registry.fetch(name)
    assert not [p for p in (tmp_path / "cache").rglob("*") if p.is_file()]


@pytest.mark.parametrize("member", [None, "other.csv"])
def test_download_of_a_useless_archive(server, monkeypatch, member):
    served, address = server
    if member is None:
        (served / "toy.zip").write_bytes(b"no archive")
    else:
        pack(served / "toy.zip", CONTENT, member)
    with pytest.raises(FileNotFoundError, match=r"toy/toy\.csv"):
        registry.fetch(register(monkeypatch, address, "toy.zip", zipped=True))


def test_zoo_data_comes_first(server, monkeypatch, tmp_path):
    _, address = server
    path = tmp_path / "data" / "toy" / "toy.csv"
    path.parent.mkdir(parents=True)
    path.write_bytes(CONTENT)
    assert registry.fetch(register(monkeypatch, address, "absent.csv")) == path


def test_import_is_light():
    # Whether the package's front page imports more is its own affair: only these modules are looked at.
    code = (
        "import sys, types; p = types.ModuleType('zoo');"
        f"p.__path__ = [{str(Path(datasets.__file__).parents[1])!r}]; sys.modules['zoo'] = p;"
        "import zoo.datasets; heavy = {'pooch', 'scipy', 'xarray', 'pymc'} & set(sys.modules);"
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
