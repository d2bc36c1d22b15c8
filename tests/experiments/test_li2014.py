"""Reproductions of experiments: the runner of jobs, the yardsticks, the tables."""

import json
from dataclasses import asdict, replace

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import minimize

import zoo
from zoo.cli import main
from zoo.experiments import conjoint, li2014, li2014_numbers, li2014_runs
from zoo.experiments.li2014 import curves, latent_table, reproduce, score_table
from zoo.experiments.li2014_runs import Settings
from zoo.experiments.outputs import markdown
from zoo.experiments.yardsticks import (
    FeatureLearning,
    PooledLinear,
    SeparateLinear,
    choose,
    choose_among,
    decision,
    moments,
    require_sklearn,
)
from zoo.support.runner import Job, run_jobs

pytest.importorskip("sklearn")


def _square(x):
    return {"square": x**2, "list": [x, x]}


def _odd_fails(x):
    if x % 2:
        raise ArithmeticError(f"{x} is odd")
    return {"half": x // 2}


def _quietly(jobs, folder, n_jobs=1):
    return run_jobs(jobs, folder, n_jobs, progress=False)


class TestRunner:
    def test_a_killed_run_goes_on(self, tmp_path):
        calls = []

        def work(x):
            calls.append(x)
            if x == 3 and calls.count(3) == 1:
                raise KeyboardInterrupt  # a kill: nothing in the runner may catch it
            return {"square": x**2}

        jobs = [Job(f"job-{x}", work, {"x": x}) for x in range(1, 6)]
        with pytest.raises(KeyboardInterrupt):
            _quietly(jobs, tmp_path)
        assert calls == [1, 2, 3]
        assert sorted(path.name for path in tmp_path.iterdir()) == ["job-1.json", "job-2.json"]
        outcome = _quietly(jobs, tmp_path)
        assert calls == [1, 2, 3, 3, 4, 5]
        assert outcome.results == {f"job-{x}": {"square": x**2} for x in range(1, 6)}
        assert _quietly(jobs, tmp_path).results == outcome.results
        assert len(calls) == 6

    def test_failures_do_not_stop_the_others_and_are_tried_again(self, tmp_path):
        jobs = [Job(f"job-{x}", _odd_fails, {"x": x}) for x in range(4)]
        outcome = _quietly(jobs, tmp_path)
        assert outcome.results == {"job-0": {"half": 0}, "job-2": {"half": 1}}
        assert list(outcome.failures) == ["job-1", "job-3"]
        assert "1 is odd" in outcome.failures["job-1"] and "Traceback" in outcome.failures["job-1"]
        assert sorted(path.stem for path in tmp_path.iterdir()) == ["job-0", "job-2"]
        assert list(_quietly(jobs, tmp_path).failures) == ["job-1", "job-3"]

    def test_processes(self, tmp_path):
        # The processes import what a job's function needs: a builtin needs nothing.
        jobs = [Job(f"job-{x}", dict, {"x": x}) for x in range(3)]
        outcome = _quietly(jobs, tmp_path, n_jobs=2)
        assert outcome.results == {f"job-{x}": {"x": x} for x in range(3)}
        assert list(outcome.results) == ["job-0", "job-1", "job-2"]
        assert not outcome.failures

    def test_numbers_that_json_cannot_hold_are_a_failure(self, tmp_path):
        outcome = _quietly([Job("job", lambda: {"x": np.zeros(2)})], tmp_path)
        assert "not JSON serializable" in outcome.failures["job"]
        assert not list(tmp_path.iterdir())

    def test_results_of_other_settings_are_not_mixed_in(self, tmp_path):
        _quietly([Job("job", _square, {"x": 2})], tmp_path)
        with pytest.raises(ValueError, match=r"job.json' is the result .* other settings \(x\)"):
            _quietly([Job("job", _square, {"x": 3})], tmp_path)
        assert json.loads((tmp_path / "job.json").read_text())["numbers"]["square"] == 4

    def test_names(self, tmp_path):
        with pytest.raises(ValueError, match="no file name"):
            Job("a/b", _square)
        with pytest.raises(ValueError, match="'a' twice"):
            _quietly([Job("a", _square), Job("a", _square)], tmp_path)


# ---------------------------------------------------------------- yardsticks


@pytest.fixture(scope="module")
def regression():
    data, _ = zoo.datasets.simulate_matrix_normal(4, 5, 12, random_seed=1)
    return data


@pytest.fixture(scope="module")
def labels(regression):
    return zoo.MultiTaskData.from_arrays(
        regression.X, np.where(regression.y > 0, 1, 0), regression.task, task_names=regression.task_names
    )


def _ridge(X, y, precision, C):
    return np.linalg.solve(X.T @ X + precision / (2.0 * C), X.T @ y)


class TestYardsticks:
    def test_ridge(self, regression):
        C, D = 0.7, regression.n_features
        W = SeparateLinear("squared").fit(regression, C)
        for w, rows in zip(W.T, regression.rows_by_task(), strict=True):
            np.testing.assert_allclose(w, _ridge(regression.X[rows], regression.y[rows], np.eye(D), C))
        pooled = PooledLinear("squared").fit(regression, C)
        assert pooled.shape == W.shape
        np.testing.assert_allclose(pooled[:, 2], _ridge(regression.X, regression.y, np.eye(D), C))

    @pytest.mark.parametrize("loss", ["logistic", "squared hinge"])
    def test_classifiers(self, labels, loss):
        """Against a general optimiser, also where a task has one class."""
        y = np.where(labels.task == 1, 1.0, labels.y)
        data = zoo.MultiTaskData.from_arrays(labels.X, y, labels.task, task_names=labels.task_names)
        W = SeparateLinear(loss).fit(data, 0.5)
        for w, rows in zip(W.T, data.rows_by_task(), strict=True):
            X, sign = data.X[rows], np.where(data.y[rows] > 0, 1.0, -1.0)

            def objective(v, X=X, sign=sign):
                margin = sign * (X @ v)
                if loss == "logistic":
                    return 0.5 * np.logaddexp(0, -margin).sum() + 0.5 * v @ v
                return 0.5 * (np.maximum(0.0, 1.0 - margin) ** 2).sum() + 0.5 * v @ v

            found = minimize(objective, np.zeros(X.shape[1]), method="BFGS").x
            np.testing.assert_allclose(w, found, atol=2e-3)

    @pytest.mark.parametrize("loss", ["squared", "logistic"])
    def test_objective_of_feature_learning_falls(self, regression, labels, loss):
        data = regression if loss == "squared" else labels
        learned = FeatureLearning(loss, tolerance=-1.0, max_alternations=15).learn(data, 2.0)
        assert len(learned.objective) == 15
        assert (np.diff(learned.objective) <= 1e-5 * learned.objective[0]).all()
        assert learned.objective[-1] < 0.99 * learned.objective[0]
        assert np.trace(learned.metric) == pytest.approx(1.0)
        assert np.linalg.eigvalsh(learned.metric).min() > 0

    def test_feature_learning_with_a_fixed_metric_is_ridge(self, regression):
        C, D = 0.7, regression.n_features
        root = np.random.default_rng(1).normal(size=(D, D))
        metric = root @ root.T
        tasks = [(regression.X[rows], regression.y[rows]) for rows in regression.rows_by_task()]
        W = FeatureLearning("squared").coefficients(tasks, metric, C)
        for w, (X, y) in zip(W.T, tasks, strict=True):
            np.testing.assert_allclose(w, _ridge(X, y, np.linalg.inv(metric), C), rtol=1e-6)

    def test_feature_learning_finds_what_tasks_share(self):
        rng = np.random.default_rng(3)
        direction = np.array([1.0, -1.0, 0.5, 0.0, 0.0, 0.0])
        X, task = rng.normal(size=(120, 6)), np.repeat(np.arange(12), 10)
        y = (X @ direction) * rng.normal(size=12)[task] + 0.1 * rng.normal(size=120)
        data = zoo.MultiTaskData.from_arrays(X, y, task)
        values, vectors = np.linalg.eigh(FeatureLearning("squared").learn(data, 1.0).metric)
        assert values[-1] > 0.8
        assert abs(vectors[:, -1] @ direction) / np.linalg.norm(direction) > 0.98

    @pytest.mark.parametrize("loss", ["squared", "logistic", "squared hinge"])
    def test_pooled_rows_of_shared_inputs(self, loss):
        rng = np.random.default_rng(2)
        X, Y = rng.normal(size=(30, 3)), (rng.random((30, 5)) > 0.4).astype(float)
        shared = zoo.MultiTaskData.from_multilabel(X, Y)
        spread = zoo.MultiTaskData.from_arrays(shared.X, shared.y, shared.task, task_names=shared.task_names)
        expected = PooledLinear(loss).fit(spread, 0.3)
        np.testing.assert_allclose(PooledLinear(loss).fit(shared, 0.3), expected, atol=1e-3)

    def test_predictions_are_on_the_users_scale(self, regression):
        train, test = regression.split(0.25, random_seed=1)
        scaled = train.standardize()
        W = SeparateLinear("squared").fit(scaled, 1e6)
        f = decision(W, scaled, test)
        expected = scaled.transform.restore_y(
            np.einsum("nd,dn->n", scaled.transform.apply_x(test.X), W[:, test.task])
        )
        np.testing.assert_allclose(f, expected)
        np.testing.assert_allclose(decision(W, scaled, scaled), decision(W, scaled, train))

    def test_choose(self, regression):
        seen = []

        def score(rows, f):
            seen.append(rows)
            return -np.mean((rows.original_y() - f) ** 2)

        folds = regression.folds(3, random_seed=1)
        grid = (1e-6, 1.0, 1e-5)
        assert choose(SeparateLinear("squared"), folds, grid, score) == 1.0
        assert len(seen) == 9 and seen[0] is folds[0][1]
        assert choose(SeparateLinear("squared"), folds, grid, lambda rows, f: 0.0) == 1e-6

    def test_choose_among_yardsticks(self, regression):
        """The best cell of the grid of both, and the first of equals."""

        def score(rows, f):
            return -np.mean((rows.original_y() - f) ** 2)

        folds = regression.folds(3, random_seed=1)
        pooled, alone = PooledLinear("squared"), SeparateLinear("squared")
        assert choose_among([pooled, alone], folds, (1e-6, 1.0), score) == (alone, 1.0)
        assert choose_among([pooled, alone], folds, (1e-6, 1.0), lambda rows, f: 0.0) == (pooled, 1e-6)

    def test_moments(self, regression):
        found = moments(regression)
        for t, rows in enumerate(regression.rows_by_task()):
            X, y = regression.X[rows], regression.y[rows]
            np.testing.assert_allclose(found.gram[t], X.T @ X)
            np.testing.assert_allclose(found.cross[t], X.T @ y)
            assert found.square[t] == pytest.approx((y**2).sum()) and found.n_rows[t] == len(rows)

    def test_without_scikit_learn(self, monkeypatch):
        monkeypatch.setitem(__import__("sys").modules, "sklearn", None)
        with pytest.raises(ImportError, match=r"multitask-zoo\[experiments\]"):
            require_sklearn()

    def test_losses(self):
        with pytest.raises(ValueError, match="loss: 'hinge'"):
            SeparateLinear("hinge")
        with pytest.raises(ValueError, match="loss"):
            FeatureLearning("squared hinge")


# ---------------------------------------------------------------- tables


def _numbers(micro, C=0.1, **more):
    return {"C": C, "micro F1 %": micro, "macro F1 %": micro - 10, "accuracy %": 80.0, **more}


class TestTables:
    results = {
        "emotions-split01-both": _numbers(60.0),
        "emotions-split02-both": _numbers(64.0, C=0.3),
        "emotions-split01-lr": _numbers(50.0),
        "emotions-split01-nonparametric": _numbers(61.0, n_latent=20.0),
        "emotions-split02-nonparametric": _numbers(62.0, n_latent=24.0),
        "yeast-split01-both": _numbers(1.0),
    }

    def test_scores(self):
        models = {key: li2014_runs.LABEL_MODELS[key] for key in ("both", "lr", "balanced")}
        paper = {"LR": (54.83, 1.63), "MTL-C": (63.5, 1.67), "BM-MTL (Ω, R)": (65.67, 1.32)}
        columns = list(li2014._LABEL_COLUMNS)
        table = score_table("emotions", models, paper, columns, self.results, 2).loc["emotions"]
        assert list(table.index) == ["LR", "MTL-C", "BM-MTL (Ω, R)", "BM-MTL (Ω, R), balanced"]
        both = table.loc["BM-MTL (Ω, R)"]
        assert both["paper %"] == 65.67 and both["micro F1 %"] == 62.0 and both["macro F1 %"] == 52.0
        assert both["micro F1 sd"] == pytest.approx(np.sqrt(8.0))
        assert both["C"] == pytest.approx(0.2) and both["splits"] == 2
        assert table.loc["LR", "splits"] == 1 and np.isnan(table.loc["LR", "micro F1 sd"])
        assert table.loc["MTL-C", "splits"] == 0 and np.isnan(table.loc["MTL-C", "micro F1 %"])
        assert np.isnan(table.loc["BM-MTL (Ω, R), balanced", "paper %"])
        frame = score_table("emotions", models, paper, columns, self.results, 2)
        text = markdown(li2014._shown(frame, li2014._LABEL_COLUMNS))
        assert text.startswith("| model | paper | micro F1 | macro F1 | accuracy | C |\n| --- |")
        assert "| LR | 54.83 (1.63) | 50.00 | 40.00 | 80.00 | 0.1 |\n" in text
        assert "| BM-MTL (Ω, R) | 65.67 (1.32) | 62.00 (2.83) | 52.00 (2.83) | 80.00 (0.00) | 0.2 |" in text
        assert "| MTL-C | 63.50 (1.67) |  |  |  |  |\n" in text

    def test_latent_features(self):
        table = latent_table(self.results, ["emotions", "School"], {"emotions": 2, "School": 3})
        assert table.loc["emotions", "K"] == 22.0 and table.loc["emotions", "paper K"] == 57.8
        assert table.loc["emotions", "K sd"] == pytest.approx(np.sqrt(8.0))
        assert table.loc["School", "splits"] == 0 and np.isnan(table.loc["School", "K"])

    def test_every_row_of_the_paper_has_four_sets_and_known_labels(self):
        for scores in li2014_numbers.PAPER_TABLE_2.values():
            assert set(scores) == set(li2014.LABEL_SETS)
        ours = {model.label for model in li2014_runs.LABEL_MODELS.values()}
        assert {"LR", "MTL-F", "BM-MTL (Ω, R)", "NPBM-MTL (Z, R)"} <= ours & set(li2014_numbers.PAPER_TABLE_2)
        ours = {model.label for model in li2014_runs.SCHOOL_MODELS.values()}
        assert set(li2014_numbers.PAPER_TABLE_3) - ours == {"MT-iLSVM"}
        assert set(li2014_numbers.PAPER_TABLE_2) - {m.label for m in li2014_runs.LABEL_MODELS.values()} == {
            *("MTL-C", "MT-iLSVM")
        }

    @pytest.mark.parametrize("model", ["bmtl", "mtgp", "mtrl"])
    def test_jobs_of_yardsticks_on_school(self, model, monkeypatch):
        """They choose from grids of their own, and beat one regression for all tasks where tasks differ."""
        school = zoo.datasets.simulate_matrix_normal(6, 3, 30, random_seed=2)[0]
        monkeypatch.setattr("zoo.datasets.load_school", lambda split: school.split(0.25, random_seed=split))
        settings = asdict(Settings.quick(2))
        found = li2014_runs._score("School", 1, model, **settings)
        grid = {"bmtl": settings["school_clusters"], "mtgp": settings["school_ranks"]}
        assert found["C"] in grid.get(model, settings["school_linear_grid"])
        pooled = li2014_runs._score("School", 1, "pooled", **settings)
        assert found["explained variance %"] > pooled["explained variance %"] + 10

    def test_curves(self):
        numbers = {"running mean": [[1.0, 2.0], [3.0, 4.0]], "draw": [[5.0, 6.0], [7.0, 8.0]]}
        frame = curves("yeast", "m", {**numbers, "n_latent": [[1.0, 2.0], [2.0, 3.0]]})
        assert list(frame.columns) == [
            *("set", "model", "chain", "sweep", "running mean", "draw", "n_latent")
        ]
        row = frame[(frame["chain"] == 1) & (frame["sweep"] == 2)].iloc[0]
        assert (row["running mean"], row["draw"], row["n_latent"]) == (4.0, 8.0, 3.0)

    def test_plan(self):
        plan = li2014._plan((2, 3, 4), (), None, None, 3, False)
        names = [job.name for job in plan.jobs()]
        assert len(set(names)) == len(names)
        assert sum(name.startswith("emotions-split05-") for name in names) >= 10
        assert "School-split10-both" in names and "emotions-split06-both" not in names
        assert {job.settings["model"] for job in li2014._plan((4,), (), None, 1, 3, False).jobs()} <= {
            "nonparametric"
        }
        only_labels = li2014._plan((2,), (), ["yeast", "School"], 99, 3, False)
        assert {job.settings["data"] for job in only_labels.jobs()} == {"yeast"}
        assert only_labels.splits["School"] == 10
        for arguments, message in (
            (((5,), (), None, None, 3, False), "table"),
            (((), (1,), None, None, 3, False), "figure"),
            (((2,), (), ["iris"], None, 3, False), "sets: 'iris'"),
            (((2,), (), None, 0, 3, False), "splits"),
            (((2,), (), None, None, 1, False), "cv"),
        ):
            with pytest.raises(ValueError, match=message):
                li2014._plan(*arguments)


# ---------------------------------------------------------------- end to end, on simulated data


@pytest.fixture
def simulated(monkeypatch):
    """Small sets in the place of the real ones, and few models."""
    rng = np.random.default_rng(5)
    X = rng.normal(size=(60, 3))
    Y = X @ rng.normal(size=(3, 4)) + 0.3 * rng.normal(size=(60, 4)) > 0
    multilabel = zoo.MultiTaskData.from_multilabel(X, Y.astype(float)).add_intercept()
    school = zoo.datasets.simulate_matrix_normal(4, 3, 20, random_seed=2)[0]
    monkeypatch.setattr(li2014_runs, "_label_data", lambda name: multilabel)
    monkeypatch.setattr("zoo.datasets.load_school", lambda split: school.split(0.25, random_seed=split))
    for name, keys in (
        ("LABEL_MODELS", ("both", "balanced", "svm", "nonparametric")),
        ("SCHOOL_MODELS", ("both", "learned", "stl", "mtl-f", "bmtl", "mtrl", "nonparametric")),
    ):
        kept = {key: getattr(li2014, name)[key] for key in keys}
        for module in (li2014, li2014_runs):
            monkeypatch.setattr(module, name, kept)
    quick = Settings.quick

    def quicker(cv):
        few = {"draws": 10, "tune": 5, "cv_draws": 5, "cv_tune": 5, "school_draws": 10, "school_cv_draws": 5}
        return replace(quick(cv), **few, grid=(0.3,), school_grid=(0.5,))

    monkeypatch.setattr(Settings, "quick", quicker)
    monkeypatch.setattr(li2014_runs, "FIGURE_SWEEPS", 12)
    monkeypatch.setattr(li2014_runs, "FIGURE_ALPHAS", (1.0, 16.0))


class TestCommand:
    def _run(self, folder, *more):
        command = ["reproduce", "li2014", "--quick", "--splits", "1", "--cv", "2", "--out", str(folder)]
        return main([*command, *more])

    @pytest.mark.statistical
    def test_tables_and_figures(self, simulated, tmp_path, capsys):
        assert self._run(tmp_path) == 0
        text = capsys.readouterr().out
        assert "Table 2" in text and "Table 3" in text and "Table 4" in text
        names = {path.name for path in tmp_path.iterdir()}
        tables = {f"li2014-quick-table{n}.{kind}" for n in (2, 3, 4) for kind in ("csv", "md")}
        figures = {f"li2014-quick-figure{n}.{kind}" for n in (2, 3) for kind in ("csv", "png")}
        assert names == {"li2014-quick-jobs", *tables, *figures}
        table = pd.read_csv(tmp_path / "li2014-quick-table2.csv").set_index("model")
        assert 50 < table.loc["BM-MTL (Ω, R)", "micro F1 %"] <= 100
        assert 50 < table.loc["BM-MTL (Ω, R), balanced", "micro F1 %"] <= 100
        assert table.loc["LR", "paper %"] == 54.83 and table.loc["LR", "splits"] == 0
        table = pd.read_csv(tmp_path / "li2014-quick-table3.csv").set_index("model")
        assert table.loc["BM-MTL (Ω, R)", "explained variance %"] > 20
        assert table.loc["STL", "splits"] == 1 and table.loc["BM-MTL (Ω, R), C learned", "C"] > 0
        frame = pd.read_csv(tmp_path / "li2014-quick-figure2.csv")
        assert set(frame["set"]) == {"yeast", "School"} and frame["sweep"].max() == 12
        assert set(frame["model"]) == {"BM-MTL (Ω, R)", "NPBM-MTL (Z, R)"}
        frame = pd.read_csv(tmp_path / "li2014-quick-figure3.csv")
        assert list(frame["model"].unique()) == [f"alpha {alpha}" for alpha in (1, 16)]
        mean = frame.groupby("model")["n_latent"].mean()
        assert mean["alpha 16"] > mean["alpha 1"]
        table = pd.read_csv(tmp_path / "li2014-quick-table4.csv").set_index("set")
        assert list(table.index) == ["emotions", "School"] and (table["K"] > 0).all()
        # A second call runs nothing.
        files = {path: path.stat().st_mtime_ns for path in (tmp_path / "li2014-quick-jobs").iterdir()}
        assert self._run(tmp_path, "--table", "2") == 0
        assert {path: path.stat().st_mtime_ns for path in (tmp_path / "li2014-quick-jobs").iterdir()} == files

    def test_failures_are_named(self, simulated, tmp_path, capsys, monkeypatch):
        def broken(rows, f):
            raise ArithmeticError("no luck")

        monkeypatch.setattr(li2014_runs, "_label_scores", broken)
        assert self._run(tmp_path, "--table", "2") == 1
        out, err = capsys.readouterr()
        assert err == "Error: 1 job failed: emotions-split01-svm.\n"
        assert "no luck" in out
        assert pd.read_csv(tmp_path / "li2014-quick-table2.csv")["splits"].sum() == 3

    def test_interrupt(self, simulated, tmp_path, capsys, monkeypatch):
        def interrupted(*_, **__):
            raise KeyboardInterrupt

        monkeypatch.setattr(li2014_runs, "_score_yardstick", interrupted)
        assert self._run(tmp_path, "--table", "2") == 130
        assert "run the command again" in capsys.readouterr().err
        assert len(list((tmp_path / "li2014-quick-jobs").iterdir())) == 2

    def test_bad_input(self, tmp_path, capsys):
        for arguments, message in (
            (["reproduce", "li2015"], "paper: 'li2015'"),
            (["reproduce", "li2014", "--table", "7"], "table: 7"),
            (["reproduce", "li2014", "--sets", "iris"], "sets: 'iris'"),
            (["reproduce", "li2014", "--table", "3", "--sets", "yeast"], "table 3 School"),
        ):
            assert main([*arguments, "--out", str(tmp_path / "out")]) == 2
            assert message in capsys.readouterr().err
        assert not list(tmp_path.iterdir())

    @pytest.mark.data
    def test_quick_on_emotions(self, tmp_path, monkeypatch):
        models = {key: li2014_runs.LABEL_MODELS[key] for key in ("lr", "both", "nonparametric")}
        monkeypatch.setattr(li2014_runs, "LABEL_MODELS", models)
        reproduce(tmp_path, tables=[2], figures=[], sets=["emotions"], splits=1, quick=True)
        table = pd.read_csv(tmp_path / "li2014-quick-table2.csv").set_index("model")
        ours = table.loc[["LR", "BM-MTL (Ω, R)", "NPBM-MTL (Z, R)"], "micro F1 %"]
        assert ((ours > 58) & (ours < 75)).all()


def test_numbers_that_no_job_uses_are_refused(tmp_path, capsys):
    """They were accepted, and nothing depended on them."""
    for arguments, message in (
        (["evgeniou2005", "--figure", "1", "--splits", "3"], "splits is 3"),
        (["evgeniou2005", "--figure", "3", "--repeats", "3"], "repeats is 3"),
        (["evgeniou2005", "--table", "1", "--sets", "computers", "--repeats", "3"], "repeats is 3"),
        (["srijith2014", "--figure", "2", "--splits", "3"], "splits is 3"),
        (["li2014", "--figure", "2", "--splits", "3"], "splits is 3"),
        (["yu2005", "--figure", "1", "--repeats", "3"], "repeats is 3"),
    ):
        assert main(["reproduce", *arguments, "--quick", "--out", str(tmp_path / "out")]) == 2
        assert message in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_yardsticks_go_by_names_and_refuse_weights():
    """Coefficients were paired with the codes of the rows, whatever their tasks were called; weights were left out."""
    rng = np.random.default_rng(3)
    X, task = rng.standard_normal((30, 2)), np.array(["a", "b"])[np.arange(30) % 2]
    y = np.where(task == "a", X[:, 0], -2.0 * X[:, 1])
    train = zoo.MultiTaskData.from_arrays(X, y, task)
    W = SeparateLinear("squared").fit(train, 1e6)
    codes = (task == "a").astype(int)
    turned = zoo.MultiTaskData.from_arrays(X, y, codes, task_names=["b", "a"])
    assert turned.task_names != train.task_names
    np.testing.assert_allclose(decision(W, train, turned), decision(W, train, train))
    one = train.select_tasks(["b"])
    np.testing.assert_allclose(decision(W, train, one), decision(W, train, train)[task == "b"])
    others = zoo.MultiTaskData.from_arrays(X[:, ::-1], y, task, feature_names=list(train.feature_names)[::-1])
    with pytest.raises(ValueError, match="other feature_names"):
        decision(W, train, others)
    with pytest.raises(ValueError, match="other task_names"):
        conjoint.labels(train, turned)
    weighted = replace(train, weight=np.full(30, 2.0))
    for fit in (SeparateLinear("squared").fit, FeatureLearning("squared").fit, conjoint.machine):
        with pytest.raises(ValueError, match="weight is given"):
            fit(weighted, 1.0, *((0.1,) if fit is conjoint.machine else ()))
