"""The report of a fit: what the page says, and that it is safe to hand on."""

import base64
import re
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pandas as pd
import pytest

mpl.use("Agg")

import zoo
from zoo.cli import main
from zoo.report import write_csv

_HOSTILE = ["<script>alert(1)</script>", 'a" onload="x', "$\\frac$", "A & B", "<img src=http://a.b/c>"]


class _Page(HTMLParser):
    """Tags and visible text of a page."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.text, self.skipped = [], [], False
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        self.skipped = tag == "style"

    def handle_endtag(self, tag):
        self.skipped = False

    def handle_data(self, data):
        if not self.skipped:
            self.text.append(data)

    @property
    def words(self):
        return " ".join(" ".join(self.text).split())


@pytest.fixture(scope="module")
def simulated():
    """Five tasks and three features, with names that are markup, mathematics, or attributes."""
    data, _ = zoo.datasets.simulate_groups(
        n_groups=5, tasks_per_group=1, n_features=3, n_per_task=30, random_seed=1
    )
    frame = data.to_frame().rename(columns={"x1": "<b>hours</b>", "x2": "$x", "x3": "a & b"})
    frame["task"] = frame["task"].astype(str).map(dict(zip(data.task_names, _HOSTILE, strict=True)))
    train, test = zoo.MultiTaskData.from_frame(frame, y="y", task="task").split(0.5, random_seed=1)
    return train.add_intercept().standardize(), test.add_intercept()


@pytest.fixture(scope="module")
def fit(simulated):
    model = zoo.MaxMargin(likelihood="gaussian")
    return model.fit(simulated[0], draws=40, tune=40, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def folder(fit, simulated, tmp_path_factory):
    out = tmp_path_factory.mktemp("report") / "out"
    names = fit.report(out, test=simulated[1])
    assert names == sorted(path.name for path in out.iterdir())
    return out


@pytest.fixture(scope="module")
def page(folder):
    return _Page((folder / "report.html").read_text(encoding="utf-8"))


class TestPage:
    def test_says_what_was_fitted_whether_it_converged_and_how_accurate_it_is(self, page, fit, folder):
        assert "MaxMargin 5 tasks, 75 rows, 4 features." in page.words
        assert "gibbs: draws from the exact posterior" in page.words
        assert "likelihood = Gaussian(); all others as by default" in page.words
        assert "has not converged" in page.words and "Did it converge? no" in page.words
        assert fit.diagnostics().index[0] in page.words
        accuracy = pd.read_csv(folder / "accuracy.csv", index_col="model")
        assert list(accuracy.index) == ["MaxMargin", "IndependentTasks", "PooledTasks"]
        assert f"{accuracy['RMSE'].idxmin()} predicts best" in page.words
        assert "fit = zoo.load('fit.nc')" in page.words

    def test_every_picture_of_the_folder_is_inside(self, page, folder):
        sources = [attrs["src"] for tag, attrs in page.tags if tag == "img"]
        inside = {base64.b64decode(source.removeprefix("data:image/png;base64,")) for source in sources}
        assert inside == {path.read_bytes() for path in folder.glob("*.png")}
        assert {"shrinkage.png", "task_map.png", "task_correlation.png"} <= {p.name for p in folder.iterdir()}

    def test_names_are_text_and_nothing_else(self, page, folder):
        tags = {tag for tag, _ in page.tags}
        assert "script" not in tags and "b" not in tags
        for name in _HOSTILE:
            assert name in page.words
        attributes = {name for _, attrs in page.tags for name in attrs}
        assert attributes <= {
            "lang",
            "charset",
            "name",
            "content",
            "http-equiv",
            "href",
            "id",
            "class",
            "alt",
            "src",
        }

    def test_asks_for_nothing(self, page, folder):
        for _, attrs in page.tags:
            assert attrs.get("src", "data:").startswith("data:")
            assert attrs.get("href", "#").startswith("#")
        (policy,) = [a["content"] for _, a in page.tags if a.get("http-equiv") == "Content-Security-Policy"]
        assert policy.startswith("default-src 'none'")
        (style,) = re.findall(r"<style>(.*?)</style>", (folder / "report.html").read_text(), re.DOTALL)
        assert "url(" not in style and "@import" not in style

    def test_is_readable_on_a_phone(self, page, folder):
        (viewport,) = [a["content"] for _, a in page.tags if a.get("name") == "viewport"]
        assert viewport == "width=device-width, initial-scale=1"
        n_tables = sum(tag == "table" for tag, _ in page.tags)
        assert n_tables == sum(attrs.get("class") == "scroll" for _, attrs in page.tags) == 5

    def test_same_seed_same_tables(self, fit, simulated, folder, tmp_path):
        fit.report(tmp_path / "again", test=simulated[1])
        for name in ("summary.csv", "diagnostics.csv", "accuracy.csv"):
            assert (tmp_path / "again" / name).read_bytes() == (folder / name).read_bytes()


class TestPrior:
    def test_a_variance_that_three_groups_do_not_tell_is_named(self, tmp_path):
        """Of three groups with much noise the spread of slopes is mostly its prior; of forty it is not."""
        texts = []
        for groups in (3, 40):
            rng = np.random.default_rng(1)
            g, t = np.repeat(np.arange(groups), 6), np.tile(np.arange(6.0), groups)
            level, slope = 15.0 + 4.0 * rng.normal(size=groups), 2.0 + 0.6 * rng.normal(size=groups)
            y = level[g] + slope[g] * t + (3.0 if groups == 3 else 0.5) * rng.normal(size=len(g))
            table = pd.DataFrame({"y": y, "t": t, "g": [f"g{i}" for i in g]})
            data = zoo.MultiTaskData.from_formula("y ~ t + (t | g)", table)
            settings = {"draws": 200, "tune": 100, "chains": 2, "random_seed": 1, "progress": False}
            out = tmp_path / str(groups)
            zoo.HierarchicalLinear().fit(data, **settings).report(out)
            texts.append(_Page((out / "report.html").read_text(encoding="utf-8")).words)
            priors = pd.read_csv(out / "priors.csv", index_col="name")
            expected = {"sd over tasks[Intercept]", "sd over tasks[t]", "correlation[Intercept, t]", "noise"}
            assert expected <= set(priors.index)
            assert (priors["prior 5%"] < priors["prior 95%"]).all()
            assert (priors.loc["sd over tasks[t]", "width"] > 0.5) == (groups == 3)
        assert "The data say little of" in texts[0] and "sd over tasks[t]" in texts[0].split("More tasks")[0]
        assert "The data say more of every parameter" in texts[1]


class TestOtherFits:
    def test_without_held_out_rows(self, fit, tmp_path):
        assert "accuracy.csv" not in fit.report(tmp_path / "out")
        assert "No held-out rows were given" in _Page((tmp_path / "out/report.html").read_text()).words

    @pytest.mark.parametrize(
        ("model", "method", "said"),
        [
            (zoo.NIWLinear(), "em", "one estimate"),
            (zoo.PooledTasks(), "exact", "does not apply"),
            (zoo.MultiTaskKernelMachine(), "exact", "chains of"),
        ],
    )
    def test_estimates_independent_draws_and_functions(self, simulated, tmp_path, model, method, said):
        options = {} if method == "em" else {"draws": 20, "chains": 2}
        fit = model.fit(simulated[0], method, random_seed=1, progress=False, **options)
        fit.report(tmp_path / "out", test=simulated[1])
        assert said in _Page((tmp_path / "out/report.html").read_text()).words

    @pytest.mark.parametrize("word", ["hinge", "logistic"])
    def test_labels(self, simulated, tmp_path, word):
        train, test = (
            zoo.MultiTaskData.from_frame(
                data.to_frame().assign(y=lambda frame: np.where(frame["y"] > frame["y"].median(), 1, -1)),
                y="y",
                task="task",
            )
            for data in simulated
        )
        fit = zoo.MaxMargin(likelihood=word).fit(
            train, draws=20, tune=20, chains=2, random_seed=1, progress=False
        )
        names = fit.report(tmp_path / "out", test=test)
        words = _Page((tmp_path / "out/report.html").read_text()).words
        assert "its log loss is" in words or "its accuracy" in words
        # Under the hinge, coefficients have another scale than under the logistic likelihood.
        assert ("shrinkage.png" in names) == (word == "logistic")

    def test_nothing_is_left_where_it_fails(self, fit, tmp_path, monkeypatch):
        def broken(*_, **__):
            raise RuntimeError("no picture")

        monkeypatch.setattr("zoo.plots.trace_rank", broken)
        with pytest.raises(RuntimeError, match="no picture"):
            fit.report(tmp_path / "out")
        assert not list(tmp_path.iterdir())

    def test_a_table_is_no_test_data(self, fit, simulated, tmp_path):
        with pytest.raises(TypeError, match="test is a DataFrame"):
            fit.report(tmp_path / "out", test=simulated[1].to_frame())


def test_the_command_takes_held_out_rows(fit, simulated, tmp_path, capsys):
    fit.save(tmp_path / "mine.nc")
    frame = simulated[1].to_frame().drop(columns="intercept").rename(columns={"y": "score"})
    frame.to_csv(tmp_path / "test.csv", index=False)
    command = ["report", str(tmp_path / "mine.nc"), "--out", str(tmp_path / "out")]
    assert main([*command, "--test", str(tmp_path / "test.csv")]) == 2
    assert "--y names 'y'" in capsys.readouterr().err
    assert main([*command, "--test", str(tmp_path / "test.csv"), "--y", "score"]) == 0
    words = _Page((tmp_path / "out/report.html").read_text()).words
    assert "75 held-out rows of 5 tasks" in words and "zoo.load('mine.nc')" in words


@pytest.fixture(scope="module")
def patients():
    """By a formula: an age that stands still within each patient, and effects of clinics; with held-out rows."""
    pytest.importorskip("formulae")
    rng = np.random.default_rng(4)
    patient, time = np.repeat(np.arange(8), 20), rng.normal(size=160)
    table = pd.DataFrame(
        {"patient": patient, "time": time, "clinic": np.array(list("uvw"))[rng.integers(0, 3, 160)]}
    )
    table["age"] = rng.normal(size=8)[patient]
    table["y"] = table["age"] + (1.0 + 0.3 * rng.normal(size=8)[patient]) * time + 0.3 * rng.normal(size=160)
    formula = "y ~ age + time + (1 + time | patient) + (1 | clinic)"
    return zoo.MultiTaskData.from_formula(formula, table).split(0.4, random_seed=1)


@pytest.mark.parametrize("standardize", [False, True])
def test_a_fit_by_formula_with_shared_terms_has_yardsticks(patients, tmp_path, standardize):
    train, test = patients
    assert train.shared_names == ("age", "1|clinic[u]", "1|clinic[v]", "1|clinic[w]")
    train = train.standardize() if standardize else train
    fit = zoo.NIWLinear().fit(train, draws=40, tune=40, chains=2, random_seed=1, progress=False)
    names = fit.report(tmp_path / "out", test=test)
    assert "shrinkage.png" in names
    accuracy = pd.read_csv(tmp_path / "out/accuracy.csv", index_col="model")
    assert list(accuracy.index) == ["NIWLinear", "IndependentTasks", "PooledTasks"]
    assert (accuracy["RMSE"] < 0.5).all()


def test_an_estimate_without_an_objective_has_no_picture_of_it(simulated, tmp_path):
    data = zoo.MultiTaskData.from_arrays(simulated[0].X, simulated[0].y, t=np.arange(75.0))
    fit = zoo.KernelLocalSmoothing().fit(data, random_seed=1, progress=False)
    assert fit.is_point
    names = fit.report(tmp_path / "out")
    assert "report.html" in names and "objective_trace.png" not in names and "trace_rank.png" not in names


def test_no_cell_of_a_table_is_a_formula(tmp_path):
    frame = pd.DataFrame(
        {"=a": [1.0, -2.0], "task": ["=1+1", "b"], "kind": pd.Categorical(["@x", "-1"]), "gap": [None, "+3"]},
        index=["=r", "q"],
    )
    write_csv(frame, tmp_path / "table.csv")
    lines = (tmp_path / "table.csv").read_text().splitlines()
    assert lines == [",'=a,task,kind,gap", "'=r,1,'=1+1,'@x,", "q,-2,b,-1,'+3"]
    assert frame.columns[0] == "=a"  # the table itself stays as it is
