"""Data files on the network: where each one comes from, and the checksum it must have."""

from __future__ import annotations

import hashlib
import os
from dataclasses import dataclass
from pathlib import Path

__all__ = ["FILES", "RemoteFile", "cache_folder", "fetch"]


@dataclass(frozen=True)
class RemoteFile:
    """One data file.

    Parameters
    ----------
    name : str
        Path relative to the folder in ``ZOO_DATA``, with forward slashes.
    sha256 : str
        Checksum of the file, in hexadecimal.
    url : str, optional
        Address pinned to a commit. None: the file cannot be downloaded.
    zipped : bool
        Whether ``url`` is a zip archive that holds the file. The checksum is still that of the file.
    advice : str
        What to do instead when the file is missing.
    """

    name: str
    sha256: str
    url: str | None = None
    zipped: bool = False
    advice: str = "Connect to the network, or set ZOO_DATA to a folder that holds the file."


def _at_commit(repository: str, commit: str, path: str) -> str:
    return f"https://raw.githubusercontent.com/{repository}/{commit}/{path}"


def _school(name: str, sha256: str) -> RemoteFile:
    commit = "97dfc15be3769240f2099d036ce2b55b30a56f5f"
    return RemoteFile(f"school/{name}", sha256, _at_commit("tjanez/PyMTL", commit, f"data/school/{name}"))


def _mulan(name: str, sha256: str) -> RemoteFile:
    commit = "43f6389095ad71984264db4387a8074b22bc7d4a"
    return RemoteFile(
        f"mulan/{name}", sha256, _at_commit("tsoumakas/mulan", commit, f"data/multi-label/{name}")
    )


def _rcv1(subset: int, sha256: str) -> RemoteFile:
    return RemoteFile(
        f"rcv1/rcv1subset{subset}_repaired.npz",
        sha256,
        advice=(
            "It cannot be downloaded: use sklearn.datasets.fetch_rcv1() for the whole collection, "
            "or set ZOO_DATA to a folder that holds the file."
        ),
    )


def _rdatasets(name: str, sha256: str) -> RemoteFile:
    commit = "1dcc2bf5f955cc1224a3e1307256e1fe86b68dae"
    return RemoteFile(
        f"rdatasets/{name}.csv", sha256, _at_commit("vincentarelbundock/Rdatasets", commit, f"csv/{name}.csv")
    )


_FILES = [
    _school("school_b.mat", "973f1ca99d0d41a838ec6ae86001a48e7b69391eb74646b9e4fc54f62866a146"),
    _school("school_1_indexes.mat", "030c9ca0a73d6264aa1eeac49aba1d760a1b5692cd3124667e74a7a2b7751bc5"),
    _school("school_2_indexes.mat", "63d3a076a4cdd3de81825d3cf0c030b93bdc60e912eaed4763ee224efab163f8"),
    _school("school_3_indexes.mat", "f7f68e3adb50db8094e230c2b83d548790379cd93ad98fadb35ff2999762dbe6"),
    _school("school_4_indexes.mat", "02643928224056a61e25dec8d4841dba5195ed9affdc76fdc697854a2506d142"),
    _school("school_5_indexes.mat", "6ed00a453d582dce4397f6f49120cff803c22f53cfb2dd63a3826c359c24bcdf"),
    _school("school_6_indexes.mat", "ca853babe5b7f0f5812e7f4261f8b5e5728f1b3b06711e56a76b27b7f959f379"),
    _school("school_7_indexes.mat", "b72105509c70f94f48c7c8b0e1359c6c0ea630c7ac588337b412f946ede62283"),
    _school("school_8_indexes.mat", "8ad60073b135220f1a6f49fdd79b4430b6a0c8ce9925a22dcc5a09141f5b1c04"),
    _school("school_9_indexes.mat", "0de74247d93c413b690ebb65e2e7beb1c55f05b2a2d5db46469e673a552cccf2"),
    _school("school_10_indexes.mat", "b408742eab66cd124563493057b080fd39e5075f48b4c391c53e5f6a1a4c8df1"),
    _mulan(
        "emotions/emotions-train.arff", "bbe704106c79bb8fb99c1d1d2e9bde081d6a2daeb01f100862f11fd91a3c1f98"
    ),
    _mulan("emotions/emotions-test.arff", "f13d4b746b7b5c8eb484bd751d6ac463d4560dff998a93516a5c1fe35daf6c8f"),
    _mulan("scene/scene-train.arff", "b53ba93bdf412de922e3960389bcee24744fa3e872ce610511fc1d750888b64d"),
    _mulan("scene/scene-test.arff", "ea38d20296b3ff7e220f477a3b802a9bcb2d768881fe6ee163efbc97ea527a42"),
    _mulan("yeast/yeast-train.arff", "e759dc991ff54694a4ff9c4314f3be0d6fd2b1994a4b563f57e416394c6aebbd"),
    _mulan("yeast/yeast-test.arff", "4aaac102bff9669a765bf0b378602e5cc8c3b181048282e2f003117b496d552a"),
    _mulan("cal500/cal500.arff", "cfe6097ba5fd6e8584e54911ab9783dcab34e898446b7c9370c71d477eae56d3"),
    RemoteFile(
        "lenk/conjointAnalysisComputerBuyers.mat",
        "6e6b5f98f438c7d15ed6c7adab44322c9345f52263a4f3026322019f184679b5",
        _at_commit(
            "probml/pmtkdata",
            "42bc2738a294382f9d6ffb1b0203404ffb10295a",
            "conjointAnalysisComputerBuyers/conjointAnalysisComputerBuyers.zip",
        ),
        zipped=True,
    ),
    _rcv1(1, "c013f922893f49d922ba7b4a50eee49522645f188b7717e1800dfc4a7063d08c"),
    _rcv1(2, "dae6ca89049306e369092c89faf35f0042a8393ee7d048ca2d989795f233cb93"),
    _rcv1(3, "e711b1a73ce93dd6de35bad6285f81e5e51289fe4e2be2ba09e7949e3ececb40"),
    RemoteFile(
        "kc_house/kc_house_data.csv",
        "7582acb23d0e52d396172f5af810f7f69ff8fdc78218e9a1ba3db24dd728510a",
        _at_commit(
            "tonikofu/machine-learning",
            "5467b99a22c0a866fe8c5ea76567f38662058a4d",
            "data/kc_house_data.csv",
        ),
    ),
    RemoteFile(
        "nyc_rent/rent.csv",
        "f2e65900c40cac7d6469e774ae0f77f01d507dbde13e2206a9d5f2d1926d0084",
        _at_commit(
            "parrt/random-forest-importances",
            "92ef2de1cd47ce5fd8e654a01f7876fa246b8665",
            "notebooks/data/rent.csv",
        ),
    ),
    _rdatasets("plm/Produc", "c32f302e697f36e9c2c750a6e210366396ba60f24301448d11ade569a3ec483c"),
    _rdatasets("plm/Cigar", "ca583b833774d70c7d14c42bfe23c43fcfb74c77bda326bf54509fc57002241b"),
    _rdatasets("plm/Gasoline", "0e3282c26c12dd9fb814c8735857785df83cf5389871b0faa998dc1815c2ba3a"),
    _rdatasets("plm/EmplUK", "4c5b5c875cb58d50b81387ffdbfc367b678a4c2d6572c8e92a8f1fa2f2fe04a4"),
    _rdatasets("plm/RiceFarms", "c5b33303b1214ac3e42094c6d0266d44f0761be5627366252b64ee32876be829"),
    _rdatasets("mlmRev/Exam", "9c87dc2a85401f0589bdb1c1e95049bd86648f80ab00c73b388f6b7079e711ac"),
    _rdatasets("mlmRev/Hsb82", "d820cf853af77e3163ffb828361defb25ac005f0074703c61fd35cad5cbd6b37"),
    _rdatasets("lme4/sleepstudy", "20922ddc87d538bf2344f73d49000eeb2d7e14934b6191a3e071fefc329942c4"),
    _rdatasets("mlmRev/Contraception", "dd76de5f4f1fb57081b01ef0f81581cd928ad545d13feb8bf7d337d71e690034"),
    _rdatasets("mlmRev/guImmun", "1b9a2f7cb7b674609430c88edd6a8cd89cd872dbdc28686c156b82061b000998"),
    _rdatasets("lme4/VerbAgg", "4d3c3a0c4497e5a87b873038996a9878136b188ec5bef3b873dcb4858c18b75b"),
    _rdatasets("geepack/dietox", "4d32f92a38aa031b20319dfd959f2503ca261ad6938060cdb809e7a679b2ba88"),
    _rdatasets("AER/Guns", "177921ab3faa86cab3588e6c996ef10c39d6b4497555cc26c5a6ba223ba66cf4"),
]
FILES: dict[str, RemoteFile] = {file.name: file for file in _FILES}


def cache_folder() -> Path:
    """Folder of downloaded files: ``$ZOO_CACHE``, else pooch's cache for this package."""
    chosen = os.environ.get("ZOO_CACHE")
    if chosen:
        return Path(chosen)
    import pooch

    return Path(pooch.os_cache("multitask-zoo"))


def fetch(name: str) -> Path:
    """Path of a data file: in ``$ZOO_DATA``, else in the cache, else downloaded into the cache.

    Parameters
    ----------
    name : str
        A key of ``FILES``, for instance ``"school/school_b.mat"``.

    Returns
    -------
    pathlib.Path
        A file with the checksum on record.

    Raises
    ------
    FileNotFoundError
        The file is in neither folder and could not be downloaded.
    ValueError
        The name is unknown, or the file in ``$ZOO_DATA`` or the download has another checksum.
    """
    if name not in FILES:
        raise ValueError(
            f"name has {name!r}, which is no data file on record. Choose from zoo.datasets.registry.FILES."
        )
    file = FILES[name]
    data = _data_folder()
    if data is not None and (data / name).is_file():
        local = data / name
        if _sha256(local.read_bytes()) != file.sha256:
            raise ValueError(
                f"{local} has a wrong sha256 checksum: it is damaged or another version. "
                "Replace it, or unset ZOO_DATA to download it."
            )
        return local
    cached = cache_folder() / name
    if cached.is_file() and _sha256(cached.read_bytes()) == file.sha256:
        return cached
    if file.url is None:
        raise FileNotFoundError(_missing(file))
    try:
        _download(file, cached)
    except OSError as error:  # what requests raises offline or on a 404 is an OSError too
        reason = f" and the download from {file.url} failed ({type(error).__name__})"
        raise FileNotFoundError(_missing(file, reason)) from None
    return cached


def _data_folder() -> Path | None:
    chosen = os.environ.get("ZOO_DATA")
    return Path(chosen) if chosen else None


def _missing(file: RemoteFile, reason: str = "") -> str:
    data = _data_folder()
    looked = f"{data} (from ZOO_DATA)" if data else "ZOO_DATA (not set)"
    return f"{file.name} is neither in {looked} nor in the cache {cache_folder()}{reason}. {file.advice}"


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def _download(file: RemoteFile, target: Path) -> None:
    import pooch

    if not file.zipped:
        pooch.retrieve(
            file.url, known_hash=f"sha256:{file.sha256}", fname=target.name, path=str(target.parent)
        )
        return
    # The archive's own checksum is not on record; that of the file inside is, and it decides.
    archive = Path(
        pooch.retrieve(file.url, known_hash=None, fname=f"{target.stem}.zip", path=str(target.parent))
    )
    try:
        content = _member(archive, target.name)
    finally:
        archive.unlink(missing_ok=True)
    if _sha256(content) != file.sha256:
        raise ValueError(f"{file.name} in {file.url} has a wrong sha256 checksum. It was not kept.")
    partial = target.with_suffix(f".{os.getpid()}.part")
    partial.write_bytes(content)
    partial.replace(target)  # a reader never sees half a file


def _member(archive: Path, name: str) -> bytes:
    import zipfile

    try:
        with zipfile.ZipFile(archive) as opened:
            for member in opened.namelist():
                if member.rsplit("/", 1)[-1] == name:
                    return opened.read(member)
    except zipfile.BadZipFile as error:
        raise OSError(f"{archive} is not a zip archive") from error
    raise FileNotFoundError(f"{name} is not in the archive")
