"""`zoo fit` and `zoo predict` on tables with categories, by formulas, and with missing values."""

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli.commands import main
from zoo.cli.tables import test_data as rows_of_the_file

_FEW = ("--draws", 30, "--tune", 30, "--chains", 2, "--seed", 1)


@pytest.fixture
def homes(tmp_path) -> pd.DataFrame:
    """Prices by city and area of four agents, also as `homes.csv`."""
    rng = np.random.default_rng(2)
    df = pd.DataFrame(
        {
            "agent": rng.choice(["01", "02", "7", "NA"], 80),
            "city": rng.choice(["Bern", "Oslo", "Rome"], 80),
            "area": rng.normal(size=80),
        }
    )
    df["price"] = df["area"] + 2.0 * (df["city"] == "Rome") + 0.1 * rng.normal(size=80)
    df.to_csv(tmp_path / "homes.csv", index=False)
    return df


def run(*arguments) -> int:
    return main([str(a) for a in arguments])


def fit(folder, *more, model="NIWLinear", table="homes.csv", code=0) -> zoo.Fit:
    command = [
        "fit",
        model,
        "--data",
        folder / table,
        "--out",
        folder / "fit.nc",
        "--overwrite",
        *_FEW,
        *more,
    ]
    assert run(*command) == code
    return zoo.load(folder / "fit.nc") if code == 0 else None


def predicted(folder, table) -> pd.DataFrame:
    table.to_csv(folder / "new.csv", index=False)
    assert run("predict", folder / "fit.nc", "--data", folder / "new.csv", "--out", folder / "p.csv") == 0
    result = pd.read_csv(folder / "p.csv")
    (folder / "p.csv").unlink()
    return result


def test_a_file_with_a_category_is_fitted_and_predicted(homes, tmp_path):
    found = fit(tmp_path, "--y", "price", "--task", "agent")
    assert found.data.feature_names == ("city[Oslo]", "city[Rome]", "area", "intercept")
    assert found.data.task_names == ("01", "02", "7", "NA")
    rows = homes.drop(columns="price")
    one = predicted(tmp_path, rows.head(1))["mean"]
    np.testing.assert_allclose(one, predicted(tmp_path, rows)["mean"][:1], rtol=1e-9)
    rows = rows_of_the_file(found, tmp_path / "homes.csv", None)
    np.testing.assert_allclose(rows.original_X(), found.data.original_X()[:, :3], rtol=1e-9)


def test_a_task_that_was_left_out_is_refused_and_an_empty_one_is_none(homes, tmp_path, capsys):
    some = ("--y", "price", "--features", "area")
    capsys.readouterr()
    fit(tmp_path, *some, code=2)
    assert (
        "task was left out, and NIWLinear learns" in (said := capsys.readouterr().err) and '--task ""' in said
    )
    assert fit(tmp_path, *some, "--task", "").data.task_names == ("all",)


def test_a_formula_says_what_three_options_would(homes, tmp_path, capsys):
    pytest.importorskip("formulae")
    found = fit(tmp_path, "--formula", "price ~ city + area + (1 + area | agent)")
    assert found.data.shared_names == ("city[Oslo]", "city[Rome]")
    assert found.data.task_names == ("01", "02", "7", "NA")
    assert found.data.intercept is None and "Intercept" in found.data.feature_names
    whole = predicted(tmp_path, homes.drop(columns="price"))
    assert np.corrcoef(whole["mean"], homes["price"])[0, 1] > 0.9
    for option, value in (("--y", "price"), ("--task", "agent"), ("--features", "area")):
        fit(tmp_path, "--formula", "price ~ area + (1 | agent)", option, value, code=2)
        assert f"{option} and --formula are given" in capsys.readouterr().err
    fit(tmp_path, "--formula", "price ~ area + (1 | broker)", code=2)
    assert "--formula names 'broker'" in capsys.readouterr().err
    fit(tmp_path, "--task", "agent", code=2)
    assert "--y is missing" in capsys.readouterr().err


@pytest.mark.filterwarnings("default")
def test_gaps_are_refused_or_left_out_as_told(homes, tmp_path, capsys):
    homes.loc[[3, 9], "area"] = np.nan
    homes.to_csv(tmp_path / "homes.csv", index=False)
    fit(tmp_path, "--y", "price", "--task", "agent", code=2)
    assert "column 'area' is missing in row 3, and 2 of 80 rows" in capsys.readouterr().err
    found = fit(tmp_path, "--y", "price", "--task", "agent", "--missing", "drop")
    assert found.data.n_rows == 78
    assert "2 of 80 rows have a gap" in capsys.readouterr().err
    fit(tmp_path, "--y", "price", "--task", "agent", "--missing", "guess", code=2)
    assert "missing: 'guess' is unknown" in capsys.readouterr().err
