"""The reproduction of Yu, Tresp & Schwaighofer (2005): documents, learners, tuning, tables, command."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from scipy.sparse import csr_matrix
from scipy.special import erf

import zoo
from zoo.cli import main
from zoo.diagnostics import f1_scores
from zoo.experiments import topics, topics_data, yu2005, yu2005_table, yu2005_toy
from zoo.experiments.topics import (
    KernelRidge,
    MultiTaskGP,
    RegularisedTasks,
    SupportVectors,
    best_threshold,
    folds,
    held_out,
    scores,
    tune,
)
from zoo.experiments.topics_data import Design, draw
from zoo.experiments.yu2005_table import Settings, score_table
from zoo.experiments.yu2005_toy import nearness, neural_network_kernel

pytest.importorskip("sklearn")


@pytest.fixture
def corpus(monkeypatch):
    """Small documents with topics that hang together, in the place of the real ones."""
    rng = np.random.default_rng(7)
    X = rng.poisson(0.6, size=(160, 40)) * rng.gamma(1.0, size=40)
    X[:, 0] += 0.1
    X /= np.linalg.norm(X, axis=1, keepdims=True)
    f = X @ rng.normal(size=(40, 3)) @ rng.normal(size=(3, 9)) + 0.1 * rng.normal(size=(160, 9))
    Y = f > np.quantile(f, 0.75, axis=0)
    Y[:, 8] = np.arange(160) < 5  # too rare
    monkeypatch.setattr(topics_data, "documents", lambda: (csr_matrix(X), Y))
    monkeypatch.setattr(yu2005, "documents", lambda: (csr_matrix(X), Y))


DESIGN = Design(documents=40, topics=4, labelled=24, fewest=20)


@pytest.fixture
def problem(corpus):
    return draw(DESIGN, 1)[0]


# ---------------------------------------------------------------- documents


class TestDraw:
    def test_labels(self, problem):
        known = problem.known()
        assert [len(rows) for rows in known] == [24] * 4
        assert len({tuple(rows) for rows in known}) == 4
        for t, rows in enumerate(known):
            truth = problem.truth[problem.train[rows], t]
            np.testing.assert_array_equal(problem.labels[rows, t] > 0, truth)
            assert truth.sum() >= 2
        np.testing.assert_allclose(problem.kernel, (problem.X @ problem.X[problem.train].T).toarray())

    def test_parts(self, problem):
        parts = problem.parts()
        assert parts["ALL"].sum(axis=0).tolist() == [160 - 24] * 4
        assert parts["PARTIALLY LABELED"].sum(axis=0).tolist() == [40 - 24] * 4
        assert not np.delete(parts["PARTIALLY LABELED"], problem.train, axis=0).any()
        assert not (parts["ALL"][problem.train] & ~np.isnan(problem.labels)).any()

    def test_repeats(self, corpus):
        (one, others), (again, _), (two, _) = draw(DESIGN, 1), draw(DESIGN, 1), draw(DESIGN, 2)
        np.testing.assert_array_equal(one.labels, again.labels)
        assert not np.array_equal(one.train, two.train)
        assert len(others) == 4 and 8 not in others  # nine topics, four of them tasks, one too rare

    def test_too_much_asked(self, corpus):
        with pytest.raises(ValueError, match="topics is 9, but 8 have 20 documents"):
            draw(replace(DESIGN, topics=9), 1)
        with pytest.raises(ArithmeticError, match="fewer than 2 positive"):
            draw(replace(DESIGN, fewest=5, topics=9, documents=3), 1)

    @pytest.mark.data
    def test_rcv1(self):
        problem, others = draw(Design(), 1)
        assert problem.labels.shape == (1000, 50) and len(others) == 13
        assert 5900 < len(problem.truth) < 6000
        assert np.nansum(problem.labels > 0, axis=0).min() >= 2
        assert zoo.MultiTaskData.from_multilabel(problem.X[problem.train], problem.labels).is_sparse


# ---------------------------------------------------------------- scores


class TestScores:
    def test_against_scikit_learn(self):
        from sklearn.metrics import roc_auc_score

        rng = np.random.default_rng(1)
        truth, f = rng.random((60, 3)) > 0.7, np.round(rng.normal(size=(60, 3)), 1)  # with ties
        used = rng.random((60, 3)) > 0.3
        found = scores(truth, f, used, threshold=0.2)
        auc = [roc_auc_score(truth[used[:, t], t], f[used[:, t], t]) for t in range(3)]
        assert found["AUC"] == pytest.approx(np.mean(auc))
        task = np.broadcast_to(np.arange(3), truth.shape)
        expected = f1_scores(truth[used], f[used] > 0.2, task[used])
        assert found["micro F"] == pytest.approx(expected.micro_f1)
        assert found["macro F"] == pytest.approx(expected.macro_f1)
        assert found["accuracy"] == pytest.approx(expected.accuracy)

    def test_topics_without_a_positive_document(self):
        truth = np.array([[True, False], [False, False], [True, False]])
        f = np.array([[1.0, 1.0], [-1.0, -1.0], [1.0, -1.0]])
        found = scores(truth, f, np.ones((3, 2), dtype=bool))
        assert found["AUC"] == 1.0 and found["macro F"] == 1.0
        assert found["micro F"] == pytest.approx(0.8)

    def test_threshold(self):
        rng = np.random.default_rng(2)
        truth, used = rng.random((40, 2)) > 0.8, rng.random((40, 2)) > 0.2
        f = np.round(rng.normal(size=(40, 2)) + truth, 1)
        best = best_threshold(truth, f, used)
        every = [scores(truth, f, used, t)["micro F"] for t in np.linspace(-4, 4, 1601)]
        assert scores(truth, f, used, best)["micro F"] == pytest.approx(max(every))


# ---------------------------------------------------------------- learners


def _dense(problem):
    return problem.X.toarray()


class TestLearners:
    @pytest.mark.parametrize("bias", [True, False])
    def test_ridge(self, problem, bias):
        from sklearn.linear_model import Ridge

        X, rows = _dense(problem), np.arange(0, 160, 7)
        f = KernelRidge(bias).fit(problem, penalty=0.3).decide(rows)
        for t, known in enumerate(problem.known()):
            model = Ridge(alpha=0.3, fit_intercept=bias).fit(
                X[problem.train[known]], problem.labels[known, t]
            )
            np.testing.assert_allclose(f[:, t], model.predict(X[rows]), rtol=1e-6, atol=1e-8)

    def test_support_vectors(self, problem):
        from sklearn.svm import SVC

        X = _dense(problem)
        f = SupportVectors().fit(problem, C=2.0).decide(np.arange(160))
        for t, known in enumerate(problem.known()):
            model = SVC(C=2.0, kernel="linear").fit(X[problem.train[known]], problem.labels[known, t])
            np.testing.assert_allclose(f[:, t], model.decision_function(X), atol=5e-3)

    def test_support_vectors_of_one_class(self, problem):
        labels = problem.labels.copy()
        labels[:, 1] = np.where(np.isnan(labels[:, 1]), np.nan, -1.0)
        f = SupportVectors().fit(replace(problem, labels=labels)).decide(np.arange(5))
        assert (f[:, 1] == -1.0).all() and np.ptp(f[:, 0]) > 0

    def test_regularised_tasks(self, problem):
        """Against the dual with the kernel written down."""
        from sklearn.svm import SVC

        mu, X = 0.5, _dense(problem)
        task, row = np.nonzero(~np.isnan(problem.labels).T)
        Z = X[problem.train[row]]
        K = (1.0 / mu + (task[:, None] == task)) * (Z @ Z.T + 1.0)
        y = problem.labels[row, task]
        model = SVC(C=1.5, kernel="precomputed", tol=1e-6).fit(K, y)
        f = RegularisedTasks().fit(problem, C=1.5, mu=mu).decide(np.arange(160))
        cross = (1.0 / mu + (np.arange(4)[:, None, None] == task)) * (X @ Z.T + 1.0)
        dual = np.zeros(len(y))
        dual[model.support_] = model.dual_coef_[0]
        # The dual has a bias that all tasks share and that is not shrunk; it is small.
        assert np.corrcoef(f.ravel(), (cross @ dual).T.ravel())[0, 1] > 0.99
        primal = [
            0.5 * dual @ K @ dual + 1.5 * np.maximum(0.0, 1.0 - y * values).sum()
            for values in ((K @ dual), f[problem.train[row], task])
        ]
        assert primal[1] <= primal[0] * 1.02

    @pytest.mark.parametrize("bias", [True, False])
    def test_multi_task_gp_predicts_as_its_fit(self, problem, bias):
        learner = MultiTaskGP(accelerate=False, bias=bias)
        machine = learner.fit(problem, iterations=4, noise_floor=0.2)
        level = np.nanmean(problem.labels, axis=0) if bias else np.zeros(4)
        data = zoo.MultiTaskData.from_multilabel(problem.X[problem.train], problem.labels - level)
        factory = zoo.NIWGaussianProcess(
            base_kernel="linear", pi=1e6, tau=1.0, likelihood=zoo.Gaussian(noise=zoo.likelihoods.Flat())
        )
        fit = factory.fit(data, "em", max_iter=5, accelerate=False, noise_floor=0.2, progress=False)
        rows = np.arange(0, 160, 11)
        for t in (0, 3):
            predicted = fit.predict(problem.X[rows], task=data.task_names[t], random_seed=1)
            np.testing.assert_allclose(machine.decide(rows)[:, t], predicted["mean"] + level[t], atol=1e-8)
        assert machine.facts["noise variance"] >= 0.04 - 1e-12
        K = machine.learned().kernel_matrix(problem.X[rows])
        np.testing.assert_allclose(K, fit.learned_kernel().kernel_matrix(problem.X[rows]), atol=1e-10)

    def test_gibbs(self, problem):
        machine = MultiTaskGP("gibbs").fit(problem, draws=40)
        known = ~np.isnan(problem.labels)
        f = machine.decide(problem.train)
        assert np.corrcoef(f[known], problem.labels[known])[0, 1] > 0.5


class TestTuning:
    def test_folds(self, problem):
        fold = folds(problem.labels, 3, np.random.default_rng(1))
        assert ((fold >= 0) == ~np.isnan(problem.labels)).all()
        for t in range(4):
            positives = np.bincount(fold[problem.labels[:, t] > 0, t], minlength=3)
            assert np.ptp(positives) <= 1

    def test_held_out_labels_are_not_seen(self, problem):
        fold = folds(problem.labels, 3, np.random.default_rng(1))
        f = held_out(KernelRidge(), problem, {"penalty": 0.1}, fold)
        changed = problem.labels.copy()
        changed[fold == 2] *= -1.0
        again = held_out(KernelRidge(), replace(problem, labels=changed), {"penalty": 0.1}, fold)
        np.testing.assert_allclose(again[fold == 2], f[fold == 2])
        assert not np.allclose(again[fold == 0], f[fold == 0])

    def test_tune(self, problem):
        grid = [{"penalty": 1e9}, {"penalty": 0.1}, {"penalty": 1e-12}]
        tuned = tune(KernelRidge(), problem, grid, 3, 1)
        assert tuned.parameters["AUC"] in grid and len(tuned.table) == 3
        for criterion, parameters in tuned.parameters.items():
            row = tuned.table[grid.index(parameters)]
            assert row[criterion] == max(r[criterion] for r in tuned.table)
        assert set(tuned.thresholds) == set(tuned.parameters)
        untuned = tune(KernelRidge(), problem, grid[:1], 0, 1)
        assert untuned.parameters["AUC"] == grid[0] and not untuned.thresholds


# ---------------------------------------------------------------- figure 1


class TestToy:
    def test_neural_network_kernel(self):
        """It is the covariance of sigmoid units with Gaussian weights."""
        rng = np.random.default_rng(1)
        n = 400_000
        bias = rng.normal(0.0, np.sqrt(yu2005_toy._BIAS_VARIANCE), n)
        slope = rng.normal(0.0, np.sqrt(yu2005_toy._SLOPE_VARIANCE), n)
        x = np.array([-1.0, -0.2, 0.1, 0.8])
        units = erf(bias[:, None] + slope[:, None] * x)
        np.testing.assert_allclose(neural_network_kernel(x, x), units.T @ units / n, atol=0.01)

    def test_nearness(self):
        K = np.array([[1.0, 0.3], [0.3, 2.0]])
        found = nearness(2.0 * K, K)
        assert found["correlation"] == pytest.approx(1.0)
        assert found["relative error"] == pytest.approx(1.0)
        assert found["relative error, scaled"] == pytest.approx(0.0, abs=1e-12)

    def test_both_learn_the_kernel(self):
        found = yu2005._toy(3, 200)["scores"]
        for learned in ("learned, EM", "learned, full Bayes"):
            assert found[learned]["correlation"] > found["base"]["correlation"]
            assert found[learned]["relative error"] < found["base"]["relative error"]


# ---------------------------------------------------------------- tables and command


def _numbers(auc, micro):
    by_rule = {"sign": {"AUC": auc, "micro F": micro, "macro F": 0.1, "accuracy": 0.9}}
    part = dict.fromkeys(topics_data.PARTS, by_rule)
    return {"scores": dict.fromkeys(topics.CRITERIA, part)}


def test_table():
    results = {
        "table1-repeat01-ridge": _numbers(0.7, 0.5),
        "table1-repeat02-ridge": _numbers(0.8, 0.6),
        "table1-repeat01-svm": _numbers(0.6, 0.4),
    }
    methods = {key: yu2005_table.METHODS[key] for key in ("em15", "ridge", "svm")}
    table = score_table(methods, results, 2).loc["PARTIALLY LABELED"]
    ridge = table.loc["Ridge, no bias"]
    assert ridge["AUC"] == pytest.approx(0.75) and ridge["AUC sd"] == pytest.approx(np.sqrt(0.005))
    assert ridge["paper AUC"] == 0.771 and ridge["repeats"] == 2
    assert np.isnan(ridge["micro F, threshold"])
    assert table.loc["Multi-Task GP, 15 EM iterations", "repeats"] == 0
    text = yu2005.markdown(yu2005._shown(table))
    assert "| Ridge, no bias | 0.771 | 0.750 (0.071) | 0.564 | 0.550 (0.071) |" in text
    assert "| SVM | 0.716 | 0.600 |" in text


def test_quick_grids():
    ridge = yu2005_table.METHODS["ridge"]
    assert ridge.points(False)[0] == {"penalty": 0.003} and len(ridge.points(False)) == 8
    assert ridge.points(True) == [{"penalty": 0.01}, {"penalty": 3.0}]
    assert len(yu2005_table.METHODS["rmtl"].points(True)) == 4


class TestCommand:
    @pytest.fixture
    def small(self, corpus, monkeypatch):
        look = Settings(
            design=DESIGN,
            small=replace(DESIGN, documents=24, labelled=16),
            repeats=1,
            small_repeats=1,
            quick=True,
            sizes=(6, 12),
            curves=2,
            toys=2,
            toy_draws=50,
        )
        monkeypatch.setattr(Settings, "look", lambda: look)
        kept = {key: yu2005_table.METHODS[key] for key in ("em15", "em-bias", "rmtl", "ridge", "svm")}
        kept["em"] = yu2005_table.METHODS["em"]._replace(grid={"iterations": (3,)})
        for module in (yu2005, yu2005_table):
            monkeypatch.setattr(module, "METHODS", kept)
        few = {key: yu2005_table.SMALL_METHODS[key]._replace(grid={"draws": (20,)}) for key in ("gibbs",)}
        for module in (yu2005, yu2005_table):
            monkeypatch.setattr(module, "SMALL_METHODS", few)

    def _run(self, folder, *more):
        return main(["reproduce", "yu2005", "--quick", "--cv", "2", "--out", str(folder), *more])

    def test_tables_and_figures(self, small, tmp_path, capsys):
        assert self._run(tmp_path) == 0
        text = capsys.readouterr().out
        assert "Table 1: ALL" in text and "Figure 1" in text
        names = {path.name for path in tmp_path.iterdir()}
        kinds = {"table1": ("csv", "md"), "figure1": ("csv", "md", "png"), "figure2": ("csv", "png")}
        assert names == {
            "yu2005-quick-jobs",
            *(f"yu2005-quick-{name}.{kind}" for name, every in kinds.items() for kind in every),
        }
        table = (
            pd.read_csv(tmp_path / "yu2005-quick-table1.csv")
            .set_index(["study", "part", "method"])
            .sort_index()
        )
        ours = table.loc[("table 1", "ALL")]
        assert (ours["repeats"] == 1).all() and (ours["AUC"] > 0.55).all()
        assert ours.loc["SVM", "paper AUC"] == 0.697
        assert np.isnan(ours.loc["Multi-Task GP, 300 EM iterations", "micro F, threshold"])
        assert list(table.loc[("small", "ALL")].index) == ["Multi-Task GP, full Bayes"]
        frame = pd.read_csv(tmp_path / "yu2005-quick-figure2.csv")
        assert set(frame["documents"]) == {6, 12} and frame["curve"].nunique() == 2
        assert set(frame["line"]) == {curve.label for curve in yu2005._CURVES}
        frame = pd.read_csv(tmp_path / "yu2005-quick-figure1.csv")
        assert list(frame["kernel"].unique()) == ["base", "learned, EM", "learned, full Bayes"]
        assert "| learned, EM |" in (tmp_path / "yu2005-quick-figure1.md").read_text()
        # A second call runs nothing.
        jobs = tmp_path / "yu2005-quick-jobs"
        files = {path: path.stat().st_mtime_ns for path in jobs.iterdir()}
        assert self._run(tmp_path, "--table", "1", "--figure", "2") == 0
        assert {path: path.stat().st_mtime_ns for path in jobs.iterdir()} == files

    def test_figure_2_learns_the_kernels_that_it_needs(self, small, tmp_path):
        assert self._run(tmp_path, "--figure", "2") == 0
        names = sorted(path.stem for path in (tmp_path / "yu2005-quick-jobs").glob("*.json"))
        assert names == [
            "figure2-curve01-repeat01",
            "figure2-curve02-repeat01",
            "table1-repeat01-em-bias",
            "table1-repeat01-em15",
        ]

    def test_failures_are_named(self, small, tmp_path, capsys, monkeypatch):
        def broken(*_, **__):
            raise ArithmeticError("no luck")

        monkeypatch.setattr(SupportVectors, "fit", broken)
        assert self._run(tmp_path, "--table", "1") == 1
        out, err = capsys.readouterr()
        assert err == "Error: 1 job failed: table1-repeat01-svm.\n" and "no luck" in out

    def test_bad_input(self, tmp_path, capsys):
        for arguments, message in (
            (["yu2005", "--table", "3"], "table: 3"),
            (["yu2005", "--figure", "3"], "figure: 3"),
            (["yu2005", "--splits", "3"], "--splits says nothing about yu2005, which takes --repeats."),
            (["yu2005", "--sets", "yeast"], "--sets says nothing about yu2005"),
            (
                ["li2014", "--repeats", "3"],
                "--repeats says nothing about li2014, which takes --splits and --sets",
            ),
            (["yu2006"], "paper: 'yu2006'"),
        ):
            assert main(["reproduce", *arguments, "--out", str(tmp_path / "out")]) == 2
            assert message in capsys.readouterr().err
        assert not list(tmp_path.iterdir())
