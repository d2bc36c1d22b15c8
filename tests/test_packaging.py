"""What the package says of itself, and that its wheel and source distribution install and run elsewhere."""

import os
import re
import subprocess
import sys
import tomllib
import venv
from pathlib import Path

import pytest

import zoo
from zoo.cli.parts import PAPERS

ROOT = Path(__file__).resolve().parent.parent


def _run(*command, **options):
    done = subprocess.run(
        [str(part) for part in command], capture_output=True, text=True, check=False, **options
    )
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


def test_the_licence_is_the_one_that_the_metadata_name():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert project["license"] == "Apache-2.0" and project["license-files"] == ["LICENSE"]
    text = (ROOT / "LICENSE").read_text(encoding="utf-8")
    assert "Apache License" in text and "END OF TERMS AND CONDITIONS" in text
    assert (ROOT / "zoo" / "py.typed").is_file()


def test_the_citation_names_the_version_and_every_paper():
    text = (ROOT / "CITATION.cff").read_text(encoding="utf-8")
    assert f"\nversion: {zoo.__version__}\n" in text
    cited = {
        f"{family.strip(chr(34)).lower()}{year}"
        for family, year in re.findall(
            r"authors:\n +- \{family-names: ([^,]+),.*?\n    year: (\d+)\n", text, re.DOTALL
        )
    }
    # The paper of 2015 was printed in 2017.
    assert {key.replace("2017", "2015") for key in cited} == set(PAPERS)


def test_python_m_zoo_is_the_command():
    assert _run(sys.executable, "-m", "zoo", "--version", cwd=ROOT) == f"zoo {zoo.__version__}\n"


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_the_shell_completes_commands_and_options(shell):
    words = {"COMP_WORDS": "zoo pre", "COMP_CWORD": "1", "_TYPER_COMPLETE_ARGS": "zoo pre"}
    environment = {"_ZOO_COMPLETE": f"complete_{shell}", "_TYPER_COMPLETE_FISH_ACTION": "get-args", **words}
    out = _run(sys.executable, "-m", "zoo", cwd=ROOT, env={**environment, "PATH": "/usr/bin:/bin"})
    assert "predict" in out and "report" not in out


@pytest.mark.scheduled
@pytest.mark.parametrize("kind", ["wheel", "sdist"])
def test_it_installs_into_an_empty_environment_and_runs_the_demo(kind, tmp_path):
    """Outside of the checkout, with nothing on the path but what pip installs."""
    _run(sys.executable, "-m", "build", f"--{kind}", "--outdir", tmp_path / "dist", ROOT, cwd=tmp_path)
    (built,) = (tmp_path / "dist").iterdir()
    venv.create(tmp_path / "empty", with_pip=True)
    python = tmp_path / "empty" / "bin" / "python"
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(("PYTHON", "ZOO"))}
    outside = {"cwd": tmp_path, "env": {**inherited, "ZOO_CACHE": str(tmp_path / "cache")}}
    _run(python, "-m", "pip", "install", "-q", built, **outside)
    assert _run(python.with_name("zoo"), "--version", **outside) == f"zoo {zoo.__version__}\n"
    where = _run(python, "-c", "import zoo; print(zoo.__file__)", **outside)
    assert str(tmp_path / "empty") in where
    _run(python.with_name("zoo"), "demo", "--out", "demo", **outside)
    assert (tmp_path / "demo" / "posterior.nc").is_file()
    assert (tmp_path / "demo" / "comparison.csv").is_file()
