"""Saved fits that are damaged or forged, and tables on the command line: an answer, or one sentence."""

from __future__ import annotations

import json
import subprocess
import sys
import warnings

import h5py
import numpy as np
import pytest
import xarray as xr

import zoo
from tests.hostile.outcome import CASES, check_message
from zoo.cli import main
from zoo.core.storage import SCHEMA_VERSION
from zoo.support.untrusted import require_plain_file


def _fit(shared=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(8, 2))
    if shared:
        Y = np.where(rng.random((8, 3)) < 0.5, 1.0, 0.0)
        data = zoo.MultiTaskData.from_multilabel(X, Y, task_names=["a", "b", "c"])
        return zoo.PooledTasks(likelihood="logistic").fit(
            data, draws=3, chains=2, random_seed=1, progress=False
        )
    data = zoo.MultiTaskData.from_arrays(X, rng.normal(size=8), np.repeat(["a", "b"], 4), t=np.arange(8.0))
    return zoo.IndependentTasks().fit(data.standardize(), draws=3, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module", params=[False, True], ids=["own inputs", "shared inputs"])
def saved(request, tmp_path_factory):
    """A fit and its file."""
    fit = _fit(request.param)
    return fit, fit.save(tmp_path_factory.mktemp("fits") / "fit.nc")


def _same(fit, other):
    return (
        fit.factory == other.factory
        and fit.method == other.method
        and fit.posterior.equals(other.posterior)
        and all(
            np.array_equal(getattr(fit.data, name), getattr(other.data, name))
            for name in ("inputs", "row", "y", "task", "t", "weight")
            if getattr(fit.data, name) is not None
        )
        and fit.data.task_names == other.data.task_names
        and fit.data.feature_names == other.data.feature_names
    )


def _refused(path):
    """``zoo.load`` names the file and what to do."""
    with pytest.raises(ValueError) as caught:
        zoo.load(path)
    message = str(caught.value)
    assert message.startswith(f"path {str(path)!r}"), message
    assert message.rstrip().endswith("."), message
    return message


def _damage(content, rng):
    """Bytes flipped, cut off, zeroed, repeated or put in."""
    content = bytearray(content)
    kind = rng.integers(6)
    place = int(rng.integers(len(content)))
    if kind <= 1:
        for _ in range(int(rng.integers(1, 9))):
            content[int(rng.integers(len(content)))] ^= 1 << int(rng.integers(8))
    elif kind == 2:
        del content[place:]
    elif kind == 3:
        content[place : place + 64] = bytes(len(content[place : place + 64]))
    elif kind == 4:
        other = int(rng.integers(len(content)))
        content[place : place + 256] = content[other : other + 256]
    else:
        content[place:place] = rng.bytes(int(rng.integers(1, 9)))
    return bytes(content)


def _fuzz(saved, tmp_path, seeds):
    fit, path = saved
    content = path.read_bytes()
    target = tmp_path / "damaged.nc"
    survived = 0
    for seed in seeds:
        target.write_bytes(_damage(content, np.random.default_rng(seed)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of xarray, on attributes that it cannot read
            try:
                back = zoo.load(target)
            except ValueError as error:
                assert str(error).startswith(f"path {str(target)!r}"), (seed, str(error))
                continue
        survived += 1
        assert _same(fit, back), f"seed {seed}: another fit came back"
    return survived


def test_damaged_bytes(saved, tmp_path):
    _fuzz(saved, tmp_path, range(30))


@pytest.mark.statistical
def test_damaged_bytes_many(saved, tmp_path):
    survived = _fuzz(saved, tmp_path, range(30, 30 + CASES))
    assert survived < CASES  # not all of them passed by


# -------------------------------------------------------------------- forged files


def _forge(saved, tmp_path, change):
    """A copy of the file, changed by h5py and signed anew, as one who wants to deceive would."""
    from zoo.core.storage import digest_of_tree

    target = tmp_path / "forged.nc"
    target.write_bytes(saved[1].read_bytes())
    with h5py.File(target, "r+") as file:
        change(file)
    try:
        require_plain_file(target)
        with xr.open_datatree(target, engine="h5netcdf") as opened:
            digest = digest_of_tree(opened.load())
    except Exception:  # then the forger cannot sign either
        return target
    with h5py.File(target, "r+") as file:
        if "zoo_digest" in file.attrs:
            file.attrs["zoo_digest"] = digest
    return target


def _spec(**changed):
    def change(file):
        spec = json.loads(file.attrs["zoo_spec"])
        spec["fields"].update(changed)
        file.attrs["zoo_spec"] = json.dumps(spec)

    return change


def _attribute(name, value):
    return lambda file: file.attrs.__setitem__(name, value)


def _set(variable, value):
    def change(file):
        file[variable][...] = value

    return change


def _replace(variable, values):
    """Other values under the same name, with the dims of the old ones where their number allows."""

    def change(file):
        old = file[variable]
        scales = [list(dim.values()) for dim in old.dims]
        del file[variable]
        new = file.create_dataset(variable, data=values)
        for dim, scale in zip(new.dims, scales, strict=False):
            if scale:
                dim.attach_scale(scale[0])

    return change


def _delete(name):
    def change(file):
        del file[name]

    return change


def _external(file):
    del file["observed_data/y"]
    file["observed_data"].create_dataset("y", (8,), "f8", external=[("/etc/hostname", 0, 64)])


def _soft_link(file):
    del file["observed_data/y"]
    file["observed_data/y"] = h5py.SoftLink("/posterior/noise")


def _external_link(file):
    file["more"] = h5py.ExternalLink("../other.nc", "/")


def _circle(file):
    file["posterior/again"] = file["posterior"]


def _bomb(file):
    file["posterior"].create_dataset("bomb", (10**9, 1000), "f8", chunks=(1000, 1000))


FORGERIES = {
    "version of text": _attribute("zoo_schema_version", "one"),
    "version of a list": _attribute("zoo_schema_version", [1, 1]),
    "another version": _attribute("zoo_schema_version", SCHEMA_VERSION + 1),
    "huge version": _attribute("zoo_schema_version", 2**62),
    "no spec": _attribute("zoo_spec", ""),
    "spec of a list": _attribute("zoo_spec", "[]"),
    "spec of a number": _attribute("zoo_spec", 3),
    "deep spec": _attribute("zoo_spec", "[" * 20_000),
    "deep spec, closed": _attribute("zoo_spec", '{"factory": ' + "[" * 20_000 + "]" * 20_000 + "}"),
    "long number": _attribute("zoo_spec", "1" * 10_000),
    "factory of a list": _attribute("zoo_spec", '{"factory": [], "fields": {}}'),
    "factory that is a module": _attribute("zoo_spec", '{"factory": "os", "fields": {}}'),
    "factory with a path": _attribute("zoo_spec", '{"factory": "../../os.system", "fields": {}}'),
    "fields of a list": _attribute("zoo_spec", '{"factory": "IndependentTasks", "fields": []}'),
    "field unknown": _spec(colour="red"),
    "field of code": _spec(likelihood="__import__('os').system('true')"),
    "field of a list": _spec(prior_scale=[1.0, 2.0]),
    "field of a dict": _spec(prior_scale={"a": 1}),
    "field of text": _spec(prior_scale="1"),
    "field nan": _spec(prior_scale=float("nan")),
    "field null": _spec(likelihood=None),
    "method of a list": _attribute("zoo_method", [1, 2]),
    "transform of text": _attribute("zoo_transform", '"x"'),
    "transform short": _attribute(
        "zoo_transform", '{"x_mean": [0], "x_scale": [1], "y_mean": 0, "y_scale": 1}'
    ),
    "transform zero": _attribute(
        "zoo_transform", '{"x_mean": [0, 0], "x_scale": [0, 1], "y_mean": 0, "y_scale": 1}'
    ),
    "transform nan": _attribute(
        "zoo_transform", '{"x_mean": [0, NaN], "x_scale": [1, 1], "y_mean": 0, "y_scale": 1}'
    ),
    "transform without y": _attribute("zoo_transform", '{"x_mean": [0, 0], "x_scale": [1, 1]}'),
    "transform of objects": _attribute(
        "zoo_transform", '{"x_mean": [{}, []], "x_scale": [1, 1], "y_mean": 0, "y_scale": 1}'
    ),
    "conditioned of text": _attribute("zoo_conditioned", '"task"'),
    "conditioned unknown": _attribute("zoo_conditioned", '["nobody"]'),
    "conditioned number": _attribute("zoo_conditioned", "7"),
    "task beyond": _set("constant_data/task_index", 7),
    "task below": _set("constant_data/task_index", -1),
    "task of floats": lambda f: _replace(
        "constant_data/task_index", np.full(f["observed_data/y"].shape, np.nan)
    )(f),
    "y nan": _set("observed_data/y", np.nan),
    "y of text": lambda f: _replace("observed_data/y", np.array([b"1"] * len(f["observed_data/y"])))(f),
    "X inf": _set("constant_data/X", np.inf),
    "X gone": _delete("constant_data/X"),
    "y gone": _delete("observed_data/y"),
    "posterior gone": _delete("posterior"),
    "coefficients of text": lambda f: _replace(
        "posterior/coefficients", np.full(f["posterior/coefficients"].shape, b"1")
    )(f),
    "empty task name": lambda f: f["constant_data/task"].__setitem__(0, ""),
    "task named twice": lambda f: f["constant_data/task"].__setitem__(0, "b"),
    "numbers of another file": _external,
    "soft link": _soft_link,
    "external link": _external_link,
    "circle": _circle,
    "bomb": _bomb,
}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", FORGERIES)
def test_forged_files_are_refused(saved, tmp_path, name):
    _refused(_forge(saved, tmp_path, FORGERIES[name]))


def test_wrong_row_is_refused(saved, tmp_path):
    if not saved[0].data.shares_inputs:
        pytest.skip("each row has its own inputs")
    _refused(_forge(saved, tmp_path, _set("constant_data/row", 1000)))


def test_changed_numbers_are_noticed(saved, tmp_path):
    target = tmp_path / "changed.nc"
    target.write_bytes(saved[1].read_bytes())
    with h5py.File(target, "r+") as file:
        file["posterior/coefficients"][0, 0] += 1e-9
    assert "digest" in _refused(target)


def test_other_files_are_refused(tmp_path):
    files = {"empty": b"", "text": b"a,b\n1,2\n", "zip": b"PK\x03\x04", "hdf5": b"\x89HDF\r\n\x1a\n"}
    for name, content in files.items():
        path = tmp_path / f"{name}.nc"
        path.write_bytes(content)
        _refused(path)
    with h5py.File(tmp_path / "other.h5", "w") as file:
        file["x"] = 1.0
    _refused(tmp_path / "other.h5")
    with pytest.raises(FileNotFoundError, match="is no file"):
        zoo.load(tmp_path)


@pytest.mark.parametrize("name", ["../up", "/etc/passwd", "ä 📈\u202e", "\n", "a" * 70_000])
def test_names_of_any_kind_come_back(tmp_path, name):
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.normal(size=(6, 2)), rng.normal(size=6), [name, "b"] * 3, feature_names=[name, "x"]
    )
    fit = zoo.PooledTasks().fit(data, draws=2, chains=1, random_seed=1, progress=False)
    back = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert back.data.task_names == data.task_names
    assert back.data.feature_names == data.feature_names
    assert sorted(p.name for p in tmp_path.iterdir()) == ["fit.nc"]


@pytest.mark.statistical  # for the time that it takes to compile
def test_sparse_parts_are_checked(tmp_path):
    """An index outside of the matrix would be read outside of its memory."""
    from scipy.sparse import csr_matrix

    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        csr_matrix(rng.normal(size=(6, 2))), rng.normal(size=6), ["a", "b"] * 3
    )
    fit = zoo.NIWGaussianProcess().fit(data, "em", draws=2, chains=1, random_seed=1, progress=False)
    path = fit.save(tmp_path / "fit.nc")
    assert _same_sparse(zoo.load(path).data.inputs, data.inputs)
    for variable, value in (("X_indices", 10**6), ("X_indptr", 10**6), ("X_data", np.nan)):
        _refused(_forge((fit, path), tmp_path, _set(f"constant_data/{variable}", value)))


def _same_sparse(one, other):
    return one.shape == other.shape and (one != other).nnz == 0


# -------------------------------------------------------------------- command line

GOOD = "ward,score,x\na,1.0,0.1\na,2.0,0.2\nb,1.5,0.4\nb,0.5,0.9\n"
TABLES = {
    "empty": "",
    "header alone": "ward,score,x\n",
    "text in a feature": GOOD + "b,1.0,red\n",
    "missing response": GOOD + "b,,0.3\n",
    "missing task": GOOD + ",1.0,0.3\n",
    "infinite": GOOD + "b,1.0,inf\n",
    "huge": GOOD + "b,1.0,1e400\n",
    "ragged": GOOD + "b,1.0,0.3,7,8\n",
    "binary": "\0\1\2\n",
    "quote": 'ward,score,x\n"a,1,2\n',
    "twice": "ward,score,x,x\na,1,2,3\nb,1,2,3\n",
    "constant response": "ward,score,x\na,1,2\nb,1,3\n",
}


@pytest.mark.parametrize("name", TABLES)
def test_hostile_tables_on_the_command_line(tmp_path, capsys, name):
    path = tmp_path / "table.csv"
    path.write_text(TABLES[name], encoding="utf-8")
    out = tmp_path / "fit.nc"
    arguments = ["--y", "score", "--task", "ward", "--draws", "2", "--tune", "2", "--chains", "1"]
    code = main(["fit", "PooledTasks", "--data", str(path), *arguments, "--out", str(out)])
    error = capsys.readouterr().err
    if code == 0:
        assert name == "twice"  # pandas tells the columns apart
        return
    assert code == 2
    assert error.startswith("Error: ") and error.count("\n") == 1, error
    check_message(error, ("table", "file", "header"))
    assert not out.exists()


def test_command_line_refuses_damaged_fits(saved, tmp_path, capsys):
    table = tmp_path / "new.csv"
    table.write_text(GOOD, encoding="utf-8")
    damaged = tmp_path / "fit.nc"
    damaged.write_bytes(saved[1].read_bytes()[:-500])
    assert main(["predict", str(damaged), "--data", str(table), "--out", str(tmp_path / "out.csv")]) == 2
    assert "fit.nc" in capsys.readouterr().err


@pytest.mark.statistical  # for the time that it takes to import in a process of its own
def test_loading_imports_and_runs_nothing(saved):
    """Python's audit hook sees no code compiled, no process, no pickle and no socket while a fit is loaded."""
    code = (
        "import sys, zoo; zoo.load(sys.argv[1])\n"  # first all imports
        "seen, bad = [], {'compile', 'os.system', 'subprocess.Popen', 'pickle.find_class', 'socket.connect'}\n"
        "sys.addaudithook(lambda event, args: seen.append(event))\n"
        "zoo.load(sys.argv[1])\n"
        "assert 'open' in seen and not bad & set(seen), bad & set(seen)\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(saved[1])], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
