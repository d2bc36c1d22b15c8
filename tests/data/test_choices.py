"""Rows that are alternatives of choices: how they are read, checked, divided and kept together."""

import warnings
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest

import zoo
from zoo.cli.commands import main

LOGIT = zoo.NIWLinear(likelihood="multinomial_logit")


def table(people=6, questions=5, seed=0):
    """Questions are numbered from 1 for each person, with two to four alternatives each."""
    rng, rows = np.random.default_rng(seed), []
    for person in range(people):
        for question in range(1, questions + 1):
            size = int(rng.integers(2, 5))
            X = rng.normal(size=(size, 2))
            chosen = int(np.argmax(X @ [1.0, -1.0] + rng.gumbel(size=size)))
            rows += [
                {
                    "person": f"p{person}",
                    "question": question,
                    "chosen": int(j == chosen),
                    "price": x[0],
                    "size": x[1],
                }
                for j, x in enumerate(X)
            ]
    return pd.DataFrame(rows)


def data_of(frame, **arguments):
    return zoo.MultiTaskData.from_frame(frame, y="chosen", task="person", choice="question", **arguments)


@pytest.fixture(scope="module")
def fit():
    return LOGIT.fit(data_of(table()), "gibbs", draws=100, tune=100, chains=2, random_seed=1, progress=False)


pytestmark = pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")


def test_labels_count_within_each_person():
    frame = table()
    data = data_of(frame)
    expected = frame.groupby(["person", "question"], sort=False).ngroup().to_numpy()
    np.testing.assert_array_equal(data.choice, expected)
    assert data.feature_names == ("price", "size")
    assert "30 choices" in repr(data)
    named = frame.assign(question=[f"q {q}" for q in frame["question"]])
    np.testing.assert_array_equal(data_of(named).choice, expected)
    arrays = zoo.MultiTaskData.from_arrays(
        frame[["price", "size"]], frame["chosen"] == 1, frame["person"], choice=frame["question"]
    )
    np.testing.assert_array_equal(arrays.choice, expected)
    assert arrays.choice_column == data.choice_column == "question"


def test_polars_gives_the_same():
    polars = pytest.importorskip("polars")
    frame = table()
    np.testing.assert_array_equal(data_of(polars.from_pandas(frame)).choice, data_of(frame).choice)


def test_to_frame_and_back():
    data = data_of(table())
    again = zoo.MultiTaskData.from_frame(data.to_frame(), y="y", task="task", choice="choice")
    np.testing.assert_array_equal(again.choice, data.choice)


def test_what_is_no_choice_is_refused():
    frame = table()
    first = frame.index[(frame["person"] == "p1") & (frame["question"] == 2)]
    with pytest.raises(
        ValueError, match=r"choice of row \d+ \(task 'p1'\) has . alternatives, of which 0 are chosen"
    ):
        LOGIT.validate(data_of(frame.assign(chosen=frame["chosen"].where(~frame.index.isin(first), 0))))
    with pytest.raises(ValueError, match=r"of which \d are chosen. Exactly one must be"):
        LOGIT.validate(data_of(frame.assign(chosen=frame["chosen"].where(~frame.index.isin(first), 1))))
    with pytest.raises(ValueError, match="has one alternative only"):
        LOGIT.validate(data_of(frame.drop(index=first[1:])))
    with pytest.raises(ValueError, match="labels must be -1/"):
        LOGIT.validate(data_of(frame.assign(chosen=frame["chosen"] * 3.0)))
    with pytest.raises(ValueError, match="feature 'income' is the same for all alternatives"):
        LOGIT.validate(data_of(frame.assign(income=frame["person"].str[1:].astype(float))))
    with pytest.raises(ValueError, match="feature 'intercept' is the same"):
        LOGIT.validate(data_of(frame).add_intercept())
    with pytest.raises(ValueError, match="weight differs between alternatives of one choice"):
        LOGIT.validate(data_of(frame.assign(w=1.0 + frame.index / 10), weight="w"))
    with pytest.raises(ValueError, match="do not say which rows are alternatives"):
        LOGIT.validate(zoo.MultiTaskData.from_frame(frame, y="chosen", task="person"))
    with pytest.raises(ValueError, match="which Logistic does not look at"):
        zoo.NIWLinear(likelihood="logistic").validate(data_of(frame))
    with pytest.raises(ValueError, match="choice holds 'chosen', which is the response"):
        zoo.MultiTaskData.from_frame(frame, y="chosen", task="person", choice="chosen")
    with pytest.raises(ValueError, match="choice has shape"):
        zoo.MultiTaskData.from_arrays(np.ones((3, 1)), [0, 1, 0], choice=[1, 1])
    with pytest.raises(ValueError, match="choice is missing in row 2"):
        zoo.MultiTaskData.from_arrays(np.ones((3, 1)), [0, 1, 0], choice=[1, 1, np.nan])


def test_parts_hold_whole_choices():
    data = data_of(table())
    for train, test in (data.split(0.3, random_seed=1), *data.folds(3, random_seed=2)):
        for part in (train, test):
            LOGIT.validate(part)  # raises where a choice was torn
        assert train.n_rows + test.n_rows == data.n_rows
        assert set(train.task) == set(range(6))
    picked = data.select_tasks(["p3", "p1"])
    assert len(np.unique(picked.choice)) == 10
    LOGIT.validate(picked)


def test_a_prediction_reads_the_choices_of_a_table(fit, tmp_path):
    frame = table(seed=7)
    predicted = fit.predict(frame.drop(columns="chosen"), random_seed=1)
    by_choice = frame.assign(p=predicted["probability"].to_numpy(), label=predicted["label"].to_numpy())
    groups = by_choice.groupby(["person", "question"])
    np.testing.assert_allclose(groups["p"].sum(), 1.0)
    np.testing.assert_array_equal(groups["label"].sum(), 1.0)
    best = groups["p"].idxmax()
    np.testing.assert_array_equal(by_choice.loc[best, "label"], 1.0)
    same = fit.predict(data_of(frame), random_seed=1)
    np.testing.assert_allclose(same["probability"], predicted["probability"])
    shuffled = frame.sample(frac=1.0, random_state=3)
    again = fit.predict(shuffled.drop(columns="chosen"), random_seed=1, output="pandas")
    np.testing.assert_allclose(again.loc[frame.index, "probability"], predicted["probability"])
    fit.save(tmp_path / "fit.nc")
    loaded = zoo.load(tmp_path / "fit.nc")
    np.testing.assert_array_equal(loaded.data.choice, fit.data.choice)
    assert loaded.data.choice_column == "question"
    np.testing.assert_allclose(
        loaded.predict(frame, random_seed=1)["probability"], predicted["probability"], rtol=1e-12
    )


def test_a_prediction_without_choices_is_refused(fit):
    frame = table(seed=7)
    with pytest.raises(ValueError, match="Give a table with the column 'question'"):
        fit.predict(frame[["price", "size"]], task=frame["person"])
    with pytest.raises(ValueError, match="Give a table with the column 'question'"):
        fit.predict(zoo.MultiTaskData.from_frame(frame.drop(columns="question"), y="chosen", task="person"))


def test_new_people_and_draws(fit):
    frame = table(people=2, seed=9).assign(person=lambda t: "new " + t["person"])
    predicted = fit.predict(frame, new_task=True, random_seed=1)
    sums = np.bincount(data_of(frame).choice, predicted["probability"])
    np.testing.assert_allclose(sums, 1.0)
    # Without their column two people would be one who answered each question with twice the alternatives.
    with pytest.raises(
        ValueError, match=r"comes back in row \d+ after others, and nothing says of which task"
    ):
        fit.predict(frame.drop(columns="person"), new_task=True)
    one = frame[frame["person"] == frame["person"].iloc[0]].drop(columns="person")
    assert len(fit.predict(one, new_task=True, random_seed=1)["probability"]) == len(one)
    draws = fit.predict_draws(frame, new_task=True, random_seed=1)
    chosen = draws["y"].to_numpy().reshape(200, -1)
    for c in range(10):
        np.testing.assert_array_equal(chosen[:, data_of(frame).choice == c].sum(axis=1), 1.0)


def test_scores_and_leave_one_out_are_of_choices(fit):
    test = data_of(table(seed=11))
    scores = zoo.diagnostics.compare({"logit": fit}, test, random_seed=1)
    assert list(scores.columns) == ["log loss", "hit rate %"]
    p = fit.predict(test, random_seed=1)["probability"].to_numpy()
    assert scores.loc["logit", "log loss"] == pytest.approx(-np.log(p[test.y > 0]).mean())
    tree = fit.compute_log_likelihood()
    assert tree["log_likelihood"]["y"].shape == (2, 100, 30)
    assert float(tree["log_likelihood"]["y"].max()) < 0.0
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # of few draws
        assert np.isfinite(zoo.diagnostics.loo(fit).elpd)
    with pytest.raises(ValueError, match="choices without a chosen alternative"):
        zoo.diagnostics.compare({"logit": fit}, replace(test, y=np.zeros(test.n_rows)))


def test_fields_are_selected_by_choices():
    found = zoo.select(
        LOGIT,
        data_of(table()),
        {"delta": [3.0, 6.0]},
        cv=2,
        method="gibbs",
        random_seed=1,
        progress=False,
        draws=50,
        tune=50,
        n_jobs=1,
    )
    assert found.score_name == "log loss"
    # An even guess among two to four alternatives has about 1.1.
    assert found.scores["mean"].between(0.2, 1.2).all()


def test_other_engines_refuse_choices():
    data = data_of(table())
    for model in (zoo.MultiTaskKernelMachine, zoo.VaryingCoefficientGP):
        with pytest.raises(ValueError, match="knows no choices"):
            model(likelihood="multinomial_logit").fit(data, "laplace")
    shared = replace(data, shared_names=("size",))
    assert LOGIT.choose_method(None, shared) == "nuts"
    assert LOGIT.choose_method(None, data) == "nuts"  # few people
    assert LOGIT.choose_method(None, data_of(table(people=12))) == "gibbs"
    with pytest.raises(ValueError, match="method 'gibbs' of choices knows no shared coefficients"):
        LOGIT.fit(shared, "gibbs")
    with pytest.raises(ValueError, match="group_moves is given"):
        LOGIT.fit(data, "gibbs", group_moves=True)


def test_simulated_choices_are_choices():
    data, _ = LOGIT.simulate(data_of(table()), random_seed=1)
    LOGIT.validate(data)


def test_brands_are_coded_alike(fit):
    """A column of text becomes features, and test rows get them and their choices by `like`."""
    frame = table().assign(brand=lambda t: np.array(["A", "B", "C"])[np.arange(len(t)) % 3])
    data = data_of(frame)
    assert data.feature_names == ("price", "size", "brand[B]", "brand[C]")
    other = data.like(frame.sample(frac=1.0, random_state=1))
    assert len(np.unique(other.choice)) == 30
    LOGIT.validate(other)
    branded = LOGIT.fit(data, "gibbs", draws=20, tune=20, chains=1, random_seed=1, progress=False)
    assert np.isfinite(zoo.diagnostics.compare({"": branded}, other).to_numpy()).all()


def test_in_a_shell(tmp_path, capsys):
    """`zoo fit --choice` adds no intercept; `zoo predict` and the report read the column of the fit."""
    train, test = tmp_path / "train.csv", tmp_path / "test.csv"
    table().to_csv(train, index=False)
    table(seed=4).to_csv(test, index=False)
    asked = [
        "--y",
        "chosen",
        "--task",
        "person",
        "--set",
        "likelihood=multinomial_logit",
        "--chains",
        "1",
        "--method",
        "gibbs",
    ]
    asked += ["--draws", "20", "--tune", "20", "--out", str(tmp_path / "fit.nc"), "--data", str(train)]
    assert main(["fit", "NIWLinear", *asked]) == 2  # without --choice the column of questions is a feature
    assert "Name the column that numbers the choices" in capsys.readouterr().err
    assert main(["fit", "NIWLinear", *asked, "--choice", "question"]) == 0
    saved = str(tmp_path / "fit.nc")
    assert zoo.load(saved).data.feature_names == ("price", "size")
    assert main(["predict", saved, "--data", str(test), "--out", str(tmp_path / "p.csv")]) == 0
    found = pd.read_csv(tmp_path / "p.csv")
    assert found["probability"].sum() == pytest.approx(30.0)
    assert main(["report", saved, "--test", str(test), "--out", str(tmp_path / "report")]) == 0
    assert "hit rate" in (tmp_path / "report" / "report.html").read_text()
    assert main(["fit", "NIWLinear", "--data", str(train), "--out", saved, "--overwrite", "--formula",
                 "chosen ~ price + (price | person)", "--choice", "question"]) == 2  # fmt: skip
    assert "formulas know no choices" in capsys.readouterr().err


def test_a_gap_leaves_out_the_whole_choice():
    """A choice without one of its alternatives would be another one."""
    frame = table()
    torn = (frame["person"] == "p2") & (frame["question"] == 3)
    frame.loc[frame.index[torn & (frame["chosen"] == 0)][0], "price"] = np.nan
    frame = frame.sample(frac=1.0, random_state=1)
    whole = frame[~((frame["person"] == "p2") & (frame["question"] == 3))]
    with pytest.warns(
        UserWarning, match=r"1 of \d+ rows have a gap .* with all alternatives of their choices"
    ):
        data = data_of(frame, missing="drop")
    np.testing.assert_array_equal(data.X, whole[["price", "size"]])
    LOGIT.validate(data)
    with pytest.warns(UserWarning, match="with all alternatives of their choices"):
        arrays = zoo.MultiTaskData.from_arrays(
            frame[["price", "size"]],
            frame["chosen"],
            frame["person"],
            choice=frame["question"],
            missing="drop",
        )
    np.testing.assert_array_equal(arrays.choice, data.choice)
    with pytest.raises(ValueError, match="every choice has a gap"):
        data_of(frame[torn.loc[frame.index]], missing="drop")


def test_estimators_of_scikit_learn_refuse_choices():
    pytest.importorskip("sklearn")
    from zoo.sklearn import MultiTaskClassifier

    frame = table()
    with pytest.raises(ValueError, match="cannot say which rows are alternatives of one choice"):
        MultiTaskClassifier(LOGIT, task="person").fit(frame.drop(columns="chosen"), frame["chosen"])


def test_loading_by_a_factory_instead_of_its_class_is_refused(fit, tmp_path):
    fit.save(tmp_path / "fit.nc")
    with pytest.raises(TypeError, match=r"factory is a NIWLinear with its fields. Give the class itself"):
        zoo.load(tmp_path / "fit.nc", factory=LOGIT)


def test_characteristics_of_people_come_in_by_their_products(tmp_path):
    """Alone they are the same for all alternatives; their products get coefficients that all people share."""
    frame = table().assign(age=lambda t: t["person"].str[1:].astype(float))
    data = data_of(frame, task_features=["age"])
    assert data.feature_names == ("price", "size", "age:price", "age:size")
    assert data.shared_names == ("age:price", "age:size")
    np.testing.assert_array_equal(data.X[:, 2], frame["age"] * frame["price"])
    few = {"draws": 10, "tune": 20, "chains": 1, "nuts": {"nuts_sampler": "pymc", "max_treedepth": 3}}
    fitted = LOGIT.fit(data, random_seed=1, progress=False, **few)
    assert fitted.method == "nuts"
    new = frame.assign(person="new " + frame["person"])
    predicted = fitted.predict(new, new_task=True, random_seed=1)
    np.testing.assert_allclose(np.bincount(data.choice, predicted["probability"]), 1.0)
    fitted.save(tmp_path / "fit.nc")
    again = zoo.load(tmp_path / "fit.nc").predict(new, new_task=True, random_seed=1)
    np.testing.assert_allclose(again["probability"], predicted["probability"])
