"""select: scores of cross-validation, against the same fits made by hand."""

from __future__ import annotations

import os
import threading
import warnings
from dataclasses import dataclass

import joblib
import numpy as np
import pandas as pd
import pymc as pm
import pytest

import zoo
from zoo import IndependentTasks, MaxMargin, MultiTaskData, PooledTasks
from zoo.diagnostics import compare, f1_scores
from zoo.likelihoods import Hinge
from zoo.selection_arguments import LABEL_SCORES, REAL_SCORES

SEED = 11
FEW = dict(draws=20, tune=10, random_seed=SEED, n_jobs=1, progress=False)


def _features(n=72, n_tasks=3):
    rng = np.random.default_rng(5)
    return rng, rng.standard_normal((n, 2)), np.repeat(np.arange(n_tasks), n // n_tasks)


@pytest.fixture(scope="module")
def real() -> MultiTaskData:
    rng, X, task = _features()
    slopes = np.array([[3.0, 0.0], [2.0, 1.0], [2.5, -1.0]])
    y = 40.0 + 10.0 * ((X * slopes[task]).sum(axis=1) + 0.3 * rng.standard_normal(len(X)))
    return MultiTaskData.from_arrays(X, y, task)


@pytest.fixture(scope="module")
def labels() -> MultiTaskData:
    rng, X, task = _features()
    return MultiTaskData.from_arrays(X, X[:, 0] + 0.5 * rng.standard_normal(len(X)) > 0, task)


def _variables(point, data):
    model = point.build(data)
    return [v.name for v in model.free_RVs + model.deterministics if not v.name.startswith("_")]


def _fits_by_hand(points, folds, method, seed=SEED):
    """``fits[fold][point]`` with held-out data and the seed of its predictions, from the documented seeds."""
    table = []
    for (train, test), child in zip(folds, np.random.SeedSequence(seed).spawn(len(folds)), strict=True):
        fit_seed, predict_seed = child.generate_state(2).tolist()
        row, fit = [], None
        for point in points:
            engine = point.method_named(method).options
            alike = fit is not None and set(fit.posterior) == set(_variables(point, train))
            start = {"start": fit} if alike and "start" in engine else {}
            fit = point.fit(
                train, method, draws=20, tune=10, chains=1, random_seed=fit_seed, progress=False, **start
            )
            row.append((fit, test, predict_seed))
        table.append(row)
    return table


def _fold_columns(selection):
    return selection.scores[[c for c in selection.scores if c.startswith("fold ")]].to_numpy()


# ---------------------------------------------------------------- scores


def test_scores_are_those_made_by_hand(labels):
    grid = {"likelihood.C": [0.05, 2.0], "likelihood.margin": [0.5, 1]}
    found = zoo.select(MaxMargin(feature_cov="identity"), labels, grid, cv=3, **FEW)
    points = [
        MaxMargin(feature_cov="identity", likelihood=Hinge(C=c, margin=m))
        for c in (0.05, 2.0)
        for m in (0.5, 1)
    ]
    fits = _fits_by_hand(points, labels.folds(3, SEED), "gibbs")
    expected = np.array(
        [
            [
                100 * f1_scores(t.y, fit.predict(t, random_seed=s)["label"], t.task).micro_f1
                for fit, t, s in row
            ]
            for row in fits
        ]
    ).T
    assert found.score_name == "micro F1 %"
    assert list(found.scores.columns) == [
        "likelihood.C",
        "likelihood.margin",
        "mean",
        "sd",
        "se",
        "fold 0",
        "fold 1",
        "fold 2",
    ]
    assert found.scores["likelihood.C"].tolist() == [0.05, 0.05, 2.0, 2.0]
    assert found.scores["likelihood.margin"].tolist() == [0.5, 1, 0.5, 1]
    np.testing.assert_array_equal(_fold_columns(found), expected)
    np.testing.assert_allclose(found.scores["mean"], expected.mean(axis=1))
    np.testing.assert_allclose(found.scores["sd"], expected.std(axis=1, ddof=1))
    np.testing.assert_allclose(found.scores["se"], expected.std(axis=1, ddof=1) / np.sqrt(3))
    assert found.best_row == expected.mean(axis=1).argmax()
    assert found.best == points[found.best_row]
    assert np.ptp(expected.mean(axis=1)) > 0


def test_details_are_the_columns_of_compare(labels):
    found = zoo.select(
        IndependentTasks(likelihood="logistic"), labels, {"prior_scale": [0.1, 5.0]}, cv=2, **FEW
    )
    points = [IndependentTasks(likelihood="logistic", prior_scale=s) for s in (0.1, 5.0)]
    fits = _fits_by_hand(points, labels.folds(2, SEED), "laplace")
    for p in range(2):
        rows = [compare({"fit": fit}, test, random_seed=seed) for fit, test, seed in (row[p] for row in fits)]
        expected = pd.concat(rows).mean()
        assert set(LABEL_SCORES) == set(expected.index)
        assert list(found.details.columns) == ["prior_scale", *expected.index]
        np.testing.assert_allclose(found.details.loc[p, expected.index].astype(float), expected)


def test_lower_rmse_is_better_and_scores_are_on_the_users_scale(real):
    """Also where the user standardized: folds are of those data, errors in the user's units."""
    data = real.standardize()
    grid = {"prior_scale": [1e-4, 1.0]}  # the first holds all coefficients at 0
    found = zoo.select(PooledTasks(), data, grid, cv=3, score="RMSE", **FEW)
    points = [PooledTasks(prior_scale=s) for s in (1e-4, 1.0)]
    fits = _fits_by_hand(points, data.folds(3, SEED), "exact")
    expected = np.array(
        [
            [np.sqrt(np.mean((t.original_y() - fit.predict(t)["mean"]) ** 2)) for fit, t, _ in row]
            for row in fits
        ]
    ).T
    np.testing.assert_allclose(_fold_columns(found), expected)
    assert expected[0].mean() > 20 > expected[1].mean()
    assert found.best == points[1]
    assert found.best_row == 1
    assert set(REAL_SCORES) < set(found.details.columns)
    covers = [
        compare({"fit": fit}, t, random_seed=s)["90% interval covers %"].item() for _, (fit, t, s) in fits
    ]
    assert found.details.loc[1, "90% interval covers %"] == pytest.approx(np.mean(covers))
    explained = zoo.select(PooledTasks(), data, grid, cv=3, **FEW)
    assert explained.score_name == "explained variance %"
    assert explained.best == points[1]
    np.testing.assert_allclose(explained.details["RMSE"], found.scores["mean"])


def negative_error(test, predicted):
    return -float(np.abs(test.original_y() - predicted["mean"]).mean())


def test_a_function_scores(real):
    grid = {"prior_scale": [1e-4, 1.0]}
    found = zoo.select(PooledTasks(), real, grid, cv=2, score=negative_error, **FEW)
    named = zoo.select(PooledTasks(), real, grid, cv=2, score="MAE", **FEW)
    assert found.score_name == "negative_error"
    assert found.details is None
    np.testing.assert_allclose(_fold_columns(found), -_fold_columns(named))
    assert found.best == named.best

    # A function is better when higher, whatever its name.
    def RMSE(test, predicted):
        return negative_error(test, predicted)

    assert zoo.select(PooledTasks(), real, grid, cv=2, score=RMSE, **FEW).best == named.best


def test_ties_and_missing_scores(real):
    grid = {"prior_scale": [3.0, 1.0, 2.0]}
    tied = zoo.select(PooledTasks(), real, grid, cv=2, score=lambda test, predicted: 1.0, **FEW)
    assert tied.best_row == 0
    assert tied.score_name == "<lambda>"
    calls = iter([np.nan, 1.0, 2.0, 5.0, 1.0, 0.5])
    partly = zoo.select(PooledTasks(), real, grid, cv=2, score=lambda test, predicted: next(calls), **FEW)
    assert partly.scores["mean"].isna().tolist() == [True, False, False]
    assert partly.best.prior_scale == 2.0
    with pytest.raises(ValueError, match="score 'nothing' is NaN at every grid point"):

        def nothing(test, predicted):
            return np.nan

        zoo.select(PooledTasks(), real, grid, cv=2, score=nothing, **FEW)


# ---------------------------------------------------------------- folds and grids


def test_folds_of_multilabel_data():
    rng = np.random.default_rng(2)
    inputs = rng.standard_normal((40, 2))
    Y = (inputs @ [[2.0, 1.0, 0.0], [0.0, 1.0, 2.0]] + 0.3 * rng.standard_normal((40, 3)) > 0).astype(float)
    data = MultiTaskData.from_multilabel(inputs, Y)
    seen = []

    def accuracy(test, predicted):
        seen.append(test)
        return float(np.mean(test.y == predicted["label"]))

    factory = IndependentTasks(likelihood="logistic")
    found = zoo.select(factory, data, {"prior_scale": [1.0]}, cv=4, score=accuracy, **FEW)
    folds = data.folds(4, SEED)
    fits = _fits_by_hand([factory], folds, "laplace")
    expected = [np.mean(t.y == fit.predict(t, random_seed=s)["label"]) for [(fit, t, s)] in fits]
    np.testing.assert_array_equal(_fold_columns(found)[0], expected)
    assert [test.n_rows for test in seen] == [30, 30, 30, 30]
    assert np.mean(expected) > 0.7


def test_folds_and_grid_points_can_be_given(real):
    folds = [real.split(0.3, random_seed=1)]
    grid = [{"prior_scale": np.float64(2.0)}, {}, {"prior_scale": 3}]
    found = zoo.select(PooledTasks(), real, grid, cv=folds, **FEW)
    [row] = _fits_by_hand([PooledTasks(prior_scale=s) for s in (2.0, 1.0, 3)], folds, "exact")
    expected = [compare({"f": fit}, t, random_seed=s)["explained variance %"].item() for fit, t, s in row]
    np.testing.assert_array_equal(_fold_columns(found)[:, 0], expected)
    assert found.scores["prior_scale"].tolist() == [2.0, 1.0, 3]
    assert found.scores["sd"].isna().all()  # one fold has no spread
    assert type(zoo.select(PooledTasks(), real, grid[:1], cv=folds, **FEW).best.prior_scale) is float


def test_selection_prints_short(real):
    found = zoo.select(PooledTasks(), real, {"prior_scale": [1.0, 2.0]}, cv=2, **FEW)
    assert repr(found).startswith("Selection(best=PooledTasks(likelihood=Gaussian(), prior_scale=")
    assert "explained variance % " in repr(found)
    assert repr(found).endswith("2 grid points, 2 folds)")
    assert "\n" not in repr(found)
    alone = zoo.select(PooledTasks(), real, [{}], cv=2, **FEW)
    assert list(alone.scores.columns) == ["mean", "sd", "se", "fold 0", "fold 1"]
    assert alone.best == PooledTasks()
    assert f"{alone.scores['mean'].item():.4g}, 1 grid point" in repr(alone)


# ---------------------------------------------------------------- one fit after another

STARTS: list[tuple] = []


@dataclass(frozen=True, kw_only=True)
class Started(PooledTasks):
    """Its method can start from a fit."""

    curved: bool = False

    def priors(self, data):
        found = super().priors(data)
        if self.curved:
            pm.HalfNormal("curvature")
        return found

    def _fit_exact(self, data, y, run, start=None):
        before = None if start is None else (start.factory.prior_scale, start.data.y is data.y)
        STARTS.append((self.prior_scale, before, run.random_seed))
        return super()._fit_exact(data, y, run)


def test_grid_points_start_from_the_one_before_and_share_random_numbers(real):
    STARTS.clear()
    zoo.select(Started(), real, {"prior_scale": [1.0, 2.0, 3.0]}, cv=2, **FEW)
    seeds = [int(c.generate_state(2)[0]) for c in np.random.SeedSequence(SEED).spawn(2)]
    assert seeds[0] != seeds[1]
    assert STARTS == [
        (scale, before, seed)
        for seed in seeds
        for scale, before in ((1.0, None), (2.0, (1.0, True)), (3.0, (2.0, True)))
    ]
    # The fit of another model is no start: what it learned may be fixed here.
    STARTS.clear()
    mixed = [{"prior_scale": 1.0}, {"prior_scale": 2.0, "curved": True}, {"prior_scale": 3.0, "curved": True}]
    zoo.select(Started(), real, mixed, cv=2, **FEW)
    assert [before for _, before, _ in STARTS] == [None, None, (2.0, True)] * 2
    with pytest.raises(ValueError, match="options of method 'exact'"):
        zoo.select(Started(), real, {"prior_scale": [1.0]}, cv=2, start=None, **FEW)


# ---------------------------------------------------------------- processes


@dataclass(frozen=True, kw_only=True)
class Fussy(PooledTasks):
    """Warns at every fit, and fails at one value."""

    def _fit_exact(self, data, y, run):
        for _ in range(3):
            warnings.warn(f"scale {self.prior_scale:g} is odd", RuntimeWarning, stacklevel=2)
        if self.prior_scale == 3.0:
            raise ValueError("cannot do this")
        return super()._fit_exact(data, y, run)


def test_processes_give_the_same_numbers_and_pass_on_warnings_and_errors(real, labels):
    grid = {"likelihood.C": [0.1, 1.0]}
    once = zoo.select(MaxMargin(), labels, grid, cv=3, **FEW)
    twice = zoo.select(MaxMargin(), labels, grid, cv=3, **{**FEW, "n_jobs": 2})
    pd.testing.assert_frame_equal(once.scores, twice.scores)
    pd.testing.assert_frame_equal(once.details, twice.details)
    assert once.best == twice.best
    with pytest.warns(RuntimeWarning) as caught:
        zoo.select(Fussy(), real, {"prior_scale": [1.0, 2.0]}, cv=2, **{**FEW, "n_jobs": 2})
    assert sorted(str(w.message) for w in caught) == ["scale 1 is odd", "scale 2 is odd"]
    with pytest.raises(ValueError, match="cannot do this") as error:
        zoo.select(Fussy(), real, {"prior_scale": [1.0, 3.0]}, cv=2, **{**FEW, "n_jobs": 2})
    notes = "; ".join(error.value.__notes__)
    assert "fold 0, grid point prior_scale=3.0" in notes or "fold 1, grid point prior_scale=3.0" in notes
    assert "after the warning: scale 3 is odd" in notes


def test_an_enclosing_parallel_config_is_respected(real):
    threads, processes = set(), set()

    def where(test, predicted):
        threads.add(threading.get_ident())
        processes.add(os.getpid())
        return -float(predicted["mean"].std())

    settings = {**FEW, "n_jobs": None}
    once = zoo.select(PooledTasks(), real, {"prior_scale": [1.0, 2.0]}, cv=3, score=where, **FEW)
    assert threads == {threading.get_ident()}
    threads.clear()
    with joblib.parallel_config(n_jobs=1):
        zoo.select(PooledTasks(), real, {"prior_scale": [1.0]}, cv=3, score=where, **settings)
    assert threads == {threading.get_ident()}
    threads.clear()
    with joblib.parallel_config(backend="threading", n_jobs=2):
        again = zoo.select(PooledTasks(), real, {"prior_scale": [1.0, 2.0]}, cv=3, score=where, **settings)
    assert threading.get_ident() not in threads
    assert processes == {os.getpid()}
    pd.testing.assert_frame_equal(once.scores, again.scores)


def test_the_bar_counts_fits_and_can_be_left_out(real, capsys):
    grid = {"prior_scale": [1.0, 2.0]}
    with pytest.warns(RuntimeWarning, match="odd"):
        zoo.select(Fussy(), real, grid, cv=2, **FEW)
    assert capsys.readouterr() == ("", "")
    zoo.select(PooledTasks(), real, grid, cv=3, **{**FEW, "progress": True})
    assert "6/6 fits" in capsys.readouterr().out


def test_errors_name_fold_and_grid_point(real):
    with pytest.warns(RuntimeWarning), pytest.raises(ValueError, match="cannot do this") as error:
        zoo.select(Fussy(), real, {"prior_scale": [1.0, 3.0]}, cv=2, **FEW)
    assert error.value.__notes__ == ["in zoo.select, fold 0, grid point prior_scale=3.0"]

    def fails(test, predicted):
        raise KeyError("mean")

    with pytest.raises(KeyError) as error:
        zoo.select(PooledTasks(), real, [{}], cv=2, score=fails, **FEW)
    assert error.value.__notes__ == ["in zoo.select, fold 0, grid point without changes"]


@dataclass(frozen=True, kw_only=True)
class Interrupted(PooledTasks):
    """Returns what it has, as the samplers do on Ctrl-C."""

    def _fit_exact(self, data, y, run):
        return super()._fit_exact(data, y, run._replace(draws=run.draws - 1))


def test_an_interrupted_fit_is_not_scored(real):
    with (
        pytest.warns(UserWarning, match="interrupted: 19 of 20 draws"),
        pytest.raises(KeyboardInterrupt, match="fold 0 was interrupted at grid point prior_scale"),
    ):
        zoo.select(Interrupted(), real, {"prior_scale": [1.0]}, cv=2, **FEW)


# ---------------------------------------------------------------- what is refused

BAD = [
    (dict(grid={"C": [1.0]}), "'C' is unknown. Choose from 'likelihood', 'own_priors', 'prior_scale'"),
    (
        dict(grid=[{"prior_scale": 1.0}, {"C": 1.0}]),
        "'C' is unknown. Choose from 'likelihood', 'own_priors', 'prior_scale'",
    ),
    (dict(grid={"prior_scale": [1.0, -1.0]}), "prior_scale is -1.0"),
    (dict(grid={}), "grid is empty"),
    (dict(grid=[]), "grid is empty"),
    (dict(grid={"prior_scale": []}), "no value for the field 'prior_scale'"),
    (dict(grid={"likelihood": "gaussian"}), "holds 'gaussian' for the field 'likelihood'. Give a list"),
    (dict(grid={"prior_scale": 1.0}), "holds 1.0 for the field 'prior_scale'. Give a list"),
    (dict(grid=["prior_scale"]), "holds 'prior_scale' at position 0"),
    (dict(grid=3), "grid is 3"),
    (dict(grid={"likelihood": ["gaussian", "logistic"]}), "grid mixes models"),
    (
        dict(score="accuracy %"),
        "score: 'accuracy %' is unknown. Choose from 'explained variance %', 'per task %'",
    ),
    (dict(score="90% interval covers %"), "score: '90% interval covers %' is unknown"),
    (dict(cv=1), "cv is 1. Give a whole number of 2 or more"),
    (dict(cv=2.5), "cv is 2.5"),
    (dict(cv="3"), "cv is '3'"),
    (dict(cv=[]), "cv is empty"),
    (dict(cv=[(1, 2)]), "cv holds no pair of MultiTaskData at position 0"),
    (dict(cv=100), "only 72 rows can be held out"),
    (dict(method="gibbs"), "method 'gibbs' is unknown to PooledTasks"),
    (dict(thin=2), "options of method 'exact': 'thin' is unknown"),
    (dict(draws=0), "draws is 0"),
    (dict(tune=-1), "tune is -1"),
    (dict(chains=1.5), "chains is 1.5"),
]


@pytest.mark.parametrize(("changed", "message"), BAD, ids=[m for _, m in BAD])
def test_misuse_is_explained_before_anything_runs(changed, message, real):
    arguments = {"grid": {"prior_scale": [1.0]}, "cv": 2, "score": None, **FEW, **changed}
    # The fits of the module's Fussy would warn, and warnings are errors here.
    with pytest.raises(ValueError) as error:
        zoo.select(PooledTasks() if "method" in changed else Fussy(), real, **arguments)
    assert message in str(error.value)
    assert not hasattr(error.value, "__notes__")


def test_wrong_kinds_are_named(real):
    with pytest.raises(TypeError, match="Give a model with its fields"):
        zoo.select(PooledTasks, real, {"prior_scale": [1.0]}, **FEW)
    with pytest.raises(TypeError, match="data is a DataFrame"):
        zoo.select(PooledTasks(), real.to_frame(), {"prior_scale": [1.0]}, **FEW)
    with pytest.raises(ValueError, match="labels must be -1/"):
        zoo.select(MaxMargin(), real, {"likelihood.C": [1.0]}, **FEW)
