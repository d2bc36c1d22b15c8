"""Scores against formulas worked out by hand."""

from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from scipy.stats import norm

import zoo
from zoo.diagnostics import (
    compare,
    explained_variance,
    f1_scores,
    log_loss,
    negative_log_predictive_density,
    scalar_summaries,
)
from zoo.diagnostics.scores import ExplainedVariance


def test_explained_variance_by_hand():
    y = [1.0, 3.0, 10.0, 14.0]
    mean = [1.0, 2.0, 11.0, 14.0]
    task = ["a", "a", "b", "b"]
    # Errors 0, 1, 1, 0; spread about 7: 36 + 16 + 9 + 49; inside tasks: 2 and 8, errors 1 and 1.
    scores = explained_variance(y, mean, task)
    assert scores.pooled == pytest.approx(1 - 2 / 110)
    assert scores.per_task == pytest.approx(((1 - 1 / 2) + (1 - 1 / 8)) / 2)


def test_explained_variance_without_task_is_one_task():
    scores = explained_variance([0.0, 1.0, 2.0], [0.0, 1.0, 1.0])
    assert scores.pooled == pytest.approx(0.5)
    assert scores.per_task == pytest.approx(0.5)


def test_tasks_whose_y_does_not_vary_are_left_out_of_the_average():
    scores = explained_variance([1.0, 3.0, 5.0, 5.0], [1.0, 3.0, 0.0, 0.0], [0, 0, 1, 1])
    assert scores.per_task == pytest.approx(1.0)
    none = explained_variance([1.0, 1.0, 5.0], [1.0, 1.0, 5.0], [0, 0, 1])
    assert none.pooled == 1.0 and np.isnan(none.per_task)


def test_predicting_the_mean_explains_nothing():
    y = np.random.default_rng(1).normal(size=50)
    assert explained_variance(y, np.full(50, y.mean())) == pytest.approx((0.0, 0.0))


def test_interleaved_tasks_do_not_depend_on_row_order():
    rng = np.random.default_rng(2)
    y, mean, task = rng.normal(size=40), rng.normal(size=40), rng.integers(4, size=40)
    order = rng.permutation(40)
    shuffled = explained_variance(y[order], mean[order], task[order])
    assert explained_variance(y, mean, task) == pytest.approx(shuffled)
    by_hand = [
        1 - np.sum((y - mean)[task == t] ** 2) / np.sum((y[task == t] - y[task == t].mean()) ** 2)
        for t in range(4)
    ]
    assert shuffled.per_task == pytest.approx(np.mean(by_hand))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([1.0, 1.0], [1.0, 2.0]), "y is constant"),
        (([1.0, 2.0], [1.0]), "mean has shape"),
        (([1.0, 2.0], [1.0, np.nan]), "mean is nan in row 1"),
        (([], []), "y is empty"),
        (([1.0, 2.0], [1.0, 2.0], [0]), "task has shape"),
    ],
)
def test_explained_variance_of_bad_input(arguments, message):
    with pytest.raises(ValueError, match=message):
        explained_variance(*arguments)


@pytest.mark.parametrize("negative", [-1, 0])
def test_f1_by_hand(negative):
    label = np.array([1, 1, negative, 1, negative, negative])
    predicted = np.array([1, negative, 1, 1, negative, negative])
    task = np.array([0, 0, 0, 1, 1, 2])
    scores = f1_scores(label, predicted, task)
    assert scores.accuracy == pytest.approx(4 / 6)
    assert scores.micro_f1 == pytest.approx(2 * 2 / (2 * 2 + 1 + 1))
    # Task 0: TP 1, FP 1, FN 1; task 1: perfect; task 2: no positives at all counts 0.
    assert scores.macro_f1 == pytest.approx((0.5 + 1.0 + 0.0) / 3)


def test_f1_of_bools_and_without_task():
    scores = f1_scores([True, False], [True, True])
    assert scores == pytest.approx((0.5, 2 / 3, 2 / 3))


def test_log_loss_by_hand_and_at_the_ends():
    assert log_loss([1, -1], [0.8, 0.4]) == pytest.approx(-(np.log(0.8) + np.log(0.6)) / 2)
    assert log_loss([0, 1], [0.0, 1.0]) == pytest.approx(0.0, abs=1e-10)
    assert log_loss([1], [0.0]) == pytest.approx(-np.log(1e-12))


def _fit(model, data):
    return model.fit(data, draws=20, tune=20, chains=2, random_seed=1, progress=False)


@pytest.fixture(scope="module")
def real():
    data, _ = zoo.datasets.simulate_matrix_normal(4, 3, 20, random_seed=1)
    train, test = data.split(0.4, random_seed=1)
    fits = {"pooled": zoo.PooledTasks(), "alone": zoo.IndependentTasks()}
    return {name: _fit(model, train.standardize()) for name, model in fits.items()}, test


def test_compare_of_real_responses_agrees_with_the_predictions(real):
    fits, test = real
    table = compare(fits, test, ci_prob=0.8, random_seed=3)
    assert list(table.index) == ["pooled", "alone"]
    predicted = fits["alone"].predict(test, ci_prob=0.8, random_seed=3)
    error = test.y - predicted["mean"].to_numpy()
    inside = (test.y >= predicted["lower"]) & (test.y <= predicted["upper"])
    explained = explained_variance(test.y, predicted["mean"], test.task)
    assert isinstance(explained, ExplainedVariance)
    expected = [
        100 * explained.pooled,
        100 * explained.per_task,
        np.sqrt(np.mean(error**2)),
        np.mean(np.abs(error)),
        100 * float(inside.mean()),
    ]
    assert table.loc["alone"].to_numpy() == pytest.approx(expected)
    assert list(table.columns)[-1] == "80% interval covers %"


def test_compare_is_reproducible(real):
    fits, test = real
    assert compare(fits, test, random_seed=3).equals(compare(fits, test, random_seed=3))


@pytest.fixture(scope="module")
def labelled():
    data, _ = zoo.datasets.simulate_matrix_normal(3, 3, 24, loss="hinge", random_seed=3)
    train, test = data.split(0.5, random_seed=1)
    return _fit(zoo.PooledTasks(likelihood="logistic"), train), test


def test_compare_of_labels(labelled):
    fit, test = labelled
    row = compare({"pooled": fit}, test, random_seed=1).loc["pooled"]
    predicted = fit.predict(test, random_seed=1)
    scores = f1_scores(test.y, predicted["label"], test.task)
    expected = [100 * s for s in scores] + [log_loss(test.y, predicted["probability"])]
    assert row.to_numpy() == pytest.approx(expected)
    assert list(row.index) == ["accuracy %", "micro F1 %", "macro F1 %", "log loss"]


class TestNegativeLogPredictiveDensity:
    @pytest.mark.parametrize("name", ["pooled", "alone"])
    def test_is_the_average_density_over_draws(self, real, name):
        """Row by row, with the one noise of the pooled model and the noises of the separate ones."""
        fits, test = real
        fit = fits[name]
        f = fit.predict_draws(test, random_seed=5)["f"].to_numpy().reshape(-1, test.n_rows)
        noise = fit.posterior["noise"].to_numpy().reshape(len(f), -1) * fit.data.transform.y_scale
        task = test.task if noise.shape[1] > 1 else np.zeros_like(test.task)
        total = 0.0
        for n, y in enumerate(test.y):
            total -= np.log(np.mean([norm.pdf(y, f[s, n], noise[s, task[n]]) for s in range(len(f))]))
        found = negative_log_predictive_density(fit, test, random_seed=5)
        assert found == pytest.approx(total / test.n_rows)

    def test_of_an_estimate_is_the_density_of_the_process(self):
        """Against the conditional normal law, written down."""
        data, _ = zoo.datasets.simulate_joint_selection(3, 4, (1.0, 0.5), n_per_task=12, random_seed=2)
        train, test = data.split(0.5, random_seed=1)
        model = zoo.MultiLaplaceGP(
            kernel="linear", penalty=1.0, mean="zero", standardize=False, noise_floor=0.1
        )
        fit = model.fit(train, method="map", progress=False)
        kappa, noise = (fit.posterior[name].to_numpy()[0, 0] for name in ("kappa", "noise"))
        densities = []
        for t, (known, asked) in enumerate(zip(train.rows_by_task(), test.rows_by_task(), strict=True)):
            X, Z = train.X[known], test.X[asked]
            gain = (
                (Z * kappa[:, t])
                @ X.T
                @ np.linalg.inv(X * kappa[:, t] @ X.T + noise[t] ** 2 * np.eye(len(X)))
            )
            cov = (Z * kappa[:, t]) @ Z.T - gain @ (X * kappa[:, t]) @ Z.T
            sd = np.sqrt(np.diag(cov) + noise[t] ** 2)
            densities.append(norm.logpdf(test.y[asked], gain @ train.y[known], sd))
        expected = -np.concatenate(densities).mean()
        assert negative_log_predictive_density(fit, test, random_seed=1) == pytest.approx(expected, abs=0.01)

    def test_rows_of_some_tasks_in_another_order(self, real):
        fits, test = real
        names = test.task_names
        parts = [test.select_tasks([name]) for name in names]
        by_task = [negative_log_predictive_density(fits["alone"], part, random_seed=5) for part in parts]
        sizes = test.task_sizes.to_numpy()
        together = test.select_tasks(names[::-1])
        found = negative_log_predictive_density(fits["alone"], together, random_seed=5)
        assert found == pytest.approx(np.average(by_task, weights=sizes))

    def test_is_on_the_scale_of_the_user(self, real):
        fits, test = real
        data = replace(test, y=10.0 * test.y + 3.0)
        scaled = replace(fits["pooled"].data.transform, y_scale=10.0 * fits["pooled"].data.transform.y_scale)
        scaled = replace(scaled, y_mean=10.0 * fits["pooled"].data.transform.y_mean + 3.0)
        fit = replace(fits["pooled"], data=replace(fits["pooled"].data, transform=scaled))
        found = negative_log_predictive_density(fit, data, random_seed=5)
        expected = negative_log_predictive_density(fits["pooled"], test, random_seed=5)
        assert found == pytest.approx(expected + np.log(10.0))

    def test_other_models_are_refused(self, real, labelled):
        fits, test = real
        with pytest.raises(ValueError, match="model of labels"):
            negative_log_predictive_density(*labelled)
        heavy = replace(fits["pooled"], factory=zoo.NIWLinear(likelihood="student_t"))
        with pytest.raises(ValueError, match="NIWLinear with StudentT responses"):
            negative_log_predictive_density(heavy, test)

    def test_unknown_task(self, real):
        fits, test = real
        with pytest.raises(ValueError, match="is not among the"):
            negative_log_predictive_density(
                fits["pooled"], replace(test, task_names=("x", *test.task_names[1:]))
            )


def test_compare_says_what_fits_and_test_rows_are(real):
    fit, test = real[0]["pooled"], real[1]
    for wrong, kind in ((fit, "Fit"), ([fit], "list")):
        with pytest.raises(TypeError, match=rf"fits is a {kind}\. Give the fits by name"):
            compare(wrong, test)
    for score in (
        lambda table: compare({"mine": fit}, table),
        lambda t: negative_log_predictive_density(fit, t),
    ):
        with pytest.raises(
            TypeError, match=r"test is a DataFrame\. Give MultiTaskData, made like the training data"
        ):
            score(test.to_frame())


def test_compare_refuses_a_mixture_and_nothing(real, labelled):
    fits, test = real
    with pytest.raises(ValueError, match="mix models"):
        compare({**fits, "labels": labelled[0]}, test)
    with pytest.raises(ValueError, match="fits is empty"):
        compare({}, test)


def _posterior():
    rng = np.random.default_rng(0)
    factors = rng.normal(size=(2, 5, 3, 3))
    covariance = factors @ np.swapaxes(factors, -1, -2)
    return xr.Dataset(
        {
            "coefficients": (("chain", "draw", "feature", "task"), rng.normal(size=(2, 5, 3, 9))),
            "feature_cov": (("chain", "draw", "feature", "feature_bis"), covariance),
            "noise": (("chain", "draw"), rng.normal(size=(2, 5))),
        },
        coords={"feature": list("abc"), "task": [f"t{i}" for i in range(9)]},
    )


def test_scalars_are_log_determinants_and_scalars():
    posterior = _posterior()
    scalars = scalar_summaries(posterior)
    assert list(scalars) == ["log|feature_cov|", "noise"]
    expected = np.log(np.linalg.det(posterior["feature_cov"].to_numpy()))
    assert scalars["log|feature_cov|"].to_numpy() == pytest.approx(expected)


def test_scalars_without_covariance_are_the_first_coefficients():
    scalars = scalar_summaries(_posterior().drop_vars("feature_cov"))
    assert list(scalars) == ["noise", *(f"coefficients[a, t{i}]" for i in range(4))]
    assert scalars["coefficients[a, t1]"].to_numpy() == pytest.approx(
        _posterior()["coefficients"].sel(feature="a", task="t1").to_numpy()
    )


def test_scalars_by_name():
    assert list(scalar_summaries(_posterior(), "noise")) == ["noise"]
    with pytest.raises(ValueError, match="var_names: 'nois'"):
        scalar_summaries(_posterior(), ["nois"])
    with pytest.raises(ValueError, match="more than 12 scalars"):
        scalar_summaries(_posterior(), ["coefficients"])
    with pytest.raises(ValueError, match="var_names is empty"):
        scalar_summaries(_posterior(), [])


# ---------------------------------------------------------------- what would count without being what it should be


@pytest.mark.parametrize(
    ("label", "predicted", "message"),
    [
        ([1, 0, 1], [0.9, 0.1, 0.2], "predicted is 0.9 in row 0"),  # probabilities are all above 0
        ([1, 2, 2], [1, 2, 1], "label is 2 in row 1"),
        ([1, np.nan, 0], [1, 1, 0], "label is nan in row 1"),
        ([1, 0, -1], [1, 1, 1], "label is 0 in row 1"),
        (["a", "b", "a"], [1, 0, 1], "label is a in row 0"),
    ],
)
def test_what_is_no_label_is_refused(label, predicted, message):
    with pytest.raises(ValueError, match=message):
        f1_scores(label, predicted)


def test_labels_of_nullable_columns_and_objects_count():
    wanted = f1_scores([1, 0, 1], [1, 1, 0])
    assert (
        f1_scores(pd.Series([1, 0, 1], dtype="Int64"), pd.Series([True, True, False], dtype="boolean"))
        == wanted
    )
    assert f1_scores(np.array([1, 0, 1], dtype=object), [1, 1, -1]) == wanted


@pytest.mark.parametrize(
    ("label", "probability", "message"),
    [
        (
            [1, 0],
            [90.0, 10.0],
            "probability is 90 in row 0",
        ),  # percent were held off 1 as if they were certain
        ([1, 0], [0.9, -0.1], "probability is -0.1 in row 1"),
        ([1, np.nan], [0.9, 0.1], "label is nan in row 1"),
        ([1, 3], [0.9, 0.1], "label is 3 in row 1"),
    ],
)
def test_log_loss_of_what_is_no_probability_or_label_is_refused(label, probability, message):
    with pytest.raises(ValueError, match=message):
        log_loss(label, probability)


def test_a_row_without_a_task_is_refused():
    for task in (["a", None, "b"], [1.0, np.nan, 2.0]):
        with pytest.raises(ValueError, match="task is missing in row 1"):
            f1_scores([1, 0, 1], [1, 0, 1], task)
        with pytest.raises(ValueError, match="task is missing in row 1"):
            explained_variance([1.0, 2.0, 4.0], [1.0, 2.0, 3.0], task)


def test_scores_of_weighted_rows_are_those_of_repeated_rows():
    rng = np.random.default_rng(7)
    y, mean, task = rng.normal(size=30), rng.normal(size=30), np.arange(30) % 3
    label, guess, p = rng.random(30) < 0.5, rng.random(30) < 0.5, rng.random(30)
    weight = 1.0 + np.arange(30) % 4
    rows = np.repeat(np.arange(30), weight.astype(int))
    assert explained_variance(y, mean, task, weight) == pytest.approx(
        explained_variance(y[rows], mean[rows], task[rows])
    )
    assert f1_scores(label, guess, task, weight) == pytest.approx(
        f1_scores(label[rows], guess[rows], task[rows])
    )
    assert log_loss(label, p, weight) == pytest.approx(log_loss(label[rows], p[rows]))
    with pytest.raises(ValueError, match="weight is 0 in row 0"):
        log_loss(label, p, weight - 1.0)


def _with_repeated_rows(test):
    """The rows with weights, and with every row so many times."""
    weight = 1.0 + np.arange(test.n_rows) % 3
    return replace(test, weight=weight), test.take(np.repeat(np.arange(test.n_rows), weight.astype(int)))


def test_comparisons_use_the_weights_of_the_test_rows(real, labelled):
    for fits, test in (real, ({"labels": labelled[0]}, labelled[1])):
        weighted, repeated = _with_repeated_rows(test)
        found, wanted = (compare(fits, rows, random_seed=3) for rows in (weighted, repeated))
        # Draws of y differ from row to row: the intervals alone are not the same.
        same = [column for column in found if "covers" not in column]
        np.testing.assert_allclose(found[same], wanted[same], rtol=1e-9)
        assert not np.allclose(found[same], compare(fits, test, random_seed=3)[same], rtol=1e-3)
    fits, test = real
    weighted, repeated = _with_repeated_rows(test)
    for fit in fits.values():
        nlpd = negative_log_predictive_density(fit, weighted)
        assert nlpd == pytest.approx(negative_log_predictive_density(fit, repeated))
