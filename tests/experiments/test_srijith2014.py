"""The reproduction of Srijith & Shevade (2014): partitions, methods, statistics, tables, command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import norm, ttest_rel

import zoo
from zoo.cli import main
from zoo.experiments import joint_selection, srijith2014, srijith2014_runs
from zoo.experiments.joint_selection import (
    FullBayes,
    GaussianProcesses,
    KnownPrior,
    MultiTaskFeatures,
    Population,
    coefficients,
    scores,
)
from zoo.experiments.joint_selection_data import SETS, Partition
from zoo.experiments.outputs import markdown
from zoo.experiments.srijith2014 import paired_t, score_table, t_table
from zoo.experiments.srijith2014_runs import Settings

pytest.importorskip("sklearn")


def _small(number, noise=0.1):
    """A partition of three small linear tasks."""
    data, truth = zoo.datasets.simulate_joint_selection(
        3, 4, (1.0, 0.5), n_per_task=10, noise=noise, random_seed=np.random.default_rng([5, number])
    )
    first = np.arange(data.n_rows) % 10 < 6
    return Partition(data.take(first), data.take(~first), truth)


DATA = replace(SETS["high"], draw=_small, variances=(1.0, 0.5), C=(0.3, 3.0), noise_floor=(0.1, 0.2))


def _real(number):
    """The same with an intercept, as if nobody knew the truth."""
    train, test, _ = _small(number)
    return Partition(train.add_intercept(), test.add_intercept())


REAL = replace(
    DATA,
    draw=_real,
    model=zoo.MultiLaplaceGP(kernel="linear"),
    standardize=True,
    variances=(),
    weights=(3.0, 30.0),
)


# ---------------------------------------------------------------- data sets


class TestPartitions:
    @pytest.mark.parametrize("name", ["high", "low", "high-noisy", "low-noisy", "high-swapped"])
    def test_synthetic(self, name):
        train, test, truth = SETS[name].partition(2)
        n = 20 if name == "high-swapped" else 5
        assert train.task_sizes.tolist() == [n] * 10 and test.task_sizes.tolist() == [25 - n] * 10
        assert int(truth["relevant"].sum()) == len(SETS[name].variances)
        assert truth.attrs["noise"] ** 2 == pytest.approx(0.1 if name.endswith("noisy") else 0.0016)
        again, other = SETS[name].partition(2), SETS[name].partition(3)
        np.testing.assert_array_equal(again.train.X, train.X)
        assert not np.array_equal(other.train.X, train.X)
        residual = test.y - np.einsum("nd,dn->n", test.X, truth["coefficients"].to_numpy()[:, test.task])
        assert residual.std() == pytest.approx(truth.attrs["noise"], rel=0.3)

    @pytest.mark.data
    def test_computers(self):
        data = zoo.datasets.load_lenk_computers()
        profiles = data.X[:20]

        def seen(rows):
            """Profiles of each person, (190, n)."""
            at = (rows.X[:, None, :] == profiles).all(axis=2)
            return at.argmax(axis=1).reshape(190, -1)

        for name, sizes in (
            ("computers", (8, 4)),
            ("computers-profiles", (8, 4)),
            ("computers-survey", (16, 4)),
        ):
            train, test, _ = SETS[name].partition(1)
            assert (seen(train).shape[1], seen(test).shape[1]) == sizes
            assert not any(set(a) & set(b) for a, b in zip(seen(train), seen(test), strict=True))
            shared = len({tuple(sorted(row)) for row in seen(train)}) == 1
            assert shared == (name != "computers")
        assert seen(test).tolist() == [[16, 17, 18, 19]] * 190
        assert SETS["computers-survey"].partitions == 1

    @pytest.mark.data
    def test_school(self):
        train, test, _ = SETS["school"].partition(3)
        assert (train.n_rows, test.n_rows) == (11_472, 3_890)
        few = SETS["school"].partition(3, tasks=4)
        assert few.train.task_names == few.test.task_names == train.task_names[:4]


def test_scores_by_hand():
    rows = zoo.MultiTaskData.from_arrays(np.zeros((4, 1)), [1.0, 3.0, 10.0, 14.0], ["a", "a", "a", "b"])
    found = scores(rows, np.array([1.0, 2.0, 11.0, 17.0]))
    assert found["RMSE"] == pytest.approx((np.sqrt(2 / 3) + 3) / 2)
    assert found["pooled RMSE"] == pytest.approx(np.sqrt(11 / 4))
    assert found["EV"] == pytest.approx(100 * (1 - 11 / 110))


# ---------------------------------------------------------------- methods


class TestMethods:
    @pytest.mark.statistical
    @pytest.mark.parametrize("ard", ["group", "pooled"])
    def test_gaussian_processes(self, ard):
        learner = GaussianProcesses(ard)
        found = learner.run(DATA, DATA.partition(1), 2, 1, False)
        assert len(found["grid"]) == (1 if ard == "pooled" else 4)
        for criterion, numbers in found["criteria"].items():
            best = min(found["grid"], key=lambda row: row[criterion])
            assert numbers["parameters"] == {"noise_floor": best["noise_floor"], "penalty": best["penalty"]}
            assert numbers["facts"]["converged"] == 1
            assert numbers["distance"] == pytest.approx(
                np.linalg.norm(numbers["coefficients"] - _small(1).truth["coefficients"].to_numpy())
            )
        assert found["criteria"]["RMSE"]["relevance"]["feature"] == ["x0", "x1", "x2", "x3"]
        assert found["cv seconds"] > 0
        again = learner.run(DATA, DATA.partition(1), 2, 1, False)
        assert again["grid"] == found["grid"]

    def test_held_out_scores_are_those_of_the_folds(self):
        """Against fits of the folds, one by one, each grid point from the one before it."""
        partition = DATA.partition(2)
        found = GaussianProcesses().run(DATA, partition, 2, 7, False)["grid"]
        rmse, density = [], []
        for train, rest in partition.train.folds(2, random_seed=7):
            fit = None
            for point in found:
                model = replace(DATA.model, penalty=point["penalty"], noise_floor=point["noise_floor"])
                fit = model.fit(train, method="map", start=fit, progress=False)
                predicted = fit.predict(rest, random_seed=1)
                rmse.append(np.sqrt(np.mean((rest.y - predicted["mean"]) ** 2)))
                density.append(-norm.logpdf(rest.y, predicted["mean"], predicted["sd"]).mean())
        for column, values in (("RMSE", rmse), ("NLPD", density)):
            expected = np.reshape(values, (2, -1)).mean(axis=0)
            np.testing.assert_allclose([row[column] for row in found], expected, atol=0.02)

    def test_coefficients_of_a_linear_fit(self):
        train, test, _ = _small(1)
        fit = replace(DATA.model, penalty=1.0, noise_floor=0.1).fit(train, method="map", progress=False)
        W = coefficients(fit)
        predicted = fit.predict(test, random_seed=1)["mean"]
        np.testing.assert_allclose(np.einsum("nd,dn->n", test.X, W[:, test.task]), predicted, atol=1e-8)

    def test_known_prior(self):
        """Against the posterior in its other form, by precisions."""
        train, test, truth = partition = DATA.partition(1)
        found = KnownPrior().run(DATA, partition, 2, 1, False)["criteria"]["NLPD"]
        W, noise = np.array(found["coefficients"]), truth.attrs["noise"]
        assert (W[2:] == 0).all()
        densities = []
        for t, (known, asked) in enumerate(zip(train.rows_by_task(), test.rows_by_task(), strict=True)):
            X, Z = train.X[known][:, :2], test.X[asked][:, :2]
            precision = np.diag([1.0, 2.0]) + X.T @ X / noise**2
            w = np.linalg.solve(precision, X.T @ train.y[known] / noise**2)
            np.testing.assert_allclose(W[:2, t], w)
            sd = np.sqrt(noise**2 + np.einsum("nd,de,ne->n", Z, np.linalg.inv(precision), Z))
            densities.append(norm.logpdf(test.y[asked], Z @ w, sd))
        assert found["scores"]["NLPD"] == pytest.approx(-np.concatenate(densities).mean())

    def test_multi_task_features(self):
        found = MultiTaskFeatures().run(REAL, REAL.partition(1), 2, 1, False)
        numbers = found["criteria"]["RMSE"]
        assert list(found["criteria"]) == ["RMSE"] and "NLPD" not in numbers["scores"]
        best = min(found["grid"], key=lambda row: row["RMSE"])
        assert numbers["parameters"] == {"C": best["C"]} and len(found["grid"]) == 2
        assert numbers["scores"]["EV"] > 50

    def test_population(self):
        found = Population().run(REAL, REAL.partition(1), 2, 1, False)
        assert found["criteria"]["RMSE"] is found["criteria"]["NLPD"]
        assert found["criteria"]["RMSE"]["scores"]["EV"] > 30

    def test_full_bayes(self, monkeypatch):
        """The model and the settings that the sampler would get."""
        asked = []
        monkeypatch.setattr(
            joint_selection, "_fitted", lambda *given, **settings: asked.append((given, settings)) or {}
        )
        assert set(FullBayes(draws=20).run(REAL, REAL.partition(1), 2, 1, False)["criteria"]) == {
            "RMSE",
            "NLPD",
        }
        [((model, train, _, method, seed), settings)] = asked
        assert (model.prior, model.mean, model.noise_rate, method, seed) == (
            "horseshoe",
            "linear",
            "learned",
            "nuts",
            1,
        )
        assert settings["draws"] == 20 and train.transform is not None


# ---------------------------------------------------------------- tables


def test_paired_t():
    rng = np.random.default_rng(1)
    first, second = rng.normal(size=10), rng.normal(0.5, size=10)
    assert paired_t(first, second) == pytest.approx(ttest_rel(second, first).statistic)
    assert np.isnan(paired_t([1.0], [2.0]))


def _numbers(rmse, ev, nlpd):
    by_rmse = {"RMSE": rmse, "pooled RMSE": rmse + 0.1, "EV": ev, "EV per task": ev - 10, "NLPD": nlpd + 1}
    found = {"seconds": 2.0, "parameters": {"C": 3.0, "noise_floor": 0.5}, "facts": {}}
    return {
        "criteria": {
            "RMSE": {**found, "scores": by_rmse},
            "NLPD": {**found, "scores": {**by_rmse, "NLPD": nlpd}},
        },
        "cv seconds": 30.0,
    }


@pytest.fixture
def results():
    return {
        "computers-split01-gpmtfs": _numbers(2.0, 30.0, 2.1),
        "computers-split02-gpmtfs": _numbers(2.2, 31.0, 2.2),
        "computers-split03-gpmtfs": _numbers(2.9, 30.0, 2.2),
        "computers-split01-gpmtl": _numbers(2.1, 29.0, 2.0),
        "computers-split02-gpmtl": _numbers(2.5, 29.0, 2.0),
        "school-split01-gpmtfs": _numbers(10.0, 35.0, 3.7),
        "school-split02-gpmtfs": _numbers(10.0, 37.0, 3.7),
        "school-split01-gpmtl": _numbers(10.0, 34.0, 3.8),
        "school-split02-gpmtl": _numbers(10.0, 33.0, 3.7),
    }


class TestTables:
    settings = Settings(sets=("computers", "school"))

    def test_scores(self, results):
        table = score_table(results, self.settings)
        ours = table.loc[(SETS["computers"].label, "GPMTFS")]
        assert ours["RMSE"] == pytest.approx(np.mean([2.0, 2.2, 2.9])) and ours["partitions"] == 3
        assert ours["RMSE sd"] == pytest.approx(np.std([2.0, 2.2, 2.9], ddof=1))
        assert (ours["paper"], ours["paper NLPD"], ours["paper seconds"]) == (2.041, 2.2228, 333.3381)
        assert ours["NLPD by RMSE"] == pytest.approx(ours["NLPD"] + 1)
        assert (ours["C"], ours["seconds"], ours["cv seconds"]) == (3.0, 2.0, 30.0)
        absent = table.loc[(SETS["school"].label, "ATL")]
        assert absent["paper"] == 34.23 and absent["partitions"] == 0 and np.isnan(absent["EV"])
        assert np.isnan(table.loc[(SETS["school"].label, "NIWLinear, EM"), "paper"])

    def test_as_text(self, results):
        table = score_table(results, self.settings)
        by_heading = dict(srijith2014._texts(2, table, self.settings))
        computers = markdown(by_heading[f"{SETS['computers'].label}; 3 partitions"])
        assert "| GPMTFS | 2.041 (0.030) | 2.367 (0.473) | 2.467 (0.473) |" in computers
        school = markdown(by_heading["School; 2 partitions"])
        assert "| GPMTL | 34.960 (1.540) | 33.500 (0.707) | 23.500 (0.707) |" in school
        densities = dict(srijith2014._texts(3, table, self.settings))["School; 2 partitions"]
        assert "CMTFL" not in densities.index and densities.loc["GPMTL", "NLPD"] == "3.750 (0.071)"
        seconds = dict(srijith2014._texts(5, table, self.settings))["School; 2 partitions"]
        assert seconds.loc["GPMTFS"].tolist()[:3] == ["7577.80", "2.00", "30.00"]

    def test_t(self, results):
        """Positive where GPMTFS is better, of partitions that both have."""
        table = t_table(results, self.settings)
        computers, school = table.loc[SETS["computers"].label], table.loc["School"]
        assert computers["t"] == pytest.approx(ttest_rel([2.1, 2.5], [2.0, 2.2]).statistic)
        assert (computers["partitions"], computers["paper t"], computers["measure"]) == (2, 4.846, "RMSE")
        assert computers["t: mean difference"] == pytest.approx(0.2)
        assert school["t"] == pytest.approx(ttest_rel([35.0, 37.0], [34.0, 33.0]).statistic)
        assert school["t of NLPD"] == pytest.approx(1.0)

    def test_numbers_of_the_paper(self):
        table = score_table({}, Settings())
        for name, row in (("high", (0.041, -1.6521, 11.0825)), ("low-noisy", (3.201, 2.7468, 11.0825))):
            found = table.loc[(SETS[name].label, "GPMTFS"), ["paper", "paper NLPD", "paper seconds"]]
            assert tuple(found) == row
        assert t_table({}, Settings())["paper t"].tolist() == [
            {"PC": 4.846, "School": 9.336, "Synthetic (High)": 1.514, "Synthetic (Low)": 12.119}[
                SETS[s].paper
            ]
            for s in SETS
        ]


# ---------------------------------------------------------------- command


class TestCommand:
    @pytest.fixture
    def small(self, monkeypatch):
        """Small linear tasks in the place of all data sets, and the methods that are quick."""
        for name in SETS:
            data = REAL if name in ("computers", "school") else DATA
            named = {"label": SETS[name].label, "paper": SETS[name].paper}
            monkeypatch.setitem(SETS, name, replace(data, **named, weights=(0.1, 1.0, 30.0)))
        look = Settings(sets=("school", "high"), splits=1, cv=2, quick=True, path=(0.1, 10.0))
        monkeypatch.setattr(Settings, "look", lambda: look)
        kept = {
            key: row for key, row in srijith2014_runs.METHODS.items() if key not in ("itl", "linear-mean")
        }
        monkeypatch.setattr(srijith2014_runs, "METHODS", kept)

    def _run(self, folder, *more):
        return main(["reproduce", "srijith2014", "--quick", "--cv", "2", "--out", str(folder), *more])

    @pytest.mark.statistical
    def test_tables_and_figures(self, small, tmp_path, capsys):
        assert self._run(tmp_path) == 0
        text = capsys.readouterr().out
        assert "Table 2: School; 1 partition" in text and "Table 4" in text
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {
            "srijith2014-quick-jobs",
            *(f"srijith2014-quick-table{n}.{kind}" for n in (2, 3, 4, 5) for kind in ("csv", "md")),
            *(f"srijith2014-quick-figure{n}.{kind}" for n in (2, 3, 4) for kind in ("csv", "png")),
        }
        table = (
            pd.read_csv(tmp_path / "srijith2014-quick-table2.csv").set_index(["set", "method"]).sort_index()
        )
        assert table.loc[("School", "GPMTFS"), "paper"] == 35.45
        assert table.loc[("School", "GPMTFS"), "EV"] > 50
        known = table.loc[(SETS["high"].label, "prior and noise known")]
        assert known["RMSE"] <= table.loc[(SETS["high"].label, "ATL"), "RMSE"]
        frame = pd.read_csv(tmp_path / "srijith2014-quick-figure3.csv")
        assert set(frame["C"]) == {0.1, 10.0} and frame["instance"].nunique() == 1
        frame = pd.read_csv(tmp_path / "srijith2014-quick-figure2.csv")
        assert frame["matrix"].nunique() == 3 and len(frame) == 3 * 4 * 3
        frame = pd.read_csv(tmp_path / "srijith2014-quick-figure4.csv")
        assert frame["panel"].unique().tolist() == ["school, GPMTFS"]
        assert frame["feature"].tolist() == ["x0", "x1", "x2", "x3"]
        # A second call runs nothing.
        jobs = tmp_path / "srijith2014-quick-jobs"
        files = {path: path.stat().st_mtime_ns for path in jobs.iterdir()}
        assert self._run(tmp_path, "--table", "4", "--figure", "4") == 0
        assert {path: path.stat().st_mtime_ns for path in jobs.iterdir()} == files

    @pytest.mark.statistical
    def test_figure_2_runs_what_it_shows(self, small, tmp_path):
        assert self._run(tmp_path, "--figure", "2") == 0
        names = sorted(path.stem for path in (tmp_path / "srijith2014-quick-jobs").glob("*.json"))
        assert names == ["high-split01-gpmtfs", "high-split01-gpmtl"]

    def test_slow_methods_run_last(self):
        jobs = srijith2014.jobs_of(Settings(), (2,), ())
        assert len({job.name for job in jobs}) == len(jobs)
        slow = [job.settings["method"] == "full-bayes" for job in jobs]
        assert sum(slow) == 21 and all(slow[-21:])
        assert not any(
            job.settings["method"] == "full-bayes" for job in srijith2014.jobs_of(Settings.look(), (2,), ())
        )

    @pytest.mark.statistical
    def test_failures_are_named(self, small, tmp_path, capsys, monkeypatch):
        def broken(*_, **__):
            raise ArithmeticError("no luck")

        monkeypatch.setattr(joint_selection.NIWLinear, "fit", broken)
        assert self._run(tmp_path, "--table", "3", "--sets", "school", "--splits", "1") == 1
        out, err = capsys.readouterr()
        assert err == "Error: 1 job failed: school-split01-population.\n" and "no luck" in out

    def test_bad_input(self, tmp_path, capsys):
        for arguments, message in (
            (["--table", "1"], "table: 1"),
            (["--figure", "1"], "figure: 1"),
            (["--sets", "yeast"], "sets: 'yeast'"),
            (["--figure", "2", "--sets", "school"], "of which the figures (2,) show nothing"),
            (["--repeats", "3"], "--repeats says nothing about srijith2014, which takes --splits and --sets"),
        ):
            assert main(["reproduce", "srijith2014", *arguments, "--out", str(tmp_path / "out")]) == 2
            assert message in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.iterdir())
