"""Table 2 of the reproduction of Evgeniou, Micchelli & Pontil (2005): worlds, fits, table, command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest

import zoo
from zoo.cli import main
from zoo.data.units import Units
from zoo.experiments import conjoint
from zoo.experiments import evgeniou2005_structure as structure
from zoo.experiments.evgeniou2005_runs import Settings, jobs_of
from zoo.kernels import FeatureMap, MeanRegularised

pytest.importorskip("sklearn")


def _world(name, seed=1):
    return structure.WORLDS[name][1](np.random.default_rng(seed))


# ---------------------------------------------------------------- worlds


class TestWorlds:
    def test_groups(self):
        tasks = _world("groups")
        letters = np.array([name[0] for name in tasks.train.task_names])
        same = letters[:, None] == letters
        true, wrong = (tasks.kernels[name][0] for name in ("true", "wrong"))
        np.testing.assert_allclose(true.task_covariance(), np.eye(20) + same)
        other = wrong.task_covariance().to_numpy()
        assert not np.allclose(other, np.eye(20) + same)
        np.testing.assert_allclose(other.sum(axis=1), 6.0)  # groups of five, too
        # The truth is without noise.
        np.testing.assert_allclose(np.std(tasks.test.y - tasks.truth), 1.0, atol=0.1)

    def test_chain(self):
        tasks = _world("chain")
        true, wrong = (tasks.kernels[name][0].adjacency for name in ("true", "wrong"))
        np.testing.assert_array_equal(true, np.eye(20, k=1) + np.eye(20, k=-1))
        assert (true != wrong).any()
        for power in (1, 2, 3):  # a chain, whose tasks have other places
            moves = [np.trace(np.linalg.matrix_power(a, 2 * power)) for a in (true, wrong)]
            assert moves[0] == moves[1]
        # Coefficients of neighbours differ less than those of two tasks in general.
        W = np.stack([_coefficients(tasks, task) for task in range(20)])
        steps = ((W[1:] - W[:-1]) ** 2).mean()
        assert steps < 0.2 * 2.0 * W.var(axis=0).mean()

    @pytest.mark.parametrize(("world", "degree"), [("maps", 1), ("squares", 2)])
    def test_maps(self, world, degree):
        """One function of the mapped features explains most with the tasks' maps, and little with others'."""
        tasks = _world(world)
        explained = []
        for name in ("true", "wrong"):
            kernel = tasks.kernels[name][0]
            assert kernel.degree == degree
            mapped = np.einsum("npd,nd->np", kernel.B[tasks.test.task], tasks.test.X)
            features = structure._powers(mapped, degree)
            left = tasks.truth - features @ np.linalg.lstsq(features, tasks.truth, rcond=None)[0]
            explained.append(1.0 - left.var() / tasks.truth.var())
        assert explained[0] > 0.85 and explained[1] < 0.5

    def test_products(self):
        for world, expected in (("products", True), ("no-products", False)):
            tasks = _world(world)
            first = tasks.test.task == 0
            features = np.column_stack([tasks.test.X[first], np.ones(50)])
            left = (
                tasks.truth[first] - features @ np.linalg.lstsq(features, tasks.truth[first], rcond=None)[0]
            )
            assert (np.abs(left).max() > 0.5) == expected

    @pytest.mark.parametrize("degree", [2, 3])
    def test_monomials(self, degree):
        X = np.random.default_rng(1).normal(size=(6, 4))
        X[:, 3] = 0.0
        Z = structure._monomials(X, degree)
        np.testing.assert_allclose(Z @ Z.T, (X @ X.T) ** degree, atol=1e-10)
        assert Z.any(axis=0).all() and Z.shape[1] == {2: 6, 3: 10}[degree]

    def test_polynomial_of_tasks_near_their_mean(self):
        """(33) with the maps of kernel (22) is (22) over the polynomial kernel, at another lambda."""
        T, D, r, lam = 4, 3, 3, 0.2
        rng = np.random.default_rng(2)
        X = np.column_stack([rng.normal(size=(9, D)), rng.integers(0, T, 9)])
        maps = np.zeros((T, (T + 1) * D, D))
        for task in range(T):
            maps[task, :D] = np.sqrt(1 - lam) * np.eye(D)
            maps[task, (task + 1) * D : (task + 2) * D] = np.sqrt(lam * T) * np.eye(D)
        shared, own = (1 - lam) ** r, (1 - lam + lam * T) ** r - (1 - lam) ** r
        other = own / shared / (T + own / shared)
        base = pm.gp.cov.Polynomial(D, c=0.0, d=float(r), offset=0.0)
        near = MeanRegularised(D + 1, T, lam=other, base=base)
        expected = near(X).eval() * shared / (1 - other)
        np.testing.assert_allclose(FeatureMap(D + 1, maps, degree=r)(X).eval(), expected, rtol=1e-9)


def _coefficients(tasks, task):
    rows = tasks.test.task == task
    return np.linalg.lstsq(tasks.test.X[rows], tasks.truth[rows], rcond=None)[0]


# ---------------------------------------------------------------- fits


class TestFits:
    def test_tasks(self):
        found = structure._run_tasks("groups", 3)
        tasks = structure._groups(np.random.default_rng([2005, 0, 3]))
        assert list(found) == ["one for all", "single tasks", "(22)", *tasks.kernels]
        # The kernels of the paper see the features as they are.
        train = replace(tasks.train, units=Units.of_size(tasks.train.n_features))
        for name, lam in (("(22)", "learned"), ("single tasks", 1.0)):
            fit = zoo.MultiTaskKernelMachine(lam=lam).fit(train, draws=1, random_seed=1, progress=False)
            mean = fit.predict(tasks.test, random_seed=1)["mean"].to_numpy()
            assert found[name]["error"] == pytest.approx(
                np.sqrt(np.mean((mean - tasks.truth) ** 2)), rel=1e-3
            )
            evidence = float(fit.idata["sample_stats"]["log_evidence"][0, 0])
            assert found[name]["evidence"] == pytest.approx(evidence, abs=1e-3)
        assert found["true"]["error"] < found["(22)"]["error"] < found["one for all"]["error"]
        assert found["true"]["evidence"] > found["(22)"]["evidence"] + 10
        # Added to (22), a kernel has no less evidence than (22): its scale may be 0.
        for told in ("true", "wrong"):
            assert found[f"(22) + {told}"]["evidence"] > found["(22)"]["evidence"] - 0.1

    def test_customers(self, monkeypatch):
        monkeypatch.setattr(structure, "_GAMMAS", (0.1, 1.0))
        monkeypatch.setattr(conjoint, "LAMBDAS", (0.2, 0.6))
        found = structure._run_customers(8, 1, 6)
        assert list(found) == [
            f"{m}{d}" for d in ("", ", degree 2", ", degree 3") for m in ("single tasks", "(22)")
        ]
        rows, _ = conjoint.customers(1, 6)
        place = np.arange(rows.n_rows) % 120
        part, held_out, train, test = (
            rows.take((low <= place) & (place < high)) for low, high in ((0, 6), (6, 8), (0, 8), (8, 120))
        )
        grid = conjoint.search(
            lambda lam, gamma: conjoint.machine(part, lam, gamma), held_out, (0.2, 0.6), (0.1, 1.0)
        )
        best = conjoint.choose(grid, (0.2, 0.6))
        wrong = conjoint.errors(test, conjoint.machine(train, best.lam, best.gamma))
        assert found["(22)"] == {
            "error": pytest.approx(100 * wrong.mean()),
            "lam": best.lam,
            "gamma": best.gamma,
        }
        assert all(numbers["lam"] == 1.0 for name, numbers in found.items() if name.startswith("single"))


# ---------------------------------------------------------------- table, command


class TestTable:
    def test_table(self):
        results = {
            f"structure-groups-0{i}": {
                "(22)": {"error": error, "evidence": -10.0},
                "true": {"error": error + more, "evidence": -10.0 + i},
            }
            for i, (error, more) in enumerate(((1.0, -0.2), (1.4, -0.4)), 1)
        }
        results["structure-customers20-01"] = {
            method: {"error": error, "lam": 0.2, "gamma": 1.0}
            for method, error in (("single tasks", 31.0), ("(22)", 30.0))
        }
        table = structure.structure_table(results, 2)
        row = table.loc[("groups", "true")]
        assert row["repeats"] == 2 and row["error"] == pytest.approx(0.9)
        assert row["difference"] == pytest.approx(-0.3) and row["se"] == pytest.approx(0.1)
        assert row["evidence"] == pytest.approx(1.5)
        text = structure.structure_text(table, structure.STRUCTURES)
        assert text.to_dict("index") == {"(27): four groups": {"(22)": "1.20", "true": "-0.30 (0.10)"}}
        text = structure.structure_text(table, structure.STRUCTURES, evidence=True)
        assert text.to_dict("index") == {"(27): four groups": {"true": "+1.5"}}
        table.loc[("groups", "true"), "difference"] = -0.001  # and not -0.00
        text = structure.structure_text(table, structure.STRUCTURES)
        assert text.loc["(27): four groups", "true"] == "+0.00 (0.10)"
        # One repeat has no standard error.
        text = structure.structure_text(table, structure.POLYNOMIALS)
        assert text.to_dict("index") == {"customers, 20 choices, %": {"single tasks": "+1.0", "(22)": "30.0"}}
        assert structure.structure_table({}, 2).empty

    def test_jobs(self):
        jobs = jobs_of(Settings(), (2,), ())
        assert len({job.name for job in jobs}) == len(jobs) == 20 * len(structure.WORLDS)
        assert not jobs_of(Settings(sets=("school",)), (2,), ())

    def test_command(self, monkeypatch, tmp_path, capsys):
        kept = {name: structure.WORLDS[name] for name in ("no-products", "customers20")}
        monkeypatch.setattr(structure, "WORLDS", kept)
        monkeypatch.setattr(structure, "_GAMMAS", (0.1, 1.0))

        def run(*more):
            return main(
                ["reproduce", "evgeniou2005", "--quick", "--out", str(tmp_path), "--table", "2", *more]
            )

        assert run() == 0
        assert "not in the paper" in capsys.readouterr().out
        table = pd.read_csv(tmp_path / "evgeniou2005-quick-table2.csv").set_index(["world", "method"])
        assert set(table.index.get_level_values("world")) == set(kept) and (table["repeats"] == 1).all()
        assert (
            table.loc[("no-products", "(22)"), "error"]
            < table.loc[("no-products", "(22), degree 3"), "error"]
        )
        jobs = tmp_path / "evgeniou2005-quick-jobs"
        files = {path: path.stat().st_mtime_ns for path in jobs.iterdir()}
        # A second call runs what is missing.
        assert run("--repeats", "1") == 0
        assert {path: path.stat().st_mtime_ns for path in jobs.iterdir()} == files
        assert run("--sets", "customers") == 2
        assert "table 2 structures" in " ".join(capsys.readouterr().err.split())
