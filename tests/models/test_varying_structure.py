"""The choice of a structure: its score against a dense density, known truths, and what it leaves alone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pandas as pd
import pymc as pm
import pytest
from numpy.testing import assert_allclose
from scipy.stats import multivariate_normal, norm, poisson

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.models.varying_coefficient import structure_search
from zoo.models.varying_coefficient.held_out import held_out_score, scores
from zoo.models.varying_coefficient.ranges import pilot_fit

Part = zoo.VaryingComponent


def rows(n: int = 300, seed: int = 0, noise: float = 0.2) -> zoo.MultiTaskData:
    """The level and the coefficient of "moves" vary over t; that of "still" is 1, and "idle" has none."""
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.standard_normal((n, 3)), columns=["moves", "still", "idle"])
    table["day"] = rng.uniform(0.0, 10.0, n)
    slope = 1.5 * np.sin(table["day"])
    level = np.cos(0.6 * table["day"])
    table["y"] = level + slope * table["moves"] + table["still"] + rng.normal(0.0, noise, n)
    return zoo.MultiTaskData.from_frame(table, y="y", features=["moves", "still", "idle"], t=["day"])


@pytest.fixture(scope="module")
def found():
    return zoo.VaryingCoefficientGP().choose_structure(rows(), progress=False)


# ---------------------------------------------------------------- the score


def test_the_score_is_that_of_the_dense_density(monkeypatch):
    """With every row conditioned on all before it, the pilot's evidence is a normal density, here by scipy."""
    data = rows(60)
    model = zoo.VaryingCoefficientGP(n_neighbours=59)
    monkeypatch.setitem(structure_search._PILOT, "n_neighbours", 59)
    table = model.choose_structure(data, progress=False).table
    pilot = pilot_fit(model, data, **structure_search._PILOT)
    X = (data.X - data.X.mean(axis=0)) / data.X.std(axis=0)
    X = np.column_stack([np.ones(60), X])
    t = (data.t[:, 0] - data.t[:, 0].mean()) / data.t[:, 0].std()
    distance = np.sqrt(3.0) * np.abs(t[:, None] - t[None, :]) / pilot.values["lengthscale"][0]
    kernel = pilot.values["amplitude"] ** 2 * (1.0 + distance) * np.exp(-distance)
    K = X @ X.T * (kernel + pilot.values["global_scale"] ** 2) + pilot.values["noise"] ** 2 * np.eye(60)
    dense = multivariate_normal(np.full(60, data.y.mean()), K).logpdf(data.y)
    assert_allclose(table.loc[0, "log_evidence"] * 60, dense, rtol=1e-7)
    assert table.loc[0, "parameters"] == 4
    assert_allclose(table.loc[0, "score"], dense - 2.0 * np.log(60.0), rtol=1e-7)


def test_each_structure_taken_is_the_best_of_its_step(found):
    taken = found.table[found.table["taken"]]
    assert list(taken["change"]) == ["as given", *found.changes]
    for _, row in taken.iterrows():
        assert row["score"] == found.table.loc[found.table["step"] == row["step"], "score"].max()
    assert (np.diff(taken["score"]) > 0.0).all()


# ---------------------------------------------------------------- held-out rows


def test_scores_of_held_out_rows_are_integrals_of_squared_distances():
    """The weighted mean of integrals of (F(u) - 1{u >= y})^2 at what the fits of five folds predict, on a grid."""
    data = replace(rows(60), weight=np.linspace(0.5, 1.5, 60))
    model = zoo.VaryingCoefficientGP()
    fold = np.empty(60, dtype=int)
    fold[np.random.default_rng(3).permutation(60)] = np.arange(60) % 5
    u, total = np.linspace(-20.0, 20.0, 40_001)[:, None], 0.0
    for k in range(5):
        test = data.take(fold == k)
        fit = model.fit(data.take(fold != k), "vecchia", draws=2, chains=1, random_seed=3, progress=False)
        said = fit.predict(test, ci_prob=0.9)
        sd = (said["upper"] - said["lower"]).to_numpy() / (2.0 * norm.ppf(0.95))
        distance = (norm.cdf(u, said["mean"].to_numpy(), sd) - (u >= test.y)) ** 2
        total -= np.sum(test.weight * distance.sum(axis=0) * 1e-3)
    assert_allclose(held_out_score([model], data, 3), [total / data.weight.sum()], rtol=2e-3)


def test_probabilities_of_held_out_counts_are_averages_over_draws():
    rng = np.random.default_rng(1)
    t = rng.uniform(0.0, 5.0, (80, 1))
    data = zoo.MultiTaskData.from_arrays(X=None, y=rng.poisson(np.exp(1.0 + np.sin(t[:, 0]))), t=t)
    fit = zoo.VaryingCoefficientGP(likelihood="poisson").fit(
        data.take(np.arange(60)), "vecchia", draws=2, chains=1, random_seed=1, progress=False
    )
    test = data.take(np.arange(60, 80))
    rows_, _, _ = fit.rows_to_predict(test, None, None, False, 1)
    mean, sd = fit.factory.conditional_moments(fit, rows_, rng)
    f = mean + sd * rng.standard_normal((200_000, 20))
    by_draws = np.log(poisson.pmf(test.y, np.exp(f)).mean(axis=0))
    assert_allclose(scores(fit, test), by_draws, atol=0.02)


# ---------------------------------------------------------------- known truths


def test_only_what_varies_is_said_to_vary(found):
    slopes = found.factory.components[-1]
    names = ("intercept", "moves", "still", "idle") if slopes.features == "all" else slopes.features
    assert "moves" in names
    assert not {"still", "idle"} & set(names)
    assert "does not vary" in " ".join(found.changes) or "do not vary" in " ".join(found.changes)
    fit = found.factory.fit(rows(), draws=20, chains=1, random_seed=1, progress=False)
    slopes = fit.coefficients(pd.DataFrame({"day": np.linspace(1.0, 9.0, 20)}))["mean"]
    assert_allclose(slopes.sel(feature="still"), 1.0, atol=0.1)
    assert_allclose(slopes.sel(feature="idle"), 0.0, atol=0.1)
    assert_allclose(slopes.sel(feature="moves"), 1.5 * np.sin(np.linspace(1.0, 9.0, 20)), atol=0.35)


def test_where_only_the_level_varies_no_coefficient_is_said_to():
    rng = np.random.default_rng(4)
    table = pd.DataFrame(rng.standard_normal((250, 3)), columns=["a", "b", "c"])
    table["day"] = rng.uniform(0.0, 10.0, 250)
    table["y"] = np.sin(2.0 * table["day"]) + table["a"] + rng.normal(0.0, 0.2, 250)
    data = zoo.MultiTaskData.from_frame(table, y="y", features=["a", "b", "c"], t=["day"])
    chosen = zoo.VaryingCoefficientGP().choose_structure(data, progress=False)
    assert [c.features for c in chosen.factory.components] in (["intercept"], [("intercept",)])


@pytest.mark.parametrize("word", ["matern12", "matern52"])
def test_the_smoothness_of_the_process_is_found(word):
    """The structure of the truth is right or next to right, for a rough and for a smooth process."""
    rng = np.random.default_rng(3)
    t = np.sort(rng.uniform(0.0, 10.0, 600))
    r = np.abs(t[:, None] - t[None, :])
    K = np.exp(-r) if word == "matern12" else (1.0 + 2.0 * r + 4.0 * r**2 / 3.0) * np.exp(-2.0 * r)
    f = np.linalg.cholesky(K + 1e-9 * np.eye(600)) @ rng.standard_normal(600)
    data = zoo.MultiTaskData.from_arrays(X=None, y=f + rng.normal(0.0, 0.05, 600), t=t[:, None])
    factory = zoo.VaryingCoefficientGP().choose_structure(data, progress=False).factory
    assert factory.components[0].kernel == word


def test_nothing_changes_where_the_model_is_right():
    rng = np.random.default_rng(5)
    t = rng.uniform(0.0, 10.0, (300, 1))
    r = np.sqrt(3.0) * np.abs(t - t.T) / 1.5
    f = np.linalg.cholesky((1.0 + r) * np.exp(-r) + 1e-9 * np.eye(300)) @ rng.standard_normal(300)
    data = zoo.MultiTaskData.from_arrays(X=None, y=f + rng.normal(0.0, 0.3, 300), t=t)
    chosen = zoo.VaryingCoefficientGP().choose_structure(data, progress=False)
    assert chosen.changes == ()
    assert chosen.factory == zoo.VaryingCoefficientGP()
    assert "none of 2 other structures is better" in repr(chosen)


def test_functions_that_are_not_linear_are_taken_if_asked_for():
    rng = np.random.default_rng(7)
    table = pd.DataFrame({"x": rng.uniform(-2.0, 2.0, 300), "day": rng.uniform(0.0, 5.0, 300)})
    table["y"] = np.sin(3.0 * table["x"]) + 0.3 * np.sin(table["day"]) + rng.normal(0.0, 0.1, 300)
    data = zoo.MultiTaskData.from_frame(table, y="y", features=["x"], t=["day"])
    assert zoo.VaryingCoefficientGP().choose_structure(data, progress=False).factory.is_linear
    curved = zoo.VaryingCoefficientGP().choose_structure(data, curved=True, progress=False)
    assert curved.changes[0].startswith("functions of the features that are not linear")
    assert not curved.factory.is_linear
    last = curved.table.iloc[-2:]
    assert list(last["taken"]) == [False, True]
    assert last["held_out"].iloc[1] > last["held_out"].iloc[0]
    assert curved.table["held_out"].iloc[:-2].isna().all()


def test_coefficients_stay_where_they_are_the_truth(found):
    curved = zoo.VaryingCoefficientGP().choose_structure(rows(), curved=True, progress=False)
    assert curved.factory == found.factory
    assert curved.changes == found.changes
    assert list(curved.table["taken"].iloc[-2:]) == [True, False]


def test_labels_too():
    rng = np.random.default_rng(9)
    t = rng.uniform(0.0, 6.0, (150, 1))
    X = rng.standard_normal((150, 2))
    f = 5.0 * np.sin(2.0 * t[:, 0]) * X[:, 0]
    data = zoo.MultiTaskData.from_arrays(
        X=X, y=np.where(rng.random(150) < 1.0 / (1.0 + np.exp(-f)), 1, -1), t=t
    )
    model = zoo.VaryingCoefficientGP(likelihood="logistic", task_kernel=Part(amplitude="per_feature"))
    chosen = model.choose_structure(data, progress=False).factory
    assert chosen.likelihood == model.likelihood
    assert "x0" in chosen.components[0].features
    assert "x1" not in chosen.components[0].features


# ---------------------------------------------------------------- what stays as the user said


def test_a_subclass_stays_and_so_do_numbers():
    @dataclass(frozen=True, kw_only=True)
    class Mine(zoo.VaryingCoefficientGP):
        pass

    own = Part(kernel="squared_exponential", lengthscale=2.0, amplitude=0.7, features=["moves", "idle"])
    model = Mine(task_kernel=own, n_neighbours=20)
    chosen = model.choose_structure(rows(100), progress=False)
    assert chosen.factory == model
    assert type(chosen.factory) is Mine
    assert len(chosen.table) == 1


def test_columns_and_names_of_several_components_stay():
    rng = np.random.default_rng(2)
    t = rng.uniform(0.0, 5.0, (200, 2))
    y = np.sin(2.0 * t[:, 0]) + np.cos(t[:, 1]) + rng.normal(0.0, 0.1, 200)
    data = zoo.MultiTaskData.from_arrays(X=None, y=y, t=t)
    parts = (Part(columns=["t0"], kernel="matern12", name="first"), Part(columns=["t1"], kernel="matern12"))
    chosen = zoo.VaryingCoefficientGP(task_kernel=parts).choose_structure(data, progress=False)
    assert [(c.columns, c.name) for c in chosen.factory.components] == [(("t0",), "first"), (("t1",), None)]
    assert any(change.startswith("first: covariance") for change in chosen.changes)


# ---------------------------------------------------------------- refusals


def test_what_pilot_fits_do_not_know_is_refused():
    data = rows(40)
    with pytest.raises(
        UnsupportedMethodError, match=r"compared by pilot fits.*a component has one of pm.gp.cov"
    ):
        zoo.VaryingCoefficientGP(task_kernel=pm.gp.cov.ExpQuad(1, ls=1.0)).choose_structure(data)
    with pytest.raises(UnsupportedMethodError, match="the user's own"):
        zoo.VaryingCoefficientGP(own_priors={"amplitude": pm.HalfNormal.dist(1.0)}).choose_structure(data)

    class Twice(zoo.VaryingCoefficientGP):
        def latent(self, data, priors):
            return 2.0 * super().latent(data, priors)

    with pytest.raises(
        UnsupportedMethodError, match=r"compared by pilot fits.*Twice overrides the hook `latent`"
    ):
        Twice().choose_structure(data)
    with pytest.raises(ValueError, match="curved"):
        zoo.VaryingCoefficientGP().choose_structure(data, curved="yes")
    with pytest.raises(ValueError, match="t is missing"):
        zoo.VaryingCoefficientGP().choose_structure(replace(data, t=None, t_names=None))


# ---------------------------------------------------------------- as a field


SHORT = dict(draws=20, chains=1, random_seed=1, progress=False)


def test_a_fit_chooses_its_structure_where_the_field_asks_for_it(tmp_path):
    data = rows(100)
    found = zoo.VaryingCoefficientGP().choose_structure(data, progress=False)
    fit = zoo.VaryingCoefficientGP(structure="chosen").fit(data, **SHORT)
    assert fit.factory == found.factory
    assert fit.factory.structure == "given"
    assert fit.idata["posterior"].attrs["structure"] == "; ".join(found.changes)
    by_hand = found.factory.fit(data, **SHORT)
    for name in by_hand.posterior.data_vars:
        assert_allclose(fit.posterior[name], by_hand.posterior[name], rtol=0.0, atol=0.0)
    fit.save(tmp_path / "chosen.zoo")
    again = zoo.load(tmp_path / "chosen.zoo")
    assert again.idata["posterior"].attrs["structure"] == "; ".join(found.changes)
    new = pd.DataFrame({"moves": [1.0], "still": [0.0], "idle": [2.0], "day": [3.0]})
    assert_allclose(again.predict(new)["mean"], by_hand.predict(new)["mean"], rtol=1e-12)


def test_each_fold_of_a_selection_chooses_for_itself(monkeypatch):
    seen = []
    whole = structure_search.StructureSearch.climb

    def noted(self):
        seen.append(self.data.n_rows)
        whole(self)

    monkeypatch.setattr(structure_search.StructureSearch, "climb", noted)
    model = zoo.VaryingCoefficientGP()
    grid = {"structure": ["given", "chosen"]}
    table = zoo.select(model, rows(100), grid, cv=2, n_jobs=1, **SHORT).scores
    assert seen == [50, 50]
    assert list(table["structure"]) == ["given", "chosen"]
    assert table["mean"].nunique() == 2


def test_columns_of_a_frame_choose_too_in_scikit_learn():
    data = rows(120)
    frame = data.to_frame()
    model = zoo.VaryingCoefficientGP(structure="chosen")
    learner = zoo.sklearn.MultiTaskRegressor(model, t=["day"], draws=20, chains=1, random_state=1)
    columns = ["moves", "still", "idle", "day"]
    learner.fit(frame[columns], frame["y"])
    assert learner.fit_.factory.structure == "given"
    assert np.corrcoef(learner.predict(frame[columns]), frame["y"])[0, 1] > 0.9


def test_a_model_to_be_chosen_cannot_be_built():
    with pytest.raises(
        ValueError, match="structure is 'chosen': the data choose the model when it is fitted"
    ):
        zoo.VaryingCoefficientGP(structure="chosen").build(rows(30))
    with pytest.raises(ValueError, match="structure: 'best' is unknown"):
        zoo.VaryingCoefficientGP(structure="best")


def test_many_curved_rows_are_not_sent_to_sines():
    """A selection takes the method before the structure is known, and sines have no functions that are not linear."""
    data = rows(2100)
    factory = zoo.VaryingCoefficientGP(structure="curved")
    assert factory.default_method(data) == "vecchia"
    assert replace(factory, structure="given").default_method(data) == "hsgp"
