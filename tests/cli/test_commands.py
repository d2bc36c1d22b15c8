"""The command line, end to end."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import zoo
from tests.cli.commands import FEW, PICTURES, assert_refused, names_in
from zoo.cli import main


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
        *FEW,
        *more,
    ]


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
        assert "methods: exact, hsgp, inducing, vecchia, gibbs, nuts" in out
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
        assert_refused(capsys, tmp_path, [*command, "--out", tmp_path / "p.csv"], "task 'elsewhere'")
        assert main([*command, "--new-task", "--out", str(tmp_path / "p.csv")]) == 0
        table = pd.read_csv(tmp_path / "p.csv")
        assert list(table["row"]) == list(range(6))
        assert list(table["task"]) == [str(v) for v in new["ward"]]

    def test_labels(self, tables, tmp_path, capsys):
        out = tmp_path / "labels.nc"
        command = ["fit", "PooledTasks", "--data", tables / "labels.csv", "--y", "label", "--task", "ward"]
        more = ["--set", "likelihood=logistic", "--no-intercept", "--no-standardize", "--features", "x1, x0"]
        assert main([str(a) for a in (*command, *more, *FEW, "--out", out)]) == 0
        fit = zoo.load(out)
        assert fit.data.feature_names == ("x1", "x0") and fit.data.transform is None
        predictions = tmp_path / "p.csv"
        assert main(["predict", str(out), "--data", str(tables / "new.csv"), "--out", str(predictions)]) == 0
        table = pd.read_csv(predictions)
        assert set(table["label"]) <= {0.0, 1.0}
        assert table["probability"].between(0, 1).all()
        assert main(["report", str(out), "--out", str(tmp_path / "report")]) == 0
        assert names_in(tmp_path / "report") == {
            "report.html",
            "priors.csv",
            "summary.csv",
            *(PICTURES - {"task_correlation.png"}),
        }

    def test_report(self, fitted, tmp_path, capsys):
        out = tmp_path / "deep" / "report"
        assert main(["report", str(fitted), "--out", str(out)]) == 0
        said = capsys.readouterr().out
        assert "has not converged" in said and "Worst R-hat" in said
        more = {"shrinkage.png", "task_map.png"}
        assert names_in(out) == {
            "report.html",
            "summary.csv",
            "diagnostics.csv",
            "priors.csv",
            *PICTURES,
            *more,
        }
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
        assert_refused(capsys, tmp_path, command, "no column 'intercept'")

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
        assert_refused(capsys, tmp_path, _fit(tables, tmp_path / "fit.nc", *more), message)

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
        assert_refused(capsys, tmp_path, _fit(tmp_path, tmp_path / "fit.nc"), message)

    @pytest.mark.parametrize("content", ["", "a,b\n", 'a,b\n"1,2\n3', "a,b\n1,2,3,4\n1,2\n5,6,7,8,9\n"])
    def test_files_that_are_no_tables(self, tmp_path, capsys, content):
        (tmp_path / "train.csv").write_text(content)
        assert_refused(capsys, tmp_path, _fit(tmp_path, tmp_path / "fit.nc"), "train.csv")

    def test_places_that_cannot_be_written(self, fitted, tables, tmp_path, capsys):
        (tmp_path / "file").write_text("mine")
        assert_refused(capsys, tmp_path, _fit(tables, tmp_path / "absent" / "fit.nc"), "does not exist")
        assert_refused(capsys, tmp_path, _fit(tables, tmp_path), "is a folder")
        assert_refused(capsys, tmp_path, ["report", fitted, "--out", tmp_path / "file"], "is a file")
        assert_refused(capsys, tmp_path, ["report", fitted, "--out", tmp_path / "file" / "deep"], "file")
        assert_refused(capsys, tmp_path, ["demo", "--out", tmp_path / "file"], "is a file")
        assert (tmp_path / "file").read_text() == "mine"

    def test_fits_that_cannot_be_read(self, tables, tmp_path, capsys):
        (tmp_path / "broken.nc").write_bytes(b"no NetCDF")
        for command in (["report", "--out", tmp_path / "r"], ["predict", "--data", tables / "new.csv"]):
            assert_refused(capsys, tmp_path, [*command, tmp_path / "broken.nc"], "cannot be read")
            assert_refused(capsys, tmp_path, [*command, tmp_path / "absent.nc"], "is no file")

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
            assert_refused(
                capsys, tmp_path, ["predict", fitted, "--data", tmp_path / f"{name}.csv", *out], message
            )
        command = ["predict", fitted, "--data", tables / "new.csv", "--ci-prob", "1.5", *out]
        assert_refused(capsys, tmp_path, command, "ci_prob is 1.5")

    def test_traceback_on_request(self, capsys):
        assert main(["--traceback", "describe", "Nothing"]) == 2
        assert "Traceback" in capsys.readouterr().err


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
    assert_refused(
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
        main(["fit", "IndependentTasks", *arguments, "--set", "likelihood=logistic", "--out", str(fit), *FEW])
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
    assert main([str(a) for a in [*arguments, "--set", "likelihood=poisson", "--out", fit, *FEW]]) == 0
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
    assert {"coefficient_surface.png", "accuracy.csv"} <= names_in(tmp_path / "report")
    assert_refused(
        capsys, tmp_path, [*command[:-1], "height", "--out", tmp_path / "b.nc"], "--t names 'height'"
    )


def test_tables_fit_80_columns(fitted, tables, capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "80")
    assert main(["predict", str(fitted), "--data", str(tables / "new.csv")]) == 0
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 80


def test_labels_are_predicted_with_their_probability(tables, tmp_path, capsys):
    out = tmp_path / "fit.nc"
    command = ["fit", "IndependentTasks", "--data", tables / "labels.csv", "--y", "label", "--task", "ward"]
    assert main([str(a) for a in [*command, "--set", "likelihood=logistic", "--out", out, *FEW]]) == 0
    capsys.readouterr()
    assert main(["predict", str(out), "--data", str(tables / "new.csv")]) == 0
    said = capsys.readouterr().out
    for column in ("probability", "lower", "upper"):
        assert column in said
