"""The reproduction of Bussas et al. (2015): splits, methods, statistics, tables, command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import sem, ttest_rel

import zoo
from zoo.cli import main
from zoo.experiments import bussas2015, bussas2015_runs, housing, varying_methods
from zoo.experiments.bussas2015 import compared, errors
from zoo.experiments.bussas2015_runs import Settings
from zoo.experiments.varying_methods import METHODS, Effort
from zoo.experiments.yardsticks import independent_columns

pytest.importorskip("sklearn")

_COLUMNS = ["sqft_living", "sqft_lot", "grade"]


def _houses(n, seed=1):
    """Prices whose dollars a square foot depend on where the house stands."""
    rng = np.random.default_rng(seed)
    t = pd.DataFrame(
        {"long": rng.uniform(-2, 2, n), "lat": rng.uniform(-2, 2, n), "day": rng.integers(0, 300, n)}
    )
    X = pd.DataFrame(
        {
            "sqft_living": rng.uniform(400, 5200, n),
            "sqft_lot": rng.uniform(400, 11_000, n),
            "grade": rng.normal(size=n),
        }
    )
    foot = 80.0 + 50.0 * np.sin(1.5 * t["lat"]) + 20.0 * np.cos(2.0 * t["long"])
    y = 2e5 + foot * X["sqft_living"] + 2e4 * X["grade"] + 1e4 * rng.normal(size=n)
    return zoo.MultiTaskData.from_arrays(X, y, task=np.arange(n) % 2, t=t)


@pytest.fixture
def places(monkeypatch):
    """Simulated houses in the place of both data sets."""
    monkeypatch.setattr(zoo.datasets, "load_king_county", lambda: _houses(2600))
    flats = _houses(400, seed=2)
    one = replace(flats, task=np.zeros(400, dtype=int), task_names=("New York",), t=flats.t[:, :2],
        t_names=("long", "lat"))  # fmt: skip
    monkeypatch.setattr(zoo.datasets, "load_nyc_rents", lambda: one)


# ---------------------------------------------------------------- splits


class TestSplits:
    def test_brackets_of_the_paper(self, places):
        kept, share = housing.county()
        every = _houses(2600)
        assert share == kept.n_rows / 2600 and 0.5 < share < 1.0 and kept.n_tasks == 1
        for name, (low, high) in (("sqft_living", (500, 5000)), ("sqft_lot", (500, 10_000))):
            values = kept.X[:, every.feature_names.index(name)]
            assert low <= values.min() and values.max() <= high
        assert kept.y.min() >= 1e5 and kept.y.max() <= 1e6
        assert np.all(np.diff(kept.t[:, 2]) >= 0)

    @pytest.mark.data
    def test_real_county(self):
        kept, share = housing.county()
        assert kept.n_rows == 14_751 and share == pytest.approx(0.6825, abs=1e-4) and kept.n_features == 15

    def test_windows(self, places):
        kept, _ = housing.county()
        blocks = np.array_split(np.arange(kept.n_rows), 25)
        last = housing.split("county", 19, 50)
        np.testing.assert_array_equal(last.test.y, kept.y[blocks[24]])
        pool = {tuple(row) for row in kept.X[np.concatenate(blocks[19:24])]}
        assert {tuple(row) for row in last.train.X} <= pool
        assert last.train.t[:, 2].max() <= last.test.t[:, 2].min()
        assert last.least == kept.y[np.concatenate(blocks[19:24])].min()
        # The smaller sample is part of the larger one; more rows than the window has cannot be drawn.
        more = housing.split("county", 19, 80)
        np.testing.assert_array_equal(more.train.X[:50], last.train.X)
        assert housing.split("county", 19, 2000) is None
        with pytest.raises(ValueError, match="number is 20"):
            housing.split("county", 20, 50)

    def test_folds(self, places):
        parts = [housing.split("rents", number, 30) for number in range(20)]
        tested = np.concatenate([part.test.y for part in parts])
        np.testing.assert_array_equal(np.sort(tested), np.sort(housing.rents().y))
        for part in parts[:3]:
            assert not set(part.train.y) & set(part.test.y)

    def test_labels_and_logarithms(self, places):
        price, log, label = (housing.split(f"rents{kind}", 4, 60, 15) for kind in ("", "-log", "-labels"))
        np.testing.assert_allclose(log.train.y, np.log(price.train.y))
        np.testing.assert_array_equal(price.train.X, label.train.X)
        assert set(np.unique(label.train.y)) == {-1.0, 1.0} and price.test.n_rows == 15
        # The median is that of all training folds, not of the rows drawn.
        others = np.setdiff1d(housing.rents().y, housing.split("rents", 4, 60).test.y)
        np.testing.assert_array_equal(label.test.y, np.where(price.test.y > np.median(others), 1.0, -1.0))

    def test_score_by_hand(self, places):
        price = housing.split("county", 0, 40, 3)
        part = replace(price, test=replace(price.test, y=np.array([1e5, 2e5, 4e5])), least=5e4)
        found = housing.score(part, np.array([2e5, 2e5, -1.0]))
        assert found["mae"] == pytest.approx((1e5 + 4e5 + 1) / 3)
        assert found["log"] == pytest.approx((np.log(2) + np.log(8)) / 3)
        log = replace(
            part, problem=housing.SETS["county-log"], test=replace(part.test, y=np.log(part.test.y))
        )
        found = housing.score(log, np.log([2e5, 2e5, 4e5]))
        assert found == pytest.approx({"mae": 1e5 / 3, "log": np.log(2) / 3})
        label = replace(
            part, problem=housing.SETS["county-labels"], test=replace(part.test, y=np.array([1.0, -1, -1]))
        )
        assert housing.score(label, np.array([0.3, -2.0, 0.1])) == {"error": pytest.approx(1 / 3)}


# ---------------------------------------------------------------- methods


class TestMethods:
    effort = Effort(cv=2, exact_up_to=200, n_inducing=40)

    def test_varying_coefficients_win_where_they_vary(self, places):
        """The truth is a linear model whose coefficients vary with the place."""
        part = housing.split("county", 3, 150)
        found = {
            method: varying_methods.measure(method, part, self.effort)["mae"]
            for method in (
                "isovcm-lin",
                "isovcm-mat",
                "x-lin",
                "x-mat",
                "xt-lin",
                "xt-mat",
                "local-lin",
                "regression",
            )
        }
        assert min(found, key=found.get) == "isovcm-lin" and found["isovcm-lin"] < 0.5 * found["xt-lin"]
        # A Gaussian process of x with a linear kernel is a ridge regression, here with hardly any ridge.
        assert found["x-lin"] == pytest.approx(found["regression"], rel=0.02)

    @pytest.mark.statistical
    def test_approximations_beyond_exact(self, places, monkeypatch):
        part = housing.split("county", 3, 100)
        asked = []
        fit = varying_methods.VaryingCoefficientGP.fit
        monkeypatch.setattr(
            varying_methods.VaryingCoefficientGP,
            "fit",
            lambda *given, **more: asked.append((given[2], more.get("n_inducing"))) or fit(*given, **more),
        )
        exact = varying_methods.measure("isovcm-lin", part, self.effort)["mae"]
        fitc = varying_methods.measure("isovcm-lin", part, self.effort._replace(exact_up_to=50))["mae"]
        linear = varying_methods.measure("xt-lin", part, self.effort._replace(exact_up_to=50))["mae"]
        assert asked == [("exact", None), ("inducing", 40), ("exact", None)]
        # Over places alone linear coefficients have a basis of sines; labels go to Laplace's approximation with it.
        rents, labels = (housing.split(name, 1, 100, 40) for name in ("rents", "rents-labels"))
        few = self.effort._replace(exact_up_to=50)
        by_sines = varying_methods.measure("isovcm-lin", rents, few)["mae"]
        assert by_sines < varying_methods.measure("x-lin", rents, few)["mae"]
        varying_methods.measure("isovcm-mat", rents, few)
        assert varying_methods.measure("isovcm-lin", labels, few)["error"] < 0.35
        assert [method for method, _ in asked[3:]] == ["hsgp", "exact", "inducing", "laplace"]
        assert fitc != exact and fitc < linear

    def test_the_papers_kernel_is_the_product_alone(self):
        for name in ("isovcm-lin", "isovcm-mat"):
            assert not varying_methods._PROCESSES[name].global_coefficients
        assert varying_methods._PROCESSES["isovcm-lin"].amplitude == "shared"

    @pytest.mark.parametrize("method", ["isovcm-lin", "isovcm-mat", "xt-lin", "local-lin", "regression"])
    def test_labels(self, places, method):
        part = housing.split("rents-labels", 1, 120)
        found = varying_methods.measure(method, part, self.effort)
        # The shares of the two classes are about equal.
        assert 0.0 <= found["error"] < 0.35 and found["seconds"] > 0.0

    def test_columns_that_have_no_estimate(self):
        X = np.random.default_rng(1).normal(size=(20, 3))
        X = np.column_stack([X, X[:, 0] + X[:, 2], np.zeros(20), X[:, 1] ** 2])
        assert independent_columns(X) == [0, 1, 2, 5]

    def test_rival_that_fails_says_so(self, places, monkeypatch):
        def fails(*_):
            raise IndexError("out of bounds")

        part = housing.split("county", 0, 40, 5)
        monkeypatch.setitem(METHODS, "gwr", ("GWR", fails))
        assert varying_methods.measure("gwr", part, self.effort) == {"failed": "IndexError: out of bounds"}
        monkeypatch.setitem(METHODS, "x-lin", ("own", fails))
        with pytest.raises(IndexError):
            varying_methods.measure("x-lin", part, self.effort)
        monkeypatch.setitem(METHODS, "x-lin", ("own", lambda train, test, *_: np.full(test.n_rows, np.nan)))
        with pytest.raises(ArithmeticError, match="not finite"):
            varying_methods.measure("x-lin", part, self.effort)

    def test_rivals_where_installed(self, places):
        part = housing.split("county", 0, 100, 40)
        base = varying_methods.measure("regression", part, self.effort)["mae"]
        for method in varying_methods.RIVALS:
            if varying_methods.installed(method):
                found = varying_methods.measure(method, part, self.effort)
                assert "failed" in found or found["mae"] < 2 * base

    def test_bound_grows_with_the_cube(self):
        small, large = (min(varying_methods.gelfand_bound(n, 4, 1) for _ in range(3)) for n in (60, 480))
        assert large > 8 * small > 0.0


# ---------------------------------------------------------------- tables


def _results():
    rng = np.random.default_rng(5)
    found = {}
    for n in (125, 1000):
        for number in range(4):
            for method, mean in (("isovcm-lin", 50_000), ("xt-lin", 60_000), ("isovcm-mat", 50_100)):
                if (method, n, number % 2) != ("isovcm-mat", 1000, 1):
                    numbers = {"mae": mean + 1000 * rng.normal(), "log": 0.1, "seconds": 2.0}
                    found[bussas2015_runs._cell_name("county", method, n, number)] = numbers
    found["county-labels-n0125-split00-x-lin"] = {"error": 0.2, "seconds": 1.0}
    found["county-n1000-split00-gwr"] = {"failed": "IndexError: out of bounds"}
    found["bound-n0125"] = {"seconds": 9e3, "m": 16}
    return found


class TestTables:
    def test_errors_and_tests(self):
        results = _results()
        frame = errors(results, "county")
        assert len(frame) == 22 and set(frame["method"]) == {"isovcm-lin", "xt-lin", "isovcm-mat"}
        assert errors(results, "county-labels")["error"].tolist() == [0.2]
        assert errors(results, "rents").empty
        tests = compared(frame, "mae").set_index(["method", "against", "n"])
        values = {
            m: [results[bussas2015_runs._cell_name("county", m, 1000, i)]["mae"] for i in range(4)]
            for m in ("isovcm-lin", "xt-lin")
        }
        row = tests.loc[("isovcm-lin", "xt-lin", 1000)]
        expected = ttest_rel(values["xt-lin"], values["isovcm-lin"])
        assert row["t"] == pytest.approx(expected.statistic) and row["p"] == pytest.approx(expected.pvalue)
        assert row["p"] < 0.01 and row["splits"] == 4
        # Only the splits that both have.
        assert tests.loc[("isovcm-mat", "isovcm-lin", 1000), "splits"] == 2
        means = bussas2015._means(frame, "mae").set_index(["method", "n"])
        assert means.loc[("xt-lin", 1000), "mean"] == pytest.approx(np.mean(values["xt-lin"]))
        assert means.loc[("xt-lin", 1000), "se"] == pytest.approx(sem(values["xt-lin"]))

    def test_text(self):
        frame = errors(_results(), "county")
        text = bussas2015._text(bussas2015._means(frame, "mae"), 1e-3, 1)
        assert text.index.tolist() == ["isoVCM, linear", "isoVCM, Matern", "GP on (x, t), linear"]
        assert text.loc["isoVCM, Matern", "n = 1000"].endswith("), 2")
        assert text.loc["isoVCM, linear", "n = 1000"].count("(") == 1
        tests = bussas2015._test_text(compared(frame, "mae"))
        assert tests.loc["isoVCM, linear, against GP on (x, t), linear", "n = 1000"].startswith("**")
        assert "**" not in tests.loc["isoVCM, Matern, against isoVCM, linear", "n = 125"]
        worse = compared(frame.assign(mae=-frame["mae"]), "mae")
        assert bussas2015._test_text(worse).iloc[0, 0].endswith("(!)")

    def test_equal_errors_have_no_t(self):
        assert (
            np.isnan(bussas2015._paired(np.zeros(4))).all() and np.isnan(bussas2015._paired(np.ones(1))).all()
        )

    def test_times(self):
        frame = bussas2015._times_frame(_results())
        assert set(frame["method"]) == {"isovcm-lin", "isovcm-mat", "xt-lin", "x-lin", "bound"}
        assert frame.loc[frame["method"] == "bound", "seconds"].tolist() == [9e3]

    def test_splits_are_spread_and_nested(self):
        settings = Settings()
        every, fewer = settings.numbers(False), settings.numbers(True)
        assert len(every) == 10 and set(fewer) < set(every) and every[0] == 0 and every[-1] == 19
        assert Settings(splits=20).numbers(False) == list(range(20)) and Settings(splits=1).numbers(True) == [
            0
        ]

    def test_what_is_run(self):
        jobs = {job.name for job in bussas2015.jobs_of(Settings(methods=bussas2015_runs._PAPER), (2, 3, 4))}
        assert "county-n2000-split00-isovcm-mat" in jobs and "rents-n4000-split00-isovcm-lin" in jobs
        assert not any(
            name.startswith("county-n4000") or "labels-n0125-split00-local-mat" in name for name in jobs
        )
        assert "county-n0125-split00-gelfand" in jobs and "bound-n0500" in jobs
        regressions = {job.name for job in bussas2015.jobs_of(Settings(sets=("rents",)), (4,))}
        assert regressions and all(name.startswith("rents-n") for name in regressions)


# ---------------------------------------------------------------- command


class TestCommand:
    @pytest.fixture
    def small(self, places, monkeypatch):
        look = Settings(
            splits=2, sizes=(30,), log_sizes=(30,), label_sizes=(30,), test_rows=20,
            methods=("isovcm-lin", "x-lin", "gwr"),
            exact_up_to=20, n_inducing=10, cv=2, bound_sizes=(5,), gelfand_sizes=(20,),
        )  # fmt: skip
        monkeypatch.setattr(Settings, "look", classmethod(lambda cls: look))
        monkeypatch.setitem(varying_methods.RIVALS, "gwr", "a_package_that_is_not_installed")

    @pytest.mark.statistical
    def test_whole(self, small, tmp_path, capsys):
        sets = ("county", "county-labels", "rents-log")
        command = ["reproduce", "bussas2015", "--quick", "--sets", ",".join(sets), "--out", str(tmp_path)]
        assert main(command) == 0
        written = {path.name for path in tmp_path.iterdir() if path.is_file()}
        for name in sets:
            assert {
                f"bussas2015-quick-{name}{end}" for end in (".csv", ".md", "-tests.csv", "-tests.md")
            } <= written
        for figure in (2, 3):
            assert f"bussas2015-quick-figure{figure}.png" in written
        times = pd.read_csv(tmp_path / "bussas2015-quick-figure2.csv")
        assert {"bound", "gelfand", "isovcm-lin"} <= set(times["method"])
        table = pd.read_csv(tmp_path / "bussas2015-quick-county.csv")
        assert "gelfand" not in set(table["method"])
        # What is done is not run again.
        jobs = tmp_path / "bussas2015-quick-jobs"
        before = {path.name: path.stat().st_mtime_ns for path in jobs.iterdir()}
        assert main(command) == 0
        assert {path.name: path.stat().st_mtime_ns for path in jobs.iterdir()} == before
        assert "a_package_that_is_not_installed is not installed" in capsys.readouterr().out

    def test_a_set_and_a_figure(self, small, tmp_path):
        command = ["reproduce", "bussas2015", "--quick", "--figure", "4", "--sets", "rents", "--splits", "1"]
        assert main([*command, "--out", str(tmp_path)]) == 0
        written = {path.name for path in tmp_path.iterdir() if path.is_file()}
        # One split has no paired test.
        assert "bussas2015-quick-figure4.png" in written and "bussas2015-quick-county.csv" not in written

    @pytest.mark.parametrize(
        ("arguments", "message"),
        [
            (["--table", "1"], "the paper has none"),
            (["--figure", "5"], "figure: 5"),
            (["--sets", "boston"], "sets: 'boston'"),
            (["--splits", "21"], "splits is 21"),
            (["--figure", "4", "--sets", "county"], "show nothing"),
            (["--repeats", "3"], "takes --splits and --sets"),
        ],
    )
    def test_refused(self, arguments, message, tmp_path, capsys):
        assert main(["reproduce", "bussas2015", "--out", str(tmp_path), *arguments]) == 2
        assert message in capsys.readouterr().err
