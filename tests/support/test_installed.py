"""Models and likelihoods of other packages: they appear everywhere, and a broken one harms nobody else."""

import os
import re
import subprocess
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.other_packages import install
from zoo.cli import main
from zoo.likelihoods.resolve import LIKELIHOODS, likelihoods, resolve
from zoo.registry import FACTORIES, factories, get_factory

MODEL = '''
    from dataclasses import dataclass

    import zoo


    @dataclass(frozen=True, kw_only=True)
    class Steady(zoo.PooledTasks):
        """Pooled regression, of somebody else."""

        paper = "somebody2030"
        level: float = 1.0
'''
LIKELIHOOD = '''
    from dataclasses import dataclass
    from typing import ClassVar

    import pymc as pm

    import zoo


    @dataclass(frozen=True, kw_only=True)
    class DoubleExponential(zoo.Likelihood):
        """Real responses with Laplace noise."""

        parameter_names: ClassVar = ("noise",)
        smooth: ClassVar = False
        noise: object = "learned"

        def log_density(self, f, y, noise):
            return -abs(y - f) / noise - pm.math.log(2.0 * noise)

        def random(self, f, size, noise):
            return pm.Laplace.dist(f, noise, size=size)
'''
BOTH = MODEL + LIKELIHOOD


@pytest.fixture
def steady(monkeypatch, tmp_path):
    install(
        monkeypatch,
        tmp_path / "site",
        "steady_package",
        BOTH,
        models={"Steady": "Steady"},
        likelihoods={"double_exponential": "DoubleExponential"},
    )


def rows():
    rng = np.random.default_rng(0)
    X = np.column_stack([np.ones(24), rng.standard_normal((24, 2))])
    return zoo.MultiTaskData.from_arrays(X, X.sum(axis=1) + rng.standard_normal(24), np.arange(24) % 3)


# ---------------------------------------------------------------- one that works


def test_a_name_is_not_imported_before_it_is_asked_for(steady):
    assert factories() == (*FACTORIES, "Steady")
    assert likelihoods() == (*LIKELIHOODS, "double_exponential")
    assert resolve("gaussian") == zoo.Gaussian()
    assert "steady_package" not in sys.modules
    assert get_factory("Steady")().level == 1.0
    assert "steady_package" in sys.modules


def test_importing_the_package_reads_no_entry_points():
    code = (
        "import importlib.metadata as m\n"
        "def refuse(*a, **k): raise AssertionError('read')\n"
        "m.entry_points = refuse\n"
        "import zoo, zoo.registry, zoo.likelihoods\n"
        "zoo.NIWLinear(); zoo.registry.get_factory('MaxMargin')()\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_it_is_in_the_list(steady):
    listed = zoo.list_models()
    assert list(listed.index) == [*FACTORIES, "Steady"]
    assert listed.loc["Steady", "paper"] == "somebody2030"
    assert listed.loc["Steady", "description"] == "Pooled regression, of somebody else."


def test_words(steady):
    found = resolve("double_exponential")
    assert type(found).__name__ == "DoubleExponential"
    assert resolve(found.to_spec()) == found
    assert zoo.NIWLinear(likelihood="double_exponential").likelihood == found
    with pytest.raises(ValueError, match=r"'triple' is unknown.*'double_exponential'"):
        resolve("triple")
    with pytest.raises(ValueError, match=r"'Stedy' is unknown.*'Steady'"):
        get_factory("Stedy")
    with pytest.raises(TypeError, match="double_exponential"):
        resolve(3.0)


def test_a_file_is_read_without_naming_the_class(steady, tmp_path):
    Steady = get_factory("Steady")
    for factory, method in (
        (Steady(level=2.0), "exact"),
        (zoo.PooledTasks(likelihood="double_exponential"), "nuts"),
    ):
        options = {"nuts": {"nuts_sampler": "pymc", "max_treedepth": 2}} if method == "nuts" else {}
        fit = factory.fit(rows(), method, draws=3, tune=3, chains=1, random_seed=1, progress=False, **options)
        path = fit.save(tmp_path / f"{method}.nc")
        again = zoo.load(path)
        assert again.factory == factory and type(again.factory) is type(factory)


def test_the_command_line(steady, tmp_path, capsys):
    assert main(["list"]) == 0
    assert "Steady" in capsys.readouterr().out
    assert main(["describe", "Steady"]) == 0
    assert "level = 1.0" in capsys.readouterr().out
    data = rows()
    table = pd.DataFrame(data.X[:, 1:], columns=["a", "b"]).assign(y=data.y, task=data.task)
    table.to_csv(tmp_path / "rows.csv", index=False)
    words = [
        "--data",
        str(tmp_path / "rows.csv"),
        "--y",
        "y",
        "--task",
        "task",
        "--draws",
        "4",
        "--chains",
        "1",
    ]
    out = tmp_path / "fit.nc"
    assert main(["fit", "Steady", *words, "--set", "level=3.0", "--out", str(out), "--seed", "1"]) == 0
    assert zoo.load(out).factory == get_factory("Steady")(level=3.0)


def test_the_contract_runs_over_it(steady, tmp_path):
    root = Path(__file__).resolve().parents[2]
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "--collect-only", "-q", "-p", "no:cacheprovider"),
            *("tests/test_contract.py::TestSteady", "tests/likelihoods/test_contract.py"),
        ],
        capture_output=True,
        text=True,
        check=False,
        cwd=root,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path / "site"), str(root)])},
    )
    assert "TestSteady::test_save_and_load" in done.stdout, done.stdout + done.stderr
    assert "test_contract[double_exponential-test_predictions]" in done.stdout


# ---------------------------------------------------------------- clashes


def test_names_of_the_package_win(monkeypatch, tmp_path):
    install(
        monkeypatch,
        tmp_path / "site",
        "namesakes",
        MODEL.replace("Steady", "MaxMargin"),
        models={"MaxMargin": "MaxMargin"},
        likelihoods={"poisson": "Nothing"},
    )
    with pytest.warns(UserWarning, match="'namesakes' has an entry point 'MaxMargin'.* of the package 'zoo'"):
        assert factories() == tuple(FACTORIES)
    with pytest.warns(UserWarning, match="'namesakes' has an entry point 'poisson'.* of the package 'zoo'"):
        assert likelihoods() == tuple(LIKELIHOODS)
    assert get_factory("MaxMargin") is zoo.MaxMargin
    assert resolve("poisson") == zoo.Poisson()
    assert "namesakes" not in sys.modules


def test_two_packages_of_one_name(monkeypatch, tmp_path):
    for package in ("one_package", "two_package"):
        install(monkeypatch, tmp_path / package, package, MODEL, models={"Steady": "Steady"})
    both = r"packages '(one|two)_package' and '(one|two)_package' both have an entry point 'Steady'"
    with pytest.warns(UserWarning, match=both), pytest.raises(ValueError, match=both):
        get_factory("Steady")
    with pytest.warns(UserWarning, match=both):
        assert "Steady" not in zoo.list_models().index


# ---------------------------------------------------------------- broken ones

BROKEN = {
    "does not import": ("import no_such_module_at_all", "cannot be imported .ModuleNotFoundError"),
    "raises": ("raise RuntimeError('half an installation')", "half an installation"),
    "is no Python": ("class Steady(", "SyntaxError"),
    "holds nothing": ("", "AttributeError"),
    "is no factory": ("class Steady: pass", "is no subclass of zoo.ModelFactory"),
    "is a function": ("def Steady(): pass", "is no subclass of zoo.ModelFactory"),
    "has another name": (
        "import zoo\nclass Other(zoo.PooledTasks): pass\nSteady = Other",
        "is the class Other, and the entry point must have its name",
    ),
    "needs arguments": (
        MODEL.replace("level: float = 1.0", "level: float"),
        "cannot be made without arguments .TypeError",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_a_broken_model(case, monkeypatch, tmp_path, capsys):
    """Asked for by name it raises, in the list it is left out with one warning: both name the package."""
    code, reason = BROKEN[case]
    install(monkeypatch, tmp_path / "site", "rotten", code, models={"Steady": "Steady"})
    with pytest.raises(ValueError, match=f"'Steady' of package 'rotten' is broken: .*{reason}"):
        get_factory("Steady")
    with pytest.warns(UserWarning) as said:
        listed = zoo.list_models()
    assert list(listed.index) == list(FACTORIES)
    assert (
        len(said) == 1 and "Steady is left out" in str(said[0].message) and "'rotten'" in str(said[0].message)
    )
    assert said[0].filename == __file__
    if case == "raises":
        assert main(["describe", "Steady"]) == 2
        assert re.match(
            "Error: the entry point 'Steady' of package 'rotten' is broken", capsys.readouterr().err
        )
        with warnings.catch_warnings():
            warnings.simplefilter("default")
            assert main(["list"]) == 0
        assert "Warning: Steady is left out" in capsys.readouterr().err


def test_a_broken_likelihood(monkeypatch, tmp_path):
    install(
        monkeypatch,
        tmp_path / "site",
        "rotten",
        LIKELIHOOD,
        likelihoods={"other_noise": "DoubleExponential", "absent": "Absent"},
    )
    with pytest.raises(ValueError, match=r"package 'rotten' is broken: .*has the word 'double_exponential'"):
        resolve("other_noise")
    with pytest.raises(ValueError, match=r"package 'rotten' is broken: .*cannot be imported"):
        zoo.NIWLinear(likelihood="absent")
    assert resolve("gaussian") == zoo.Gaussian()


# ---------------------------------------------------------------- files of classes that are none of the registry


def test_a_file_is_not_read_as_one_of_a_package_that_came_later(monkeypatch, tmp_path):
    """A class of the user's, saved before a package with a model of that name was installed."""

    class Steady(zoo.PooledTasks):
        pass

    fit = Steady().fit(rows(), draws=2, chains=1, random_seed=1, progress=False)
    path = fit.save(tmp_path / "fit.nc")
    with pytest.raises(ValueError, match=r"'Steady', which is unknown.* install the package that has it"):
        zoo.load(path)
    install(monkeypatch, tmp_path / "site", "steady_package", MODEL, models={"Steady": "Steady"})
    with pytest.raises(ValueError, match="a class of its own under the name of one that is installed"):
        zoo.load(path)
    assert type(zoo.load(path, factory=Steady).factory) is Steady


def test_a_broken_package_does_not_stop_a_class_of_its_name_from_being_saved(monkeypatch, tmp_path):
    install(monkeypatch, tmp_path / "site", "rotten", "", models={"Steady": "Steady"})

    class Steady(zoo.PooledTasks):
        pass

    fit = Steady().fit(rows(), draws=2, chains=1, random_seed=1, progress=False)
    path = fit.save(tmp_path / "fit.nc")
    assert type(zoo.load(path, factory=Steady).factory) is Steady
    with pytest.raises(ValueError, match="package 'rotten' is broken"):
        zoo.load(path)
