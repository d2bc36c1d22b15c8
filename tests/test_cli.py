"""The command line, end to end."""

import subprocess
import sys
from pathlib import Path

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import zoo
from zoo.cli import main
from zoo.support.files import staged_file, staged_folder

_FEW = ["--draws", "20", "--tune", "20", "--chains", "2"]
_PICTURES = {"task_correlation.png", "coefficient_forest.png", "trace_rank.png"}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    """Training and new rows as CSV files, with a column of numbers as the task."""
    folder = tmp_path_factory.mktemp("tables")
    data, _ = zoo.datasets.simulate_matrix_normal(4, 2, 16, random_seed=1)
    frame = data.to_frame().rename(columns={"task": "ward", "y": "score"})
    frame["ward"] = frame["ward"].str.removeprefix("task ").astype(int)
    frame["label"] = (frame["score"] > frame["score"].median()).astype(int)
    frame.drop(columns="label").to_csv(folder / "train.csv", index=False)
    frame.drop(columns="score").to_csv(folder / "labels.csv", index=False)
    # Another order of columns, and one that the fit does not use.
    frame[["ward", "x1", "x0"]].assign(extra="?").iloc[::-1].to_csv(folder / "new.csv", index=False)
    return folder


@pytest.fixture(scope="module")
def fitted(tables):
    out = tables / "fit.nc"
    assert main(_fit(tables, out)) == 0
    return out


def _fit(tables, out, *more):
    return [
        "fit",
        "MaxMargin",
        *("--data", str(tables / "train.csv"), "--y", "score", "--task", "ward", "--seed", "3"),
        *("--set", "likelihood=epsilon_insensitive", "--set", "likelihood.C=2", "--out", str(out)),
        *_FEW,
        *more,
    ]


def _refused(capsys, folder, arguments, message):
    """Exit code 2, one line on stderr, and no file that was not there."""
    before = sorted(folder.rglob("*"))
    capsys.readouterr()
    assert main([str(a) for a in arguments]) == 2
    error = capsys.readouterr().err
    assert error.startswith("Error: ") and error.count("\n") == 1
    assert message in error
    assert sorted(folder.rglob("*")) == before


class TestStart:
    def test_help_and_version_are_light(self):
        # As if `zoo/__init__.py` were empty: what counts is what the command line itself imports.
        code = (
            "import sys, types; package = types.ModuleType('zoo'); "
            f"package.__path__ = [{str(Path(zoo.__file__).parent)!r}]; sys.modules['zoo'] = package; "
            "from zoo.cli import main; codes = main(['--help']), main([]), main(['fit', '--help']); "
            "heavy = {'pymc', 'numpy', 'pandas', 'arviz', 'matplotlib'} & set(sys.modules); "
            "assert codes == (0, 0, 0) and not heavy, (codes, heavy)"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stderr
        for command in ("demo", "list", "describe", "fit", "predict", "report"):
            assert command in done.stdout

    def test_version(self, capsys):
        assert main(["--version"]) == 0
        assert capsys.readouterr().out == f"zoo {zoo.__version__}\n"

    def test_as_a_process(self):
        done = subprocess.run(
            [sys.executable, "-m", "zoo", "describe", "Nothing"],
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 2
        assert done.stderr.startswith("Error: ") and done.stderr.count("\n") == 1

    def test_list_names_every_model(self, capsys):
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        for name in zoo.list_models().index:
            assert name in out

    def test_list_shows_every_method_and_fits_the_terminal(self, capsys):
        assert main(["list"]) == 0
        out = capsys.readouterr().out
        assert "methods: exact, hsgp, inducing, vecchia, nuts" in out
        assert "laplace (student_t, logistic" in out
        assert max(map(len, out.splitlines())) < 80

    @pytest.mark.parametrize("name", zoo.list_models().index)
    def test_describe_is_plain_text_that_fits_the_terminal(self, capsys, name):
        assert main(["describe", name]) == 0
        out = capsys.readouterr().out
        assert max(map(len, out.splitlines())) < 80
        for mark in (":math:", ".. math", ":class:", "``", "\\", "----"):
            assert mark not in out
        for heading in ("\nFields\n", "\nMethods, best first\n", "\nPaper\n"):
            assert heading in out

    def test_describe(self, capsys):
        assert main(["describe", "MaxMargin"]) == 0
        out = capsys.readouterr().out
        assert "likelihood = 'hinge'" in out and "gibbs: " in out and "li2014" in out
        assert "feature_cov, task_cov : {" in out


class TestFitPredictReport:
    def test_the_file_holds_the_fit(self, fitted):
        fit = zoo.load(fitted)
        assert fit.factory == zoo.MaxMargin(likelihood=zoo.EpsilonInsensitive(C=2))
        assert fit.data.feature_names == ("x0", "x1", "intercept")
        assert fit.data.task_names == ("0", "1", "2", "3")
        assert fit.data.transform is not None
        assert dict(fit.idata["posterior"].sizes)["draw"] == 20

    def test_predict_fills_the_intercept_and_knows_the_task_column(self, fitted, tables, tmp_path):
        out = tmp_path / "predictions.csv"
        assert main(["predict", str(fitted), "--data", str(tables / "new.csv"), "--out", str(out)]) == 0
        table, new = pd.read_csv(out), pd.read_csv(tables / "new.csv")
        assert list(table.columns) == ["row", "task", "mean", "sd", "lower", "upper"]
        assert list(table["task"]) == list(new["ward"])
        expected = zoo.load(fitted).predict(new.assign(intercept=1.0), task=new["ward"])
        assert table["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-6)

    def test_predict_prints_a_head_without_out(self, fitted, tables, capsys):
        assert main(["predict", str(fitted), "--data", str(tables / "new.csv")]) == 0
        assert "First 10 of 64 rows" in capsys.readouterr().out

    def test_known_and_new_tasks_in_one_file(self, fitted, tables, tmp_path, capsys):
        new = pd.read_csv(tables / "new.csv").astype({"ward": object}).head(6)
        new.loc[[1, 4], "ward"] = "elsewhere"
        new.to_csv(tmp_path / "mixed.csv", index=False)
        command = ["predict", str(fitted), "--data", str(tmp_path / "mixed.csv"), "--seed", "1"]
        _refused(capsys, tmp_path, [*command, "--out", tmp_path / "p.csv"], "task 'elsewhere'")
        assert main([*command, "--new-task", "--out", str(tmp_path / "p.csv")]) == 0
        table = pd.read_csv(tmp_path / "p.csv")
        assert list(table["row"]) == list(range(6))
        assert list(table["task"]) == [str(v) for v in new["ward"]]

    def test_labels(self, tables, tmp_path, capsys):
        out = tmp_path / "labels.nc"
        command = ["fit", "PooledTasks", "--data", tables / "labels.csv", "--y", "label", "--task", "ward"]
        more = ["--set", "likelihood=logistic", "--no-intercept", "--no-standardize", "--features", "x1, x0"]
        assert main([str(a) for a in (*command, *more, *_FEW, "--out", out)]) == 0
        fit = zoo.load(out)
        assert fit.data.feature_names == ("x1", "x0") and fit.data.transform is None
        predictions = tmp_path / "p.csv"
        assert main(["predict", str(out), "--data", str(tables / "new.csv"), "--out", str(predictions)]) == 0
        table = pd.read_csv(predictions)
        assert set(table["label"]) <= {0.0, 1.0}
        assert table["probability"].between(0, 1).all()
        assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
        assert _names(tmp_path / "report") == {
            "report.html",
            "summary.csv",
            *(_PICTURES - {"task_correlation.png"}),
        }

    def test_report(self, fitted, tmp_path, capsys):
        out = tmp_path / "deep" / "report"
        assert main(["report", str(fitted), "--out", str(out)]) == 0
        said = capsys.readouterr().out
        assert "has not converged" in said and "Worst R-hat" in said
        more = {"shrinkage.png", "task_map.png"}
        assert _names(out) == {"report.html", "summary.csv", "diagnostics.csv", *_PICTURES, *more}
        diagnostics = pd.read_csv(out / "diagnostics.csv", index_col="name")
        assert list(diagnostics.columns) == ["r_hat", "ess_bulk", "ess_tail"]
        summary = pd.read_csv(out / "summary.csv", index_col="name")
        assert "log|task_cov|" in summary.index and "coefficients[x0, 1]" in summary.index
        assert {"mean", "ess_bulk", "r_hat"} <= set(summary.columns)

    def test_same_seed_same_output(self, fitted, tables, tmp_path):
        again = tmp_path / "again.nc"
        assert main(_fit(tables, again)) == 0
        for name, fit in (("a", fitted), ("b", again)):
            new, out = str(tables / "new.csv"), str(tmp_path / f"{name}.csv")
            assert main(["predict", str(fit), "--data", new, "--out", out, "--seed", "5"]) == 0
            assert main(["report", str(fit), "--out", str(tmp_path / name)]) == 0
        assert (tmp_path / "a.csv").read_bytes() == (tmp_path / "b.csv").read_bytes()
        assert (tmp_path / "a/summary.csv").read_bytes() == (tmp_path / "b/summary.csv").read_bytes()

    def test_a_column_named_intercept_is_the_users_own(self, tables, tmp_path, capsys):
        frame = pd.read_csv(tables / "train.csv").assign(intercept=np.arange(64.0))
        frame.to_csv(tmp_path / "train.csv", index=False)
        assert main(_fit(tmp_path, tmp_path / "fit.nc")) == 0
        assert "none is added" in capsys.readouterr().out
        command = ["predict", tmp_path / "fit.nc", "--data", tables / "new.csv"]
        _refused(capsys, tmp_path, command, "no column 'intercept'")

    @pytest.mark.filterwarnings("ignore:interrupted. 15 of 20 draws:UserWarning")
    def test_a_partly_drawn_fit_is_not_passed_for_the_whole(self, tables, tmp_path, capsys, monkeypatch):
        whole = zoo.MaxMargin._fit_gibbs

        def interrupted(self, data, y, run, **options):
            return whole(self, data, y, run._replace(draws=run.draws - 5), **options)

        # The engine stays that of the class, as `methods` reads it off.
        monkeypatch.setattr(zoo.MaxMargin, "_fit_gibbs", interrupted)
        assert main(_fit(tables, tmp_path / "fit.nc")) == 130
        assert capsys.readouterr().err == "Error: interrupted, nothing was written.\n"
        assert not list(tmp_path.iterdir())


class TestBadInput:
    @pytest.mark.parametrize(
        ("more", "message"),
        [
            (["--set", "D=1"], "'D'"),
            (["--set", "likelihood.C=-1"], "C is -1"),
            (["--set", "likelihood.C=abc"], "C: 'abc' is unknown"),
            (["--set", "likelihood.C"], "has no '='"),
            (["--set", "likelihood=square"], "likelihood: 'square'"),
            (["--set", "task_nu=[1]"], "task_nu is [1]"),
            (["--set", "task_cov=[[1, 2], [2, 1]]"], "task_cov is not positive definite"),
            (["--method", "magic"], "method 'magic'"),
            (["--y", "grade"], "--y names 'grade'"),
            (["--task", "school"], "--task names 'school'"),
            (["--features", "x0,x7"], "--features names 'x7'"),
            (["--draws", "0"], "--draws"),
            (["--chains", "two"], "--chains"),
            (["--data", "absent.csv"], "absent.csv"),
            (["--set", "likelihood=hinge", "--y", "x0"], "labels must be -1/+1 or 0/1"),
        ],
    )
    def test_fit(self, tables, tmp_path, capsys, more, message):
        _refused(capsys, tmp_path, _fit(tables, tmp_path / "fit.nc", *more), message)

    @pytest.mark.parametrize(
        ("column", "values", "message"),
        [
            ("x0", [1.0, np.nan], "column 'x0' is missing in row"),
            ("x0", [1.0, np.inf], "X is inf in row"),
            (
                "x0",
                ["3.5", "4", "high"],
                "numbers that are written as text, such as '3.5', and beside them 'high'",
            ),
            ("score", ["low", "high"], "not numbers"),
            ("ward", [1.0, np.nan], "column 'ward' is missing"),
        ],
    )
    def test_values(self, tables, tmp_path, capsys, column, values, message):
        frame = pd.read_csv(tables / "train.csv")
        frame[column] = np.resize(np.array(values, dtype=object), len(frame))
        frame.to_csv(tmp_path / "train.csv", index=False)
        _refused(capsys, tmp_path, _fit(tmp_path, tmp_path / "fit.nc"), message)

    @pytest.mark.parametrize("content", ["", "a,b\n", 'a,b\n"1,2\n3', "a,b\n1,2,3,4\n1,2\n5,6,7,8,9\n"])
    def test_files_that_are_no_tables(self, tmp_path, capsys, content):
        (tmp_path / "train.csv").write_text(content)
        _refused(capsys, tmp_path, _fit(tmp_path, tmp_path / "fit.nc"), "train.csv")

    def test_places_that_cannot_be_written(self, fitted, tables, tmp_path, capsys):
        (tmp_path / "file").write_text("mine")
        _refused(capsys, tmp_path, _fit(tables, tmp_path / "absent" / "fit.nc"), "does not exist")
        _refused(capsys, tmp_path, _fit(tables, tmp_path), "is a folder")
        _refused(capsys, tmp_path, ["report", fitted, "--out", tmp_path / "file"], "is a file")
        _refused(capsys, tmp_path, ["report", fitted, "--out", tmp_path / "file" / "deep"], "file")
        _refused(capsys, tmp_path, ["demo", "--out", tmp_path / "file"], "is a file")
        assert (tmp_path / "file").read_text() == "mine"

    def test_fits_that_cannot_be_read(self, tables, tmp_path, capsys):
        (tmp_path / "broken.nc").write_bytes(b"no NetCDF")
        for command in (["report", "--out", tmp_path / "r"], ["predict", "--data", tables / "new.csv"]):
            _refused(capsys, tmp_path, [*command, tmp_path / "broken.nc"], "cannot be read")
            _refused(capsys, tmp_path, [*command, tmp_path / "absent.nc"], "is no file")

    def test_predict(self, fitted, tables, tmp_path, capsys):
        new = pd.read_csv(tables / "new.csv")
        new.drop(columns="x1").to_csv(tmp_path / "less.csv", index=False)
        new.drop(columns="ward").to_csv(tmp_path / "taskless.csv", index=False)
        new.assign(ward=np.nan).to_csv(tmp_path / "missing.csv", index=False)
        out = ["--out", tmp_path / "p.csv"]
        for name, message in (
            ("less", "no column 'x1'"),
            ("taskless", "--task names 'ward'"),
            ("missing", "is missing in row 0"),
        ):
            _refused(capsys, tmp_path, ["predict", fitted, "--data", tmp_path / f"{name}.csv", *out], message)
        command = ["predict", fitted, "--data", tables / "new.csv", "--ci-prob", "1.5", *out]
        _refused(capsys, tmp_path, command, "ci_prob is 1.5")

    def test_traceback_on_request(self, capsys):
        assert main(["--traceback", "describe", "Nothing"]) == 2
        assert "Traceback" in capsys.readouterr().err


class TestDemo:
    @pytest.fixture
    def offline(self, monkeypatch, tmp_path_factory):
        monkeypatch.delenv("ZOO_DATA", raising=False)
        monkeypatch.setenv("ZOO_CACHE", str(tmp_path_factory.mktemp("cache")))

    @pytest.mark.parametrize(("data", "n_tasks"), [("simulated", 24), ("grunfeld", 11)])
    def test_from_data_to_comparison(self, offline, tmp_path, capsys, data, n_tasks):
        out = tmp_path / "demo"
        assert main(["demo", "--data", data, "--out", str(out), *_FEW]) == 0
        text = capsys.readouterr().out
        assert ("simulated with seed 1" if data == "simulated" else "Grunfeld") in text
        assert "MaxMargin(likelihood=Gaussian(" in text
        for part in ("What the model holds", "Worst R-hat", "Held-out rows", "best", str(out.resolve())):
            assert part in text
        pictures = {*_PICTURES, "overview.png", "predicted_vs_observed.png"}
        assert _names(out) == {"posterior.nc", "comparison.csv", "summary.csv", *pictures}
        comparison = pd.read_csv(out / "comparison.csv", index_col="model")
        assert list(comparison.index) == ["MaxMargin", "IndependentTasks", "PooledTasks"]
        assert zoo.load(out / "posterior.nc").data.n_tasks == n_tasks
        assert _names(tmp_path) == {"demo"}

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
            assert main(["demo", "--out", str(out), "--seed", "4", *_FEW]) == 0
        for name in ("comparison.csv", "summary.csv"):
            assert (first / name).read_bytes() == (second / name).read_bytes()
        assert (second / "mine.txt").read_text() == "mine"
        assert _names(second) == {"mine.txt"} | _names(first)

    def test_unknown_data(self, tmp_path, capsys):
        _refused(capsys, tmp_path, ["demo", "--data", "iris", "--out", tmp_path / "demo"], "data: 'iris'")


class TestStaging:
    def test_nothing_is_left_of_a_file_that_failed(self, tmp_path):
        target = tmp_path / "table.csv"
        target.write_text("old")
        with pytest.raises(RuntimeError), staged_file(target) as temporary:
            temporary.write_text("half")
            raise RuntimeError
        assert _names(tmp_path) == {"table.csv"} and target.read_text() == "old"

    @pytest.mark.parametrize("exists", [True, False])
    def test_nothing_is_left_of_a_folder_that_failed(self, tmp_path, exists):
        target = tmp_path / "deep" / "out"
        if exists:
            target.mkdir(parents=True)
        with pytest.raises(KeyboardInterrupt), staged_folder(target) as folder:
            (folder / "half.csv").write_text("half")
            raise KeyboardInterrupt
        assert not list(target.iterdir()) if exists else not list(tmp_path.iterdir())

    def test_unwritable_folder(self, tmp_path, monkeypatch):
        def refuse(*_, **__):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr("tempfile.mkstemp", refuse)
        monkeypatch.setattr("tempfile.mkdtemp", refuse)
        with pytest.raises(PermissionError, match="cannot be written to"), staged_file(tmp_path / "a"):
            pass
        with pytest.raises(PermissionError, match="cannot be written to"), staged_folder(tmp_path / "a"):
            pass


def _names(folder):
    return {path.name for path in folder.iterdir()}


def test_fit_and_report_an_estimate(tables, tmp_path, capsys):
    """EM has one draw and no R-hat: the commands say so, and the report shows the climb."""
    out = tmp_path / "em.nc"
    arguments = ["fit", "NIWLinear", "--data", tables / "train.csv", "--y", "score", "--task", "ward"]
    assert main([str(a) for a in [*arguments, "--method", "em", "--out", out]]) == 0
    assert "R-hat and ESS do not apply" in capsys.readouterr().out
    assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
    assert {p.name for p in (tmp_path / "report").iterdir()} == {
        *("objective_trace.png", "report.html", "shrinkage.png", "summary.csv", "task_map.png")
    }
    summary = pd.read_csv(tmp_path / "report" / "summary.csv", index_col="name")
    fit = zoo.load(out)
    assert summary.loc["noise", "estimate"] == pytest.approx(fit.posterior["noise"].item(), rel=1e-6)
    assert (
        main(["predict", str(out), "--data", str(tables / "new.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    )
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv")["mean"]).all()


def test_fit_keeps_the_population_alone(tables, tmp_path):
    """The file holds no coefficients of tasks, and predicts them."""
    out = tmp_path / "lean.nc"
    arguments = ["fit", "NIWLinear", "--data", tables / "train.csv", "--y", "score", "--task", "ward"]
    arguments += [
        "--draws",
        20,
        "--tune",
        5,
        "--chains",
        2,
        "--seed",
        1,
        "--keep",
        "population",
        "--out",
        out,
    ]
    assert main([str(a) for a in arguments]) == 0
    assert zoo.load(out).keep == "population" and "coefficients" not in zoo.load(out).posterior
    assert (
        main(["predict", str(out), "--data", str(tables / "new.csv"), "--out", str(tmp_path / "p.csv")]) == 0
    )
    assert np.isfinite(pd.read_csv(tmp_path / "p.csv")["mean"]).all()


def test_fit_does_not_overwrite_unless_told(tables, tmp_path, capsys):
    out = tmp_path / "fit.nc"
    out.write_text("of somebody")
    _refused(
        capsys,
        tmp_path,
        _fit(tables, out),
        "Give another name, or pass --overwrite.",
    )
    assert out.read_text() == "of somebody"
    assert main(_fit(tables, out, "--overwrite")) == 0
    assert zoo.load(out).data.task_column == "ward"


def test_predict_prints_tasks_and_classes_as_the_file_has_them(tables, tmp_path, capsys):
    """A column of whole numbers that became floats, as a merge with gaps makes of it, names the same tasks."""
    fit = tmp_path / "labels.nc"
    arguments = ["--data", str(tables / "labels.csv"), "--y", "label", "--task", "ward", "--seed", "3"]
    assert (
        main(
            ["fit", "IndependentTasks", *arguments, "--set", "likelihood=logistic", "--out", str(fit), *_FEW]
        )
        == 0
    )
    new = pd.read_csv(tables / "new.csv")
    new.assign(ward=new["ward"].astype(float)).to_csv(tmp_path / "floats.csv", index=False)
    capsys.readouterr()
    tables_of = []
    for data in (tables / "new.csv", tmp_path / "floats.csv"):
        out = tmp_path / f"{data.stem}_predicted.csv"
        assert main(["predict", str(fit), "--data", str(data), "--out", str(out), "--seed", "1"]) == 0
        tables_of.append(pd.read_csv(out, dtype=str))
    pd.testing.assert_frame_equal(*tables_of)
    assert set(tables_of[0]["label"]) <= {"0", "1"}
    assert tables_of[0]["task"].tolist() == new["ward"].astype(str).tolist()


def test_the_report_says_that_data_were_standardized(fitted, tables, tmp_path, capsys):
    """Its numbers were on another scale than the user's, without a word."""
    assert main(["report", str(fitted), "--out", str(tmp_path / "report")]) == 0
    assert "The data were standardized" in capsys.readouterr().out
    summary = pd.read_csv(tmp_path / "report" / "summary.csv", index_col="name")
    assert (summary["scale"] == "standardized data").all()
    raw = tmp_path / "raw.nc"
    assert main(_fit(tables, raw, "--no-standardize")) == 0
    capsys.readouterr()
    assert main(["report", str(raw), "--out", str(tmp_path / "raw")]) == 0
    assert "standardized" not in capsys.readouterr().out
    assert "scale" not in pd.read_csv(tmp_path / "raw" / "summary.csv")


def test_counts_keep_their_scale(tables, tmp_path, capsys):
    """The default followed whether y holds labels, and counts were standardized."""
    frame = pd.read_csv(tables / "train.csv")
    frame["sold"] = np.arange(len(frame)) % 4
    frame.drop(columns="score").to_csv(tmp_path / "counts.csv", index=False)
    arguments = ["fit", "PooledGP", "--data", tmp_path / "counts.csv", "--y", "sold", "--task", "ward"]
    fit = tmp_path / "fit.nc"
    assert main([str(a) for a in [*arguments, "--set", "likelihood=poisson", "--out", fit, *_FEW]]) == 0
    assert zoo.load(fit).data.transform.y_scale == 1.0


@pytest.fixture(scope="module")
def homes(tmp_path_factory):
    """Prices whose slope varies over a map, with no column of tasks."""
    rng = np.random.default_rng(1)
    frame = pd.DataFrame(rng.uniform(size=(60, 2)), columns=["long", "lat"]).assign(size=rng.normal(size=60))
    frame["price"] = (1.0 + frame["lat"]) * frame["size"] + 0.1 * rng.normal(size=60)
    path = tmp_path_factory.mktemp("homes") / "homes.csv"
    frame.assign(weight=rng.uniform(1.0, 2.0, size=60)).to_csv(path, index=False)
    return path


def test_coefficients_over_a_map(homes, tmp_path, capsys):
    """`--t` twice, `--weight`, `--method`, no task; then intervals, and a report with held-out rows and a map."""
    out = tmp_path / "fit.nc"
    command = ["fit", "VaryingCoefficientGP", "--data", homes, "--y", "price", "--t", "long", "--t", "lat"]
    more = ["--weight", "weight", "--method", "exact", "--out", out, "--draws", "20", "--chains", "2"]
    assert main([str(a) for a in [*command, *more]]) == 0
    fit = zoo.load(out)
    assert fit.data.t_names == ("long", "lat") and fit.data.feature_names == ("size",)
    assert fit.data.weight is not None and fit.method == "exact"
    predicted = tmp_path / "p.csv"
    assert main(["predict", str(out), "--data", str(homes), "--out", str(predicted)]) == 0
    table = pd.read_csv(predicted)
    assert list(table.columns) == ["row", "task", "mean", "sd", "lower", "upper"]
    assert (table["lower"] < table["mean"]).all() and (table["mean"] < table["upper"]).all()
    assert main(["report", str(out), "--out", str(tmp_path / "report"), "--test", str(homes)]) == 0
    assert {"coefficient_surface.png", "accuracy.csv"} <= _names(tmp_path / "report")
    _refused(capsys, tmp_path, [*command[:-1], "height", "--out", tmp_path / "b.nc"], "--t names 'height'")


def test_tables_fit_80_columns(fitted, tables, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["predict", str(fitted), "--data", str(tables / "new.csv")]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_labels_are_predicted_with_their_probability(tables, tmp_path, capsys):
    out = tmp_path / "fit.nc"
    command = ["fit", "IndependentTasks", "--data", tables / "labels.csv", "--y", "label", "--task", "ward"]
    assert main([str(a) for a in [*command, "--set", "likelihood=logistic", "--out", out, *_FEW]]) == 0
    capsys.readouterr()
    assert main(["predict", str(out), "--data", str(tables / "new.csv")]) == 0
    said = capsys.readouterr().out
    for column in ("probability", "lower", "upper"):
        assert column in said


# ---------------------------------------------------------------- names in files


@pytest.fixture
def of_tasks(tmp_path):
    """Writes a CSV file with eight rows of each task, whose level is its place in the list."""

    def write(name, tasks, column="ward"):
        rng = np.random.default_rng(1)
        frame = pd.DataFrame({column: np.repeat(tasks, 8), "x": rng.normal(size=8 * len(tasks))})
        frame["y"] = 10.0 * np.repeat(np.arange(len(tasks)), 8) + frame["x"]
        frame.to_csv(tmp_path / name, index=False)
        return tmp_path / name

    return write


def _predicted(fit, data, *more):
    out = data.with_suffix(".predicted.csv")
    assert main([str(a) for a in ["predict", fit, "--data", data, "--out", out, "--seed", 1, *more]]) == 0
    return pd.read_csv(out, dtype={"task": str}, keep_default_na=False)


def _fit_tasks(data, out, *more, model="IndependentTasks"):
    command = ["fit", model, "--data", data, "--y", "y", "--task", "ward", "--seed", 1, "--out", out]
    assert main([str(a) for a in [*command, *_FEW, *more]]) == 0
    return zoo.load(out)


def test_a_task_keeps_the_name_that_the_file_writes(of_tasks, tmp_path):
    out = tmp_path / "fit.nc"
    fit = _fit_tasks(of_tasks("train.csv", ["01", "02", "03", "A1", "NA"]), out)
    assert fit.data.task_names == ("01", "02", "03", "A1", "NA")
    whole = _predicted(out, tmp_path / "train.csv")
    only = _predicted(out, of_tasks("some.csv", ["01", "02"]))
    assert set(only["task"]) == {"01", "02"} and set(whole["task"]) == set(fit.data.task_names)
    assert only["mean"].to_numpy() == pytest.approx([0.0] * 8 + [10.0] * 8, abs=6.0)


def test_numbers_that_are_written_otherwise_are_other_tasks(of_tasks, tmp_path, capsys):
    out = tmp_path / "fit.nc"
    fit = _fit_tasks(of_tasks("train.csv", ["1.1", "1.10", "2.1", "2.2"]), out)
    assert fit.data.task_names == ("1.1", "1.10", "2.1", "2.2")
    _refused(
        capsys,
        tmp_path,
        ["predict", out, "--data", of_tasks("new.csv", ["1.100"])],
        "task '1.100' is not among",
    )
    # As many digits as the largest has do not make another order than before.
    out = tmp_path / "many.nc"
    fit = _fit_tasks(of_tasks("many.csv", [str(i) for i in range(1, 13)]), out)
    assert fit.data.task_names == tuple(str(i) for i in range(1, 13))
    assert set(_predicted(out, of_tasks("floats.csv", ["1.0", " 12"]))["task"]) == {"1", "12"}
    _refused(
        capsys, tmp_path, ["predict", out, "--data", of_tasks("zero.csv", ["01"])], "task '01' is not among"
    )


@pytest.mark.filterwarnings("ignore:no feature is constant")
@pytest.mark.parametrize("given", ["integers", "positions"])
def test_fits_of_integer_tasks_know_them_in_any_writing(of_tasks, tmp_path, given):
    """Saved from Python, or by a `zoo fit` that guessed the kind of the column."""
    frame = pd.read_csv(of_tasks("train.csv", ["1", "2", "10"]))
    data = zoo.MultiTaskData.from_frame(frame, y="y", task="ward")
    if given == "positions":
        data = zoo.MultiTaskData.from_arrays(frame[["x"]], frame["y"], task=frame["ward"])
        assert data.task_names == ("task 1", "task 2", "task 10")
    out = tmp_path / "fit.nc"
    zoo.IndependentTasks().fit(data, random_seed=1, progress=False).save(out)
    expected = _predicted(out, tmp_path / "train.csv")
    assert list(expected["task"].unique()) == list(data.task_names)
    again = _predicted(out, of_tasks("written.csv", ["01", "2.0", "10"]), "--task", "ward")
    pd.testing.assert_frame_equal(again, expected)


def test_a_task_that_is_a_feature_too_stays_a_number(of_tasks, tmp_path):
    data = of_tasks("train.csv", ["2019", "2020", "2021"])
    fit = _fit_tasks(data, tmp_path / "fit.nc", "--features", "ward,x", model="PooledTasks")
    assert fit.data.task_names == ("2019", "2020", "2021") and fit.data.feature_names[0] == "ward"
    assert set(_predicted(tmp_path / "fit.nc", data)["task"]) == {"2019", "2020", "2021"}


@pytest.fixture(scope="module")
def ratings():
    rng = np.random.default_rng(1)
    frame = pd.DataFrame({"judge": np.repeat(list("abcd"), 40), "x": rng.normal(size=160)})
    frame["rating"] = 1 + np.digitize(frame["x"] + 0.3 * rng.normal(size=160), [-0.5, 0.5])
    return frame.assign(weight=rng.uniform(0.5, 2.0, size=160))


def test_grades_are_predicted_one_row_for_each(ratings, tmp_path):
    ratings.drop(columns="weight").to_csv(tmp_path / "train.csv", index=False)
    out = tmp_path / "fit.nc"
    command = ["fit", "NIWLinear", "--data", tmp_path / "train.csv", "--y", "rating", "--task", "judge"]
    more = ["--set", "likelihood=ordinal", "--set", "likelihood.grades=3", "--seed", 1, "--out", out]
    assert main([str(a) for a in [*command, *more, *_FEW]]) == 0
    table = _predicted(out, tmp_path / "train.csv")
    columns = [
        "row",
        "task",
        "mean",
        "sd",
        "lower",
        "upper",
        "probability_1",
        "probability_2",
        "probability_3",
        "label",
    ]
    assert list(table.columns) == columns and len(table) == 160
    assert np.mean(table["label"] == ratings["rating"]) > 0.7
    assert main(["predict", str(out), "--data", str(tmp_path / "train.csv")]) == 0


def _ordinal_fit(frame, y, out):
    data = zoo.MultiTaskData.from_frame(
        frame.drop(columns="rating").assign(rating=y), y="rating", task="judge"
    )
    fit = zoo.NIWLinear(likelihood=zoo.Ordinal(grades=3)).fit(
        data.add_intercept(), draws=40, tune=40, chains=2, random_seed=1, progress=False
    )
    fit.save(out)
    return fit


def test_named_grades_are_read_from_a_file(ratings, tmp_path, capsys):
    names = ["poor", "NA", "good"]
    words = pd.Series(pd.Categorical.from_codes(ratings["rating"] - 1, names, ordered=True), ratings.index)
    table = ratings.drop(columns="weight").assign(rating=words)
    out = tmp_path / "fit.nc"
    fit = _ordinal_fit(table, words, out)
    table.to_csv(tmp_path / "test.csv", index=False)
    assert set(_predicted(out, tmp_path / "test.csv")["label"]) <= set(names)
    command = ["report", out, "--out", tmp_path / "report", "--y", "rating", "--test"]
    assert main([str(a) for a in [*command, tmp_path / "test.csv"]]) == 0
    accuracy = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    expected = zoo.diagnostics.compare({"NIWLinear": fit}, fit.data, random_seed=0)
    assert accuracy.loc["NIWLinear"].to_numpy() == pytest.approx(
        expected.loc["NIWLinear"].to_numpy(), rel=1e-6
    )
    table.assign(rating=["fine", *words[1:]]).to_csv(tmp_path / "other.csv", index=False)
    _refused(
        capsys,
        tmp_path,
        [*command, tmp_path / "other.csv"],
        "column 'rating' is 'fine' in row 0, and the grades",
    )


@pytest.mark.filterwarnings("default:the fit has weights of rows:UserWarning")
def test_test_rows_have_the_weights_of_the_fit(ratings, tmp_path, capsys):
    ratings.to_csv(tmp_path / "train.csv", index=False)
    command = [
        "fit",
        "IndependentTasks",
        "--data",
        tmp_path / "train.csv",
        "--y",
        "rating",
        "--task",
        "judge",
    ]
    out = tmp_path / "fit.nc"
    assert main([str(a) for a in [*command, "--weight", "weight", "--seed", 1, "--out", out, *_FEW]]) == 0
    report = ["report", out, "--out", tmp_path / "report", "--test"]
    assert main([str(a) for a in [*report, tmp_path / "train.csv"]]) == 0
    said = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    test = zoo.MultiTaskData.from_frame(ratings, y="rating", task="judge", weight="weight").add_intercept()
    expected = zoo.diagnostics.compare({"IndependentTasks": zoo.load(out)}, test, random_seed=0)
    assert said.loc["IndependentTasks", "RMSE"] == pytest.approx(expected["RMSE"].item(), rel=1e-6)
    ratings.drop(columns="weight").to_csv(tmp_path / "bare.csv", index=False)
    capsys.readouterr()
    assert main([str(a) for a in [*report, tmp_path / "bare.csv"]]) == 0
    assert "weights of rows, from column 'weight', and the test rows have none" in capsys.readouterr().err


def test_test_rows_of_a_fit_by_formula(ratings, tmp_path, capsys):
    pytest.importorskip("formulae")
    table = ratings.assign(
        kind=np.where(ratings["x"] > 0.2, "plus", "minus"), judge=ratings["judge"].map(ord) - 96
    )
    formula = "rating ~ scale(x) + kind + (scale(x) + kind | judge)"
    data = zoo.MultiTaskData.from_formula(formula, table)
    fit = zoo.IndependentTasks().fit(data, random_seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    test = table.head(90)
    test.assign(judge="0" + test["judge"].astype(str)).to_csv(tmp_path / "test.csv", index=False)
    command = ["report", tmp_path / "fit.nc", "--out", tmp_path / "report", "--test"]
    assert main([str(a) for a in [*command, tmp_path / "test.csv"]]) == 0
    said = pd.read_csv(tmp_path / "report" / "accuracy.csv", index_col="model")
    expected = zoo.diagnostics.compare({"IndependentTasks": fit}, data.like(test), random_seed=0)
    assert said.loc["IndependentTasks", "RMSE"] == pytest.approx(expected["RMSE"].item(), rel=1e-6)
    _refused(capsys, tmp_path, [*command, tmp_path / "absent.csv"], "--test")
    test.drop(columns="kind").to_csv(tmp_path / "less.csv", index=False)
    _refused(capsys, tmp_path, [*command, tmp_path / "less.csv"], "the formula of the fit names 'kind'")
    _refused(
        capsys,
        tmp_path,
        [*command, tmp_path / "test.csv", "--y", "x"],
        "--y is 'x', and the formula of the fit reads",
    )


def test_words_of_a_formula_stay_words_in_a_file(ratings, tmp_path):
    """Levels of a further group and of a category, which look like numbers, and a missing value."""
    pytest.importorskip("formulae")
    table = ratings.assign(
        clinic=np.resize(["01", "02", "10"], 160), kind=np.resize(["NA", "1", "2", "2"], 160)
    )
    data = zoo.MultiTaskData.from_formula("rating ~ x + kind + (1 + x | judge) + (1 | clinic)", table)
    fit = zoo.NIWLinear().fit(data, draws=40, tune=40, chains=2, random_seed=1, progress=False)
    fit.save(tmp_path / "fit.nc")
    table.drop(columns="rating").to_csv(tmp_path / "new.csv", index=False)
    said = _predicted(tmp_path / "fit.nc", tmp_path / "new.csv")
    expected = fit.predict(table, random_seed=1, output="pandas")
    assert said["mean"].to_numpy() == pytest.approx(expected["mean"].to_numpy(), rel=1e-6)
    assert list(said["task"]) == list(table["judge"])
