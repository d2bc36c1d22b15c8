"""The command `zoo demo`."""

from __future__ import annotations

import pandas as pd
import pytest

import zoo
from tests.cli.commands import FEW, PICTURES, assert_refused, names_in
from zoo.cli import main


class TestDemo:
    @pytest.fixture
    def offline(self, monkeypatch, tmp_path_factory):
        monkeypatch.delenv("ZOO_DATA", raising=False)
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))

    @pytest.mark.parametrize(("data", "n_tasks"), [("simulated", 24), ("grunfeld", 11)])
    def test_from_data_to_comparison(self, offline, tmp_path, capsys, data, n_tasks):
        out = tmp_path / "demo"
        assert main(["demo", "--data", data, "--out", str(out), *FEW]) == 0
        text = capsys.readouterr().out
        assert ("simulated with seed 1" if data == "simulated" else "Grunfeld") in text
        assert "MaxMargin(likelihood=Gaussian(" in text
        for part in ("What the model holds", "Worst R-hat", "Held-out rows", "best", str(out.resolve())):
            assert part in text
        pictures = {*PICTURES, "overview.png", "predicted_vs_observed.png"}
        assert names_in(out) == {"posterior.nc", "comparison.csv", "summary.csv", *pictures}
        comparison = pd.read_csv(out / "comparison.csv", index_col="model")
        assert list(comparison.index) == ["MaxMargin", "IndependentTasks", "PooledTasks"]
        assert zoo.load(out / "posterior.nc").data.n_tasks == n_tasks
        assert names_in(tmp_path) == {"demo"}

    @pytest.mark.filterwarnings("error::zoo.ConvergenceWarning")
    def test_sharing_wins_converges_and_is_explained(self, offline, tmp_path, capsys):
        """With its own numbers of draws: what the README says of it."""
        assert main(["demo", "--out", str(tmp_path / "demo")]) == 0
        text = " ".join(capsys.readouterr().out.split())
        comparison = pd.read_csv(tmp_path / "demo" / "comparison.csv", index_col="model")
        assert comparison["RMSE"].to_numpy() == pytest.approx([1.23, 1.32, 1.81], abs=0.02)
        assert (
            "MaxMargin predicts best" in text
            and "12 rows of a task leave its 7 coefficients uncertain" in text
        )

    def test_whoever_wins_is_named(self):
        from zoo.demo import who_wins

        train, _ = zoo.datasets.load_grunfeld(test_years=5)
        for best, why in (("IndependentTasks", "enough of their own"), ("PooledTasks", "hardly differ")):
            errors = pd.Series({"MaxMargin": 2.0, "IndependentTasks": 2.0, "PooledTasks": 2.0})
            errors[best] = 1.0
            said = who_wins(pd.DataFrame({"RMSE": errors}), train)
            assert said.startswith(f"{best} predicts best") and why in said

    def test_same_seed_same_tables_and_other_files_stay(self, offline, tmp_path):
        first, second = tmp_path / "first", tmp_path / "second"
        second.mkdir()
        (second / "mine.txt").write_text("mine")
        (second / "summary.csv").write_text("old")
        for out in (first, second):
            assert main(["demo", "--out", str(out), "--seed", "4", *FEW]) == 0
        for name in ("comparison.csv", "summary.csv"):
            assert (first / name).read_bytes() == (second / name).read_bytes()
        assert (second / "mine.txt").read_text() == "mine"
        assert names_in(second) == {"mine.txt"} | names_in(first)

    def test_unknown_data(self, tmp_path, capsys):
        assert_refused(
            capsys, tmp_path, ["demo", "--data", "iris", "--out", tmp_path / "demo"], "data: 'iris'"
        )
