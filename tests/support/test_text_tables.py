"""One reader of text tables, of the command line and of batches."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli.commands import main
from zoo.data.batches import batches_of
from zoo.support.text_tables import read_text_table, text_table_in_chunks

GOOD = "id,y,x\na,1,2.5\nb,2,3.5\n"


def by_chunks(path):
    return pd.concat(list(text_table_in_chunks(path, 1)))


@pytest.fixture(params=[read_text_table, by_chunks, lambda path: pd.concat(list(batches_of(path)))])
def read(request):
    return request.param


@pytest.fixture
def file(tmp_path):
    def write(text, encoding="utf-8"):
        path = tmp_path / "table.csv"
        path.write_text(text, encoding=encoding)
        return path

    return write


@pytest.mark.parametrize(
    ("text", "encoding"),
    [
        (GOOD, "utf-8"),
        (GOOD, "utf-8-sig"),
        (GOOD.replace("\n", "\r\n"), "utf-8"),
        (GOOD.replace("id,", '"id",'), "utf-8"),
        ("id,y,x\na,1,2.5,\nb,2,3.5,\n", "utf-8"),  # some programs end every line by the separator
    ],
)
def test_rows_keep_the_order_and_the_numbers_of_the_file(read, file, text, encoding):
    found = read(file(text, encoding))
    assert list(found.columns) == ["id", "y", "x"] and list(found.index) == [0, 1]
    assert list(found["id"]) == ["a", "b"] and list(found["x"]) == [2.5, 3.5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("id,y,y\na,1,2\n", r"table.csv' has 'y' twice"),
        (
            "id,y,x\nr1,a,1,2\nr2,b,2,3\n",
            r"the rows of '.*table.csv' have more fields than its header.*row.names",
        ),
        ("id,y,x\na,1,2\nb,2,3,4\n", r"table.csv' cannot be read: .*line 3, saw 4"),
        ("", r"table.csv' is empty"),
    ],
)
def test_what_stands_out_of_place_is_refused(read, file, text, message):
    with pytest.raises(ValueError, match=message):
        read(file(text))


def test_a_column_without_a_name_is_left_out_with_a_word(read, file):
    path = file(pd.read_csv(file(GOOD)).to_csv())
    with pytest.warns(UserWarning, match=r"column 1 of '.*table.csv' has no name, and is left out"):
        found = read(path)
    assert list(found.columns) == ["id", "y", "x"] and list(found["y"]) == [1, 2]


def test_predictions_come_in_the_order_of_the_file(tmp_path, capsys):
    rng = np.random.default_rng(3)
    table = pd.DataFrame({"x": rng.normal(size=30), "task": rng.permutation(np.tile(["b", "a", "10"], 10))})
    table["y"] = 3.0 * table["x"] + 0.1 * rng.normal(size=30)
    table.to_csv(tmp_path / "data.csv", index=False)
    fit = ["fit", "PooledTasks", "--data", tmp_path / "data.csv", "--y", "y", "--task", "task", "--seed", "1"]
    assert main([str(a) for a in [*fit, "--out", tmp_path / "fit.nc"]]) == 0
    new = [tmp_path / "fit.nc", "--data", tmp_path / "data.csv", "--out", tmp_path / "p.csv", "--new-task"]
    assert main([str(a) for a in ["predict", *new]]) == 0
    found = pd.read_csv(tmp_path / "p.csv")
    assert list(found["row"]) == list(range(30)) and list(found["task"]) == list(table["task"])
    assert np.corrcoef(found["mean"], table["y"])[0, 1] > 0.98
    capsys.readouterr()


def test_groups_of_a_formula_are_found_by_its_parser(tmp_path, capsys):
    """Blanks, backticks in other terms and bars inside functions confuse a regular expression."""
    pytest.importorskip("formulae")
    rng = np.random.default_rng(4)
    table = pd.DataFrame({"a|b": rng.normal(size=40), "g": np.tile(["01", "1"], 20)})
    table["y"] = table["a|b"] + 0.1 * rng.normal(size=40)
    table.to_csv(tmp_path / "data.csv", index=False)
    command = ["fit", "PooledTasks", "--data", tmp_path / "data.csv", "--formula", "y ~ `a|b` + ( 1 |  g )"]
    assert main([str(a) for a in [*command, "--seed", "1", "--out", tmp_path / "fit.nc"]]) == 0, (
        capsys.readouterr()
    )
    assert zoo.load(tmp_path / "fit.nc").data.task_names == ("01", "1")
