"""Grades from the table of a user to predictions: columns, errors, cut points, scores, files, subclasses."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pymc as pm
import pytensor.tensor as pt
import pytest
from scipy.optimize import minimize
from scipy.special import ndtr

import zoo
from zoo.diagnostics.grade_scores import cutpoints
from zoo.likelihoods import Gamma, LogNormal

NAMES = ("awful", "bad", "fair", "good", "great")
CUTS = np.array([0.0, 0.6, 1.2, 2.0])
SHORT = {"draws": 30, "tune": 30, "chains": 2, "random_seed": 1, "progress": False}
pytestmark = pytest.mark.filterwarnings("ignore::zoo.ConvergenceWarning")


def table(n_tasks=4, n=40, seed=0):
    rng = np.random.default_rng(seed)
    task, x = np.repeat(np.arange(n_tasks), n), rng.standard_normal(n_tasks * n)
    level, slope = 0.8 + 0.4 * rng.standard_normal(n_tasks), 0.7 + 0.3 * rng.standard_normal(n_tasks)
    z = level[task] + slope[task] * x + rng.standard_normal(len(x))
    return pd.DataFrame({"judge": task, "x": x, "rating": 1 + np.sum(z > CUTS[:, None], axis=0)})


@pytest.fixture(scope="module")
def ratings():
    return table()


def named(df):
    return df.assign(rating=pd.Categorical.from_codes(df["rating"] - 1, NAMES, ordered=True))


def data_of(df, **arguments):
    return zoo.MultiTaskData.from_frame(df, y="rating", task="judge", **arguments).add_intercept()


# ---------------------------------------------------------------- the description


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"grades": 1}, "grades is 1. Give how many there are, 2 or more"),
        ({"grades": True}, "grades is True"),
        ({"grades": 2.5}, "grades is 2.5"),
        ({"grades": "five"}, "grades is 'five'"),
        ({"grades": ("bad", "good")}, "Names of grades belong to the data"),
        ({"grades": (3, 2, 1)}, "in increasing order"),
        ({"grades": (1.0, np.nan)}, "grades is"),
        ({"width": "wide"}, "width: 'wide' is unknown. Choose from 'learned'"),
        ({"width": 0.0}, "width is 0.0. Give a finite number above 0"),
        ({"width": (1.0, 2.0)}, "width has 2 numbers, and 5 grades have 3 between"),
        ({"width": (1.0, -1.0, 1.0)}, r"width\[1\] is -1.0"),
        (
            {"width": {"width_2": 1.0}},
            "width has the names width_2. Give one value for each of width_2, width_3",
        ),
        ({"width": pd.Series([1.0, 2.0, 3.0], list("abc"))}, "width has the names a, b, c"),
        ({"width": pm.Normal.dist()}, r"width_2 of Ordinal has the prior Normal\(0, 1\)"),
        ({"per_task": ("noise",)}, "per_task names 'noise', which is no learned parameter of Ordinal"),
        ({"per_task": "width", "width": 1.0}, "It learns none"),
        ({"per_task": "width", "grades": 2}, "It learns none"),
    ],
)
def test_wrong_descriptions_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        zoo.Ordinal(**arguments)


def test_names_of_widths_follow_the_number_of_grades():
    likelihood = zoo.Ordinal(grades=5, per_task="width")
    assert likelihood.learned == likelihood.per_task == ("width_2", "width_3", "width_4")
    assert replace(likelihood, grades=4).per_task == ("width_2", "width_3")
    assert zoo.Ordinal(width=(1.0, 2.0, 3.0)).fixed == {"width_2": 1.0, "width_3": 2.0, "width_4": 3.0}
    widths = {"width_4": 3.0, "width_2": 1.0, "width_3": 2.0}
    assert (
        zoo.Ordinal(width=widths)
        == zoo.Ordinal(width=pd.Series(widths))
        == zoo.Ordinal(width=(1.0, 2.0, 3.0))
    )
    model = zoo.NIWLinear(likelihood=zoo.Ordinal(grades=4, width=Gamma(2.0, 1.0)))
    assert type(model).from_spec(model.to_spec()) == model
    assert model.law_of("width_3") == Gamma(2.0, 1.0)


# ---------------------------------------------------------------- columns


def test_ordered_categories_become_grades(ratings):
    frame = named(ratings)
    for given in (
        frame,
        pl.from_pandas(ratings).with_columns(
            pl.Series("rating", list(frame["rating"]), dtype=pl.Enum(list(NAMES)))
        ),
        pa.table(
            {
                **{name: ratings[name] for name in ("judge", "x")},
                "rating": pa.DictionaryArray.from_arrays(
                    np.asarray(ratings["rating"] - 1, dtype=np.int32), list(NAMES), ordered=True
                ),
            }
        ),
    ):
        data = data_of(given)
        assert data.grades == NAMES
        np.testing.assert_array_equal(data.y, ratings["rating"])
    assert data.take(range(3)).grades == NAMES
    assert data.standardize().transform.y_scale == 1.0
    by_formula = zoo.MultiTaskData.from_formula("rating ~ 1 + x + (1 + x | judge)", frame)
    assert by_formula.grades == NAMES and by_formula.like(frame).grades == NAMES
    arrays = zoo.MultiTaskData.from_arrays(ratings[["x"]].to_numpy(), frame["rating"].array)
    assert arrays.grades == NAMES


def test_categories_of_numbers_stay_numbers(ratings):
    ordered = pd.Categorical(ratings["rating"], categories=[1, 2, 3, 4, 5, 6], ordered=True)
    data = data_of(ratings.assign(rating=ordered))
    assert data.grades == ()
    np.testing.assert_array_equal(data.y, ratings["rating"])
    backwards = pd.Categorical(ratings["rating"], categories=[5, 4, 3, 2, 1], ordered=True)
    with pytest.raises(
        ValueError, match="ordered categories 5, 4, 3, 2, 1, which are numbers in another order"
    ):
        data_of(ratings.assign(rating=backwards))


def test_columns_without_an_order_are_refused(ratings):
    frame = named(ratings)
    with pytest.raises(
        ValueError,
        match=r"y column 'rating' has the categories awful, .* without an order. If they are grades",
    ):
        data_of(frame.assign(rating=frame["rating"].cat.as_unordered()))
    with pytest.raises(ValueError, match=r"not numbers, such as '(awful|bad|fair|good|great)', and no order"):
        data_of(frame.assign(rating=frame["rating"].astype(str)))
    with pytest.raises(ValueError, match="y holds values that are not numbers, such as 'bad'"):
        zoo.MultiTaskData.from_arrays(np.ones((2, 1)), ["bad", "good"])
    gap = frame["rating"].copy()
    gap.iloc[7] = np.nan
    with pytest.raises(ValueError, match="column 'rating' is missing in row 7"):
        data_of(frame.assign(rating=gap))


def test_y_is_held_against_the_grades(ratings):
    model = zoo.NIWLinear(likelihood="ordinal")
    high = ratings.assign(rating=ratings["rating"] + 1)
    row = int(np.argmax(high["rating"] == 6))
    with pytest.raises(
        ValueError, match=rf"y is 6 in row {row} \(task '\d'\), but the grades are 1, 2, 3, 4, 5"
    ):
        model.validate(data_of(high))
    with pytest.raises(ValueError, match=r"y is 1\.5 in row 0"):
        model.validate(data_of(ratings.assign(rating=1.5)))
    with pytest.raises(ValueError, match=r"y is 3 in all 160 rows\. Give data with two grades or more"):
        model.validate(data_of(ratings.assign(rating=3)))
    with pytest.raises(
        ValueError, match=r"y holds grades and must not be standardized.*standardize\(y=False\)"
    ):
        model.validate(data_of(ratings).standardize())
    with pytest.raises(ValueError, match=r"5 ordered categories awful, .*Give zoo.Ordinal\(grades=5\)"):
        zoo.NIWLinear(likelihood=zoo.Ordinal(grades=4)).validate(data_of(named(ratings)))
    with pytest.warns(
        UserWarning, match="no row has the grade 6, so that the prior alone says how wide it is"
    ):
        zoo.NIWLinear(likelihood=zoo.Ordinal(grades=6)).validate(data_of(ratings))
    without = named(ratings[ratings["rating"] != 3])
    with pytest.warns(UserWarning, match="no row has the grade fair"):
        model.validate(data_of(without))
    with pytest.warns(
        UserWarning, match="y holds the grades awful < bad .* which Gaussian takes for the numbers 1 to 5"
    ):
        zoo.NIWLinear().validate(data_of(named(ratings)))


def test_a_missing_constant_is_warned_of(ratings):
    data = zoo.MultiTaskData.from_frame(ratings, y="rating", task="judge")
    with pytest.warns(UserWarning, match=r"no feature is constant, .* data.add_intercept\(\)"):
        zoo.NIWLinear(likelihood="ordinal").fit(data, **SHORT)
    zoo.NIWLinear(likelihood="ordinal", shared=("intercept",)).fit(data.add_intercept(), **SHORT)
    zoo.NIWGaussianProcess(likelihood="ordinal").fit(data, **SHORT)


# ---------------------------------------------------------------- predictions


@pytest.fixture(scope="module")
def fit(ratings):
    return zoo.NIWLinear(likelihood="ordinal").fit(data_of(named(ratings)), **SHORT)


def test_predictions_are_what_the_draws_say(fit, ratings):
    rows = ratings[:6]
    said = fit.predict(rows, random_seed=2)
    assert said["probability"].dims == ("obs", "grade")
    assert tuple(said["grade"].to_numpy()) == NAMES
    # By hand, at each posterior draw.
    posterior = fit.posterior
    w = posterior["coefficients"].isel(task=rows["judge"].to_numpy())
    f = (w.sel(feature="x") * xr_rows(rows["x"]) + w.sel(feature="intercept")).rename(task="obs")
    cuts = cutpoints(fit)
    assert list(cuts["cutpoint"].to_numpy()) == ["awful | bad", "bad | fair", "fair | good", "good | great"]
    below = ndtr((cuts - f).transpose("chain", "draw", "obs", "cutpoint").to_numpy()).mean(axis=(0, 1))
    probability = np.diff(below, axis=1, prepend=0.0, append=1.0)
    np.testing.assert_allclose(said["probability"], probability, rtol=1e-9)
    np.testing.assert_allclose(said["mean"], probability @ np.arange(1, 6), rtol=1e-9)
    square = probability @ np.arange(1, 6) ** 2 - said["mean"] ** 2
    np.testing.assert_allclose(said["sd"], np.sqrt(square), rtol=1e-7)
    assert list(said["label"].to_numpy()) == [NAMES[k] for k in np.argmax(probability, axis=1)]
    for name, level in (("lower", 0.05), ("upper", 0.95)):
        assert list(said[name].to_numpy()) == [
            1 + int(np.argmax(row >= level)) for row in np.column_stack([below, np.ones(6)])
        ]


def xr_rows(values):
    import xarray as xr

    return xr.DataArray(values.to_numpy(), dims="task")


def test_tables_have_a_column_for_each_grade(fit, ratings):
    wanted = fit.predict(ratings[:4], random_seed=2)
    for output in ("pandas", "polars", "arrow"):
        found = fit.predict(ratings[:4], random_seed=2, output=output)
        columns = found.column_names if output == "arrow" else list(found.columns)
        assert [c for c in columns if c.startswith("probability")] == [
            f"probability_{name}" for name in NAMES
        ]
        np.testing.assert_allclose(
            np.asarray(found["probability_fair"]), wanted["probability"].sel(grade="fair")
        )
    draws = fit.predict_draws(ratings[:4], random_seed=2)
    assert set(np.unique(draws["y"])) <= {1.0, 2.0, 3.0, 4.0, 5.0}


def test_numbers_that_stand_for_grades(ratings):
    """Grades 0, 1, 2, 3, 10: the same fit as with 1 to 5, and predictions in these numbers."""
    values = np.array([0.0, 1.0, 2.0, 3.0, 10.0])
    other = ratings.assign(rating=values[ratings["rating"] - 1])
    model = zoo.NIWLinear(likelihood=zoo.Ordinal(grades=tuple(values)))
    plain = zoo.NIWLinear(likelihood="ordinal").fit(data_of(ratings), **SHORT)
    fit = model.fit(data_of(other), **SHORT)
    np.testing.assert_array_equal(fit.posterior["width_3"], plain.posterior["width_3"])
    said, before = fit.predict(ratings[:5], random_seed=1), plain.predict(ratings[:5], random_seed=1)
    np.testing.assert_array_equal(said["probability"], before["probability"])
    assert list(said["grade"].to_numpy()) == list(values)
    np.testing.assert_allclose(said["mean"], said["probability"].to_numpy() @ values)
    assert set(fit.predict(ratings, random_seed=1)["label"].to_numpy()) <= set(values)
    assert set(np.unique(fit.predict_draws(ratings[:20], random_seed=1)["y"])) <= set(values)
    simulated, truth = model.simulate(data_of(other), random_seed=3)
    assert set(np.unique(simulated.y)) <= set(values) and "width_2" in truth


def test_cut_points_of_every_task(ratings):
    model = zoo.NIWLinear(likelihood=zoo.Ordinal(per_task="width"))
    fit = model.fit(data_of(ratings), **SHORT)
    assert cutpoints(fit).dims == ("chain", "draw", "cutpoint", "task")
    assert float(fit.posterior["width_2"].std("task").min()) > 0.0
    said = fit.predict(ratings[:3], random_seed=1)
    np.testing.assert_allclose(said["probability"].sum("grade"), 1.0, rtol=1e-12)
    unseen = fit.predict(ratings[:3].assign(judge="new"), new_task=True, random_seed=1)
    assert np.isfinite(unseen["probability"]).all()
    given = zoo.NIWLinear(likelihood=zoo.Ordinal(width=(0.6, 0.6, 0.8))).fit(data_of(ratings), **SHORT)
    np.testing.assert_allclose(cutpoints(given).isel(chain=0, draw=3), CUTS)
    with pytest.raises(ValueError, match="fit has the likelihood Probit, which has no cut points"):
        binary = ratings.assign(rating=1.0 * (ratings["rating"] > 2))
        cutpoints(zoo.NIWLinear(likelihood="probit").fit(data_of(binary), **SHORT))


@pytest.mark.scheduled
def test_a_normal_function_has_a_closed_form(ratings):
    """Laplace's method: probabilities in closed form are those of many draws of f."""
    data = data_of(ratings[ratings["judge"] == 0])
    fit = zoo.MultiTaskKernelMachine(likelihood="ordinal").fit(
        data, "laplace", draws=4000, chains=1, random_seed=1, progress=False
    )
    rows = ratings[:5]
    said = fit.predict(rows, random_seed=1)["probability"].to_numpy()
    y = fit.predict_draws(rows, random_seed=1)["y"].to_numpy()[0]
    shares = np.stack([(y == k).mean(axis=0) for k in range(1, 6)], axis=1)
    # 25 shares of 4,000 draws, each beyond 5.5 standard errors once in 10^7.
    assert np.all(np.abs(shares - said) < 5.5 * np.sqrt(said * (1.0 - said) / 4000) + 1e-3)


# ---------------------------------------------------------------- files, scores, selection


def test_a_file_keeps_the_names_of_grades(fit, ratings, tmp_path):
    back = zoo.load(fit.save(tmp_path / "fit.nc"))
    assert back.data.grades == NAMES and back.factory == fit.factory
    assert back.predict(ratings[:4], random_seed=1).equals(fit.predict(ratings[:4], random_seed=1))


def test_scores_by_hand(fit, ratings):
    test = data_of(named(table(seed=1)))
    found = zoo.diagnostics.compare({"ours": fit}, test, random_seed=1).loc["ours"]
    said = fit.predict(test, random_seed=1)
    p, y = said["probability"].to_numpy(), test.y.astype(int)
    assert found["log loss"] == pytest.approx(-np.mean(np.log(p[np.arange(len(y)), y - 1])))
    ranked = [
        np.mean((np.cumsum(row)[:4] - (k <= np.arange(1, 5))) ** 2) for row, k in zip(p, y, strict=True)
    ]
    assert found["RPS"] == pytest.approx(np.mean(ranked))
    assert found["accuracy %"] == pytest.approx(100 * np.mean(np.argmax(p, axis=1) + 1 == y))
    assert found["MAE"] == pytest.approx(np.mean(np.abs(said["mean"].to_numpy() - y)))
    weighted = replace(test, weight=np.where(y == 5, 2.0, 1.0))
    twice = test.take(np.concatenate([np.arange(len(y)), np.flatnonzero(y == 5)]))
    pd.testing.assert_frame_equal(
        zoo.diagnostics.compare({"ours": fit}, weighted, random_seed=1),
        zoo.diagnostics.compare({"ours": fit}, twice, random_seed=1),
    )
    with pytest.raises(ValueError, match=r"test has the grades \(none\), and fit 'ours' has awful"):
        zoo.diagnostics.compare({"ours": fit}, replace(test, grades=()))
    with pytest.raises(ValueError, match="probabilities and no density"):
        zoo.diagnostics.negative_log_predictive_density(fit, test)
    zoo.plots.predicted_vs_observed(fit, test, random_seed=1)


@pytest.mark.filterwarnings("ignore:Estimated shape parameter:UserWarning")  # of 60 draws
def test_leave_one_out_reads_the_log_probabilities(fit):
    assert np.isfinite(zoo.diagnostics.loo(fit).elpd)
    found = fit.idata["log_likelihood"]["y"]
    probability = fit.factory.likelihood.grade_probabilities(
        np.zeros((1, 1)), **{name: np.ones((1, 1)) for name in fit.factory.likelihood.learned}
    )
    assert probability.sum() == pytest.approx(1.0) and float(found.max()) < 0.0


def test_a_test_row_of_no_grade_is_named(ratings):
    fit = zoo.NIWLinear(likelihood="ordinal").fit(data_of(ratings), **SHORT)
    test = data_of(ratings.assign(rating=6))
    with pytest.raises(ValueError, match="y of test is 6 in row 0, which is no grade of fit 'ours'"):
        zoo.diagnostics.compare({"ours": fit}, test)


def test_select_by_the_log_loss(ratings):
    chosen = zoo.select(
        zoo.NIWLinear(likelihood="ordinal"),
        data_of(ratings),
        {"likelihood.width": [0.01, "learned"]},
        cv=2,
        method="gibbs",
        draws=40,
        tune=40,
        chains=1,
        random_seed=1,
    )
    assert chosen.score_name == "log loss"
    assert chosen.best.likelihood.width == "learned"
    with pytest.raises(ValueError, match="grid mixes models of grades and of real responses"):
        zoo.select(zoo.NIWLinear(), data_of(ratings), {"likelihood": ["gaussian", "ordinal"]})


def test_a_checkpoint_knows_the_grades(ratings, tmp_path):
    model = zoo.NIWLinear(likelihood="ordinal")
    model.fit(data_of(named(ratings)), checkpoint=tmp_path / "run.zarr", **SHORT)
    names = list(NAMES[::-1])
    other = ratings.assign(rating=pd.Categorical.from_codes(ratings["rating"] - 1, names, ordered=True))
    with pytest.raises(ValueError, match="checkpoint"):
        model.fit(data_of(other), checkpoint=tmp_path / "run.zarr", **SHORT)


def test_scikit_learn(ratings):
    from zoo.sklearn import MultiTaskClassifier, MultiTaskRegressor

    options = {"task": "judge", "draws": 30, "tune": 30, "chains": 1, "random_state": 1}
    model = MultiTaskClassifier(zoo.NIWLinear(likelihood="ordinal"), **options)
    X, y = ratings[["judge", "x"]], ratings["rating"]
    model.fit(X, y)
    assert list(model.classes_) == [1.0, 2.0, 3.0, 4.0, 5.0]
    assert model.predict_proba(X).shape == (len(X), 5)
    assert model.score(X, y) > 0.3
    words = named(ratings)["rating"]
    model.fit(X, words)
    assert tuple(model.grades_) == NAMES and set(model.predict(X)) <= set(NAMES)
    assert model.score(X, words) > 0.3
    with pytest.raises(ValueError, match="which is for grades"):
        MultiTaskRegressor(zoo.NIWLinear(likelihood="ordinal"), task="judge").fit(X, y)
    with pytest.raises(ValueError, match=r"y has 5 ordered categories, and the likelihood 4 grades"):
        model.set_params(factory__likelihood__grades=4).fit(X, words)


# ---------------------------------------------------------------- subclasses


class Logit(zoo.Ordinal):
    """Ordered logit: another noise, with a density and draws of its own."""

    def log_density(self, f, y, **parameters):
        cuts = self._cuts(parameters)
        below = [pt.zeros_like(f), *(pt.sigmoid(cut - f) for cut in cuts), pt.ones_like(f)]
        result = pt.log(below[1] - below[0])
        for k in range(2, self.n_grades + 1):
            result = pt.switch(pt.eq(y, k), pt.log(below[k] - below[k - 1]), result)
        return result

    def random(self, f, size, **parameters):
        z = pm.Logistic.dist(f, 1.0, size=size)
        return 1.0 + sum(pt.cast(pt.gt(z, cut), "float64") for cut in self._cuts(parameters))


def test_a_subclass_with_another_density_loses_what_was_derived_for_the_first(ratings):
    model = zoo.NIWLinear(likelihood=Logit())
    assert list(model.methods) == ["nuts"]
    with pytest.raises(ValueError, match="Logit has none"):
        model.fit(data_of(ratings), "gibbs")
    assert Logit().augmentation({}, 1) is None
    f = np.array([[0.3, -1.0]])
    found = Logit(width=1.0).grade_probabilities(f)
    expected = np.diff(1.0 / (1.0 + np.exp(f - np.arange(4.0)[:, None])), axis=0, prepend=0.0, append=1.0)
    np.testing.assert_allclose(found[:, 0], expected, rtol=1e-8)


def test_a_subclass_keeps_what_it_does_not_change():
    class Five(zoo.Ordinal):
        """Grades of a house."""

    assert zoo.NIWLinear(likelihood=Five()).methods.keys() == {"gibbs", "nuts"}


def test_grades_need_probabilities():
    with pytest.raises(TypeError, match="Own is for grades, and says no probabilities of them"):

        class Own(zoo.Likelihood):
            responses = "grades"


def test_an_observe_of_the_users_own_counts(ratings, uncompiled):
    class Own(zoo.NIWLinear):
        def observe(self, data, f):
            return self.likelihood.term(f + 5.0, data.y, **self.add_parameters(data))

    likelihood = zoo.Ordinal(width=0.7)
    posterior = zoo.NIWLinear(likelihood=likelihood).fit(data_of(ratings), **SHORT)
    fit = zoo.NIWLinear.fit_class(
        factory=Own(likelihood=likelihood), data=posterior.data, idata=posterior.idata, method="nuts"
    )
    said, y = (
        fit.predict(ratings[:5], random_seed=1),
        fit.predict_draws(ratings[:5], random_seed=1)["y"].to_numpy(),
    )
    shares = np.stack([(y == k).mean(axis=(0, 1)) for k in range(1, 6)], axis=1)
    np.testing.assert_allclose(said["probability"], shares)
    assert float(said["probability"].sel(grade=5.0).min()) > 0.9


# ---------------------------------------------------------------- an independent estimate


@pytest.mark.scheduled
@pytest.mark.statistical
def test_pooled_estimates_are_those_of_maximal_likelihood(ratings):
    """With next to flat priors and many rows, posterior means lie within a fraction of a standard error of it."""
    df = table(1, 1500, seed=3)
    x, y = df["x"].to_numpy(), df["rating"].to_numpy()

    def minus(theta):
        cuts = np.concatenate([[-np.inf, 0.0], np.cumsum(np.exp(theta[2:])), [np.inf]])
        f = theta[0] + theta[1] * x
        return -np.sum(np.log(np.maximum(ndtr(cuts[y] - f) - ndtr(cuts[y - 1] - f), 1e-300)))

    found = minimize(
        minus, np.zeros(5), method="Nelder-Mead", options={"maxiter": 5000, "xatol": 1e-6, "fatol": 1e-9}
    ).x
    expected = {"level": found[0], "slope": found[1], **{f"width_{k}": np.exp(found[k]) for k in (2, 3, 4)}}
    try:
        from statsmodels.miscmodels.ordinal_model import OrderedModel
    except ImportError:
        pass
    else:
        # Its cut points are given by the first one, and the logarithms of the distances of the others.
        theirs = OrderedModel(y, x[:, None], distr="probit").fit(method="bfgs", disp=False)
        slope, first, *logs = np.asarray(theirs.params)
        assert minus(np.array([-first, slope, *logs])) == pytest.approx(-theirs.llf, rel=1e-9)
        np.testing.assert_allclose([-first, slope, *np.exp(logs)], list(expected.values()), atol=2e-3)
    model = zoo.PooledTasks(likelihood=zoo.Ordinal(width=LogNormal(0.0, 2.0)), prior_scale=10.0)
    data = data_of(df)
    fit = model.fit(data, "nuts", draws=1500, tune=700, chains=2, random_seed=1, progress=False)
    w = fit.posterior["coefficients"]
    draws = {"level": w.sel(feature="intercept"), "slope": w.sel(feature="x")}
    draws |= {f"width_{k}": fit.posterior[f"width_{k}"] for k in (2, 3, 4)}
    for name, value in expected.items():
        mean, sd = float(draws[name].mean()), float(draws[name].std())
        assert abs(mean - value) < 0.25 * sd, (name, mean, value, sd)
