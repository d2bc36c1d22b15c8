"""Loaders against the known shapes, the registry's errors, and the simulators against their laws.

The statistical checks have a fixed seed, and a false-alarm rate of at most 1e-6 each for a fresh one.
"""

import hashlib
import http.server
import os
import subprocess
import sys
import threading
import xml.etree.ElementTree
import zipfile
from functools import partial
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from scipy import stats

from zoo import datasets
from zoo.datasets import registry
from zoo.datasets.arff import read_arff

needs_files = pytest.mark.skipif(not os.environ.get("ZOO_DATA"), reason="ZOO_DATA is not set")
FALSE_ALARM = 1e-6
Z_LIMIT = stats.norm.isf(FALSE_ALARM / 2)


# ---------------------------------------------------------------- School


@pytest.fixture(scope="module")
def school():
    return datasets.load_school()


@needs_files
def test_school_shape_and_names(school):
    assert (school.n_rows, school.n_features, school.n_tasks) == (15362, 28, 139)
    assert (school.task_sizes.min(), school.task_sizes.max()) == (22, 251)
    assert school.task_names[0] == "school 1" and school.task_names[-1] == "school 139"
    assert (school.y.min(), school.y.max()) == (1.0, 70.0)
    assert school.y.dtype == school.X.dtype == np.float64


@needs_files
def test_school_feature_names_fit_the_columns(school):
    def columns(prefix):
        return [i for i, name in enumerate(school.feature_names) if name.startswith(prefix)]

    X = school.X
    bands = [school.feature_names.index(f"VR band {i}") for i in (1, 2, 3)]
    for prefix in ("year", "gender", "ethnic group", "school gender", "denomination"):
        np.testing.assert_array_equal(X[:, columns(prefix)].sum(axis=1), 1.0)
    assert (X[:, bands].sum(axis=1) == 0).sum() == 15
    assert len(columns("ethnic group")) == 11
    assert X[:, school.feature_names.index("free meals")].max() > 1
    np.testing.assert_array_equal(X[:, -1], 1.0)
    assert school.feature_names[-1] == "intercept"
    means = [school.y[X[:, band] == 1].mean() for band in bands]
    np.testing.assert_allclose(means, [30.3, 19.2, 11.1], atol=0.1)  # band 1 holds the best readers


@needs_files
@pytest.mark.parametrize("split", range(1, 11))
def test_school_split_keeps_tasks(school, split):
    from scipy.io import loadmat

    train, test = datasets.load_school(split=split)
    assert (train.n_rows, test.n_rows) == (11472, 3890)
    assert train.task_names == test.task_names == school.task_names
    file = loadmat(registry.fetch(f"school/school_{split}_indexes.mat"))
    starts = loadmat(registry.fetch("school/school_b.mat"))["task_indexes"].ravel().astype(int)
    positions = {}
    for name, part in (("tr", train), ("tst", test)):
        positions[name] = np.sort(file[name].ravel().astype(int)) - 1
        assert not part.shares_inputs
        part_starts = file[f"{name}_indexes"].ravel().astype(int)
        assert part.n_rows > part_starts[-1]
        sizes = np.diff(np.append(part_starts, part.n_rows + 1))
        np.testing.assert_array_equal(part.task, np.repeat(np.arange(139), sizes))
        np.testing.assert_array_equal(part.y, school.y[positions[name]])
        np.testing.assert_array_equal(part.X, school.X[positions[name]])
        # In the file's own order too, each row comes from the block of its school.
        published = file[name].ravel().astype(int)
        np.testing.assert_array_equal(np.searchsorted(starts, published, "right") - 1, part.task)
    covered = np.sort(np.concatenate([positions["tr"], positions["tst"]]))
    np.testing.assert_array_equal(covered, np.arange(15362))


@pytest.mark.parametrize("split", [0, 11, "official", 1.5])
def test_school_unknown_split(split):
    with pytest.raises(ValueError, match="split"):
        datasets.load_school(split=split)


# ---------------------------------------------------------------- multi-label sets


@needs_files
@pytest.mark.parametrize(
    ("name", "n", "n_features", "n_labels", "sizes"),
    [
        ("emotions", 593, 72, 6, (391, 202)),
        ("scene", 2407, 294, 6, (1211, 1196)),
        ("yeast", 2417, 103, 14, (1500, 917)),
    ],
)
def test_mulan_shapes_and_split(name, n, n_features, n_labels, sizes):
    load = getattr(datasets, f"load_{name}")
    whole = load()
    train, test = load(split="official")
    assert whole.inputs.shape == (n, n_features)
    assert (len(train.inputs), len(test.inputs)) == sizes
    assert whole.n_tasks == n_labels and whole.n_rows == n * n_labels
    assert set(whole.y) == set(train.y) == {0.0, 1.0}
    assert train.task_names == test.task_names == whole.task_names
    assert set(whole.task_names) == label_names(name)
    np.testing.assert_array_equal(np.concatenate([train.inputs, test.inputs]), whole.inputs)
    with pytest.raises(ValueError, match="split"):
        load(split=1)


@needs_files
@pytest.mark.parametrize(("name", "train_first"), [("emotions", True), ("yeast", False)])
def test_mulan_parts_are_the_whole_file(name, train_first):
    path = Path(os.environ["ZOO_DATA"]) / "mulan" / name / f"{name}.arff"
    columns, values = read_arff(path)
    whole = getattr(datasets, f"load_{name}")()
    n_train = len(getattr(datasets, f"load_{name}")(split="official")[0].inputs)
    order = np.arange(len(values))
    if not train_first:
        order = np.concatenate([order[n_train:], order[:n_train]])
    np.testing.assert_array_equal(values[:, : -whole.n_tasks], whole.inputs[order])
    labels = whole.y.reshape(whole.n_tasks, -1).T
    np.testing.assert_array_equal(values[:, -whole.n_tasks :], labels[order])
    assert columns == [*whole.feature_names, *whole.task_names]


@needs_files
def test_cal500_shape():
    data = datasets.load_cal500()
    assert data.inputs.shape == (502, 68)
    assert (data.n_tasks, data.n_rows) == (174, 502 * 174)
    assert set(data.task_names) == label_names("cal500")


@needs_files
@pytest.mark.parametrize("subset", [1, 2, 3])
def test_rcv1_shape_and_norms(subset):
    data = datasets.load_rcv1_subset(subset)
    assert data.X.shape == (6000, 47236) and data.X.dtype == np.float64
    assert data.Y.shape == (6000, 101) and data.Y.dtype == np.int8
    assert set(np.unique(data.Y)) == {0, 1}
    assert len(data.label_names) == 101
    np.testing.assert_array_equal(np.bincount(data.half), [3000, 3000])
    norms = np.sqrt(data.X.multiply(data.X).sum(axis=1))
    np.testing.assert_allclose(norms, 1.0, atol=1e-4)  # the file has six decimals


def test_rcv1_unknown_subset():
    with pytest.raises(ValueError, match="subset"):
        datasets.load_rcv1_subset(4)


def label_names(name):
    path = Path(os.environ["ZOO_DATA"]) / "mulan" / name / f"{name}.xml"
    return {node.attrib["name"] for node in xml.etree.ElementTree.parse(path).getroot()}


# ---------------------------------------------------------------- ARFF


def test_arff_dense_sparse_and_quoted(tmp_path):
    path = tmp_path / "mixed.arff"
    path.write_text(
        "% comment\n@RELATION 'r'\n@attribute 'two words' numeric\n@attribute \"o'clock\" real\n"
        "@attribute 'it\\'s' NUMERIC\n@Attribute label {0,1}\n\n@DATA\n1,2.5,?,1\n{1 3, 3 1}\n{ }\n"
    )
    columns, values = read_arff(path)
    assert columns == ["two words", "o'clock", "it's", "label"]
    np.testing.assert_array_equal(values, [[1, 2.5, np.nan, 1], [0, 3, 0, 1], [0, 0, 0, 0]])


@pytest.mark.parametrize("row", ["1,2", "1,2,3,red", "{9 1}", "{1}", "{-1 5}"])
def test_arff_bad_row_names_file_and_line(tmp_path, row):
    path = tmp_path / "bad.arff"
    path.write_text(
        "@relation r\n" + "".join(f"@attribute a{i} numeric\n" for i in range(4)) + f"@data\n{row}\n"
    )
    with pytest.raises(ValueError, match=r"bad\.arff, line 7"):
        read_arff(path)


@pytest.mark.parametrize("text", ["", "@attribute a numeric\n", "@attribute a numeric\n@data\n"])
def test_arff_without_rows(tmp_path, text):
    path = tmp_path / "empty.arff"
    path.write_text(text)
    with pytest.raises(ValueError, match="no data rows"):
        read_arff(path)


# ---------------------------------------------------------------- tables


@needs_files
def test_lenk_is_person_major():
    from scipy.io import loadmat

    file = loadmat(registry.fetch("lenk/conjointAnalysisComputerBuyers.mat"))
    data = datasets.load_lenk_computers()
    assert (data.n_rows, data.n_features, data.n_tasks) == (3800, 14, 190)
    assert (data.y.min(), data.y.max()) == (0.0, 10.0)
    assert set(np.unique(data.X)) == {-1.0, 1.0}
    profile = np.arange(data.n_rows) % 20
    np.testing.assert_array_equal(data.X, file["designMarix"][profile])
    np.testing.assert_array_equal(data.y, file["likeBuy"][data.task, profile])
    assert (data.feature_names[0], data.feature_names[-1]) == ("intercept", "price")
    assert data.task_names[:2] == ("person 1", "person 2")
    assert data.take(profile < 16).task_sizes.eq(16).all()


@needs_files
def test_king_county_columns():
    data = datasets.load_king_county()
    assert (data.n_rows, data.n_features, data.n_tasks) == (21613, 15, 70)
    assert not {"price", "date", "lat", "long", "zipcode"} & set(data.feature_names)
    longitude, latitude, day = data.t.T
    assert longitude.max() < -121 and 47 < latitude.min() < latitude.max() < 48
    assert (day.min(), day.max()) == (0.0, 390.0)  # 2 May 2014 to 27 May 2015
    first = data.X[0][[data.feature_names.index(c) for c in ("bedrooms", "sqft_living", "yr_built")]]
    np.testing.assert_array_equal(first, [3, 1180, 1955])
    assert data.y[0] == 221900.0 and data.task_names[data.task[0]] == "98178"


@needs_files
def test_nyc_rents_filter():
    every, kept = datasets.load_nyc_rents(filter_outliers=False), datasets.load_nyc_rents()
    assert (every.n_rows, kept.n_rows) == (49352, 49194)
    assert every.task_names == kept.task_names == ("New York",)
    assert kept.y.min() >= 500 and kept.y.max() <= 20000
    assert (kept.t.min(axis=0) >= [-74.26, 40.49]).all() and (kept.t.max(axis=0) <= [-73.70, 40.92]).all()
    assert kept.feature_names == ("bathrooms", "bedrooms", "interest medium", "interest high")
    np.testing.assert_array_equal(every.X[:, 2:].sum(axis=0), [11229, 3839])
    np.testing.assert_array_equal(every.X[0], [1.5, 3, 1, 0])


def test_grunfeld_panel():
    data = datasets.load_grunfeld()
    assert (data.n_rows, data.n_tasks) == (220, 11)
    assert data.feature_names == ("value", "capital", "intercept")
    assert data.task_sizes.eq(20).all()
    assert data.task_names[0] == "General Motors"
    np.testing.assert_array_equal(data.X[0], [3078.5, 2.8, 1.0])
    assert data.y[0] == 317.6


@pytest.mark.parametrize("test_years", [1, 5, 19])
def test_grunfeld_split_by_year(test_years):
    whole = datasets.load_grunfeld()
    train, test = datasets.load_grunfeld(test_years=test_years)
    year = np.arange(220) % 20
    np.testing.assert_array_equal(test.y, whole.y[year >= 20 - test_years])
    np.testing.assert_array_equal(train.X, whole.X[year < 20 - test_years])
    assert test.task_sizes.eq(test_years).all() and train.task_sizes.eq(20 - test_years).all()


@pytest.mark.parametrize("test_years", [0, 20, -1, 2.5, "5", True])
def test_grunfeld_bad_test_years(test_years):
    with pytest.raises(ValueError, match="test_years"):
        datasets.load_grunfeld(test_years=test_years)


# ---------------------------------------------------------------- registry


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


@needs_files
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


# ---------------------------------------------------------------- simulators


def random_covariance(rng, dim):
    root = rng.standard_normal((dim, dim + 5))
    return root @ root.T / dim


def test_simulated_shapes_and_names():
    data, truth = datasets.simulate_matrix_normal(
        n_tasks=3, n_features=2, n_per_task=[4, 1, 7], intercept=True, random_seed=1
    )
    assert data.task_sizes.tolist() == [4, 1, 7]
    assert data.feature_names == ("x0", "x1", "intercept")
    np.testing.assert_array_equal(data.X[:, 2], 1.0)
    assert truth["coefficients"].dims == ("feature", "task") and truth["coefficients"].shape == (3, 3)
    assert truth["feature_cov"].dims == ("feature", "feature_bis")
    assert truth["task_cov"].dims == ("task", "task_bis")
    assert tuple(truth["feature"].values) == tuple(truth["feature_bis"].values) == data.feature_names
    assert tuple(truth["task"].values) == tuple(truth["task_bis"].values) == data.task_names
    for name in ("feature_cov", "task_cov"):
        assert np.linalg.eigvalsh(truth[name].values)[0] > 0


@pytest.mark.parametrize("loss", ["epsilon_insensitive", "hinge"])
@pytest.mark.parametrize("dims", [(1, 1), (1, 3), (4, 1)])
def test_simulated_with_one_task_or_feature(loss, dims):
    data, truth = datasets.simulate_matrix_normal(*dims, loss=loss, random_seed=0)
    assert truth["coefficients"].shape == (dims[1], dims[0])
    assert data.n_rows == 30 * dims[0]


def test_same_seed_same_data():
    first, truth = datasets.simulate_matrix_normal(random_seed=7)
    second, again = datasets.simulate_matrix_normal(random_seed=np.random.default_rng(7))
    other, _ = datasets.simulate_matrix_normal(random_seed=8)
    np.testing.assert_array_equal(first.y, second.y)
    assert truth.identical(again)
    assert not np.array_equal(first.y, other.y)


def test_coefficients_are_matrix_normal():
    rng = np.random.default_rng(1)
    D, T = 30, 40
    feature_cov, task_cov = random_covariance(rng, D), random_covariance(rng, T)
    _, truth = datasets.simulate_matrix_normal(
        T, D, n_per_task=1, feature_cov=feature_cov, task_cov=task_cov, random_seed=rng
    )
    np.testing.assert_allclose(truth["feature_cov"], feature_cov)
    np.testing.assert_allclose(truth["task_cov"], task_cov)
    left, right = np.linalg.cholesky(feature_cov), np.linalg.cholesky(task_cov)
    white = np.linalg.solve(right, np.linalg.solve(left, truth["coefficients"].values).T).T
    assert stats.kstest(white.ravel(), "norm").pvalue > FALSE_ALARM
    # ||white||^2 is chi-square with D T degrees of freedom; a misplaced factor would inflate it.
    assert stats.chi2(D * T).sf(np.sum(white**2)) > FALSE_ALARM / 2
    assert stats.chi2(D * T).cdf(np.sum(white**2)) > FALSE_ALARM / 2


def test_default_covariances_have_identity_mean():
    """The diagonal entry of an inverse-Wishart draw is inverse-gamma((nu - dim + 1) / 2, scale / 2)."""
    entries = [
        datasets.simulate_matrix_normal(2, 3, 1, random_seed=seed)[1]["feature_cov"].values[0, 0]
        for seed in range(300)
    ]
    assert stats.kstest(entries, stats.invgamma(2.0, scale=1.0).cdf).pvalue > FALSE_ALARM


def tube_cdf(e, C, epsilon):
    mass = 2 * epsilon + 1 / C
    tail = np.exp(-2 * C * np.maximum(0.0, np.abs(e) - epsilon)) / (2 * C)
    middle = 0.5 + np.clip(e, -epsilon, epsilon) / mass
    return np.where(np.abs(e) <= epsilon, middle, np.where(e > 0, 1 - tail / mass, tail / mass))


@pytest.mark.parametrize(("C", "epsilon"), [(1.0, 0.1), (0.5, 2.0), (3.0, 0.0)])
def test_tube_noise_follows_its_density(C, epsilon):
    n = 100_000
    data, truth = datasets.simulate_matrix_normal(2, 3, n // 2, C=C, epsilon=epsilon, random_seed=3)
    noise = data.y - np.sum(data.X * truth["coefficients"].values[:, data.task].T, axis=1)
    inside = 2 * epsilon / (2 * epsilon + 1 / C)
    second = inside * epsilon**2 / 3 + (1 - inside) * (epsilon**2 + epsilon / C + 1 / (2 * C**2))
    assert abs(noise.mean()) < Z_LIMIT * np.sqrt(second / n)
    assert abs((noise**2).mean() - second) < Z_LIMIT * (noise**2).std() / np.sqrt(n)
    assert stats.kstest(noise, tube_cdf, args=(C, epsilon)).pvalue > FALSE_ALARM


@pytest.mark.parametrize(("C", "margin"), [(1.0, 1.0), (0.2, 2.0)])
def test_hinge_labels_follow_their_law(C, margin):
    n = 100_000
    data, truth = datasets.simulate_matrix_normal(2, 3, n // 2, "hinge", C=C, margin=margin, random_seed=4)
    assert set(np.unique(data.y)) == {-1.0, 1.0}
    f = np.sum(data.X * truth["coefficients"].values[:, data.task].T, axis=1)
    plus = np.exp(-2 * C * np.maximum(0, margin - f))
    minus = np.exp(-2 * C * np.maximum(0, margin + f))
    p = plus / (plus + minus)
    for low, high in [(-np.inf, -1), (-1, -0.3), (-0.3, 0.3), (0.3, 1), (1, np.inf)]:
        chosen = (f > low) & (f <= high)
        assert chosen.sum() > 1000
        excess = np.sum((data.y[chosen] == 1) - p[chosen]) / np.sqrt(np.sum((p * (1 - p))[chosen]))
        assert abs(excess) < Z_LIMIT


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_tasks", 0),
        ("n_tasks", 2.0),
        ("n_features", True),
        ("n_per_task", 0),
        ("n_per_task", [3, 4]),
        ("n_per_task", [3, 4, 0]),
        ("n_per_task", "many"),
        ("loss", "logistic"),
        ("C", 0.0),
        ("C", np.nan),
        ("epsilon", -0.1),
        ("epsilon", "wide"),
        ("margin", -1.0),
        ("feature_cov", np.eye(3)),
        ("feature_cov", -np.eye(2)),
        ("task_cov", np.ones((3, 3))),
        ("task_cov", [[1.0, 0.5, 0.0], [0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]),
    ],
)
def test_bad_argument_is_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_matrix_normal(**({"n_tasks": 3, "n_features": 2} | {argument: value}))


# ---------------------------------------------------------------- joint selection


def test_joint_selection_shapes_and_names():
    data, truth = datasets.simulate_joint_selection(3, 4, variances=[1.0, 2.0], n_per_task=[4, 1, 7])
    assert data.task_sizes.tolist() == [4, 1, 7]
    assert data.feature_names == tuple(truth["feature"].values) == ("x0", "x1", "x2", "x3")
    assert data.task_names == tuple(truth["task"].values) == ("task 0", "task 1", "task 2")
    assert truth["coefficients"].dims == ("feature", "task") and truth.attrs == {"noise": 0.04}
    assert truth["relevant"].dtype == bool and truth["relevant"].values.tolist() == [True, True, False, False]
    zero = truth["coefficients"].values == 0.0
    assert zero[2:].all() and not zero[:2].any()


def test_joint_selection_defaults_are_the_papers():
    data, truth = datasets.simulate_joint_selection(random_seed=1)
    assert (data.n_tasks, data.n_features, data.n_rows) == (10, 10, 250)
    assert truth["relevant"].sum() == 5
    assert data.transform is None


def test_joint_selection_has_the_same_data_for_the_same_seed():
    first, truth = datasets.simulate_joint_selection(random_seed=7)
    second, again = datasets.simulate_joint_selection(random_seed=np.random.default_rng(7))
    other, _ = datasets.simulate_joint_selection(random_seed=8)
    np.testing.assert_array_equal(first.y, second.y)
    assert truth.identical(again)
    assert not np.array_equal(first.y, other.y)


@pytest.mark.parametrize("noise", [0.0, 0.04, 1.0])
def test_joint_selection_follows_its_law(noise):
    variances = np.array([4.0, 0.01])
    data, truth = datasets.simulate_joint_selection(2000, 3, variances, 2, noise, random_seed=5)
    coefficients = truth["coefficients"].values
    for row, variance in zip(coefficients, variances, strict=False):
        assert stats.kstest(row / np.sqrt(variance), "norm").pvalue > FALSE_ALARM
    assert abs(np.corrcoef(coefficients[:2])[0, 1]) < Z_LIMIT / np.sqrt(2000)
    for column in data.X.T:
        assert stats.kstest(column, "uniform").pvalue > FALSE_ALARM
    residual = data.y - np.sum(data.X * coefficients[:, data.task].T, axis=1)
    if noise == 0.0:
        np.testing.assert_allclose(residual, 0.0, atol=1e-14)
    else:
        assert stats.kstest(residual / noise, "norm").pvalue > FALSE_ALARM


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_tasks", 0),
        ("n_features", 2.0),
        ("n_per_task", [3, 4]),
        ("variances", 1.0),
        ("variances", []),
        ("variances", [1.0] * 4),
        ("variances", [1.0, 0.0]),
        ("variances", [1.0, np.nan]),
        ("variances", ["large"]),
        ("noise", -0.1),
        ("noise", np.inf),
        ("noise", "loud"),
    ],
)
def test_bad_argument_of_joint_selection_is_named(argument, value):
    settings = {"n_tasks": 3, "n_features": 3, "variances": [1.0]} | {argument: value}
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_joint_selection(**settings)


# ---------------------------------------------------------------- conjoint


def test_conjoint_shapes_and_names():
    data, truth = datasets.simulate_conjoint(3, 10, levels=(2, 3), random_seed=1)
    assert (data.n_tasks, data.n_features, data.task_sizes.tolist()) == (3, 5, [10, 10, 10])
    assert data.task_names == tuple(truth["task"].values) == ("customer 1", "customer 2", "customer 3")
    assert data.feature_names == tuple(truth["feature"].values)
    assert data.feature_names[1:3] == ("attribute 1, level 2", "attribute 2, level 1")
    assert set(data.y) == {-1.0, 1.0}
    # One level of each attribute.
    assert set(np.unique(data.X)) == {0.0, 1.0}
    np.testing.assert_array_equal(data.X[:, :2].sum(axis=1), 1.0)
    np.testing.assert_array_equal(data.X[:, 2:].sum(axis=1), 1.0)


def test_conjoint_defaults_are_the_papers_sizes():
    data, truth = datasets.simulate_conjoint(random_seed=1)
    assert (data.n_tasks, data.n_features, data.n_rows) == (200, 20, 24_000)
    assert data.transform is None
    assert truth.attrs["noise"] == 1.0 and 0.1 < truth.attrs["smallest_error"] < 0.17


def test_conjoint_has_the_same_data_for_the_same_seed():
    first, truth = datasets.simulate_conjoint(20, random_seed=7)
    second, again = datasets.simulate_conjoint(20, random_seed=np.random.default_rng(7))
    other, _ = datasets.simulate_conjoint(20, random_seed=8)
    np.testing.assert_array_equal(first.X, second.X)
    np.testing.assert_array_equal(first.y, second.y)
    assert truth.identical(again)
    assert not np.array_equal(first.y, other.y)


def test_conjoint_follows_its_law():
    levels, T, n = (3, 4), 4000, 20
    data, truth = datasets.simulate_conjoint(
        T, n, levels, common=1.5, rank=2, own=0.5, noise=0.7, random_seed=5
    )
    u, mu, covariance = (truth[name].values for name in ("coefficients", "mean", "covariance"))
    for part in (u, mu[:, None], covariance):
        np.testing.assert_allclose(part[:3].sum(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(part[3:].sum(axis=0), 0.0, atol=1e-12)
    assert np.sqrt(np.mean(mu**2)) == pytest.approx(0.85)
    assert np.trace(covariance) == pytest.approx(7 * 1.5**2 + 5 * 0.5**2)
    assert np.linalg.matrix_rank(covariance, tol=1e-8) == 5
    np.testing.assert_allclose(np.linalg.eigvalsh(covariance)[2:5], 0.25, atol=1e-10)
    # Whitened part-worths are standard normal, and independent.
    values, vectors = np.linalg.eigh(covariance)
    z = (vectors[:, 2:] / np.sqrt(values[2:])).T @ (u - mu[:, None])
    for row in z:
        assert stats.kstest(row, "norm").pvalue > FALSE_ALARM
    correlation = np.corrcoef(z)[np.triu_indices(5, 1)]
    assert np.abs(correlation).max() < Z_LIMIT / np.sqrt(T)
    assert stats.chisquare(data.X[:, :3].sum(axis=0)).pvalue > FALSE_ALARM
    assert stats.chisquare(data.X[:, 3:].sum(axis=0)).pvalue > FALSE_ALARM
    f = np.einsum("nd,dn->n", data.X, u[:, data.task])
    p = 1.0 / (1.0 + np.exp(-f / 0.7))
    # In bands of the probability, as many are bought as should be.
    bands = np.digitize(p, [0.05, 0.2, 0.4, 0.6, 0.8, 0.95])
    for band in np.unique(bands):
        rows = bands == band
        spread = np.sqrt(np.sum(p[rows] * (1 - p[rows])))
        assert abs(np.sum(data.y[rows] > 0) - p[rows].sum()) < Z_LIMIT * spread
    wrong = np.sign(f) != data.y
    assert abs(wrong.mean() - truth.attrs["smallest_error"]) < Z_LIMIT * 0.5 / np.sqrt(data.n_rows)


def test_conjoint_without_differences():
    _, truth = datasets.simulate_conjoint(5, 8, mean=0.0, common=0.0, own=0.0, random_seed=1)
    assert not truth["coefficients"].values.any() and truth.attrs["smallest_error"] == 0.5


@pytest.mark.parametrize(
    ("argument", "value"),
    [
        ("n_customers", 0),
        ("n_choices", 1.5),
        ("levels", 7),
        ("levels", []),
        ("levels", [3, 1]),
        ("mean", -1.0),
        ("common", np.nan),
        ("own", "large"),
        ("rank", 0),
        ("noise", 0.0),
    ],
)
def test_bad_argument_of_conjoint_is_named(argument, value):
    with pytest.raises(ValueError, match=rf"^{argument}\b"):
        datasets.simulate_conjoint(**({"n_customers": 3, "n_choices": 4} | {argument: value}))


def test_sizes_go_to_their_tasks_and_unused_parameters_are_refused():
    """A Series in another order was read by position; a tube of the hinge was accepted, and nothing depended on it."""
    for sizes in ({"task 1": 3, "task 0": 9}, pd.Series({"task 1": 3, "task 0": 9}), [9, 3]):
        data, _ = datasets.simulate_matrix_normal(2, 2, sizes, random_seed=1)
        assert np.bincount(data.task).tolist() == [9, 3]
    with pytest.raises(ValueError, match=r"epsilon is 0\.3, and the loss 'hinge'"):
        datasets.simulate_matrix_normal(loss="hinge", epsilon=0.3)
    with pytest.raises(ValueError, match=r"margin is 2\.0, and the loss 'epsilon_insensitive'"):
        datasets.simulate_matrix_normal(margin=2.0)
