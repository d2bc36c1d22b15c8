"""The site: pages hold what the code holds, commands on a page run, and every page has one place."""

from __future__ import annotations

import re
import shlex
from dataclasses import fields
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np
import pytest
import typer

import zoo
from zoo.cli.commands import app, main

DOCS = Path(__file__).resolve().parent.parent / "docs"
COMMANDS = typer.main.get_command(app).commands


def _text(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


# ---------------------------------------------------------------- pages


def test_every_page_is_in_one_table_of_contents():
    trees = re.findall(r"^```\{toctree\}\n(.*?)^```$", _text("index.md"), re.DOTALL | re.MULTILINE)
    captions = [re.search(r"^:caption: (.*)$", tree, re.MULTILINE)[1] for tree in trees]
    assert captions == ["Tutorials", "How-to guides", "Explanation", "Reference"]
    lines = [line for tree in trees for line in tree.splitlines() if line and not line.startswith(":")]
    listed = [re.sub(r"^.*<(.*)>$", r"\1", line) for line in lines]
    assert len(listed) == len(set(listed))
    pages = {path.stem for path in DOCS.glob("*.md")} - {"index"}
    pages |= {f"reproduction/{path.stem}" for path in (DOCS / "reproduction").glob("*.md")}
    pages |= {f"notebooks/{path.stem}" for path in (DOCS.parent / "notebooks").glob("*.ipynb")}
    assert set(listed) == pages


def test_landing_page_leads_to_pages_that_exist():
    links = re.findall(r"^:link: (.*)$", _text("index.md"), re.MULTILINE)
    assert len(links) >= 6
    for link in links:
        source = DOCS.parent / f"{link}.ipynb" if link.startswith("notebooks/") else DOCS / f"{link}.md"
        assert source.exists(), link


# ---------------------------------------------------------------- the gallery of models


def _cards() -> dict[str, str]:
    found = re.findall(
        r"^:::\{grid-item-card\} (\w+)\n(.*?)^:::$", _text("models.md"), re.DOTALL | re.MULTILINE
    )
    assert len(found) == len(dict(found))
    return dict(found)


def test_gallery_has_a_card_for_every_model_with_its_methods():
    # Installed packages may add models, as some tests do: the page is about those of this package.
    table = zoo.list_models().loc[list(zoo.registry.FACTORIES)]
    cards = _cards()
    assert set(cards) == set(table.index)
    for name, card in cards.items():
        own, _, brought = re.search(r"^Methods: (.*?)\.$", card, re.MULTILINE | re.DOTALL)[1].partition("; ")
        assert re.findall(r"`(\w+)`", own) == table.loc[name, "methods"].split(", "), name
        others = set(re.findall(r"(\w+) \(", table.loc[name, "other_methods"]))
        # Of kernel machines the losses with a corner have method "map", which the list leaves out.
        assert set(re.findall(r"`(\w+)`", brought)) - {"map"} == others, name


def test_gallery_has_a_small_picture_of_every_model():
    for name, card in _cards().items():
        assert f":img-top: pictures/models/{name}.png" in card
        assert re.search(r"^:img-alt: .{20,}$", card, re.MULTILINE)
        assert (DOCS / "pictures" / "models" / f"{name}.png").stat().st_size < 40_000
    drawn = re.findall(r'^    "(\w+)": \w+,$', _text("model_gallery.py"), re.MULTILINE)
    assert set(drawn) == set(_cards())


def test_table_of_the_gallery_names_every_model_and_only_methods_that_there_are():
    rows = [line.split("|")[1:-1] for line in _text("models.md").splitlines() if "`~zoo.models" in line]
    named = [name for row in rows for name in re.findall(r"\.(\w+)`", row[0])]
    assert sorted(named) == sorted(zoo.registry.FACTORIES)
    table = zoo.list_models()
    for row in rows:
        for name in re.findall(r"\.(\w+)`", row[0]):
            known = set(
                re.findall(r"\w+", f"{table.loc[name, 'methods']} {table.loc[name, 'other_methods']}")
            )
            if "the same" not in row[2]:
                assert set(re.findall(r"`(\w+)`", row[2])) - {"map"} <= known, name


# ---------------------------------------------------------------- the command line


def _called() -> list[list[str]]:
    """The commands of `zoo` that the page shows, word by word."""
    lines = re.findall(r"^(?:\$ |    )(zoo .*)$", _text("command-line.md"), re.MULTILINE)
    return [shlex.split(line)[1:] for line in lines]


def test_command_page_has_every_command():
    table = re.findall(r"^\| `zoo (\w+)[^|]*` \|", _text("command-line.md"), re.MULTILINE)
    assert sorted(table) == sorted(COMMANDS)
    assert {words[0] for words in _called()} == set(COMMANDS)


def test_command_page_has_only_options_that_there_are():
    known = {
        name: {o for p in c.params for o in (*p.opts, *p.secondary_opts)} for name, c in COMMANDS.items()
    }
    for words in _called():
        used = {word for word in words if word.startswith("--")}
        assert used <= known[words[0]], words
    common = {"--help", "--traceback"}
    everything = common.union(*known.values())
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]*", _text("command-line.md"))) <= everything


@pytest.mark.filterwarnings("default")
def test_commands_of_the_page_run(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    text = _text("command-line.md")
    found = re.findall(r"^```(python|console)\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
    assert [kind for kind, _ in found].count("console") >= 6
    for kind, block in found:
        if kind == "python":
            exec(compile(block, "command-line.md", "exec", dont_inherit=True), {"__name__": "__main__"})
            continue
        for line in re.findall(r"^\$ (.*)$", block, re.MULTILINE):
            assert main(shlex.split(line)[1:]) == 0, line
    plt.close("all")
    assert "180 rows written to predictions.csv" in capsys.readouterr().out
    for name in ("niw.nc", "scales.nc", "predictions.csv", "report/accuracy.csv", "report/report.html"):
        assert (tmp_path / name).exists()


# ---------------------------------------------------------------- symbols and names


def test_notation_names_fields_and_variables_that_there_are():
    rows = re.findall(
        r"\| (field|variable) \| `(\w+)` \| `zoo\.(\w+)` \|$", _text("notation.md"), re.MULTILINE
    )
    assert len(rows) == len(re.findall(r"^\| \$", _text("notation.md"), re.MULTILINE)) > 30
    rng = np.random.default_rng(0)
    data = zoo.MultiTaskData.from_arrays(
        rng.normal(size=(12, 2)), rng.normal(size=12), np.repeat(np.arange(3), 4), t=rng.normal(size=(12, 1))
    )
    variables: dict[str, set[str]] = {}
    for kind, name, owner in rows:
        of = getattr(zoo, owner)
        if kind == "field":
            assert name in {field.name for field in fields(of)}, (owner, name)
            continue
        if owner not in variables:
            # The default of these two is for labels.
            model = of(likelihood="epsilon_insensitive") if "MaxMargin" in owner else of()
            variables[owner] = set(model.build(data).named_vars)
        assert name in variables[owner], (owner, name)


# ---------------------------------------------------------------- works


def test_bibliography_has_every_work_once():
    keys = re.findall(r"^@\w+\{(\w+),$", _text("references.bib"), re.MULTILINE)
    assert len(keys) == len(set(keys))
    cited = set(re.findall(r"\{cite:t\}`(\w+)`", _text("models.md")))
    papers = {factory.paper for factory in map(zoo.registry.get_factory, zoo.registry.FACTORIES)}
    assert papers - {"yardstick"} <= cited <= set(keys)
