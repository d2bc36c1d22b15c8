"""The reproduction of Evgeniou, Micchelli & Pontil (2005): machines, protocol, statistics, tables, command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.stats import ttest_rel

import zoo
from zoo.cli import main
from zoo.experiments import (
    conjoint,
    evgeniou2005,
    evgeniou2005_runs,
    evgeniou2005_structure,
    evgeniou2005_tables,
)
from zoo.experiments.evgeniou2005_runs import Settings
from zoo.experiments.evgeniou2005_tables import computers_table, school_table, table1
from zoo.kernels.task_metric import pca_metric

pytest.importorskip("sklearn")

T, N_TRAIN = 6, 12


@pytest.fixture(scope="module")
def panel():
    """Six customers: training rows, test rows, truth."""
    data, truth = zoo.datasets.simulate_conjoint(T, 40, (3, 2), random_seed=3)
    first = np.arange(data.n_rows) % 40 < N_TRAIN
    return data.take(first), data.take(~first), truth


def _objective(train, W, lam, gamma, Q=None):
    """What (16) with the regulariser (24) minimises, by its closed form (23) as corrected, times T gamma."""
    metric = np.eye(len(W)) if Q is None else np.linalg.inv(Q)
    n = W.shape[1]
    mean = W.mean(axis=1, keepdims=True)

    def norm(V):
        return np.einsum("dt,de,et->", V, metric, V)

    J = (norm(W) + (1 - lam) / lam * norm(W - mean)) / n
    f = np.einsum("nd,dn->n", train.X, W[:, train.task])
    return np.maximum(0.0, 1.0 - train.y * f).sum() + gamma * n * J


# ---------------------------------------------------------------- machines


class TestMachines:
    @pytest.mark.parametrize("Q", [None, np.diag([2.0, 1.0, 0.5, 0.5, 1.0])])
    def test_minimises_the_papers_functional(self, panel, Q):
        train = panel[0]
        for lam, gamma in ((0.3, 1.0), (0.05, 0.1)):
            W = conjoint.machine(train, lam, gamma, Q)
            best = _objective(train, W, lam, gamma, Q)
            rng = np.random.default_rng(1)
            for size in (0.01, 0.1):
                for _ in range(20):
                    moved = _objective(train, W + size * rng.normal(size=W.shape), lam, gamma, Q)
                    assert moved > best * (1 - 1e-3)

    @pytest.mark.parametrize("Q", [None, np.diag([3.0, 1.0, 1.0, 0.0, 0.0])])
    def test_is_what_the_factory_finds(self, panel, Q, monkeypatch):
        train = panel[0]
        monkeypatch.setattr(conjoint, "_TOLERANCE", 1e-9)
        monkeypatch.setattr(conjoint, "_MAX_ITER", 100_000)
        for lam, gamma in ((0.3, 1.0), (1.0, 0.5)):
            model = zoo.MultiTaskKernelMachine(
                likelihood=zoo.Hinge(C=1 / (4 * gamma * T)),
                lam=lam,
                Q="identity" if Q is None else Q,
                amplitude=1.0,
            )
            fit = model.fit(train, method="map", tol=1e-9, random_seed=1, progress=False)
            W = fit.posterior["coefficients"].to_numpy()[0, 0]
            np.testing.assert_allclose(conjoint.machine(train, lam, gamma, Q), W, atol=1e-5)

    def test_independent_tasks_are_single_machines(self, panel):
        """At lam = 1 with gamma in units of T, whatever T is."""
        from sklearn.svm import LinearSVC

        train = panel[0]
        W = conjoint.machine(train, 1.0, 0.7)
        for t, rows in enumerate(train.rows_by_task()):
            alone = LinearSVC(C=1 / 1.4, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=200_000)
            alone.fit(train.X[rows], train.y[rows])
            np.testing.assert_allclose(W[:, t], alone.coef_[0], atol=0.02)

    def test_one_machine(self, panel):
        from sklearn.svm import LinearSVC

        train = panel[0]
        alone = LinearSVC(C=0.5, loss="hinge", fit_intercept=False, tol=1e-8, max_iter=200_000)
        W = conjoint.one_machine(train, 1.0)
        assert W.shape == (5, T) and np.ptp(W, axis=1).max() == 0.0
        np.testing.assert_allclose(W[:, 0], alone.fit(train.X, train.y).coef_[0], atol=0.02)
        # Towards 0 all tasks become this one: the weight of the loss is then that of lam = 0, T gamma.
        pooled = conjoint.one_machine(train, float(T))
        np.testing.assert_allclose(conjoint.machine(train, conjoint.ZERO, 1.0), pooled, atol=0.02)

    def test_principal_components(self, panel):
        train = panel[0]
        found = conjoint.principal_components(train, 0.3, 0.5, steps=2)
        W = conjoint.machine(train, 0.3, 0.5)
        for Q, learned in zip(found.metrics, found.coefficients, strict=True):
            np.testing.assert_allclose(Q, pca_metric(W), atol=1e-10)
            W = conjoint.machine(train, 0.3, 0.5, Q)
            np.testing.assert_allclose(learned, W, atol=1e-10)
        # It ends where a step keeps the rank.
        found = conjoint.principal_components(train, 0.3, 0.5, steps=20)
        ranks = [5, *(np.linalg.matrix_rank(Q, tol=1e-8) for Q in found.metrics)]
        assert len(found.metrics) < 20 and ranks[-1] == ranks[-2] and all(np.diff(ranks[:-1]) < 0)

    def test_evidence(self, panel, monkeypatch):
        train, test, _ = panel
        fits = []
        fit = zoo.MultiTaskKernelMachine.fit
        monkeypatch.setattr(
            zoo.MultiTaskKernelMachine,
            "fit",
            lambda *given, **more: fits.append(fit(*given, **more)) or fits[0],
        )
        Q, W = conjoint.evidence(train, 1)
        assert fits[0].factory == zoo.MultiTaskKernelMachine(Q="learned")
        assert np.trace(Q) == pytest.approx(5) and np.linalg.eigvalsh(Q)[0] > -1e-10
        mean = fits[0].predict(test, random_seed=1)["mean"]
        np.testing.assert_allclose(np.einsum("nd,dn->n", test.X, W[:, test.task]), mean, atol=1e-6)

    def test_coefficients_of_standardized_data(self):
        """On the scale of the model: they give back its predictions."""
        rng = np.random.default_rng(2)
        X = rng.normal(3.0, 2.0, size=(60, 2))
        data = zoo.MultiTaskData.from_arrays(X, X @ [1.0, -2.0] + rng.normal(5.0, size=60), np.arange(60) % 3)
        train = data.add_intercept().standardize()
        fit = evgeniou2005_runs._exact(train)
        W = conjoint.coefficients(fit)
        mean = fit.predict(train, random_seed=1)["mean"]
        f = train.transform.restore_y(np.einsum("nd,dn->n", train.X, W[:, train.task]))
        np.testing.assert_allclose(f, mean, atol=1e-8)


# ---------------------------------------------------------------- protocol


class TestProtocol:
    def test_errors_by_hand(self):
        rows = zoo.MultiTaskData.from_arrays(
            [[1.0], [2.0], [1.0], [1.0]], [1, -1, -1, 1], ["a", "a", "b", "b"]
        )
        np.testing.assert_array_equal(conjoint.errors(rows, np.array([[0.5, -0.5]])), [0.5, 0.5])
        np.testing.assert_array_equal(conjoint.errors(rows, np.array([[0.5, 0.0]])), [0.5, 0.5])

    def test_validation_takes_the_last_row_of_each_task(self, panel):
        train = panel[0]
        part, held_out = conjoint.validation(train)
        assert part.task_sizes.tolist() == [N_TRAIN - 1] * T and held_out.task_sizes.tolist() == [1] * T
        np.testing.assert_array_equal(held_out.X, train.X[N_TRAIN - 1 :: N_TRAIN])

    def test_choice(self):
        grid = {
            (0.2, 1.0): (0.3, 0.9),
            (0.2, 2.0): (0.2, 0.8),
            (0.4, 1.0): (0.2, 0.7),
            (0.6, 1.0): (0.1, 0.9),
        }
        assert conjoint.choose(grid, (0.2, 0.4, 0.6)) == (0.6, 1.0, 0.1)
        # Equals are told apart by the hinge loss.
        assert conjoint.choose(grid, (0.2, 0.4)) == (0.4, 1.0, 0.2)

    def test_labels(self):
        train = zoo.MultiTaskData.from_arrays(np.ones((4, 1)), [1.0, 3.0, 5.0, 5.0], ["a", "a", "b", "b"])
        test = zoo.MultiTaskData.from_arrays(np.ones((3, 1)), [2.0, 2.5, 6.0], ["a", "a", "b"])
        found = conjoint.labels(train, test)
        assert [rows.y.tolist() for rows in found] == [[-1, 1, -1, -1], [-1, 1, 1]]

    def test_groups_of_customers(self):
        rows, truth = conjoint.customers(1, 7)
        groups = evgeniou2005_runs._groups(rows, 3, 20)
        assert [train.task_names for train, _ in groups] == [rows.task_names[:3], rows.task_names[3:6]]
        train, test = groups[1]
        assert train.task_sizes.tolist() == [20] * 3 and test.task_sizes.tolist() == [100] * 3
        np.testing.assert_array_equal(train.X[:20], rows.X[360:380])
        again, _ = conjoint.customers(1, 7)
        other, _ = conjoint.customers(2, 7)
        np.testing.assert_array_equal(rows.y, again.y)
        assert not np.array_equal(rows.y, other.y) and truth["coefficients"].shape == (20, 7)

    @pytest.mark.data
    def test_computers(self):
        data = zoo.datasets.load_lenk_computers()
        train, test = conjoint.computers(0)
        np.testing.assert_array_equal(train.y, data.y[np.arange(3800) % 20 < 16])
        train, test = conjoint.computers(2, persons=5)
        assert train.task_sizes.tolist() == [16] * 5 and test.task_sizes.tolist() == [4] * 5
        assert not np.array_equal(test.X, conjoint.computers(3, persons=5)[1].X)

    def test_table_row(self, panel, monkeypatch):
        train, test, truth = panel
        monkeypatch.setattr(conjoint, "FINE_LAMBDAS", (conjoint.ZERO, 0.01, 0.2, 0.8))
        monkeypatch.setattr(conjoint, "LAMBDAS", (conjoint.ZERO, 0.2, 0.8))
        found = conjoint.table_row(train, test, truth["covariance"].to_numpy(), gammas=(0.1, 1.0))
        assert set(found) == set(conjoint.METHODS)
        assert all(len(numbers["errors"]) == T for numbers in found.values())
        # The single machines by the test rows, the others by the validation rows, then on all training rows.
        singles = [conjoint.errors(test, conjoint.machine(train, 1.0, g)) for g in conjoint.SINGLE_GAMMAS]
        assert np.mean(found["individual"]["errors"]) == pytest.approx(min(e.mean() for e in singles))
        part, held_out = conjoint.validation(train)
        grid = conjoint.search(
            lambda lam, gamma: conjoint.machine(part, lam, gamma), held_out, conjoint.LAMBDAS, (0.1, 1.0)
        )
        best = conjoint.choose(grid, conjoint.LAMBDAS)
        assert found["identity"]["parameters"] == {"lam": best.lam, "gamma": best.gamma}
        W = conjoint.machine(train, best.lam, best.gamma)
        np.testing.assert_allclose(found["identity"]["errors"], conjoint.errors(test, W))
        # PCA keeps what identity chose.
        steps = found["pca"]["parameters"]["iterations"]
        W = conjoint.principal_components(train, best.lam, best.gamma, steps).coefficients[-1]
        np.testing.assert_allclose(found["pca"]["errors"], conjoint.errors(test, W))

    def test_along(self, panel):
        train, test, _ = panel
        names = train.task_names
        groups = [(train.select_tasks(names[i : i + 3]), test.select_tasks(names[i : i + 3])) for i in (0, 3)]
        table = conjoint.along(groups, (0.2, 1.0), (0.1, 1.0))
        assert [row["lam"] for row in table] == [0.2, 1.0]
        for row in table:
            found = [
                conjoint.errors(rest, conjoint.machine(part, row["lam"], row["gamma"]))
                for part, rest in groups
            ]
            assert row["error"] == pytest.approx(100 * np.mean(found))
        Q = np.diag([5.0, 0, 0, 0, 0])
        with_metric = conjoint.along(groups, (0.2,), (1.0,), metrics=[Q, Q])
        found = [conjoint.errors(rest, conjoint.machine(part, 0.2, 1.0, Q)) for part, rest in groups]
        assert with_metric[0]["error"] == pytest.approx(100 * np.mean(found))


# ---------------------------------------------------------------- tables


def _errors(seed, shift):
    rng = np.random.default_rng(seed)
    return np.clip(rng.normal(0.3 + shift, 0.02, size=20), 0, 1).tolist()


SHIFTS = {"one": 0.1, "individual": 0.03, "identity": 0.0, "pca": 0.001, "learned": -0.1, "square": -0.1}
ALL = {**SHIFTS, "true": -0.1, "pca-first": 0.0, "identity-fine": 0.0, "individual-validated": 0.03}


def _group(seed):
    parameters = {"lam": 0.4, "gamma": 1.0, "iterations": 2}
    return {
        method: {"errors": _errors(seed + 10 * i, shift), "parameters": parameters}
        for i, (method, shift) in enumerate(ALL.items())
    }


class TestTables:
    settings = Settings(repeats=1, customers=100, tasks=(50, 100), data=(20,))

    def test_table1(self):
        results = {
            "customers01-tasks050-data20-group0": _group(1),
            "customers01-tasks050-data20-group1": _group(2),
            "customers01-tasks100-data20-group0": _group(3),
            "figure1-panel01-tasks010": {},
        }
        table = table1(results, self.settings)
        assert table.index.tolist() == [(50, 20), (100, 20)]
        row = table.loc[(50, 20)]
        assert row["groups"] == 2 and row["paper identity"] == 28.72 and row["lam"] == 0.4
        both = {
            method: 100 * np.array([*_group(1)[method]["errors"], *_group(2)[method]["errors"]])
            for method in ALL
        }
        for method, values in both.items():
            assert row[method] == pytest.approx(values.mean())
        t = ttest_rel(both["individual"], both["identity"]).statistic
        assert row["t of identity against individual"] == pytest.approx(t) and t > 3
        # Of the paper's methods; identity and PCA are alike.
        assert row["best"] == "identity pca"
        text = evgeniou2005_tables.table1_text(table)
        assert text["One SVM"].tolist()[0].endswith("(42.0)") and "**" not in text["One SVM"].iloc[0]
        assert text["Identity"].iloc[0].startswith("**") and "**" not in text["learned Q"].iloc[0]
        assert table1({}, self.settings).empty

    def test_t_of_equal_errors(self):
        same = {"a": np.ones(3), "b": np.ones(3)}
        assert np.isnan(evgeniou2005_tables._t(same, "a", "b"))
        assert evgeniou2005_tables._compared(same)["b"] == {"mean": 1.0, "p": 1.0}
        apart = {"a": np.ones(3), "b": np.full(3, 1.1)}
        assert evgeniou2005_tables._compared(apart)["b"]["p"] == 0.0

    def test_computers(self):
        def numbers(seed):
            rmse = {
                method: {"rmse": (10 * np.array(_errors(seed + 10 * i, shift))).tolist()}
                for i, (method, shift) in enumerate(SHIFTS.items())
                if method != "square"
            }
            return {"labels": _group(seed), "ratings": rmse}

        results = {f"computers-partition0{i}": numbers(i) for i in range(3)}
        table = computers_table(results)
        assert table.attrs["partitions"] == 2
        drawn = [100 * np.array(_group(i)["one"]["errors"]) for i in (1, 2)]
        assert table.loc["One SVM", "drawn, labels"] == pytest.approx(np.mean(drawn))
        assert table.loc["One SVM", "survey, labels: p"] < 0.05
        means = {m: np.mean([_group(i)[m]["errors"] for i in (1, 2)], axis=0) for m in SHIFTS | ALL}
        best = min(means, key=lambda m: means[m].mean())
        p = ttest_rel(means["one"], means[best]).pvalue
        assert table.loc["One SVM", "drawn, labels: p"] == pytest.approx(p)
        assert np.isnan(table.loc["learned Q, square loss", "drawn, ratings"])
        text = evgeniou2005_tables.computers_text(table)
        assert text.loc["learned Q, square loss", "drawn: RMSE of ratings"] == ""
        assert text.loc["learned Q", "survey: RMSE of ratings"].startswith("**")

    def test_school(self):
        results = {}
        for split, (a, b) in enumerate(((38.0, 38.5), (37.0, 37.2), (39.0, 39.6)), 1):
            for method, ev in (("evidence", a), ("learned", b)):
                scores = {"EV": ev, "EV per task": ev - 20}
                results[f"school-split0{split}-{method}"] = {"scores": scores, "parameters": {"lam": 0.01}}
        table = school_table(results, Settings(splits=3))
        learned = table.loc["square loss; lambda and Q by evidence"]
        assert learned["t"] == pytest.approx(ttest_rel([38.5, 37.2, 39.6], [38.0, 37.0, 39.0]).statistic)
        assert (
            learned["EV sd"] == pytest.approx(np.std([38.5, 37.2, 39.6], ddof=1)) and learned["lam"] == 0.01
        )
        assert table.loc["one ridge regression", "splits"] == 0
        text = evgeniou2005_tables.school_text(table)
        assert text.loc["square loss; lambda by evidence"].tolist() == [
            "38.00 (1.00)",
            "18.00 (1.00)",
            "0.01",
            "",
        ]

    def test_numbers_of_the_paper(self):
        numbers = evgeniou2005_runs.PAPER_TABLE_1
        assert list(numbers) == [(t, d) for d in (20, 30, 60, 90) for t in (50, 100, 200)]
        assert numbers[(200, 90)] == (38.77, 19.84, 19.27, 17.53)


# ---------------------------------------------------------------- School


@pytest.fixture(scope="module")
def schools():
    """Four schools whose lines differ little."""
    rng = np.random.default_rng(4)
    task = np.arange(160) % 4
    X = rng.normal(size=(160, 3))
    slopes = rng.normal(size=(3, 1)) + 0.3 * rng.normal(size=(3, 4))
    y = np.einsum("nd,dn->n", X, slopes[:, task]) + 0.3 * rng.normal(size=160) + 20.0
    data = zoo.MultiTaskData.from_arrays(X, y, task).add_intercept()
    first = np.arange(160) < 100
    return data.take(first).standardize(), data.take(~first)


class TestSchool:
    @pytest.mark.parametrize("method", list(evgeniou2005_runs.SCHOOL_METHODS))
    def test_methods(self, schools, method, monkeypatch):
        monkeypatch.setattr(evgeniou2005_runs, "_CV_LAMBDAS", (0.03, 0.3))
        monkeypatch.setattr(evgeniou2005_runs, "_school", lambda *_: schools)
        found = evgeniou2005_runs._run_school(1, None, method, 2)
        assert set(found["scores"]) == {"RMSE", "pooled RMSE", "EV", "EV per task"}
        assert found["scores"]["EV"] > 60
        if method == "clusters":
            assert found["parameters"]["C"] in evgeniou2005_runs._CLUSTERS
        if method in ("cv", "tube"):
            assert found["parameters"]["lam"] in (0.03, 0.3)

    def test_curves(self, schools, monkeypatch):
        """The square loss with gamma = T is a ridge regression on augmented features."""
        from sklearn.linear_model import Ridge

        from zoo.experiments.joint_selection import scores

        train, test = schools
        monkeypatch.setattr(evgeniou2005_runs, "_school", lambda *_: schools)
        table = pd.DataFrame(evgeniou2005_runs._run_path(1, None, [0.2, 1.0])["rows"])
        assert len(table) == 7 and table["curve"].nunique() == 4
        own = np.zeros((100, 4, 4))
        own[np.arange(100), train.task] = np.sqrt(0.2 * 4) * train.X
        features = np.column_stack([np.sqrt(0.8) * train.X, own.reshape(100, 16)])
        w = Ridge(alpha=4.0, fit_intercept=False).fit(features, train.y).coef_
        W = np.sqrt(0.8) * w[:4, None] + np.sqrt(0.8) * w[4:].reshape(4, 4).T
        f = np.einsum("nd,dn->n", train.transform.apply_x(test.X), W[:, test.task])
        expected = scores(test, train.transform.restore_y(f))
        row = table[(table["curve"] == "square loss, gamma = T") & (table["lam"] == 0.2)].iloc[0]
        assert row["EV"] == pytest.approx(expected["EV"], abs=1e-6)


# ---------------------------------------------------------------- command


class TestCommand:
    @pytest.fixture
    def small(self, monkeypatch):
        """A few customers, and simulated data in the place of the real ones."""
        rng = np.random.default_rng(6)

        def ratings(number, persons=None):
            task = np.repeat(np.arange(4), 12)
            X = np.column_stack([np.ones(48), rng.choice([-1.0, 1.0], size=(48, 2))])
            data = zoo.MultiTaskData.from_arrays(X, X @ [4.0, 2.0, -1.0] + rng.normal(size=48), task)
            first = np.arange(48) % 12 < 9
            return data.take(first), data.take(~first)

        def school(split, schools):
            train, test = ratings(0)
            return train.standardize(), test

        monkeypatch.setattr(conjoint, "computers", ratings)
        # Seconds each, and tested above.
        monkeypatch.setattr(
            conjoint,
            "evidence",
            lambda train, seed: (np.eye(train.n_features), conjoint.machine(train, 0.5, 1.0)),
        )
        monkeypatch.setattr(evgeniou2005_runs, "_school", school)
        monkeypatch.setattr(conjoint, "FINE_LAMBDAS", (conjoint.ZERO, 0.2, 0.6))
        monkeypatch.setattr(conjoint, "LAMBDAS", (conjoint.ZERO, 0.6))
        monkeypatch.setattr(evgeniou2005_runs, "_COMPUTER_GAMMAS", (1.0, 3.0))
        monkeypatch.setattr(evgeniou2005_runs, "_CV_LAMBDAS", (0.03, 0.3))
        monkeypatch.setattr(evgeniou2005_runs, "_SCHOOL_GAMMAS", (1.0,))
        worlds = {"groups": evgeniou2005_structure.WORLDS["groups"]}
        monkeypatch.setattr(evgeniou2005_structure, "WORLDS", worlds)
        kept = {
            key: row for key, row in evgeniou2005_runs.SCHOOL_METHODS.items() if key not in ("learned", "pca")
        }
        monkeypatch.setattr(evgeniou2005_runs, "SCHOOL_METHODS", kept)
        look = Settings(
            repeats=1,
            customers=4,
            tasks=(2, 4),
            data=(20,),
            few=(2, 4),
            two=(2,),
            lams=(0.5, 1.0),
            partitions=1,
            splits=2,
            school_lams=(0.1, 1.0),
            structure_repeats=1,
            structure_customers=4,
        )
        monkeypatch.setattr(Settings, "look", lambda: look)

    def _run(self, folder, *more):
        return main(["reproduce", "evgeniou2005", "--quick", "--cv", "2", "--out", str(folder), *more])

    @pytest.mark.statistical
    def test_tables_and_figures(self, small, tmp_path, capsys):
        assert self._run(tmp_path) == 0
        text = capsys.readouterr().out
        assert "Table 1" in text and "School" in text
        names = {path.name for path in tmp_path.iterdir()}
        assert names == {
            "evgeniou2005-quick-jobs",
            *(
                f"evgeniou2005-quick-{n}.{kind}"
                for n in ("table1", "table2", "computers", "school")
                for kind in ("csv", "md")
            ),
            *(f"evgeniou2005-quick-figure{n}.{kind}" for n in (1, 2, 3) for kind in ("csv", "png")),
        }
        table = pd.read_csv(tmp_path / "evgeniou2005-quick-table1.csv").set_index(["tasks", "data"])
        assert table["groups"].to_dict() == {(2, 20): 2, (4, 20): 1}
        assert table[list(conjoint.METHODS)].to_numpy().max() < 70
        frame = pd.read_csv(tmp_path / "evgeniou2005-quick-figure1.csv")
        assert set(frame["tasks"]) == {2, 4} and set(frame["lam"]) == {0.6}
        frame = pd.read_csv(tmp_path / "evgeniou2005-quick-figure2.csv")
        # One machine per customer at lam = 1, gamma by validation: not better than by the test rows.
        last = frame[frame["lam"] == 1.0].iloc[0]
        assert last["gamma"] not in conjoint.SINGLE_GAMMAS or last["error"] >= last["individual"] - 1e-9
        frame = pd.read_csv(tmp_path / "evgeniou2005-quick-figure3.csv")
        assert frame["split"].nunique() == 2 and len(frame) == 2 * 7
        # A second call runs nothing.
        jobs = tmp_path / "evgeniou2005-quick-jobs"
        files = {path: path.stat().st_mtime_ns for path in jobs.iterdir()}
        assert self._run(tmp_path, "--figure", "2") == 0
        assert {path: path.stat().st_mtime_ns for path in jobs.iterdir()} == files

    def test_jobs(self):
        jobs = evgeniou2005.jobs_of(Settings(), (1,), (1, 2, 3))
        assert len({job.name for job in jobs}) == len(jobs)
        assert sum(job.name.startswith("customers") for job in jobs) == 2 * 4 * (4 + 2 + 1)
        assert len(evgeniou2005.jobs_of(replace(Settings(), repeats=1), (1,), ())) == 28 + 6
        school = evgeniou2005.jobs_of(Settings(sets=("school",)), (1,), (1, 2, 3))
        assert {job.name[:6] for job in school} == {"school"} and len(school) == 90

    def test_bad_input(self, tmp_path, capsys):
        for arguments, message in (
            (["--table", "3"], "table: 3"),
            (["--figure", "4"], "figure: 4"),
            (["--sets", "yeast"], "sets: 'yeast'"),
            (["--figure", "3", "--sets", "customers"], "show nothing. Table 1 shows customers and computers"),
        ):
            assert main(["reproduce", "evgeniou2005", *arguments, "--out", str(tmp_path / "out")]) == 2
            assert message in " ".join(capsys.readouterr().err.split())
        assert not list(tmp_path.iterdir())
