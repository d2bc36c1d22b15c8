"""Selected features: copies, scores against other formulas, p-values under the hypothesis, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pymc as pm
import pytest
from scipy.stats import kstest, multivariate_normal

import zoo
from zoo.core.methods import UnsupportedMethodError
from zoo.inference.ard.copies import FeatureCopies
from zoo.inference.ard.correlation import CompiledCorrelation
from zoo.inference.ard.feature_scores import TaskWithout
from zoo.kernels.ard import ScaledCovariance

MODEL = zoo.MultiLaplaceGP(kernel="linear", penalty=20.0, noise_floor=0.1)


def _data(seed=0, n_tasks=8, n=25, relevant=(0, 3), n_features=6, correlation=0.6, names=None, alike=False):
    """Linear tasks; features are equally correlated, and have levels of tasks."""
    rng = np.random.default_rng(seed)
    task = np.repeat(np.arange(n_tasks), n)
    common = rng.normal(size=(len(task), 1))
    X = np.sqrt(correlation) * common + np.sqrt(1.0 - correlation) * rng.normal(size=(len(task), n_features))
    X += 0.5 * rng.normal(size=(n_tasks, n_features))[task]
    W = np.zeros((n_tasks, n_features))
    W[:, list(relevant)] = 0.5 if alike else rng.normal(size=(n_tasks, len(relevant)))
    y = np.einsum("nd,nd->n", X, W[task]) + rng.normal(size=len(task))
    return zoo.MultiTaskData.from_arrays(X, y, task, feature_names=names).standardize()


@pytest.fixture(scope="module")
def data():
    return _data(names=list("abcdef"))


@pytest.fixture(scope="module")
def fit(data):
    return MODEL.fit(data, "map", progress=False)


# ---------------------------------------------------------------- copies


def test_copies_go_with_other_features_and_tasks_as_the_feature_does():
    """Of 400 copies: their correlation with each other feature, with levels of tasks, and their spread."""
    data = _data(seed=3, n_tasks=20, n=40)
    made = FeatureCopies.of(data.X, 2, data.task)
    copies = made.draw(400, np.random.default_rng(0))
    levels = np.array([data.X[rows, 2].mean() for rows in data.rows_by_task()])[data.task]
    for other in [*np.delete(data.X, 2, axis=1).T, levels]:
        own = np.corrcoef(other, data.X[:, 2])[0, 1]
        theirs = np.array([np.corrcoef(other, copy)[0, 1] for copy in copies])
        assert abs(theirs.mean() - own) < 0.06
    assert abs(copies.std(axis=1).mean() / data.X[:, 2].std() - 1.0) < 0.02
    # The rest is new: given the others, copies have nothing to do with the feature.
    rest = data.X[:, 2] - made.kept
    assert abs(np.mean([np.corrcoef(rest, copy - made.kept)[0, 1] for copy in copies])) < 0.01


def test_copies_have_the_spread_that_the_feature_has_in_each_task():
    """Standard deviations within tasks, from 0.1 to 3: those of copies are within a fifth of the feature's."""
    rng = np.random.default_rng(4)
    sds, task = np.geomspace(0.1, 3.0, 8), np.repeat(np.arange(8), 40)
    X = rng.normal(size=(320, 3))
    X[:, 1] *= sds[task]
    copies = FeatureCopies.of(X, 1, task).draw(200, rng)
    for t in range(8):
        theirs = copies[:, task == t].std(axis=1).mean()
        assert abs(theirs / X[task == t, 1].std() - 1.0) < 0.2
    assert np.all(FeatureCopies.of(X, 0, task).spread > 0.8) and np.all(
        FeatureCopies.of(X, 0, task).spread < 1.2
    )


def test_rows_that_tasks_have_in_common_are_permuted_together():
    rng = np.random.default_rng(0)
    shared = rng.normal(size=(30, 4))
    X, task = np.tile(shared, (5, 1)), np.repeat(np.arange(5), 30)
    order = rng.permutation(len(X))
    copies = FeatureCopies.of(X[order], 1, task[order]).draw(3, rng)
    back = np.argsort(order)
    np.testing.assert_array_equal(copies[:, back][:, :30], copies[:, back][:, 120:])
    assert len(np.unique(copies[0])) == 30
    binary = (rng.normal(size=(200, 4)) > 0.0).astype(float)  # rows that agree by chance
    assert len(FeatureCopies.of(binary, 1, np.repeat([0, 1], 100)).rest) == 200


def test_a_feature_that_others_determine():
    X = np.random.default_rng(0).normal(size=(40, 3))
    X[:, 2] = X[:, 0] - 2.0 * X[:, 1] + 1.0
    assert FeatureCopies.of(X, 2, np.repeat([0, 1], 20)).determined
    assert not FeatureCopies.of(X[:, :2], 1, np.repeat([0, 1], 20)).determined


# ---------------------------------------------------------------- scores


def _without(word, rng):
    n, D = 12, 3
    X = rng.normal(size=(n, D))
    X[:, 1] = 0.0
    kappa = np.array([0.7, 0.0, 0.3])
    noise = rng.uniform(0.2, 0.8, size=n)
    return TaskWithout(
        np.arange(n), X, rng.normal(size=n), noise, kappa, 1.0 if word == "linear" else 1.3, 0.5
    )


@pytest.mark.parametrize("word", ["linear", "squared_exponential", "matern52", "matern32"])
def test_scores_are_derivatives_of_the_evidence_by_scipy(word):
    """A multiple of the difference that the feature makes is added to the covariance; differences of two columns."""
    rng = np.random.default_rng(1)
    task, kernel = _without(word, rng), CompiledCorrelation(word)
    columns = rng.normal(size=(2, 12))
    scores, products = task.scores(kernel, columns, 1)
    base = task.amplitude * kernel.matrix(task.X, task.X, task.kappa) + task.constant + np.diag(task.noise)

    def changed(column, bend):
        X, kappa = task.X.copy(), task.kappa.copy()
        X[:, 1], kappa[1] = column, bend
        return task.amplitude * (kernel.matrix(X, X, kappa) - kernel.matrix(task.X, task.X, task.kappa))

    def slope(V, step=1e-5):
        up, down = (multivariate_normal(cov=base + e * V).logpdf(task.residual) for e in (step, -step))
        return (up - down) / (2.0 * step)

    for k, bend in enumerate((1.0,) if word == "linear" else (0.05, 1.0)):
        expected = np.array([slope(changed(column, bend)) for column in columns])
        found = scores[:, k]
        if word != "linear":  # these leave out what is the same for all columns
            expected, found = np.diff(expected), np.diff(found)
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(products, columns @ np.linalg.solve(base, task.residual), rtol=1e-10)


def test_scores_of_any_covariance_function_are_those_of_the_compiled_one():
    rng = np.random.default_rng(2)
    task, columns = _without("matern52", rng), rng.normal(size=(3, 12))
    own = ScaledCovariance(pm.gp.cov.Matern52(3, ls=1.0))
    expected = task.scores(CompiledCorrelation("matern52"), columns, 1)
    for found, value in zip(task.scores(own, columns, 1), expected, strict=True):
        np.testing.assert_allclose(found, value, rtol=1e-8, atol=1e-10)


# ---------------------------------------------------------------- the selection


def test_planted_features_are_selected(fit):
    table = fit.select_features(random_seed=1)
    assert list(table["feature"].to_numpy()[table["selected"]]) == ["a", "d"]
    assert fit.relevance()["included"].all()  # what the mode says
    assert table.attrs["copies"] == 199 and table.attrs["fdr"] == 0.1
    assert np.all(table["q_value"] >= table["p_value"])
    assert np.all(table["p_value"][[0, 3]] == 1.0 / 200.0)
    again = fit.select_features(random_seed=1)
    assert table.identical(again)
    assert not table["p_value"].equals(fit.select_features(random_seed=2)["p_value"])


@pytest.mark.parametrize(
    "fields",
    [
        {"ard": "shared"},
        {"ard": "independent", "penalty": 3.0},
        {"ard": "pooled"},
        {"mean": "linear"},
        {"mean": "zero"},
        {"kernel": "squared_exponential", "amplitude": "task"},
    ],
    ids=lambda fields: ", ".join(map(str, fields.values())),
)
def test_other_fields(data, fields):
    factory = zoo.MultiLaplaceGP(**{"kernel": "linear", "penalty": 20.0, "noise_floor": 0.1, **fields})
    # One process for all tasks sees nothing of effects of mean zero.
    data = _data(alike=True) if fields.get("ard") == "pooled" else data
    selected = factory.fit(data, "map", progress=False).select_features(random_seed=1)["selected"]
    assert selected.to_numpy().tolist() == [True, False, False, True, False, False]


def test_curves_that_are_even_are_seen():
    """cos has no straight part, to which the derivative at zero is restricted."""
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(10), 30), rng.normal(size=(300, 4))
    y = 1.5 * rng.normal(size=10)[task] * np.cos(2.0 * X[:, 2]) + 0.3 * rng.normal(size=300)
    data = zoo.MultiTaskData.from_arrays(X, y, task).standardize()
    fit = zoo.MultiLaplaceGP(penalty=20.0, noise_floor=0.1).fit(data, "map", progress=False)
    assert fit.select_features(random_seed=1)["selected"].to_numpy().tolist() == [False, False, True, False]


def test_a_common_slope_is_seen_by_a_linear_mean():
    """Slopes that hardly differ between 25 tasks of 6 rows, weak in each."""
    rng = np.random.default_rng(0)
    task, X = np.repeat(np.arange(25), 6), rng.normal(size=(150, 5))
    data = zoo.MultiTaskData.from_arrays(X, 0.45 * X[:, 1] + rng.normal(size=150), task).standardize()
    factory = zoo.MultiLaplaceGP(kernel="linear", penalty=100.0, noise_floor=0.1, mean="linear")
    table = factory.fit(data, "map", progress=False).select_features(random_seed=1)
    assert table["selected"].to_numpy().tolist() == [False, True, False, False, False]


def test_a_weight_is_a_number_of_rows():
    """Scores of rows of weight 2 are those of the rows twice."""
    rng = np.random.default_rng(3)
    for word in ("linear", "matern52"):
        task, columns = _without(word, rng), rng.normal(size=(4, 12))
        heavy = task._replace(noise=task.noise / 2.0)
        twice = task._replace(
            **{name: np.repeat(getattr(task, name), 2, axis=0) for name in ("at", "X", "residual", "noise")}
        )
        kernel = CompiledCorrelation(word)
        for one, two in zip(
            heavy.scores(kernel, columns, 1),
            twice.scores(kernel, np.repeat(columns, 2, axis=1), 1),
            strict=True,
        ):
            np.testing.assert_allclose(np.diff(one, axis=0), np.diff(two, axis=0), rtol=1e-8, atol=1e-8)


def test_many_features_get_more_copies_and_few_copies_a_warning():
    data = _data(seed=1, n_tasks=10, n=40, n_features=25, correlation=0.1)
    fit = zoo.MultiLaplaceGP(kernel="linear", penalty=100.0, noise_floor=0.1).fit(data, "map", progress=False)
    assert fit.select_features(random_seed=1).attrs["copies"] == 500
    with pytest.warns(UserWarning, match="copies is 50: no p can be below 1 / 51.*at least 249"):
        fit.select_features(copies=50, random_seed=1)


@pytest.mark.statistical
@pytest.mark.parametrize("kernel", ["linear", "squared_exponential"])
def test_p_values_are_uniform_under_the_hypothesis(kernel):
    """Features 1 and 2 do not count, and are correlated with feature 0, which does: 300 p-values of 150 data sets.

    Null: uniform on 1/100 ... 1; false alarms of the test of Kolmogorov & Smirnov 1e-3. Copies that did not go with
    feature 0 would have p-values that are far too small.
    """
    factory = zoo.MultiLaplaceGP(kernel=kernel, penalty=10.0, noise_floor=0.2)
    found = []
    for seed in range(150):
        data = _data(seed=seed, n_tasks=6, n=10, relevant=(0,), n_features=3, correlation=0.8)
        table = factory.fit(data, "map", progress=False).select_features(copies=99, random_seed=seed)
        found.append(table["p_value"].to_numpy()[1:])
    # Between the steps of a discrete p the jitter is uniform.
    p = np.concatenate(found) - np.random.default_rng(0).uniform(0.0, 0.01, size=300)
    assert kstest(p, "uniform").pvalue > 1e-3


# ---------------------------------------------------------------- what is refused


def test_features_that_others_determine_are_named():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 3))
    X = np.column_stack([X, X[:, 0] + X[:, 1]])
    data = zoo.MultiTaskData.from_arrays(
        X, X[:, 2] + 0.5 * rng.normal(size=60), np.repeat([0, 1, 2], 20), feature_names=["a", "b", "c", "sum"]
    ).standardize()
    fit = MODEL.fit(data, "map", progress=False)
    with pytest.warns(
        UserWarning, match="Other features determine 'a', 'b', 'sum', so that their p-values are 1"
    ):
        table = fit.select_features(random_seed=0)
    assert table["selected"].to_numpy().tolist() == [False, False, True, False]


def test_too_few_rows_and_wrong_arguments(data, fit):
    few = zoo.MultiTaskData.from_arrays(data.X[:16], data.y[:16], np.repeat([0, 1], 8))
    with pytest.raises(ValueError, match="16 distinct rows of 6 features"):
        MODEL.fit(few, "map", progress=False).select_features()
    with pytest.raises(ValueError, match="fdr is 5"):
        fit.select_features(fdr=5)
    with pytest.raises(ValueError, match="copies"):
        fit.select_features(copies=0)


@pytest.mark.data
def test_profiles_that_all_tasks_share_are_too_few():
    """Twenty profiles of 13 attributes, rated by everybody: 3,800 rows tell no more than twenty."""
    ratings = zoo.datasets.load_lenk_computers().standardize()
    fit = MODEL.fit(ratings, "map", progress=False)
    with pytest.raises(ValueError, match="20 distinct rows of 13 features"):
        fit.select_features()


@dataclass(frozen=True, kw_only=True)
class _WithMean(zoo.MultiLaplaceGP):
    def mean_function(self, data, priors):
        return 0.0 * super().mean_function(data, priors)


@dataclass(frozen=True, kw_only=True)
class _OtherCovariance(zoo.MultiLaplaceGP):
    def base_covariance(self, input_dim):
        return pm.gp.cov.RatQuad(input_dim, alpha=2.0, ls=1.0)


def test_subclasses():
    data = _data(n_tasks=4)
    own = _OtherCovariance(penalty=20.0, noise_floor=0.1).fit(data, "map", progress=False)
    table = own.select_features(copies=99, random_seed=1)
    assert table["p_value"].to_numpy().argmin() in (0, 3)
    changed = replace(own, factory=_WithMean(penalty=20.0))
    with pytest.raises(
        UnsupportedMethodError, match="overrides the hook `mean_function`, and `select_features`"
    ):
        changed.select_features()


def test_draws_are_refused():
    few = {"draws": 2, "tune": 2, "chains": 1, "nuts": {"nuts_sampler": "pymc", "max_treedepth": 2}}
    fit = MODEL.fit(_data(n_tasks=2), "nuts", progress=False, random_seed=0, **few)
    with pytest.raises(UnsupportedMethodError, match=r'by method "nuts".*method="map"'):
        fit.select_features()
